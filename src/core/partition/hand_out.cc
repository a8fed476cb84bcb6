// SPDX-License-Identifier: Apache-2.0
#include "core/partition/hand_out.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace weir::core {

HandOut::HandOut(GroupRange all, std::vector<double> rates, HandOutParams params)
    : params_(params), all_(all.count()), left_(all.count()) {
  for (const double rate : rates) workers_.push_back({.rate = std::max(rate, 0.0)});
  if (!all.empty()) ranges_.push_back(all);
}

std::uint64_t HandOut::GroupsOf(const Worker& worker) {
  std::uint64_t groups = 0;
  for (const GroupRange& has : worker.has) groups += has.count();
  return groups;
}

/// Returns 0 if other workers will end all remaining groups before this one would have begun or ended one group.
std::uint64_t HandOut::SizeFor(std::size_t worker) const {
  const double mine = workers_[worker].rate, left = static_cast<double>(left_);
  double others = 0, fastest = 0;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (i == worker || workers_[i].lost) continue;
    others += workers_[i].rate > 0 ? workers_[i].rate : mine;  // an unknown rate is assumed to equal this worker's
    fastest = std::max(fastest, workers_[i].rate);
  }
  const double has = static_cast<double>(GroupsOf(workers_[worker]));
  if (mine <= 0) return has > 0 ? 0 : std::max<std::uint64_t>(all_ / params_.first_of, 1);
  if (fastest > left * mine) return 0;
  // If all workers ended at the same time, this one would run for this long after its present ranges.
  const double more_s = (left + has) / (others + mine) - has / mine;
  if (more_s <= 0) return 0;
  const double takes_s = std::clamp(params_.share * more_s, SecondsOf(params_.shortest), SecondsOf(params_.longest));
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(std::llround(std::min(mine * takes_s, left))), 1);
}

GroupRange HandOut::Take(std::size_t worker, const Fits& fits, Instant now) {
  Worker& taker = workers_[worker];
  if (ranges_.empty() || taker.lost) return {};
  GroupRange& from = ranges_.back();
  GroupRange taken = from;
  taken.end = from.first + std::min(SizeFor(worker), from.count());
  while (!taken.empty() && !fits(taken)) taken.end = taken.first + taken.count() / 2;
  if (taken.empty()) return {};
  from.first = taken.end;
  if (from.empty()) ranges_.pop_back();
  left_ -= taken.count();
  out_ += taken.count();
  if (taker.has.empty()) taker.since = now;
  taker.has.push_back(taken);
  return taken;
}

void HandOut::Ended(std::size_t worker, Instant now) {
  Worker& one = workers_[worker];
  WEIR_CHECK(!one.has.empty());
  const GroupRange had = one.has.front();
  one.has.pop_front();
  out_ -= had.count();
  const double took_s = SecondsOf(now - std::exchange(one.since, now));
  if (took_s <= 0) return;
  const double rate = static_cast<double>(had.count()) / took_s;
  // The time of the first range includes the compilation of the kernel, so the second rate replaces the first one.
  one.rate = ++one.ended <= 2 ? rate : (1 - params_.newest) * one.rate + params_.newest * rate;
}

void HandOut::Lost(std::size_t worker) {
  Worker& one = workers_[worker];
  one.lost = true;
  for (const GroupRange& had : std::exchange(one.has, {})) {
    out_ -= had.count();
    left_ += had.count();
    ranges_.push_back(had);
  }
}

bool HandOut::Alone(std::size_t worker) const {
  for (std::size_t i = 0; i < workers_.size(); ++i)
    if (i != worker && !workers_[i].lost) return false;
  return true;
}

Duration HandOut::Foreseen(std::size_t worker) const {
  const Worker& one = workers_[worker];
  if (one.rate <= 0) return {};
  return FromSeconds(static_cast<double>(GroupsOf(one)) / one.rate);
}

}  // namespace weir::core
