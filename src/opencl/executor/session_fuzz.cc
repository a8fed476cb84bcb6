// SPDX-License-Identifier: Apache-2.0
// A client that sends arbitrary messages, against a strict driver (tests/harness/strict_opencl.h). Messages are drawn
// field by field, with one byte for most numbers, so that ids coincide and objects are used; opencl_messages_fuzz tests
// arbitrary bytes as messages. At the session's end no object may be left.
//
//   byte 0:  options, one bit each: 1 a remote client, 2 a device with memory of its own, 4 elastic memory
//   byte 1:  the number of the driver call that fails, counted from 1
//   then:    messages: the index in FromClient, and its fields
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "opencl/executor/session.h"
#include "proto/opencl_message_list.h"
#include "tests/harness/strict_opencl.h"

namespace {

using namespace weir;
using namespace weir::opencl;
namespace wire = proto::cl;

constexpr std::size_t kArenaBytes = 64 * 1024;
constexpr std::size_t kGuardBytes = 64 * 1024;
constexpr int kMessagesMax = 200;

/// Fills a message's fields from bytes; zeros after the end of the input.
class DrawnFields {
 public:
  explicit DrawnFields(wire::ByteView bytes) : rest_(bytes) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<std::uint8_t>(rest_[0]);
    rest_ = rest_.subspan(1);
    return byte;
  }
  template <typename... T>
  void operator()(T&... fields) {
    (Get(fields), ...);
  }

 private:
  /// Draws small numbers, pages of the arena, OpenCL's image types, numbers just below the maximum, and arbitrary ones.
  template <typename T>
  requires std::integral<T>
  void Get(T& value) {
    const std::uint8_t byte = Byte();
    if (sizeof(T) == 1 || byte < 0xC0) {
      value = static_cast<T>(byte);
    } else if (byte < 0xE0) {
      value = static_cast<T>((byte - 0xC0) * wire::kArenaAlignment);
    } else if (byte < 0xE8) {
      value = static_cast<T>(0x10F0 + (byte - 0xE0));
    } else if (byte < 0xF8) {
      value = static_cast<T>(-static_cast<std::int64_t>(byte - 0xE7));
    } else {
      value = 0;
      for (std::size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | static_cast<T>(Byte()) << (8 * i));
    }
  }
  void Get(wire::ByteView& bytes) {
    const std::size_t wanted = Byte();
    const std::size_t size = std::min(wanted, rest_.size());
    bytes = rest_.first(size);
    rest_ = rest_.subspan(size);
  }
  void Get(std::string_view& text) {
    wire::ByteView bytes;
    Get(bytes);
    text = wire::TextOf(bytes);
  }
  template <typename T>
  void Get(wire::NumberList<T>& list) {
    std::vector<T>& numbers = std::get<std::list<std::vector<T>>>(kept_).emplace_back(Byte() & 7);
    for (T& number : numbers) Get(number);
    list = wire::NumberList<T>(numbers.data(), numbers.size());
  }
  template <typename T, std::size_t N>
  void Get(T (&array)[N]) {
    for (T& value : array) Get(value);
  }
  void Get(wire::Blob& blob) {
    blob.kind = Byte() & 1;
    if (blob.kind == wire::Blob::kInline) return Get(blob.bytes);
    Get(blob.offset);
    Get(blob.size);
  }
  template <typename T>
  void Get(std::vector<T>& list) {
    list.resize(Byte() & 3);
    for (T& value : list) Get(value);
  }
  template <typename T>
  requires std::is_class_v<T> && requires(T& m, DrawnFields& f) { T::Fields(m, f); }
  void Get(T& record) { T::Fields(record, *this); }

  wire::ByteView rest_;
  std::tuple<std::list<std::vector<std::uint32_t>>, std::list<std::vector<std::uint64_t>>> kept_;
};

