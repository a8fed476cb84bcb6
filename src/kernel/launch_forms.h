// SPDX-License-Identifier: Apache-2.0
// Evaluates a kernel's expressions for one launch, or for some work-groups of it: scalars and sizes are substituted,
// products become affine, and conditions bound their operands. All results are conservative: they hold for at least the
// work-items that run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/access.h"
#include "kernel/affine.h"
#include "kernel/part_range.h"

namespace weir::kernel {

struct LaunchArgument {
  std::span<const std::byte> value{};  // for a scalar
  std::uint64_t memory = 0;            // for a buffer: its memory object, which several arguments may share
  std::uint64_t offset = 0;            // for a buffer: its start in the memory object, in bytes
  std::uint64_t bytes = 0;             // for a buffer
};

struct KernelLaunch {
  unsigned dimensions = 1;
  std::array<std::uint64_t, 3> offset{}, global{1, 1, 1}, local{1, 1, 1};  // work-items; `local` is fixed before a cut
  std::span<const LaunchArgument> arguments{};

  [[nodiscard]] std::uint64_t Groups(unsigned d) const { return (global[d] + local[d] - 1) / local[d]; }
};

/// Checks that sizes, offsets and arguments match the kernel and are below 2^40; otherwise kInvalidArgument.
Status CheckLaunch(const KernelAccess& access, const KernelLaunch& launch);

/// A symbol, or a whole global id, with its factor in a form.
struct FormUnit {
  std::uint16_t symbol = 0;  // for an id: the symbol of its group
  bool is_id = false;        // the global id minus its offset: group * local size + local
  std::int64_t factor = 0;
  Interval range{};
};

struct FormUnits {
  std::array<FormUnit, Form::kTermsMax> all{};
  std::size_t count = 0;
  [[nodiscard]] std::span<const FormUnit> span() const { return {all.data(), count}; }
};

/// Limit of the steps of one LaunchForms; a step evaluates an expression or relaxes a bound. The access forms come from
/// an untrusted process, and each context may depend on all expressions: without a limit, 128 accesses * 127 conditions
/// * 2048 expressions might be evaluated.
inline constexpr std::uint32_t kLaunchStepsMax = 1U << 17;

class LaunchForms {
 public:
  /// The arguments have been checked and outlive this object.
  LaunchForms(const KernelAccess& access, const KernelLaunch& launch);
  /// Restricts the results after the next Enter to these groups.
  void Restrict(const PartRange& part);

  /// Makes later results refer to accesses in this context. Returns false if no work-item reaches it.
  bool Enter(std::uint16_t context);
  /// After Enter: every condition was understood and bounds a single unit.
  [[nodiscard]] bool exact() const { return exact_; }

  /// The value of an expression. Unknown after kLaunchStepsMax steps, which no ordinary kernel needs.
  [[nodiscard]] Form FormOf(std::uint16_t expr);
  /// Bounds over all work-items of the current context. Not bounded: unknown. After kLaunchStepsMax steps they no
  /// longer use conditions on sums of several units.
  [[nodiscard]] Interval Bounds(const Form& form) const;
  [[nodiscard]] FormUnits UnitsOf(const Form& form) const;
  [[nodiscard]] Interval GroupsOf(unsigned d) const { return ranges_[kGroupSymbol + std::size_t{d}]; }
  /// Whether the units of the form take every combination of the values in their ranges. Meaningful only if exact().
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
  /// Rewrites the comparison as `form >= 0`, or, with `equality`, as `form == 0`. Unknown: it cannot be rewritten so.
  /// `low_too`: the form is that of a signed comparison, which replaces an unsigned one; the unsigned one also implies
  /// a >= 0.
  Form Difference(const Expr& comparison, bool holds, bool& equality, bool& low_too);
  Truth Decide(std::uint16_t condition);
  void Assume(std::uint16_t condition, bool holds);
  void AssumeNot0(const Form& difference);
  void AssumeAtLeast0(const Form& form);
  void Narrow(const FormUnit& unit, Interval to);
  void BoundLoops();
  [[nodiscard]] std::int64_t RoundsOf(const LoopTest& test);
  /// Makes all evaluated forms invalid, since ranges have changed.
  void Forget();

  const KernelAccess& access_;
  const KernelLaunch& launch_;
  std::array<Interval, 3> whole_ids_{}, ids_{};  // of global ids, without their offsets
  std::array<Interval, 3> whole_groups_{};
  std::vector<Interval> ranges_;  // by symbol
  std::vector<Form> forms_;       // by expression; valid if its mark is the current one
  std::vector<std::uint32_t> marks_;
  std::uint32_t mark_ = 1;
  mutable std::uint32_t steps_ = 0;   // evaluation steps taken
  std::vector<std::uint16_t> chain_;  // the current context and its parents, innermost first
  std::vector<Form> constraints_;     // conditions on sums of several units: each of these is >= 0
  std::vector<bool> loop_known_;      // by loop: its number of rounds is known
  /// `feasible_`: some work-item may reach the current context.
  bool feasible_ = true, exact_ = true;
};

}  // namespace weir::kernel
