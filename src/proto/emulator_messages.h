// SPDX-License-Identifier: Apache-2.0
// Messages between emulated drivers and weir-emulated-gpu (docs/emulated-gpu.md). SOCK_SEQPACKET: one message per
// packet. Little-endian, fixed width. A message consists of its kind, followed by its fields.
//
//   driver                          emulator
//     │  Hello                        │   SO_PEERCRED identifies the client
//     │──────────────────────────────▶│
//     │  Welcome                      │   devices, costs of kernels and programs
//     │◀──────────────────────────────│   or Refusal, and the socket is closed
//     │  Submit ×n, Present           │
//     │──────────────────────────────▶│
//     │  Completed ×n                 │   not before the model's time
//     │◀──────────────────────────────│
//     │  Allocate ─▶ Allocated, Free, AskAccounts ─▶ Accounts, AskUse ─▶ Use
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"

namespace weir::proto::emulator {

inline constexpr std::uint32_t kMagic = 0x314D4557;  // "WEM1"
inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::size_t kMessageBytesMax = 64 * 1024;
/// Maximum number of commands in one Submit, and of completions in one Completed.
inline constexpr std::size_t kEntriesMax = 512;
inline constexpr std::size_t kProgramBytesMax = 63;

struct Hello {
  std::uint16_t version = kVersion;
  std::string program;  // the client's program, for costs and accounts
};
/// `text`: JSON, as described in docs/emulated-gpu.md.
struct Welcome {
  std::string text;
};
struct Refusal {
  std::string text;
};

struct Command {
  std::uint32_t device = 0;
  std::uint32_t queue = 0;  // chosen by the client
  std::uint64_t tag = 0;    // chosen by the client; returned in the command's completion
  std::uint8_t engine = 0;  // core::EngineKind
  std::uint32_t units = 0;  // 0: all
  std::uint64_t work_ns = 0;
  std::uint64_t bytes = 0;  // for a copy
  friend bool operator==(const Command&, const Command&) = default;
};
struct Submit {
  std::vector<Command> commands;
};
/// Completes when all earlier commands of the queue have completed and the display shows the frame, which is `interval`
/// vertical blanks or more after the previous frame. 0: immediately.
struct Present {
  std::uint32_t device = 0;
  std::uint32_t queue = 0;
  std::uint32_t interval = 0;
  std::uint64_t tag = 0;
};
enum class Ending : std::uint8_t {
  kDone,
  kLost,  // The device is lost, or was reset while this client used it. All later commands of the client end this way.
  kFull,  // The queue had no room for the command.
};
struct Completion {
  std::uint64_t tag = 0;
  std::int64_t began_ns = 0, ended_ns = 0;  // CLOCK_MONOTONIC
  std::uint64_t busy_ns = 0;
  Ending ending = Ending::kDone;
  friend bool operator==(const Completion&, const Completion&) = default;
};
struct Completed {
  std::vector<Completion> completions;
};
struct Allocate {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
  std::uint64_t tag = 0;
};
enum class Room : std::uint8_t { kNone, kTaken, kLost };  // kLost: as Ending::kLost
struct Allocated {
  std::uint64_t tag = 0;
  Room room = Room::kNone;
};
struct Free {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
};
struct AskAccounts {};
/// `text`: JSON.
struct Accounts {
  std::string text;
};

/// Requests the account of a device by client, as a vendor's driver keeps it. The account has pages of kEntriesMax
/// clients: `after` is 0 for the first page, then the last client of the previous page.
struct AskUse {
  std::uint32_t device = 0;
  std::uint32_t after = 0;
};
/// Use by one client since it began, by engine (core::EngineKind).
struct ClientUse {
  std::uint32_t client = 0;
  std::int32_t pid = 0;
  std::uint64_t compute_ns = 0, copy_in_ns = 0, copy_out_ns = 0;
  friend bool operator==(const ClientUse&, const ClientUse&) = default;
};
/// `compute_ns` …: of the device, including clients that are gone. `clients`: present and recent clients, by number.
struct Use {
  std::uint64_t compute_ns = 0, copy_in_ns = 0, copy_out_ns = 0;
  std::uint64_t memory_used = 0;
  std::uint8_t more = 0;
  std::vector<ClientUse> clients;
};

using Message = std::variant<Hello, Welcome, Refusal, Submit, Present, Completed, Allocate, Allocated, Free,
                             AskAccounts, Accounts, AskUse, Use>;

/// WEIR_CHECKs that there are at most kEntriesMax entries, and that a text fits into a packet.
std::vector<std::byte> Encode(const Message& message);
/// kProtocol: the packet is not a message, is too long or too short, or has trailing bytes.
Result<Message> Decode(std::span<const std::byte> packet);

}  // namespace weir::proto::emulator
