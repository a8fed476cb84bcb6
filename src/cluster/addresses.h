// SPDX-License-Identifier: Apache-2.0
// Addresses of managers: HOST:PORT, and lists of them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "http/address.h"

namespace weir::cluster {

using http::Address;
using http::IsLoopback;
using http::ParseAddress;
using http::SameToken;

/// A list separated by commas, with at least one address.
Result<std::vector<Address>> ParseAddresses(const std::string& text);

}  // namespace weir::cluster
