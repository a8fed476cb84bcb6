// SPDX-License-Identifier: Apache-2.0
#include "emulator/welcome.h"

#include <nlohmann/json.hpp>

namespace weir::emulator {
namespace {
namespace wire = proto::emulator;
}  // namespace

Result<WelcomeContents> ReadWelcome(const wire::Message& answer) {
  if (const auto* refusal = std::get_if<wire::Refusal>(&answer))
    return Fail(Errc::kUnavailable, "the emulator refuses: " + refusal->text);
  const auto* welcome = std::get_if<wire::Welcome>(&answer);
  if (welcome == nullptr) return Fail(Errc::kProtocol, "the emulator sent no Welcome");
  WelcomeContents contents;
  const nlohmann::json text = nlohmann::json::parse(welcome->text, nullptr, /*allow_exceptions=*/false);
  try {
    for (const auto& device : text.at("devices"))
      contents.devices.push_back({.name = device.at("name"),
                                  .uuid = device.at("uuid"),
                                  .pci = device.at("pci"),
                                  .memory = Bytes{device.at("memory_bytes").get<std::uint64_t>()},
                                  .units = device.at("units").get<std::uint32_t>(),
                                  .queue_depth = device.at("queue_depth").get<std::uint32_t>(),
                                  .lost = device.at("lost")});
    const auto& frame = text.at("frame");
    contents.frame = {.fixed = {}, .factor = frame.at("factor"), .drawn = frame.at("drawn")};
    if (frame.contains("fixed_ns")) contents.frame.fixed = Duration{frame.at("fixed_ns").get<std::int64_t>()};
    const auto& kernels = text.at("kernels");
    contents.kernel_factor = kernels.at("factor");
    for (const auto& kernel : kernels.at("costs")) {
      contents.kernels.push_back({.name = kernel.at("name"),
                                  .fixed = {},
                                  .per_item_ns = 0,
                                  .units = kernel.at("units").get<std::uint32_t>(),
                                  .computed = kernel.at("computed")});
      if (!kernel.contains("fixed_ns")) continue;
      contents.kernels.back().fixed = Duration{kernel.at("fixed_ns").get<std::int64_t>()};
      contents.kernels.back().per_item_ns = kernel.at("per_item_ns");
    }
  } catch (const nlohmann::json::exception& error) {
    return Fail(Errc::kProtocol, std::string("the emulator's Welcome: ") + error.what());
  }
  return contents;
}

}  // namespace weir::emulator
