// SPDX-License-Identifier: Apache-2.0
// A gate with a hostile tenant, which writes and sends invalid data.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <thread>

#include "base/prng.h"
#include "gate/agent.h"
#include "gate/host.h"
#include "platform/clock.h"
#include "tests/harness/child.h"
#include "tests/harness/code_of.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/hostile_gate.h"
#include "tests/harness/raw_client.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::gate {
namespace {

using weir::testing::CodeOf;
using weir::testing::GateHost;
using weir::testing::GoodRecord;
using weir::testing::RawClient;
using weir::testing::TempFolder;
using weir::testing::WaitUntil;

constexpr std::int64_t kDayNs = 86'400LL * 1'000'000'000;

class HostileTenant : public ::testing::Test {
 protected:
  HostileTenant() : path_(folder_ / "v"), host_(path_) {}

  /// Checks that an honest agent is still served.
  void ExpectServed() {
    Agent honest(path_, proto::Api::kGl, "honest");
    EXPECT_TRUE(WaitUntil([&honest] { return testing::PresentFrame(honest); })) << honest.last_error();
  }
  Drained DrainAll() { return host_.Drain(); }

  TempFolder folder_;
  const std::string path_;
  GateHost host_;
};

/// Checks that what the daemon reads from a region is within its bounds, for any contents of the region.
void ExpectSane(const ProcessGate& process, const Drained& drained, std::int64_t now_ns) {
  EXPECT_LE(drained.frames.size(), proto::kRingRecords);
  EXPECT_LE(drained.bad, proto::kRingRecords + 1);
  EXPECT_LE(drained.lost, 1'000'000u);
  for (const HostFrame& frame : drained.frames) {
    EXPECT_LE(0, frame.begin_ns);
    EXPECT_LE(frame.begin_ns, frame.present_ns);
    EXPECT_LE(frame.present_ns, frame.submit_ns);
    EXPECT_LE(frame.submit_ns, frame.end_ns);
    EXPECT_LE(frame.end_ns, now_ns + 1'000'000'000);
    EXPECT_LE(0, frame.gpu_ns);
    EXPECT_LE(frame.gpu_ns, kDayNs);
    EXPECT_LE(0, std::min({frame.sync_ns, frame.pace_ns, frame.wait_ns}));
    EXPECT_LE(frame.sync_ns + frame.pace_ns + frame.wait_ns, frame.submit_ns - frame.present_ns);
    EXPECT_LE(0, std::min(frame.predicted_ns, frame.interval_ns));
    EXPECT_LE(std::max(frame.predicted_ns, frame.interval_ns), kDayNs);
  }
  EXPECT_LE(process.Waiting(), 1024u);
  EXPECT_LE(process.InFlight(), 1024u);
  EXPECT_LE(0, process.ReservedNs());
  EXPECT_LE(process.ReservedNs(), kDayNs);
  const ProcessInfo info = process.Info();
  EXPECT_EQ(info.pid, ::getpid());
  EXPECT_LE(static_cast<std::uint32_t>(info.meter), proto::kMeterKindMax);
  EXPECT_LE(info.renderer.size(), sizeof proto::ProcessRegion::renderer);
  for (const char c : info.renderer) EXPECT_TRUE(c >= 0x20 && c < 0x7F) << static_cast<int>(c);
}

TEST_F(HostileTenant, GarbageInItsRegionDoesNotReachTheBooks) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  Prng prng(testing::kHostileSeed);
  auto* words = reinterpret_cast<std::uint64_t*>(&client.process());
  for (int round = 0; round < 300; ++round) {
    for (std::size_t i = 0; i < proto::kProcessRegionBytes / 8; ++i)
      __atomic_store_n(&words[i], prng.Next(), __ATOMIC_RELAXED);
    if (round % 2 == 0)  // a plausible head, so that the records are read
      client.process().head = client.process().tail = prng.Next();
    host_.With([&](VgpuGate& gate) {
      ProcessGate& process = *gate.processes().begin()->second;
      Drained drained;
      const std::int64_t now_ns = platform::NowNs();
      process.Drain(now_ns, drained);
      client.process().head += 500;
      process.Drain(now_ns, drained = {});
      ExpectSane(process, drained, now_ns);
    });
    if (HasFailure()) FAIL() << "round " << round << ", seed " << testing::kHostileSeed;
  }
  ExpectServed();
}

TEST_F(HostileTenant, NearlyGoodRecordsAreCheckedFieldByField) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  Prng prng(testing::kHostileSeed);
  std::uint64_t good = 0, bad = 0;
  for (int round = 0; round < 300; ++round) {
    const std::int64_t now_ns = platform::NowNs();
    for (std::uint64_t i = 1; i <= 100; ++i) {
      proto::Record record = GoodRecord(static_cast<std::uint64_t>(round) * 100 + i, now_ns);
      if (prng.Next() % 2 == 0) {  // one byte is corrupted
        auto* bytes = reinterpret_cast<unsigned char*>(&record);
        bytes[prng.Between(8, sizeof record - 1)] ^= static_cast<unsigned char>(prng.Between(1, 255));
      }
      client.Push(record);
    }
    host_.With([&](VgpuGate& gate) {
      ProcessGate& process = *gate.processes().begin()->second;
      Drained drained;
      process.Drain(now_ns, drained);
      ExpectSane(process, drained, now_ns);
      good += drained.frames.size();
      bad += drained.bad;
    });
    if (HasFailure()) FAIL() << "round " << round << ", seed " << testing::kHostileSeed;
  }
  EXPECT_EQ(good + bad, 30'000u);
  EXPECT_GT(good, 15'000u);
  EXPECT_GT(bad, 5'000u);
}

TEST_F(HostileTenant, WritingWhileTheDaemonReadsChangesNothingThatWasChecked) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  std::atomic<bool> done{false};
  std::thread scribbler([&] {
    Prng prng(testing::kHostileSeed);
    auto* words = reinterpret_cast<std::uint64_t*>(&client.process());
    const std::int64_t now_ns = platform::NowNs();
    while (!done) {
      const auto at = static_cast<std::size_t>(prng.Between(8, proto::kProcessRegionBytes / 8 - 1));
      __atomic_store_n(&words[at], prng.Next() % 4 == 0 ? prng.Next() : static_cast<std::uint64_t>(now_ns),
                       __ATOMIC_RELAXED);
      // The record is valid for a moment and is corrupted again at once.
      proto::Record& record = client.process().records[prng.Next() % 8];
      __atomic_store_n(&record.kind, 1, __ATOMIC_RELAXED);
      __atomic_store_n(&record.gpu_ns, 1, __ATOMIC_RELAXED);
      __atomic_store_n(&record.gpu_ns, -1, __ATOMIC_RELAXED);
      client.process().head.fetch_add(1, std::memory_order_release);
    }
  });
  for (int round = 0; round < 2'000 && !HasFailure(); ++round)
    host_.With([&](VgpuGate& gate) {
      ProcessGate& process = *gate.processes().begin()->second;
      Drained drained;
      const std::int64_t now_ns = platform::NowNs();
      process.Drain(now_ns, drained);
      ExpectSane(process, drained, now_ns);
    });
  done = true;
  scribbler.join();
}

TEST_F(HostileTenant, AHeadThatJumpsCostsOneBadRecordAndIsFollowed) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  const auto drain = [this] { return host_.Drain(); };
  const std::int64_t now_ns = platform::NowNs();
  client.Push(GoodRecord(1, now_ns));
  EXPECT_EQ(drain().frames.size(), 1u);
  std::uint64_t sequence = 1;
  for (const std::uint64_t head :
       {std::uint64_t{5'000}, std::uint64_t{100}, std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{2'000}}) {
    client.process().head = head;
    Drained drained = drain();
    EXPECT_TRUE(drained.frames.empty()) << head;
    EXPECT_EQ(drained.bad, 1u) << head;
    EXPECT_EQ(client.process().tail, head) << head;
    client.Push(GoodRecord(++sequence, now_ns));
    EXPECT_EQ(drain().frames.size(), 1u) << "after the jump to " << head;
  }
}

TEST_F(HostileTenant, TheCountOfLostRecordsIsClamped) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  client.process().records_dropped = ~std::uint64_t{0};
  EXPECT_EQ(DrainAll().lost, 1'000'000u);
  client.process().records_dropped = 5;  // the counter went backwards
  EXPECT_EQ(DrainAll().lost, 0u);
  client.process().records_dropped = 7;
  EXPECT_EQ(DrainAll().lost, 2u);
}

TEST_F(HostileTenant, CountsOfThreadsAreClamped) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  client.process().waiting = client.process().in_flight = 1024;
  EXPECT_EQ(host_.Waiting() + host_.InFlight(), 2048u);
  client.process().waiting = client.process().in_flight = 1025;
  EXPECT_EQ(host_.Waiting() + host_.InFlight(), 0u);
}

