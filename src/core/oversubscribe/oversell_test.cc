// SPDX-License-Identifier: Apache-2.0
// The laws of docs/oversubscription.md for the whole object: vGPUs are sold, changed, removed and observed in any
// state. The effect on programs is tested in engine/oversell_test.cc.
#include "core/oversubscribe/oversell.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <utility>

namespace weir::core {
namespace {

double Thousandths(int least, int most) { return *rc::gen::inRange(least, most + 1) / 1000.0; }

/// A device with overselling, whose vGPUs are observed every 20 ms.
class Shop {
 public:
  explicit Shop(OversellMode mode, PolicyParams params = {}) : sales_(mode, *CheckOversellParams(params)) {}

  /// Returns whether the vGPU was sold.
  bool Buy(VgpuId id, double ceiling, Sale sale = Sale::kGuaranteed, double fps = 0) {
    if (!sales_.Add(id, Share::FromFraction(ceiling), sale, /*restored=*/false)) return false;
    views_.push_back({.id = id, .promised = fps > 0 ? FromSeconds(1 / fps) : Duration{0}, .attached = true});
    Apply();
    return true;
  }
  void Leave(VgpuId id) {
    sales_.Remove(id);
    std::erase_if(views_, [id](const VgpuView& view) { return view.id == id; });
    Apply();
  }
  bool Set(VgpuId id, double ceiling) {
    const bool done = sales_.SetCeiling(id, Share::FromFraction(ceiling)).has_value();
    Apply();
    return done;
  }
  /// Observes the device for `span`. Before each decision, `does` updates the view of every vGPU. `backwards`: the
  /// views come in the reverse order.
  template <typename Does>
  void See(Duration span, Does does, bool backwards = false) {
    for (const Instant end = now_ + span; now_ < end; now_ += kLook) {
      for (VgpuView& view : views_) does(view);
      std::vector<VgpuView> seen = views_;
      if (backwards) std::ranges::reverse(seen);
      sales_.See(now_, seen, notes_);
      Apply();
    }
  }
  /// The vGPU wants the device all the time, and uses all of its cap.
  void UsesItsCap(VgpuView& view) const {
    view.used += view.cap.Of(kLook);
    view.waiting = 1;
    view.held = true;
    view.last_active = now_;
  }
  static void Rests(VgpuView& view) { view.waiting = view.in_flight = 0, view.held = false; }

  [[nodiscard]] double Together() const {
    double sum = 0;
    for (const VgpuView& view : views_) sum += sales_.CapOf(view.id).Fraction();
    return sum;
  }
  [[nodiscard]] const std::vector<VgpuView>& views() const { return views_; }
  [[nodiscard]] const Oversell& sales() const { return sales_; }
  [[nodiscard]] Instant now() const { return now_; }
  std::vector<OversellNote> TakeNotes() { return std::exchange(notes_, {}); }
  static constexpr Duration kLook = milliseconds(20);

 private:
  void Apply() {
    for (VgpuView& view : views_) view.cap = sales_.CapOf(view.id);
  }

