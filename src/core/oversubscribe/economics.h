// SPDX-License-Identifier: Apache-2.0
// Revenue of overselling. The model is our own: gOver counts sold vGPUs and names neither price nor penalty. Amounts
// are in the currency of the prices.
#pragma once

#include "base/units.h"

namespace weir::core {

struct Prices {
  double device_hour = 1.0;  // for a ceiling of the whole device; smaller ceilings in proportion
  double best_effort = 0.3;  // part of that price for a best-effort vGPU, which pays only for what it uses
  double penalty = 10.0;     // for each second with a broken promise: this many times the price of that second
  double device_cost = 0.4;  // per hour of the device's operation
};

struct Account {
  double revenue = 0;
  double penalty = 0;
  double cost = 0;
  double sold_s = 0;    // seconds in which sold vGPUs had programs, summed over the vGPUs
  double broken_s = 0;  // of these, the seconds with a broken promise
  [[nodiscard]] double Net() const { return revenue - penalty - cost; }
  [[nodiscard]] double BrokenPart() const { return sold_s > 0 ? broken_s / sold_s : 0; }

  /// Adds one sold vGPU for `span`. `paid_for` is a fraction of the device: the ceiling, or for best effort the use.
  /// `busy`: it had a program. `broken`: its promise was not kept.
  void Book(const Prices& prices, double paid_for, bool best_effort, Duration span, bool busy, bool broken) {
    const double price =
        prices.device_hour / 3600 * paid_for * (best_effort ? prices.best_effort : 1) * SecondsOf(span);
    revenue += price;
    if (!busy || best_effort) return;
    sold_s += SecondsOf(span);
    if (!broken) return;
    broken_s += SecondsOf(span);
    penalty += prices.penalty * price;
  }
  void BookDevice(const Prices& prices, Duration span) { cost += prices.device_cost / 3600 * SecondsOf(span); }
};

}  // namespace weir::core
