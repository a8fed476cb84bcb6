// SPDX-License-Identifier: Apache-2.0
#include "cli/common/tenant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/common/places.h"
#include "platform/shared_library.h"

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

namespace {

void AddFolder(std::string& folders, const std::string& more) {
  if (!folders.empty()) folders += ':';
  folders += more;
}

void AddOpenCl(const std::string& socket, const std::filesystem::path& library, Environment& environment,
               std::string& folders) {
  const std::filesystem::path weir = library.parent_path();
  std::error_code error;
  if (!std::filesystem::is_directory(weir / "icd", error)) return;
  environment.emplace_back("WEIR_OPENCL", socket);
  environment.emplace_back("OCL_ICD_VENDORS", weir / "icd");
  environment.emplace_back("OCL_ICD_FILENAMES", "");  // Khronos' loader opens these drivers too
  if (std::filesystem::is_directory(weir / "opencl", error)) AddFolder(folders, weir / "opencl");
}

/// Weir's CUDA library, which passes everything on to the driver. It is added for devices that run CUDA only: a program
/// that uses another device than its vGPU's must not be charged to it. Where there is no driver, programs find none.
void AddCuda(const std::filesystem::path& library, Environment& environment, std::string& folders) {
  constexpr const char* kDriver = "WEIR_CUDA_DRIVER";
  const std::filesystem::path folder = library.parent_path() / "cuda";
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return;
  const auto has = [&](const char* name) {
    return std::ranges::find(environment, name, &Environment::value_type::first) != environment.end();
  };
  if (!has(kDriver)) {  // the device has no driver of its own
    if (!has("CUDA_VISIBLE_DEVICES")) return;
    const std::string driver = platform::FindSharedLibrary(
        "libcuda.so.1", folders + ":" + EnvironmentVariable("LD_LIBRARY_PATH"), folder / "libcuda.so.1");
    if (driver.empty()) return;
    environment.emplace_back(kDriver, driver);
  }
  folders = folders.empty() ? folder.string() : folder.string() + ":" + folders;
}

/// The folders that the loader of libraries searches before those of the program's own LD_LIBRARY_PATH.
void AddLibraryPath(std::string folders, Environment& environment) {
  if (folders.empty()) return;
  if (const std::string own = EnvironmentVariable("LD_LIBRARY_PATH"); !own.empty()) AddFolder(folders, own);
  environment.emplace_back("LD_LIBRARY_PATH", std::move(folders));
}

}  // namespace

Environment OpenClEnvironment(const std::string& socket, const std::string& library) {
  Environment environment;
  std::string folders;
  AddOpenCl(socket, library, environment, folders);
  AddLibraryPath(std::move(folders), environment);
  return environment;
}

Result<Environment> TenantEnvironment(const VgpuView& vgpu, const std::string& library) {
  if (vgpu.attach.empty())
    return Fail(
        Errc::kProtocol,
        fmt::format("the daemon's reply has no attach socket for vGPU '{}'; it may be a newer version than this weir",
                    vgpu.name));
  const char* before = std::getenv("LD_PRELOAD");
  WEIR_TRY(std::string preload, ComposePreload(before == nullptr ? "" : before, library));
  Environment environment{{"WEIR_ATTACH", vgpu.attach}, {"LD_PRELOAD", std::move(preload)}};
  // XDG_DATA_DIRS lets Vulkan's loader find the layer in addition to others; WEIR_VULKAN_LAYER enables it.
  if (const std::string layer = FindVulkanLayer(library); !layer.empty()) {
    environment.emplace_back("XDG_DATA_DIRS", ComposeDataDirs(EnvironmentVariable("XDG_DATA_DIRS"), layer));
    environment.emplace_back("WEIR_VULKAN_LAYER", "1");
  }
  std::string folders;
  if (!vgpu.opencl.empty()) AddOpenCl(vgpu.opencl, library, environment, folders);
  // Variables that the device needs. They are added to those of Weir, so they must not include LD_PRELOAD and the like.
  for (const std::string& entry : vgpu.environment) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = entry.substr(0, equals);
    const std::string value = entry.substr(equals + 1);
    if (name == "LD_LIBRARY_PATH") {
      AddFolder(folders, value);
    } else {
      environment.emplace_back(name, value);
    }
  }
  AddCuda(library, environment, folders);
  AddLibraryPath(std::move(folders), environment);
  return environment;
}

}  // namespace weir::cli
