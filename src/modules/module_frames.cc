// SPDX-License-Identifier: Apache-2.0
#include "modules/module_frames.h"

#include <algorithm>

#include "modules/sha256.h"
#include "proto/wire.h"

namespace weir::modules {
namespace {

using proto::WireReader;
using proto::WireWriter;

enum class FrameKind : std::uint8_t {
  kExecute = 1,
  kForget,
  kDevice,
  kRefusal,
  kDone,
  kFailed,
  kCrash,
  kLost,
  kTable,
  kInspect
};

void PutText(WireWriter& out, std::string_view text, std::size_t max = kTextBytesMax) {
  text = text.substr(0, max);
  out.PutVarint(text.size());
  for (const char c : text) out.Put(static_cast<std::uint8_t>(c));
}

std::string GetText(WireReader& in, bool& bad, std::size_t max = kTextBytesMax) {
  const std::uint64_t size = in.GetVarint();
  if (size > max || size > in.left()) return bad = true, std::string{};
  std::string text(static_cast<std::size_t>(size), '\0');
  for (char& c : text) c = static_cast<char>(in.Get<std::uint8_t>());
  return text;
}

void PutLoads(WireWriter& out, const core::Loads& loads) {
  for (const std::uint64_t load : loads) out.Put(load);
}

core::Loads GetLoads(WireReader& in, bool& bad) {
  core::Loads loads{};
  for (std::uint64_t& load : loads) {
    load = in.Get<std::uint64_t>();
    bad |= load > core::kLoadMax;
  }
  return loads;
}

void PutNeed(WireWriter& out, const core::RunNeed& need) {
  out.Put(need.memory.count);
  PutLoads(out, need.loads);
  out.Put(need.alone_ms);
}

core::RunNeed GetNeed(WireReader& in, bool& bad) {
  core::RunNeed need;
  need.memory.count = in.Get<std::uint64_t>();
  for (std::uint64_t& load : need.loads) load = in.Get<std::uint64_t>();
  need.alone_ms = in.Get<std::uint64_t>();
  if (!core::CheckNeed(need)) bad = true;
  return need;
}

Errc GetErrc(WireReader& in, bool& bad) {
  const auto code = in.Get<std::uint8_t>();
  if (code >= kErrcTable.size()) return bad = true, Errc::kInternal;
  return static_cast<Errc>(code);
}

struct PutFrame {
  WireWriter& out;

