// SPDX-License-Identifier: Apache-2.0
// Who holds how much of a device that is oversold: one dynamic cap for each vGPU, between nothing and its ceiling,
// together never more than the device. Pure; what it decides with is measured in oversell.h. Page:
// docs/oversubscription.md
//
//   ceiling   what was sold: the cap in its settings (gOver, section 3.3: "initial cap")
//   cap       what it may use now                       sum over all ≤ 1
//   use       what it did use
//   need      what keeps its promise: frames beyond the promised rate need nothing, those that are missing do
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace weir::core {

/// How a vGPU was sold. The device can keep all `kGuaranteed` ceilings at once; `kOversold` ones hold because not all
/// want theirs at the same time; `kBestEffort` has what nobody wants, and no promise.
enum class Sale : std::uint8_t { kGuaranteed, kOversold, kBestEffort };
const char* NameOf(Sale sale);
/// kInvalidArgument lists the names.
Result<Sale> SaleNamed(std::string_view name);

/// One vGPU, in fractions of the device.
struct CapHolder {
  VgpuId id;
  Sale sale = Sale::kGuaranteed;
  double ceiling = 1;
  double cap = 1;
  double use = 0;
  double need = 0;
  bool limited = false;  // it would use more if its cap were higher
  bool lends = true;     // it has been limited seldom, or not for a while
  bool needy = false;    // and its promise is not kept as it is
  double claim = 1;      // the cap that would keep it: where a share was promised, the ceiling
  double lateness = 0;   // part of the promised rate that it lacks; negative: it has more

  /// What it leaves alone now, or leaves alone but for what its promise doesn't ask for.
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
  VgpuId from;  // none: what no one held
  VgpuId to;
  double amount = 0;
};

/// Gives those that are limited more. First who is needy, up to its claim, in the order of sale: of what nobody holds,
/// of what others leave idle, of what their promises don't need, and of all that those have who were sold less firmly.
/// Then who merely wants more, up to its ceiling: of what is free or idle. Of one kind all in proportion to what they
/// lack. No cap passes its ceiling, and the sum of all grows by what nobody held.
void Regain(std::span<CapHolder> holders, double margin, std::vector<Transfer>& done);

/// Makes place for one that has just been sold and has nothing yet: of what is free, idle or spare, then of what best
/// effort has.
void MakePlace(std::span<CapHolder> holders, std::size_t newcomer, double margin, std::vector<Transfer>& done);

/// What makes a vGPU a light one: `use` of its own cap, and how late it is (gOver's w_u and w_e; no values are given).
struct Weights {
  double use = 1;
  double lateness = 1;
};

/// gOver, Algorithm 1, lines 9 to 18: `part` of what the lightest one doesn't need goes to `to`, up to its ceiling. As
/// printed `lightest` is never updated; the least is meant. Returns what was stolen, 0 when there is nothing to steal.
double Steal(std::span<CapHolder> holders, std::size_t to, double part, const Weights& weights, Transfer& done);

/// Lowers caps until they fit the device, as when a ceiling was lowered or a vGPU came that was not sold here: best
/// effort first, then what was oversold; of one kind in proportion.
void Fit(std::span<CapHolder> holders);

}  // namespace weir::core
