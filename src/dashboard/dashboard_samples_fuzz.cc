// SPDX-License-Identifier: Apache-2.0
// Answers of the daemon: samples, lists and events. Parsed values are added to the history, whose answers must be JSON
// and whose size is bounded.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "dashboard/history.h"
#include "dashboard/samples.h"
#include "http/json_api.h"

namespace {

using namespace weir;

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const nlohmann::json body = http::ParseJson({reinterpret_cast<const char*>(data), size});
  dashboard::History history;
  constexpr std::int64_t kNow = 1'700'000'000'000;
  const auto samples = dashboard::SamplesFrom(body);
  const auto names = dashboard::VgpuNamesFrom(body);
  auto page = dashboard::EventPageFrom(body);
  for (int i = 0; samples && i < 12; ++i) history.Add(kNow + 1000 * i, *samples);
  if (names) history.SeeNames(*names);
  if (page) history.AddEvents(page->lost, std::move(page->events));
  Require(nlohmann::json::accept(history.OfDevices(kNow + 12'000)));
  if (samples)
    for (const dashboard::DeviceSample& device : samples->devices) {
      const auto text = history.OfDevice(kNow + 12'000, device.name);
      if (text) Require(nlohmann::json::accept(*text));
    }
  if (names)
    for (const dashboard::VgpuName& vgpu : *names) {
      const auto text = history.OfVgpu(kNow + 12'000, vgpu.name);
      if (text) Require(nlohmann::json::accept(*text));
    }
  Require(history.bytes() <= dashboard::kHistoryBytesMax);
  return 0;
}
