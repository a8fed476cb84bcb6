// SPDX-License-Identifier: Apache-2.0
// Laws of claims to memory, with the steps of several processes in any order, and with threads.
#include "gate/memory_claim.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace weir::gate {
namespace {

using ClaimAnswer = MemoryClaim::Answer;

/// A process that claims memory. Each step is one write, one read of a word, or the decision.
class Claimer {
 public:
  /// `used`: all words that a process of the test has. The other ones are zero.
  Claimer(proto::MemoryTable& table, std::size_t word, const std::vector<std::size_t>& used)
      : table_(table), word_(word), used_(used) {}

  [[nodiscard]] bool idle() const { return !claim_; }
  [[nodiscard]] std::uint32_t held() const { return held_; }
  void Begin(std::uint32_t pages) {
    claim_.emplace(table_, word_, held_, pages);
    pages_ = pages;
    announced_ = false;
  }
  /// The answer, once the claim has ended.
  std::optional<ClaimAnswer> Step(std::uint64_t limit) {
    if (!announced_) {
      announced_ = claim_->Announce();
      seen_ = 0;
      return std::nullopt;
    }
    if (seen_ < used_.size()) {
      claim_->LookAt(used_[seen_++]);
      return std::nullopt;
    }
    announced_ = false;
    const ClaimAnswer answer = claim_->Conclude(limit);
    if (answer == ClaimAnswer::kAgain) return std::nullopt;
    if (answer == ClaimAnswer::kTaken) held_ += pages_;
    claim_.reset();
    return answer;
  }
  void Free(std::uint32_t pages) {
    held_ -= std::min(held_, pages);
    MemoryClaim(table_, word_, held_, 0).Withdraw();
  }
  /// The process ends at any point of a claim, and the daemon clears its word.
  void Die() {
    claim_.reset();
    held_ = 0;
    table_.words[word_] = 0;
  }

 private:
  proto::MemoryTable& table_;
  const std::size_t word_;
  const std::vector<std::size_t> used_;
  std::optional<MemoryClaim> claim_;
  bool announced_ = false;
  std::size_t seen_ = 0;
  std::uint32_t held_ = 0, pages_ = 0;
};

struct ClaimingVgpu {
  explicit ClaimingVgpu(std::size_t processes) {
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < processes; ++i) used.push_back(i * (proto::kMemoryWords - 1) / (processes - 1));
    for (const std::size_t word : used) claimers.emplace_back(*table, word, used);
  }
  [[nodiscard]] std::uint64_t Held() const {
    std::uint64_t sum = 0;
    for (const Claimer& one : claimers) sum += one.held();
    return sum;
  }

  std::unique_ptr<proto::MemoryTable> table = std::make_unique<proto::MemoryTable>();
  std::vector<Claimer> claimers;
};

std::uint32_t DrawnBelow(int end) { return static_cast<std::uint32_t>(*rc::gen::inRange(0, end)); }

TEST(MemoryClaims, NeverHoldMoreThanTheLimitAndALoweredLimitTakesNothingAway) {
  EXPECT_TRUE(rc::check("in any order of steps", [] {
    ClaimingVgpu vgpu(2 + DrawnBelow(4));
    std::uint64_t limit = 1 + DrawnBelow(40);
    // By process, the highest limit since its claim began: a claim that has read other words may still be taken when
    // the limit is lowered, as if it had been taken before.
    std::vector<std::uint64_t> limits(vgpu.claimers.size(), limit);
    const auto steps = *rc::gen::container<std::vector<std::pair<int, int>>>(
        600, rc::gen::pair(rc::gen::inRange(0, 1000), rc::gen::inRange(0, 16)));
    for (const auto& [who, what] : steps) {
      const std::size_t number = static_cast<std::size_t>(who) % vgpu.claimers.size();
      Claimer& one = vgpu.claimers[number];
      const std::uint64_t before = vgpu.Held();
      if (who % 200 == 0) {
        one.Die();
      } else if (who % 200 == 1) {
        limit = 1 + static_cast<std::uint64_t>(what) * 3;
        for (std::uint64_t& highest : limits) highest = std::max(highest, limit);
        RC_ASSERT(vgpu.Held() == before);
      } else if (one.idle()) {
        if (what < 5) {
          one.Free(static_cast<std::uint32_t>(what));
        } else {
          one.Begin(static_cast<std::uint32_t>(what - 4));
          limits[number] = limit;
        }
      } else if (one.Step(limit) == ClaimAnswer::kTaken) {
        RC_ASSERT(vgpu.Held() <= limits[number]);
      }
    }
  }));
}

