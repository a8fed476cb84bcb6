// SPDX-License-Identifier: Apache-2.0
// How a device is sold, as text.
#pragma once

#include <string>
#include <vector>

#include "cli/common/views.h"

namespace weir::cli {

/// The device, what can be sold of it, what it has earned, and those of `vgpus` that are on it.
std::string OversellText(const DeviceView& device, const std::vector<VgpuView>& vgpus, bool color);

/// What can be sold now and why no more: "30 % (20 % guaranteed): 80 % is sold".
std::string OfferText(const DeviceView& device);

/// The parameters, with the values in force on each device.
std::string OversellParamsText(const std::vector<ParamView>& params, const std::vector<DeviceView>& devices,
                               bool color);

}  // namespace weir::cli
