// SPDX-License-Identifier: Apache-2.0
// A trace: the demand of one vGPU's programs, frame by frame, so that it can be replayed. Little-endian, versioned;
// docs/protocol/trace.md. A header, followed by appended records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weir::proto {

inline constexpr std::uint32_t kTraceMagic = 0x43525457;  // "WTRC"
inline constexpr std::uint16_t kTraceVersionMajor = 1;
inline constexpr std::uint16_t kTraceVersionMinor = 1;
inline constexpr std::size_t kTraceTextBytesMax = 255;  // of a name
inline constexpr std::size_t kTraceParamsMax = 64;      // of a policy
inline constexpr std::size_t kTraceProcessesMax = 65'536;
/// Two million frames of usual length; longer recordings have to be split.
inline constexpr std::size_t kTraceBytesMax = std::size_t{64} << 20;

/// Conditions of the recording.
struct TraceHeader {
  std::int64_t start_ns = 0;  // CLOCK_MONOTONIC when recording began
  std::string device, device_kind;
  std::uint32_t device_cpus = 0;
  std::string policy;
  std::vector<std::pair<std::string, double>> policy_params;  // finite
  std::string vgpu;
  std::uint32_t weight = 0;
  std::uint32_t cap_ppm = 0;
  std::uint64_t fps_milli = 0;   // promised frames per 1000 s; 0: none
  std::uint64_t latency_ns = 0;  // promised; 0: none
  friend bool operator==(const TraceHeader&, const TraceHeader&) = default;
};

struct TraceProcess {
  std::int64_t pid = 0;
  std::string program, api, renderer, meter;
  friend bool operator==(const TraceProcess&, const TraceProcess&) = default;
};

/// Durations are in nanoseconds and follow each other: think, held (which includes sync, pacing and gate wait),
/// present.
struct TraceFrame {
  std::uint32_t process = 0;  // index into the trace's processes
  std::uint32_t surface = 0;
  std::int64_t begin_ns = 0;     // CLOCK_MONOTONIC: return of the previous present
  std::uint64_t think_ns = 0;    // from there to the program's call of present
  std::uint64_t held_ns = 0;     // from there to the call of the driver's present
  std::uint64_t present_ns = 0;  // from there to its return
  std::uint64_t gpu_ns = 0;      // in the device's unit
  std::uint64_t sync_ns = 0, pace_ns = 0, wait_ns = 0;
  std::uint64_t predicted_ns = 0;  // predicted present_ns; 0: none
  std::uint64_t interval_ns = 0;   // the pace in force; 0: none
  friend bool operator==(const TraceFrame&, const TraceFrame&) = default;
  [[nodiscard]] std::int64_t EndNs() const {
    return begin_ns + static_cast<std::int64_t>(think_ns + held_ns + present_ns);
  }
};

/// What the vGPU had been charged at a reading of the driver's account (docs/accounting.md). A frame's GPU time is what
/// its process measured; the difference of two charges is what the device worked.
struct TraceCharge {
  std::int64_t at_ns = 0;      // CLOCK_MONOTONIC
  std::uint64_t total_ns = 0;  // since the vGPU was created
  friend bool operator==(const TraceCharge&, const TraceCharge&) = default;
};

struct Trace {
  TraceHeader header;
  std::vector<TraceProcess> processes;
  std::vector<TraceFrame> frames;
  std::vector<TraceCharge> charges{};  // none where there is no account, and before version 1.1
  std::uint64_t lost = 0;              // frames that are missing in the trace
  bool complete = false;               // recording ended normally
  std::int64_t recorded_until_ns = 0;  // CLOCK_MONOTONIC; 0 if incomplete
  friend bool operator==(const Trace&, const Trace&) = default;
};

/// Times, spans and their sums are below this (146 years), so that nothing overflows.
inline constexpr std::uint64_t kTraceNsMax = std::uint64_t{1} << 62;

/// Encodes a trace piece by piece: the caller writes what Take returns, in order.
class TraceEncoder {
 public:
  explicit TraceEncoder(const TraceHeader& header);
  /// Must precede the first frame of the process.
  void Add(const TraceProcess& process);
  void Add(const TraceFrame& frame);
  void Add(const TraceCharge& charge);
  void AddLost(std::uint64_t frames);
  /// Must be the last record.
  void AddEnd(std::int64_t until_ns);
  /// Whole records that were added since the last call.
  std::vector<std::byte> Take() { return std::exchange(bytes_, {}); }

 private:
  void AddRecord(std::uint8_t kind, std::span<const std::byte> body);
  std::vector<std::byte> bytes_;
  std::int64_t last_begin_ns_ = 0;
};

std::vector<std::byte> EncodeTrace(const Trace& trace);

/// Accepts any bytes. Fails with kVersionMismatch for another major version, otherwise with kProtocol and the position
/// of the fault. Skips unknown kinds of records, and unknown bytes at the end of a record.
Result<Trace> DecodeTrace(std::span<const std::byte> bytes);

}  // namespace weir::proto
