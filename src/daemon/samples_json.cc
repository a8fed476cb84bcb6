// SPDX-License-Identifier: Apache-2.0
#include "daemon/samples_json.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

namespace weir::daemon {
namespace {

constexpr std::string_view kDeviceFields = R"("gpu_use", "load", "sold", "held_slots", "revenue", "penalty")";
constexpr std::string_view kVgpuFields =
    R"("gpu_use", "cap", "fps", "p50_ms", "p99_ms", "wait_share", "pace_share", "frames", "late", "processes", )"
    R"("held_slots")";

class RowWriter {
 public:
  explicit RowWriter(std::string& text) : text_(text) {}

  void Real(double value) {
    if (std::isfinite(value))
      fmt::format_to(std::back_inserter(text_), ", {:.6g}", value);
    else
      text_ += ", null";  // JSON has no other numbers
  }
  void Whole(std::uint64_t value) { fmt::format_to(std::back_inserter(text_), ", {}", value); }

 private:
  std::string& text_;
};

void AddDevice(std::string& text, const engine::DeviceStatus& device) {
  const nlohmann::json name = device.spec.name;
  text += "[" + name.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  RowWriter row(text);
  row.Real(device.gpu_use);
  row.Real(device.load);
  row.Real(device.sold);
  row.Whole(device.memory.held);
  row.Real(device.account.revenue);
  row.Real(device.account.penalty);
  text += "]";
}

void AddVgpu(std::string& text, const engine::VgpuStatus& vgpu) {
  fmt::format_to(std::back_inserter(text), "[{}", vgpu.id.value);
  RowWriter row(text);
  row.Real(vgpu.gpu_use);
  row.Real(vgpu.cap_now.Fraction());
  row.Real(vgpu.window.fps);
  row.Real(MillisecondsOf(vgpu.window.p50));
  row.Real(MillisecondsOf(vgpu.window.p99));
  row.Real(vgpu.window.wait_share);
  row.Real(vgpu.window.pace_share);
  row.Whole(vgpu.totals.frames);
  row.Whole(vgpu.totals.late_frames);
  row.Whole(vgpu.processes);
  row.Whole(vgpu.memory.elastic ? vgpu.memory.limit : 0);
  text += "]";
}

}  // namespace

std::string SamplesJson(const NodeSamples& samples) {
  constexpr std::size_t kBytesEach = 96;
  std::string text;
  text.reserve(512 + kBytesEach * (samples.devices.size() + samples.vgpus.size()));
  fmt::format_to(std::back_inserter(text), "{{\"layout\": {}, \"device_fields\": [{}], \"devices\": [", samples.layout,
                 kDeviceFields);
  for (std::size_t i = 0; i < samples.devices.size(); ++i) {
    if (i > 0) text += ", ";
    AddDevice(text, samples.devices[i]);
  }
  fmt::format_to(std::back_inserter(text), "], \"vgpu_fields\": [{}], \"vgpus\": [", kVgpuFields);
  for (std::size_t i = 0; i < samples.vgpus.size(); ++i) {
    if (i > 0) text += ", ";
    AddVgpu(text, samples.vgpus[i]);
  }
  text += "]}\n";
  return text;
}

}  // namespace weir::daemon