TEST_F(HostileTenant, ExtremeFiguresDoNotOverflow) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  for (const std::int64_t figure :
       {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    client.vgpu().allowance_ns = figure;
    EXPECT_LE(-kDayNs, host_.AllowanceNs());
    EXPECT_LE(host_.AllowanceNs(), kDayNs);
    client.process().reserved_ns = figure;
    const std::int64_t reserved_ns = host_.ReservedNs();
    EXPECT_LE(0, reserved_ns);
    EXPECT_LE(reserved_ns, kDayNs);
  }
}

TEST_F(HostileTenant, ARegionThatItOverwroteIsMendedForAllWhoShareIt) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  host_.With(
      [](VgpuGate& gate) { gate.Publish({.cap_ppm = 50'000, .memory_limit_slots = 5, .memory_elastic = true}); });
  Agent earlier(path_, proto::Api::kGl, "earlier");
  ASSERT_TRUE(WaitUntil([&earlier] { return testing::PresentFrame(earlier); }));
  for (const int byte : {0, 0xFF, 0x5A}) {
    std::memset(static_cast<void*>(&client.vgpu()), byte, sizeof(proto::VgpuRegion));
    ExpectServed();
    EXPECT_TRUE(WaitUntil([&earlier] { return testing::PresentFrame(earlier); })) << earlier.last_error();
    EXPECT_EQ(proto::HeaderFault(client.vgpu().header, proto::kVgpuRegionMagic, proto::kVgpuRegionBytes), nullptr);
    EXPECT_EQ(client.vgpu().mode, static_cast<std::uint32_t>(proto::GateMode::kOpen));
    EXPECT_EQ(client.vgpu().cap_ppm, 50'000U);
    EXPECT_EQ(client.vgpu().messages_sent, 0U);
    EXPECT_EQ(client.vgpu().doorbell_wanted, 0U);
    EXPECT_EQ(earlier.memory_order().limit, 5U);
    EXPECT_TRUE(earlier.memory_order().elastic);
  }
}

TEST_F(HostileTenant, ItsDescriptorsDoNotLetItResizeRegions) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  for (const auto which : {proto::kVgpuRegionFd, proto::kProcessRegionFd})
    for (const off_t size : {off_t{0}, off_t{1}, off_t{1 << 20}}) {
      errno = 0;
      EXPECT_NE(::ftruncate(client.fd(which), size), 0);
      EXPECT_EQ(errno, EPERM);
      EXPECT_NE(::fcntl(client.fd(which), F_ADD_SEALS, F_SEAL_WRITE), 0);
    }
  host_.With([](VgpuGate& gate) { gate.Grant(1); });  // the daemon's mapping is unchanged
  EXPECT_EQ(client.vgpu().allowance_ns, 1);
}

TEST_F(HostileTenant, ItsDoorbellDoesNotLetItHoldTheDaemon) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  const int bell = client.fd(proto::kDoorbellFd);
  // The flags belong to the eventfd, not to one side: a plain read of the silent doorbell would now block forever.
  ASSERT_EQ(::fcntl(bell, F_SETFL, ::fcntl(bell, F_GETFL) & ~O_NONBLOCK), 0);
  host_.With([](VgpuGate& gate) { gate.AnswerDoorbell(); });
  const std::uint64_t many = ~std::uint64_t{0} - 1;
  ASSERT_EQ(::write(bell, &many, sizeof many), static_cast<ssize_t>(sizeof many));
  host_.With([](VgpuGate& gate) { gate.AnswerDoorbell(); });
  ASSERT_EQ(::write(bell, &many, sizeof many), static_cast<ssize_t>(sizeof many)) << "it was emptied";
}

TEST_F(HostileTenant, MoreProcessesThanAVgpuMayHaveAreRefused) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  constexpr rlim_t kNeeded = 3 * kProcessesPerVgpuMax;
  if (limit.rlim_cur < kNeeded) GTEST_SKIP() << "needs " << kNeeded << " descriptors";
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::size_t i = 0; i < kProcessesPerVgpuMax; ++i) {
    clients.push_back(std::make_unique<RawClient>(path_));
    ASSERT_TRUE(clients.back()->Attach()) << i;
    clients.back()->CloseDescriptors();
  }
  RawClient one_more(path_);
  ASSERT_TRUE(one_more.Send(proto::AttachMessage{RawClient::GoodHello()}));
  const auto answer = one_more.Receive();
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_TRUE(std::holds_alternative<proto::Refusal>(*answer));
  EXPECT_EQ(std::get<proto::Refusal>(*answer).code, Errc::kResourceExhausted);
  EXPECT_EQ(CodeOf(one_more.Receive()), Errc::kUnavailable) << "and then closed";
  EXPECT_EQ(host_.Processes(), kProcessesPerVgpuMax);
  {
    std::array<int, 2> known{};  // closed once the host knows the executor: an executor attaches after that
    ASSERT_EQ(::pipe(known.data()), 0);
    const weir::testing::Child executor([this, &known] {
      ::close(known[1]);
      char nothing = 0;
      static_cast<void>(::read(known[0], &nothing, 1));
      const RawClient client(path_);
      static_cast<void>(client.Send(proto::AttachMessage{RawClient::GoodHello()}));
      for (;;) ::pause();
      return 0;
    });
    ::close(known[0]);
    host_.SetExecutor(executor.pid());
    ::close(known[1]);
    EXPECT_TRUE(WaitUntil([this] { return host_.Processes() == kProcessesPerVgpuMax + 1; }))
        << "the executor has a place beside theirs";
  }
  ASSERT_TRUE(WaitUntil([this] { return host_.Processes() == kProcessesPerVgpuMax; }));
  host_.SetExecutor(::getpid());  // this process, to which all these clients belong, has attached before
  EXPECT_FALSE(RawClient(path_).Attach()) << "an executor has one place";
  clients.pop_back();
  ASSERT_TRUE(WaitUntil([this] { return host_.Processes() == kProcessesPerVgpuMax - 1; }));
  ExpectServed();
}

