// SPDX-License-Identifier: Apache-2.0
// Any text gives parts' kernels or reasons, in bounded time and space. The output has matching brackets, and every
// kernel without a reason. The first line names kernels and the kinds of their arguments, "f:bsl".
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "kernel/compiler_names.h"
#include "kernel/part_source.h"
#include "kernel/source_outline.h"

namespace weir::kernel {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

std::vector<KernelAccess> NamedKernels(std::string_view line) {
  std::vector<KernelAccess> kernels;
  while (!line.empty() && kernels.size() < 4) {
    const std::string_view one = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(line.size(), one.size() + 1));
    const std::size_t colon = std::min(one.find(':'), one.size());
    KernelAccess access{.kernel = std::string(one.substr(0, colon)), .verdict = AccessVerdict::kExact};
    if (!IsIdentifier(access.kernel) || access.kernel.size() > kSourceNameMax) continue;
    const auto same = [&](const KernelAccess& other) { return other.kernel == access.kernel; };
    if (std::any_of(kernels.begin(), kernels.end(), same)) continue;
    for (const char kind : one.substr(std::min(colon + 1, one.size())).substr(0, kKernelArgumentsMax))
      access.arguments.push_back({.kind = kind == 'b'   ? ArgumentKind::kBuffer
                                          : kind == 'l' ? ArgumentKind::kLocal
                                                        : ArgumentKind::kScalar});
    kernels.push_back(std::move(access));
  }
  return kernels;
}

/// Renames the part's kernels, since sources must not use their names.
std::string WithoutOurNames(std::string text) {
  for (std::size_t at = text.find("weir_"); at != std::string::npos; at = text.find("weir_", at)) text[at] = 'W';
  return text;
}

}  // namespace
}  // namespace weir::kernel

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::kernel;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view line = input.substr(0, input.find('\n'));
  const std::string_view source = input.substr(std::min(input.size(), line.size() + 1));
  const std::vector<std::string> options{"A=__B", "C"};
  AsksItsCompiler(source, options, {});
  const std::vector<KernelAccess> kernels = NamedKernels(line);
  const PartSource made = MakePartSource(source, kernels, options);
  Require(made.parts.size() == kernels.size());
  Require(made.text.size() <= kPartSourceMax);
  bool any = false;
  for (const PartKernel& part : made.parts) {
    const bool is_there = made.text.find("weir_part_" + part.kernel) != std::string::npos;
    Require(!part.why_not.empty() || is_there);
    any = any || part.why_not.empty();
  }
  Require(any != made.text.empty());
  if (!any) return 0;
  std::string text = WithoutOurNames(made.text);
  while (text.starts_with("#undef")) text.erase(0, text.find('\n') + 1);
  Require(OutlineOf(text).has_value());
  return 0;
}