TEST(MemoryClaims, OfProcessesThatClaimAtOnceOneIsRefusedOnlyIfTheRestIsTooSmall) {
  EXPECT_TRUE(rc::check("claims of one size", [] {
    ClaimingVgpu vgpu(2 + DrawnBelow(4));
    const std::uint32_t size = 1 + DrawnBelow(5);
    const std::uint64_t limit = size + DrawnBelow(60);
    std::vector<bool> refused(vgpu.claimers.size());
    const auto first = *rc::gen::container<std::vector<int>>(100, rc::gen::inRange(0, 1000));
    std::size_t steps = 0;
    const auto step = [&](std::size_t who) {
      Claimer& one = vgpu.claimers[who];
      if (refused[who]) return;
      if (one.idle()) return one.Begin(size);
      if (one.Step(limit) == ClaimAnswer::kRefused) {
        RC_ASSERT(vgpu.Held() + size > limit);
        refused[who] = true;
      }
    };
    for (const int who : first) step(static_cast<std::size_t>(who) % vgpu.claimers.size());
    // Then all in lockstep, which is where two that give way to each other would go on for ever.
    while (std::ranges::find(refused, false) != refused.end()) {
      RC_ASSERT(++steps < 5000U);
      for (std::size_t who = 0; who < vgpu.claimers.size(); ++who) step(who);
    }
    RC_ASSERT(vgpu.Held() == limit / size * size);
  }));
}

// 10 pages move from the first process to the third while the second one reads: no more than 10 are ever held.
TEST(MemoryClaims, ThatFitAreNotRefusedBecauseMemoryMovesMeanwhile) {
  const auto table = std::make_unique<proto::MemoryTable>();
  constexpr std::uint64_t kLimit = 20;
  table->words[0] = std::uint64_t{10} << 32;
  MemoryClaim claim(*table, 1, 0, 10);
  ASSERT_TRUE(claim.Announce());
  claim.LookAt(0);
  MemoryClaim(*table, 0, 0, 0).Withdraw();
  MemoryClaim third(*table, 2, 0, 10);
  ASSERT_TRUE(third.Announce());
  ASSERT_EQ(third.Decide(kLimit), ClaimAnswer::kTaken);
  claim.LookAt(2);
  EXPECT_EQ(claim.Conclude(kLimit), ClaimAnswer::kAgain);
  ASSERT_TRUE(claim.Announce());
  EXPECT_EQ(claim.Decide(kLimit), ClaimAnswer::kTaken);
}

// Otherwise processes that allocate and free in a loop could keep those in later words from claiming.
TEST(MemoryClaims, AClaimThatFitsBesideAnEarlierOneIsAnnouncedAgain) {
  const auto table = std::make_unique<proto::MemoryTable>();
  constexpr std::uint64_t kLimit = 20;
  MemoryClaim large(*table, 0, 0, 15), small(*table, 0, 0, 1), later(*table, 5, 0, 10);
  ASSERT_TRUE(large.Announce());
  ASSERT_TRUE(later.Announce());
  ASSERT_EQ(later.Decide(kLimit), ClaimAnswer::kAgain);
  EXPECT_FALSE(later.Announce()) << "the earlier claim leaves no room";
  large.Withdraw();
  ASSERT_TRUE(small.Announce());
  EXPECT_TRUE(later.Announce());
  EXPECT_EQ(later.Decide(kLimit), ClaimAnswer::kTaken);
  EXPECT_EQ(small.Decide(kLimit), ClaimAnswer::kTaken);
}

TEST(MemoryClaims, OfEndedProcessesLeaveAllOfTheLimit) {
  EXPECT_TRUE(rc::check("at any point of their claims", [] {
    ClaimingVgpu vgpu(5);
    const std::uint64_t limit = 1 + DrawnBelow(100);
    for (int i = 0; i < 200; ++i) {
      Claimer& one = vgpu.claimers[DrawnBelow(4)];
      if (one.idle())
        one.Begin(1 + DrawnBelow(5));
      else
        static_cast<void>(one.Step(limit));
    }
    for (std::size_t i = 0; i < 4; ++i) vgpu.claimers[i].Die();
    RC_ASSERT(HeldPages(*vgpu.table) == 0U);
    vgpu.claimers[4].Begin(static_cast<std::uint32_t>(limit));
    std::optional<ClaimAnswer> answer;
    while (!answer) answer = vgpu.claimers[4].Step(limit);
    RC_ASSERT(*answer == ClaimAnswer::kTaken);
  }));
}

