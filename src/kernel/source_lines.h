// SPDX-License-Identifier: Apache-2.0
// What a compiler does to the lines of an OpenCL C source before it sees tokens. A name may stand on both sides of a
// line's continuation. Pure.
#pragma once

#include <string>
#include <string_view>

namespace weir::kernel {

/// Joins continued lines. Lines end as \n, \r, or both, and spaces may follow the backslash.
std::string Spliced(std::string_view source);

/// Whether the source has trigraphs, which some compilers replace, as by a backslash.
bool HasTrigraphs(std::string_view source);

}  // namespace weir::kernel
