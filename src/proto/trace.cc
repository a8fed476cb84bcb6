// SPDX-License-Identifier: Apache-2.0
#include "proto/trace.h"

#include <bit>
#include <cmath>

#include "base/check.h"
#include "proto/wire.h"

namespace weir::proto {
namespace {

// A record: kind u8, length of its body as varint, body.
enum Kind : std::uint8_t { kProcess = 1, kFrame = 2, kLost = 3, kEnd = 4, kCharge = 5 };

constexpr std::uint64_t kLostMax = std::uint64_t{1} << 40;

/// Maps small numbers of either sign to small numbers: 0, -1, 1, -2 … to 0, 1, 2, 3 …
std::uint64_t ZigZag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
std::int64_t UnZigZag(std::uint64_t coded) {
  return static_cast<std::int64_t>(coded >> 1) ^ -static_cast<std::int64_t>(coded & 1);
}

void PutText(WireWriter& w, const std::string& text) { w.PutShortString(text, kTraceTextBytesMax); }

std::vector<std::byte> BodyOf(const TraceHeader& h) {
  WireWriter w;
  w.PutVarint(static_cast<std::uint64_t>(h.start_ns));
  PutText(w, h.device);
  PutText(w, h.device_kind);
  w.PutVarint(h.device_cpus);
  PutText(w, h.policy);
  const std::size_t params = std::min(h.policy_params.size(), kTraceParamsMax);
  w.PutVarint(params);
  for (std::size_t i = 0; i < params; ++i) {
    PutText(w, h.policy_params[i].first);
    w.Put(std::bit_cast<std::uint64_t>(h.policy_params[i].second));
  }
  PutText(w, h.vgpu);
  w.PutVarint(h.weight);
  w.PutVarint(h.cap_ppm);
  w.PutVarint(h.fps_milli);
  w.PutVarint(h.latency_ns);
  return std::move(w).Take();
}

Error Bad(std::size_t at, const std::string& what) {
  return Fail(Errc::kProtocol, "trace: " + what + ", at byte " + std::to_string(at));
}

/// Reads one record or the header, and keeps the first error.
class Body {
 public:
  explicit Body(WireReader reader) : reader_(reader) {}
  std::uint64_t Number(const char* what, std::uint64_t max) {
    const std::uint64_t value = reader_.GetVarint();
    if (value <= max) return value;
    if (fault_.empty()) fault_ = std::string(what) + " " + std::to_string(value) + " is out of range";
    return 0;
  }
  std::uint32_t Small(const char* what) { return static_cast<std::uint32_t>(Number(what, UINT32_MAX)); }
  std::uint64_t Span(const char* what) { return Number(what, kTraceNsMax - 1); }
  std::int64_t Difference() { return UnZigZag(reader_.GetVarint()); }
  std::string Text() { return reader_.GetShortString(); }
  double Finite(const char* what) {
    const auto value = std::bit_cast<double>(reader_.Get<std::uint64_t>());
    if (std::isfinite(value)) return value;
    if (fault_.empty()) fault_ = std::string(what) + " is not a finite number";
    return 0;
  }
  /// The first error; empty if there is none.
  [[nodiscard]] std::string Fault() const {
    return reader_.short_read() ? "a record is shorter than its fields" : fault_;
  }

