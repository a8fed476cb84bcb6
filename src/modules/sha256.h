// SPDX-License-Identifier: Apache-2.0
// The hash that names blobs.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::modules {

/// SHA-256 (FIPS 180-4) in 64 hexadecimal digits, lower case.
std::string Sha256Of(std::span<const std::byte> bytes);
inline std::string Sha256Of(std::string_view bytes) { return Sha256Of(std::as_bytes(std::span(bytes))); }

/// Whether the text has the form of a hash: 64 of 0-9 a-f.
bool IsSha256(std::string_view text);

}  // namespace weir::modules
