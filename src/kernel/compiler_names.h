// SPDX-License-Identifier: Apache-2.0
// Decides whether preprocessing a source depends on the compiler that it is written for. A source that tests none of
// its names is preprocessed alike by all compilers. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::kernel {

/// The macros of -D and -U among build options, as "NAME=VALUE" or "NAME"; includes those of -U.
std::vector<std::string> MacrosOfOptions(std::span<const std::string> options);
/// The name in "NAME=VALUE", "NAME(x)=VALUE" or "NAME".
std::string_view MacroName(std::string_view macro);

/// True if preprocessing only removes comments from this text: its only directives are #pragma, and it uses none of
/// these macros.
bool IsPreprocessed(std::string_view source, std::span<const std::string> options, std::span<const std::string> macros);

/// The reason as text, or empty. `options`: from MacrosOfOptions. `macros`: what the compiler is known to define; if
/// not empty, it has all names of extensions (cl_...). Branches that are not taken count as well: a false positive only
/// costs a split.
std::string AsksItsCompiler(std::string_view source, std::span<const std::string> options,
                            std::span<const std::string> macros);

}  // namespace weir::kernel
