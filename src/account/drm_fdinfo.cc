// SPDX-License-Identifier: Apache-2.0
#include "account/drm_fdinfo.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace weir::account {
namespace {

constexpr std::string_view kEngine = "drm-engine-";
constexpr std::string_view kCapacity = "drm-engine-capacity-";  // number of engines with this name
constexpr std::string_view kCycles = "drm-cycles-";
constexpr std::uint64_t kNsMax = std::numeric_limits<std::int64_t>::max() / kFdinfoEnginesMax;

std::string_view Trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// The whole text, or the part before `unit`, as a number.
std::optional<std::uint64_t> NumberIn(std::string_view text, std::string_view unit = {}) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  if (Trimmed(text.substr(static_cast<std::size_t>(end - text.data()))) != unit) return std::nullopt;
  return number;
}

}  // namespace

Duration DrmClient::Sum() const {
  Duration sum{};
  for (const auto& [name, busy] : engines) sum += busy;
  return sum;
}

std::optional<DrmClient> ParseFdinfo(std::string_view text) {
  if (text.size() > kFdinfoBytesMax) return std::nullopt;
  DrmClient client;
  bool has_driver = false, has_id = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    const std::string_view value = Trimmed(line.substr(colon + 1));
    if (key == "drm-driver") {
      client.driver = value;
      has_driver = !value.empty();
    } else if (key == "drm-pdev") {
      client.pdev = value;
    } else if (key == "drm-client-id") {
      const auto id = NumberIn(value);
      if (!id) return std::nullopt;
      client.id = *id;
      has_id = true;
    } else if (key.starts_with(kCycles)) {
      client.counts_cycles = true;
    } else if (key.starts_with(kEngine) && !key.starts_with(kCapacity)) {
      const auto busy = NumberIn(value, "ns");
      if (!busy || *busy > kNsMax || client.engines.size() == kFdinfoEnginesMax) return std::nullopt;
      client.engines.emplace_back(key.substr(kEngine.size()), Duration{static_cast<std::int64_t>(*busy)});
    }
  }
  if (!has_driver || !has_id) return std::nullopt;
  if (!client.engines.empty()) client.counts_cycles = false;
  return client;
}

std::string FdinfoText(const DrmClient& client) {
  std::string text = fmt::format("drm-driver:\t{}\n", client.driver);
  if (!client.pdev.empty()) text += fmt::format("drm-pdev:\t{}\n", client.pdev);
  text += fmt::format("drm-client-id:\t{}\n", client.id);
  for (const auto& [name, busy] : client.engines) text += fmt::format("drm-engine-{}:\t{} ns\n", name, busy.count());
  return text;
}

}  // namespace weir::account