/// Writes the message with the number `chosen` to the ring. False: no room.
bool SendDrawn(std::size_t chosen, DrawnFields& fields, RingProducer& out) {
  bool sent = true;
  wire::ForEachMessage<wire::FromClient>([&]<typename M>(wire::MessageType<M>) {
    if (chosen-- != 0) return;
    M message;
    M::Fields(message, fields);
    const std::size_t bytes = wire::SizeOf(message);
    std::byte* const at = out.Reserve(bytes);
    sent = at != nullptr;
    if (!sent) return;
    wire::EncodeInto(message, {at, bytes});
    out.Send(bytes);
  });
  return sent;
}

template <typename T>
T Must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "session_fuzz: %s\n", result.error().message.c_str());
    std::abort();
  }
  return std::move(*result);
}

/// Memory between inaccessible pages.
class GuardedArena {
 public:
  GuardedArena() : all_(::mmap(nullptr, kArenaBytes + 2 * kGuardBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (all_ == MAP_FAILED || ::mprotect(Begin(), kArenaBytes, PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  ~GuardedArena() { ::munmap(all_, kArenaBytes + 2 * kGuardBytes); }
  GuardedArena(const GuardedArena&) = delete;
  GuardedArena& operator=(const GuardedArena&) = delete;
  [[nodiscard]] std::byte* Begin() const { return static_cast<std::byte*>(all_) + kGuardBytes; }

 private:
  void* all_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static weir::testing::StrictOpenCl driver;
  static gate::Agent agent("", proto::Api::kOpenCl, "session_fuzz");
  static DeviceMeter meter({}, {});
  static const platform::SharedRegion rings = Must(platform::MakeSharedRegion("session_fuzz", kRingsBytes));

  DrawnFields fields(std::as_bytes(std::span(data, size)));
  const std::uint8_t options = fields.Byte();
  driver.RefuseAt(fields.Byte());
  std::memset(rings.mapping.As<std::byte>(), 0, kControlBytes);
  Channel client = Must(MapChannel(rings.fd.get(), Side::kClient));
  for (int i = 0; i < kMessagesMax && !fields.empty(); ++i)
    if (!SendDrawn(fields.Byte(), fields, client.out)) break;
  // The last message is invalid, so that the session ends without waiting for more.
  if (std::byte* const at = client.out.Reserve(wire::kHeaderBytes)) {
    const wire::Header nothing{.size = wire::kHeaderBytes, .op = 0, .flags = 0};
    std::memcpy(at, &nothing, sizeof nothing);
    client.out.Send(wire::kHeaderBytes);
  }

  const GuardedArena arena, buffers;
  Shared shared{.device = {.cl = &driver.table(),
                           .platform = nullptr,
                           .device = driver.device(),
                           .library = {},
                           .name = "strict",
                           .workers = {},
                           .in_host_memory = true},
                .agent = agent,
                .meter = meter,
                .quota = std::make_shared<Quota>([] {
                  constexpr std::uint64_t kBytes = 256 * 1024;
                  return Quota::Limits{.all = kBytes, .each = kBytes};
                }),
                .copies = (options & 6) != 0,
                .store = nullptr,
                .analyzer = nullptr,
                .peers = {}};
  if ((options & 4) != 0) {
    shared.store = std::make_shared<BufferStore>(BufferStore::Options{.device_bytes = kSlotBytes.count});
    shared.store->Adopt({.number = 2, .elastic = true, .limit = 1, .here = 1, .max = 1});
  }
  {
    Accepted accepted;
    accepted.program = "session_fuzz";
    accepted.remote = (options & 1) != 0;
    accepted.channel = Must(MapChannel(rings.fd.get(), Side::kExecutor));
    accepted.arena = platform::Mapping(arena.Begin(), kArenaBytes);
    // Smaller than the arena, as an executor creates it.
    if (accepted.remote && !shared.copies) accepted.buffers = platform::Mapping(buffers.Begin(), kArenaBytes / 2);
    Session session(shared, std::move(accepted));
    static_cast<void>(session.Run());
  }
  if (shared.quota->used() != 0 || shared.host_budget->used() != 0) std::abort();
  weir::testing::StrictOpenCl::ExpectNothingLeft();
  return 0;
}