// -- On the socket ---------------------------------------------------------------------------------------------------

/// The refusal that a connection gets for this first packet.
proto::Refusal RefusalOf(const std::string& path, const std::vector<std::byte>& packet) {
  RawClient client(path);
  EXPECT_TRUE(client.Send(packet));
  const auto answer = client.Receive();
  EXPECT_TRUE(answer) << answer.error().message;
  if (!answer || !std::holds_alternative<proto::Refusal>(*answer)) {
    ADD_FAILURE() << "not refused";
    return {};
  }
  EXPECT_EQ(CodeOf(client.Receive()), Errc::kUnavailable) << "and then closed";
  return std::get<proto::Refusal>(*answer);
}

TEST_F(HostileTenant, AHelloOfAnotherVersionIsRefusedAsSuch) {
  proto::Hello hello = RawClient::GoodHello();
  hello.gate_version_major = 2;
  const proto::Refusal layout = RefusalOf(path_, proto::Encode(hello));
  EXPECT_EQ(layout.code, Errc::kVersionMismatch);
  EXPECT_NE(layout.reason.find("layout 2"), std::string::npos) << layout.reason;
  auto packet = proto::Encode(RawClient::GoodHello());
  packet[4] = std::byte{9};
  EXPECT_EQ(RefusalOf(path_, packet).code, Errc::kVersionMismatch);
  ExpectServed();
}

