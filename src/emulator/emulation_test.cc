// SPDX-License-Identifier: Apache-2.0
// The emulator in virtual time.
#include "emulator/emulation.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

namespace weir::emulator {
namespace {

namespace wire = proto::emulator;
constexpr Instant kStart = InstantFromNs(10'000'000'000);

class Emulator {
 public:
  explicit Emulator(const char* text) : emulation(*ReadDevices(text, "f")) {}
  Emulation::ClientId Welcomed(const std::string& program = "p") {
    const auto client = emulation.Enter(++pid, 1000);
    EXPECT_TRUE(Send(client, wire::Hello{.program = program}));
    EXPECT_EQ(emulation.outgoing().size(), 1U);
    welcome = std::get<wire::Welcome>(emulation.outgoing().front().message).text;
    emulation.outgoing().clear();
    return client;
  }
  Status Send(Emulation::ClientId client, const wire::Message& message) {
    return emulation.Take(now, client, wire::Encode(message));
  }
  Status Submit(Emulation::ClientId client, std::uint64_t tag, Duration work) {
    return Send(client, wire::Submit{{{.tag = tag, .work_ns = static_cast<std::uint64_t>(work.count())}}});
  }
  /// Plays to `at`, event by event, and checks that no completion is reported early.
  void PlayTo(Instant at) {
    for (;;) {
      const Instant next = std::min(emulation.NextEvent(), at);
      now = std::max(now, next);
      emulation.Advance(now);
      for (const Emulation::Outgoing& out : emulation.outgoing())
        if (const auto* completed = std::get_if<wire::Completed>(&out.message))
          for (const wire::Completion& one : completed->completions) {
            EXPECT_LE(one.ended_ns, NsOf(now)) << "completed before the model's time";
            done.push_back({out.client, one});
          }
      emulation.outgoing().clear();
      if (next == at) return;
    }
  }
  nlohmann::json Accounts() { return nlohmann::json::parse(emulation.AccountsText(now)); }

  struct Done {
    Emulation::ClientId client;
    wire::Completion completion;
  };
  Emulation emulation;
  Instant now = kStart;
  pid_t pid = 100;
  std::string welcome;
  std::vector<Done> done;
};

TEST(Emulation, TwoClientsShareACardInOrderOfSubmission) {
  Emulator e("[[device]]\n");
  const auto a = e.Welcomed(), b = e.Welcomed();
  ASSERT_TRUE(e.Submit(a, 1, milliseconds(500)));
  ASSERT_TRUE(e.Submit(b, 2, milliseconds(2)));
  e.PlayTo(kStart + seconds(1));
  ASSERT_EQ(e.done.size(), 2U);
  EXPECT_EQ(e.done[0].client, a);
  EXPECT_EQ(e.done[1].client, b);
  EXPECT_EQ(e.done[1].completion.ended_ns, NsOf(kStart + milliseconds(502)));
  const auto accounts = e.Accounts();
  EXPECT_EQ(accounts["devices"][0]["busy_ns"]["compute"], 502'000'000);
  EXPECT_EQ(accounts["devices"][0]["clients"][1]["busy_ns"]["compute"], 2'000'000);
  EXPECT_EQ(accounts["devices"][0]["clients"][0]["pid"], 101);
}

TEST(Emulation, TheWelcomeNamesDevicesAndTheProgramsCost) {
  Emulator e("[[device]]\nname = \"Card\"\ncount = 2\n[[program]]\nname = \"game*\"\nframe = \"3 ms\"\n");
  e.Welcomed("game-2");
  const auto welcome = nlohmann::json::parse(e.welcome);
  EXPECT_EQ(welcome["devices"].size(), 2U);
  EXPECT_EQ(welcome["devices"][1]["name"], "Card (emulated)");
  EXPECT_EQ(welcome["frame"]["fixed_ns"], 3'000'000);
}

TEST(Emulation, AFrameIsShownAtTheVerticalBlankAfterItsWork) {
  Emulator e("[[device]]\nrefresh = 100\n");
  const auto client = e.Welcomed();
  for (std::uint64_t frame = 1; frame <= 3; ++frame) {
    ASSERT_TRUE(e.Submit(client, frame * 10, milliseconds(2)));
    ASSERT_TRUE(e.Send(client, wire::Present{.interval = 1, .tag = frame}));
  }
  e.PlayTo(kStart + seconds(1));
  std::vector<std::int64_t> shown;
  for (const auto& one : e.done)
    if (one.completion.tag < 10) shown.push_back(one.completion.ended_ns);
  const std::int64_t period = 10'000'000;
  ASSERT_EQ(shown.size(), 3U);
  EXPECT_EQ(shown[0], NsOf(kStart) + period);
  EXPECT_EQ(shown[1], NsOf(kStart) + 2 * period);
  EXPECT_EQ(shown[2], NsOf(kStart) + 3 * period);
}

TEST(Emulation, WithoutAnIntervalAFrameIsShownWhenItsWorkIsDone) {
  Emulator e("[[device]]\n");
  const auto client = e.Welcomed();
  ASSERT_TRUE(e.Submit(client, 1, milliseconds(2)));
  ASSERT_TRUE(e.Send(client, wire::Present{.interval = 0, .tag = 2}));
  e.PlayTo(kStart + seconds(1));
  ASSERT_EQ(e.done.size(), 2U);
  EXPECT_EQ(e.done[1].completion.tag, 2U);
  EXPECT_EQ(e.done[1].completion.ended_ns, NsOf(kStart + milliseconds(2)));
}

TEST(Emulation, AClientThatLeavesGivesBackTheEngineAndItsMemory) {
  Emulator e("[[device]]\nmemory = \"1 GiB\"\n");
  const auto a = e.Welcomed(), b = e.Welcomed();
  ASSERT_TRUE(e.Submit(a, 1, seconds(100)));
  ASSERT_TRUE(e.Send(a, wire::Allocate{.bytes = 1 << 30, .tag = 2}));
  ASSERT_TRUE(e.Send(a, wire::Present{.interval = 1, .tag = 3}));
  e.PlayTo(kStart + milliseconds(10));
  ASSERT_TRUE(e.Send(b, wire::Allocate{.bytes = 1, .tag = 4}));
  EXPECT_EQ(std::get<wire::Allocated>(e.emulation.outgoing().back().message).room, wire::Room::kNone);
  e.emulation.Leave(e.now, a);
  ASSERT_TRUE(e.Send(b, wire::Allocate{.bytes = 1 << 30, .tag = 5}));
  EXPECT_EQ(std::get<wire::Allocated>(e.emulation.outgoing().back().message).room, wire::Room::kTaken);
  ASSERT_TRUE(e.Submit(b, 6, milliseconds(1)));
  e.PlayTo(kStart + seconds(1));
  ASSERT_EQ(e.done.size(), 1U);
  EXPECT_EQ(e.done[0].completion.ended_ns, NsOf(kStart + milliseconds(11)));
}

TEST(Emulation, AClientThatBreaksARuleGetsAnError) {
  Emulator e("[[device]]\n");
  const auto silent = e.emulation.Enter(1, 1);
  EXPECT_FALSE(e.Submit(silent, 1, milliseconds(1))) << "before Hello";
  const auto client = e.Welcomed();
  EXPECT_FALSE(e.Send(client, wire::Hello{}));
  EXPECT_FALSE(e.Send(client, wire::Welcome{"{}"}));
  EXPECT_FALSE(e.Send(client, wire::Submit{{{.device = 1}}}));
  EXPECT_FALSE(e.Send(client, wire::Submit{{{.engine = 3}}}));
  EXPECT_FALSE(e.emulation.Take(e.now, client, std::vector<std::byte>(3)));
  Status queued = Ok();
  for (std::uint32_t queue = 0; queue <= Emulation::kQueuesPerClientMax && queued; ++queue)
    queued = e.Send(client, wire::Submit{{{.queue = queue, .work_ns = 1}}});
  EXPECT_FALSE(queued);
  const auto greedy = e.Welcomed();
  Status frames = Ok();
  for (std::size_t i = 0; i <= Emulation::kOutstandingPerClientMax && frames; ++i)
    frames = e.Send(greedy, wire::Present{.interval = 1, .tag = i});
  EXPECT_FALSE(frames);
}

TEST(Emulation, AClientThatOnlyReadsAccountsDoesNotUseADevice) {
  Emulator emulator("[[device]]\nname = \"a\"\n");
  EXPECT_FALSE(emulator.emulation.InUse());
  const auto reader = emulator.Welcomed("reader");
  EXPECT_TRUE(emulator.emulation.InUse()) << "it may begin to";
  ASSERT_TRUE(emulator.Send(reader, wire::AskUse{}));
  EXPECT_FALSE(emulator.emulation.InUse());
  emulator.emulation.outgoing().clear();
  const auto user = emulator.Welcomed("user");
  ASSERT_TRUE(emulator.Submit(user, 1, milliseconds(1)));
  ASSERT_TRUE(emulator.Send(user, wire::AskAccounts{}));
  EXPECT_TRUE(emulator.emulation.InUse());
  emulator.emulation.Leave(emulator.now, user);
  EXPECT_FALSE(emulator.emulation.InUse());
}

TEST(Emulation, AFullQueueRefusesACommand) {
  Emulator e("[[device]]\nqueue_depth = 2\n");
  const auto client = e.Welcomed();
  for (std::uint64_t tag = 1; tag <= 3; ++tag) ASSERT_TRUE(e.Submit(client, tag, milliseconds(1)));
  e.PlayTo(kStart + seconds(1));
  ASSERT_EQ(e.done.size(), 3U);
  EXPECT_EQ(e.done[0].completion.tag, 3U);
  EXPECT_EQ(e.done[0].completion.ending, wire::Ending::kFull);
}

// -- Faults ----------------------------------------------------------------------------------------------------------

TEST(Emulation, AFaultEndsTheCommandsOfAllClientsAndHarmsNoOtherDevice) {
  Emulator e("[[device]]\ncount = 2\n[[fault]]\nkind = \"lost\"\nafter = 2\n");
  const auto a = e.Welcomed(), b = e.Welcomed();
  ASSERT_TRUE(e.Submit(a, 1, seconds(100)));
  ASSERT_TRUE(e.Submit(b, 2, seconds(1)));
  ASSERT_TRUE(e.Send(b, wire::Submit{{{.device = 1, .tag = 3, .work_ns = 5}}}));
  e.PlayTo(kStart + milliseconds(10));
  ASSERT_EQ(e.done.size(), 1U);
  ASSERT_TRUE(e.Submit(b, 4, milliseconds(1)));
  e.PlayTo(kStart + milliseconds(20));
  ASSERT_EQ(e.done.size(), 4U);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(e.done[i].completion.ending, wire::Ending::kLost) << i;
    EXPECT_EQ(e.done[i].completion.ended_ns, NsOf(kStart + milliseconds(10))) << i;
  }
  EXPECT_EQ(e.done[1].client, a);
  ASSERT_TRUE(e.Send(a, wire::Allocate{.bytes = 1, .tag = 5}));
  EXPECT_EQ(std::get<wire::Allocated>(e.emulation.outgoing().back().message).room, wire::Room::kLost);
  ASSERT_TRUE(e.Send(a, wire::Allocate{.device = 1, .bytes = 1, .tag = 6}));
  EXPECT_EQ(std::get<wire::Allocated>(e.emulation.outgoing().back().message).room, wire::Room::kTaken);
  e.emulation.outgoing().clear();
  const auto accounts = e.Accounts();
  EXPECT_EQ(accounts["devices"][0]["lost"], true);
  EXPECT_EQ(accounts["devices"][0]["faults"][0], (nlohmann::json{{"kind", "lost"},
                                                                 {"state", "in effect"},
                                                                 {"hit", 2},
                                                                 {"after", 2},
                                                                 {"began_ns", NsOf(kStart + milliseconds(10))}}));
  EXPECT_EQ(accounts["devices"][1]["lost"], false);
  EXPECT_TRUE(accounts["devices"][1]["faults"].empty());
  e.Welcomed();
  const auto welcome = nlohmann::json::parse(e.welcome);
  EXPECT_EQ(welcome["devices"][0]["lost"], true) << "a client that comes later is told at once";
  EXPECT_EQ(welcome["devices"][1]["lost"], false);
}

TEST(Emulation, AfterAResetAClientHasToConnectAgain) {
  Emulator e("[[device]]\n[[fault]]\nkind = \"reset\"\nat = \"5 ms\"\n");
  const auto a = e.Welcomed(), idle = e.Welcomed();
  ASSERT_TRUE(e.Submit(idle, 1, {}));
  ASSERT_TRUE(e.Submit(a, 2, seconds(100)));
  e.PlayTo(kStart + milliseconds(20));
  const auto again = e.Welcomed();
  ASSERT_TRUE(e.Submit(idle, 3, milliseconds(1)));
  ASSERT_TRUE(e.Submit(again, 4, milliseconds(1)));
  e.PlayTo(kStart + milliseconds(30));
  std::map<std::uint64_t, wire::Ending> endings;
  for (const auto& one : e.done) endings[one.completion.tag] = one.completion.ending;
  const std::map<std::uint64_t, wire::Ending> expected{
      {1, wire::Ending::kDone}, {2, wire::Ending::kLost}, {3, wire::Ending::kLost}, {4, wire::Ending::kDone}};
  EXPECT_EQ(endings, expected);
}

TEST(Emulation, AnAccountThatIsNotAnsweredIsStillGroundTruth) {
  Emulator e("[[device]]\n[[fault]]\nkind = \"no-account\"\nafter = 1\nfor = \"1 s\"\n");
  const auto user = e.Welcomed(), reader = e.Welcomed();
  const auto answered = [&] {
    e.emulation.outgoing().clear();
    EXPECT_TRUE(e.Send(reader, wire::AskUse{}));
    return !e.emulation.outgoing().empty();
  };
  ASSERT_TRUE(e.Submit(user, 1, milliseconds(1)));
  EXPECT_TRUE(answered());
  ASSERT_TRUE(e.Submit(user, 2, milliseconds(1)));
  EXPECT_FALSE(answered());
  EXPECT_TRUE(e.Send(reader, wire::AskAccounts{}));
  EXPECT_EQ(e.emulation.outgoing().size(), 1U);
  e.PlayTo(kStart + seconds(2));
  EXPECT_TRUE(answered());
  EXPECT_EQ(e.Accounts()["devices"][0]["faults"][0]["state"], "over");
}

RC_GTEST_PROP(EmulationLaws, BooksBalanceWhateverClientsDoAndWhoeverLeaves, ()) {
  Emulator e("[[device]]\narbitration = \"time-slice\"\nmemory = \"1 GiB\"\n[[device]]\narbitration = \"fifo\"\n");
  std::vector<Emulation::ClientId> clients{e.Welcomed(), e.Welcomed(), e.Welcomed()};
  const auto steps = *rc::gen::inRange(1, 60);
  std::uint64_t tag = 1;
  for (int step = 0; step < steps; ++step) {
    const auto which = *rc::gen::inRange<std::size_t>(0, clients.size());
    const auto device = *rc::gen::inRange(0U, 2U);
    switch (*rc::gen::inRange(0, 6)) {
      case 0:
      case 1:
      case 2:
        RC_ASSERT(bool(e.Send(clients[which], wire::Submit{{{.device = device,
                                                             .queue = *rc::gen::inRange(0U, 3U),
                                                             .tag = tag++,
                                                             .engine = *rc::gen::inRange<std::uint8_t>(0, 3),
                                                             .work_ns = *rc::gen::inRange(0ULL, 5'000'000ULL)}}})));
        break;
      case 3:
        RC_ASSERT(bool(e.Send(clients[which], wire::Present{.device = device, .interval = 1, .tag = tag++})));
        break;
      case 4: e.PlayTo(e.now + microseconds(*rc::gen::inRange(0, 20'000))); break;
      case 5:
        e.emulation.Leave(e.now, clients[which]);
        clients[which] = e.emulation.Enter(7, 7);
        RC_ASSERT(bool(e.Send(clients[which], wire::Hello{})));
        break;
    }
  }
  e.PlayTo(e.now + seconds(10));
  RC_ASSERT(e.emulation.NextEvent() == core::DeviceModel::kNoEvent);
  for (const auto client : clients) e.emulation.Leave(e.now, client);
  const auto accounts = e.Accounts();
  for (const auto& device : accounts["devices"]) RC_ASSERT(device["memory_used_bytes"] == 0);
}

}  // namespace
}  // namespace weir::emulator
