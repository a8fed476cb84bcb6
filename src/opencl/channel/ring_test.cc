// SPDX-License-Identifier: Apache-2.0
#include "opencl/channel/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/prng.h"
#include "proto/opencl_messages.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

class Ring : public ::testing::Test {
 protected:
  void SetUp() override {
    auto region = platform::MakeSharedRegion("weir-ring-test", kRingsBytes);
    ASSERT_TRUE(region);
    region_ = std::move(*region);
    auto client = MapChannel(region_.fd.get(), Side::kClient);
    auto executor = MapChannel(region_.fd.get(), Side::kExecutor);
    ASSERT_TRUE(client && executor);
    client_ = std::move(*client);
    executor_ = std::move(*executor);
  }
  /// False: no room.
  bool Send(std::span<const std::byte> message) {
    std::byte* at = client_.out.Reserve(message.size());
    if (at == nullptr) return false;
    std::memcpy(at, message.data(), message.size());
    client_.out.Send(message.size());
    return true;
  }
  /// A message of `bytes` bytes that contains its number.
  static std::vector<std::byte> Numbered(std::uint64_t number, std::size_t bytes) {
    std::vector<std::byte> message(bytes, static_cast<std::byte>(number));
    const wire::Header header{static_cast<std::uint32_t>(bytes), 7, 0};
    std::memcpy(message.data(), &header, sizeof header);
    std::memcpy(message.data() + sizeof header, &number, sizeof number);
    return message;
  }
  static std::uint64_t NumberOf(std::span<const std::byte> message) {
    std::uint64_t number = 0;
    std::memcpy(&number, message.data() + sizeof(wire::Header), sizeof number);
    return number;
  }
  [[nodiscard]] RingControl& control() { return region_.mapping.As<RingControl>()[0]; }
  std::byte* data() { return region_.mapping.As<std::byte>() + kControlBytes; }

  platform::SharedRegion region_;
  Channel client_, executor_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(wire::kMessageBytesMax);
};

