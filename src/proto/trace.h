// SPDX-License-Identifier: Apache-2.0
// A trace: what the programs of one vGPU asked for, frame by frame, so that the demand can be replayed. Little-endian,
// versioned; docs/protocol/trace.md. A header, then records that are appended as they come.
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
inline constexpr std::uint16_t kTraceVersionMinor = 0;
inline constexpr std::size_t kTraceTextBytesMax = 255;  // of a name
inline constexpr std::size_t kTraceParamsMax = 64;      // of a policy
inline constexpr std::size_t kTraceProcessesMax = 65'536;
/// Two million frames of the usual length; a longer trace is to be cut.
inline constexpr std::size_t kTraceBytesMax = std::size_t{64} << 20;

/// Under which conditions the frames were shown.
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

/// Spans are nanoseconds. They follow each other: think, held (sync, pacing and gate wait are parts of it), present.
struct TraceFrame {
  std::uint32_t process = 0;  // of the trace's processes, in their order
  std::uint32_t surface = 0;
  std::int64_t begin_ns = 0;     // CLOCK_MONOTONIC: return of the previous present
  std::uint64_t think_ns = 0;    // from there to the program's call of present
  std::uint64_t held_ns = 0;     // from there to the call of the driver's present
  std::uint64_t present_ns = 0;  // from there to its return
  std::uint64_t gpu_ns = 0;      // in the device's unit
  std::uint64_t sync_ns = 0, pace_ns = 0, wait_ns = 0;
  std::uint64_t predicted_ns = 0;  // of present; 0: none
  std::uint64_t interval_ns = 0;   // the pace in force; 0: none
  friend bool operator==(const TraceFrame&, const TraceFrame&) = default;
  [[nodiscard]] std::int64_t EndNs() const {
    return begin_ns + static_cast<std::int64_t>(think_ns + held_ns + present_ns);
  }
};

struct Trace {
  TraceHeader header;
  std::vector<TraceProcess> processes;
  std::vector<TraceFrame> frames;
  std::uint64_t lost = 0;              // frames that were shown and aren't in the trace
  bool complete = false;               // recording ended in good order
  std::int64_t recorded_until_ns = 0;  // CLOCK_MONOTONIC; 0 when it isn't complete
  friend bool operator==(const Trace&, const Trace&) = default;
};

/// Times and spans, their sums too, are below this (146 years), so that nothing overflows.
inline constexpr std::uint64_t kTraceNsMax = std::uint64_t{1} << 62;

/// Makes a trace's bytes, piece by piece: what was taken is to be written, in order.
class TraceEncoder {
 public:
  explicit TraceEncoder(const TraceHeader& header);
  /// Before its first frame.
  void Add(const TraceProcess& process);
  void Add(const TraceFrame& frame);
  void AddLost(std::uint64_t frames);
  /// The last one.
  void AddEnd(std::int64_t until_ns);
  /// What was added since the last time: whole records.
  std::vector<std::byte> Take() { return std::exchange(bytes_, {}); }

 private:
  void AddRecord(std::uint8_t kind, std::span<const std::byte> body);
  std::vector<std::byte> bytes_;
  std::int64_t last_begin_ns_ = 0;
};

std::vector<std::byte> EncodeTrace(const Trace& trace);

/// Takes any bytes. kVersionMismatch for another major version, else kProtocol with the place of the fault. Kinds of
/// records and bytes at the end of a record that this version doesn't know are skipped.
Result<Trace> DecodeTrace(std::span<const std::byte> bytes);

}  // namespace weir::proto
