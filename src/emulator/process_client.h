// SPDX-License-Identifier: Apache-2.0
// The connection of a driver that a program has loaded, to the devices that the program's environment names:
//
//   WEIR_EMULATOR_SOCKET   where weir-emulated-gpu listens
//   WEIR_EMULATED_DEVICE   number, UUID or PCI address of the device; without it, all devices
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "emulator/client.h"

namespace weir::emulator {

/// Tells a driver that the emulator has gone, also if that happens before the driver exists.
class GoneNotice {
 public:
  /// Calls `tell` once: now if the emulator has gone, else when it goes, on the client's thread.
  void Watch(std::function<void()> tell);
  void Gone();

 private:
  std::mutex mutex_;
  bool gone_ = false;
  std::function<void()> tell_;
};

struct ProcessClient {
  std::unique_ptr<Client> client;
  std::vector<std::uint32_t> devices;  // indexes in client->devices(), at least one
  std::shared_ptr<GoneNotice> gone;
};

/// kNotFound: the environment names no emulator, or no device of it. Otherwise as Client::Connect.
Result<ProcessClient> ConnectThisProcess();

}  // namespace weir::emulator
