// SPDX-License-Identifier: Apache-2.0
// Does preprocessing a source need what only the compiler that it is written for knows? A source that asks for none of
// its names is preprocessed alike by all. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::core {

/// What -D and -U among build options say, as "NAME=VALUE" or "NAME": of -U, too.
std::vector<std::string> MacrosOfOptions(std::span<const std::string> options);
/// Of "NAME=VALUE", "NAME(x)=VALUE" or "NAME".
std::string_view MacroName(std::string_view macro);

/// Preprocessing leaves this text as it is, but for comments: it has no directives but #pragma, and none of these
/// macros.
bool IsPreprocessed(std::string_view source, std::span<const std::string> options, std::span<const std::string> macros);

/// In words, or empty. `options`: of MacrosOfOptions. `macros`: what the compiler is known to define; where there are
/// any, they are all of those that name extensions (cl_...). Takes what stands in a branch that isn't taken for asked:
/// a yes too many costs a split, and nothing else.
std::string AsksItsCompiler(std::string_view source, std::span<const std::string> options,
                            std::span<const std::string> macros);

}  // namespace weir::core
