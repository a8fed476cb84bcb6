// SPDX-License-Identifier: Apache-2.0
// A driver's account of each client of a device, and the interface for reading it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::account {

/// The use of one client (one open context of a process) since it began, summed over all engines.
struct ClientUse {
  std::uint64_t key = 0;  // unique to this client
  std::int64_t pid = 0;
  Duration used{};
};

struct DeviceUse {
  std::optional<Duration> busy;  // of the device, since an arbitrary time; empty: not reported
  std::vector<ClientUse> clients;
};

class Source {
 public:
  virtual ~Source() = default;
  /// One entry for each device of the source, always in the same order. After an error the next call tries again.
  virtual Result<std::vector<DeviceUse>> Read() = 0;
};

}  // namespace weir::account
