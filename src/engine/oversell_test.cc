// SPDX-License-Identifier: Apache-2.0
// Overselling on a modelled node in virtual time, with the same engine that the daemon runs.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/model_node.h"

namespace weir::engine {
namespace {

using core::OversellMode;
using core::Sale;
using testing::ModelNode;

VgpuSettings Sold(double ceiling, double fps = 0) {
  VgpuSettings settings{.cap = Share::FromFraction(ceiling)};
  settings.fps = fps;
  return settings;
}

void Oversell(ModelNode& node, OversellMode mode, core::PolicyParams params = {}) {
  ASSERT_TRUE(node.Do(SetOversell{"", mode, std::move(params)}).has_value());
}

VgpuStatus StatusOf(ModelNode& node, VgpuId id) { return *node.engine().Vgpu(node.now(), id); }
DeviceStatus DeviceOf(ModelNode& node) { return node.engine().Devices(node.now()).front(); }

bool HasNote(const std::vector<ModelNode::Noted>& notes, const std::string& kind, const std::string& vgpu) {
  return std::ranges::any_of(notes, [&](const auto& n) { return n.note.kind == kind && n.note.vgpu == vgpu; });
}

TEST(Strict, NothingIsSoldTwice) {
  ModelNode node;
  Oversell(node, OversellMode::kStrict);
  node.AddVgpu("a", Sold(0.6));
  node.AddVgpu("b", Sold(0.4));
  const Status refused = node.Do(CreateVgpu{.name = "c", .device = "", .settings = Sold(0.1), .id = {}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("at most 0 % can"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(refused.error().message.ends_with(
      ". Sold to: a (60 %), b (40 %). Give a lower --cap, or --best-effort for idle time only"))
      << refused.error().message;
  ASSERT_TRUE(node.Do(SetVgpu{*node.engine().Find("a"), Sold(0.5)}).has_value());
  ASSERT_TRUE(node.Do(CreateVgpu{.name = "c", .device = "", .settings = Sold(0.1), .id = {}}).has_value());
  EXPECT_FALSE(node.Do(SetVgpu{*node.engine().Find("b"), Sold(0.5)}).has_value());
  EXPECT_DOUBLE_EQ(StatusOf(node, *node.engine().Find("b")).settings.cap.Fraction(), 0.4) << "nothing has changed";
}

/// Settings that no device with four slots of elastic memory can have.
VgpuSettings WithTooMuchMemory(double ceiling) {
  VgpuSettings settings = Sold(ceiling);
  settings.memory_min = Bytes{8 * kSlotBytes.count};
  return settings;
}

TEST(Sales, AChangeThatIsRefusedForItsMemoryChangesNeitherSaleNorCap) {
  for (const OversellMode mode : {OversellMode::kStrict, OversellMode::kStatic}) {
    ModelNode node;
    Oversell(node, mode);
    ASSERT_TRUE(node.Do(SetMemory{"", Bytes{4 * kSlotBytes.count}, {}, 1}).has_value());
    for (const char* name : {"a", "b"})
      ASSERT_TRUE(node.Do(CreateVgpu{.name = name, .device = "", .settings = Sold(0.8), .id = {}, .restored = true})
                      .has_value());
    const VgpuId a = *node.engine().Find("a");
    const double cap = StatusOf(node, a).cap_now.Fraction();
    for (const double asked : {0.3, 1.0}) {
      EXPECT_FALSE(node.Do(SetVgpu{a, WithTooMuchMemory(asked)}).has_value());
      EXPECT_EQ(StatusOf(node, a).cap_now.Fraction(), cap) << core::NameOf(mode);
      EXPECT_EQ(StatusOf(node, a).sale, Sale::kGuaranteed) << core::NameOf(mode);
    }
    const double sold = DeviceOf(node).sold;
    EXPECT_FALSE(
        node.Do(CreateVgpu{.name = "c", .device = "", .settings = WithTooMuchMemory(0.1), .id = {}}).has_value());
    EXPECT_EQ(DeviceOf(node).sold, sold);
  }
}

TEST(Strict, IsRefusedOnAnOversoldDevice) {
  ModelNode node;
  node.AddVgpu("a", Sold(0.8));
  node.AddVgpu("b", Sold(0.8));
  const Status refused = node.Do(SetOversell{"", OversellMode::kStrict, {}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("add up to 160 %"), std::string::npos) << refused.error().message;
}

TEST(Off, RestoredVgpusKeepTheirState) {
  ModelNode node;
  for (std::uint64_t id : {1, 2}) {
    ASSERT_TRUE(node.Do(CreateVgpu{.name = "v" + std::to_string(id),
                                   .device = "",
                                   .settings = Sold(1),
                                   .id = VgpuId{id},
                                   .sale = Sale::kGuaranteed,
                                   .restored = true})
                    .has_value());
    EXPECT_EQ(StatusOf(node, VgpuId{id}).sale, Sale::kGuaranteed);
  }
}

TEST(Strict, NoVgpuPaysForTimeBeforeItsStart) {
  ModelNode node;
  Oversell(node, OversellMode::kStrict, {{"price", 3600}, {"device_cost", 36}});
  const VgpuId first = node.AddVgpu("first", Sold(1));
  ASSERT_TRUE(node.Do(RemoveVgpu{first}).has_value());
  const double cost = DeviceOf(node).account.cost;
  node.RunFor(seconds(100));
  const VgpuId a = node.AddVgpu("a", Sold(1));
  node.AddProcess(a, {.think = milliseconds(20), .gpu = milliseconds(4)});
  node.RunFor(milliseconds(2'500));
  EXPECT_NEAR(DeviceOf(node).account.revenue, 2, 0.5) << "its own seconds, of a price of 1 each";
  EXPECT_NEAR(DeviceOf(node).account.cost - cost, 1.02, 0.02) << "the device has its cost all the time";
}

TEST(Static, EachHasItsPartOfTheDevice) {
  ModelNode node;
  Oversell(node, OversellMode::kStatic, {{"ratio", 1.5}});
  std::vector<VgpuId> ids;
  for (const char* name : {"a", "b", "c"}) ids.push_back(node.AddVgpu(name, Sold(0.5)));
  EXPECT_NEAR(StatusOf(node, ids[0]).cap_now.Fraction(), 1.0 / 3, 1e-4);  // gOver, section 4.3: 33 % of 50 at ratio 1.5
  EXPECT_FALSE(node.Do(CreateVgpu{.name = "d", .device = "", .settings = Sold(0.5), .id = {}}).has_value());
}

struct Calm {
  ModelNode node;
  VgpuId a, b;
  ProcessId pa;
  explicit Calm(double fps = 0) {
    node.SetPolicy("cap");
    Oversell(node, OversellMode::kAdaptive);
    a = node.AddVgpu("a", Sold(0.5, fps));
    b = node.AddVgpu("b", Sold(0.5, fps));
    pa = node.AddProcess(a, {.think = milliseconds(20), .gpu = milliseconds(4)});  // a sixth of the device
    node.AddProcess(b, {.think = milliseconds(20), .gpu = milliseconds(4)});
  }
};

TEST(Adaptive, SellsMoreAfterThreeCalmReportsAndNotBefore) {
  Calm calm;
  EXPECT_EQ(StatusOf(calm.node, calm.a).sale, Sale::kGuaranteed);
  calm.node.RunFor(milliseconds(2'500));
  EXPECT_FALSE(calm.node.Do(CreateVgpu{.name = "c", .device = "", .settings = Sold(0.5), .id = {}}).has_value());
  calm.node.RunFor(seconds(2));
  EXPECT_TRUE(HasNote(calm.node.TakeNotes(), "sellable", ""));
  const VgpuId c = calm.node.AddVgpu("c", Sold(0.5));
  EXPECT_EQ(StatusOf(calm.node, c).sale, Sale::kOversold);
  EXPECT_NEAR(StatusOf(calm.node, c).cap_now.Fraction(), 0.5, 0.02) << "what the others leave idle is enough";
  EXPECT_NEAR(DeviceOf(calm.node).sold, 1.5, 1e-6);
  EXPECT_FALSE(calm.node.Do(CreateVgpu{.name = "d", .device = "", .settings = Sold(0.5), .id = {}}).has_value())
      << "one at a time: the next after three more calm reports";
}

TEST(Adaptive, AnIdleVgpuReachesItsCeilingWithinTwoStages) {
  Calm calm;
  calm.node.RunFor(seconds(5));
  calm.node.EndProcess(calm.pa);
  const VgpuId c = calm.node.AddVgpu("c", Sold(0.6));
  calm.node.AddProcess(c, {.think = microseconds(100), .gpu = milliseconds(5)});  // uses all GPU time that it gets
  calm.node.RunFor(seconds(60));
  ASSERT_LT(StatusOf(calm.node, calm.a).cap_now.Fraction(), 0.4) << "its cap is lent meanwhile";
  calm.node.AddProcess(calm.a, {.think = microseconds(100), .gpu = milliseconds(5)});
  calm.node.RunFor(milliseconds(200));
  EXPECT_NEAR(StatusOf(calm.node, calm.a).cap_now.Fraction(), 0.5, 1e-3);
  calm.node.RunFor(seconds(1));
  auto before = calm.node.Snapshot();
  calm.node.RunFor(seconds(5));
  EXPECT_NEAR(calm.node.UseSince(before, calm.a), 0.5, 0.02) << "and uses it";
}

// Beside two vGPUs that use all they get, the returning vGPU waits for them and not for its slice, and its use over the
// last second is still small.
TEST(Adaptive, AReturningVgpuBesideSeveralReachesItsCeilingWithinTwoStages) {
  Calm calm;
  calm.node.SetPolicy("cap");
  calm.node.RunFor(seconds(5));
  calm.node.EndProcess(calm.pa);
  const VgpuId c = calm.node.AddVgpu("c", Sold(0.4));
  for (const VgpuId busy : {calm.b, c})
    calm.node.AddProcess(busy, {.think = microseconds(100), .gpu = milliseconds(10)});
  calm.node.RunFor(seconds(60));
  ASSERT_LT(StatusOf(calm.node, calm.a).cap_now.Fraction(), 0.2);
  calm.node.AddProcess(calm.a, {.think = microseconds(100), .gpu = milliseconds(10)});
  calm.node.RunFor(milliseconds(250));
  EXPECT_NEAR(StatusOf(calm.node, calm.a).cap_now.Fraction(), 0.5, 1e-3);
}

// The vGPU returns at any time within a stage. A stage that has nearly ended may not show the need; the next one does.
TEST(Adaptive, AVgpuReturningWithinAStageReachesItsCeilingWithin200Ms) {
  for (const Duration kernel : {milliseconds(2), milliseconds(10)})
    for (Duration offset{}; offset < milliseconds(100); offset += milliseconds(15)) {
      Calm calm;
      calm.node.SetPolicy("cap");
      calm.node.RunFor(seconds(5));
      calm.node.EndProcess(calm.pa);
      const VgpuId c = calm.node.AddVgpu("c", Sold(0.4));
      for (const VgpuId busy : {calm.b, c}) calm.node.AddProcess(busy, {.think = microseconds(100), .gpu = kernel});
      calm.node.RunFor(seconds(8) + offset);
      ASSERT_LT(StatusOf(calm.node, calm.a).cap_now.Fraction(), 0.2);
      calm.node.AddProcess(calm.a, {.think = microseconds(100), .gpu = kernel});
      calm.node.RunFor(milliseconds(200));
      EXPECT_NEAR(StatusOf(calm.node, calm.a).cap_now.Fraction(), 0.5, 1e-3)
          << MillisecondsOf(kernel) << " ms kernels, " << MillisecondsOf(offset) << " ms into it";
    }
}

// The cap of the vGPU moves some stages after its setting was changed.
TEST(Adaptive, UseWithoutACapIsNoDebtUnderALaterOne) {
  ModelNode node;
  node.SetPolicy("proportional-share");
  const VgpuId vgpu = node.AddVgpu("a", Sold(0.15));
  Oversell(node, OversellMode::kAdaptive, {{"stage_ms", 195}});
  node.AddProcess(vgpu, {.think = microseconds(500), .gpu = milliseconds(2)});
  node.RunFor(milliseconds(3050));
  ASSERT_TRUE(node.Do(SetVgpu{vgpu, Sold(1)}).has_value());
  node.RunFor(seconds(5));
  auto before = node.Snapshot();
  node.RunFor(seconds(1));
  ASSERT_GT(node.UseSince(before, vgpu), 0.7) << "it has no cap now";
  ASSERT_TRUE(node.Do(SetVgpu{vgpu, Sold(0.1)}).has_value());
  node.RunFor(seconds(2));
  before = node.Snapshot();
  node.RunFor(seconds(2));
  EXPECT_NEAR(node.UseSince(before, vgpu), 0.1, 0.02);
}

TEST(Adaptive, AFrameRatePromiseLendsOnlyItsUnneededTime) {
  Calm calm(/*fps=*/30);
  // The program could draw 240 frames/s; 30 frames of 4 ms are an eighth of the device.
  calm.node.AddProcess(calm.a, {.think = microseconds(100), .gpu = milliseconds(4)});
  calm.node.RunFor(seconds(6));
  EXPECT_LT(DeviceOf(calm.node).load, 0.4) << "the frames beyond the promised rate are no load";
  const VgpuId c = calm.node.AddVgpu("c", Sold(0.5));
  calm.node.AddProcess(c, {.think = microseconds(100), .gpu = milliseconds(5)});
  calm.node.RunFor(seconds(10));
  EXPECT_GT(StatusOf(calm.node, calm.a).window.fps, 28.5);
  EXPECT_GT(StatusOf(calm.node, calm.b).window.fps, 28.5);
  auto before = calm.node.Snapshot();
  calm.node.RunFor(seconds(10));
  EXPECT_GT(calm.node.UseSince(before, c), 0.45);
  EXPECT_GT(calm.node.DeviceUseSince(before), 0.9);
  EXPECT_LT(DeviceOf(calm.node).account.BrokenPart(), 0.05);
}

/// The vGPUs a and b were sold half of the device each, c and d what these do not use. Then each of the four needs 45 %
/// of the device for its 30 frames/s.
struct FourOverloaded {
  ModelNode node;
  std::vector<VgpuId> ids;
  std::vector<ProcessId> heavy;
  FourOverloaded() {
    node.SetPolicy("cap");
    Oversell(node, OversellMode::kAdaptive);
    for (const char* name : {"a", "b"}) ids.push_back(node.AddVgpu(name, Sold(0.5, 30)));
    node.RunFor(seconds(1));
    for (const VgpuId id : ids) node.AddProcess(id, {.think = milliseconds(25), .gpu = milliseconds(3)});
    node.RunFor(seconds(5));
    for (const char* name : {"c", "d"}) {
      ids.push_back(node.AddVgpu(name, Sold(0.5, 30)));
      node.AddProcess(ids.back(), {.think = milliseconds(25), .gpu = milliseconds(3)});
      node.RunFor(seconds(8));
    }
    node.TakeNotes();
    node.TakeDrainChanges();
    for (const std::size_t which : {2U, 3U, 0U, 1U})
      for (int i = 0; i < 3; ++i)
        heavy.push_back(node.AddProcess(ids[which], {.think = milliseconds(1), .gpu = milliseconds(15)}));
    node.RunFor(seconds(10));
  }
};

TEST(Adaptive, SeveralOverloadedVgpusCauseAWarningThatNamesOneToMove) {
  FourOverloaded four;
  const auto notes = four.node.TakeNotes();
  EXPECT_TRUE(HasNote(notes, "warning", "c") || HasNote(notes, "warning", "d")) << "the less firmly sold goes first";
  EXPECT_FALSE(HasNote(notes, "warning", "a") || HasNote(notes, "warning", "b"));
  EXPECT_GT(DeviceOf(four.node).account.penalty, 0);
}

TEST(Adaptive, ADrainRequestLastsWhileSeveralVgpusAreOverloaded) {
  FourOverloaded four;
  const auto asked = four.node.TakeDrainChanges();
  ASSERT_FALSE(asked.empty());
  EXPECT_TRUE(asked.back().wanted);
  const VgpuId named = asked.back().vgpu;
  four.node.TakeNotes();
  for (const ProcessId id : four.heavy) four.node.EndProcess(id);
  four.node.RunFor(seconds(9));
  for (const DrainChange& ask : four.node.TakeDrainChanges()) EXPECT_TRUE(ask.wanted) << "the moment may come back";
  four.node.RunFor(seconds(4));
  const auto relieved = four.node.TakeDrainChanges();
  ASSERT_EQ(relieved.size(), 1U);
  EXPECT_EQ(relieved[0].vgpu, named);
  EXPECT_FALSE(relieved[0].wanted);
  EXPECT_TRUE(HasNote(four.node.TakeNotes(), "relieved", StatusOf(four.node, named).name));
}

TEST(Adaptive, OneDrainRequestAtATime) {
  FourOverloaded four;
  four.node.RunFor(seconds(40));  // further warnings, which may name another vGPU
  VgpuId now{};
  for (const DrainChange& ask : four.node.TakeDrainChanges()) {
    if (ask.wanted)
      EXPECT_TRUE(!now || now == ask.vgpu) << "the one before is told first";
    else
      EXPECT_EQ(now, ask.vgpu) << "who was not asked need not be told";
    now = ask.wanted ? ask.vgpu : VgpuId{};
  }
}

TEST(Adaptive, ChangingTheWayOfSellingCancelsTheDrainRequest) {
  FourOverloaded four;
  const auto asked = four.node.TakeDrainChanges();
  ASSERT_TRUE(!asked.empty() && asked.back().wanted);
  Oversell(four.node, OversellMode::kOff);
  const auto taken_back = four.node.TakeDrainChanges();
  ASSERT_EQ(taken_back.size(), 1U);
  EXPECT_EQ(taken_back[0].vgpu, asked.back().vgpu);
  EXPECT_FALSE(taken_back[0].wanted);
}

TEST(BestEffort, UsesIdleTimeAndReturnsItAtOnce) {
  ModelNode node;
  node.SetPolicy("cap");
  Oversell(node, OversellMode::kAdaptive);
  const VgpuId a = node.AddVgpu("a", Sold(1));
  ASSERT_TRUE(
      node.Do(CreateVgpu{.name = "scraps", .device = "", .settings = Sold(1), .id = {}, .sale = Sale::kBestEffort})
          .has_value());
  const VgpuId scraps = *node.engine().Find("scraps");
  node.AddProcess(scraps, {.think = microseconds(100), .gpu = milliseconds(5)});
  node.RunFor(seconds(3));
  auto before = node.Snapshot();
  node.RunFor(seconds(5));
  EXPECT_GT(node.UseSince(before, scraps), 0.85);
  node.AddProcess(a, {.think = microseconds(100), .gpu = milliseconds(5)});
  node.RunFor(milliseconds(500));
  before = node.Snapshot();
  node.RunFor(seconds(5));
  EXPECT_GT(node.UseSince(before, a), 0.95);
  EXPECT_EQ(DeviceOf(node).account.broken_s, 0);
}

TEST(BestEffort, IsChargedForItsUse) {
  ModelNode node;
  Oversell(node, OversellMode::kAdaptive, {{"price", 3600}, {"best_effort_price", 0.5}, {"device_cost", 0}});
  ASSERT_TRUE(
      node.Do(CreateVgpu{.name = "scraps", .device = "", .settings = Sold(1), .id = {}, .sale = Sale::kBestEffort})
          .has_value());
  node.RunFor(milliseconds(5'500));
  EXPECT_EQ(DeviceOf(node).account.revenue, 0) << "and it uses nothing";
  const VgpuId scraps = *node.engine().Find("scraps");
  node.AddProcess(scraps, {.think = milliseconds(15), .gpu = milliseconds(5)});
  auto before = node.Snapshot();
  node.RunFor(seconds(20));
  EXPECT_NEAR(DeviceOf(node).account.revenue, 20 * 0.5 * node.UseSince(before, scraps), 0.3);
}

/// The part that can be oversold beside a program that needs most of its ceiling for ten seconds and nearly nothing
/// afterwards.
double OfferedAfterAQuietStretch(Duration quiet, double span_s) {
  ModelNode node;
  Oversell(node, OversellMode::kAdaptive, {{"load_span_s", span_s}});
  const VgpuId a = node.AddVgpu("a", Sold(1, 30));
  const ProcessId heavy = node.AddProcess(a, {.think = milliseconds(2), .gpu = milliseconds(28)});
  node.RunFor(seconds(10));
  node.EndProcess(heavy);
  node.AddProcess(a, {.think = milliseconds(10), .gpu = milliseconds(1)});
  node.RunFor(quiet);
  return DeviceOf(node).offer.oversold;
}

TEST(Adaptive, ThePeakNeedInTheWindowDecidesWhatIsSold) {
  EXPECT_EQ(OfferedAfterAQuietStretch(seconds(20), 60), 0) << "it may need that much again";
  EXPECT_GT(OfferedAfterAQuietStretch(seconds(65), 60), 0.5);
  EXPECT_GT(OfferedAfterAQuietStretch(seconds(20), 0), 0.5) << "gOver: by the last report";
}

}  // namespace
}  // namespace weir::engine
