// SPDX-License-Identifier: Apache-2.0
// A driver's connection to weir-emulated-gpu. Any thread may call it.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "emulator/welcome.h"
#include "platform/fd.h"
#include "proto/emulator_messages.h"

namespace weir::emulator {

class Client {
 public:
  enum class Ending { kDone, kLost, kFull, kGone };  // as proto::emulator::Ending; kGone: the emulator has gone
  /// Called once, on the client's thread. The times are valid only with kDone.
  using Done = std::function<void(Instant began, Instant ended, Ending ending)>;

  /// `gone` is called once on the client's thread when the emulator has gone, after the callbacks of all outstanding
  /// commands.
  static Result<std::unique_ptr<Client>> Connect(const std::string& socket, const std::string& program,
                                                 std::function<void()> gone);
  ~Client();
  /// For a forked child process: closes its copy of the parent's connection. The child must call no other function of
  /// the client, and not the destructor.
  void CloseInChild() noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] const std::vector<ClientDevice>& devices() const { return welcome_.devices; }
  [[nodiscard]] const ClientFrame& frame() const { return welcome_.frame; }
  [[nodiscard]] const std::vector<KernelCost>& kernels() const { return welcome_.kernels; }
  [[nodiscard]] double kernel_factor() const { return welcome_.kernel_factor; }
  /// False, and `done` is not called: the emulator has gone.
  bool Submit(proto::emulator::Command command, Done done);
  bool Present(std::uint32_t device, std::uint32_t queue, std::uint32_t interval, Done done);
  enum class Room { kTaken, kNone, kLost, kGone };
  /// Waits for the emulator's answer. Must not be called on the client's thread.
  Room Allocate(std::uint32_t device, Bytes bytes);
  /// Returns when the emulator has released the memory. On the client's thread it returns at once.
  void Free(std::uint32_t device, Bytes bytes);

 private:
  Client(platform::Fd socket, std::function<void()> gone) : socket_(std::move(socket)), gone_(std::move(gone)) {}
  Status Welcome(const std::string& program);
  /// Requires the lock.
  bool Send(std::uint64_t tag, const proto::emulator::Message& message, Done done);
  bool SendNow(const proto::emulator::Message& message);
  void Take(const proto::emulator::Completed& completed);
  void Run();

  const platform::Fd socket_;
  const std::function<void()> gone_;
  WelcomeContents welcome_;
  std::mutex mutex_;
  std::map<std::uint64_t, Done> outstanding_;             // by tag
  std::map<std::uint64_t, std::optional<Room>> answers_;  // to Allocate, by tag
  std::condition_variable answered_;
  std::uint64_t next_tag_ = 1;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace weir::emulator
