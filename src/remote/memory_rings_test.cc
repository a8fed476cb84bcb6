// SPDX-License-Identifier: Apache-2.0
// Both ends of the shared memory of a guest and its host: against a model, against an end that writes arbitrary values,
// and in two threads.
#include "remote/memory_rings.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "remote/memory_pace.h"

namespace weir::remote {
namespace {

namespace port = proto::port;

/// Exactly as large as the rings need, so that the address sanitizer detects accesses beyond them.
class RingsMemory {
 public:
  explicit RingsMemory(std::uint64_t ring_bytes)
      : ring_bytes_(ring_bytes), size_(port::kMemoryRingsAt + 2 * ring_bytes), bytes_(Make(size_)) {}
  ~RingsMemory() { ::operator delete (bytes_, std::align_val_t{64}); }
  RingsMemory(const RingsMemory&) = delete;
  RingsMemory& operator=(const RingsMemory&) = delete;

  [[nodiscard]] MemoryRings Begin(port::Side side) const {
    static std::uint64_t epoch = 0x5000;
    return {{bytes_, size_}, ring_bytes_, side, ++epoch};
  }
  /// The shared fields that an end writes.
  [[nodiscard]] port::MemoryEnd& End(port::Side side) const {
    const std::size_t at = side == port::Side::kGuest ? port::kMemoryGuestAt : port::kMemoryHostAt;
    return *reinterpret_cast<port::MemoryEnd*>(bytes_ + at);
  }

 private:
  static std::byte* Make(std::size_t size) {
    auto* const bytes = static_cast<std::byte*>(::operator new (size, std::align_val_t{64}));
    std::memset(bytes, 0, size);
    return bytes;
  }
  std::uint64_t ring_bytes_;
  std::size_t size_;
  std::byte* bytes_;
};

std::vector<std::byte> Numbered(std::size_t from, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(((from + i) * 2654435761U) >> 9);
  return bytes;
}

constexpr port::Side kSides[] = {port::Side::kGuest, port::Side::kHost};

TEST(MemoryRings, CarryBytesBothWaysAroundTheEnd) {
  const RingsMemory memory(64);
  MemoryRings guest = memory.Begin(port::Side::kGuest), host = memory.Begin(port::Side::kHost);
  std::byte got[100];
  for (std::size_t i = 0; i < 50; ++i)
    for (MemoryRings* const from : {&guest, &host}) {
      MemoryRings& to = from == &guest ? host : guest;
      EXPECT_FALSE(i > 0 && to.Ready(false));
      const auto bytes = Numbered(i * 40, 40);
      ASSERT_EQ(from->Write(bytes), 40U);
      EXPECT_TRUE(to.Ready(false));
      ASSERT_EQ(to.Read(got), 40U);
      EXPECT_EQ(std::memcmp(got, bytes.data(), 40), 0);
      EXPECT_EQ(to.Restarted(), i == 0 && &to == &guest) << "the host came after the guest";
    }
}

TEST(MemoryRings, AcceptOnlyWhatFits) {
  const RingsMemory memory(64);
  MemoryRings guest = memory.Begin(port::Side::kGuest), host = memory.Begin(port::Side::kHost);
  EXPECT_EQ(guest.Write(Numbered(0, 100)), 64U);
  EXPECT_EQ(guest.Write(Numbered(0, 1)), 0U);
  std::byte got[10];
  static_cast<void>(guest.Restarted());
  EXPECT_FALSE(guest.Ready(true));
  EXPECT_EQ(host.Read(got), 10U);
  EXPECT_TRUE(guest.Ready(true));
  EXPECT_EQ(guest.Write(Numbered(0, 100)), 10U);
}

TEST(MemoryRings, AReplacedEndNoticesItsReplacement) {
  const RingsMemory memory(64);
  const MemoryRings first = memory.Begin(port::Side::kGuest);
  EXPECT_FALSE(first.TakenOver());
  const MemoryRings second = memory.Begin(port::Side::kGuest);
  EXPECT_TRUE(first.TakenOver());
  EXPECT_FALSE(second.TakenOver());
}

/// With arbitrary writes, reads and restarts, each read returns what the model expects, and the first read after a
/// restart of the other end reports it.
RC_GTEST_PROP(MemoryRings, DeliverInOrderAcrossRestarts, ()) {
  constexpr std::size_t kRing = 64;
  const RingsMemory memory(kRing);
  std::unique_ptr<MemoryRings> ends[2];
  std::size_t put[2] = {0, 0}, taken[2] = {0, 0};  // of the ring that each end writes
  bool began[2] = {false, false};                  // an end has restarted, and the other end has not noticed
  const auto begin = [&](int end) {
    ends[end] = std::make_unique<MemoryRings>(memory.Begin(kSides[end]));
    taken[1 - end] = put[1 - end];  // data meant for the end's earlier session
    began[end] = true;
    began[1 - end] = false;
  };
  begin(0);
  begin(1);
  for (const auto step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000))) {
    const int end = step & 1, other = 1 - end;
    const std::size_t size = static_cast<std::size_t>(step) / 8;
    if (step >= 960) {
      begin(end);
    } else if ((step & 2) == 0) {
      const std::size_t room = kRing - (put[end] - taken[end]);
      RC_ASSERT(ends[end]->Write(Numbered(put[end], size)) == std::min(room, size));
      put[end] += std::min(room, size);
    } else {
      std::vector<std::byte> got(size);
      got.resize(ends[end]->Read(got));
      RC_ASSERT(got == Numbered(taken[other], std::min(size, put[other] - taken[other])));
      taken[other] += got.size();
      RC_ASSERT(ends[end]->Restarted() == std::exchange(began[other], false));
    }
    RC_ASSERT(!ends[0]->TakenOver() && !ends[1]->TakenOver());
  }
}

