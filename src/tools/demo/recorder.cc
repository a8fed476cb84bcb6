// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/common/frame_rows.h"
#include "cli/common/views.h"
#include "platform/clock.h"

namespace weir::cli {

Result<std::vector<Tally>> Recorder::Tallies(const Snapshot& snapshot) const {
  std::vector<Tally> tallies;
  for (const Program& program : programs_) {
    const auto v = std::find_if(snapshot.vgpus.begin(), snapshot.vgpus.end(),
                                [&](const VgpuView& one) { return one.name == program.name; });
    if (v == snapshot.vgpus.end())
      return Fail(Errc::kUnavailable, fmt::format("vGPU '{}' was removed: its program has ended", program.name));
    tallies.push_back({v->totals.frames, v->totals.late_frames, v->totals.gpu_ns, v->totals.wait_ns});
  }
  return tallies;
}

Result<Snapshot> Recorder::Poll() {
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    Program& program = programs_[i];
    WEIR_TRY(const auto reply,
             client_.Get(fmt::format("{}/frames?after={}&limit=16384", VgpuTarget(program.name), program.next)));
    WEIR_TRY(const FrameRows frames, FrameRowsFromJson(reply));
    program.next = frames.next;
    if (!recording_) continue;
    ProgramPhase& kept = phase_.programs[i];
    kept.lost += frames.lost;
    for (const FrameRow& row : frames.rows) kept.frames.push_back({row.end_ns, row.end_ns - row.begin_ns, row.gpu_ns});
  }
  WEIR_TRY(Snapshot snapshot, TakeSnapshot(client_));
  auto place = [this](const VgpuView& v) {
    return std::find_if(programs_.begin(), programs_.end(), [&](const Program& one) { return one.name == v.name; });
  };
  std::stable_sort(snapshot.vgpus.begin(), snapshot.vgpus.end(),
                   [&](const VgpuView& a, const VgpuView& b) { return place(a) < place(b); });
  return snapshot;
}

Status Recorder::Begin(const std::string& policy) {
  WEIR_TRY(const Snapshot snapshot, Poll());
  WEIR_TRY(const std::vector<Tally> tallies, Tallies(snapshot));
  phase_ = Phase{policy, platform::NowNs(), 0, std::vector<ProgramPhase>(programs_.size())};
  for (std::size_t i = 0; i < programs_.size(); ++i) programs_[i].at_begin = tallies[i];
  recording_ = true;
  return Ok();
}

Status Recorder::End() {
  WEIR_TRY(const Snapshot snapshot, Poll());
  WEIR_TRY(const std::vector<Tally> tallies, Tallies(snapshot));
  phase_.end_ns = platform::NowNs();
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    const Tally& before = programs_[i].at_begin;
    phase_.programs[i].tally = {tallies[i].frames - before.frames, tallies[i].late_frames - before.late_frames,
                                tallies[i].gpu_ns - before.gpu_ns, tallies[i].wait_ns - before.wait_ns};
  }
  return Ok();
}

Phase Recorder::Take() {
  recording_ = false;
  for (ProgramPhase& program : phase_.programs)
    std::erase_if(program.frames, [this](const Frame& f) {
      return f.end_ns < phase_.begin_ns || f.end_ns - f.latency_ns >= phase_.end_ns;
    });
  return std::move(phase_);
}

}  // namespace weir::cli
