// SPDX-License-Identifier: Apache-2.0
#include "core/charge/use_reconciler.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::core {
namespace {

constexpr Duration kInterval = milliseconds(100);

/// A device with vGPUs 1 to n. It sums their charges as the engine does.
class Book {
 public:
  explicit Book(std::size_t vgpus) : charged(vgpus), uses_(vgpus) {
    for (std::size_t i = 0; i < vgpus; ++i) uses_[i].vgpu = VgpuId{i + 1};
  }
  void Report(std::size_t vgpu, Duration time) {
    charged[vgpu] += time;
    uses_[vgpu].reported += time;
  }
  void Ended(std::size_t vgpu) { uses_[vgpu].partial = true; }
  void Read(std::optional<Duration> busy, const std::vector<UseCounter>& counters, Duration after = kInterval) {
    now_ += after;
    reconciler_.Settle(now_, {.busy = busy, .counters = counters}, uses_);
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      charged[i] += uses_[i].correction;
      uses_[i].reported = {};
      uses_[i].partial = false;
    }
  }
  [[nodiscard]] Duration Sum() const {
    Duration sum{};
    for (const Duration each : charged) sum += each;
    return sum;
  }
  std::vector<Duration> charged;

 private:
  UseReconciler reconciler_;
  std::vector<VgpuUse> uses_;
  Instant now_ = InstantFromNs(1'000'000'000);
};

UseCounter CounterOf(std::size_t vgpu, std::uint64_t key, Duration total) {
  return {.vgpu = VgpuId{vgpu + 1}, .process = ProcessId{key}, .key = key, .total = total};
}
Duration UpTo(Duration most) { return Duration{*rc::gen::inRange<std::int64_t>(0, most.count() + 1)}; }

TEST(UseReconciler, AnAccountReplacesWhatWasReported) {
  Book book(2);
  book.Read({}, {});
  book.Report(0, milliseconds(80));
  book.Report(1, milliseconds(5));
  book.Read({}, {CounterOf(0, 1, milliseconds(30)), CounterOf(1, 2, milliseconds(40))});
  EXPECT_EQ(book.charged[0], milliseconds(30));
  EXPECT_EQ(book.charged[1], milliseconds(40));
}

TEST(UseReconciler, ACounterThatWasThereBeforeTheFirstReadingIsFollowedFromThere) {
  Book book(1);
  book.Read({}, {CounterOf(0, 1, seconds(1000))});
  book.Read({}, {CounterOf(0, 1, seconds(1000) + milliseconds(7))});
  EXPECT_EQ(book.charged[0], milliseconds(7));
  book.Read({}, {CounterOf(0, 1, seconds(1000) + milliseconds(9)), CounterOf(0, 2, seconds(50))});
  EXPECT_EQ(book.charged[0], milliseconds(9)) << "no counter begins so high";
}

TEST(UseReconciler, ReportsCountWhenReadingsAreFarApart) {
  Book book(1);
  book.Read({}, {CounterOf(0, 1, milliseconds(1))});
  book.Report(0, seconds(3));
  book.Read({}, {CounterOf(0, 1, seconds(9))}, seconds(60));
  EXPECT_EQ(book.charged[0], seconds(3));
}

TEST(UseReconciler, AProcessThatEndsUnlistedIsChargedWhatItReported) {
  Book book(1);
  book.Read({}, {});
  book.Read({}, {CounterOf(0, 1, milliseconds(10))});
  book.Report(0, milliseconds(60));
  book.Ended(0);
  book.Read({}, {});
  EXPECT_EQ(book.charged[0], milliseconds(70));
}

TEST(UseReconciler, AVgpuWithoutCountersIsChargedAsItReportsBesideOthers) {
  Book book(2);
  book.Read({}, {});
  book.Report(0, milliseconds(50));
  book.Report(1, milliseconds(50));
  book.Read({}, {CounterOf(0, 1, milliseconds(20))});
  EXPECT_EQ(book.charged[0], milliseconds(20));
  EXPECT_EQ(book.charged[1], milliseconds(50));
}

TEST(UseReconciler, ACounterThatFallsAndCatchesUpIsChargedOnce) {
  Book book(1);
  book.Read({}, {CounterOf(0, 1, milliseconds(100))});
  book.Read({}, {CounterOf(0, 1, milliseconds(40))});
  book.Read({}, {CounterOf(0, 1, milliseconds(130))});
  EXPECT_EQ(book.charged[0], milliseconds(30));
}

TEST(UseReconciler, ACounterThatStaysLowIsFollowedFromWhereItFellTo) {
  Book book(1);
  book.Read({}, {CounterOf(0, 1, seconds(100))});
  for (int i = 0; i <= 30; ++i) book.Read({}, {CounterOf(0, 1, milliseconds(10 * i))});
  EXPECT_EQ(book.charged[0], milliseconds(300));
}

RC_GTEST_PROP(UseReconcilerLaws, WithoutAnAccountChargesAreAsReported, ()) {
  Book book(3);
  Duration reported{};
  for (int step = *rc::gen::inRange(1, 20); step > 0; --step) {
    const Duration time = UpTo(milliseconds(500)) - milliseconds(100);
    book.Report(*rc::gen::inRange<std::size_t>(0, 3), time);
    reported += time;
    book.Read({}, {});
  }
  RC_ASSERT(book.Sum() == reported);
}

RC_GTEST_PROP(UseReconcilerLaws, CountersDecideWhateverProcessesReport, ()) {
  constexpr std::size_t kVgpus = 3;
  Book book(kVgpus);
  struct Client {
    std::size_t vgpu;
    std::uint64_t key;
    Duration total{};
  };
  std::vector<Client> clients;
  std::vector<Duration> truth(kVgpus);
  std::uint64_t next_key = 1;
  Duration busy{};
  book.Read(busy, {});
  for (std::size_t i = 0; i < kVgpus; ++i) clients.push_back({i, next_key++});
  for (int step = *rc::gen::inRange(1, 40); step > 0; --step) {
    if (*rc::gen::inRange(0, 3) == 0) clients.push_back({*rc::gen::inRange<std::size_t>(0, kVgpus), next_key++});
    Duration left = kInterval;
    std::vector<UseCounter> counters;
    for (Client& client : clients) {
      const Duration used = UpTo(left);
      left -= used;
      busy += used;
      client.total += used;
      truth[client.vgpu] += used;
      book.Report(client.vgpu, UpTo(milliseconds(300)) - milliseconds(50));
      counters.push_back(CounterOf(client.vgpu, client.key, client.total));
    }
    const bool missing = *rc::gen::inRange(0, 5) == 0;  // in one reading, as after a failed read
    if (missing && counters.size() > kVgpus) {
      const UseCounter gone = counters.back();
      counters.pop_back();
      book.Read(busy, counters);
      counters.push_back(gone);
    }
    book.Read(busy, counters);
    // The reading includes the last value of a client that ends.
    if (clients.size() > kVgpus && *rc::gen::inRange(0, 3) == 0) clients.pop_back();
    for (std::size_t i = 0; i < kVgpus; ++i) RC_ASSERT(book.charged[i] == truth[i]);
    RC_ASSERT(book.Sum() == busy);
  }
}

RC_GTEST_PROP(UseReconcilerLaws, ReportsNeverExceedTheBusyTimeByMoreThanAnInterval, ()) {
  constexpr std::size_t kVgpus = 4;
  Book book(kVgpus);
  Duration busy{};
  book.Read(busy, {});
  for (int step = *rc::gen::inRange(1, 40); step > 0; --step) {
    busy += UpTo(kInterval);
    for (std::size_t i = 0; i < kVgpus; ++i) book.Report(i, UpTo(milliseconds(200)));
    book.Read(busy, {});
    RC_ASSERT(book.Sum() <= busy + kInterval);
  }
}

RC_GTEST_PROP(UseReconcilerLaws, ReportsAreScaledInProportion, ()) {
  Book book(2);
  book.Read(Duration{0}, {});
  const Duration busy = UpTo(kInterval);
  const Duration a = UpTo(kInterval), b = UpTo(kInterval);
  book.Report(0, a);
  book.Report(1, b);
  book.Read(busy, {});
  if (a + b <= busy) {
    RC_ASSERT(book.charged[0] == a);
    RC_ASSERT(book.charged[1] == b);
    return;
  }
  const double factor = static_cast<double>(busy.count()) / static_cast<double>((a + b).count());
  RC_ASSERT(std::abs(static_cast<double>(book.charged[0].count()) - static_cast<double>(a.count()) * factor) < 2);
  RC_ASSERT(std::abs(static_cast<double>(book.charged[1].count()) - static_cast<double>(b.count()) * factor) < 2);
}

RC_GTEST_PROP(UseReconcilerLaws, ReportsThatComeAnIntervalLateAreChargedInFull, ()) {
  Book book(1);
  Duration busy{}, late{};
  book.Read(busy, {});
  for (int step = 0; step < 20; ++step) {
    book.Report(0, late);
    late = UpTo(kInterval);
    busy += late;
    book.Read(busy, {});
  }
  RC_ASSERT(book.charged[0] == busy - late);
}

}  // namespace
}  // namespace weir::core