/// The host receives bytes without a gap, or a report of the gap. A guest that stops writing arbitrary positions and
/// restarts is served again.
RC_GTEST_PROP(MemoryRings, AGuestThatWritesAnyPositionsEndsOnlyItsOwnBytes, ()) {
  constexpr std::size_t kRing = 64;
  const RingsMemory memory(kRing);
  MemoryRings host = memory.Begin(port::Side::kHost);
  port::MemoryEnd& guest = memory.End(port::Side::kGuest);
  std::uint64_t at = guest.produced;
  for (const auto position : *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::arbitrary<std::uint64_t>())) {
    const std::uint64_t jump = position % 3 == 0 ? position : guest.produced + position % (2 * kRing);
    (position % 2 == 0 ? guest.produced : guest.consumed) = jump;
    std::byte got[2 * kRing];
    const std::size_t read = host.Read(got);
    RC_ASSERT(read <= kRing);
    const bool anew = host.Restarted();
    RC_ASSERT(anew == (guest.produced - at > kRing));
    RC_ASSERT(read == (anew ? 0 : guest.produced - at));
    at = guest.produced;
    RC_ASSERT(host.Write(Numbered(0, 200)) <= kRing);
  }
  MemoryRings honest = memory.Begin(port::Side::kGuest);
  std::byte got[kRing];
  host.Read(got);
  RC_ASSERT(host.Restarted());
  RC_ASSERT(honest.Write(Numbered(7, 30)) == 30U);
  RC_ASSERT(host.Read(got) == 30U);
  RC_ASSERT(std::memcmp(got, Numbered(7, 30).data(), 30) == 0);
}

TEST(MemoryRings, AHostContinuesAfterARestartWhenTheGuestOverwroteItsPosition) {
  const RingsMemory memory(64);
  MemoryRings guest = memory.Begin(port::Side::kGuest);
  memory.End(port::Side::kHost).produced = 0xFFFFFFFFFFFFFFF0;
  MemoryRings host = memory.Begin(port::Side::kHost);
  std::byte got[64];
  for (std::size_t i = 0; i < 4; ++i) {
    const bool was_cut = host.Write(Numbered(i * 20, 20)) == 0;
    const std::size_t read = guest.Read(got);
    EXPECT_EQ(read, i == 0 ? 0U : 20U);
    EXPECT_EQ(guest.Restarted(), i == 0);
    EXPECT_EQ(was_cut, i == 0) << "until the guest has seen where the host is";
  }
}

TEST(MemoryRings, CarryBytesBetweenTwoThreads) {
  constexpr std::size_t kBytes = 3'000'000;
  const RingsMemory memory(4096);
  MemoryRings guest = memory.Begin(port::Side::kGuest), host = memory.Begin(port::Side::kHost);
  const auto all = Numbered(0, kBytes);
  std::vector<std::byte> got(kBytes);
  // Starts away from the ring's beginning, because otherwise a full ring would never wrap around.
  ASSERT_EQ(guest.Write(std::span(all).first(1000)), 1000U);
  ASSERT_EQ(host.Read(got), 1000U);
  std::thread writing([&] {
    for (std::size_t sent = 0, i = 0; sent < kBytes; ++i) {
      const std::size_t went = guest.Write(std::span(all).subspan(sent, std::min(kBytes - sent, 1 + i * 37 % 5000)));
      if (went == 0) std::this_thread::yield();
      sent += went;
    }
  });
  for (std::size_t came = 0, i = 0; came < kBytes; ++i) {
    const std::size_t read = host.Read(std::span(got).subspan(came, std::min(kBytes - came, 1 + i * 53 % 6000)));
    if (read == 0) std::this_thread::yield();
    came += read;
  }
  writing.join();
  EXPECT_EQ(got, all);
}

// -- The pace --------------------------------------------------------------------------------------------------------

/// How often memory is polled after data came, and the longest delay of data that comes later.
struct Looks {
  int count = 0;
  Duration longest{};
};
Looks LooksIn(Duration pause, bool streams) {
  MemoryPace pace;
  const Instant begin = InstantFromNs(5'000'000'000);
  pace.Moved(begin);
  Looks looks;
  for (Instant now = begin; now - begin < pause; ++looks.count) {
    const Duration rest = pace.Rest(now, streams);
    looks.longest = std::max(looks.longest, rest);
    now += rest;
  }
  return looks;
}

TEST(MemoryPace, PollsGrowLogarithmicallyWithThePause) {
  EXPECT_LE(LooksIn(microseconds(100), true).count, 6);
  EXPECT_LE(LooksIn(milliseconds(1), true).count, 17);
  EXPECT_LE(LooksIn(seconds(1), true).count, 1'030) << "a thousand a second";
  EXPECT_LE(LooksIn(seconds(1), false).count, 140);
  EXPECT_LE(LooksIn(seconds(10), false).count, 1'040) << "a hundred a second";
}

TEST(MemoryPace, DelayIsAtMostAQuarterOfThePauseOrAMillisecond) {
  for (const int us : {50, 100, 1'000, 4'000, 1'000'000}) {
    const Duration pause = microseconds(us);
    EXPECT_LE(LooksIn(pause, true).longest, std::clamp<Duration>(pause / 4, microseconds(20), milliseconds(1))) << us;
    EXPECT_LE(LooksIn(pause, false).longest, milliseconds(10));
  }
}

}  // namespace
}  // namespace weir::remote
