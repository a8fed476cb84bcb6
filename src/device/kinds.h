// SPDX-License-Identifier: Apache-2.0
// The kinds of devices. A new kind is a function here, and an entry in the table of find.cc.
#pragma once

#include <string>

#include "device/find.h"

namespace weir::device {

// `what` is the text after the kind's prefix.
Status AddEmbedded(const std::string& what, const Sources& sources, Devices& devices);
Status AddNvidia(const std::string& what, const Sources& sources, Devices& devices);
Status AddDrm(const std::string& what, const Sources& sources, Devices& devices);
Status AddEmulated(const std::string& what, const Sources& sources, Devices& devices);

// Helpers of these functions.

/// "gpu0", "gpu1", ...
std::string NextGpuName(const Devices& devices);
/// kInvalidArgument if a GPU with this UUID or PCI address is among the devices. `wanted` is for the message.
Status RefuseTwice(const std::string& wanted, const std::string& uuid, const std::string& pci, const Devices& devices);
Status AddAccount(std::vector<std::string> source, const std::string& device, const Sources& sources, Devices& devices);

}  // namespace weir::device