TEST_F(HostileTenant, AHelloOfAnotherMinorVersionIsWelcome) {
  proto::Hello hello = RawClient::GoodHello();
  hello.gate_version_minor = 77;
  RawClient client(path_);
  ASSERT_TRUE(client.Send(proto::AttachMessage{hello}));
  const auto answer = client.Receive();
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(std::holds_alternative<proto::Welcome>(*answer));
}

TEST_F(HostileTenant, GarbageInsteadOfAHelloIsRefused) {
  Prng prng(testing::kHostileSeed);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::byte> packet(static_cast<std::size_t>(prng.Between(1, 600)));
    for (std::byte& byte : packet) byte = static_cast<std::byte>(prng.Next());
    EXPECT_EQ(RefusalOf(path_, packet).code, Errc::kProtocol) << "round " << round;
  }
  for (const proto::AttachMessage& message :
       {proto::AttachMessage{proto::Ack{}}, proto::AttachMessage{proto::Welcome{}},
        proto::AttachMessage{proto::Command{}}})
    EXPECT_EQ(RefusalOf(path_, proto::Encode(message)).code, Errc::kProtocol);
  EXPECT_EQ(host_.Processes(), 0u);
  ExpectServed();
}

TEST_F(HostileTenant, AHelloThatCarriesDescriptorsIsRefused) {
  RawClient client(path_);
  const int own = client.socket();
  ASSERT_TRUE(client.Send(proto::Encode(RawClient::GoodHello()), {&own, 1}));
  const auto answer = client.Receive();
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_TRUE(std::holds_alternative<proto::Refusal>(*answer));
  EXPECT_EQ(std::get<proto::Refusal>(*answer).code, Errc::kProtocol);
}

