// SPDX-License-Identifier: Apache-2.0
// What kernels cost, learned from batches.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "opencl/executor/objects.h"

namespace weir::opencl {

/// GPU time that `items` work-items are foreseen to take; a day at most.
std::int64_t PredictNs(const KernelCost& cost, std::uint64_t items);

/// A batch took `gpu_ns` where `predicted_ns` were foreseen: each kernel in it gets its part of the surprise, half of
/// it at a time, and no more than sixteen times at once.
void LearnCosts(const std::vector<std::pair<std::shared_ptr<KernelCost>, std::int64_t>>& costs,
                std::int64_t predicted_ns, std::int64_t gpu_ns);

}  // namespace weir::opencl
