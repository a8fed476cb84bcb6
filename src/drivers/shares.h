// SPDX-License-Identifier: Apache-2.0
// The arithmetic of shares: of a node's offer, of a vGPU's cap, of OpenStack's ratio.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::drivers {

/// A vGPU of a consumer, as the node has it.
struct ConsumerVgpu {
  std::string name = {};
  double cap = 0;         // ceiling, a fraction of the device
  bool attached = false;  // a program is
};

/// What a node says about one device.
struct NodeView {
  bool sells = false;                    // false: overselling is off, and nobody is refused
  double offer = 0;                      // ceiling that can be sold now, a fraction of the device
  std::vector<ConsumerVgpu> vgpus = {};  // of the consumers of this driver
};

/// Cap of a vGPU of `shares` of a device's `whole`: rounded down to millionths, so that `whole` of one share fit.
double CapOf(std::int64_t shares, std::int64_t whole);
/// The other way round, to the nearest.
std::int64_t SharesOf(double cap, std::int64_t whole);

/// What the engine may grant in all: what its consumers have on the node, and whole shares of what the node offers.
/// Where the node doesn't say (overselling is off): the device, once.
std::int64_t SellableOf(const NodeView& node, std::int64_t whole);

/// OpenStack grants floor(total × ratio). The ratio which makes that `sellable`, also where it is kept in single
/// precision.
double RatioFor(std::int64_t sellable, std::int64_t total);
std::int64_t SellableByRatio(double ratio, std::int64_t total);

/// "PREFIX-CONSUMER". kProtocol for a consumer's id that can't be part of a vGPU's name.
Result<std::string> VgpuNameOf(const std::string& prefix, const std::string& consumer);
/// Whether a driver with this prefix has made it.
bool IsConsumersVgpu(const std::string& prefix, const std::string& name);

}  // namespace weir::drivers
