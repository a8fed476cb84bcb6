// SPDX-License-Identifier: Apache-2.0
#include "core/oversubscribe/caps.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

namespace weir::core {
namespace {

using Holders = std::vector<CapHolder>;

double SumOf(const Holders& holders) {
  return std::accumulate(holders.begin(), holders.end(), 0.0,
                         [](double sum, const CapHolder& h) { return sum + h.cap; });
}

/// Any caps that fit the device, with guaranteed ceilings that fit it too.
Holders AnyHolders() {
  const auto part = [] { return *rc::gen::inRange(0, 1001) / 1000.0; };
  Holders holders;
  const int count = *rc::gen::inRange(1, 9);
  double guaranteed = 0;
  for (int i = 0; i < count; ++i) {
    CapHolder holder{.id = VgpuId{static_cast<std::uint64_t>(i) + 1}};
    holder.ceiling = std::max(part(), 0.01);
    holder.sale = static_cast<Sale>(*rc::gen::inRange(0, 3));
    if (holder.sale == Sale::kGuaranteed && guaranteed + holder.ceiling > 1) holder.sale = Sale::kOversold;
    if (holder.sale == Sale::kGuaranteed) guaranteed += holder.ceiling;
    holder.cap = holder.ceiling * part();
    holder.use = holder.cap * part();
    holder.need = holder.use * part();
    holder.limited = *rc::gen::arbitrary<bool>();
    holder.needy = holder.limited && holder.sale != Sale::kBestEffort && *rc::gen::arbitrary<bool>();
    holder.claim = part();
    holder.lateness = part() * 2 - 1;
    holders.push_back(holder);
  }
  Fit(holders);
  return holders;
}

void MustBeSound(const Holders& holders) {
  RC_ASSERT(SumOf(holders) <= 1 + 1e-9);
  for (const CapHolder& holder : holders) RC_ASSERT(holder.cap >= 0 && holder.cap <= holder.ceiling + 1e-12);
}

RC_GTEST_PROP(Caps, FitTheDevice, ()) { MustBeSound(AnyHolders()); }

RC_GTEST_PROP(Regain, KeepsCapsWithinTheirCeilingsAndTheDevice, ()) {
  Holders holders = AnyHolders();
  const double before = SumOf(holders);
  std::vector<Transfer> done;
  Regain(holders, 0.1, done);
  MustBeSound(holders);
  RC_ASSERT(SumOf(holders) >= before - 1e-9);
}

// The guarantee: a guaranteed vGPU gets what it needs at once, whatever other vGPUs do.
RC_GTEST_PROP(Regain, AGuaranteedVgpuInNeedGetsItsClaim, ()) {
  Holders holders = AnyHolders();
  std::vector<Transfer> done;
  const Holders before = holders;
  Regain(holders, 0.1, done);
  double firm = 0;
  for (const CapHolder& h : before) firm += h.sale == Sale::kGuaranteed ? std::max(h.cap, h.needy ? h.ceiling : 0) : 0;
  if (firm > 1) return;  // other guaranteed vGPUs keep their own part
  for (std::size_t i = 0; i < holders.size(); ++i)
    if (before[i].sale == Sale::kGuaranteed && before[i].needy)
      RC_ASSERT(holders[i].cap >= std::min(holders[i].claim, holders[i].ceiling) - 1e-5);
}

RC_GTEST_PROP(Regain, TakesNothingNeededForAVgpuThatOnlyWants, ()) {
  Holders holders = AnyHolders();
  for (CapHolder& holder : holders) holder.needy = false;
  const Holders before = holders;
  std::vector<Transfer> done;
  Regain(holders, 0.1, done);
  for (std::size_t i = 0; i < holders.size(); ++i)
    RC_ASSERT(holders[i].cap >= std::min(before[i].cap, before[i].use) - 1e-9);
}

RC_GTEST_PROP(Regain, DoesNotDependOnTheOrderOfCaps, ()) {
  Holders holders = AnyHolders();
  Holders turned(holders.rbegin(), holders.rend());
  std::vector<Transfer> done;
  Regain(holders, 0.1, done);
  Regain(turned, 0.1, done);
  for (std::size_t i = 0; i < holders.size(); ++i)
    RC_ASSERT(std::abs(holders[i].cap - turned[holders.size() - 1 - i].cap) < 1e-9);
}

RC_GTEST_PROP(Steal, MovesAFifthOfTheLightestsUnusedCapAndTerminates, ()) {
  Holders holders = AnyHolders();
  const double before = SumOf(holders);
  double last = 0;
  for (int i = 0; i < 200; ++i) {
    Transfer transfer;
    const double stolen = Steal(holders, 0, 0.2, {}, transfer);
    MustBeSound(holders);
    RC_ASSERT(std::abs(SumOf(holders) - before) < 1e-9);
    last = stolen;
    if (stolen == 0) break;
    RC_ASSERT(transfer.to == holders[0].id && transfer.from != holders[0].id);
  }
  RC_ASSERT(last < 1e-3);
}

RC_GTEST_PROP(Steal, PicksTheSameVgpuInAnyOrder, ()) {
  Holders holders = AnyHolders();
  if (*rc::gen::arbitrary<bool>())  // all equally light
    for (CapHolder& holder : holders) holder.use = holder.need = holder.cap / 2, holder.lateness = 0;
  Holders turned(holders.rbegin(), holders.rend());
  Transfer one, other;
  const double first = Steal(holders, 0, 0.2, {}, one);
  const double second = Steal(turned, turned.size() - 1, 0.2, {}, other);
  RC_ASSERT(first == second);
  if (first > 0) RC_ASSERT(one.from == other.from);
}

RC_GTEST_PROP(MakePlace, TakesTheSameInAnyOrder, ()) {
  Holders holders = AnyHolders();
  const auto newcomer = *rc::gen::inRange<std::size_t>(0, holders.size());
  holders[newcomer].cap = 0;
  Holders turned(holders.rbegin(), holders.rend());
  std::vector<Transfer> done;
  MakePlace(holders, newcomer, 0.1, done);
  MakePlace(turned, turned.size() - 1 - newcomer, 0.1, done);
  MustBeSound(holders);
  for (std::size_t i = 0; i < holders.size(); ++i)
    RC_ASSERT(std::abs(holders[i].cap - turned[holders.size() - 1 - i].cap) < 1e-9);
}

TEST(Sale, IsFoundByItsName) {
  for (const Sale sale : {Sale::kGuaranteed, Sale::kOversold, Sale::kBestEffort})
    EXPECT_EQ(*SaleNamed(NameOf(sale)), sale);
  EXPECT_NE(SaleNamed("rented").error().message.find("guaranteed, oversold, best-effort"), std::string::npos);
}

TEST(Steal, TakesFromTheLightestVgpu) {
  // As printed, Algorithm 1 compares with a minimum that is never updated, and would choose the last vGPU.
  Holders holders{
      {.id = VgpuId{1}, .ceiling = 0.5, .cap = 0.3, .use = 0.3, .need = 0.3, .limited = true, .needy = true},
      {.id = VgpuId{2}, .ceiling = 0.5, .cap = 0.3, .use = 0.05, .need = 0.05},
      {.id = VgpuId{3}, .ceiling = 0.5, .cap = 0.3, .use = 0.2, .need = 0.2}};
  Transfer done;
  EXPECT_DOUBLE_EQ(Steal(holders, 0, 0.2, {}, done), 0.05);
  EXPECT_EQ(done.from, VgpuId{2});
  EXPECT_DOUBLE_EQ(holders[0].cap, 0.35);
  EXPECT_DOUBLE_EQ(holders[1].cap, 0.25);
}

TEST(MakePlace, ANewVgpuGetsFreeThenIdleThenUnpromisedTime) {
  Holders holders{
      {.id = VgpuId{1}, .ceiling = 0.5, .cap = 0.4, .use = 0.1, .need = 0.1},                   // idle: 0.29
      {.id = VgpuId{2}, .ceiling = 0.5, .cap = 0.5, .use = 0.5, .need = 0.2, .limited = true},  // spare: 0.28
      {.id = VgpuId{3}, .sale = Sale::kOversold, .ceiling = 0.6, .cap = 0}};
  std::vector<Transfer> done;
  MakePlace(holders, 2, 0.1, done);
  EXPECT_NEAR(holders[2].cap, 0.6, 1e-9);  // 0.1 + 0.29 + 0.21
  EXPECT_NEAR(holders[0].cap, 0.11, 1e-9);
  EXPECT_NEAR(holders[1].cap, 0.29, 1e-9);
}

}  // namespace
}  // namespace weir::core
