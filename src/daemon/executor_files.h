// SPDX-License-Identifier: Apache-2.0
// The files that an executor with a user of its own may use, whatever their owner and mode allow: what its driver is
// made of, and the device files of its own GPU. Files that users leave open to all are not among them.
#pragma once

#include <string>
#include <vector>

namespace weir::daemon {

/// What an executor opens; see ExecutorSetup for the fields.
struct DriverFiles {
  std::string program{}, library{}, peer_list{};
  std::vector<std::string> environment{};  // NAME=VALUE, in addition to this process's environment
  std::vector<std::string> more{};         // folders and files that the operator named
};

/// The folders of the system, and what the driver is found by: the folder of the executor, of the library, of libraries
/// in ICD files, and the paths in variables that drivers and the dynamic linker know.
std::vector<std::string> FilesThatExecutorsRead(const DriverFiles& driver);

/// A GPU as the kernel knows it.
struct GpuName {
  bool is_gpu = false;  // otherwise the device computes on CPUs
  std::string pci{};    // as 0000:01:00.0; empty: unknown
};

/// The files and folders of /dev that an executor on this device may open: those of this GPU, and those that serve
/// drivers in general, such as /dev/null and /dev/kfd. Where it can't be told which files are those of the GPU, the
/// files of all GPUs are among them. `root`: "" except in tests.
std::vector<std::string> DeviceFilesOf(const GpuName& gpu, const std::string& root = "");

}  // namespace weir::daemon
