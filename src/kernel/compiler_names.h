// SPDX-License-Identifier: Apache-2.0
// Decides whether preprocessing a source depends on the compiler that it is written for. All compilers preprocess a
// source alike if it tests none of their own names. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::kernel {

/// The macros that the build options -D and -U name, as "NAME=VALUE" or "NAME".
std::vector<std::string> MacrosOfOptions(std::span<const std::string> options);
/// The name in "NAME=VALUE", "NAME(x)=VALUE" or "NAME".
std::string_view MacroName(std::string_view macro);

/// True if preprocessing only removes comments from this text: its only directives are #pragma, and it uses none of
/// these macros.
bool IsPreprocessed(std::string_view source, std::span<const std::string> options, std::span<const std::string> macros);

/// Returns why preprocessing depends on the compiler, as text; empty if it does not. `options`: from MacrosOfOptions.
/// `macros`: those that the compiler is known to define; if not empty, it lists every extension (cl_...). Conditions in
/// branches that are not taken count as well: a false positive only costs a split.
std::string AsksItsCompiler(std::string_view source, std::span<const std::string> options,
                            std::span<const std::string> macros);

}  // namespace weir::kernel
