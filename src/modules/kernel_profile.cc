// SPDX-License-Identifier: Apache-2.0
#include "modules/kernel_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "http/json_api.h"
#include "modules/module_frames.h"
#include "modules/run_json.h"
#include "modules/sha256.h"

namespace weir::modules {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kVersionField = "weir_profile";
constexpr double kProfiledSecondsMax = static_cast<double>(core::kAloneMaxMs) / 1e3;

Error NoProfile(const std::string& why) {
  return Fail(Errc::kInvalidArgument, "this is not a profile: " + why + "; 'weir profile --output FILE' makes one");
}

Result<std::string> ProfileField(const json& object, const char* field, std::size_t max) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string() || found->get_ref<const std::string&>().size() > max)
    return NoProfile(fmt::format("'{}' is not a text of at most {} bytes", field, max));
  return found->get<std::string>();
}

Result<double> ProfileNumber(const json& object, const char* field, double min, double max) {
  const auto found = object.find(field);
  const double value = found != object.end() && found->is_number() ? found->get<double>() : std::nan("");
  if (!(value >= min) || value > max)
    return NoProfile(fmt::format("'{}' is not a number from {:g} to {:g}", field, min, max));
  return value;
}

Result<std::size_t> ProfileWhole(const json& object, const char* field, double min, double max) {
  WEIR_TRY(const double value, ProfileNumber(object, field, min, max));
  if (value != std::floor(value)) return NoProfile(fmt::format("'{}' is not a whole number", field));
  return static_cast<std::size_t>(value);
}

Result<double> ProfileSeconds(const json& object, const char* field) {
  WEIR_TRY(const double value, ProfileNumber(object, field, 0, kProfiledSecondsMax));
  if (value <= 0) return NoProfile(fmt::format("'{}' is not above 0", field));
  return value;
}

Result<const json*> ProfileList(const json& object, const char* field, std::size_t max) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_array() || found->size() > max ||
      !std::ranges::all_of(*found, [](const json& one) { return one.is_object(); }))
    return NoProfile(fmt::format("'{}' is not a list of at most {} objects", field, max));
  return &*found;
}

Result<ProfiledKernel> ProfiledKernelFrom(const json& object) {
  ProfiledKernel kernel;
  WEIR_TRY(kernel.work.module, ProfileField(object, "module", kKernelNameMax));
  WEIR_TRY(kernel.work.kernel, ProfileField(object, "kernel", kKernelNameMax));
  WEIR_TRY(kernel.work.arguments, ProfileField(object, "arguments", kTextBytesMax));
  WEIR_TRY(kernel.blob, ProfileField(object, "blob", 64));
  if (!IsPlainName(kernel.work.module) || !IsPlainName(kernel.work.kernel) || !IsSha256(kernel.blob))
    return NoProfile("'module', 'kernel' and 'blob' are two names and a SHA-256");
  if (!object.contains("need")) return NoProfile("a kernel has no 'need'");
  const auto need = NeedFrom(object["need"]);
  if (!need) return NoProfile(need.error().message);
  kernel.need = *need;
  WEIR_TRY(kernel.alone_s, ProfileSeconds(object["need"], "alone_s"));
  WEIR_TRY(const std::size_t runs, ProfileWhole(object, "runs", 1, 1e9));
  kernel.runs = static_cast<std::uint32_t>(runs);
  WEIR_TRY(const std::string from, ProfileField(object, "loads", 64));
  if (from == NameOf(LoadsFrom::kMeasured))
    kernel.loads_from = LoadsFrom::kMeasured;
  else if (from != NameOf(LoadsFrom::kDeclared))
    return NoProfile("'loads' are declared or measured, not '" + from + "'");
  return kernel;
}

Result<ProfiledPair> ProfiledPairFrom(const json& object, std::size_t kernels) {
  ProfiledPair pair;
  const double last = static_cast<double>(kernels) - 1;
  WEIR_TRY(pair.first, ProfileWhole(object, "first", 0, last));
  WEIR_TRY(pair.second, ProfileWhole(object, "second", 0, last));
  WEIR_TRY(pair.first_s, ProfileSeconds(object, "first_s"));
  WEIR_TRY(pair.second_s, ProfileSeconds(object, "second_s"));
  WEIR_TRY(pair.first_beside, ProfileNumber(object, "first_beside", 0, core::kRunsAtOnceMax));
  WEIR_TRY(pair.second_beside, ProfileNumber(object, "second_beside", 0, core::kRunsAtOnceMax));
  return pair;
}

}  // namespace

Result<KernelWork> ParseWork(std::string_view text) {
  const std::size_t slash = text.find('/'), blank = text.find(' ');
  KernelWork work;
  if (slash != std::string_view::npos && slash < blank) {
    work.module = text.substr(0, slash);
    work.kernel = text.substr(slash + 1, blank == std::string_view::npos ? blank : blank - slash - 1);
    if (blank != std::string_view::npos) work.arguments = text.substr(blank + 1);
  }
  if (!IsPlainName(work.module) || !IsPlainName(work.kernel))
    return Fail(Errc::kInvalidArgument,
                fmt::format("'{}' is not MODULE/KERNEL, or 'MODULE/KERNEL ARGUMENTS' in quotes; 'weir module list' "
                            "shows modules and their kernels",
                            text));
  if (work.arguments.size() > kTextBytesMax)
    return Fail(Errc::kInvalidArgument, fmt::format("arguments are at most {} bytes", kTextBytesMax));
  return work;
}

