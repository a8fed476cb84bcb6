// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/none.h"

#include <algorithm>

namespace weir::core {
namespace {

class None final : public Policy {
 public:
  Instant Decide(const PolicyInput&, std::span<Verdict> verdicts) override {
    std::ranges::fill(verdicts, Verdict{});
    return kNever;
  }
};

}  // namespace

std::unique_ptr<Policy> MakeNone(const NoneParams&) { return std::make_unique<None>(); }

}  // namespace weir::core