 private:
  WireReader reader_;
  std::string fault_;
};

TraceHeader ReadHeader(Body& body) {
  TraceHeader h;
  h.start_ns = static_cast<std::int64_t>(body.Span("start"));
  h.device = body.Text();
  h.device_kind = body.Text();
  h.device_cpus = body.Small("number of CPUs");
  h.policy = body.Text();
  const std::uint64_t params = body.Number("number of parameters", kTraceParamsMax);
  for (std::uint64_t i = 0; i < params; ++i) {
    std::string name = body.Text();
    h.policy_params.emplace_back(std::move(name), body.Finite("a policy's parameter"));
  }
  h.vgpu = body.Text();
  h.weight = body.Small("weight");
  h.cap_ppm = body.Small("cap");
  h.fps_milli = body.Number("rate", kTraceNsMax);
  h.latency_ns = body.Span("latency");
  return h;
}

TraceProcess ReadProcess(Body& body) {
  TraceProcess p;
  p.pid = static_cast<std::int64_t>(body.Number("process id", INT32_MAX));
  p.program = body.Text();
  p.api = body.Text();
  p.renderer = body.Text();
  p.meter = body.Text();
  return p;
}

/// Does not check the sum of the frame's spans.
TraceFrame ReadFrame(Body& body, std::int64_t last_begin_ns, std::int64_t& difference) {
  TraceFrame f;
  f.process = body.Small("process");
  f.surface = body.Small("surface");
  difference = body.Difference();
  f.begin_ns = last_begin_ns;
  f.think_ns = body.Span("think time");
  f.held_ns = body.Span("held time");
  f.present_ns = body.Span("present time");
  f.gpu_ns = body.Span("GPU time");
  f.sync_ns = body.Span("sync time");
  f.pace_ns = body.Span("pacing time");
  f.wait_ns = body.Span("wait time");
  f.predicted_ns = body.Span("prediction");
  f.interval_ns = body.Span("interval");
  return f;
}

class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : reader_(bytes), size_(bytes.size()) {}

  Result<Trace> Run() {
    WEIR_TRY_STATUS(TakeHeader());
    while (reader_.left() > 0) WEIR_TRY_STATUS(TakeRecord());
    return std::move(trace_);
  }

 private:
  [[nodiscard]] std::size_t At() const { return size_ - reader_.left(); }

  Status TakeHeader() {
    if (size_ > kTraceBytesMax)
      return Bad(kTraceBytesMax,
                 "longer than the " + std::to_string(kTraceBytesMax >> 20) + " MiB that a trace may have; cut it");
    if (reader_.Get<std::uint32_t>() != kTraceMagic) return Bad(0, "not a trace of Weir (wrong magic)");
    const auto major = reader_.Get<std::uint16_t>();
    if (major != kTraceVersionMajor && !reader_.short_read())
      return Fail(Errc::kVersionMismatch, "trace: version " + std::to_string(major) + ", this side reads " +
                                              std::to_string(kTraceVersionMajor));
    reader_.Get<std::uint16_t>();  // minor version: only adds fields
    Body body(reader_.Part(reader_.GetVarint()));
    if (reader_.short_read()) return Bad(size_, "cut off within the header");
    trace_.header = ReadHeader(body);
    if (const std::string fault = body.Fault(); !fault.empty()) return Bad(8, "header: " + fault);
    last_begin_ns_ = trace_.header.start_ns;
    return Ok();
  }

  Status TakeRecord() {
    const std::size_t at = At();
    const auto kind = reader_.Get<std::uint8_t>();
    Body body(reader_.Part(reader_.GetVarint()));
    if (reader_.short_read())
      return Bad(
          at, "cut off within a record; the " + std::to_string(trace_.frames.size()) + " frames before it are whole");
    if (trace_.complete) return Bad(at, "a record after the end");
    switch (kind) {
      case kProcess: trace_.processes.push_back(ReadProcess(body)); break;
      case kFrame: WEIR_TRY_STATUS(TakeFrame(body, at)); break;
      case kCharge:
        trace_.charges.push_back(
            {static_cast<std::int64_t>(body.Span("time of a charge")), body.Span("what was charged")});
        break;
      case kLost: trace_.lost += body.Number("number of lost frames", kLostMax); break;
      case kEnd:
        trace_.recorded_until_ns = static_cast<std::int64_t>(body.Span("end"));
        trace_.complete = true;
        break;
      default: return Ok();  // a record of a later minor version
    }
    if (const std::string fault = body.Fault(); !fault.empty()) return Bad(at, fault);
    if (trace_.processes.size() > kTraceProcessesMax) return Bad(at, "too many processes");
    if (trace_.lost > kLostMax) return Bad(at, "more lost frames than possible");
    return Ok();
  }

