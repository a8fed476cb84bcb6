// SPDX-License-Identifier: Apache-2.0
// Reads the account that weir-emulated-gpu keeps of each process (docs/accounting.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "emulator/welcome.h"
#include "platform/fd.h"
#include "proto/emulator_messages.h"

namespace weir::emulator {

/// The use of a device by one client (one open context of a process) since the client connected.
struct ClientUse {
  std::uint64_t key = 0;  // unique for this client, also after a restart of the emulator
  std::int64_t pid = 0;
  Duration compute{}, copy_in{}, copy_out{};
  [[nodiscard]] Duration Sum() const { return compute + copy_in + copy_out; }
};

struct DeviceUse {
  Duration busy{};  // of all engines together
  Bytes memory_used{};
  std::vector<ClientUse> clients;
};

/// A connection that reads accounts.
class AccountReader {
 public:
  /// `program`: the name under which the emulator lists this reader.
  static Result<AccountReader> Connect(const std::string& socket, const std::string& program);

  [[nodiscard]] const std::vector<ClientDevice>& devices() const { return devices_; }
  /// kUnavailable: the emulator has gone.
  Result<DeviceUse> Read(std::uint32_t device);

 private:
  explicit AccountReader(platform::Fd connection) : connection_(std::move(connection)) {}
  [[nodiscard]] Result<proto::emulator::Message> Ask(const proto::emulator::Message& message) const;

  platform::Fd connection_;
  std::vector<ClientDevice> devices_;
};

}  // namespace weir::emulator
