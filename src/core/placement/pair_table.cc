// SPDX-License-Identifier: Apache-2.0
#include "core/placement/pair_table.h"

#include <algorithm>
#include <cmath>

namespace weir::core {

void PairTable::Index() {
  buckets_.fill(0);
  for (std::size_t place = 0; place < works_.size(); ++place) {
    std::size_t at = BucketOf(works_[place]);
    while (buckets_[at] != 0) at = (at + 1) % kBuckets;
    buckets_[at] = static_cast<std::uint8_t>(place + 1);
  }
}

std::size_t PairTable::PlaceFor(std::uint64_t work, std::size_t not_this) {
  std::size_t place = PlaceOf(work);
  if (place == kKindsMax) {
    if (works_.size() < kKindsMax) {
      place = works_.size();
      works_.push_back(work);
      learned_.push_back(0);
    } else {
      if (not_this < kKindsMax) learned_[not_this] = clock_;
      place = static_cast<std::size_t>(std::ranges::min_element(learned_) - learned_.begin());
      works_[place] = work;
      for (std::size_t other = 0; other < kKindsMax; ++other)
        seen_[place * kKindsMax + other] = seen_[other * kKindsMax + place] = {};
    }
    Index();
  }
  learned_[place] = clock_;
  return place;
}

void PairTable::Observe(std::uint64_t work, std::uint64_t beside, double added) {
  if (work == 0 || beside == 0 || !std::isfinite(added)) return;
  if (seen_.empty()) seen_.resize(kKindsMax * kKindsMax);
  ++clock_;
  const std::size_t place = PlaceFor(work, PlaceOf(beside));
  Seen& seen = seen_[place * kKindsMax + PlaceFor(beside, place)];
  const double runs = keep_ * static_cast<double>(seen.runs) + 1;
  const double before = seen.runs > 0 ? static_cast<double>(seen.added) : 0;
  seen.added = static_cast<float>(before + (std::max(added, 0.0) - before) / runs);
  seen.runs = static_cast<float>(runs);
}

std::size_t PairTable::pairs() const {
  return static_cast<std::size_t>(std::ranges::count_if(seen_, [](const Seen& seen) { return seen.runs > 0; }));
}

}  // namespace weir::core
