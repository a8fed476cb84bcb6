// SPDX-License-Identifier: Apache-2.0
#include "daemon/executor_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace weir::daemon {
namespace {

namespace fs = std::filesystem;

// Where distributions put libraries, programs, and settings. /sys describes devices, /proc this process and the
// machine.
constexpr std::array kSystem{
    "/usr", "/bin",  "/sbin",         "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/gnu", "/run/opengl-driver",
    "/sys", "/snap", "/var/lib/snapd"};
// Variables of drivers, ICD loaders and the dynamic linker that hold paths, separated by colons.
constexpr std::array kVariables{"LD_LIBRARY_PATH",   "LD_PRELOAD",         "OCL_ICD_VENDORS",
                                "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH", "CUDA_PATH",
                                "CUDA_HOME",         "ROCM_PATH",          "HIP_PATH"};
constexpr const char* kVendors = "/etc/OpenCL/vendors";

/// The value of a variable in an executor's environment; empty: it has none.
std::string ValueOf(const std::string& name, const std::vector<std::string>& environment) {
  for (const std::string& entry : environment)
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  const char* value = std::getenv(name.c_str());
  return value != nullptr ? value : "";
}

/// Adds the folder of a file that is named by an absolute path.
void AddFolderOf(const std::string& file, std::vector<std::string>& paths) {
  if (file.starts_with('/')) paths.push_back(fs::path(file).parent_path());
}

/// Adds the folders of the libraries that the ICD files of a folder name.
void AddLibrariesOf(const fs::path& vendors, std::vector<std::string>& paths) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(vendors, none)) {
    std::string library;
    std::ifstream file(entry.path());
    if (entry.path().extension() == ".icd" && std::getline(file, library)) AddFolderOf(library, paths);
  }
}

/// Adds the absolute paths of a list that is separated by colons.
void AddPathsIn(const std::string& list, std::vector<std::string>& paths) {
  std::istringstream parts(list);
  for (std::string path; std::getline(parts, path, ':');) {
    if (!path.starts_with('/')) continue;
    paths.push_back(path);
    AddLibrariesOf(path, paths);
  }
}

/// The number of a GPU's device file: 1 for /dev/nvidia1. NVIDIA's driver describes each GPU in a file, which has the
/// line "Device Minor: 1". Empty: the file has no such line.
std::string NvidiaMinor(const fs::path& information) {
  std::ifstream file(information);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Device Minor:")) continue;
    const std::size_t digits = line.find_first_of("0123456789");
    return digits == std::string::npos ? "" : line.substr(digits);
  }
  return {};
}

bool IsNvidiaCard(std::string_view name) {
  return name.starts_with("nvidia") && name.size() > 6 &&
         std::ranges::all_of(name.substr(6), [](unsigned char each) { return std::isdigit(each) != 0; });
}

// Files of /dev that drivers open beside those of a GPU: memory of zeros, random bytes, and what all GPUs of a driver
// share (AMD's kfd, WSL's dxg, memory for buffers). NVIDIA's and the accelerators' names have numbers or endings.
constexpr std::array kSharedDevices{"null", "zero", "full", "random",   "urandom",
                                    "shm",  "kfd",  "dxg",  "dma_heap", "udmabuf"};
constexpr std::array kSharedPrefixes{"nvidia", "nvhost", "nvmap", "mali", "accel", "apex"};

/// Whether a file of /dev belongs to no GPU in particular and is of use to a driver.
bool ServesDrivers(const std::string& name) {
  if (IsNvidiaCard(name)) return false;
  return std::ranges::find(kSharedDevices, name) != kSharedDevices.end() ||
         std::ranges::any_of(kSharedPrefixes, [&](const char* prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::vector<std::string> FilesThatExecutorsRead(const DriverFiles& driver) {
  std::vector<std::string> paths(kSystem.begin(), kSystem.end());
  AddFolderOf(driver.program, paths);
  AddFolderOf(driver.library, paths);
  if (!driver.peer_list.empty()) paths.push_back(driver.peer_list);
  AddLibrariesOf(kVendors, paths);
  for (const char* name : kVariables) AddPathsIn(ValueOf(name, driver.environment), paths);
  // A variable that names all files would undo the rule.
  std::erase(paths, "/");
  paths.insert(paths.end(), driver.more.begin(), driver.more.end());
  return paths;
}

std::vector<std::string> DeviceFilesOf(const GpuName& gpu, const std::string& root) {
  std::vector<std::string> files, cards, own;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root + "/dev", none)) {
    const std::string name = entry.path().filename();
    if (IsNvidiaCard(name))
      cards.push_back(entry.path());
    else if (ServesDrivers(name))
      files.push_back(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(root + "/dev/dri", none))
    if (!entry.is_directory(none)) cards.push_back(entry.path());
  if (!gpu.is_gpu) return files;
  const std::string minor = NvidiaMinor(root + "/proc/driver/nvidia/gpus/" + gpu.pci + "/information");
  const std::string nvidia = "nvidia" + minor;
  for (const std::string& card : cards) {
    const fs::path name = fs::path(card).filename();
    const fs::path device = fs::read_symlink(fs::path(root + "/sys/class/drm") / name / "device", none);
    if (device.filename() == gpu.pci || (!minor.empty() && name == nvidia)) own.push_back(card);
  }
  const std::vector<std::string>& allowed = own.empty() ? cards : own;
  files.insert(files.end(), allowed.begin(), allowed.end());
  return files;
}

}  // namespace weir::daemon
