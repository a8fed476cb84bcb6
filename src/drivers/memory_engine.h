// SPDX-License-Identifier: Apache-2.0
// An engine in memory: what the interface means, for tests and as the measure of the others.
#pragma once

#include <map>

#include "drivers/engine_driver.h"

namespace weir::drivers {

class MemoryEngine final : public EngineDriver {
 public:
  Status Publish(const std::string& gpu, std::int64_t shares) override;
  Status SetSellable(const std::string& gpu, std::int64_t shares) override;
  Result<Usage> ReadUsage(const std::string& gpu) override;

  /// A customer's side: kResourceExhausted where no more is granted, kAlreadyExists where it has something.
  Status Take(const std::string& gpu, const Grant& grant);
  /// kNotFound where it has nothing.
  Status GiveBack(const std::string& gpu, const std::string& consumer);

 private:
  struct Device {
    std::int64_t shares = 0;
    Usage usage;
  };
  std::map<std::string, Device> devices_;
};

}  // namespace weir::drivers