  Status TakeFrame(Body& body, std::size_t at) {
    std::int64_t difference = 0;
    TraceFrame frame = ReadFrame(body, last_begin_ns_, difference);
    if (const std::string fault = body.Fault(); !fault.empty()) return Bad(at, fault);
    if (frame.process >= trace_.processes.size()) return Bad(at, "a frame of a process that isn't listed before it");
    const auto max = static_cast<std::int64_t>(kTraceNsMax);
    if (difference <= -max || difference >= max) return Bad(at, "a frame with an impossible begin");
    frame.begin_ns += difference;  // both are below 2^62
    const std::uint64_t span = frame.think_ns + frame.held_ns;
    if (frame.begin_ns < 0 || frame.begin_ns >= max || span >= kTraceNsMax || span + frame.present_ns >= kTraceNsMax ||
        frame.EndNs() >= max)
      return Bad(at, "a frame with an impossible begin or end");
    if (frame.sync_ns > frame.held_ns || frame.pace_ns > frame.held_ns || frame.wait_ns > frame.held_ns)
      return Bad(at, "a frame that was held for less than its parts");
    last_begin_ns_ = frame.begin_ns;
    trace_.frames.push_back(frame);
    return Ok();
  }

  WireReader reader_;
  std::size_t size_;
  Trace trace_;
  std::int64_t last_begin_ns_ = 0;
};

}  // namespace

TraceEncoder::TraceEncoder(const TraceHeader& header) : last_begin_ns_(header.start_ns) {
  const std::vector<std::byte> body = BodyOf(header);
  WireWriter w;
  w.Put(kTraceMagic);
  w.Put(kTraceVersionMajor);
  w.Put(kTraceVersionMinor);
  w.PutVarint(body.size());
  bytes_ = std::move(w).Take();
  bytes_.insert(bytes_.end(), body.begin(), body.end());
}

void TraceEncoder::AddRecord(std::uint8_t kind, std::span<const std::byte> body) {
  WireWriter w;
  w.Put(kind);
  w.PutVarint(body.size());
  bytes_.insert(bytes_.end(), w.bytes().begin(), w.bytes().end());
  bytes_.insert(bytes_.end(), body.begin(), body.end());
}

void TraceEncoder::Add(const TraceProcess& process) {
  WireWriter w;
  w.PutVarint(static_cast<std::uint64_t>(process.pid));
  for (const std::string* text : {&process.program, &process.api, &process.renderer, &process.meter}) PutText(w, *text);
  AddRecord(kProcess, w.bytes());
}

void TraceEncoder::Add(const TraceFrame& f) {
  WireWriter w;
  w.PutVarint(f.process);
  w.PutVarint(f.surface);
  w.PutVarint(ZigZag(f.begin_ns - last_begin_ns_));
  last_begin_ns_ = f.begin_ns;
  for (const std::uint64_t span :
       {f.think_ns, f.held_ns, f.present_ns, f.gpu_ns, f.sync_ns, f.pace_ns, f.wait_ns, f.predicted_ns, f.interval_ns})
    w.PutVarint(span);
  AddRecord(kFrame, w.bytes());
}

void TraceEncoder::Add(const TraceCharge& charge) {
  WireWriter w;
  w.PutVarint(static_cast<std::uint64_t>(charge.at_ns));
  w.PutVarint(charge.total_ns);
  AddRecord(kCharge, w.bytes());
}

void TraceEncoder::AddLost(std::uint64_t frames) {
  WireWriter w;
  w.PutVarint(frames);
  AddRecord(kLost, w.bytes());
}

void TraceEncoder::AddEnd(std::int64_t until_ns) {
  WireWriter w;
  w.PutVarint(static_cast<std::uint64_t>(until_ns));
  AddRecord(kEnd, w.bytes());
}

std::vector<std::byte> EncodeTrace(const Trace& trace) {
  TraceEncoder encoder(trace.header);
  for (const TraceProcess& process : trace.processes) encoder.Add(process);
  for (const TraceFrame& frame : trace.frames) encoder.Add(frame);
  for (const TraceCharge& charge : trace.charges) encoder.Add(charge);
  if (trace.lost > 0) encoder.AddLost(trace.lost);
  if (trace.complete) encoder.AddEnd(trace.recorded_until_ns);
  return encoder.Take();
}

Result<Trace> DecodeTrace(std::span<const std::byte> bytes) { return Decoder(bytes).Run(); }

}  // namespace weir::proto
