// SPDX-License-Identifier: Apache-2.0
// The account of an emulator's devices.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "account/source.h"
#include "emulator/account_reader.h"

namespace weir::account {

class EmulatorSource final : public Source {
 public:
  /// Connects on the first read.
  explicit EmulatorSource(std::string socket) : socket_(std::move(socket)) {}
  Result<std::vector<DeviceUse>> Read() override;

 private:
  Result<std::vector<DeviceUse>> ReadAll();

  const std::string socket_;
  std::optional<emulator::AccountReader> reader_;
};

}  // namespace weir::account
