// SPDX-License-Identifier: Apache-2.0
// What a part of a compute task needs: memory on the device, inputs sent to it, outputs returned. Kernel analysis
// provides it for real kernels; AffineNeed is a simple version for tests and simulations. Pure. Page: docs/partition.md
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "kernel/part_range.h"

namespace weir::core {

inline constexpr unsigned kDimensionsMax = 3;

struct PartNeed {
  Bytes device;    // on the device while it runs
  Bytes sent;      // inputs
  Bytes alike;     // the part of `sent` that is equal for all parts; a node with several parts gets it once
  Bytes returned;  // outputs
  std::uint64_t stretches = 0;  // number of contiguous stretches in `sent` and `returned`
};

/// Needs of one task. A range that contains another never needs less than it.
class TaskNeed {
 public:
  virtual ~TaskNeed() = default;
  /// Whether parts along this dimension can run separately with the same result.
  [[nodiscard]] virtual bool Cuttable(unsigned dimension) const = 0;
  [[nodiscard]] virtual PartNeed Of(const kernel::PartRange& part) const = 0;
};

/// An argument whose part grows with the groups along one dimension: fixed + groups · per_group.
struct AffineArgument {
  Bytes fixed{}, per_group{};
  bool read = true, written = false;
  std::uint64_t stretches = 1;  // in a part of any size
};

class AffineNeed final : public TaskNeed {
 public:
  void Add(unsigned dimension, const AffineArgument& argument) { of_[dimension].push_back(argument); }

  /// Forbids cuts along this dimension.
  void Keep(unsigned dimension) { kept_[dimension] = true; }

  [[nodiscard]] bool Cuttable(unsigned dimension) const override {
    return !of_[dimension].empty() && !kept_[dimension];
  }
  [[nodiscard]] PartNeed Of(const kernel::PartRange& part) const override {
    PartNeed need;
    for (const AffineArgument& argument : of_[part.dimension]) {
      const std::uint64_t size = argument.fixed.count + argument.per_group.count * part.count();
      need.device.count += size;
      need.sent.count += argument.read ? size : 0;
      need.alike.count += argument.read ? argument.fixed.count : 0;
      need.returned.count += argument.written ? size : 0;
      need.stretches += argument.stretches * ((argument.read ? 1 : 0) + (argument.written ? 1 : 0));
    }
    return need;
  }

 private:
  std::array<std::vector<AffineArgument>, kDimensionsMax> of_;
  std::array<bool, kDimensionsMax> kept_{};
};

/// C = A · B of n · n floats by groups of `side` · `side` items, `side` a divisor of n. A part along rows (dimension 1)
/// needs its rows of A and C, and all of B. A part along columns (dimension 0) needs all of A, and n stretches each of
/// B and C.
inline AffineNeed MatrixProductNeed(std::uint64_t n, std::uint64_t side) {
  constexpr std::uint64_t kFloat = 4;
  const Bytes whole{n * n * kFloat}, slice{n * side * kFloat};
  AffineNeed need;
  need.Add(1, {.per_group = slice});
  need.Add(1, {.fixed = whole});
  need.Add(1, {.per_group = slice, .read = false, .written = true});
  need.Add(0, {.fixed = whole});
  need.Add(0, {.per_group = slice, .stretches = n});
  need.Add(0, {.per_group = slice, .read = false, .written = true, .stretches = n});
  return need;
}

}  // namespace weir::core
