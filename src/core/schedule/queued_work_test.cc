// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/queued_work.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace weir::core {
namespace {

struct QueueBench {
  QueueBench() { work.Pass(now); }
  void Charge(Duration charged) { work.Add(vgpu, charged, probe); }
  void After(Duration time) {
    work.Pass(now += time);
    Charge({});
  }

  Instant now = InstantFromNs(1'000'000'000);
  VgpuView vgpu{.id = VgpuId{1}, .reserved = seconds(1)};
  QueuedWork work;
  QueuedWork::Probe probe;
};

TEST(QueuedWork, PassesWithTime) {
  QueueBench b;
  EXPECT_EQ(b.work.left(), Duration{0});
  b.Charge(milliseconds(6));
  EXPECT_EQ(b.work.left(), milliseconds(6));
  b.After(milliseconds(4));
  EXPECT_EQ(b.work.left(), milliseconds(2));
  b.After(milliseconds(9));
  b.Charge(milliseconds(6));
  EXPECT_EQ(b.work.left(), milliseconds(6)) << "time without work is not saved up";
}

TEST(QueuedWork, PredictionsThatAreCorrectedLaterAddUpToNoError) {
  QueueBench b;
  for (int frame = 0; frame < 1000; ++frame) {
    b.Charge(milliseconds(5));  // the prediction
    b.After(milliseconds(3));
    b.Charge(milliseconds(1));  // the frame has taken 6 ms
    b.After(milliseconds(3));
  }
  EXPECT_EQ(b.work.left(), Duration{0});
}

TEST(QueuedWork, TheEndOfAFrameThatIsWaitedForCorrectsTheEstimate) {
  for (const Duration error : {microseconds(-300), microseconds(0), microseconds(300)}) {
    QueueBench b;
    b.Charge(milliseconds(12));
    VgpuView blank{.id = VgpuId{2}, .in_flight = 1, .blocks = true};
    QueuedWork::Probe of_blank;
    b.work.Add(blank, milliseconds(6), of_blank);
    b.Charge(milliseconds(6));
    b.After(milliseconds(18) + error);
    blank.in_flight = 0;
    b.work.Add(blank, {}, of_blank);
    EXPECT_EQ(b.work.left(), milliseconds(6)) << "what has passed since: " << error.count();
    b.work.Add(blank, {}, of_blank);
    EXPECT_EQ(b.work.left(), milliseconds(6)) << "it counts once";
  }
}

TEST(QueuedWork, ATimeInThePastChangesNothing) {
  QueueBench b;
  b.Charge(milliseconds(6));
  b.After(milliseconds(-5));
  EXPECT_EQ(b.work.left(), milliseconds(6));
}

TEST(QueuedWork, WorkWhoseEndIsKnownIsNotOnTheDevice) {
  QueueBench b;
  b.vgpu.reserved = milliseconds(7);
  b.Charge(milliseconds(12));
  EXPECT_EQ(b.work.left(), milliseconds(7));
  b.vgpu.reserved = Duration{0};
  b.After({});
  EXPECT_EQ(b.work.left(), Duration{0});
}

TEST(QueuedWork, AFalseChargeIsForgottenSoon) {
  QueueBench b;
  b.Charge(seconds(60));
  EXPECT_EQ(b.work.left(), QueuedWork::kMost);
  b.After(QueuedWork::kMost);
  EXPECT_EQ(b.work.left(), Duration{0});
}

// Whatever a tenant reports, it keeps the device busy for no longer than what it is charged.
RC_GTEST_PROP(QueuedWork, FalseChargesCostWhatTheyKeep, ()) {
  QueueBench b;
  Duration kept{}, charged{};
  for (const auto charge : *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange(0U, 500'000'000U))) {
    b.Charge(Duration{charge});
    charged += Duration{charge};
    const Duration step = milliseconds(10);
    kept += std::min(b.work.left(), step);
    b.After(step);
  }
  RC_ASSERT(kept <= charged);
}

}  // namespace
}  // namespace weir::core
