// SPDX-License-Identifier: Apache-2.0
#include "core/oversubscribe/caps.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

namespace weir::core {
namespace {

/// Smaller amounts are not transferred.
constexpr double kLeast = 1e-6;

constexpr std::array kSales{Sale::kGuaranteed, Sale::kOversold, Sale::kBestEffort};

/// Cap that no vGPU holds.
double Free(std::span<const CapHolder> holders) {
  double held = 0;
  for (const CapHolder& holder : holders) held += holder.cap;
  return std::max(1 - held, 0.0);
}

/// Cap that a needy vGPU lacks for its promise.
double Claims(const CapHolder& holder) {
  return holder.needy ? std::max(std::min(holder.claim, holder.ceiling) - holder.cap, 0.0) : 0;
}
/// Cap that a limited vGPU lacks up to its ceiling.
double Lacks(const CapHolder& holder) { return holder.limited ? std::max(holder.ceiling - holder.cap, 0.0) : 0; }

/// Moves cap from vGPUs that can give to vGPUs that want, on each side in proportion to the amounts.
class Exchange {
 public:
  Exchange(std::span<CapHolder> holders, std::vector<Transfer>& done) : holders_(holders), done_(done) {}

  template <typename CanGive, typename Wants>
  void Move(CanGive can_give, Wants wants) {
    double offered = 0, wanted = 0;
    for (const CapHolder& holder : holders_) {
      offered += can_give(holder);
      wanted += wants(holder);
    }
    const double moved = std::min(offered, wanted);
    if (moved < kLeast) return;
    // Both lists are computed before any cap changes.
    std::vector<double> gives, takes;
    for (const CapHolder& holder : holders_) {
      gives.push_back(can_give(holder) * (moved / offered));
      takes.push_back(wants(holder) * (moved / wanted));
    }
    std::size_t from = 0;
    for (std::size_t to = 0; to < holders_.size(); ++to) {
      while (takes[to] > 0 && from < holders_.size()) {
        const double amount = std::min(takes[to], gives[from]);
        Note(holders_[from].id, holders_[to], amount);
        holders_[from].cap = std::max(holders_[from].cap - amount, 0.0);
        takes[to] -= amount;
        gives[from] -= amount;
        if (gives[from] <= kLeast * 1e-3) ++from;
        if (takes[to] <= kLeast * 1e-3) break;
      }
    }
  }

  /// Assigns cap that no vGPU holds.
  template <typename Wants>
  void Hand(Wants wants) {
    const double free = Free(holders_);
    double wanted = 0;
    for (const CapHolder& holder : holders_) wanted += wants(holder);
    const double moved = std::min(free, wanted);
    if (moved < kLeast) return;
    for (CapHolder& holder : holders_) Note({}, holder, wants(holder) * (moved / wanted));
  }

 private:
  void Note(VgpuId from, CapHolder& to, double amount) {
    if (amount <= 0) return;
    to.cap = std::min(to.cap + amount, to.ceiling);
    if (amount >= kLeast) done_.push_back({from, to.id, amount});
  }

  std::span<CapHolder> holders_;
  std::vector<Transfer>& done_;
};

}  // namespace

const char* NameOf(Sale sale) {
  switch (sale) {
    case Sale::kGuaranteed: return "guaranteed";
    case Sale::kOversold: return "oversold";
    case Sale::kBestEffort: return "best-effort";
  }
  return "unknown";
}
Result<Sale> SaleNamed(std::string_view name) {
  std::string known;
  for (const Sale sale : kSales) {
    if (NameOf(sale) == name) return sale;
    known += (known.empty() ? "" : ", ") + std::string(NameOf(sale));
  }
  return Fail(Errc::kInvalidArgument, "no sale is called '" + std::string(name) + "'; known: " + known);
}

void Regain(std::span<CapHolder> holders, double margin, std::vector<Transfer>& done) {
  Exchange exchange(holders, done);
  const auto idle = [margin](const CapHolder& holder) { return holder.Idle(margin); };
  for (const Sale sale : {Sale::kGuaranteed, Sale::kOversold}) {
    const auto needs = [sale](const CapHolder& holder) { return holder.sale == sale ? Claims(holder) : 0.0; };
    exchange.Hand(needs);
    exchange.Move(idle, needs);
    exchange.Move([&](const CapHolder& holder) { return holder.needy ? 0.0 : holder.Spare(margin); }, needs);
    for (auto less_firm = kSales.rbegin(); *less_firm > sale; ++less_firm)
      exchange.Move([&](const CapHolder& holder) { return holder.sale == *less_firm ? holder.cap : 0.0; }, needs);
  }
  for (const Sale sale : kSales) {
    const auto wants = [sale](const CapHolder& holder) { return holder.sale == sale ? Lacks(holder) : 0.0; };
    exchange.Hand(wants);
    exchange.Move(idle, wants);
  }
}

void MakePlace(std::span<CapHolder> holders, std::size_t newcomer, double margin, std::vector<Transfer>& done) {
  Exchange exchange(holders, done);
  const VgpuId id = holders[newcomer].id;
  const auto wants = [id](const CapHolder& holder) { return holder.id == id ? holder.ceiling - holder.cap : 0.0; };
  exchange.Hand(wants);
  exchange.Move([&](const CapHolder& holder) { return holder.id == id ? 0.0 : holder.Idle(margin); }, wants);
  exchange.Move([&](const CapHolder& holder) { return holder.id == id || holder.needy ? 0.0 : holder.Spare(margin); },
                wants);
  exchange.Move(
      [&](const CapHolder& holder) {
        return holder.id != id && holders[newcomer].sale < Sale::kBestEffort && holder.sale == Sale::kBestEffort
                   ? holder.cap
                   : 0.0;
      },
      wants);
}

double Steal(std::span<CapHolder> holders, std::size_t to, double part, const Weights& weights, Transfer& done) {
  std::size_t lightest = holders.size();
  double least = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < holders.size(); ++i) {
    const CapHolder& holder = holders[i];
    if (i == to || holder.needy || holder.Spare(0) < kLeast) continue;
    const double factor = weights.use * std::min(holder.use / holder.cap, 1.0) + weights.lateness * holder.lateness;
    // Ties go to the lower id, independent of the order of `holders`.
    if (factor > least || (factor == least && holder.id > holders[lightest].id)) continue;
    least = factor;
    lightest = i;
  }
  if (lightest == holders.size()) return 0;
  const double stolen = std::min(part * holders[lightest].Spare(0), holders[to].ceiling - holders[to].cap);
  if (stolen < kLeast) return 0;
  holders[lightest].cap -= stolen;
  holders[to].cap += stolen;
  done = {holders[lightest].id, holders[to].id, stolen};
  return stolen;
}

void Fit(std::span<CapHolder> holders) {
  double sum = 0;
  for (CapHolder& holder : holders) {
    holder.cap = std::min(holder.cap, holder.ceiling);
    sum += holder.cap;
  }
  for (auto sale = kSales.rbegin(); sale != kSales.rend() && sum > 1 + 1e-9; ++sale) {
    double of_these = 0;
    for (const CapHolder& holder : holders) of_these += holder.sale == *sale ? holder.cap : 0;
    if (of_these <= 0) continue;
    const double kept = std::max(of_these - (sum - 1), 0.0) / of_these;
    for (CapHolder& holder : holders)
      if (holder.sale == *sale) holder.cap *= kept;
    sum -= of_these * (1 - kept);
  }
}

}  // namespace weir::core
