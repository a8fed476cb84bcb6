// SPDX-License-Identifier: Apache-2.0
// What a driver's account says of each client of a device, and where it is read.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::account {

/// What one client (one open context of a process) has used since it began, on all engines together.
struct ClientUse {
  std::uint64_t key = 0;  // of this client alone
  std::int64_t pid = 0;
  Duration used{};
};

struct DeviceUse {
  std::optional<Duration> busy;  // of the device, since any moment; empty: the driver does not tell
  std::vector<ClientUse> clients;
};

class Source {
 public:
  virtual ~Source() = default;
  /// One entry for each device of the source, always in the same order. An error is not final: the next call tries
  /// again.
  virtual Result<std::vector<DeviceUse>> Read() = 0;
};

}  // namespace weir::account
