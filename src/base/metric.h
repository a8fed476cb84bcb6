// SPDX-License-Identifier: Apache-2.0
// A metric of the Prometheus page, as tables of fields declare it.
#pragma once

namespace weir {

struct Metric {
  const char* name = nullptr;  // null: none
  const char* type = nullptr;  // "counter" or "gauge"
  const char* help = nullptr;
};

}  // namespace weir
