// SPDX-License-Identifier: Apache-2.0
// Untrusted text as JSON. An accepted value nests no deeper than the bound, and can be copied and written again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "http/json_api.h"

namespace {

int DepthOf(const nlohmann::json& value) {
  int deepest = 0;
  if (value.is_structured())
    for (const auto& each : value) deepest = std::max(deepest, 1 + DepthOf(each));
  return value.is_structured() ? std::max(deepest, 1) : 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const nlohmann::json value = weir::http::ParseJson({reinterpret_cast<const char*>(data), size});
  if (value.is_discarded()) return 0;
  if (DepthOf(value) > weir::http::kJsonDepthMax) std::abort();
  const nlohmann::json copy = value;
  const std::string text = copy.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (weir::http::ParseJson(text).is_discarded()) std::abort();
  return 0;
}
