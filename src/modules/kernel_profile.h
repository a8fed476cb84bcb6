// SPDX-License-Identifier: Apache-2.0
// A profile: the times of kernels alone and beside each other on one device, as `weir profile` has measured them. It is
// a JSON file that `weir module run --profile` reads. Format and rules: docs/protocol/kernel-profile.md
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/placement/interference.h"

namespace weir::modules {

/// The kernel and arguments that a measured time applies to.
struct KernelWork {
  std::string module{}, kernel{}, arguments{};
  friend bool operator==(const KernelWork&, const KernelWork&) = default;
};
/// 'MODULE/KERNEL' or 'MODULE/KERNEL ARGUMENTS'. kInvalidArgument.
Result<KernelWork> ParseWork(std::string_view text);
/// The inverse of ParseWork.
std::string TextOf(const KernelWork& work);

/// How the loads were obtained.
enum class LoadsFrom : std::uint8_t {
  kDeclared,  // from the kernel's table (include/weir/module.h); zero where it states none
  kMeasured,  // the host counted its launches (docs/placement.md, "Loads that are measured")
};
std::string_view NameOf(LoadsFrom from);

struct ProfiledKernel {
  KernelWork work{};
  std::string blob{};  // blob of the module; another blob is different work
  core::RunNeed need{};
  double alone_s = 0;  // median
  std::uint32_t runs = 0;
  LoadsFrom loads_from = LoadsFrom::kDeclared;
};

/// Two kernels that ran at the same time. Each was started again whenever it ended. The times are medians.
struct ProfiledPair {
  std::size_t first = 0, second = 0;  // indexes into the kernels
  double first_s = 0, second_s = 0;
  // The fraction of its time that the other kernel ran beside it. Short kernels spend much of the time being started.
  double first_beside = 1, second_beside = 1;
};

struct KernelProfile {
  static constexpr int kVersion = 1;
  static constexpr std::size_t kKernelsMax = 64;
  static constexpr std::size_t kFileBytesMax = 4u << 20;

  std::string device{}, model{};  // of the measured device
  core::DeviceCapacity capacity{};
  std::vector<ProfiledKernel> kernels{};
  std::vector<ProfiledPair> pairs{};
};

nlohmann::ordered_json ToJson(const KernelProfile& profile);
std::string ProfileText(const KernelProfile& profile);
/// kVersionMismatch: another version; kInvalidArgument says what is wrong, for example two entries for the same work.
/// Unknown fields are ignored, because a later version may add fields.
Result<KernelProfile> ProfileFrom(std::string_view text);

/// The entry of exactly this work. kNotFound lists the profile's other entries of that kernel.
Result<ProfiledKernel> EntryFor(const KernelProfile& profile, const KernelWork& work);
/// The needs of a run of this kernel, as a run request states them. They include the time alone, from which placement
/// learns.
nlohmann::ordered_json NeedOf(const ProfiledKernel& kernel);

/// The times of the first and the second kernel in the pair, divided by their times alone.
std::array<double, 2> SlowdownsOf(const KernelProfile& profile, const ProfiledPair& pair);
/// A linear model fitted to the pairs. kInvalidArgument, as core::Fit.
Result<core::InterferenceModel> FitOf(const KernelProfile& profile);

}  // namespace weir::modules
