// SPDX-License-Identifier: Apache-2.0
#include "proto/emulator_messages.h"

#include "base/check.h"
#include "proto/wire.h"

namespace weir::proto::emulator {
namespace {

enum class Kind : std::uint16_t {
  kHello = 1,
  kWelcome = 2,
  kRefusal = 3,
  kSubmit = 4,
  kPresent = 5,
  kCompleted = 6,
  kAllocate = 7,
  kAllocated = 8,
  kFree = 9,
  kAskAccounts = 10,
  kAccounts = 11,
  kAskUse = 12,
  kUse = 13,
};
constexpr std::size_t kTextBytesMax = kMessageBytesMax - 64;

class Writer : public WireWriter {
 public:
  explicit Writer(Kind kind) { Put(static_cast<std::uint16_t>(kind)); }
  void PutText(std::string_view text) {
    WEIR_CHECK(text.size() <= kTextBytesMax);
    Put(static_cast<std::uint32_t>(text.size()));
    for (const char c : text) Put(static_cast<std::uint8_t>(c));
  }
  void PutSigned(std::int64_t value) { Put(static_cast<std::uint64_t>(value)); }
};

std::string TextOf(WireReader& reader) {
  const auto size = reader.Get<std::uint32_t>();
  if (size > reader.left()) return static_cast<void>(reader.Part(size)), std::string();  // a short read
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(reader.Get<std::uint8_t>());
  return text;
}

/// Reads the number of entries of `bytes` each, which must fill the rest of the message.
Result<std::size_t> CountOf(WireReader& reader, std::size_t bytes, std::size_t at_least = 1) {
  const std::size_t count = reader.Get<std::uint16_t>();
  if (count < at_least || count > kEntriesMax || count * bytes != reader.left())
    return Fail(Errc::kProtocol, "a message with " + std::to_string(count) + " entries");
  return count;
}

struct Encoder {
  std::vector<std::byte> operator()(const Hello& m) const {
    Writer w(Kind::kHello);
    w.Put(kMagic);
    w.Put(m.version);
    w.PutShortString(m.program, kProgramBytesMax);
    return std::move(w).Take();
  }
  std::vector<std::byte> operator()(const Welcome& m) const { return Text(Kind::kWelcome, m.text); }
  std::vector<std::byte> operator()(const Refusal& m) const { return Text(Kind::kRefusal, m.text); }
  std::vector<std::byte> operator()(const Submit& m) const {
    WEIR_CHECK(m.commands.size() <= kEntriesMax);
    Writer w(Kind::kSubmit);
    w.Put(static_cast<std::uint16_t>(m.commands.size()));
    for (const Command& each : m.commands) {
      w.Put(each.device);
      w.Put(each.queue);
      w.Put(each.tag);
      w.Put(each.engine);
      w.Put(each.units);
      w.Put(each.work_ns);
      w.Put(each.bytes);
    }
    return std::move(w).Take();
  }
  std::vector<std::byte> operator()(const Present& m) const {
    Writer w(Kind::kPresent);
    w.Put(m.device);
    w.Put(m.queue);
    w.Put(m.interval);
    w.Put(m.tag);
    return std::move(w).Take();
  }
  std::vector<std::byte> operator()(const Completed& m) const {
    WEIR_CHECK(m.completions.size() <= kEntriesMax);
    Writer w(Kind::kCompleted);
    w.Put(static_cast<std::uint16_t>(m.completions.size()));
    for (const Completion& each : m.completions) {
      w.Put(each.tag);
      w.PutSigned(each.began_ns);
      w.PutSigned(each.ended_ns);
      w.Put(each.busy_ns);
      w.Put(static_cast<std::uint8_t>(each.ending));
    }
    return std::move(w).Take();
  }
  std::vector<std::byte> operator()(const Allocate& m) const {
    Writer w(Kind::kAllocate);
    w.Put(m.device);
    w.Put(m.bytes);
    w.Put(m.tag);
    return std::move(w).Take();
  }
  std::vector<std::byte> operator()(const Allocated& m) const {
    Writer w(Kind::kAllocated);
    w.Put(m.tag);
    w.Put(static_cast<std::uint8_t>(m.room));
    return std::move(w).Take();
  }
  std::vector<std::byte> operator()(const Free& m) const {
    Writer w(Kind::kFree);
    w.Put(m.device);
    w.Put(m.bytes);
    return std::move(w).Take();
  }
  std::vector<std::byte> operator()(const AskAccounts&) const { return std::move(Writer(Kind::kAskAccounts)).Take(); }
  std::vector<std::byte> operator()(const Accounts& m) const { return Text(Kind::kAccounts, m.text); }
  std::vector<std::byte> operator()(const AskUse& m) const {
    Writer w(Kind::kAskUse);
    w.Put(m.device);
    w.Put(m.after);
    return std::move(w).Take();
  }
  std::vector<std::byte> operator()(const Use& m) const {
    WEIR_CHECK(m.clients.size() <= kEntriesMax);
    Writer w(Kind::kUse);
    w.Put(m.compute_ns);
    w.Put(m.copy_in_ns);
    w.Put(m.copy_out_ns);
    w.Put(m.memory_used);
    w.Put(m.more);
    w.Put(static_cast<std::uint16_t>(m.clients.size()));
    for (const ClientUse& each : m.clients) {
      w.Put(each.client);
      w.Put(static_cast<std::uint32_t>(each.pid));
      w.Put(each.compute_ns);
      w.Put(each.copy_in_ns);
      w.Put(each.copy_out_ns);
    }
    return std::move(w).Take();
  }

