// SPDX-License-Identifier: Apache-2.0
// The account of one DRM device, read from the fdinfo of all its open files.
//
// Each call to Read reads the known files. A search of all descriptors once a second finds processes that have opened
// the device since. A client whose last descriptor is closed is no longer listed. For its use after the last read, the
// charge stays what the program's own meter has reported.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "account/drm_fdinfo.h"
#include "account/source.h"

namespace weir::account {

class DrmSource final : public Source {
 public:
  static constexpr Duration kSearchEvery = seconds(1);
  static constexpr std::size_t kFilesMax = 65'536;

  /// `pci`: as 0000:03:00.0. `proc`: /proc. `now`: the monotonic clock.
  DrmSource(std::string pci, std::string proc, std::function<Instant()> now)
      : pci_(std::move(pci)), proc_(std::move(proc)), now_(std::move(now)) {}
  /// kUnavailable: the driver reports no times of engines.
  Result<std::vector<DeviceUse>> Read() override;

 private:
  struct File {
    std::int64_t pid = 0;
    std::string fdinfo;  // path
  };
  void Search();

  const std::string pci_, proc_;
  const std::function<Instant()> now_;
  std::vector<File> files_;  // descriptors of /dev/dri
  Instant searched_{};
};

}  // namespace weir::account
