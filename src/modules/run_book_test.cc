// SPDX-License-Identifier: Apache-2.0
#include "modules/run_book.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace weir::modules {
namespace {

using core::RunId;
using Kind = BookAction::Kind;

constexpr DeviceId kFirst{1}, kSecond{2};
const Error kEnded{Errc::kInternal, "its host was killed"};

class Books : public ::testing::Test {
 protected:
  RunBook book_{*core::MakePlacement("spread", {})};
  std::vector<BookAction> actions_;
  std::int64_t ms_ = 0;

  Instant Now() const { return InstantFromNs(ms_ * 1'000'000); }
  static RunSpec Spec(std::uint64_t bytes = 10) {
    return {.module = "m", .blob = "b", .kernel = "k", .need = {.memory = {bytes}}};
  }
  void Add(DeviceId device, std::uint32_t runs_max = 2) {
    ASSERT_TRUE(book_.AddDevice(device, "device" + std::to_string(device.value - 1),
                                {.memory = {100}, .runs_max = runs_max}, Now(), actions_));
  }
  void Submit(const std::string& id, const RunSpec& spec = Spec()) {
    ASSERT_TRUE(book_.Submit(id, spec, Now(), actions_));
  }
  const modules::Run& Of(const std::string& id) const { return *book_.Find(id); }
  void Finish(const std::string& id) { book_.Finish(Of(id).device, Of(id).number, {.text = "said"}, Now(), actions_); }
  void Lose(DeviceId device, const std::string& guilty = "") {
    book_.LoseDevice(device, guilty.empty() ? RunId{} : Of(guilty).number, kEnded, Now(), actions_);
  }
};

TEST_F(Books, StartRunsInOrderOnceADeviceIsAvailable) {
  for (const char* id : {"a", "b", "c"}) Submit(id);
  EXPECT_TRUE(actions_.empty());
  Add(kFirst);
  EXPECT_EQ(actions_, (std::vector<BookAction>{{Kind::kStart, RunId{1}, kFirst}, {Kind::kStart, RunId{2}, kFirst}}));
  Finish("a");
  EXPECT_EQ(Of("a").stage, RunStage::kDone);
  EXPECT_EQ(Of("a").text, "said");
  EXPECT_EQ(Of("c").stage, RunStage::kRunning);
}

TEST_F(Books, AcceptARepeatedRunButNotAnotherOneWithItsId) {
  Add(kFirst);
  Submit("a");
  Submit("a");
  EXPECT_EQ(book_.Runs().size(), 1U);
  RunSpec other = Spec();
  other.request = "n=2";
  const auto refused = book_.Submit("a", other, Now(), actions_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kAlreadyExists);
}

TEST_F(Books, OnlyTheHostOfARunningRunMayReportIt) {
  Submit("a");
  EXPECT_EQ(book_.FindRunning(kFirst, Of("a").number), nullptr) << "it waits";
  Add(kFirst);
  EXPECT_EQ(book_.FindRunning(kFirst, Of("a").number), &Of("a"));
  EXPECT_EQ(book_.FindRunning(kSecond, Of("a").number), nullptr);
  EXPECT_EQ(book_.FindRunning(kFirst, RunId{99}), nullptr);
  Finish("a");
  EXPECT_EQ(book_.FindRunning(kFirst, Of("a").number), nullptr) << "it is done";
}

TEST_F(Books, BlameTheRunThatCrashedAndRunTheOthersAgain) {
  Add(kFirst);
  Submit("guilty");
  Submit("beside");
  Lose(kFirst, "guilty");
  EXPECT_EQ(Of("guilty").stage, RunStage::kFailed);
  EXPECT_EQ(Of("guilty").error->message, kEnded.message);
  EXPECT_EQ(Of("beside").stage, RunStage::kWaiting);
  Add(kFirst);
  EXPECT_EQ(Of("beside").stage, RunStage::kRunning);
  EXPECT_EQ(Of("beside").attempt, 2U);
}

TEST_F(Books, RunAloneAfterALostHost) {
  Add(kFirst);
  Submit("a");
  Submit("b");
  Lose(kFirst);
  Add(kFirst);
  EXPECT_EQ(Of("a").stage, RunStage::kRunning);
  EXPECT_EQ(Of("b").stage, RunStage::kWaiting);
  Submit("small", Spec(0));
  EXPECT_EQ(Of("small").stage, RunStage::kWaiting);
  Finish("a");
  EXPECT_EQ(Of("b").stage, RunStage::kRunning);
}

TEST_F(Books, GiveUpAfterThreeMoreAttempts) {
  Submit("a");
  for (unsigned attempt = 1; attempt <= RunBook::kAttemptsMax; ++attempt) {
    Add(kFirst);
    EXPECT_EQ(Of("a").attempt, attempt);
    Lose(kFirst);
  }
  EXPECT_EQ(Of("a").stage, RunStage::kFailed);
  EXPECT_EQ(Of("a").error->code, Errc::kUnavailable);
}

TEST_F(Books, EndTheHostOfARunThatTakesTooLong) {
  Add(kFirst);
  RunSpec spec = Spec();
  spec.time_max = seconds(1);
  Submit("long", spec);
  Submit("beside");
  EXPECT_EQ(book_.NextDeadline(), InstantFromNs(1'000'000'000));
  ms_ = 1'000;
  actions_.clear();
  book_.Tick(Now(), actions_);
  EXPECT_EQ(Of("long").error->code, Errc::kTimeout);
  EXPECT_EQ(Of("beside").stage, RunStage::kWaiting);
  EXPECT_EQ(actions_.back(), (BookAction{Kind::kEndHost, Of("long").number, kFirst}));
}

TEST_F(Books, KeepToTheDeviceThatARunNames) {
  Add(kFirst, 1);
  RunSpec spec = Spec();
  spec.device = "device0";
  Submit("a", spec);
  Submit("b", spec);
  Submit("any");
  EXPECT_EQ(Of("b").stage, RunStage::kWaiting);
  Add(kSecond, 1);
  EXPECT_EQ(Of("any").device, kSecond);
  EXPECT_EQ(Of("b").stage, RunStage::kWaiting);
  Finish("a");
  EXPECT_EQ(Of("b").device, kFirst);
}

TEST_F(Books, FailARunThatNoDeviceCanHold) {
  Add(kFirst);
  Submit("large", Spec(101));
  EXPECT_EQ(Of("large").stage, RunStage::kFailed);
  EXPECT_EQ(Of("large").error->code, Errc::kResourceExhausted);
  Submit("fits", Spec(100));
  EXPECT_EQ(Of("fits").stage, RunStage::kRunning);
}

TEST_F(Books, RecordTheNeighboursOfARun) {
  Add(kFirst);
  Submit("a");
  ms_ = 100;
  Submit("b");
  ms_ = 200;
  Finish("a");
  EXPECT_DOUBLE_EQ(Of("a").ran_beside, 0.5);
  ms_ = 300;
  Finish("b");
  EXPECT_DOUBLE_EQ(Of("b").ran_beside, 0.5);
}

TEST_F(Books, IgnoreMessagesAboutAnotherHostsRuns) {
  Add(kFirst, 1);
  Add(kSecond, 1);
  Submit("a");
  Submit("b");
  book_.Finish(Of("b").device, Of("a").number, {}, Now(), actions_);
  EXPECT_EQ(Of("a").stage, RunStage::kRunning);
  const DeviceId of_a = Of("a").device;
  Lose(of_a, "b");
  EXPECT_EQ(Of("b").stage, RunStage::kRunning);
  EXPECT_EQ(Of("a").stage, RunStage::kWaiting);
}

TEST_F(Books, ForgetARunAndEndItsHostIfItRuns) {
  Add(kFirst, 1);
  Submit("a");
  Submit("b");
  ASSERT_TRUE(book_.Remove("b", Now(), actions_));
  actions_.clear();
  ASSERT_TRUE(book_.Remove("a", Now(), actions_));
  EXPECT_NE(std::ranges::find(actions_, Kind::kEndHost, &BookAction::kind), actions_.end());
  EXPECT_FALSE(book_.Remove("a", Now(), actions_));
  EXPECT_TRUE(book_.Runs().empty());
}

TEST_F(Books, LearnThePairFromARunWithOneNeighbour) {
  book_ = RunBook(*core::MakePlacement("interference-aware", {}));
  Add(kFirst, 3);
  RunSpec brief = Spec(), lasting = Spec();
  brief.need.alone_ms = 100;
  brief.measured = true;
  lasting.arguments = "n=9";
  const std::uint64_t work = core::WorkOf("b", "k", ""), beside = core::WorkOf("b", "k", "n=9");
  Submit("lasting", lasting);
  Submit("brief", brief);
  ms_ = 400;
  Finish("brief");
  EXPECT_NEAR(book_.model()->pairs().Added(work, beside), 3, 1e-6);
  // The other run's request does not tell its time alone, and a third kernel disturbs the measurement.
  Submit("again", brief);
  Submit("third", [&] {
    RunSpec third = Spec();
    third.kernel = "other";
    return third;
  }());
  ms_ = 800;
  Finish("again");
  Finish("lasting");
  EXPECT_EQ(book_.model()->pairs().pairs(), 1U);
}

// Invariants, whatever happens to hosts: a run ends once and is on at most one device at a time; no run starts on a
// lost device or beside a run that must be alone; once hosts stay alive, every run ends.
RC_GTEST_PROP(RunBookLaws, EveryRunEndsOnce, ()) {
  RunBook book(*core::MakePlacement("interference-aware", {}));
  std::map<RunId, DeviceId> on;
  std::set<RunId> over;
  std::set<DeviceId> there;
  std::int64_t ns = 0;
  const auto take = [&](std::vector<BookAction>& actions) {
    for (const BookAction& action : actions) {
      if (action.kind == Kind::kStart) {
        const Run* run = book.Find(action.run);
        if (run == nullptr) continue;
        RC_ASSERT(there.contains(action.device));
        RC_ASSERT(on.emplace(action.run, action.device).second);
        const auto company = std::ranges::count_if(on, [&](const auto& e) { return e.second == action.device; });
        RC_ASSERT(run->attempt == 1 || company == 1);
      } else if (action.kind == Kind::kOver) {
        on.erase(action.run);
        RC_ASSERT(over.insert(action.run).second);
      }
    }
    actions.clear();
  };
  const auto lose = [&](DeviceId device, RunId guilty) {
    there.erase(device);
    std::erase_if(on, [&](const auto& entry) { return entry.second == device; });
    std::vector<BookAction> actions;
    book.LoseDevice(device, guilty, kEnded, InstantFromNs(ns), actions);
    take(actions);
  };
  const auto add = [&](DeviceId device) {
    if (!there.insert(device).second) return;
    std::vector<BookAction> actions;
    RC_ASSERT(book.AddDevice(device, "d" + std::to_string(device.value), {.memory = {50}, .runs_max = 3},
                             InstantFromNs(ns), actions)
                  .has_value());
    take(actions);
  };
  const auto finish_one = [&] {
    const auto [run, where] = *on.begin();
    on.erase(run);
    std::vector<BookAction> actions;
    book.Finish(where, run, {}, InstantFromNs(ns), actions);
    take(actions);
  };
  const int steps = *rc::gen::inRange(1, 60);
  for (int step = 0; step < steps; ++step) {
    ns += *rc::gen::inRange(0, 1'000'000);
    const DeviceId device{*rc::gen::inRange<std::uint64_t>(1, 4)};
    std::vector<BookAction> actions;
    switch (*rc::gen::inRange(0, 5)) {
      case 0: add(device); break;
      case 1: lose(device, RunId{*rc::gen::inRange<std::uint64_t>(0, 20)}); break;
      case 2:
      case 3: {
        RunSpec spec{
            .module = "m", .blob = "b", .kernel = "k", .need = {.memory = {*rc::gen::inRange<std::uint64_t>(0, 60)}}};
        RC_ASSERT(book.Submit("r" + std::to_string(step), spec, InstantFromNs(ns), actions).has_value());
        take(actions);
        break;
      }
      default:
        if (!on.empty()) finish_one();
    }
  }
  for (std::uint64_t id = 1; id <= 3; ++id) add(DeviceId{id});
  while (!on.empty()) finish_one();
  for (const Run* run : book.Runs()) RC_ASSERT(run->over());
  RC_ASSERT(over.size() == book.Runs().size());
}

}  // namespace
}  // namespace weir::modules
