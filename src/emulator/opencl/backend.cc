// SPDX-License-Identifier: Apache-2.0
#include "emulator/opencl/backend.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "platform/thread_cpu.h"

namespace weir::emulator::cl {
namespace {

constexpr const char* kVendorFile = "/etc/OpenCL/vendors/pocl.icd";
constexpr const char* kUsualName = "libpocl.so.2";

cl_icd_dispatch original{};

std::string LibraryName() {
  if (const char* chosen = std::getenv("WEIR_EMULATED_OPENCL_BACKEND")) return chosen;
  std::ifstream file(kVendorFile);
  std::string line;
  return std::getline(file, line) && !line.empty() ? line : kUsualName;
}

}  // namespace

const cl_icd_dispatch& Pocl() { return original; }

Result<Backend> LoadBackend(std::size_t devices) {
  std::string kinds;
  for (std::size_t i = 0; i < devices; ++i) kinds += i == 0 ? "pthread" : " pthread";
  ::setenv("POCL_DEVICES", kinds.c_str(), 1);  // PoCL reads it when it is first used
  const std::string name = LibraryName();
  std::vector<pid_t> before = platform::ThreadsOfThisProcess();
  // Never closed, because PoCL's threads continue to run.
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Fail(Errc::kUnavailable, std::string("cannot open PoCL, which computes the results: ") + ::dlerror());
  using Lookup = void* (*)(const char*);
  const auto lookup = reinterpret_cast<Lookup>(::dlsym(library, "clGetExtensionFunctionAddress"));
  const auto platforms =
      lookup == nullptr ? nullptr : reinterpret_cast<clIcdGetPlatformIDsKHR_fn>(lookup("clIcdGetPlatformIDsKHR"));
  Backend backend;
  cl_uint count = 0;
  if (platforms == nullptr || platforms(1, &backend.platform, &count) != CL_SUCCESS || count == 0)
    return Fail(Errc::kUnavailable, name + " has no OpenCL platform");
  backend.table = *reinterpret_cast<cl_icd_dispatch**>(backend.platform);
  original = *backend.table;
  backend.devices.resize(devices);
  if (original.clGetDeviceIDs(backend.platform, CL_DEVICE_TYPE_ALL, static_cast<cl_uint>(devices),
                              backend.devices.data(), &count) != CL_SUCCESS ||
      count < devices)
    return Fail(Errc::kUnavailable,
                name + " has " + std::to_string(count) + " devices; " + std::to_string(devices) + " are needed");
  for (const pid_t tid : platform::ThreadsOfThisProcess())
    if (std::ranges::find(before, tid) == before.end()) backend.workers.push_back(tid);
  return backend;
}

Status Replace(cl_icd_dispatch& table) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(&table) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(&table + 1);
  if (::mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE) != 0)
    return Fail(Errc::kUnavailable, std::string("cannot change PoCL's table of functions: ") + std::strerror(errno));
  for (const auto add : {AddDeviceCalls, AddQueueCalls, AddEventCalls, AddMemoryCalls, AddBufferCommands,
                         AddImageCommands, AddKernelCommands, AddOrderCommands, AddSvmCommands})
    add(table);
  return Ok();
}

}  // namespace weir::emulator::cl