TEST_F(HostileTenant, SilentOrShortConnectionsDelayNoOther) {
  const RawClient silent(path_);
  for (int i = 0; i < 50; ++i) const RawClient leaves_at_once(path_);
  ExpectServed();
}

TEST_F(HostileTenant, AProcessThatSendsUnknownMessagesIsDetached) {
  const std::vector<std::vector<std::byte>> packets{
      std::vector<std::byte>(10, std::byte{0xFF}), proto::Encode(RawClient::GoodHello()),
      proto::Encode(proto::Refusal{}), std::vector<std::byte>(proto::kAttachMessageBytesMax + 1, std::byte{1}),
      std::vector<std::byte>{}};
  for (const auto& packet : packets) {
    RawClient client(path_);
    ASSERT_TRUE(client.Attach());
    EXPECT_EQ(host_.Processes(), 1u);
    ASSERT_TRUE(client.Send(packet));
    EXPECT_TRUE(WaitUntil([this] { return host_.Processes() == 0; })) << packet.size() << " bytes";
  }
  ExpectServed();
}

TEST_F(HostileTenant, AProcessThatSendsDescriptorsWithAcksIsDetached) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  const int own = client.socket();
  ASSERT_TRUE(client.Send(proto::Encode(proto::Ack{}), {&own, 1}));
  EXPECT_TRUE(WaitUntil([this] { return host_.Processes() == 0; }));
}

TEST_F(HostileTenant, AnswersToNoCommandEndItsConnection) {
  RawClient client(path_);
  ASSERT_TRUE(client.Attach());
  for (int i = 0; i < 5'000; ++i) {
    const auto ack = proto::Encode(proto::Ack{static_cast<std::uint64_t>(i), Errc::kInternal, true});
    if (!client.Send(ack)) break;
  }
  EXPECT_TRUE(WaitUntil([this] { return host_.Processes() == 0; }));
  ExpectServed();
}

TEST_F(HostileTenant, ControlCharactersInANameAreReplaced) {
  proto::Hello hello = RawClient::GoodHello();
  hello.program = "evil\n\x1b[31m\x7f\xff\xc3\xa4\"<b>";
  RawClient client(path_);
  ASSERT_TRUE(client.Send(proto::AttachMessage{hello}));
  ASSERT_TRUE(client.Receive());
  EXPECT_EQ(host_.With([](VgpuGate& gate) { return gate.processes().begin()->second->Info().program; }),
            "evil??[31m????\"<b>");
}

}  // namespace
}  // namespace weir::gate
