// SPDX-License-Identifier: Apache-2.0
// Both ends of a port, with a cable between them that cuts, loses and adds bytes as a test requires.
#include "remote/port_mux.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <set>

namespace weir::remote {
namespace {

namespace port = proto::port;
using Contents = std::vector<std::byte>;

Contents Drawn(std::size_t size, std::uint32_t seed) {
  Contents bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761U + seed) >> 13);
  return bytes;
}

std::uint64_t NextEpoch() {
  static std::uint64_t epoch = 0x1122334400000000;
  return ++epoch;
}

/// Records all data. Returns credit for received data unless told to hold it.
struct MuxEnd final : PortEvents {
  explicit MuxEnd(port::Side side) : mux(side, NextEpoch, *this) {}
  void OnJoined() override {}
  void OnLost(const std::string& why) override {
    lost.push_back(why);
    open.clear();
    ended.push_back(std::move(came));
    came.clear();
  }
  void OnOpened(std::uint32_t stream) override { open.insert(stream); }
  void OnData(std::uint32_t stream, std::span<const std::byte> bytes) override {
    came[stream].insert(came[stream].end(), bytes.begin(), bytes.end());
    if (!held.contains(stream)) mux.Taken(stream, bytes.size());
  }
  void OnClosed(std::uint32_t stream) override { open.erase(stream); }

  PortMux mux;
  std::set<std::uint32_t> open, held;
  std::map<std::uint32_t, Contents> came;
  std::vector<std::map<std::uint32_t, Contents>> ended;  // the data received in each session that was lost
  std::vector<std::string> lost;
};

/// A guest, a host, and the bytes in flight between them.
struct Cabled {
  explicit Cabled(std::uint32_t room_there = 0) : room(room_there) {
    guest->mux.Start(now, room);
    host->mux.Start(now);
  }
  MuxEnd& Sender(bool up) { return up ? *guest : *host; }
  MuxEnd& Receiver(bool up) { return up ? *host : *guest; }

  /// Moves outgoing bytes from the mux to the cable.
  void Load(bool up) {
    PortMux& mux = Sender(up).mux;
    const auto out = mux.Outgoing();
    way[up].insert(way[up].end(), out.begin(), out.end());
    mux.Sent(out.size());
    if (!up) most_on_the_way = std::max(most_on_the_way, way[up].size());
  }
  /// Delivers `bytes` bytes from the cable, in pieces of `at_a_time`.
  void Deliver(bool up, std::size_t bytes, std::size_t at_a_time = SIZE_MAX) {
    for (bytes = std::min(bytes, way[up].size()); bytes > 0;) {
      const std::size_t n = std::min(bytes, at_a_time);
      const Contents piece(way[up].begin(), way[up].begin() + static_cast<std::ptrdiff_t>(n));
      way[up].erase(way[up].begin(), way[up].begin() + static_cast<std::ptrdiff_t>(n));
      Receiver(up).mux.Receive(piece, now);
      bytes -= n;
    }
  }
  /// Runs until nothing moves.
  void Settle(std::size_t at_a_time = SIZE_MAX) {
    for (bool moved = true; moved;) {
      moved = false;
      for (const bool up : {true, false}) {
        Load(up);
        moved |= !way[up].empty();
        Deliver(up, SIZE_MAX, at_a_time);
      }
    }
  }
  void Wait(Duration time) {
    now += time;
    guest->mux.Tick(now);
    host->mux.Tick(now);
  }
  /// Runs until both ends have joined, for a bounded number of Hellos.
  bool Join() {
    for (int i = 0; i < 8; ++i) {
      Settle();
      if (guest->mux.joined() && host->mux.joined()) return true;
      Wait(kPortHelloAgain);
    }
    return false;
  }
  /// Sends as much as credit allows.
  std::size_t SendOn(bool up, std::uint32_t stream, const Contents& bytes) {
    std::span<const std::byte> left = bytes;
    while (const std::size_t n = Sender(up).mux.Send(stream, left)) left = left.subspan(n);
    return bytes.size() - left.size();
  }
  void Restart(bool up) {
    auto& end = up ? guest : host;
    gone.push_back(std::move(end));  // kept, because its bytes may still be in flight
    end = std::make_unique<MuxEnd>(up ? port::Side::kGuest : port::Side::kHost);
    end->mux.Start(now, up ? room : 0);
  }

