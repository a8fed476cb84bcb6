// SPDX-License-Identifier: Apache-2.0
#include "drivers/shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "drivers/engine_driver.h"

namespace weir::drivers {
namespace {

constexpr std::size_t kVgpuNameBytesMax = 63;  // limit of the control API
constexpr double kWeightPerShare = 100;
constexpr double kWeightMax = kWeightPerShare * kWholeMax;  // limit of the control API
constexpr double kMillion = 1e6;                            // the control API stores shares in millionths
// Rounding may make an offer this much smaller than a whole number of shares.
constexpr double kAlmostShares = 1e-6;

bool IsLetterOrDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

std::int64_t Usage::used() const {
  std::int64_t sum = 0;
  for (const Grant& grant : grants) sum += grant.shares;
  return sum;
}

GrantChanges CompareGrants(const std::vector<Grant>& before, const std::vector<Grant>& after) {
  GrantChanges changes;
  const auto missing = [](const std::vector<Grant>& from, const std::vector<Grant>& in, std::vector<Grant>& out) {
    std::ranges::copy_if(from, std::back_inserter(out),
                         [&](const Grant& grant) { return std::ranges::find(in, grant) == in.end(); });
  };
  missing(after, before, changes.granted);
  missing(before, after, changes.released);
  return changes;
}

double WeightOf(std::int64_t shares) { return std::min(kWeightPerShare * static_cast<double>(shares), kWeightMax); }

double CapOf(std::int64_t shares, std::int64_t whole) {
  const auto parts = static_cast<double>(std::clamp<std::int64_t>(shares, 0, whole));
  return std::floor(kMillion * parts / static_cast<double>(whole)) / kMillion;
}

std::int64_t SharesOf(double cap, std::int64_t whole) { return std::llround(cap * static_cast<double>(whole)); }

std::int64_t SellableOf(const NodeView& node, std::int64_t whole) {
  if (!node.sells) return whole;
  std::int64_t sold = 0;
  for (const ConsumerVgpu& vgpu : node.vgpus) sold += SharesOf(vgpu.cap, whole);
  const double offered = std::clamp(node.offer, 0.0, 1.0) * static_cast<double>(whole);
  return sold + static_cast<std::int64_t>(std::floor(offered + kAlmostShares));
}

double RatioFor(std::int64_t sellable, std::int64_t total) {
  const auto n = static_cast<double>(sellable);
  const auto exact = n / static_cast<double>(total);
  const bool holds = SellableByRatio(exact, total) == sellable &&
                     SellableByRatio(static_cast<double>(static_cast<float>(exact)), total) == sellable;
  // 29/100 × 100 is 28.99…. A hundredth of a share more avoids this, and is too little to be sold.
  return holds ? exact : (n + 0.01) / static_cast<double>(total);
}

std::int64_t SellableByRatio(double ratio, std::int64_t total) {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(total) * ratio));
}

Result<std::string> VgpuNameOf(const std::string& prefix, const std::string& consumer) {
  const bool plain =
      !consumer.empty() && std::ranges::all_of(consumer, [](char c) { return IsLetterOrDigit(c) || c == '-'; });
  std::string name = prefix + "-" + consumer;
  if (!plain || name.size() > kVgpuNameBytesMax)
    return Fail(Errc::kProtocol,
                fmt::format("no vGPU can be named after a consumer whose id has {} characters; it must be of "
                            "letters, digits and '-', with '{}-' at most {}",
                            consumer.size(), prefix, kVgpuNameBytesMax));
  return name;
}

bool IsConsumersVgpu(const std::string& prefix, const std::string& name) {
  return name.size() > prefix.size() + 1 && name.starts_with(prefix) && name[prefix.size()] == '-';
}

}  // namespace weir::drivers
