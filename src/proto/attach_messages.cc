// SPDX-License-Identifier: Apache-2.0
#include "proto/attach_messages.h"

#include "proto/wire.h"

namespace weir::proto {
namespace {

constexpr std::size_t kProgramBytesMax = 63;
constexpr std::size_t kReasonBytesMax = 255;
constexpr std::uint16_t kErrcMax = static_cast<std::uint16_t>(kErrcTable.size() - 1);

// Envelope: magic u32, version u16, type u16. The type is the variant's index plus one and never reused.
template <typename T>
constexpr std::uint16_t kTypeOf = 0;
template <>
constexpr std::uint16_t kTypeOf<Hello> = 1;
template <>
constexpr std::uint16_t kTypeOf<Welcome> = 2;
template <>
constexpr std::uint16_t kTypeOf<Refusal> = 3;
template <>
constexpr std::uint16_t kTypeOf<Command> = 4;
template <>
constexpr std::uint16_t kTypeOf<Ack> = 5;

void Put(WireWriter& w, const Hello& m) {
  w.Put(m.gate_version_major);
  w.Put(m.gate_version_minor);
  w.Put(static_cast<std::uint16_t>(m.api));
  w.PutShortString(m.program, kProgramBytesMax);
}
void Put(WireWriter& w, const Welcome& m) {
  w.Put(m.vgpu_id);
  w.Put(m.process_id);
  w.Put(m.vgpu_region_bytes);
  w.Put(m.process_region_bytes);
  for (std::uint64_t word : m.device_cpus) w.Put(word);
}
void Put(WireWriter& w, const Refusal& m) {
  w.Put(static_cast<std::uint16_t>(m.code));
  w.PutShortString(m.reason, kReasonBytesMax);
}
void Put(WireWriter& w, const Command& m) {
  w.Put(m.sequence);
  w.Put(static_cast<std::uint16_t>(m.kind));
  w.Put(m.argument);
}
void Put(WireWriter& w, const Ack& m) {
  w.Put(m.sequence);
  w.Put(static_cast<std::uint16_t>(m.code));
  w.Put(static_cast<std::uint8_t>(m.done));
}

Error OutOfRange(const char* what, std::uint64_t value) {
  return Fail(Errc::kProtocol,
              std::string("attach message: ") + what + " " + std::to_string(value) + " is out of range");
}

Result<AttachMessage> GetHello(WireReader& r) {
  Hello m;
  m.gate_version_major = r.Get<std::uint16_t>();
  m.gate_version_minor = r.Get<std::uint16_t>();
  const auto api = r.Get<std::uint16_t>();
  m.program = r.GetShortString();
  if (api > kApiMax) return OutOfRange("api", api);
  if (m.program.size() > kProgramBytesMax) return OutOfRange("length of the program's name", m.program.size());
  m.api = static_cast<Api>(api);
  return AttachMessage{std::move(m)};
}
Result<AttachMessage> GetWelcome(WireReader& r) {
  Welcome m;
  m.vgpu_id = r.Get<std::uint64_t>();
  m.process_id = r.Get<std::uint64_t>();
  m.vgpu_region_bytes = r.Get<std::uint64_t>();
  m.process_region_bytes = r.Get<std::uint64_t>();
  for (std::uint64_t& word : m.device_cpus) word = r.Get<std::uint64_t>();
  return AttachMessage{m};
}
Result<AttachMessage> GetRefusal(WireReader& r) {
  Refusal m;
  const auto code = r.Get<std::uint16_t>();
  m.reason = r.GetShortString();
  if (code > kErrcMax) return OutOfRange("error code", code);
  m.code = static_cast<Errc>(code);
  return AttachMessage{std::move(m)};
}
Result<AttachMessage> GetCommand(WireReader& r) {
  Command m;
  m.sequence = r.Get<std::uint64_t>();
  const auto kind = r.Get<std::uint16_t>();
  m.argument = r.Get<std::uint64_t>();
  if (kind == 0 || kind > kCommandKindMax) return OutOfRange("command", kind);
  m.kind = static_cast<CommandKind>(kind);
  return AttachMessage{m};
}
Result<AttachMessage> GetAck(WireReader& r) {
  Ack m;
  m.sequence = r.Get<std::uint64_t>();
  const auto code = r.Get<std::uint16_t>();
  const auto done = r.Get<std::uint8_t>();
  if (code > kErrcMax) return OutOfRange("error code", code);
  if (done > 1) return OutOfRange("flag", done);
  m.code = static_cast<Errc>(code);
  m.done = done == 1;
  return AttachMessage{m};
}

Result<AttachMessage> GetBody(std::uint16_t type, WireReader& r) {
  switch (type) {
    case kTypeOf<Hello>: return GetHello(r);
    case kTypeOf<Welcome>: return GetWelcome(r);
    case kTypeOf<Refusal>: return GetRefusal(r);
    case kTypeOf<Command>: return GetCommand(r);
    case kTypeOf<Ack>: return GetAck(r);
    default: return OutOfRange("type", type);
  }
}

}  // namespace

const char* NameOf(Api api) {
  static constexpr std::array kNames{"unknown", "gl", "vulkan", "cuda", "opencl", "module"};
  const auto i = static_cast<std::size_t>(api);
  return i < kNames.size() ? kNames[i] : "unknown";
}

std::vector<std::byte> Encode(const AttachMessage& message) {
  WireWriter w;
  w.Put(kAttachMagic);
  w.Put(kAttachVersion);
  std::visit(
      [&w](const auto& m) {
        w.Put(kTypeOf<std::decay_t<decltype(m)>>);
        Put(w, m);
      },
      message);
  return std::move(w).Take();
}

Result<AttachMessage> Decode(std::span<const std::byte> packet) {
  if (packet.size() > kAttachMessageBytesMax) return OutOfRange("length", packet.size());
  WireReader r(packet);
  if (r.Get<std::uint32_t>() != kAttachMagic)
    return Fail(Errc::kProtocol, "attach message: not from Weir (wrong magic)");
  const auto version = r.Get<std::uint16_t>();
  if (version != kAttachVersion)
    return Fail(Errc::kVersionMismatch, "attach message: version " + std::to_string(version) + ", this side speaks " +
                                            std::to_string(kAttachVersion));
  const auto type = r.Get<std::uint16_t>();
  auto message = GetBody(type, r);
  if (message && r.short_read())
    return Fail(Errc::kProtocol, "attach message: truncated at " + std::to_string(packet.size()) + " bytes");
  return message;
}

}  // namespace weir::proto
