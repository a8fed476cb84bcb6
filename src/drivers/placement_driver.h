// SPDX-License-Identifier: Apache-2.0
// OpenStack Placement: a device is a resource provider of its own, below the host's where that is there (nova-compute
// writes the host's inventory, and nobody else's). Its shares are CUSTOM_VGPU_SHARE; what is sellable is the
// allocation_ratio, over the physical shares. Every allocation changes the provider's generation, so all that is
// written is read before, and read again where another one was quicker.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/prng.h"
#include "base/units.h"
#include "drivers/engine_driver.h"
#include "drivers/placement_api.h"

namespace weir::drivers {

struct PlacementSettings {
  std::string host_provider = {};  // by name; the device's own is HOST_GPU
  std::string resource_class = "CUSTOM_VGPU_SHARE";
  std::string trait = "CUSTOM_WEIR_SHARED";
  int tries = 8;                          // of a call that conflicts or meets an overloaded server
  Duration pause_min = milliseconds(10);  // between two, doubled each time, drawn between half of it and all
  Duration pause_max = milliseconds(400);
};

class PlacementDriver final : public EngineDriver {
 public:
  /// Asks the server; the target is without the URL's own path. Tests have their own, and their own sleep.
  using Ask = std::function<Result<http::Answer>(const http::Call& call)>;
  using Sleep = std::function<void(Duration)>;

  PlacementDriver(PlacementSettings settings, Ask ask, Sleep sleep, std::uint64_t seed)
      : settings_(std::move(settings)), ask_(std::move(ask)), sleep_(std::move(sleep)), prng_(seed) {}

  Status Publish(const std::string& gpu, std::int64_t shares) override;
  Status SetSellable(const std::string& gpu, std::int64_t shares) override;
  Result<Usage> ReadUsage(const std::string& gpu) override;

  [[nodiscard]] std::string ProviderName(const std::string& gpu) const { return settings_.host_provider + "_" + gpu; }

 private:
  /// One request and its answer, of any status.
  Result<http::Answer> Once(const char* method, const std::string& target, const std::string& body = "");
  /// The same, again while the server is overloaded; another refusal is an error.
  Result<http::Answer> Call(const char* method, const std::string& target, const std::string& body = "");
  /// `turn` reads and writes; it is taken again where somebody wrote in between.
  Status ReadAndWrite(const std::function<Result<http::Answer>()>& turn, const std::string& attempted);
  void Pause(int failures);

  Result<std::string> UuidOf(const std::string& gpu);
  Result<std::optional<PlacementProvider>> Find(const std::string& name);
  Result<std::string> MakeProvider(const std::string& gpu);
  [[nodiscard]] std::string InventoryTarget(const std::string& uuid) const;
  Result<http::Answer> PutInventory(const std::string& uuid, std::int64_t generation, std::int64_t total, double ratio);
  /// The first one, of which nothing is sellable.
  Result<http::Answer> PostInventory(const std::string& uuid, std::int64_t total);

  PlacementSettings settings_;
  Ask ask_;
  Sleep sleep_;
  Prng prng_;
  std::map<std::string, std::string> uuids_;  // by device
};

}  // namespace weir::drivers
