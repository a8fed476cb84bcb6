// SPDX-License-Identifier: Apache-2.0
#include "tools/record/frame_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/common/frame_rows.h"
#include "tools/record/trace_rows.h"

namespace weir::cli {
namespace {

constexpr std::size_t kTraceRoomLeft = std::size_t{4} << 20;  // enough for one reply's frames and the trace's end

core::FramePromise PromiseOf(const VgpuView& vgpu) { return {vgpu.settings.fps, vgpu.settings.latency}; }

core::FrameTimes TimesOf(const FrameRow& row) {
  return {InstantFromNs(row.begin_ns), InstantFromNs(row.present_ns), InstantFromNs(row.submit_ns),
          InstantFromNs(row.end_ns),   nanoseconds(row.predicted_ns), nanoseconds(row.start_delay_ns)};
}

double TargetMs(const VgpuView& vgpu) {
  if (vgpu.settings.latency > Duration{}) return MillisecondsOf(vgpu.settings.latency);
  return vgpu.settings.fps > 0 ? 1000 / vgpu.settings.fps : 0;
}

Result<DeviceView> DeviceOf(const ControlClient& client, const VgpuView& vgpu) {
  WEIR_TRY(const nlohmann::json reply, client.Get("/v1/devices"));
  WEIR_TRY(const auto devices, DevicesFromJson(reply));
  for (const DeviceView& device : devices)
    if (device.name == vgpu.device) return device;
  return Fail(Errc::kProtocol,
              fmt::format("the daemon lists no device '{}', which vGPU '{}' is on", vgpu.device, vgpu.name));
}

}  // namespace

FrameRecorder::FrameRecorder(ControlClient client, VgpuView vgpu, std::int64_t start_ns)
    : client_(std::move(client)), vgpu_(std::move(vgpu)), start_ns_(start_ns), rows_(start_ns, TargetMs(vgpu_)) {}

Status FrameRecorder::Begin(const RecordPaths& paths) {
  WEIR_TRY(const DeviceView device, DeviceOf(client_, vgpu_));
  WEIR_TRY(const nlohmann::json past,
           client_.Get(fmt::format("{}/frames?after={}&limit=0", VgpuTarget(vgpu_.name), INT64_MAX)));
  WEIR_TRY(const FrameRows none, FrameRowsFromJson(past));
  next_ = none.next;
  ring_lost_at_begin_ = vgpu_.totals.records_lost;
  if (!paths.csv.empty()) {
    WEIR_TRY(csv_, OutputFile::Make(paths.csv));
    files_.push_back(paths.csv);
    WEIR_TRY_STATUS(csv_->Write(CsvHeader()));
  }
  if (!paths.trace.empty()) {
    WEIR_TRY(trace_, OutputFile::Make(paths.trace));
    files_.push_back(paths.trace);
    encoder_.emplace(TraceHeaderOf(vgpu_, device, start_ns_));
    WEIR_TRY_STATUS(trace_->Write(encoder_->Take()));
  }
  return Ok();
}

Status FrameRecorder::ReadVgpu() {
  WEIR_TRY(const nlohmann::json reply, client_.Get(VgpuTarget(vgpu_.name)));
  WEIR_TRY(vgpu_, VgpuFromJson(reply));
  for (const ProcessView& process : vgpu_.processes) known_[process.pid].process = process;
  if (encoder_ && vgpu_.totals.settled_at_ns > charged_at_ns_) {
    charged_at_ns_ = vgpu_.totals.settled_at_ns;
    encoder_->Add(TraceChargeOf(vgpu_));
  }
  return Ok();
}

Status FrameRecorder::Poll(std::int64_t until_ns) {
  WEIR_TRY_STATUS(ReadVgpu());  // first, so that the processes of the frames are known
  WEIR_TRY(const nlohmann::json reply, client_.Get(fmt::format("{}/frames?after={}", VgpuTarget(vgpu_.name), next_)));
  WEIR_TRY(const FrameRows frames, FrameRowsFromJson(reply));
  next_ = frames.next;
  log_lost_ += static_cast<std::uint64_t>(std::max<std::int64_t>(frames.lost, 0));
  std::string csv;
  for (const FrameRow& row : frames.rows)
    if (row.begin_ns >= start_ns_ && row.end_ns <= until_ns && times_.size() < kFramesMax) Keep(row, csv);
  // Both files are written, even if one write fails.
  const Status csv_written = csv_ ? csv_->Write(csv) : Ok();
  const Status trace_written = trace_ ? trace_->Write(encoder_->Take()) : Ok();
  return csv_written ? trace_written : csv_written;
}

void FrameRecorder::Keep(const FrameRow& row, std::string& csv) {
  Known& known = known_[row.pid];
  known.process.pid = row.pid;
  ++known.frames;
  surfaces_.emplace(row.pid, row.surface);
  times_.push_back(TimesOf(row));
  if (csv_) csv += rows_.Row(row, known.process);
  if (encoder_) encoder_->Add(TraceFrameOf(row, TracePlaceOf(known)));
}

std::uint32_t FrameRecorder::TracePlaceOf(Known& known) {
  if (!known.in_trace) {
    known.in_trace = trace_processes_++;
    encoder_->Add(TraceProcessOf(known.process));
  }
  return *known.in_trace;
}

bool FrameRecorder::Full() const {
  return times_.size() >= kFramesMax || trace_processes_ >= proto::kTraceProcessesMax ||
         (trace_ && trace_->written() + kTraceRoomLeft > proto::kTraceBytesMax);
}

Status FrameRecorder::End(std::int64_t until_ns) {
  Status csv_closed = csv_ ? csv_->Close() : Ok();
  Status trace_closed = Ok();
  if (trace_) {
    if (const RecordingSummary so_far = Summary("", {}); so_far.lost > 0) encoder_->AddLost(so_far.lost);
    encoder_->AddEnd(until_ns);
    trace_closed = trace_->Write(encoder_->Take());
    if (Status closed = trace_->Close(); trace_closed) trace_closed = std::move(closed);
  }
  return csv_closed ? trace_closed : csv_closed;
}

RecordingSummary FrameRecorder::Summary(std::string ended_by, Duration recorded) const {
  RecordingSummary summary;
  summary.vgpu = vgpu_;
  summary.ended_by = std::move(ended_by);
  summary.recorded = recorded;
  summary.figures = core::Summarize(times_, PromiseOf(vgpu_));
  const std::int64_t ring_lost = std::max<std::int64_t>(vgpu_.totals.records_lost - ring_lost_at_begin_, 0);
  summary.lost = log_lost_ + static_cast<std::uint64_t>(ring_lost);
  summary.surfaces = surfaces_.size();
  for (const auto& [pid, known] : known_)
    if (known.frames > 0) summary.processes.push_back({known.process, known.frames});
  summary.files = files_;
  return summary;
}

}  // namespace weir::cli
