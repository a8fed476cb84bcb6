// SPDX-License-Identifier: Apache-2.0
// The name, type and help of a metric on the Prometheus page. Tables of fields hold one for each field.
#pragma once

namespace weir {

struct Metric {
  const char* name = nullptr;  // null: none
  const char* type = nullptr;  // "counter" or "gauge"
  const char* help = nullptr;
};

}  // namespace weir