  const std::uint32_t room;         // of the guest
  std::size_t most_on_the_way = 0;  // in flight to it
  Instant now = InstantFromNs(1'000'000'000);
  std::unique_ptr<MuxEnd> guest = std::make_unique<MuxEnd>(port::Side::kGuest);
  std::unique_ptr<MuxEnd> host = std::make_unique<MuxEnd>(port::Side::kHost);
  std::vector<std::unique_ptr<MuxEnd>> gone;
  std::deque<std::byte> way[2];
};

TEST(PortMux, CarriesStreamsBothWays) {
  Cabled cable;
  ASSERT_TRUE(cable.Join());
  const std::uint32_t stream = cable.guest->mux.Open();
  ASSERT_NE(stream, 0U);
  const Contents there = Drawn(100'000, 1), back = Drawn(70'000, 2);
  EXPECT_EQ(cable.SendOn(true, stream, there), there.size());
  cable.Settle();
  EXPECT_EQ(cable.host->open, std::set{stream});
  EXPECT_EQ(cable.SendOn(false, stream, back), back.size());
  cable.Settle(7);
  EXPECT_EQ(cable.host->came[stream], there);
  EXPECT_EQ(cable.guest->came[stream], back);
  cable.SendOn(true, stream, there);
  cable.guest->mux.Close(stream);
  cable.Settle();
  EXPECT_EQ(cable.host->came[stream].size(), 2 * there.size()) << "what was sent before the end arrives";
  EXPECT_TRUE(cable.host->open.empty());
  EXPECT_TRUE(cable.guest->lost.empty() && cable.host->lost.empty());
}

TEST(PortMux, AnUnreadStreamDoesNotBlockOthers) {
  Cabled cable;
  ASSERT_TRUE(cable.Join());
  const std::uint32_t slow = cable.guest->mux.Open(), quick = cable.guest->mux.Open();
  cable.host->held.insert(slow);
  const Contents much = Drawn(2 * port::kWindowBytes, 3);
  EXPECT_EQ(cable.SendOn(true, slow, much), port::kWindowBytes) << "no more than the window";
  std::size_t sent = 0;
  for (int i = 0; i < 20; ++i) {
    sent += cable.SendOn(true, quick, Drawn(port::kWindowBytes / 2, 4));
    cable.Settle();
  }
  EXPECT_EQ(sent, 10 * port::kWindowBytes);
  EXPECT_EQ(cable.guest->mux.Credit(slow), 0U);
  cable.host->mux.Taken(slow, port::kWindowBytes);
  cable.Settle();
  EXPECT_EQ(cable.guest->mux.Credit(slow), port::kWindowBytes);
}

/// Whatever is sent, closed and fragmented: each stream delivers exactly the sent bytes, in order.
RC_GTEST_PROP(PortMux, DeliversWhatWasSent, ()) {
  Cabled cable(*rc::gen::element(0U, port::kRoomBytesMin, port::kTerminalRoomBytes));
  RC_ASSERT(cable.Join());
  std::map<std::uint32_t, Contents> sent[2];
  std::vector<std::uint32_t> streams;
  const int steps = *rc::gen::inRange(1, 40);
  for (int i = 0; i < steps; ++i) {
    const bool up = *rc::gen::arbitrary<bool>();
    const int what = *rc::gen::inRange(0, 10);
    if (what == 0 || streams.empty()) {
      if (const std::uint32_t stream = cable.guest->mux.Open()) streams.push_back(stream);
    } else if (what < 6) {
      const std::uint32_t stream = *rc::gen::elementOf(streams);
      const Contents bytes = Drawn(*rc::gen::inRange<std::size_t>(1, 80'000), static_cast<std::uint32_t>(i));
      if (!up && !cable.host->open.contains(stream)) continue;  // the host doesn't know it yet
      const std::size_t n = cable.SendOn(up, stream, bytes);
      sent[up][stream].insert(sent[up][stream].end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    } else {
      cable.Load(up);
      cable.Deliver(up, *rc::gen::inRange<std::size_t>(0, 100'000), *rc::gen::inRange<std::size_t>(1, 50'000));
    }
  }
  cable.Settle();
  for (const bool up : {false, true})
    for (const auto& [stream, bytes] : sent[up]) RC_ASSERT(cable.Receiver(up).came[stream] == bytes);
  RC_ASSERT(cable.guest->lost.empty() && cable.host->lost.empty());
}

/// Either end may disappear at any point, any suffix of its data may be lost, and malformed data may follow. Both ends
/// join again, and no end ever receives a byte that its peer did not send.
RC_GTEST_PROP(PortMux, ReconnectsAfterEitherEndRestarts, ()) {
  Cabled cable(*rc::gen::element(0U, port::kRoomBytesMin, port::kTerminalRoomBytes));
  RC_ASSERT(cable.Join());
  const int rounds = *rc::gen::inRange(1, 5);
  for (int round = 0; round < rounds; ++round) {
    const std::uint32_t stream = cable.guest->mux.Open();
    RC_ASSERT(stream != 0U);
    cable.Settle();
    const std::uint32_t seed = static_cast<std::uint32_t>(round) * 7;
    const Contents bytes[2] = {Drawn(*rc::gen::inRange<std::size_t>(1, 90'000), seed),
                               Drawn(*rc::gen::inRange<std::size_t>(1, 90'000), seed + 1)};
    for (const bool up : {false, true}) {
      cable.SendOn(up, stream, bytes[up]);
      cable.Load(up);
      cable.Deliver(up, *rc::gen::inRange<std::size_t>(0, bytes[up].size() + 64));
    }
    const bool up = *rc::gen::arbitrary<bool>();  // the end that disappears
    auto& left = cable.way[up];
    const auto kept = static_cast<std::ptrdiff_t>(*rc::gen::inRange<std::size_t>(0, left.size() + 1));
    left.erase(left.begin() + kept, left.end());
    const Contents rubbish = Drawn(*rc::gen::inRange<std::size_t>(0, 300), seed + 2);
    left.insert(left.end(), rubbish.begin(), rubbish.end());
    if (*rc::gen::arbitrary<bool>()) cable.way[!up].clear();
    cable.Restart(up);
    RC_ASSERT(cable.Join());
    MuxEnd& stayed = cable.Receiver(up);
    RC_ASSERT(stayed.lost.size() >= 1U);
    for (auto& session : stayed.ended) {
      const Contents& given = session[stream];
      RC_ASSERT(given.size() <= bytes[up].size() && std::equal(given.begin(), given.end(), bytes[up].begin()));
    }
    stayed.ended.clear();
    stayed.lost.clear();
    stayed.came.clear();
    RC_ASSERT(stayed.open.empty());
  }
  const std::uint32_t last = cable.guest->mux.Open();
  const Contents bytes = Drawn(50'000, 99);
  cable.SendOn(true, last, bytes);
  cable.Settle();
  RC_ASSERT(cable.host->came[last] == bytes);
}

TEST(PortMux, ATruncatedFrameIsDropped) {
  for (const std::size_t lost : {0UL, 3UL, 15UL, 16UL, 500UL, 1015UL, 1016UL, 1023UL}) {
    Cabled cable;
    ASSERT_TRUE(cable.Join());
    const std::uint32_t stream = cable.guest->mux.Open();
    cable.Settle();
    cable.SendOn(true, stream, Drawn(1000, 5));
    cable.SendOn(true, stream, Drawn(1000, 6));
    cable.Load(true);
    cable.way[true].erase(cable.way[true].begin() + static_cast<std::ptrdiff_t>(lost));
    cable.Settle();
    cable.Wait(kPortStillHere);  // sends a Hello, which completes a frame that lacks a byte
    ASSERT_TRUE(cable.Join());
    ASSERT_FALSE(cable.host->lost.empty()) << lost;
    EXPECT_TRUE(cable.host->ended.front()[stream].empty()) << lost;
  }
}

TEST(PortMux, AGuestWithLittleRoomIsNeverSentMore) {
  Cabled cable(port::kTerminalRoomBytes);
  ASSERT_TRUE(cable.Join());
  const std::uint32_t stream = cable.guest->mux.Open();
  cable.Settle();
  const Contents much = Drawn(200'000, 7);
  ASSERT_EQ(cable.SendOn(false, stream, much), much.size());
  for (int i = 0; i < 5; ++i) cable.Load(false);
  EXPECT_LE(cable.way[false].size(), port::kTerminalRoomBytes) << "until it says that it has read";
  EXPECT_GT(cable.way[false].size(), port::kTerminalRoomBytes / 2);
  cable.Settle(100);
  EXPECT_EQ(cable.guest->came[stream], much);
  // Restarts of either end.
  for (const bool up : {false, true, false}) {
    cable.SendOn(false, cable.guest->mux.Open(), much);
    cable.Load(false);
    cable.Restart(up);
    ASSERT_TRUE(cable.Join());
  }
  EXPECT_LT(cable.most_on_the_way, 4095U) << "what a terminal holds";
}

TEST(PortMux, AHostSendsNothingBeforeTheGuest) {
  MuxEnd host(port::Side::kHost);
  host.mux.Start(InstantFromNs(1));
  host.mux.Tick(InstantFromNs(3'000'000'000));
  EXPECT_EQ(host.mux.pending(), 0U) << "it doesn't know yet how much room the guest has";
  EXPECT_GT(host.mux.due(), InstantFromNs(3'000'000'000) + seconds(3'600)) << "nor has it anything to wait for";
}

TEST(PortMux, ATerminalsEchoIsIgnored) {
  Cabled cable;
  cable.Load(true);
  const Contents said(cable.way[true].begin(), cable.way[true].end());
  for (int i = 0; i < 3; ++i) cable.guest->mux.Receive(said, cable.now);
  EXPECT_FALSE(cable.guest->mux.joined());
  EXPECT_TRUE(cable.Join());
}

TEST(PortMux, ASilentEndCountsAsDisconnected) {
  Cabled cable;
  ASSERT_TRUE(cable.Join());
  const std::uint32_t stream = cable.guest->mux.Open();
  cable.Settle();
  for (int i = 0; i < 30; ++i) {  // a minute without data
    cable.Wait(kPortStillHere);
    cable.Settle();
  }
  EXPECT_EQ(cable.host->open, std::set{stream});
  EXPECT_TRUE(cable.guest->lost.empty() && cable.host->lost.empty());
  for (int i = 0; i < 10; ++i) {
    cable.Wait(kPortStillHere);
    cable.way[true].clear();
    cable.Load(true);
    cable.way[true].clear();
  }
  ASSERT_EQ(cable.host->lost.size(), 1U);
  EXPECT_NE(cable.host->lost[0].find("20 s"), std::string::npos) << cable.host->lost[0];
}

TEST(PortMux, IsDueWhenAFrameMustBeSent) {
  Cabled cable;
  EXPECT_EQ(cable.guest->mux.due(), cable.now + kPortHelloAgain);
  ASSERT_TRUE(cable.Join());
  EXPECT_EQ(cable.guest->mux.due(), cable.now + kPortStillHere);
  cable.Wait(kPortStillHere);
  EXPECT_FALSE(cable.guest->mux.Outgoing().empty());
  cable.Wait(kPortStillHere);
  EXPECT_EQ(cable.guest->mux.Outgoing().size(), port::kFrameHeaderBytes + port::kHelloBytes)
      << "what the other end doesn't read is not said again";
}

/// A guest that joins correctly and then sends arbitrary frames.
class RudeGuest {
  static constexpr std::uint64_t kEpoch = 42;

 public:
  RudeGuest() {
    host.mux.Start(now_);
    host.mux.Sent(host.mux.Outgoing().size());
    SayHello(0);
    port::Hello answer;
    std::memcpy(&answer, host.mux.Outgoing().data() + port::kFrameHeaderBytes, sizeof answer);
    SayHello(answer.epoch);
    EXPECT_TRUE(host.mux.joined());
  }
  void Say(port::Kind kind, std::uint32_t stream, std::uint32_t value, std::size_t contents = 0) {
    const port::FrameHeader header{.kind = static_cast<std::uint16_t>(kind), .stream = stream, .value = value};
    Tell(&header, sizeof header);
    const Contents bytes(contents);
    Tell(bytes.data(), bytes.size());
    if (kind == port::Kind::kData) Tell(&kEpoch, sizeof kEpoch);
  }
  void SayHello(std::uint64_t echo, std::uint64_t epoch = kEpoch) {
    Say(port::Kind::kHello, 0, port::kHelloBytes);
    const port::Hello hello{.epoch = epoch, .echo = echo, .side = static_cast<std::uint16_t>(port::Side::kGuest)};
    Tell(&hello, sizeof hello);
  }
  MuxEnd host{port::Side::kHost};

 private:
  void Tell(const void* bytes, std::size_t size) {
    host.mux.Receive({static_cast<const std::byte*>(bytes), size}, now_);
  }
  Instant now_ = InstantFromNs(1'000'000'000);
};

TEST(PortMux, ProtocolViolationsEndTheGuestsStreams) {
  const auto breach = [](const std::function<void(RudeGuest&)>& say) {
    RudeGuest guest;
    guest.Say(port::Kind::kOpen, 1, 0);
    guest.host.held.insert(1);
    guest.Say(port::Kind::kData, 1, 100, 100);
    EXPECT_EQ(guest.host.came[1].size(), 100U);
    say(guest);
    EXPECT_FALSE(guest.host.mux.joined());
    EXPECT_TRUE(guest.host.open.empty());
    return guest.host.lost.empty() ? std::string() : guest.host.lost.front();
  };
  EXPECT_EQ(breach([](RudeGuest& g) { g.SayHello(0, 43); }), "the other end has restarted");
  EXPECT_EQ(breach([](RudeGuest& g) { g.SayHello(0, 0); }), "the data is not a Hello");
  EXPECT_EQ(breach([](RudeGuest& g) { g.Say(port::Kind::kOpen, 1, 0); }), "it opened a stream that can't be");
  EXPECT_EQ(breach([](RudeGuest& g) { g.Say(port::Kind::kClose, 2, 0); }), "it named an unknown stream");
  EXPECT_EQ(breach([](RudeGuest& g) { g.Say(port::Kind::kCredit, 1, 1); }), "it sent more than allowed");
  EXPECT_EQ(breach([](RudeGuest& g) { g.Say(port::Kind::kData, 1, port::kDataBytesMax + 1); }),
            "the data is not a frame");
  EXPECT_EQ(breach([](RudeGuest& g) {
              for (int i = 0; i < 16; ++i) g.Say(port::Kind::kData, 1, port::kDataBytesMax, port::kDataBytesMax);
            }),
            "it sent more than it may");
}

TEST(PortMux, AGuestThatRestartsAllTheTimeMakesTheHostKeepOneAnswer) {
  RudeGuest guest;
  for (std::uint64_t epoch = 100; epoch < 200; ++epoch) guest.SayHello(/*echo=*/1, epoch);
  EXPECT_EQ(guest.host.mux.pending(), port::FillerBytesFor(0) + port::kFrameHeaderBytes + port::kHelloBytes);
}

TEST(PortMux, MoreStreamsThanThereMayBeAreClosed) {
  RudeGuest guest;
  for (std::uint32_t stream = 1; stream <= port::kStreamsMax + 5; ++stream) guest.Say(port::Kind::kOpen, stream, 0);
  EXPECT_EQ(guest.host.open.size(), port::kStreamsMax);
  guest.Say(port::Kind::kData, port::kStreamsMax + 1, 8, 8);  // the guest did not know that the stream was closed
  EXPECT_TRUE(guest.host.mux.joined());
  Cabled cable;
  ASSERT_TRUE(cable.Join());
  for (std::size_t i = 0; i < port::kStreamsMax; ++i) EXPECT_NE(cable.guest->mux.Open(), 0U);
  EXPECT_EQ(cable.guest->mux.Open(), 0U);
}

}  // namespace
}  // namespace weir::remote
