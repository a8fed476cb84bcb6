// SPDX-License-Identifier: Apache-2.0
// An engine in memory: the reference for the interface, used by tests.
#pragma once

#include <map>

#include "drivers/engine_driver.h"

namespace weir::drivers {

class MemoryEngine final : public EngineDriver {
 public:
  Status Publish(const std::string& gpu, std::int64_t shares) override;
  Status SetSellable(const std::string& gpu, std::int64_t shares) override;
  Result<Usage> ReadUsage(const std::string& gpu) override;

  /// For customers. kResourceExhausted: no more can be granted; kAlreadyExists: the consumer has a grant.
  Status Take(const std::string& gpu, const Grant& grant);
  /// kNotFound: the consumer has no grant.
  Status GiveBack(const std::string& gpu, const std::string& consumer);

 private:
  struct Device {
    std::int64_t shares = 0;
    Usage usage;
  };
  std::map<std::string, Device> devices_;
};

}  // namespace weir::drivers
