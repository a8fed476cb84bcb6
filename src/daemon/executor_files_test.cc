// SPDX-License-Identifier: Apache-2.0
#include "daemon/executor_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "tests/harness/temp_folder.h"

namespace weir::daemon {
namespace {

using weir::testing::TempFolder;

bool Has(const std::vector<std::string>& paths, const std::string& path) { return std::ranges::count(paths, path) > 0; }

TEST(FilesThatExecutorsRead, AreOfTheSystemAndOfTheDriver) {
  const auto paths = FilesThatExecutorsRead({.program = "/srv/weir/lib/weir-executor",
                                             .library = "/home/op/driver/libdriver.so",
                                             .peer_list = "/run/weir/peers",
                                             .environment = {"LD_LIBRARY_PATH=/home/op/lib:relative:/srv/lib"},
                                             .more = {"/data/kernels"}});
  for (const char* path : {"/usr", "/etc", "/lib", "/srv/weir/lib", "/home/op/driver", "/run/weir/peers",
                           "/home/op/lib", "/srv/lib", "/data/kernels"})
    EXPECT_TRUE(Has(paths, path)) << path;
  for (const char* path : {"/", "/home", "/home/op", "/srv", "/tmp", "/dev", "relative", ""})
    EXPECT_FALSE(Has(paths, path)) << path;
}

TEST(FilesThatExecutorsRead, NeverAreAllFiles) {
  EXPECT_FALSE(Has(FilesThatExecutorsRead({.library = "/libdriver.so", .environment = {"CUDA_PATH=/"}}), "/"));
}

TEST(FilesThatExecutorsRead, IncludeTheLibraryThatAnIcdFileNames) {
  const TempFolder vendors;
  std::ofstream(vendors / "mine.icd") << "/home/op/pocl/lib/libpocl.so\n";
  std::ofstream(vendors / "by-name.icd") << "libOther.so\n";
  std::ofstream(vendors / "readme.txt") << "/home/op/other/file\n";
  const auto paths = FilesThatExecutorsRead({.environment = {"OCL_ICD_VENDORS=" + vendors.path()}});
  EXPECT_TRUE(Has(paths, vendors.path()));
  EXPECT_TRUE(Has(paths, "/home/op/pocl/lib"));
  EXPECT_FALSE(Has(paths, "/home/op/other"));
}

/// A machine with two NVIDIA GPUs and two others. Its device files are links to the host's.
class DeviceFiles : public ::testing::Test {
 protected:
  DeviceFiles() {
    namespace fs = std::filesystem;
    fs::create_directories(root_ / "dev/dri");
    fs::create_directories(root_ / "dev/shm");
    fs::create_directories(root_ / "dev/input");
    fs::create_directories(root_ / "dev/nvidia-caps");
    for (const char* name : {"null", "zero", "kfd", "nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "tty1", "kvm",
                             "fuse", "dri/card0", "dri/renderD128", "dri/card1", "dri/renderD129"})
      fs::create_symlink("/dev/null", root_ / "dev" / name);
    for (const auto& [name, pci] : {std::pair{"card0", "0000:03:00.0"},
                                    {"renderD128", "0000:03:00.0"},
                                    {"card1", "0000:04:00.0"},
                                    {"renderD129", "0000:04:00.0"}}) {
      fs::create_directories(root_ / "sys/class/drm" / name);
      fs::create_symlink(std::string("../../../") + pci, root_ / "sys/class/drm" / name / "device");
    }
    for (const auto& [pci, minor] : {std::pair{"0000:65:00.0", "1"}, {"0000:66:00.0", "0"}}) {
      const fs::path folder = root_ / "proc/driver/nvidia/gpus" / pci;
      fs::create_directories(folder);
      std::ofstream(folder / "information") << "Model: \t\t Card\nDevice Minor: \t " << minor << "\n";
    }
  }
  /// The names below /dev, of the GPU with this address.
  [[nodiscard]] std::set<std::string> Of(const GpuName& gpu) const {
    std::set<std::string> names;
    for (const std::string& file : DeviceFilesOf(gpu, folder_.path()))
      names.insert(file.substr((root_ / "dev/").string().size()));
    return names;
  }
  static std::set<std::string> WithShared(std::set<std::string> names) {
    names.merge(std::set<std::string>{"null", "zero", "kfd", "nvidiactl", "nvidia-uvm", "shm", "nvidia-caps"});
    return names;
  }

 private:
  const TempFolder folder_;
  const std::filesystem::path root_ = folder_.path();
};

TEST_F(DeviceFiles, OfAGpuAreItsOwn) {
  EXPECT_EQ(Of({.is_gpu = true, .pci = "0000:04:00.0"}), WithShared({"dri/card1", "dri/renderD129"}));
  EXPECT_EQ(Of({.is_gpu = true, .pci = "0000:65:00.0"}), WithShared({"nvidia1"}));
}

TEST_F(DeviceFiles, OfADeviceThatComputesOnCpusAreOfNoGpu) { EXPECT_EQ(Of({}), WithShared({})); }

TEST_F(DeviceFiles, OfAGpuThatIsNotFoundAreThoseOfAll) {
  EXPECT_EQ(Of({.is_gpu = true, .pci = "0000:99:00.0"}),
            WithShared({"dri/card0", "dri/renderD128", "dri/card1", "dri/renderD129", "nvidia0", "nvidia1"}));
}

}  // namespace
}  // namespace weir::daemon
