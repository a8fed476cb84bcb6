// SPDX-License-Identifier: Apache-2.0
// What selling earns. Our own model: gOver counts vGPUs sold and names neither price nor penalty. Amounts are in
// whatever currency the prices are.
#pragma once

#include "base/units.h"

namespace weir::core {

struct Prices {
  double device_hour = 1.0;  // of a ceiling of the whole device; of less, in proportion
  double best_effort = 0.3;  // of that price for best effort, which pays for what it uses
  double penalty = 10.0;     // for each second in which a promise was broken: this many times the price of that second
  double device_cost = 0.4;  // per hour that the device is there
};

struct Account {
  double revenue = 0;
  double penalty = 0;
  double cost = 0;
  double sold_s = 0;    // seconds of vGPUs with programs
  double broken_s = 0;  // of these, with a broken promise
  [[nodiscard]] double Net() const { return revenue - penalty - cost; }
  [[nodiscard]] double BrokenPart() const { return sold_s > 0 ? broken_s / sold_s : 0; }

  /// A vGPU that was sold, for `span`. `paid_for`, of the device: its ceiling; of best effort, what it used. `busy`: of
  /// it with a program, `broken`: of that without what was promised.
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
