// SPDX-License-Identifier: Apache-2.0
// Messages on a vGPU's attach socket (SOCK_SEQPACKET: one message per packet). Little-endian, fixed width, versioned.
// Each starts with an envelope; bytes beyond what this version knows are skipped.
//
//   agent                         daemon
//     │  Hello                      │   identity comes from SO_PEERCRED, not from the message
//     │────────────────────────────▶│
//     │  Welcome + 3 descriptors    │   vGPU region, process region, doorbell (eventfd)
//     │◀────────────────────────────│   or Refusal, and the socket is closed
//     │  Command (pause, resume …)  │   announced by VgpuRegion.messages_sent
//     │◀────────────────────────────│
//     │  Ack                        │
//     │────────────────────────────▶│
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"

namespace weir::proto {

inline constexpr std::uint32_t kAttachMagic = 0x31544157;  // "WAT1"
inline constexpr std::uint16_t kAttachVersion = 1;
/// Maximum size of a message; a longer packet is refused.
inline constexpr std::size_t kAttachMessageBytesMax = 512;
/// Descriptors sent with a Welcome, in this order.
enum WelcomeDescriptor { kVgpuRegionFd, kProcessRegionFd, kDoorbellFd, kWelcomeFds };

enum class Api : std::uint16_t { kUnknown = 0, kGl = 1, kVulkan = 2, kCuda = 3, kOpenCl = 4, kModule = 5 };
inline constexpr std::uint16_t kApiMax = 5;
const char* NameOf(Api api);
/// Whether the API presents frames. An agent with an unknown API is assumed to do so.
constexpr bool Draws(Api api) { return api == Api::kUnknown || api == Api::kGl || api == Api::kVulkan; }

/// Requests of the daemon to an agent. Memory, oversubscription and partition use these and add no others.
enum class CommandKind : std::uint16_t { kPause = 1, kResume = 2, kEvict = 3, kDrain = 4, kMigrate = 5, kDetach = 6 };
inline constexpr std::uint16_t kCommandKindMax = 6;

struct Hello {
  std::uint16_t gate_version_major = 0;
  std::uint16_t gate_version_minor = 0;
  Api api = Api::kUnknown;
  std::string program;  // at most 63 bytes; for display, never for decisions
  friend bool operator==(const Hello&, const Hello&) = default;
};

/// CPUs of a software device, one bit each. All zero: a real GPU.
using CpuMask = std::array<std::uint64_t, 16>;

struct Welcome {
  std::uint64_t vgpu_id = 0;
  std::uint64_t process_id = 0;
  std::uint64_t vgpu_region_bytes = 0;
  std::uint64_t process_region_bytes = 0;
  CpuMask device_cpus{};
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

struct Refusal {
  Errc code = Errc::kInternal;
  std::string reason;  // at most 255 bytes
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

struct Command {
  std::uint64_t sequence = 0;
  CommandKind kind = CommandKind::kPause;
  std::uint64_t argument = 0;  // evict: bytes to free; migrate: token; else 0
  friend bool operator==(const Command&, const Command&) = default;
};

struct Ack {
  std::uint64_t sequence = 0;
  Errc code = Errc::kInternal;
  bool done = false;  // false: refused, with `code`
  friend bool operator==(const Ack&, const Ack&) = default;
};

using AttachMessage = std::variant<Hello, Welcome, Refusal, Command, Ack>;

/// Encodes into one packet. Strings that are too long are truncated.
std::vector<std::byte> Encode(const AttachMessage& message);

/// Decodes one packet from an untrusted peer. Errors: kProtocol (foreign, truncated, or a value out of range),
/// kVersionMismatch.
Result<AttachMessage> Decode(std::span<const std::byte> packet);

}  // namespace weir::proto
