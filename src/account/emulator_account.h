// SPDX-License-Identifier: Apache-2.0
// The account of an emulated GPU by process, as weir-emulated-gpu keeps it (docs/accounting.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/fd.h"
#include "proto/emulator_messages.h"

namespace weir::account {

/// What one client (one open context of a process) has used of a device since it began.
struct ClientUse {
  std::uint64_t key = 0;  // of this client alone, also after a restart of the emulator
  std::int64_t pid = 0;
  Duration compute{}, copy_in{}, copy_out{};
  [[nodiscard]] Duration Sum() const { return compute + copy_in + copy_out; }
};

struct DeviceUse {
  Duration busy{};  // of all engines together
  Bytes memory_used{};
  std::vector<ClientUse> clients;
};

struct DeviceNames {
  std::string name, pci;
};

class EmulatorAccount {
 public:
  static Result<EmulatorAccount> Connect(const std::string& socket);

  [[nodiscard]] const std::vector<DeviceNames>& devices() const { return devices_; }
  /// kUnavailable: the emulator has gone.
  Result<DeviceUse> Read(std::uint32_t device);

 private:
  explicit EmulatorAccount(platform::Fd connection) : connection_(std::move(connection)) {}
  [[nodiscard]] Result<proto::emulator::Message> Ask(const proto::emulator::Message& message) const;

  platform::Fd connection_;
  std::vector<DeviceNames> devices_;
};

/// A client's use in the form that Linux' DRM drivers print in /proc/PID/fdinfo (drm-usage-stats).
std::string FdinfoText(const ClientUse& client, const DeviceNames& device);

}  // namespace weir::account
