// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir::cli {

inline constexpr const char* kVersion = WEIR_VERSION;  // project(VERSION) of CMakeLists.txt

}  // namespace weir::cli
