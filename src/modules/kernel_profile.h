// SPDX-License-Identifier: Apache-2.0
// A profile: what kernels take alone and beside each other on one device, as `weir profile` has measured it. A file of
// JSON that `weir module run --profile` reads. Format and rules: docs/protocol/kernel-profile.md
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/placement/interference.h"

namespace weir::modules {

/// What is run: its time is that of these arguments and of no others.
struct KernelWork {
  std::string module{}, kernel{}, arguments{};
  friend bool operator==(const KernelWork&, const KernelWork&) = default;
};
/// 'MODULE/KERNEL' or 'MODULE/KERNEL ARGUMENTS'. kInvalidArgument.
Result<KernelWork> ParseWork(std::string_view text);
/// As ParseWork reads it.
std::string TextOf(const KernelWork& work);

/// Where loads come from.
enum class LoadsFrom : std::uint8_t {
  kDeclared,  // the kernel's table (include/weir/module.h); zeros where it says nothing
  kMeasured,  // the host counted its launches (docs/placement.md, "Loads that are measured")
};
std::string_view NameOf(LoadsFrom from);

struct ProfiledKernel {
  KernelWork work{};
  std::string blob{};  // the module's: another one is other work
  core::RunNeed need{};
  double alone_s = 0;  // median
  std::uint32_t runs = 0;
  LoadsFrom loads_from = LoadsFrom::kDeclared;
};

/// Two kernels that ran at the same time, each started again whenever it was done; medians of their times.
struct ProfiledPair {
  std::size_t first = 0, second = 0;  // kernels, by their places
  double first_s = 0, second_s = 0;
  // Of its time, the part that the other one was there: short kernels are being started for much of it.
  double first_beside = 1, second_beside = 1;
};

struct KernelProfile {
  static constexpr int kVersion = 1;
  static constexpr std::size_t kKernelsMax = 64;
  static constexpr std::size_t kFileBytesMax = 4u << 20;

  std::string device{}, model{};  // that it was measured on
  core::DeviceCapacity capacity{};
  std::vector<ProfiledKernel> kernels{};
  std::vector<ProfiledPair> pairs{};
};

nlohmann::ordered_json ToJson(const KernelProfile& profile);
std::string ProfileText(const KernelProfile& profile);
/// kVersionMismatch: of another version; kInvalidArgument says what is wrong, also where one work has two entries.
/// Fields that it does not know are left out: they may be of a later Weir.
Result<KernelProfile> ProfileFrom(std::string_view text);

/// The entry of exactly this work. kNotFound names what the profile has of that kernel.
Result<ProfiledKernel> EntryFor(const KernelProfile& profile, const KernelWork& work);
/// What such a run asks of a device, as a run request says it: with its time alone, so that the placement learns.
nlohmann::ordered_json NeedOf(const ProfiledKernel& kernel);

/// The pair's times over times alone: first, second.
std::array<double, 2> SlowdownsOf(const KernelProfile& profile, const ProfiledPair& pair);
/// The line through its pairs. kInvalidArgument, as core::Fit.
Result<core::InterferenceModel> FitOf(const KernelProfile& profile);

}  // namespace weir::modules
