// SPDX-License-Identifier: Apache-2.0
// An agent whose daemon is not a Weir daemon, or does not behave as one: the agent lets its program pass, and reports
// why.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "gate/agent.h"
#include "platform/clock.h"
#include "platform/shared_memory.h"
#include "platform/unix_socket.h"
#include "tests/harness/code_of.h"
#include "tests/harness/hostile_gate.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::gate {
namespace {

using weir::testing::CodeOf;
using weir::testing::TempFolder;
using weir::testing::WaitUntil;

/// Listens at the daemon's path and answers each connection as the test says.
class FakeDaemon {
 public:
  using Answer = std::function<void(int connection)>;
  FakeDaemon(const std::string& path, Answer answer)
      : listener_(Listen(path)), answer_(std::move(answer)), thread_([this] { Run(); }) {}
  ~FakeDaemon() {
    stopping_ = true;
    thread_.join();
  }

 private:
  static platform::Fd Listen(const std::string& path) {
    auto made = platform::ListenSeqPacket(path, 0600);
    WEIR_CHECK(made.has_value());
    return std::move(*made);
  }
  void Run() {
    std::vector<platform::Fd> connections;  // kept open until the end
    while (!stopping_) {
      if (!platform::WaitReadable(listener_.get(), 5)) continue;
      platform::Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!connection || !platform::WaitReadable(connection.get(), 1'000)) continue;
      static_cast<void>(platform::ReceivePacket(connection.get(), proto::kAttachMessageBytesMax).has_value());
      answer_(connection.get());
      connections.push_back(std::move(connection));
    }
  }

  platform::Fd listener_;
  Answer answer_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// A valid Welcome, for tests to corrupt.
struct Offer {
  platform::SharedRegion vgpu = *platform::MakeSharedRegion("test-vgpu", proto::kVgpuRegionBytes);
  platform::SharedRegion process = *platform::MakeSharedRegion("test-process", proto::kProcessRegionBytes);
  platform::Fd bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  proto::Welcome welcome{1, 2, proto::kVgpuRegionBytes, proto::kProcessRegionBytes, {}};

  Offer() {
    proto::InitHeader(vgpu_page().header, proto::kVgpuRegionMagic, proto::kVgpuRegionBytes, 1);
    proto::InitHeader(process_page().header, proto::kProcessRegionMagic, proto::kProcessRegionBytes, 2);
  }
  [[nodiscard]] proto::VgpuRegion& vgpu_page() const { return *vgpu.mapping.As<proto::VgpuRegion>(); }
  [[nodiscard]] proto::ProcessRegion& process_page() const { return *process.mapping.As<proto::ProcessRegion>(); }
  void Send(int connection, std::size_t fds = proto::kWelcomeFds) const {
    vgpu_page().heartbeat_ns = platform::NowNs();
    const int all[] = {vgpu.fd.get(), process.fd.get(), bell.get(), bell.get()};
    static_cast<void>(platform::SendPacket(connection, proto::Encode(welcome), {all, fds}).has_value());
  }
};

class ForeignDaemon : public ::testing::Test {
 protected:
  ForeignDaemon() : path_(folder_ / "v") {}

  /// Checks that an agent with such a daemon lets its program pass, is not attached, and reports why.
  void ExpectPassedThrough(FakeDaemon::Answer answer, const std::string& why) {
    const FakeDaemon daemon(path_, std::move(answer));
    Agent agent(path_, proto::Api::kGl, "test");
    // More than one attempt is needed only if the machine is so busy that the first answer comes too late.
    EXPECT_TRUE(WaitUntil([&] {
      EXPECT_FALSE(testing::PresentFrame(agent));
      return agent.last_error().find(why) != std::string::npos;
    })) << "it says: "
        << agent.last_error();
    EXPECT_FALSE(agent.attached());
  }

  TempFolder folder_;
  const std::string path_;
};

TEST_F(ForeignDaemon, ThatDoesNotAnswerLetsTheProgramPass) {
  ExpectPassedThrough([](int) {}, "no answer within the bound");
}

TEST_F(ForeignDaemon, ThatIsAHealthyOneIsAttachedTo) {  // otherwise the tests below would prove nothing
  const Offer offer;
  const FakeDaemon daemon(path_, [&offer](int connection) { offer.Send(connection); });
  Agent agent(path_, proto::Api::kGl, "test");
  EXPECT_TRUE(WaitUntil([&] { return testing::PresentFrame(agent); })) << agent.last_error();
}

// Like a daemon on a busy host: the answer comes after the agent has failed open. The agent still reads it.
TEST_F(ForeignDaemon, ThatAnswersLateIsAttachedToByTheSameConnection) {
  const Offer offer;
  offer.vgpu_page().allowance_ns = 1'000'000'000;
  std::atomic<int> first{-1}, connections{0};
  const FakeDaemon daemon(path_, [&](int connection) {
    if (++connections == 1) first = connection;
  });
  Agent agent(path_, proto::Api::kGl, "test");
  for (int frame = 0; frame < 100; ++frame) {
    EXPECT_FALSE(testing::PresentFrame(agent)) << "it goes on without a gate";
    std::this_thread::sleep_for(milliseconds(5));
  }
  ASSERT_TRUE(WaitUntil([&] { return first >= 0; })) << agent.last_error();
  offer.Send(first);
  EXPECT_TRUE(WaitUntil([&] { return testing::PresentFrame(agent) || connections > 1; })) << agent.last_error();
  EXPECT_TRUE(agent.attached()) << agent.last_error();
  EXPECT_EQ(connections, 1);
}

TEST_F(ForeignDaemon, ThatClosesTheConnection) {
  ExpectPassedThrough([](int connection) { ::shutdown(connection, SHUT_RDWR); }, "closed the connection");
}

TEST_F(ForeignDaemon, ThatSendsGarbage) {
  ExpectPassedThrough(
      [](int connection) {
        const std::vector<std::byte> garbage(100, std::byte{0xA5});
        static_cast<void>(platform::SendPacket(connection, garbage).has_value());
      },
      "not from Weir");
}

TEST_F(ForeignDaemon, ThatSendsMoreThanAnyMessage) {
  ExpectPassedThrough(
      [](int connection) {
        const std::vector<std::byte> garbage(5'000, std::byte{0xA5});
        static_cast<void>(platform::SendPacket(connection, garbage).has_value());
      },
      "longer than");
}

TEST_F(ForeignDaemon, ThatAnswersWithAnotherMessage) {
  ExpectPassedThrough(
      [](int connection) {
        static_cast<void>(platform::SendPacket(connection, proto::Encode(proto::Ack{})).has_value());
      },
      "expected a Welcome");
}

TEST_F(ForeignDaemon, ThatRefuses) {
  ExpectPassedThrough(
      [](int connection) {
        const proto::Refusal refusal{Errc::kPermissionDenied, "you are not on the list"};
        static_cast<void>(platform::SendPacket(connection, proto::Encode(refusal)).has_value());
      },
      "you are not on the list");
}

TEST_F(ForeignDaemon, ThatPassesTooFewOrTooManyDescriptors) {
  const Offer offer;
  for (const std::size_t fds : {0, 1, 2, 4})
    ExpectPassedThrough([&](int connection) { offer.Send(connection, fds); }, "expected a Welcome with 3 descriptors");
}

TEST_F(ForeignDaemon, ThatPassesRegionsWhichItCouldTruncate) {
  const auto unsealed = [](std::uint64_t bytes) {
    platform::Fd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    WEIR_CHECK(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
    return fd;
  };
  Offer vgpu_unsealed, process_unsealed;
  vgpu_unsealed.vgpu.fd = unsealed(proto::kVgpuRegionBytes);
  process_unsealed.process.fd = unsealed(proto::kProcessRegionBytes);
  for (const Offer* offer : {&vgpu_unsealed, &process_unsealed})
    ExpectPassedThrough([offer](int connection) { offer->Send(connection); }, "not a memfd sealed against resizing");
}

TEST_F(ForeignDaemon, ThatPassesRegionsOfAnotherSize) {
  Offer shorter, longer;
  shorter.process = *platform::MakeSharedRegion("test", 4096);
  longer.vgpu = *platform::MakeSharedRegion("test", 2 * proto::kVgpuRegionBytes);
  for (const Offer* offer : {&shorter, &longer})
    ExpectPassedThrough([offer](int connection) { offer->Send(connection); }, "expected");
}

TEST_F(ForeignDaemon, ThatPassesTheRegionsInTheWrongOrder) {
  Offer offer;
  std::swap(offer.vgpu, offer.process);
  ExpectPassedThrough([&](int connection) { offer.Send(connection); }, "shared region has");
}

TEST_F(ForeignDaemon, WhoseRegionsHaveAnotherMajorVersion) {
  const Offer vgpu, process;
  vgpu.vgpu_page().header.version_major = 2;
  process.process_page().header.version_major = 0;
  for (const Offer* offer : {&vgpu, &process})
    ExpectPassedThrough([offer](int connection) { offer->Send(connection); }, "another major version");
}

TEST_F(ForeignDaemon, WhoseHeadersAreGarbage) {
  Prng prng(testing::kHostileSeed);
  for (int round = 0; round < 50; ++round) {
    const Offer offer;
    auto& header = round % 2 == 0 ? offer.vgpu_page().header : offer.process_page().header;
    for (std::size_t i = 0; i < sizeof header; ++i)
      reinterpret_cast<unsigned char*>(&header)[i] = static_cast<unsigned char>(prng.Next());
    ExpectPassedThrough([&](int connection) { offer.Send(connection); }, "the region is not usable");
  }
}

// It publishes the limit for executors, and has no table of what programs hold.
TEST_F(ForeignDaemon, OfGateLayout19LimitsNoMemoryOfProgramsAndTheySaySoOnce) {
  const Offer offer;
  offer.vgpu_page().header.version_minor = offer.process_page().header.version_minor = 9;
  offer.vgpu_page().allowance_ns = 1'000'000'000;
  offer.vgpu_page().memory_limit_slots = 1;
  offer.vgpu_page().memory_order = 2;
  const FakeDaemon daemon(path_, [&offer](int connection) { offer.Send(connection); });
  Agent agent(path_, proto::Api::kCuda, "test");
  ASSERT_TRUE(WaitUntil([&] { return testing::PresentFrame(agent); })) << agent.last_error();
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(agent.ClaimMemory(kSlotBytes.count));
  EXPECT_EQ(agent.UsedMemory().limit, 0U) << "programs are shown the card";
  EXPECT_EQ(agent.UsedMemory().held, 3 * kSlotBytes.count);
  EXPECT_TRUE(testing::PresentFrame(agent)) << "the gate holds as before";
  for (const proto::AtomicU64& word : offer.vgpu_page().memory.words) EXPECT_EQ(word, 0U);
  offer.vgpu_page().heartbeat_ns = 0;
  EXPECT_TRUE(agent.ClaimMemory(kSlotBytes.count)) << "nothing was limited before either";
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said, "weir: the memory limit of this vGPU does not hold for this program: the daemon is too old\n");
}

// Programs ask once how much memory there is. Longer than the wait of a frame.
TEST_F(ForeignDaemon, ThatAnswersAfterAMomentIsAwaitedByTheFirstQuestionForMemory) {
  const Offer offer;
  offer.vgpu_page().memory_limit_slots = 1;
  offer.vgpu_page().memory_order = 2;
  const FakeDaemon daemon(path_, [&offer](int connection) {
    std::this_thread::sleep_for(2 * kAttachWait);
    offer.Send(connection);
  });
  Agent agent(path_, proto::Api::kVulkan, "test");
  EXPECT_EQ(agent.UsedMemory().limit, kSlotBytes.count) << agent.last_error();
}

TEST_F(ForeignDaemon, ThatNeverStopsSendingCommandsIsReadAPieceAtATime) {
  const Offer offer;
  offer.vgpu_page().allowance_ns = 1'000'000'000;
  std::atomic<bool> flooding{true};
  const FakeDaemon daemon(path_, [&](int connection) {
    offer.Send(connection);
    offer.vgpu_page().messages_sent = 1;
    const auto command = proto::Encode(proto::Command{1, proto::CommandKind::kEvict, 1});
    while (flooding) {
      if (CodeOf(platform::SendPacket(connection, command)) == Errc::kUnavailable)
        return;  // the agent has disconnected
      static_cast<void>(platform::ReceivePacket(connection, proto::kAttachMessageBytesMax).has_value());
      offer.vgpu_page().heartbeat_ns = platform::NowNs();
    }
  });
  Agent agent(path_, proto::Api::kGl, "test");
  EXPECT_TRUE(WaitUntil([&] { return testing::PresentFrame(agent); })) << agent.last_error();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(testing::PresentFrame(agent)) << agent.last_error();
  flooding = false;
}

TEST_F(ForeignDaemon, ThatPublishesAnUnknownModeIsFailedOpenWithoutHeartbeats) {
  const Offer offer;
  offer.vgpu_page().mode = 77;
  const FakeDaemon daemon(path_, [&](int connection) { offer.Send(connection); });
  Agent agent(path_, proto::Api::kGl, "test");
  std::thread presenter([&] {
    while (offer.process_page().waiting == 0 && !testing::PresentFrame(agent)) std::this_thread::yield();
  });
  EXPECT_TRUE(WaitUntil([&] { return offer.process_page().waiting == 1; }));
  offer.vgpu_page().heartbeat_ns = 0;
  presenter.join();
  EXPECT_FALSE(agent.attached());
}

}  // namespace
}  // namespace weir::gate
