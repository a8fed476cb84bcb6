// SPDX-License-Identifier: Apache-2.0
// The driver's account as weir-gpu-account reports it in the body of PUT /v1/use.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"
#include "core/charge/use_reconciler.h"

namespace weir::daemon {

struct ClientUse {
  std::uint64_t key = 0;
  pid_t pid = 0;
  Duration used{};
};
struct DeviceUse {
  std::string device;
  std::optional<Duration> busy;  // empty: the driver does not report it
  std::vector<ClientUse> clients;
};

/// kInvalidArgument names the field that is missing or wrong.
Result<std::vector<DeviceUse>> DeviceUsesFrom(std::string_view body);

/// Finds the vGPU that owns a process by its pid. Ended processes stay known for a while, because the account lists the
/// last use of a process after it has ended.
class ProcessOwners {
 public:
  struct Owner {
    VgpuId vgpu;
    ProcessId process;
  };
  /// How long an ended process stays known.
  static constexpr Duration kRetention = seconds(5);
  static constexpr std::size_t kEndedMax = 4096;

  void Ended(Instant now, pid_t pid, Owner owner);
  /// The counters of one device. `living` holds the owners of its living processes. A client that belongs to no vGPU
  /// gets an owner without an id.
  std::vector<core::UseCounter> CountersOf(Instant now, const std::vector<ClientUse>& clients,
                                           const std::map<pid_t, Owner>& living);

 private:
  struct EndedProcess {
    pid_t pid = 0;
    Owner owner;
    Instant at{};
  };
  std::deque<EndedProcess> ended_;  // ordered by when they ended
};

}  // namespace weir::daemon
