// SPDX-License-Identifier: Apache-2.0
// The account of one DRM device, read from the fdinfo of all its open files.
//
// Each call to Read reads the known files. A search of all descriptors once a second finds processes that have opened
// the device since. A client whose last descriptor is closed is no longer listed. For its use after the last read, the
// charge stays what the program's own meter has reported. A client that has not used the device yet is not listed.
//
// Any user may open many files below /dev/dri. So only descriptors of this device's clients are kept, and a few of each
// client. If these are still too many, there is no account: a part of it would be wrong.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "account/drm_fdinfo.h"
#include "account/source.h"
#include "core/charge/use_reconciler.h"

namespace weir::account {

class DrmSource final : public Source {
 public:
  static constexpr Duration kSearchEvery = seconds(1);
  /// A client stays listed when some of its descriptors are closed between two searches.
  static constexpr std::size_t kFilesOfClientMax = 8;
  struct Limits {
    std::size_t files = 65'536;                               // that each call to Read reads
    std::size_t clients = core::UseReconciler::kCountersMax;  // that have used the device
  };

  /// `pci`: as 0000:03:00.0. `proc`: /proc. `now`: the monotonic clock.
  DrmSource(std::string pci, std::string proc, std::function<Instant()> now, const Limits& limits)
      : pci_(std::move(pci)), proc_(std::move(proc)), now_(std::move(now)), limits_(limits) {}
  DrmSource(std::string pci, std::string proc, std::function<Instant()> now)
      : DrmSource(std::move(pci), std::move(proc), std::move(now), Limits{}) {}
  /// kUnavailable: the driver reports no times of engines. kResourceExhausted: the device has too many clients.
  Result<std::vector<DeviceUse>> Read() override;

 private:
  struct File {
    std::int64_t pid = 0;
    std::string fdinfo;  // path
  };
  void Search();
  [[nodiscard]] std::optional<DrmClient> ClientOf(const std::string& fdinfo) const;
  [[nodiscard]] Error TooMany(std::size_t most, const char* what) const;

  const std::string pci_, proc_;
  const std::function<Instant()> now_;
  const Limits limits_;
  std::vector<File> files_;  // descriptors of the device's clients; one more than the limit: there are too many
  Instant searched_{};
};

}  // namespace weir::account
