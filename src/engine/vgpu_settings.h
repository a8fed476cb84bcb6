// SPDX-License-Identifier: Apache-2.0
// The settings of a vGPU. Each setting is declared once, in Fields(): its value, its name in the control API and in the
// saved node, its range, and its option on the command line. JSON, options, scenarios and the check of ranges are
// derived from Fields(). The metric of a setting is in daemon/metric_table.cc. Pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/result.h"
#include "base/units.h"
#include "core/partition/plan.h"
#include "core/schedule/policy.h"

namespace weir::engine {

/// A setting as users see it.
struct SettingInfo {
  const char* name;              // in the control API, the saved node and scenarios
  double min = 0, max = 0;       // in the unit of `name`; not for choices
  const char* flag = nullptr;    // on the command line; null: given together with the next setting
  const char* value_name = "N";  // of the flag, in the help
  const char* summary = "";      // of the flag, in the help
  const char* preset = "none";   // value of a new vGPU, in the help
  const char* zero = nullptr;    // what 0 means, in messages
  bool percent = false;          // a fraction that may be written as a percentage on the command line
};

/// Promises and limits of a vGPU.
struct VgpuSettings {
  std::uint32_t weight = 100;
  Share cap = Share::Whole();
  double fps = 0;          // promised frames/s; 0: none
  double tasks_per_s = 0;  // promised tasks/s of a computing program; 0: none. At most one of the two is set
  Duration latency{};      // promised bound of frame latency; 0: none
  Bytes memory_min{};
  Bytes memory_max{};  // 0: no limit
  /// How launches are handled whose memory does not fit; takes effect when the next executor starts. kPaper is only for
  /// the simulator; the engine rejects it.
  core::PartitionMode partition = core::PartitionMode::kAuto;

  /// Frames or tasks per second; 0: no promise.
  [[nodiscard]] double promised_rate() const { return fps > 0 ? fps : tasks_per_s; }
  friend bool operator==(const VgpuSettings&, const VgpuSettings&) = default;

  /// Calls each(info, member pointer) for each setting.
  template <typename Each>
  static constexpr void Fields(Each&& each) {
    using S = VgpuSettings;
    constexpr double kPebibyte = 0x1p50;
    each(SettingInfo{.name = "weight",
                     .min = 1,
                     .max = core::kWeightMax,
                     .flag = "--weight",
                     .summary = "Relative share of the device while it is contended, 1 to 10000",
                     .preset = "100"},
         &S::weight);
    each(SettingInfo{.name = "cap",
                     .min = 0.01,
                     .max = 1,
                     .flag = "--cap",
                     .value_name = "SHARE",
                     .summary = "Upper limit of GPU time, 0.01 to 1, or 40%",
                     .preset = "1",
                     .percent = true},
         &S::cap);
    each(SettingInfo{.name = "fps",
                     .max = 1000,
                     .flag = "--fps",
                     .summary = "Promised frames per second; 0: none",
                     .zero = "no promise"},
         &S::fps);
    each(SettingInfo{.name = "tasks_per_s",
                     .max = 10'000,
                     .flag = "--tasks",
                     .summary = "Promised tasks per second of an OpenCL program: kernel launches, or work that "
                                "ends with its own markers; 0: none. Excludes --fps",
                     .zero = "no promise"},
         &S::tasks_per_s);
    each(SettingInfo{.name = "latency_ms",
                     .max = 10'000,
                     .flag = "--latency-ms",
                     .summary = "Promised upper limit of a frame's latency; 0: none",
                     .zero = "no promise"},
         &S::latency);
    each(SettingInfo{.name = "memory_min_bytes", .max = kPebibyte}, &S::memory_min);
    each(SettingInfo{.name = "memory_max_bytes",
                     .max = kPebibyte,
                     .flag = "--memory",
                     .value_name = "[MIN:]MAX",
                     .summary = "Device memory, as 512M or 512M:1G; a MAX of 0: no limit",
                     .preset = "no limit",
                     .zero = "no limit"},
         &S::memory_max);
    each(SettingInfo{.name = "partition",
                     .flag = "--partition",
                     .value_name = "MODE",
                     .summary = "OpenCL launches that need more than the maximum of elastic memory: run in parts "
                                "(auto), fail (never), or parts for all launches that can be cut (always, for tests)",
                     .preset = "auto"},
         &S::partition);
  }
};

/// A setting that is a word from a list, not a number.
template <typename Value>
inline constexpr bool kIsChoice = std::is_enum_v<Value>;

/// A setting's number in the unit of its name.
inline double SettingNumber(std::uint32_t value) { return value; }
inline double SettingNumber(double value) { return value; }
inline double SettingNumber(Share value) { return value.Fraction(); }
inline double SettingNumber(Duration value) { return MillisecondsOf(value); }
inline double SettingNumber(Bytes value) { return static_cast<double>(value.count); }

/// Sets a setting to a number in the unit of its name. `number` must be at least 0 and at most kSettingNumberMax of the
/// value's type.
inline void SetSettingNumber(std::uint32_t& value, double number) { value = static_cast<std::uint32_t>(number); }
inline void SetSettingNumber(double& value, double number) { value = number; }
inline void SetSettingNumber(Share& value, double number) { value = Share::FromFraction(number); }
/// Rounded, so that a latency is unchanged after it was saved and read again.
inline void SetSettingNumber(Duration& value, double number) { value = Duration{std::llround(number * 1e6)}; }
inline void SetSettingNumber(Bytes& value, double number) { value = Bytes{static_cast<std::uint64_t>(number)}; }

/// Larger numbers overflow the type. Larger numbers of bytes are not exact in JSON.
template <typename Value>
inline constexpr double kSettingNumberMax = std::is_same_v<Value, std::uint32_t> ? 4e9
                                            : std::is_same_v<Value, Share>       ? 4000
                                            : std::is_same_v<Value, Bytes>       ? 0x1p53
                                                                                 : 1e9;

/// Sets a setting to the choice of that name. kInvalidArgument names the choices.
Status SetChoice(core::PartitionMode& value, std::string_view name);

/// Whether `value`, in the unit of the setting's name, is in its range. The message gives the range.
Status CheckRange(const SettingInfo& info, double value);

/// Whether the settings are in their ranges and don't contradict each other.
Status CheckSettings(const VgpuSettings& settings);

/// Text about memory settings that are not whole slots and are rounded up, whether memory is elastic or not. Empty if
/// all are whole slots.
std::string MemoryRoundingText(const VgpuSettings& settings);

/// Text about a limit above the memory of the device, so that it limits nothing. Empty: it is not; or the memory of the
/// device is not known (0).
std::string MemoryBeyondText(const VgpuSettings& settings, Bytes device);

/// The settings that differ from the defaults, as "weight 50, fps 60"; "defaults" if none does.
std::string SettingsText(const VgpuSettings& settings);

/// The settings that differ, as "weight 100 to 50, fps 0 to 60"; empty: none.
std::string ChangedSettingsText(const VgpuSettings& before, const VgpuSettings& after);

}  // namespace weir::engine
