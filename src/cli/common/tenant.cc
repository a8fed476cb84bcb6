// SPDX-License-Identifier: Apache-2.0
#include "cli/common/tenant.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/common/places.h"

namespace weir::cli {
namespace {

constexpr std::size_t kNameCharsMax = 40;  // characters of the program's name in a vGPU's name

}  // namespace

std::string EphemeralName(const std::string& program, pid_t owner) {
  std::string name;
  for (const char c : std::filesystem::path(program).filename().string().substr(0, kNameCharsMax)) {
    const bool kept =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    name += kept ? c : '-';
  }
  if (name.empty() || name[0] == '.' || name[0] == '-' || name[0] == '_') name.insert(0, "p");
  return fmt::format("{}-{}", name, owner);
}

Result<VgpuView> MakeEphemeralVgpu(const ControlClient& client, const std::string& name,
                                   const GivenSettings& settings) {
  nlohmann::json body{{"name", name}, {"ephemeral", true}};
  AddSettings(settings, body);
  WEIR_TRY(const nlohmann::json reply, client.Post("/v1/vgpus", body));
  return VgpuFromJson(reply);
}

Result<std::vector<std::pair<std::string, std::string>>> TenantEnvironment(const VgpuView& vgpu,
                                                                           const std::string& library) {
  if (vgpu.attach.empty())
    return Fail(
        Errc::kProtocol,
        fmt::format("the daemon's reply has no attach socket for vGPU '{}'; it may be a newer version than this weir",
                    vgpu.name));
  const char* before = std::getenv("LD_PRELOAD");
  WEIR_TRY(std::string preload, ComposePreload(before == nullptr ? "" : before, library));
  std::vector<std::pair<std::string, std::string>> environment{{"WEIR_ATTACH", vgpu.attach},
                                                               {"LD_PRELOAD", std::move(preload)}};
  // XDG_DATA_DIRS lets Vulkan's loader find the layer in addition to others; WEIR_VULKAN_LAYER enables it.
  if (const std::string layer = FindVulkanLayer(library); !layer.empty()) {
    environment.emplace_back("XDG_DATA_DIRS", ComposeDataDirs(EnvironmentVariable("XDG_DATA_DIRS"), layer));
    environment.emplace_back("WEIR_VULKAN_LAYER", "1");
  }
  // OpenCL's loader finds only Weir's client library. With a vendor's library, a program would bypass the vGPU.
  const std::filesystem::path vendors = std::filesystem::path(library).parent_path() / "icd";
  std::error_code error;
  if (!vgpu.opencl.empty() && std::filesystem::is_directory(vendors, error)) {
    environment.emplace_back("WEIR_OPENCL", vgpu.opencl);
    environment.emplace_back("OCL_ICD_VENDORS", vendors.string());
  }
  // Variables that the device needs. They are added to those of Weir, so they must not include LD_PRELOAD and the like.
  for (const std::string& entry : vgpu.environment) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = entry.substr(0, equals);
    std::string value = entry.substr(equals + 1);
    // A list of folders: the program's own folders follow those of the device.
    if (const std::string own = name == "LD_LIBRARY_PATH" ? EnvironmentVariable(name.c_str()) : ""; !own.empty())
      value += ":" + own;
    environment.emplace_back(name, value);
  }
  return environment;
}

}  // namespace weir::cli