  Oversell sales_;
  std::vector<VgpuView> views_;
  std::vector<OversellNote> notes_;
  Instant now_ = InstantFromNs(1'000'000'000);
};

/// One of many behaviours, chosen by `what`.
void DoesAnything(Shop& shop, VgpuView& view, int what) {
  if (what < 4) return Shop::Rests(view);
  view.used += Duration{view.cap.Of(Shop::kLook).count() * (what % 4) / 3};
  view.waiting = what % 3 > 0 ? 1 : 0;
  view.held = what % 2 > 0;
  view.in_flight = what % 5 > 0 ? 1 : 0;
  view.rate = what * 5;
  view.frame_gpu = view.recent_gpu = milliseconds(what);
  view.last_active = shop.now();
}

RC_GTEST_PROP(Oversell, CapsAreWithinCeilingsAndTogetherWithinTheDevice, ()) {
  const auto mode = *rc::gen::element(OversellMode::kStrict, OversellMode::kStatic, OversellMode::kAdaptive);
  Shop shop(mode, {{"ratio", 1 + Thousandths(0, 3000)}, {"calm_reports", 1}, {"load_span_s", 0}});
  std::uint64_t next = 1;
  std::vector<double> ceilings(1);
  for (int round = 0; round < 12; ++round) {
    const int what = *rc::gen::inRange(0, 10);
    if (what < 5) {
      ceilings.push_back(Thousandths(10, 1000));
      const Sale sale = what == 0 ? Sale::kBestEffort : Sale::kGuaranteed;
      shop.Buy(VgpuId{next++}, ceilings.back(), sale, what % 2 > 0 ? 30 : 0);
    } else if (what < 7 && !shop.views().empty()) {
      const VgpuId id = shop.views()[*rc::gen::inRange<std::size_t>(0, shop.views().size())].id;
      const double ceiling = Thousandths(10, 1000);
      if (what == 5) shop.Leave(id);
      if (what == 6 && shop.Set(id, ceiling)) ceilings[id.value] = ceiling;
    }
    const auto does = *rc::gen::container<std::vector<int>>(8, rc::gen::inRange(0, 16));
    shop.See(milliseconds(600), [&](VgpuView& view) { DoesAnything(shop, view, does[view.id.value % 8]); });
    RC_ASSERT(shop.Together() <= 1 + 1e-5);
    for (const VgpuView& view : shop.views()) RC_ASSERT(view.cap.Fraction() <= ceilings[view.id.value] + 1e-6);
    const double most = mode == OversellMode::kStrict ? 1 : shop.sales().params().find("ratio")->second;
    if (mode != OversellMode::kAdaptive) RC_ASSERT(shop.sales().sold() <= most + 1e-3);
  }
}

TEST(Oversell, SaysWhyNoMoreCanBeSold) {
  using Limit = SalesOffer::Limit;
  const auto words = [](Limit limit, Duration span = {}) {
    return Words(SalesOffer{.limit = limit,
                            .sold = 0.8,
                            .calm = 1,
                            .calm_reports = 3,
                            .load = 0.65,
                            .load_span = span,
                            .low_line = 0.6,
                            .use_of_sold = 0.25});
  };
  EXPECT_EQ(words(Limit::kSold), "80 % is sold");
  EXPECT_EQ(words(Limit::kCalm), "80 % is sold, and 1 of 3 reports in succession were calm");
  EXPECT_EQ(words(Limit::kLoad), "80 % is sold, and the load is 65 % of the device (more is sold below 60 %)");
  EXPECT_EQ(
      words(Limit::kUnused, seconds(60)),
      "80 % is sold, the load of the last 60 s was up to 65 % of the device, and what is sold uses 25 % of itself");
}

RC_GTEST_PROP(Oversell, StrictRefusesNothingThatFitsAndGivesEachItsCeiling, ()) {
  Shop shop(OversellMode::kStrict);
  int sold = 0;  // in thousandths, since sums of fractions are inexact
  for (std::uint64_t id = 1; id <= 10; ++id) {
    const int thousandths = *rc::gen::inRange(10, 401);
    const double ceiling = thousandths / 1000.0;
    const bool fits = sold + thousandths <= 1000;
    RC_ASSERT(shop.Buy(VgpuId{id}, ceiling) == fits);
    if (fits) sold += thousandths;
    if (fits) RC_ASSERT(std::abs(shop.sales().CapOf(VgpuId{id}).Fraction() - ceiling) < 1e-5);
    if (fits && *rc::gen::inRange(0, 4) == 0) {
      shop.Leave(VgpuId{id});
      sold -= thousandths;
    }
  }
}

// The guarantee: a vGPU has its ceiling two stages after it begins to want it, whatever other vGPUs do.
RC_GTEST_PROP(Oversell, AFirmCeilingIsReachedWithinTwoStages, ()) {
  Shop shop(OversellMode::kAdaptive, {{"calm_reports", 1}, {"load_span_s", 0}});
  const double ceiling = Thousandths(100, 900);
  RC_ASSERT(shop.Buy(VgpuId{1}, ceiling));
  std::vector<int> does;
  const auto others = [&](VgpuView& view) {
    if (view.id == VgpuId{1}) return Shop::Rests(view);
    does[view.id.value] < 4 ? shop.UsesItsCap(view) : DoesAnything(shop, view, does[view.id.value]);
  };
  for (std::uint64_t id = 2; id <= 6; ++id) {
    does = *rc::gen::container<std::vector<int>>(8, rc::gen::inRange(0, 16));
    shop.Buy(VgpuId{id}, Thousandths(50, 900), id == 2 ? Sale::kBestEffort : Sale::kGuaranteed);
    shop.See(milliseconds(*rc::gen::inRange(1000, 4000)), others);
  }
  shop.See(milliseconds(220), [&](VgpuView& view) { view.id == VgpuId{1} ? shop.UsesItsCap(view) : others(view); });
  RC_ASSERT(shop.sales().CapOf(VgpuId{1}).Fraction() >= ceiling - 1e-3);
}

RC_GTEST_PROP(Oversell, DoesNotDependOnTheListedOrderOfVgpus, ()) {
  Shop one(OversellMode::kAdaptive, {{"calm_reports", 1}, {"load_span_s", 0}});
  Shop turned(OversellMode::kAdaptive, {{"calm_reports", 1}, {"load_span_s", 0}});
  for (std::uint64_t id = 1; id <= 5; ++id) {
    const double ceiling = Thousandths(50, 600), fps = *rc::gen::inRange(0, 3) * 15;
    RC_ASSERT(one.Buy(VgpuId{id}, ceiling, Sale::kGuaranteed, fps) ==
              turned.Buy(VgpuId{id}, ceiling, Sale::kGuaranteed, fps));
    const auto does = *rc::gen::container<std::vector<int>>(8, rc::gen::inRange(0, 16));
    one.See(milliseconds(1500), [&](VgpuView& view) { DoesAnything(one, view, does[view.id.value]); });
    turned.See(
        milliseconds(1500), [&](VgpuView& view) { DoesAnything(turned, view, does[view.id.value]); }, true);
    for (const VgpuView& view : one.views()) RC_ASSERT(one.sales().CapOf(view.id) == turned.sales().CapOf(view.id));
  }
}

/// The vGPU waits for the device, and its cap is used up.
void WaitsInVain(VgpuView& view, Instant now) {
  view.waiting = 1;
  view.held = true;
  view.last_active = now;
}

// The tolerance of 5 % and half a frame allow 28 of 30. Intervals are whole nanoseconds.
TEST(Adaptive, ARateAtTheToleranceIsKeptAndOneBelowItIsBroken) {
  for (const double rate : {28.0, 27.0}) {
    Shop shop(OversellMode::kAdaptive);
    ASSERT_TRUE(shop.Buy(VgpuId{1}, 0.9, Sale::kGuaranteed, 30));
    shop.See(seconds(5), [&](VgpuView& view) {
      WaitsInVain(view, shop.now());
      view.used += Share::FromFraction(0.3).Of(Shop::kLook);
      view.frame_gpu = view.recent_gpu = milliseconds(10);
      view.rate = rate;
    });
    const double broken = shop.sales().account().broken_s;
    EXPECT_EQ(rate<28, broken> 3) << broken << " s at " << rate << " frames/s";
    EXPECT_TRUE(rate < 28 || broken == 0);
  }
}

/// Seconds in which a promise of 30 frames/s is broken. In each of five seconds the vGPU draws 20 frames, of which
/// `broken` waited for others.
double BrokenSeconds(int broken, bool waits) {
  Shop shop(OversellMode::kAdaptive);
  EXPECT_TRUE(shop.Buy(VgpuId{1}, 0.9, Sale::kGuaranteed, 30));
  int looks = 0;
  shop.See(seconds(5), [&](VgpuView& view) {
    if (waits) WaitsInVain(view, shop.now());
    view.in_flight = 1;
    view.last_active = shop.now();
    view.used += Share::FromFraction(0.3).Of(Shop::kLook);
    view.frame_gpu = view.recent_gpu = milliseconds(10);
    view.rate = 20;
    if (++looks % 50 == 0) view.frames += 20, view.broken_frames += static_cast<std::uint64_t>(broken);
  });
  return shop.sales().account().broken_s;
}

// Frames that ended show whether they waited, at the gate or behind it.
TEST(Adaptive, APromiseIsBrokenByFramesThatWaitedForOthers) {
  EXPECT_GT(BrokenSeconds(20, false), 3) << "in the driver";
  EXPECT_GT(BrokenSeconds(2, false), 3);
  EXPECT_EQ(BrokenSeconds(1, false), 0) << "one in twenty does not explain the rate";
  EXPECT_EQ(BrokenSeconds(0, true), 0) << "it asks less often, and each frame is in time";
}

TEST(Adaptive, APromiseIsBrokenWhereAFrameDoesNotEndBehindOthers) {
  for (const double others : {0.9, 0.0}) {
    Shop shop(OversellMode::kAdaptive);
    ASSERT_TRUE(shop.Buy(VgpuId{1}, 0.5, Sale::kGuaranteed, 30));
    ASSERT_TRUE(shop.Buy(VgpuId{2}, 0.5));
    shop.See(seconds(5), [&](VgpuView& view) {
      view.in_flight = 1;
      view.last_active = shop.now();
      if (view.id == VgpuId{2}) view.used += Share::FromFraction(others).Of(Shop::kLook);
    });
    EXPECT_EQ(others > 0, shop.sales().account().broken_s > 3) << others;
  }
}

/// Two vGPUs whose programs wait in vain for their promised rates, so that both are overloaded unless the device is
/// `calm`, and one that uses what is left while it `computes`. Of the other two, the one that is `heavier` uses more.
struct Overloaded {
  bool calm = false;
  static constexpr VgpuId kFirst{1}, kSecond{2}, kLeast{3};
  Shop shop{OversellMode::kAdaptive, {{"report_ms", 300}}};
  explicit Overloaded(Sale sale = Sale::kBestEffort) {
    EXPECT_TRUE(shop.Buy(kFirst, 0.4, Sale::kGuaranteed, 30));
    EXPECT_TRUE(shop.Buy(kSecond, 0.4, Sale::kGuaranteed, 30));
    EXPECT_TRUE(shop.Buy(kLeast, sale == Sale::kBestEffort ? 1 : 0.2, sale));
  }
  void Run(Duration span, bool computes, VgpuId heavier = kFirst) {
    shop.See(span, [&](VgpuView& view) {
      if (view.id != kLeast) {
        if (calm) return Shop::Rests(view);
        view.used += Share::FromFraction(view.id == heavier ? 0.3 : 0.2).Of(Shop::kLook);
        view.rate = 5;
        return WaitsInVain(view, shop.now());
      }
      if (!computes) return Shop::Rests(view);
      view.used += Share::FromFraction(0.1).Of(Shop::kLook);
      view.last_active = shop.now();
    });
  }
  /// The vGPUs that warnings have named since the last call, and (negative) those whose drain requests were cancelled.
  std::vector<int> Said() {
    std::vector<int> said;
    for (const OversellNote& note : shop.TakeNotes()) {
      const int id = static_cast<int>(note.vgpu.value);
      if (note.kind == OversellNote::Kind::kWarning) said.push_back(id);
      if (note.kind == OversellNote::Kind::kRelieved) said.push_back(-id);
    }
    return said;
  }
};

using Said = std::vector<int>;

TEST(Warning, NamesTheLeastFirmlySoldVgpuAlsoInAPauseOfItsProgram) {
  Overloaded device;
  device.calm = true;
  device.Run(seconds(2), true);
  device.Run(seconds(2), false);
  device.calm = false;
  device.Run(seconds(2), false);
  EXPECT_EQ(device.Said(), Said{3});
}

// A move pauses its program: were the drain request cancelled then, each move would cancel its own request.
TEST(Warning, ADrainRequestOutlastsAPauseOfItsProgram) {
  Overloaded device;
  device.Run(seconds(2), true);
  ASSERT_EQ(device.Said(), Said{3});
  device.Run(seconds(29), false);
  EXPECT_EQ(device.Said(), Said{}) << "it is not warned again meanwhile";
  device.Run(seconds(12), true);
  const Said said = device.Said();
  EXPECT_TRUE(!said.empty() && std::ranges::all_of(said, [](int id) { return id == 3; })) << said.size();
}

TEST(Warning, NamesAnotherVgpuAfterTheNamedOneHasLeft) {
  Overloaded device;
  device.Run(seconds(2), true);
  ASSERT_EQ(device.Said(), Said{3});
  device.Run(seconds(31), false);
  EXPECT_EQ(device.Said(), (Said{-3, 1}));
}

RC_GTEST_PROP(Warning, TheNamedVgpuStaysTheSameWhileItUsesTheDevice, ()) {
  const bool least_computes = *rc::gen::arbitrary<bool>();
  Overloaded device(least_computes ? Sale::kBestEffort : Sale::kGuaranteed);
  device.Run(seconds(2), least_computes);
  const Said first = device.Said();
  RC_ASSERT(first.size() == 1U);
  for (int part = 0; part < 12; ++part) {
    const bool computes = least_computes && *rc::gen::arbitrary<bool>();
    device.Run(seconds(*rc::gen::inRange(1, 30)), computes, *rc::gen::element(Overloaded::kFirst, Overloaded::kSecond));
    if (!computes && least_computes) device.Run(seconds(1), true);
    for (const int said : device.Said()) RC_ASSERT(said == first.front());
  }
}

/// A best-effort program uses all GPU time that no other vGPU wants.
Shop BesideBestEffort() {
  Shop shop(OversellMode::kAdaptive);
  shop.Buy(VgpuId{1}, 1, Sale::kBestEffort);
  shop.See(seconds(5), [&](VgpuView& view) { shop.UsesItsCap(view); });
  return shop;
}

TEST(Adaptive, ANewVgpuGetsTimeWhileBestEffortUsesAllOfIt) {
  Shop shop = BesideBestEffort();
  ASSERT_TRUE(shop.Buy(VgpuId{2}, 0.5, Sale::kGuaranteed, 30));
  EXPECT_NEAR(shop.sales().CapOf(VgpuId{2}).Fraction(), 0.5, 1e-3);
}

// The cost of its frames is not known yet.
TEST(Adaptive, AVgpuBeforeItsFirstFrameGetsItsCeilingWithinTwoStages) {
  Shop shop = BesideBestEffort();
  ASSERT_TRUE(shop.Buy(VgpuId{2}, 0.5, Sale::kGuaranteed, 30));
  shop.See(seconds(5), [&](VgpuView& view) { view.id == VgpuId{1} ? shop.UsesItsCap(view) : Shop::Rests(view); });
  ASSERT_LT(shop.sales().CapOf(VgpuId{2}).Fraction(), 0.05) << "it is lent meanwhile";
  shop.See(milliseconds(220),
           [&](VgpuView& view) { view.id == VgpuId{1} ? shop.UsesItsCap(view) : WaitsInVain(view, shop.now()); });
  EXPECT_NEAR(shop.sales().CapOf(VgpuId{2}).Fraction(), 0.5, 1e-3);
}

// The vGPU has not been held by its cap yet: savings, or lent time, let it use more than its cap for a while.
TEST(Adaptive, AReturningVgpuAboveItsCapGetsItsCeilingAtTheNextStage) {
  for (const bool has_more : {true, false}) {
    Shop shop = BesideBestEffort();
    ASSERT_TRUE(shop.Buy(VgpuId{2}, 0.5));
    shop.See(seconds(5), [&](VgpuView& view) { view.id == VgpuId{1} ? shop.UsesItsCap(view) : Shop::Rests(view); });
    ASSERT_LT(shop.sales().CapOf(VgpuId{2}).Fraction(), 0.05) << "it is lent meanwhile";
    shop.See(milliseconds(120), [&](VgpuView& view) {
      if (view.id == VgpuId{1}) return shop.UsesItsCap(view);
      view.used += has_more ? Shop::kLook / 10 : Duration{0};
      view.in_flight = 1;
      view.last_active = shop.now();
    });
    const double cap = shop.sales().CapOf(VgpuId{2}).Fraction();
    if (has_more)
      EXPECT_NEAR(cap, 0.5, 1e-3);
    else
      EXPECT_LT(cap, 0.05) << "nothing says that it wants more";
  }
}

TEST(BestEffort, TogetherTheyGetTheUnsoldTime) {
  for (const OversellMode mode : {OversellMode::kStrict, OversellMode::kStatic}) {
    Shop shop(mode);
    ASSERT_TRUE(shop.Buy(VgpuId{1}, 0.6));
    ASSERT_TRUE(shop.Buy(VgpuId{2}, 1, Sale::kBestEffort));
    ASSERT_TRUE(shop.Buy(VgpuId{3}, 1, Sale::kBestEffort));
    EXPECT_NEAR(shop.Together(), 1, 1e-5) << NameOf(mode);
    EXPECT_NEAR(shop.sales().CapOf(VgpuId{3}).Fraction(), 0.2, 1e-5) << NameOf(mode);
  }
}

TEST(StrictSelling, EarlierOversoldVgpusKeepTheirCeilings) {
  Oversell sales(OversellMode::kStrict, *CheckOversellParams({}));
  ASSERT_TRUE(sales.Add(VgpuId{1}, Share::FromFraction(0.5), Sale::kGuaranteed, /*restored=*/true));
  ASSERT_TRUE(sales.Add(VgpuId{2}, Share::FromFraction(0.3), Sale::kOversold, /*restored=*/true));
  EXPECT_FALSE(sales.Add(VgpuId{3}, Share::FromFraction(0.5), Sale::kGuaranteed, /*restored=*/false));
  EXPECT_TRUE(sales.Add(VgpuId{3}, Share::FromFraction(0.2), Sale::kGuaranteed, /*restored=*/false));
}

}  // namespace
}  // namespace weir::core
