// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/cluster_engine.h"

namespace weir::engine {
namespace {

bool IsClusterName(const std::string& text) {
  return !text.empty() && text.size() <= kClusterNameBytesMax && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  });
}

double Sane(double value) { return std::isfinite(value) && value >= 0 && value <= kRunSecondsMax ? value : 0; }

}  // namespace

Status CheckClusterName(const char* what, const std::string& text) {
  if (IsClusterName(text)) return Ok();
  return Fail(Errc::kInvalidArgument, fmt::format("{} is of 1 to {} of A-Z a-z 0-9 _ . -", what, kClusterNameBytesMax));
}

bool IsSha256(const std::string& text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Status CheckRequest(const RunRequest& request) {
  WEIR_TRY_STATUS(CheckClusterName("a module's name", request.module));
  if (request.kernel.empty() || request.kernel.size() > kClusterNameBytesMax)
    return Fail(Errc::kInvalidArgument, fmt::format("'kernel' has 1 to {} bytes", kClusterNameBytesMax));
  if (request.arguments.size() > kArgumentBytesMax)
    return Fail(Errc::kInvalidArgument, fmt::format("'arguments' has {} bytes, and at most {} are allowed: put more "
                                                    "into a blob, as 'input'",
                                                    request.arguments.size(), kArgumentBytesMax));
  for (const std::string* blob : {&request.blob, &request.input})
    if (!blob->empty() && !IsSha256(*blob))
      return Fail(Errc::kInvalidArgument, "a blob is named by its SHA-256: 64 of 0-9 a-f");
  if (!(request.seconds_max > 0) || request.seconds_max > kRunSecondsMax)
    return Fail(Errc::kInvalidArgument, fmt::format("'seconds_max' is over 0 and at most {}", kRunSecondsMax));
  return core::CheckNeed(request.need);
}

Status CheckNode(const ClusterNode& node) {
  WEIR_TRY_STATUS(CheckClusterName("a node's name", node.name));
  WEIR_TRY_STATUS(CheckClusterName("a node's identity", node.identity));
  if (node.devices.size() > kNodeDevicesMax)
    return Fail(Errc::kInvalidArgument, fmt::format("node {} has {} devices, and at most {} are taken", node.name,
                                                    node.devices.size(), kNodeDevicesMax));
  std::set<std::string> names;
  for (const NodeDevice& device : node.devices) {
    WEIR_TRY_STATUS(CheckClusterName("a device's name", device.name));
    WEIR_TRY_STATUS(core::CheckDevice(device.capacity));
    if (!names.insert(device.name).second)
      return Fail(Errc::kInvalidArgument, fmt::format("node {} has two devices named {}", node.name, device.name));
  }
  return Ok();
}

Result<ClusterModule> CheckedModule(ClusterModule module) {
  WEIR_TRY_STATUS(CheckClusterName("a module's name", module.name));
  if (!IsSha256(module.blob)) return Fail(Errc::kInvalidArgument, "a blob is named by its SHA-256: 64 of 0-9 a-f");
  if (module.kernels.size() > kModuleKernelsMax)
    return Fail(Errc::kInvalidArgument, fmt::format("module {} has {} kernels, and at most {} are allowed", module.name,
                                                    module.kernels.size(), kModuleKernelsMax));
  for (ModuleKernel& kernel : module.kernels) {
    WEIR_TRY_STATUS(CheckClusterName("a kernel's name", kernel.name));
    WEIR_TRY_STATUS(core::CheckNeed(kernel.need));
    if (kernel.summary.size() > kKernelSummaryBytesMax) kernel.summary.resize(kKernelSummaryBytesMax);
  }
  return module;
}

RunResult Sane(RunResult result) {
  if (std::ranges::find(kErrcTable, result.error_code, &ErrcEntry::name) == kErrcTable.end())
    result.error_code = result.failed ? NameOf(Errc::kInternal) : "";
  result.seconds = Sane(result.seconds);
  result.ran_beside = Sane(result.ran_beside);
  if (result.text.size() > kArgumentBytesMax) result.text.resize(kArgumentBytesMax);
  if (result.error_message.size() > kArgumentBytesMax) result.error_message.resize(kArgumentBytesMax);
  if (!result.output.empty() && !IsSha256(result.output)) result.output.clear();
  return result;
}

core::RunNeed PlacedNeed(const RunRequest& request) {
  core::RunNeed need = request.need;
  if (request.input.empty()) need.work = core::WorkOf(request.blob, request.kernel, request.arguments);
  return need;
}

bool SameRequest(RunRequest again, const RunRequest& first) {
  if (again.blob.empty()) again.blob = first.blob;
  if (again.need == core::RunNeed{}) again.need = first.need;
  return again == first;
}

}  // namespace weir::engine
