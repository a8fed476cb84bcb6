// SPDX-License-Identifier: Apache-2.0
#include "drivers/memory_engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::drivers {
namespace {

Error NotPublished(const std::string& gpu) {
  return Fail(Errc::kNotFound, fmt::format("the device '{}' is not published", gpu));
}

}  // namespace

Status MemoryEngine::Publish(const std::string& gpu, std::int64_t shares) {
  if (shares < 1 || shares > kSharesMax)
    return Fail(Errc::kInvalidArgument, fmt::format("a device has 1 to {} shares, not {}", kSharesMax, shares));
  devices_[gpu].shares = shares;
  return Ok();
}

Status MemoryEngine::SetSellable(const std::string& gpu, std::int64_t shares) {
  const auto device = devices_.find(gpu);
  if (device == devices_.end()) return NotPublished(gpu);
  if (shares < 0) return Fail(Errc::kInvalidArgument, fmt::format("{} shares can't be sellable", shares));
  device->second.usage.sellable = shares;
  return Ok();
}

Result<Usage> MemoryEngine::ReadUsage(const std::string& gpu) {
  const auto device = devices_.find(gpu);
  if (device == devices_.end()) return NotPublished(gpu);
  return device->second.usage;
}

Status MemoryEngine::Take(const std::string& gpu, const Grant& grant) {
  const auto device = devices_.find(gpu);
  if (device == devices_.end()) return NotPublished(gpu);
  Usage& usage = device->second.usage;
  if (std::ranges::find(usage.grants, grant.consumer, &Grant::consumer) != usage.grants.end())
    return Fail(Errc::kAlreadyExists, fmt::format("'{}' has shares of '{}' already", grant.consumer, gpu));
  if (grant.shares < 1 || grant.shares > device->second.shares || usage.used() + grant.shares > usage.sellable)
    return Fail(Errc::kResourceExhausted, fmt::format("{} shares of '{}' can't be granted: {} of {} are used",
                                                      grant.shares, gpu, usage.used(), usage.sellable));
  usage.grants.insert(std::ranges::lower_bound(usage.grants, grant.consumer, {}, &Grant::consumer), grant);
  return Ok();
}

Status MemoryEngine::GiveBack(const std::string& gpu, const std::string& consumer) {
  const auto device = devices_.find(gpu);
  if (device == devices_.end()) return NotPublished(gpu);
  if (std::erase_if(device->second.usage.grants, [&](const Grant& g) { return g.consumer == consumer; }) == 0)
    return Fail(Errc::kNotFound, fmt::format("'{}' has nothing of '{}'", consumer, gpu));
  return Ok();
}

}  // namespace weir::drivers