TEST_F(Ring, DeliversWholeMessagesInOrder) {
  Prng prng(1);
  std::uint64_t sent = 0, seen = 0;
  while (seen < 20'000) {
    while (sent < 20'000) {
      const auto bytes = static_cast<std::size_t>(16 + prng.Next() % 3'000);
      if (!Send(Numbered(sent, bytes))) break;
      ++sent;
    }
    for (std::uint64_t batch = prng.Next() % 400 + 1; batch > 0 && seen < sent; --batch) {
      const auto message = executor_.in.Next(scratch_);
      ASSERT_TRUE(message) << message.error().message;
      ASSERT_FALSE(message->empty());
      EXPECT_EQ(NumberOf(*message), seen);
      EXPECT_EQ(message->back(), message->size() > 24 ? static_cast<std::byte>(seen) : message->back());
      ++seen;
    }
  }
  EXPECT_TRUE(executor_.in.Empty());
}

TEST_F(Ring, AMessageThatDoesNotFitIsNotSent) {
  std::uint64_t sent = 0;
  while (Send(Numbered(sent, 4'096))) ++sent;
  EXPECT_EQ(sent, kRingBytes / 4'096);
  ASSERT_TRUE(executor_.in.Next(scratch_));
  EXPECT_TRUE(Send(Numbered(sent, 4'096)));
}

TEST_F(Ring, AReaderSleepsUntilAMessageArrives) {
  constexpr std::uint64_t kMessages = 20'000;
  std::thread sender([this] {
    Prng prng(2);
    for (std::uint64_t i = 0; i < kMessages;) {
      if (Send(Numbered(i, 64))) {
        ++i;
        if (prng.Next() % 1'000 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
      } else {
        client_.out.WaitForRoom(64, seconds(5));
      }
    }
  });
  for (std::uint64_t seen = 0; seen < kMessages;) {
    const auto message = executor_.in.Next(scratch_);
    ASSERT_TRUE(message);
    if (message->empty()) {
      executor_.in.Wait(seconds(5));
    } else {
      ASSERT_EQ(NumberOf(*message), seen++);
    }
  }
  sender.join();
}

TEST_F(Ring, ATimeoutEndsAWait) { EXPECT_FALSE(executor_.in.Wait(milliseconds(1))); }

TEST_F(Ring, AWaitMayBeInterrupted) {
  std::atomic<bool> done{false};
  std::thread waiter([&] {
    while (!done.load()) executor_.in.Wait(seconds(60));
  });
  done.store(true);
  // The waiter may not have started to wait; an interrupt that comes too early may be lost, like a wake-up.
  while (waiter.joinable()) {
    executor_.in.Interrupt();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (done.load()) {
      executor_.in.Interrupt();
      waiter.join();
    }
  }
}

// -- A hostile other side ---------------------------------------------------------------------------------------------

TEST_F(Ring, AnInvalidPositionIsRefused) {
  control().produced.store(kRingBytes + 8);
  EXPECT_EQ(executor_.in.Next(scratch_).error().code, Errc::kProtocol);
  control().consumed.store(8);  // more than was sent
  EXPECT_EQ(client_.out.Reserve(64), nullptr);
  EXPECT_TRUE(client_.out.broken());
}

TEST_F(Ring, AnInvalidSizeIsRefused) {
  for (const std::uint32_t size : {0U, 7U, 65U, 0xFFFFFFFFU}) {
    auto fresh = MapChannel(region_.fd.get(), Side::kExecutor);
    ASSERT_TRUE(fresh);
    const wire::Header header{size, 7, 0};
    std::memcpy(data(), &header, sizeof header);
    control().produced.store(64);
    EXPECT_EQ(fresh->in.Next(scratch_).error().code, Errc::kProtocol) << size;
  }
  control().produced.store(4);
  auto fresh = MapChannel(region_.fd.get(), Side::kExecutor);
  EXPECT_EQ(fresh->in.Next(scratch_).error().code, Errc::kProtocol);
}

TEST_F(Ring, AnOverlongMessageIsRefused) {
  const wire::Header header{static_cast<std::uint32_t>(wire::kMessageBytesMax + 8), 7, 0};
  std::memcpy(data(), &header, sizeof header);
  control().produced.store(2 * wire::kMessageBytesMax);
  EXPECT_EQ(executor_.in.Next(scratch_).error().code, Errc::kProtocol);
  std::vector<std::byte> roomy(4 * wire::kMessageBytesMax);
  EXPECT_EQ(executor_.in.Next(roomy).error().code, Errc::kProtocol) << "whatever the buffer's size";
}

TEST_F(Ring, AMessageWhosePaddingWasNotSentIsRefused) {
  const wire::Header header{20, 7, 0};
  std::memcpy(data(), &header, sizeof header);
  control().produced.store(20);
  EXPECT_EQ(executor_.in.Next(scratch_).error().code, Errc::kProtocol);
}

// -- Wake-ups ---------------------------------------------------------------------------------------------------------

TEST_F(Ring, OnlyASleepingReaderIsWokenAndOnlyOnce) {
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(Send(Numbered(i, 64)));
  EXPECT_EQ(client_.out.wakes(), 0U) << "the reader does not sleep";
  control().consumer_sleeps = 1;
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(Send(Numbered(i, 64)));
  EXPECT_EQ(client_.out.wakes(), 1U) << "it is awake since the first";
}

TEST_F(Ring, DeferrableMessagesWakeNoReaderUntilNeeded) {
  const auto publish = [&](std::uint64_t number) {
    const auto message = Numbered(number, 4096);
    std::memcpy(client_.out.Reserve(message.size()), message.data(), message.size());
    client_.out.Publish(message.size());
  };
  control().consumer_sleeps = 1;
  for (std::uint64_t i = 0; i < 5; ++i) publish(i);
  EXPECT_EQ(client_.out.wakes(), 0U);
  EXPECT_FALSE(executor_.in.Empty()) << "who looks sees them";
  ASSERT_TRUE(Send(Numbered(5, 64)));
  EXPECT_EQ(client_.out.wakes(), 1U);
  for (std::uint64_t i = 0; i < 6; ++i) {
    const auto message = executor_.in.Next(scratch_);
    ASSERT_TRUE(message);
    EXPECT_EQ(NumberOf(*message), i);
  }
  control().consumer_sleeps = 1;
  for (std::uint64_t i = 0; client_.out.Reserve(4096) != nullptr; ++i) publish(i);
  EXPECT_EQ(client_.out.wakes(), 1U);
  client_.out.WaitForRoom(4096, milliseconds(1));
  EXPECT_EQ(client_.out.wakes(), 2U) << "else they would wait for each other";
}

TEST_F(Ring, AnInterruptBeforeTheWaitEndsIt) {
  executor_.in.Interrupt();
  EXPECT_FALSE(executor_.in.Wait(seconds(600)));
  EXPECT_FALSE(executor_.in.Wait(milliseconds(1))) << "it ends one";
}

// -- Spinning --------------------------------------------------------------------------------------------------------

TEST(AdaptiveSpin, StopsSpinningWhenItDoesNotPayAndRetries) {
  AdaptiveSpin spin;
  for (int i = 0; i < 20; ++i)
    if (spin.Rounds() > 0) spin.DidNotCome();
  unsigned tried = 0;
  for (unsigned i = 0; i < 10 * AdaptiveSpin::kProbeEvery; ++i) {
    const unsigned rounds = spin.Rounds();
    if (rounds == 0) continue;
    EXPECT_LE(rounds, AdaptiveSpin::kProbe);
    ++tried;
    spin.DidNotCome();
  }
  EXPECT_EQ(tried, 10U);
}

TEST(AdaptiveSpin, GrowsWhileSpinningPays) {
  AdaptiveSpin spin;
  spin.Came(900);
  EXPECT_EQ(spin.Rounds(), 1'800U);
  spin.Came(1'800);
  EXPECT_EQ(spin.Rounds(), AdaptiveSpin::kMax);
  spin.DidNotCome();
  EXPECT_EQ(spin.Rounds(), AdaptiveSpin::kMax / 2);
}

}  // namespace
}  // namespace weir::opencl