TEST(MemoryClaims, WordsOfNonsenseOverflowNoSum) {
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  const auto table = std::make_unique<proto::MemoryTable>();
  for (proto::AtomicU64& word : table->words) word = kAll;
  table->others_pages = std::numeric_limits<std::uint32_t>::max();
  EXPECT_EQ(HeldPages(*table), (2 * proto::kMemoryWords + 1) * 0xFFFFFFFFULL);
  MemoryClaim claim(*table, 7, 0, 1);
  for (const ClaimAnswer answer : {ClaimAnswer::kAgain, ClaimAnswer::kRefused}) {
    EXPECT_TRUE(claim.Announce());
    EXPECT_EQ(claim.Decide(1'000'000), answer);
  }
  EXPECT_EQ(table->words[7], 0U);
  // A process holds at most what fits into its word.
  for (proto::AtomicU64& word : table->words) word = 0;
  table->others_pages = 0;
  MemoryClaim large(*table, 7, 0xFFFFFFFF, 1);
  EXPECT_TRUE(large.Announce());
  EXPECT_EQ(large.Decide(kAll), ClaimAnswer::kRefused);
}

TEST(MemoryClaims, MemoryOfTheExecutorsCountsUnderTheLimit) {
  const auto table = std::make_unique<proto::MemoryTable>();
  table->others_pages = 6;
  const auto decide = [&](std::uint32_t pages) {
    MemoryClaim claim(*table, 0, 0, pages);
    EXPECT_TRUE(claim.Announce());
    const ClaimAnswer answer = claim.Decide(10);
    if (answer != ClaimAnswer::kAgain) return answer;
    EXPECT_TRUE(claim.Announce());
    return claim.Decide(10);
  };
  EXPECT_EQ(decide(5), ClaimAnswer::kRefused);
  EXPECT_EQ(decide(4), ClaimAnswer::kTaken);
}

TEST(MemoryClaims, OfThreadsHoldNeverMoreThanTheLimitAndReachIt) {
  constexpr std::size_t kThreads = 4;
  constexpr std::uint32_t kSize = 3;
  constexpr std::uint64_t kLimit = 20;
  const auto table = std::make_unique<proto::MemoryTable>();
  std::atomic<std::uint64_t> held{0}, most{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      std::uint32_t mine = 0;
      for (int round = 0; round < 3000; ++round) {
        MemoryClaim claim(*table, 10 + i, mine, kSize);
        ClaimAnswer answer = ClaimAnswer::kAgain;
        while (answer == ClaimAnswer::kAgain) {
          answer = claim.Announce() ? claim.Decide(kLimit) : ClaimAnswer::kAgain;
          if (answer == ClaimAnswer::kAgain) std::this_thread::yield();
        }
        if (answer == ClaimAnswer::kTaken) {
          mine += kSize;
          std::uint64_t now = held.fetch_add(kSize) + kSize, seen = most.load();
          while (now > seen && !most.compare_exchange_weak(seen, now)) {
          }
        } else {
          held.fetch_sub(mine);
          mine = 0;
          MemoryClaim(*table, 10 + i, 0, 0).Withdraw();
        }
      }
      held.fetch_sub(mine);
    });
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(most.load(), kLimit / kSize * kSize);
}

TEST(MemoryPages, AreRoundedUpAndBounded) {
  EXPECT_EQ(MemoryPagesOf(0), 0U);
  EXPECT_EQ(MemoryPagesOf(1), 1U);
  EXPECT_EQ(MemoryPagesOf(proto::kMemoryPageBytes), 1U);
  EXPECT_EQ(MemoryPagesOf(proto::kMemoryPageBytes + 1), 2U);
  EXPECT_EQ(MemoryPagesOf(std::numeric_limits<std::uint64_t>::max()), 0xFFFFFFFFU);
}

}  // namespace
}  // namespace weir::gate
