// SPDX-License-Identifier: Apache-2.0
#include "engine/vgpu_settings.h"

#include <fmt/format.h>

namespace weir::engine {

Status CheckRange(const SettingInfo& info, double value) {
  if (std::isfinite(value) && value >= info.min && value <= info.max) return Ok();
  std::string more = info.zero == nullptr ? "" : fmt::format(" (0: {})", info.zero);
  // 20 is a percentage without its sign; 1.5 is 150 %.
  if (info.percent && value > 1 && value < 2) more = "; 100% is the most";
  if (info.percent && value >= 2 && value <= 100) more = fmt::format("; write {:g} or {:g}%", value / 100, value);
  return Fail(Errc::kInvalidArgument,
              fmt::format("{} = {} is outside {} … {}{}", info.name, value, info.min, info.max, more));
}

Status SetChoice(core::PartitionMode& value, std::string_view name) {
  const auto named = core::PartitionModeNamed(name);
  if (!named) return Fail(Errc::kInvalidArgument, fmt::format("partition = '{}': give auto, never or always", name));
  value = *named;
  return Ok();
}

Status CheckSettings(const VgpuSettings& settings) {
  Status all = Ok();
  VgpuSettings::Fields([&](const SettingInfo& info, auto member) {
    if constexpr (!kIsChoice<std::remove_cvref_t<decltype(settings.*member)>>)
      if (all) all = CheckRange(info, SettingNumber(settings.*member));
  });
  WEIR_TRY_STATUS(all);
  if (settings.fps > 0 && settings.tasks_per_s > 0)
    return Fail(Errc::kInvalidArgument,
                fmt::format("fps = {} and tasks_per_s = {}: a vGPU has one promised rate; set the other to 0",
                            settings.fps, settings.tasks_per_s));
  if (settings.memory_max.count != 0 && settings.memory_min > settings.memory_max)
    return Fail(Errc::kInvalidArgument, fmt::format("memory: the minimum ({} bytes) is over the maximum ({} bytes)",
                                                    settings.memory_min.count, settings.memory_max.count));
  if (settings.partition == core::PartitionMode::kPaper)
    return Fail(Errc::kInvalidArgument, "partition 'paper' is only for simulated nodes: give auto, never or always");
  return Ok();
}

std::string MemoryRoundingText(const VgpuSettings& settings) {
  const auto slots = [](Bytes bytes) { return (bytes.count + kSlotBytes.count - 1) / kSlotBytes.count; };
  const auto size = [](Bytes bytes) {
    return bytes.count < (1 << 20) ? fmt::format("{} bytes", bytes.count)
                                   : fmt::format("{:g} MiB", static_cast<double>(bytes.count) / (1 << 20));
  };
  const std::uint64_t slot_mib = kSlotBytes.count >> 20;
  std::string text;
  for (const auto& [name, bytes] :
       {std::pair("minimum", settings.memory_min), std::pair("maximum", settings.memory_max)})
    if (bytes.count % kSlotBytes.count != 0)
      text += fmt::format("{}a {} of {} counts as {} MiB", text.empty() ? "" : ", ", name, size(bytes),
                          slots(bytes) * slot_mib);
  return text.empty() ? text : fmt::format("memory is given in slots of {} MiB: {}", slot_mib, text);
}

std::string MemoryBeyondText(const VgpuSettings& settings, Bytes device) {
  if (device.count == 0 || settings.memory_max <= device) return {};
  const auto mib = [](Bytes bytes) { return static_cast<double>(bytes.count) / (1 << 20); };
  return fmt::format("the limit of {:g} MiB of memory is above the {:g} MiB of the device", mib(settings.memory_max),
                     mib(device));
}

namespace {

std::string ValueText(auto value) {
  if constexpr (kIsChoice<decltype(value)>)
    return std::string(core::NameOf(value));
  else
    return fmt::format("{:.15g}", SettingNumber(value));
}

}  // namespace

std::string SettingsText(const VgpuSettings& settings) {
  std::string out;
  VgpuSettings::Fields([&](const SettingInfo& info, auto member) {
    const auto value = settings.*member;
    if (value != VgpuSettings{}.*member)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", info.name, ValueText(value));
  });
  return out.empty() ? "defaults" : out;
}

std::string ChangedSettingsText(const VgpuSettings& before, const VgpuSettings& after) {
  std::string out;
  VgpuSettings::Fields([&](const SettingInfo& info, auto member) {
    const auto old = before.*member, value = after.*member;
    if (value != old)
      out += fmt::format("{}{} {} to {}", out.empty() ? "" : ", ", info.name, ValueText(old), ValueText(value));
  });
  return out;
}

}  // namespace weir::engine
