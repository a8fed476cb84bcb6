// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/giving_way.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace weir::core {
namespace {

/// A vGPU that draws at the rate that it was promised.
VgpuView Drawing(std::uint64_t id, std::uint32_t weight, double fps, Duration cost) {
  return {.id = VgpuId{id},
          .slot = static_cast<std::uint32_t>(id),
          .weight = weight,
          .loops_gpu = cost,
          .promised = FromSeconds(1 / fps),
          .rate = fps,
          .attached = true};
}

struct Order {
  GivingWay giving_way;
  Instant now = InstantFromNs(1'000'000'000);
  explicit Order(Duration preset = {}) : giving_way(preset) {}
  /// The rates that are left to these vGPUs, by a decision a second later.
  std::vector<double> Rates(const std::vector<VgpuView>& views) {
    giving_way.See(now += seconds(1), views);
    std::vector<double> rates;
    for (const VgpuView& view : views) rates.push_back(1 / SecondsOf(giving_way.IntervalOf(view)));
    return rates;
  }
};

TEST(GivingWay, NoVgpuDoesWherePromisesFit) {
  Order order;
  const std::vector<double> rates =
      order.Rates({Drawing(1, 50, 60, milliseconds(5)), Drawing(2, 100, 60, milliseconds(11))});
  EXPECT_NEAR(rates[0], 60, 1e-3);
  EXPECT_NEAR(rates[1], 60, 1e-3);
  EXPECT_FALSE(order.giving_way.any());
}

TEST(GivingWay, TheLightestDoesAndHasWhatIsLeft) {
  Order order;
  const std::vector<double> rates =
      order.Rates({Drawing(1, 50, 60, milliseconds(8)), Drawing(2, 200, 60, milliseconds(6)),
                   Drawing(3, 100, 60, milliseconds(6))});
  EXPECT_NEAR(rates[0], 0.23 / 0.008, 0.1) << "of 95 % of the device, 23 are left";
  EXPECT_NEAR(rates[1], 60, 1e-3);
  EXPECT_NEAR(rates[2], 60, 1e-3);
  EXPECT_TRUE(order.giving_way.any());
}

TEST(GivingWay, ThoseOfOneWeightDoInProportion) {
  Order order;
  const std::vector<double> rates =
      order.Rates({Drawing(1, 100, 60, milliseconds(12)), Drawing(2, 100, 60, milliseconds(6)),
                   Drawing(3, 200, 60, milliseconds(6))});
  EXPECT_NEAR(rates[2], 60, 1e-3);
  EXPECT_NEAR(rates[0], rates[1], 0.1);
  EXPECT_NEAR(rates[0], 60 * 0.59 / 1.08, 0.1);
}

// VGRIS's three programs at 60 frames/s each, which need 104 % of the card.
TEST(GivingWay, NoVgpuDoesWhereAllWeightsAreTheSame) {
  Order order;
  const std::vector<double> rates =
      order.Rates({Drawing(1, 100, 60, microseconds(8'362)), Drawing(2, 100, 60, microseconds(4'456)),
                   Drawing(3, 100, 60, microseconds(4'456))});
  for (const double rate : rates) EXPECT_NEAR(rate, 60, 1e-3) << "users have set no order";
}

TEST(GivingWay, NoVgpuIsSlowedBelowATenth) {
  Order order;
  const std::vector<double> rates =
      order.Rates({Drawing(1, 1, 60, milliseconds(5)), Drawing(2, 100, 100, milliseconds(12))});
  EXPECT_NEAR(rates[0], 6, 0.1);
}

// Overselling lends all of an idle vGPU's cap.
TEST(GivingWay, AVgpuWithoutACapIsNotSlowedFurther) {
  Order order;
  VgpuView none = Drawing(3, 10, 60, milliseconds(5));
  none.cap = Share{};
  const std::vector<double> rates =
      order.Rates({Drawing(1, 50, 60, milliseconds(10)), Drawing(2, 200, 60, milliseconds(10)), none});
  EXPECT_LT(rates[0], 45);
  EXPECT_NEAR(rates[2], 60, 1e-3) << "its cap holds it";
}

TEST(GivingWay, AVgpuWithoutAPromiseDoesBeforeAllOthers) {
  Order order(FromSeconds(1.0 / 30));
  VgpuView preset = Drawing(1, 10'000, 30, milliseconds(15));
  preset.promised = {};
  const std::vector<double> rates = order.Rates({preset, Drawing(2, 1, 60, milliseconds(12))});
  EXPECT_LT(rates[0], 20);
  EXPECT_NEAR(rates[1], 60, 1e-3);
  EXPECT_EQ(Order().giving_way.any(), false);
}

// Time for frames that a vGPU does not draw is not kept from others, even if the frames were promised.
TEST(GivingWay, AnIdleVgpuOrOneThatDrawsLittleHoldsLittleBack) {
  Order order;
  VgpuView idle = Drawing(2, 200, 60, milliseconds(12)), slow = idle;
  idle.rate = 0;
  slow.rate = 10;
  EXPECT_NEAR(order.Rates({Drawing(1, 50, 60, milliseconds(10)), idle})[0], 60, 1e-3);
  EXPECT_NEAR(order.Rates({Drawing(1, 50, 60, milliseconds(10)), slow})[0], 60, 1e-3);
  slow.rate = 30;  // about to draw 47: 56 % of the device
  EXPECT_NEAR(order.Rates({Drawing(1, 50, 60, milliseconds(10)), slow})[0], (0.95 - 0.564) / 0.010, 0.5);
}

// The low rate of a vGPU that gives way must not count as what it wants. Otherwise it would alternate between two
// rates.
TEST(GivingWay, GoesOnWhileTheSlowedOneDrawsAsOftenAsItMay) {
  Order order;
  std::vector<VgpuView> views{Drawing(1, 50, 60, milliseconds(6)), Drawing(2, 200, 60, milliseconds(14))};
  const double slowed = order.Rates(views)[0];
  EXPECT_NEAR(slowed, 0.11 / 0.006, 0.1);
  for (int i = 0; i < 10; ++i) {
    views[0].rate = std::floor(slowed);
    EXPECT_EQ(order.Rates(views)[0], slowed);
  }
  views[0].rate = 5;  // now it is slow by itself: 9.5 frames/s soon
  EXPECT_NEAR(order.Rates(views)[0], 60, 1e-3);
}

TEST(GivingWay, IsOverAtOnceWhenPromisesFitAgain) {
  Order order;
  std::vector<VgpuView> views{Drawing(1, 50, 60, milliseconds(10)), Drawing(2, 200, 60, milliseconds(10))};
  EXPECT_LT(order.Rates(views)[0], 45);
  views[1].attached = false;
  views[1].rate = 0;
  EXPECT_NEAR(order.Rates(views)[0], 60, 1e-3);
  EXPECT_FALSE(order.giving_way.any());
}

// A device whose promises just fit: costs vary by some per cent, and no program is woken for that.
TEST(GivingWay, SmallChangesOfCostChangeNothing) {
  Order order;
  std::vector<VgpuView> views{Drawing(1, 50, 60, milliseconds(10)), Drawing(2, 200, 60, milliseconds(10))};
  const double rate = order.Rates(views)[0];
  views[1].loops_gpu += microseconds(50);
  EXPECT_EQ(order.Rates(views)[0], rate);
}

RC_GTEST_PROP(GivingWay, KeepsTheHeavierAndUsesTheDevice, ()) {
  Order order;
  std::vector<VgpuView> views;
  const auto count = *rc::gen::inRange<std::uint64_t>(1, 7);
  double needed = 0, least = 0;
  for (std::uint64_t id = 1; id <= count; ++id) {
    views.push_back(Drawing(id, *rc::gen::element(50U, 100U, 200U), *rc::gen::inRange(10, 100),
                            microseconds(*rc::gen::inRange(100, 9'000))));
    const double need = NeedOf(views.back().promised, views.back().loops_gpu, Share::Whole());
    needed += need;
    least += need / 10;
  }
  views.front().weight = 10;  // an order: with one weight no vGPU gives way
  const std::vector<double> rates = order.Rates(views);
  if (count == 1) return;
  double used = 0;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const double promised = 1 / SecondsOf(views[i].promised);
    used += NeedOf(FromSeconds(1 / rates[i]), views[i].loops_gpu, Share::Whole());
    RC_ASSERT(rates[i] <= promised * 1.001 && rates[i] >= promised * 0.099);
    for (std::size_t k = 0; k < views.size(); ++k)
      if (views[k].weight > views[i].weight && rates[k] < 0.96 / SecondsOf(views[k].promised))
        RC_ASSERT(rates[i] <= promised * 0.101);
  }
  RC_ASSERT(used <= (needed > 1 ? std::max(0.99, least * 1.01) : 1.001));
  RC_ASSERT(used >= std::min(needed, 0.95) * 0.96);
}

}  // namespace
}  // namespace weir::core
