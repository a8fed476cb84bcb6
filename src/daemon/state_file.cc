// SPDX-License-Identifier: Apache-2.0
#include "daemon/state_file.h"

#include <fmt/format.h>

namespace weir::daemon {
namespace {

constexpr std::size_t kStateBytesMax = 64u << 20;

std::string PreviousOf(const std::string& path) { return path + ".previous"; }

}  // namespace

Result<SavedNode> LoadState(platform::FileCalls& calls, const std::string& path) {
  const auto text = platform::ReadFile(calls, path, kStateBytesMax);
  if (!text && text.error().code == Errc::kNotFound) return SavedNode{};
  auto state = text ? FromText(*text) : Result<SavedNode>(text.error());
  if (state) return state;
  const std::string previous = PreviousOf(path);
  const auto before = platform::ReadFile(calls, previous, kStateBytesMax);
  const bool good = before && FromText(*before).has_value();
  return Fail(
      state.error().code,
      fmt::format(
          "the saved state {0} can't be used: {1}; the daemon does not start, so that nothing is lost. {2}To "
          "start with no vGPU: 'mv {0} {0}.damaged'",
          path, state.error().message,
          good ? fmt::format("To go back to the state before the last change: 'cp {} {}'. ", previous, path) : ""));
}

Status WriteState(platform::FileCalls& calls, const std::string& path, const SavedNode& state) {
  return platform::ReplaceDurably(calls, path, ToText(state), PreviousOf(path));
}

}  // namespace weir::daemon
