// SPDX-License-Identifier: Apache-2.0
// OpenStack Placement. A device is a separate resource provider, because nova-compute owns the host's inventory. It is
// a child of the host's provider if that exists. The device's shares are CUSTOM_VGPU_SHARE; the sellable shares are
// expressed as allocation_ratio over the physical shares. Every allocation changes the provider's generation, so each
// write reads first and retries if another client wrote in between.
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
  std::string host_provider = {};  // by name; the device's provider is HOST_GPU
  std::string resource_class = "CUSTOM_VGPU_SHARE";
  std::string trait = "CUSTOM_WEIR_SHARED";
  int tries = 8;                          // of a call that conflicts or meets an overloaded server
  Duration pause_min = milliseconds(10);  // between two tries; doubles each time, randomised between half and all
  Duration pause_max = milliseconds(400);
};

class PlacementDriver final : public EngineDriver {
 public:
  /// Sends a request to the server; the target excludes the URL's own path. Tests substitute it, and the sleep.
  using Ask = std::function<Result<http::Answer>(const http::Call& call)>;
  using Sleep = std::function<void(Duration)>;

  PlacementDriver(PlacementSettings settings, Ask ask, Sleep sleep, std::uint64_t seed)
      : settings_(std::move(settings)), ask_(std::move(ask)), sleep_(std::move(sleep)), prng_(seed) {}

  Status Publish(const std::string& gpu, std::int64_t shares) override;
  Status SetSellable(const std::string& gpu, std::int64_t shares) override;
  Result<Usage> ReadUsage(const std::string& gpu) override;

  [[nodiscard]] std::string ProviderName(const std::string& gpu) const { return settings_.host_provider + "_" + gpu; }

 private:
  /// Sends one request and returns the answer, whatever its status.
  Result<http::Answer> Once(const char* method, const std::string& target, const std::string& body = "");
  /// As Once, but retries while the server is overloaded; any other refusal is an error.
  Result<http::Answer> Call(const char* method, const std::string& target, const std::string& body = "");
  /// `turn` reads and writes; it is repeated if another client wrote in between.
  Status ReadAndWrite(const std::function<Result<http::Answer>()>& turn, const std::string& attempted);
  void Pause(int failures);

  Result<std::string> UuidOf(const std::string& gpu);
  Result<std::optional<PlacementProvider>> Find(const std::string& name);
  Result<std::string> MakeProvider(const std::string& gpu);
  [[nodiscard]] std::string InventoryTarget(const std::string& uuid) const;
  Result<http::Answer> PutInventory(const std::string& uuid, std::int64_t generation, std::int64_t total, double ratio);
  /// Creates the first inventory, with nothing sellable.
  Result<http::Answer> PostInventory(const std::string& uuid, std::int64_t total);

  PlacementSettings settings_;
  Ask ask_;
  Sleep sleep_;
  Prng prng_;
  std::map<std::string, std::string> uuids_;  // by device
};

}  // namespace weir::drivers
