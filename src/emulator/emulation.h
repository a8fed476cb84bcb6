// SPDX-License-Identifier: Apache-2.0
// The logic of weir-emulated-gpu, without sockets and without a clock: messages in, messages out, `now` as an argument.
//
//   client:  entered ──Hello──▶ welcomed ──Submit, Present, Allocate …──▶ left: everything that it held is released
//               └─ another message, or a broken rule: an error, and the caller drops the client ─┘
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/device/faulty_device.h"
#include "emulator/device_file.h"
#include "proto/emulator_messages.h"

namespace weir::emulator {

class Emulation {
 public:
  static constexpr std::size_t kQueuesPerClientMax = 256;
  static constexpr std::size_t kOutstandingPerClientMax = 65'536;
  /// The accounts list a client for this long after it has left, so that a reader sees its last use.
  static constexpr Duration kListedAfterLeaving = seconds(2);
  static constexpr std::size_t kGoneMax = 4096;

  using ClientId = std::uint32_t;
  struct Outgoing {
    ClientId client = 0;
    proto::emulator::Message message;
  };

  explicit Emulation(Emulated emulated);

  ClientId Enter(pid_t pid, uid_t uid);
  void Leave(Instant now, ClientId client);
  /// Handles one packet of a client. An error: the client broke a rule, and the caller must drop it.
  Status Take(Instant now, ClientId client, std::span<const std::byte> packet);
  /// When Advance must be called next; DeviceModel::kNoEvent: not before the next packet.
  [[nodiscard]] Instant NextEvent() const;
  void Advance(Instant now);
  /// The messages to send, in order. The caller clears the list.
  std::vector<Outgoing>& outgoing() { return outgoing_; }

  /// Whether a client is connected that does more than read accounts.
  [[nodiscard]] bool InUse() const;

  /// Ground truth as JSON: each device, and each client of the device.
  [[nodiscard]] std::string AccountsText(Instant now) const;

 private:
  /// A frame that waits to be shown.
  struct Shown {
    std::uint64_t after = 0;  // the number of commands of the queue that must have completed
    std::uint32_t interval = 0;
    std::uint64_t tag = 0;
    Instant at{};  // the vertical blank that shows the frame; zero: the frame's commands have not completed
  };
  struct Queue {
    std::uint32_t device = 0;
    std::uint32_t model_queue = 0;
    std::uint64_t submitted = 0, completed = 0;
    std::deque<Shown> frames;
    Instant last_blank{};
  };
  struct Client {
    pid_t pid = 0;
    uid_t uid = 0;
    bool welcomed = false;
    std::string program;
    std::map<std::uint64_t, Queue> queues;  // by device and the client's number
    std::size_t outstanding = 0;            // commands and frames
    std::uint64_t commands = 0;
    bool reads_accounts = false;
    bool allocates = false;
  };
  /// The account of a client that has left.
  struct Gone {
    proto::emulator::ClientUse use;
    Instant left{};
  };
  struct Device {
    DeviceDescription description;
    std::deque<Gone> gone;  // in order of leaving
    core::FaultyDevice device;
    Duration period{};
    explicit Device(DeviceDescription described)
        : description(std::move(described)),
          device(description.model, description.faults),
          period(FromSeconds(1 / description.refresh)) {}
    [[nodiscard]] const core::DeviceModel& model() const { return device.model(); }
  };

  Status On(Instant now, ClientId id, Client& client, const proto::emulator::Hello& hello);
  Status On(Instant now, ClientId id, Client& client, const proto::emulator::Submit& submit);
  Status On(Instant now, ClientId id, Client& client, const proto::emulator::Present& present);
  Status On(Instant now, ClientId id, Client& client, const proto::emulator::Allocate& allocate);
  Status On(Instant now, ClientId id, Client& client, const proto::emulator::Free& free);
  Status On(Instant now, ClientId id, Client& client, const proto::emulator::AskAccounts& ask);
  Status On(Instant now, ClientId id, Client& client, const proto::emulator::AskUse& ask);
  template <typename Other>
  Status On(Instant, ClientId, Client&, const Other&) {
    return Fail(Errc::kProtocol, "a message that only the emulator sends");
  }
  [[gnu::noinline]] void Say(ClientId client, proto::emulator::Message message);
  Result<Queue*> QueueOf(ClientId id, Client& client, std::uint32_t device, std::uint32_t queue);
  void AdvanceDevices(Instant now);
  /// Queues messages about the completions in completed_ for the clients of these commands.
  void TellCompleted();
  void ShowFrames(Instant now, ClientId id, Client& client, Queue& queue);
  [[nodiscard]] Instant NextBlank(const Queue& queue, Instant now) const;
  [[nodiscard]] std::string WelcomeText(const Client& client) const;
  /// The use of a device by one client.
  static proto::emulator::ClientUse UseOf(const Device& device, ClientId id, pid_t pid, Instant now);

  const std::vector<ProgramCost> programs_;
  const std::vector<KernelCost> kernels_;
  const double kernel_factor_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::map<ClientId, Client> clients_;
  std::map<std::uint32_t, std::pair<ClientId, std::uint64_t>> model_queues_;  // owners of the models' queues
  std::multimap<Instant, std::pair<ClientId, std::uint64_t>> blanks_;         // queues with a frame for that blank
  std::vector<Outgoing> outgoing_;
  std::vector<core::DeviceCompletion> completed_;
  ClientId next_client_ = 1;
  std::uint32_t next_model_queue_ = 1;
};

}  // namespace weir::emulator
