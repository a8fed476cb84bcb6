// SPDX-License-Identifier: Apache-2.0
// The port to a device of the emulator. The environment names the device:
//
//   WEIR_EMULATOR_SOCKET   where weir-emulated-gpu listens
//   WEIR_EMULATED_DEVICE   number, UUID or PCI address of the device; without it, the first
#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "emulator/client.h"
#include "emulator/gl/port.h"

namespace weir::emulator::gl {
namespace {

constexpr std::uint32_t kQueue = 0;
/// Of a device whose description sets no limit, and the most of any: the emulator bounds what a client has under way.
constexpr std::uint32_t kDepthMax = 1024;

class EmulatorPort final : public Port {
 public:
  EmulatorPort(std::unique_ptr<Client> client, std::uint32_t device, std::function<void()> lost)
      : lost_(std::move(lost)), device_(device), client_(std::move(client)) {}

  bool Submit(Duration work, Done done) override {
    return client_->Submit({.device = device_, .queue = kQueue, .work_ns = static_cast<std::uint64_t>(work.count())},
                           Taking(std::move(done)));
  }
  bool Present(unsigned interval, Done done) override {
    return client_->Present(device_, kQueue, interval, Taking(std::move(done)));
  }
  void CloseInChild() noexcept override { client_->CloseInChild(); }
  [[nodiscard]] FrameCost cost() const override {
    return {.fixed = client_->frame().fixed, .factor = client_->frame().factor};
  }
  [[nodiscard]] std::size_t queue_depth() const override {
    const std::uint32_t depth = client_->devices()[device_].queue_depth;
    return depth == 0 ? kDepthMax : std::min(depth, kDepthMax);
  }
  [[nodiscard]] bool drawn() const override { return client_->frame().drawn; }
  [[nodiscard]] std::string name() const override {
    std::string name = client_->devices()[device_].name;
    const std::string suffix = " (emulated)";  // the driver appends it
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    return name;
  }

 private:
  Client::Done Taking(Done done) {
    return [this, done = std::move(done)](Instant began, Instant ended, Client::Ending ending) {
      if (ending == Client::Ending::kLost) lost_();
      done(began, ended);
    };
  }
  const std::function<void()> lost_;
  const std::uint32_t device_;
  const std::unique_ptr<Client> client_;  // last, because its thread uses the other members
};

}  // namespace

std::unique_ptr<Port> ConnectPort(Fates fates, std::string& error) {
  const char* socket = std::getenv("WEIR_EMULATOR_SOCKET");
  if (socket == nullptr) {
    error = "WEIR_EMULATOR_SOCKET does not name the emulator's socket";
    return nullptr;
  }
  auto client = Client::Connect(socket, program_invocation_short_name, std::move(fates.gone));
  if (!client) {
    error = client.error().message;
    return nullptr;
  }
  const char* wanted = std::getenv("WEIR_EMULATED_DEVICE");
  const std::string device = wanted == nullptr ? "0" : wanted;
  const auto& devices = (*client)->devices();
  for (std::uint32_t i = 0; i < devices.size(); ++i)
    if (device == std::to_string(i) || device == devices[i].uuid || device == devices[i].pci)
      return std::make_unique<EmulatorPort>(std::move(*client), i, std::move(fates.lost));
  error = "the emulator has no device '" + device + "'";
  return nullptr;
}

}  // namespace weir::emulator::gl
