// SPDX-License-Identifier: Apache-2.0
// The arithmetic of shares: a node's offer, a vGPU's cap, OpenStack's ratio.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::drivers {

/// A consumer's vGPU on the node.
struct ConsumerVgpu {
  std::string name = {};
  double cap = 0;  // ceiling, a fraction of the device
  double weight = 0;
  bool attached = false;  // a program is attached
};

/// The node's view of one device.
struct NodeView {
  bool sells = false;                    // false: overselling is off, and no sale is refused
  double offer = 0;                      // largest ceiling that can be sold now, as a fraction of the device
  std::vector<ConsumerVgpu> vgpus = {};  // of this driver's consumers
};

/// The most shares into which a device is cut. One share is then at least the least cap that a vGPU can have, and the
/// weight of all shares together is at most the largest.
inline constexpr std::int64_t kWholeMax = 100;
/// The weight of a vGPU with `shares`: for each, that of a vGPU with default settings.
double WeightOf(std::int64_t shares);
/// The cap of a vGPU with `shares` of the device's `whole` shares. Rounded down to millionths, so that `whole` vGPUs of
/// one share fit.
double CapOf(std::int64_t shares, std::int64_t whole);
/// The inverse of CapOf, rounded to the nearest share.
std::int64_t SharesOf(double cap, std::int64_t whole);

/// The total that the engine may grant: its consumers' shares on the node plus whole shares of the node's offer. If the
/// node has no offer (overselling is off): one device.
std::int64_t SellableOf(const NodeView& node, std::int64_t whole);

/// OpenStack grants floor(total × ratio). Returns a ratio that gives `sellable`, also when it is stored in single
/// precision.
double RatioFor(std::int64_t sellable, std::int64_t total);
std::int64_t SellableByRatio(double ratio, std::int64_t total);

/// "PREFIX-CONSUMER". kProtocol: the consumer's id can't be part of a vGPU's name.
Result<std::string> VgpuNameOf(const std::string& prefix, const std::string& consumer);
/// Whether a driver with this prefix has made the vGPU.
bool IsConsumersVgpu(const std::string& prefix, const std::string& name);

}  // namespace weir::drivers
