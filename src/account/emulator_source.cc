// SPDX-License-Identifier: Apache-2.0
#include "account/emulator_source.h"

namespace weir::account {

Result<std::vector<DeviceUse>> EmulatorSource::Read() {
  auto uses = ReadAll();
  if (!uses) reader_.reset();
  return uses;
}

Result<std::vector<DeviceUse>> EmulatorSource::ReadAll() {
  if (!reader_) {
    WEIR_TRY(reader_, emulator::AccountReader::Connect(socket_, "weir-gpu-account"));
  }
  std::vector<DeviceUse> uses;
  for (std::uint32_t i = 0; i < reader_->devices().size(); ++i) {
    WEIR_TRY(const emulator::DeviceUse read, reader_->Read(i));
    DeviceUse use{.busy = read.busy, .clients = {}};
    for (const emulator::ClientUse& client : read.clients)
      use.clients.push_back({.key = client.key, .pid = client.pid, .used = client.Sum()});
    uses.push_back(std::move(use));
  }
  return uses;
}

}  // namespace weir::account
