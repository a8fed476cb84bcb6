// SPDX-License-Identifier: Apache-2.0
// A kernel's expressions for one launch, or for some work-groups of it: scalars and sizes are put in, products become
// affine, conditions bound what they are about. Everything here holds for more work-items than there are, never for
// fewer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/partition/access.h"
#include "core/partition/affine.h"
#include "core/partition/part_range.h"

namespace weir::core {

struct LaunchArgument {
  std::span<const std::byte> value{};  // of a scalar
  std::uint64_t memory = 0;            // of a buffer: which; two arguments may lie in one
  std::uint64_t offset = 0;            // of a buffer: where in that memory it begins, bytes
  std::uint64_t bytes = 0;             // of a buffer
};

struct KernelLaunch {
  unsigned dimensions = 1;
  std::array<std::uint64_t, 3> offset{}, global{1, 1, 1}, local{1, 1, 1};  // work-items; `local` is fixed before a cut
  std::span<const LaunchArgument> arguments{};

  [[nodiscard]] std::uint64_t Groups(unsigned d) const { return (global[d] + local[d] - 1) / local[d]; }
};

/// Sizes, offsets and the arguments are as the kernel wants them and below 2^40. kInvalidArgument else.
Status CheckLaunch(const KernelAccess& access, const KernelLaunch& launch);

/// A symbol, or a whole global id, with its factor in a form.
struct FormUnit {
  std::uint16_t symbol = 0;  // of an id: its group's
  bool is_id = false;        // the global id less its offset: group * local size + local
  std::int64_t factor = 0;
  Interval range{};
};

struct FormUnits {
  std::array<FormUnit, Form::kTermsMax> all{};
  std::size_t count = 0;
  [[nodiscard]] std::span<const FormUnit> span() const { return {all.data(), count}; }
};

/// Expressions evaluated and bounds relaxed for one question about a launch. The form comes from a process that is not
/// trusted, and each of its contexts may hang on all of its expressions: 128 * 127 * 2048 of them.
inline constexpr std::uint32_t kLaunchStepsMax = 1U << 17;

class LaunchForms {
 public:
  /// Checked ones, which outlive this.
  LaunchForms(const KernelAccess& access, const KernelLaunch& launch);
  /// Of these groups only, from now on.
  void Restrict(const PartRange& part);

  /// What follows is about what is reached in this context. False: nothing reaches it.
  bool Enter(std::uint16_t context);
  /// Of the last Enter: every condition was understood, and bounds a single unit.
  [[nodiscard]] bool exact() const { return exact_; }

  /// Unknown, like a bound that takes more than a sum, after so many steps that only a hostile kernel has them.
  [[nodiscard]] Form FormOf(std::uint16_t expr);
  /// Of all work-items that are here. Not bounded: unknown.
  [[nodiscard]] Interval Bounds(const Form& form) const;
  [[nodiscard]] FormUnits UnitsOf(const Form& form) const;
  [[nodiscard]] Interval GroupsOf(unsigned d) const { return ranges_[kGroupSymbol + std::size_t{d}]; }
  /// Where exact(): each unit of it takes all the values of its range, whatever the others are.
  [[nodiscard]] bool Fills(const Form& form) const;

 private:
  enum class Truth : std::uint8_t { kFalse, kTrue, kEither };

  [[nodiscard]] Interval BoxBounds(const Form& form) const;
  Form Evaluate(const Expr& expr);
  Form Auxiliary(Interval range);
  Form Quotient(const Form& a, std::int64_t divisor, bool remainder);
  Form Divide(const Expr& expr);
  Form Least(const Expr& expr);
  Form Masked(const Expr& expr);
  Form Widened(const Expr& expr);
  Form Either(const Form& a, const Form& b);
  [[nodiscard]] Form Signed(const Form& form, unsigned bits) const;
  [[nodiscard]] Form Unsigned(const Form& form, unsigned bits) const;
  /// difference, such that the comparison says `difference >= 0`, or, of an equality, `== 0`. Unknown: not to be had.
  Form Difference(const Expr& comparison, bool holds, bool& equality, bool& low_too);
  Truth Decide(std::uint16_t condition);
  void Assume(std::uint16_t condition, bool holds);
  void AssumeNot0(const Form& difference);
  void AssumeAtLeast0(const Form& form);
  void Narrow(const FormUnit& unit, Interval to);
  void BoundLoops();
  [[nodiscard]] std::int64_t RoundsOf(const LoopTest& test);
  void Forget();

  const KernelAccess& access_;
  const KernelLaunch& launch_;
  std::array<Interval, 3> whole_ids_{}, ids_{};  // of global ids, less their offsets
  std::array<Interval, 3> whole_groups_{};
  std::vector<Interval> ranges_;  // by symbol
  std::vector<Form> forms_;       // by expression, where its mark is the current one
  std::vector<std::uint32_t> marks_;
  std::uint32_t mark_ = 1;
  mutable std::uint32_t steps_ = 0;  // of evaluation, that were taken
  std::vector<std::uint16_t> chain_;
  std::vector<Form> constraints_;  // >= 0, of several units
  std::vector<bool> loop_known_;   // by loop: how often it goes round is a number
  bool feasible_ = true, exact_ = true;
};

}  // namespace weir::core