 private:
  static std::vector<std::byte> Text(Kind kind, const std::string& text) {
    Writer w(kind);
    w.PutText(text);
    return std::move(w).Take();
  }
};

Result<Message> ReadHello(WireReader& r) {
  if (r.Get<std::uint32_t>() != kMagic) return Fail(Errc::kProtocol, "no driver of an emulated GPU");
  Hello m;
  m.version = r.Get<std::uint16_t>();
  m.program = r.GetShortString();
  if (m.program.size() > kProgramBytesMax) return Fail(Errc::kProtocol, "the program's name is too long");
  return Message(std::move(m));
}

Result<Message> ReadSubmit(WireReader& r) {
  constexpr std::size_t kBytes = 4 + 4 + 8 + 1 + 4 + 8 + 8;
  WEIR_TRY(const std::size_t count, CountOf(r, kBytes));
  Submit m;
  m.commands.resize(count);
  for (Command& each : m.commands) {
    each.device = r.Get<std::uint32_t>();
    each.queue = r.Get<std::uint32_t>();
    each.tag = r.Get<std::uint64_t>();
    each.engine = r.Get<std::uint8_t>();
    each.units = r.Get<std::uint32_t>();
    each.work_ns = r.Get<std::uint64_t>();
    each.bytes = r.Get<std::uint64_t>();
  }
  return Message(std::move(m));
}

Result<Message> ReadCompleted(WireReader& r) {
  constexpr std::size_t kBytes = 8 + 8 + 8 + 8 + 1;
  WEIR_TRY(const std::size_t count, CountOf(r, kBytes));
  Completed m;
  m.completions.resize(count);
  for (Completion& each : m.completions) {
    each.tag = r.Get<std::uint64_t>();
    each.began_ns = static_cast<std::int64_t>(r.Get<std::uint64_t>());
    each.ended_ns = static_cast<std::int64_t>(r.Get<std::uint64_t>());
    each.busy_ns = r.Get<std::uint64_t>();
    const auto ending = r.Get<std::uint8_t>();
    if (ending > static_cast<std::uint8_t>(Ending::kFull)) return Fail(Errc::kProtocol, "no such ending");
    each.ending = static_cast<Ending>(ending);
  }
  return Message(std::move(m));
}

Result<Message> ReadUse(WireReader& r) {
  constexpr std::size_t kBytes = 4 + 4 + 8 + 8 + 8;
  Use m;
  m.compute_ns = r.Get<std::uint64_t>();
  m.copy_in_ns = r.Get<std::uint64_t>();
  m.copy_out_ns = r.Get<std::uint64_t>();
  m.memory_used = r.Get<std::uint64_t>();
  m.more = r.Get<std::uint8_t>();
  WEIR_TRY(const std::size_t count, CountOf(r, kBytes, /*at_least=*/0));
  m.clients.resize(count);
  for (ClientUse& each : m.clients) {
    each.client = r.Get<std::uint32_t>();
    each.pid = static_cast<std::int32_t>(r.Get<std::uint32_t>());
    each.compute_ns = r.Get<std::uint64_t>();
    each.copy_in_ns = r.Get<std::uint64_t>();
    each.copy_out_ns = r.Get<std::uint64_t>();
  }
  return Message(std::move(m));
}

Result<Message> Read(WireReader& r) {
  switch (static_cast<Kind>(r.Get<std::uint16_t>())) {
    case Kind::kHello: return ReadHello(r);
    case Kind::kWelcome: return Message(Welcome{TextOf(r)});
    case Kind::kRefusal: return Message(Refusal{TextOf(r)});
    case Kind::kSubmit: return ReadSubmit(r);
    case Kind::kPresent: {
      Present m;
      m.device = r.Get<std::uint32_t>();
      m.queue = r.Get<std::uint32_t>();
      m.interval = r.Get<std::uint32_t>();
      m.tag = r.Get<std::uint64_t>();
      return Message(m);
    }
    case Kind::kCompleted: return ReadCompleted(r);
    case Kind::kAllocate: {
      Allocate m;
      m.device = r.Get<std::uint32_t>();
      m.bytes = r.Get<std::uint64_t>();
      m.tag = r.Get<std::uint64_t>();
      return Message(m);
    }
    case Kind::kAllocated: {
      Allocated m;
      m.tag = r.Get<std::uint64_t>();
      const auto room = r.Get<std::uint8_t>();
      if (room > static_cast<std::uint8_t>(Room::kLost)) return Fail(Errc::kProtocol, "no such answer");
      m.room = static_cast<Room>(room);
      return Message(m);
    }
    case Kind::kFree: {
      Free m;
      m.device = r.Get<std::uint32_t>();
      m.bytes = r.Get<std::uint64_t>();
      return Message(m);
    }
    case Kind::kAskAccounts: return Message(AskAccounts{});
    case Kind::kAccounts: return Message(Accounts{TextOf(r)});
    case Kind::kAskUse: {
      AskUse m;
      m.device = r.Get<std::uint32_t>();
      m.after = r.Get<std::uint32_t>();
      return Message(m);
    }
    case Kind::kUse: return ReadUse(r);
  }
  return Fail(Errc::kProtocol, "a message of an unknown kind");
}

}  // namespace

std::vector<std::byte> Encode(const Message& message) { return std::visit(Encoder{}, message); }

Result<Message> Decode(std::span<const std::byte> packet) {
  if (packet.size() > kMessageBytesMax) return Fail(Errc::kProtocol, "a message that is too long");
  WireReader reader(packet);
  auto message = Read(reader);
  if (message && (reader.short_read() || reader.left() > 0))
    return Fail(Errc::kProtocol, "a message with a wrong length");
  return message;
}

}  // namespace weir::proto::emulator
