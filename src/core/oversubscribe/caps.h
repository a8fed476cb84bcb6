// SPDX-License-Identifier: Apache-2.0
// Divides an oversold device: each vGPU has a dynamic cap between zero and its ceiling, and the caps never add up to
// more than the device. Pure; oversell.h measures the inputs. Page: docs/oversubscription.md
//
//   ceiling   what was sold: the cap in its settings (gOver, section 3.3: "initial cap")
//   cap       what it may use now                       sum over all ≤ 1
//   use       what it used
//   need      what its promise requires: frames beyond the promised rate need nothing, missing frames do
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace weir::core {

/// How a vGPU was sold. The device can keep all `kGuaranteed` ceilings at once. `kOversold` ceilings are kept because
/// not all vGPUs want theirs at the same time. `kBestEffort` gets GPU time that no other vGPU wants, and has no
/// promise.
enum class Sale : std::uint8_t { kGuaranteed, kOversold, kBestEffort };
const char* NameOf(Sale sale);
/// kInvalidArgument lists the names.
Result<Sale> SaleNamed(std::string_view name);

/// One vGPU among those that hold caps. Amounts are fractions of the device.
struct CapHolder {
  VgpuId id;
  Sale sale = Sale::kGuaranteed;
  double ceiling = 1;
  double cap = 1;
  double use = 0;
  double need = 0;
  bool limited = false;  // it would use more if its cap were higher
  bool lends = true;     // its idle cap may be lent: its cap has limited it seldom, or not for a while
  bool needy = false;    // it is limited, and its promise is not kept at its present cap
  double claim = 1;      // the cap that would keep its promise: for a promised share, the ceiling
  double lateness = 0;   // the missing part of the promised rate; negative: its rate is higher

  /// Idle: the part of its cap that it does not use now. Spare: the part that its promise does not need.
  [[nodiscard]] double Idle(double margin) const {
    return lends && !limited ? Above(use > need ? use : need, margin) : 0;
  }
  [[nodiscard]] double Spare(double margin) const { return Above(need, margin); }

 private:
  [[nodiscard]] double Above(double kept, double margin) const {
    kept *= 1 + margin;
    return cap > kept ? cap - kept : 0;
  }
};

struct Transfer {
  VgpuId from;  // unset: cap that no vGPU held
  VgpuId to;
  double amount = 0;
};

/// Raises the caps of limited vGPUs. First the needy ones, up to their claims, in the order of sale: from unassigned
/// cap, from idle cap, from cap that promises do not need, and from all cap of vGPUs that were sold less firmly. Then
/// the other limited ones, up to their ceilings: from unassigned and idle cap. Within a kind of sale, cap is divided in
/// proportion to what each vGPU lacks. No cap exceeds its ceiling, and the sum of all caps grows only by unassigned
/// cap.
void Regain(std::span<CapHolder> holders, double margin, std::vector<Transfer>& done);

/// Finds cap for a vGPU that has just been sold and has none yet: unassigned, idle or spare cap, then the cap of
/// best-effort vGPUs.
void MakePlace(std::span<CapHolder> holders, std::size_t newcomer, double margin, std::vector<Transfer>& done);

/// Weights in gOver's measure of how light a vGPU is: `use` of its own cap (w_u), and lateness (w_e). The paper gives
/// no values.
struct Weights {
  double use = 1;
  double lateness = 1;
};

/// gOver, Algorithm 1, lines 9 to 18: moves `part` of the lightest vGPU's unneeded cap to the vGPU with the index `to`,
/// up to its ceiling.
/// The paper's pseudocode never updates `lightest`; the minimum is meant. Returns the amount moved, 0 if there is none.
double Steal(std::span<CapHolder> holders, std::size_t to, double part, const Weights& weights, Transfer& done);

/// Lowers caps until their sum fits the device, for example after a ceiling was lowered or a vGPU was added without a
/// sale: first best effort, then oversold; within one kind in proportion.
void Fit(std::span<CapHolder> holders);

}  // namespace weir::core
