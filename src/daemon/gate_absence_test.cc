// SPDX-License-Identifier: Apache-2.0
#include "daemon/gate_absence.h"

#include <gtest/gtest.h>

namespace weir::daemon {
namespace {

/// An executor at which the daemon looks every 50 ms.
class LookedAt {
 public:
  /// Returns whether the executor is to be ended at one of the looks within `span`.
  bool For(Duration span, bool attached, std::uint64_t run = 1) {
    bool end = false;
    for (const Instant until = now_ + span; now_ < until;) {
      now_ += milliseconds(50);
      end |= absence_.Look(now_, run, attached);
    }
    return end;
  }
  void DaemonStandsStill(Duration span) { now_ += span; }
  [[nodiscard]] bool counts() const { return absence_.counts(); }

 private:
  GateAbsence absence_;
  Instant now_ = InstantFromNs(1'000'000'000);
};

TEST(GateAbsence, AnExecutorThatHasLostItsGateIsEndedAfterTheBound) {
  LookedAt executor;
  EXPECT_FALSE(executor.For(seconds(60), true));
  EXPECT_FALSE(executor.For(GateAbsence::kMost, false));
  EXPECT_TRUE(executor.For(milliseconds(50), false));
  EXPECT_FALSE(executor.For(GateAbsence::kMost, false)) << "once";
  EXPECT_TRUE(executor.For(milliseconds(50), false)) << "it has not ended";
}

TEST(GateAbsence, AnExecutorThatAttachesAgainIsNot) {
  LookedAt executor;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(executor.For(milliseconds(50), true));
    EXPECT_FALSE(executor.For(GateAbsence::kMost, false));
  }
}

TEST(GateAbsence, AnExecutorThatStartsMayTakeLong) {
  LookedAt executor;
  EXPECT_FALSE(executor.For(seconds(600), false));
  EXPECT_FALSE(executor.counts());
  EXPECT_FALSE(executor.For(milliseconds(50), true));
  EXPECT_TRUE(executor.counts());
}

TEST(GateAbsence, TheNextExecutorStartsAfresh) {
  LookedAt executor;
  EXPECT_FALSE(executor.For(seconds(1), true));
  EXPECT_FALSE(executor.For(GateAbsence::kMost, false));
  EXPECT_FALSE(executor.For(seconds(1), false, 0)) << "none runs";
  EXPECT_FALSE(executor.counts());
  EXPECT_FALSE(executor.For(seconds(60), false, 2));
}

TEST(GateAbsence, TheTimeForWhichTheDaemonStoodStillDoesNotCount) {
  LookedAt executor;
  EXPECT_FALSE(executor.For(seconds(1), true));
  for (int i = 0; i < 10; ++i) {
    executor.DaemonStandsStill(seconds(60));
    EXPECT_FALSE(executor.For(milliseconds(50), false));
  }
}

}  // namespace
}  // namespace weir::daemon
