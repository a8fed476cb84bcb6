// SPDX-License-Identifier: Apache-2.0
// Charges and times of batches in flight, on a device whose GPU time is that of its events.
#include "opencl/executor/admission.h"

#include <gtest/gtest.h>

#include <thread>

#include "platform/clock.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::opencl {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr auto kLong = std::chrono::milliseconds(250);

/// A session with two queues, behind a gate that lets everything pass.
class AdmissionOfTwoQueues : public ::testing::Test {
 protected:
  AdmissionOfTwoQueues() {
    WEIR_CHECK(testing::WaitUntil([this] {
      const std::int64_t now_ns = platform::NowNs();
      const gate::Ticket ticket = agent_.Enter(now_ns);
      agent_.Leave(ticket, {.begin_ns = now_ns, .present_ns = now_ns, .end_ns = now_ns, .gpu_ns = 0});
      return ticket.attachment != nullptr;
    }));
    granted_ns_ = gate_.AllowanceNs();
  }
  /// A batch of one command, in flight.
  std::unique_ptr<Admission::Batch> Submit(const int& queue) {
    admission_.Begin(1'000, {.queue = &queue});
    admission_.Add(1'000);
    return admission_.Close();
  }
  void RunShortOne(const int& queue) { admission_.Done(*Submit(queue), 1'000); }
  std::int64_t ChargedNs() { return granted_ns_ - gate_.AllowanceNs(); }

  testing::TempFolder folder_;
  testing::GateHost gate_{folder_ / "gate"};
  gate::Agent agent_{folder_ / "gate", proto::Api::kOpenCl, "test"};
  DeviceMeter meter_{{}, {}};
  const Tenancy tenancy_{agent_, meter_, std::make_shared<std::atomic<std::uint64_t>>(0)};
  Admission admission_{tenancy_};
  const int first_ = 1, second_ = 2;
  std::int64_t granted_ns_ = 0;
};

TEST_F(AdmissionOfTwoQueues, ALongBatchIsChargedAlthoughOthersEndBesideIt) {
  const auto endless = Submit(first_);
  std::this_thread::sleep_for(kLong);
  RunShortOne(second_);
  const std::int64_t now_ns = platform::NowNs();
  admission_.ChargeInFlight(now_ns);
  EXPECT_GE(endless->used_ns, now_ns - endless->submit_ns);
  EXPECT_EQ(admission_.OldestSinceNs(), endless->submit_ns);
  EXPECT_GE(ChargedNs(), 250 * kMs);
  admission_.Done(*endless, 1'000);
  EXPECT_LT(ChargedNs(), 100 * kMs) << "its events say what it used";
}

TEST_F(AdmissionOfTwoQueues, ABatchBehindAnotherOfItsQueueCountsFromThatOnesEnd) {
  const auto first = Submit(first_);
  const auto next = Submit(first_);
  std::this_thread::sleep_for(kLong);
  admission_.Done(*first, 250 * kMs);
  const std::int64_t now_ns = platform::NowNs();
  admission_.ChargeInFlight(now_ns);
  EXPECT_GE(next->since_ns, first->submit_ns + 250 * kMs);
  EXPECT_EQ(next->used_ns, now_ns - next->since_ns);
  admission_.Done(*next, 1'000);
}

TEST_F(AdmissionOfTwoQueues, ABatchThatFailsIsChargedForTheTimeItCouldRun) {
  const auto fails = Submit(first_);
  std::this_thread::sleep_for(kLong);
  RunShortOne(second_);
  admission_.Done(*fails, {});
  EXPECT_GE(ChargedNs(), 250 * kMs);
}

TEST_F(AdmissionOfTwoQueues, ABatchThatWaitedForTheClientAndFailsIsChargedNothing) {
  admission_.Begin(1'000, {.in_turn = false, .queue = &first_});
  admission_.Add(1'000);
  const auto waits = admission_.Close([] { return false; });
  std::this_thread::sleep_for(kLong);
  admission_.ChargeInFlight(platform::NowNs());
  admission_.Done(*waits, {});
  EXPECT_LT(ChargedNs(), 100 * kMs);
}

}  // namespace
}  // namespace weir::opencl
