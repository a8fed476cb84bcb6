// SPDX-License-Identifier: Apache-2.0
// Polls the frames of one vGPU from the daemon and writes each to the requested files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/common/control_client.h"
#include "proto/trace.h"
#include "tools/record/csv.h"
#include "tools/record/output_file.h"
#include "tools/record/summary_text.h"

namespace weir::cli {

struct RecordPaths {
  std::string csv, trace;  // empty: none
};

class FrameRecorder {
 public:
  /// Upper bound of the recorded frames: hours of frames, and about 400 MiB in memory.
  static constexpr std::size_t kFramesMax = 10'000'000;

  /// Records the frames that began at `start_ns` or later.
  FrameRecorder(ControlClient client, VgpuView vgpu, std::int64_t start_ns);

  /// Makes the files, and skips the frames that the daemon already has.
  Status Begin(const RecordPaths& paths);
  /// Reads the frames since the last call. Frames that ended after `until_ns` are left out.
  Status Poll(std::int64_t until_ns);
  /// Whether no more frames fit into the trace, or into memory.
  [[nodiscard]] bool Full() const;
  [[nodiscard]] bool AnyFrame() const { return !times_.empty(); }
  /// Whether the daemon lists processes on the vGPU.
  [[nodiscard]] bool Attached() const { return !vgpu_.processes.empty(); }
  /// Completes and closes the files. They also contain what was recorded before an error.
  Status End(std::int64_t until_ns);
  [[nodiscard]] RecordingSummary Summary(std::string ended_by, Duration recorded) const;

 private:
  struct Known {
    ProcessView process;
    std::uint64_t frames = 0;
    std::optional<std::uint32_t> in_trace;  // the process's index in the trace
  };
  Status ReadVgpu();
  void Keep(const FrameRow& row, std::string& csv);
  std::uint32_t TracePlaceOf(Known& known);

  ControlClient client_;
  VgpuView vgpu_;
  std::int64_t start_ns_;
  std::int64_t next_ = 0;
  std::int64_t ring_lost_at_begin_ = 0;
  std::int64_t charged_at_ns_ = 0;  // time of the last charge in the trace
  std::uint64_t log_lost_ = 0;
  std::map<std::int64_t, Known> known_;  // by pid
  std::set<std::pair<std::int64_t, std::int64_t>> surfaces_;
  std::vector<core::FrameTimes> times_;
  CsvRows rows_;
  std::optional<OutputFile> csv_, trace_;
  std::optional<proto::TraceEncoder> encoder_;
  std::uint32_t trace_processes_ = 0;
  std::vector<std::string> files_;
};

}  // namespace weir::cli