std::string TextOf(const KernelWork& work) {
  return work.module + "/" + work.kernel + (work.arguments.empty() ? "" : " " + work.arguments);
}

std::string_view NameOf(LoadsFrom from) { return from == LoadsFrom::kMeasured ? "measured" : "declared"; }

ordered_json NeedOf(const ProfiledKernel& kernel) {
  ordered_json need = NeedJson(kernel.need);
  need["alone_s"] = kernel.alone_s;
  return need;
}

ordered_json ToJson(const KernelProfile& profile) {
  ordered_json device{{"name", profile.device}, {"model", profile.model}};
  device.update(CapacityJson(profile.capacity));
  auto kernels = ordered_json::array();
  for (const ProfiledKernel& kernel : profile.kernels)
    kernels.push_back({{"module", kernel.work.module},
                       {"kernel", kernel.work.kernel},
                       {"arguments", kernel.work.arguments},
                       {"blob", kernel.blob},
                       {"need", NeedOf(kernel)},
                       {"loads", NameOf(kernel.loads_from)},
                       {"runs", kernel.runs}});
  auto pairs = ordered_json::array();
  for (const ProfiledPair& pair : profile.pairs)
    pairs.push_back({{"first", pair.first},
                     {"second", pair.second},
                     {"first_s", pair.first_s},
                     {"second_s", pair.second_s},
                     {"first_beside", pair.first_beside},
                     {"second_beside", pair.second_beside}});
  return {{kVersionField, KernelProfile::kVersion},
          {"device", std::move(device)},
          {"kernels", std::move(kernels)},
          {"pairs", std::move(pairs)}};
}

std::string ProfileText(const KernelProfile& profile) {
  return ToJson(profile).dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Result<KernelProfile> ProfileFrom(std::string_view text) {
  const json object = http::ParseJson(text);
  if (object.is_discarded()) return NoProfile("it is not JSON, or is incomplete");
  if (!object.is_object() || !object.contains(kVersionField) || !object[kVersionField].is_number_integer())
    return NoProfile(fmt::format("it has no '{}'", kVersionField));
  if (object[kVersionField] != KernelProfile::kVersion)
    return Fail(Errc::kVersionMismatch,
                fmt::format("this profile is of version {}, and this Weir reads version {}: measure it again",
                            object[kVersionField].dump(), KernelProfile::kVersion));
  KernelProfile profile;
  if (!object.contains("device") || !object["device"].is_object()) return NoProfile("'device' is not an object");
  WEIR_TRY(profile.device, ProfileField(object["device"], "name", kTextBytesMax));
  WEIR_TRY(profile.model, ProfileField(object["device"], "model", kTextBytesMax));
  const auto capacity = CapacityFrom(object["device"]);
  if (!capacity) return NoProfile(capacity.error().message);
  profile.capacity = *capacity;

  WEIR_TRY(const json* kernels, ProfileList(object, "kernels", KernelProfile::kKernelsMax));
  for (const json& one : *kernels) {
    WEIR_TRY(ProfiledKernel kernel, ProfiledKernelFrom(one));
    if (std::ranges::find(profile.kernels, kernel.work, &ProfiledKernel::work) != profile.kernels.end())
      return NoProfile(fmt::format("'{}' has two entries", TextOf(kernel.work)));
    profile.kernels.push_back(std::move(kernel));
  }
  const std::size_t count = profile.kernels.size();
  WEIR_TRY(const json* pairs, ProfileList(object, "pairs", count * (count + 1) / 2));
  std::set<std::pair<std::size_t, std::size_t>> known;
  for (const json& one : *pairs) {
    WEIR_TRY(const ProfiledPair pair, ProfiledPairFrom(one, count));
    if (!known.insert(std::minmax({pair.first, pair.second})).second)
      return NoProfile(fmt::format("kernels {} and {} have two pairs", pair.first, pair.second));
    profile.pairs.push_back(pair);
  }
  return profile;
}

Result<ProfiledKernel> EntryFor(const KernelProfile& profile, const KernelWork& work) {
  std::string others;
  for (const ProfiledKernel& kernel : profile.kernels) {
    if (kernel.work == work) return kernel;
    if (kernel.work.module == work.module && kernel.work.kernel == work.kernel)
      others += fmt::format("{}'{}'", others.empty() ? "" : ", ", kernel.work.arguments);
  }
  const std::string has =
      others.empty() ? "it has nothing of that kernel" : "of that kernel it has arguments " + others;
  return Fail(Errc::kNotFound,
              fmt::format("the profile has no '{}': {}. A run's duration depends on its arguments: profile these, too, "
                          "or omit the profile",
                          TextOf(work), has));
}

std::array<double, 2> SlowdownsOf(const KernelProfile& profile, const ProfiledPair& pair) {
  return {pair.first_s / profile.kernels[pair.first].alone_s, pair.second_s / profile.kernels[pair.second].alone_s};
}

Result<core::InterferenceModel> FitOf(const KernelProfile& profile) {
  std::vector<core::SoloRun> solos;
  std::vector<core::PairRun> pairs;
  for (const ProfiledKernel& kernel : profile.kernels)
    solos.push_back({.kernel = TextOf(kernel.work), .need = kernel.need, .seconds = kernel.alone_s});
  for (const ProfiledPair& pair : profile.pairs)
    pairs.push_back({.first = solos[pair.first].kernel,
                     .second = solos[pair.second].kernel,
                     .first_s = pair.first_s,
                     .second_s = pair.second_s});
  return core::Fit(solos, pairs, profile.capacity);
}

}  // namespace weir::modules