  void Kind(FrameKind kind) const { out.Put(static_cast<std::uint8_t>(kind)); }
  void operator()(const ExecuteFrame& frame) const {
    Kind(FrameKind::kExecute);
    out.Put(frame.run);
    out.Put(frame.tenant);
    for (const std::string* text : {&frame.blob, &frame.kernel, &frame.arguments, &frame.input}) PutText(out, *text);
    PutLoads(out, frame.capacity);
  }
  void operator()(const ForgetFrame& frame) const {
    Kind(FrameKind::kForget);
    PutText(out, frame.blob);
  }
  void operator()(const InspectFrame& frame) const {
    Kind(FrameKind::kInspect);
    PutText(out, frame.blob);
  }
  void operator()(const DeviceFrame& frame) const {
    Kind(FrameKind::kDevice);
    for (const std::uint32_t number : {frame.index, frame.count, frame.units}) out.Put(number);
    out.Put(frame.memory_bytes);
    out.Put(frame.local_memory_bytes);
    PutText(out, frame.name);
  }
  void operator()(const RefusalFrame& frame) const {
    Kind(FrameKind::kRefusal);
    out.Put(static_cast<std::uint8_t>(frame.code));
    PutText(out, frame.words);
  }
  void operator()(const DoneFrame& frame) const {
    Kind(FrameKind::kDone);
    out.Put(frame.run);
    out.Put(frame.output_bytes);
    PutText(out, frame.text);
    out.Put(static_cast<std::uint8_t>(frame.measured ? 1 : 0));
    if (!frame.measured) return;
    PutLoads(out, frame.measured->loads);
    out.Put(frame.measured->launches);
    out.Put(frame.measured->device_ns);
  }
  void operator()(const FailedFrame& frame) const {
    Kind(FrameKind::kFailed);
    out.Put(frame.run);
    out.Put(static_cast<std::uint8_t>(frame.code));
    PutText(out, frame.text);
    PutText(out, frame.words);
  }
  void operator()(const CrashFrame& frame) const {
    Kind(FrameKind::kCrash);
    out.Put(frame.run);
    out.Put(frame.signal);
  }
  void operator()(const DeviceLostFrame& frame) const {
    Kind(FrameKind::kLost);
    PutText(out, frame.words);
  }
  void operator()(const TableFrame& frame) const {
    Kind(FrameKind::kTable);
    const std::size_t count = std::min(frame.kernels.size(), kKernelsMax);
    out.PutVarint(count);
    for (std::size_t i = 0; i < count; ++i) {
      PutText(out, frame.kernels[i].name, kKernelNameMax);
      PutText(out, frame.kernels[i].summary, kSummaryMax);
      PutNeed(out, frame.kernels[i].need);
    }
  }
};

ExecuteFrame GetExecute(WireReader& in, bool& bad) {
  ExecuteFrame frame;
  frame.run = in.Get<std::uint64_t>();
  frame.tenant = in.Get<std::uint64_t>();
  for (std::string* text : {&frame.blob, &frame.kernel, &frame.arguments, &frame.input}) *text = GetText(in, bad);
  frame.capacity = GetLoads(in, bad);
  bad |= !IsSha256(frame.blob) || !IsPlainName(frame.kernel) || !(frame.input.empty() || IsSha256(frame.input));
  return frame;
}

TableFrame GetTable(WireReader& in, bool& bad) {
  TableFrame frame;
  const std::uint64_t count = in.GetVarint();
  if (count == 0 || count > kKernelsMax) return bad = true, frame;
  for (std::uint64_t i = 0; i < count && !bad; ++i) {
    KernelLine line;
    line.name = GetText(in, bad, kKernelNameMax);
    line.summary = GetText(in, bad, kSummaryMax);
    line.need = GetNeed(in, bad);
    bad |= !IsPlainName(line.name);
    frame.kernels.push_back(std::move(line));
  }
  return frame;
}

DeviceFrame GetDevice(WireReader& in, bool& bad) {
  DeviceFrame frame;
  for (std::uint32_t* number : {&frame.index, &frame.count, &frame.units}) *number = in.Get<std::uint32_t>();
  frame.memory_bytes = in.Get<std::uint64_t>();
  frame.local_memory_bytes = in.Get<std::uint64_t>();
  frame.name = GetText(in, bad);
  bad |= frame.index >= frame.count || frame.count > 1024;
  return frame;
}

DoneFrame GetDone(WireReader& in, bool& bad) {
  DoneFrame frame;
  frame.run = in.Get<std::uint64_t>();
  frame.output_bytes = in.Get<std::uint64_t>();
  frame.text = GetText(in, bad);
  const auto measured = in.Get<std::uint8_t>();
  bad |= measured > 1;
  if (measured != 1) return frame;
  frame.measured.emplace().loads = GetLoads(in, bad);
  frame.measured->launches = in.Get<std::uint64_t>();
  frame.measured->device_ns = in.Get<std::uint64_t>();
  return frame;
}

OrderFrame OrderOf(FrameKind kind, WireReader& in, bool& bad) {
  if (kind == FrameKind::kExecute) return GetExecute(in, bad);
  std::string blob = GetText(in, bad);
  bad |= (kind != FrameKind::kForget && kind != FrameKind::kInspect) || !IsSha256(blob);
  if (kind == FrameKind::kInspect) return InspectFrame{std::move(blob)};
  return ForgetFrame{std::move(blob)};
}

HostFrame FrameOf(FrameKind kind, WireReader& in, bool& bad) {
  switch (kind) {
    case FrameKind::kDevice: return GetDevice(in, bad);
    case FrameKind::kTable: return GetTable(in, bad);
    case FrameKind::kDone: return GetDone(in, bad);
    case FrameKind::kLost: return DeviceLostFrame{GetText(in, bad)};
    case FrameKind::kRefusal: {
      const Errc code = GetErrc(in, bad);
      return RefusalFrame{code, GetText(in, bad)};
    }
    case FrameKind::kCrash: {
      const auto run = in.Get<std::uint64_t>();
      return CrashFrame{run, in.Get<std::uint32_t>()};
    }
    case FrameKind::kFailed: {
      const auto run = in.Get<std::uint64_t>();
      const Errc code = GetErrc(in, bad);
      std::string text = GetText(in, bad);
      return FailedFrame{run, code, std::move(text), GetText(in, bad)};
    }
    default: bad = true; return DeviceLostFrame{};
  }
}

Error BadFrame(const char* from) {
  return Fail(Errc::kProtocol, std::string("a packet from ") + from + " is not a known frame");
}

}  // namespace

bool IsPlainName(std::string_view text) {
  return !text.empty() && text.size() <= kKernelNameMax && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

std::vector<std::byte> EncodeFrame(const HostFrame& frame) {
  WireWriter out;
  std::visit(PutFrame{out}, frame);
  return std::move(out).Take();
}

std::vector<std::byte> EncodeOrder(const OrderFrame& frame) {
  WireWriter out;
  std::visit(PutFrame{out}, frame);
  return std::move(out).Take();
}

void EncodeCrash(std::uint64_t run, std::uint32_t signal, std::span<std::byte, kCrashFrameBytes> out) noexcept {
  out[0] = static_cast<std::byte>(FrameKind::kCrash);
  for (std::size_t i = 0; i < 8; ++i) out[1 + i] = static_cast<std::byte>(run >> (8 * i));
  for (std::size_t i = 0; i < 4; ++i) out[9 + i] = static_cast<std::byte>(signal >> (8 * i));
}

Result<OrderFrame> DecodeOrder(std::span<const std::byte> packet) {
  WireReader in(packet);
  bool bad = false;
  OrderFrame frame = OrderOf(static_cast<FrameKind>(in.Get<std::uint8_t>()), in, bad);
  if (bad || in.short_read() || in.left() > 0) return BadFrame("weir-modules");
  return frame;
}

Result<HostFrame> DecodeFrame(std::span<const std::byte> packet) {
  WireReader in(packet);
  bool bad = false;
  HostFrame frame = FrameOf(static_cast<FrameKind>(in.Get<std::uint8_t>()), in, bad);
  if (bad || in.short_read() || in.left() > 0) return BadFrame("a module host");
  return frame;
}

}  // namespace weir::modules
