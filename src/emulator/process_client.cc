// SPDX-License-Identifier: Apache-2.0
#include "emulator/process_client.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

namespace weir::emulator {

void GoneNotice::Watch(std::function<void()> tell) {
  std::unique_lock lock(mutex_);
  if (!gone_) {
    tell_ = std::move(tell);
    return;
  }
  lock.unlock();
  tell();
}

void GoneNotice::Gone() {
  std::unique_lock lock(mutex_);
  gone_ = true;
  const std::function<void()> tell = std::exchange(tell_, nullptr);
  lock.unlock();
  if (tell) tell();
}

Result<ProcessClient> ConnectThisProcess() {
  const char* socket = std::getenv("WEIR_EMULATOR_SOCKET");
  if (socket == nullptr) return Fail(Errc::kNotFound, "WEIR_EMULATOR_SOCKET does not name the emulator's socket");
  ProcessClient process{.client = nullptr, .devices = {}, .gone = std::make_shared<GoneNotice>()};
  WEIR_TRY(process.client,
           Client::Connect(socket, program_invocation_short_name, [gone = process.gone] { gone->Gone(); }));
  const char* wanted = std::getenv("WEIR_EMULATED_DEVICE");
  const auto& models = process.client->devices();
  for (std::uint32_t i = 0; i < models.size(); ++i)
    if (wanted == nullptr || wanted == std::to_string(i) || wanted == models[i].uuid || wanted == models[i].pci)
      process.devices.push_back(i);
  if (process.devices.empty())
    return Fail(Errc::kNotFound, std::string("the emulator has no device '") + (wanted == nullptr ? "" : wanted) + "'");
  return process;
}

}  // namespace weir::emulator
