// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "platform/thread_cpu.h"

namespace weir::opencl {
namespace {

/// Handles have no meaning in another process, and the client counts references itself.
constexpr std::array kNotFacts{CL_DEVICE_PLATFORM, CL_DEVICE_PARENT_DEVICE, CL_DEVICE_REFERENCE_COUNT};

/// Platform info: 0x0900 and the extension pages after it. Device info: 0x1000, and vendors' additions.
struct NameRange {
  std::uint32_t first, last;
};
constexpr std::array kPlatformNames{NameRange{0x0900, 0x0925}};
constexpr std::array kDeviceNames{NameRange{0x1000, 0x1072}, NameRange{0x4000, 0x4055}};

template <typename Get>
void Collect(std::span<const NameRange> ranges, std::vector<proto::cl::Fact>& facts, Get get) {
  for (const auto& [first, last] : ranges)
    for (std::uint32_t name = first; name <= last; ++name) {
      if (std::ranges::find(kNotFacts, static_cast<int>(name)) != kNotFacts.end()) continue;
      std::size_t bytes = 0;
      if (get(name, 0, nullptr, &bytes) != CL_SUCCESS) continue;
      std::string value(bytes, '\0');
      if (bytes > 0 && get(name, bytes, value.data(), nullptr) != CL_SUCCESS) continue;
      facts.push_back({name, std::move(value)});
    }
}

// Extensions that Debian's headers may not define.
constexpr cl_device_info kDeviceUuid = 0x106A;           // cl_khr_device_uuid: 16 bytes
constexpr cl_device_info kDevicePciBusInfo = 0x410F;     // cl_khr_pci_bus_info: domain, bus, device, function
constexpr cl_device_info kDevicePciBusIdNv = 0x4008;     // cl_nv_device_attribute_query
constexpr cl_device_info kDevicePciSlotIdNv = 0x4009;    // the same: device × 8 + function
constexpr cl_device_info kDevicePciDomainIdNv = 0x400A;  // the same; newer drivers only

std::string UuidOf(const cl_icd_dispatch& cl, cl_device_id device) {
  std::array<unsigned char, 16> bytes{};
  std::size_t size = 0;
  if (cl.clGetDeviceInfo(device, kDeviceUuid, bytes.size(), bytes.data(), &size) != CL_SUCCESS || size != bytes.size())
    return {};
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits;
  }
  return text;
}

std::string PciAddressOf(const cl_icd_dispatch& cl, cl_device_id device) {
  std::array<cl_uint, 4> at{};
  std::size_t size = 0;
  if (cl.clGetDeviceInfo(device, kDevicePciBusInfo, sizeof at, at.data(), &size) != CL_SUCCESS || size != sizeof at) {
    cl_uint slot = 0;
    if (cl.clGetDeviceInfo(device, kDevicePciBusIdNv, sizeof at[1], &at[1], nullptr) != CL_SUCCESS ||
        cl.clGetDeviceInfo(device, kDevicePciSlotIdNv, sizeof slot, &slot, nullptr) != CL_SUCCESS)
      return {};
    if (cl.clGetDeviceInfo(device, kDevicePciDomainIdNv, sizeof at[0], &at[0], nullptr) != CL_SUCCESS) at[0] = 0;
    at[2] = slot / 8;
    at[3] = slot % 8;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", at[0], at[1], at[2], at[3]);
  return text;
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

}  // namespace

Result<std::size_t> ChooseDevice(std::span<const NativeDevice> devices, std::string_view wanted) {
  if (wanted.empty()) wanted = "0";
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  if (error == std::errc() && end == wanted.data() + wanted.size()) {
    if (number < devices.size()) return number;
    return Fail(Errc::kNotFound,
                "it has " + std::to_string(devices.size()) + " devices, no number " + std::string(wanted));
  }
  std::string id = LowerCase(wanted);
  if (id.starts_with("gpu-")) id.erase(0, 4);
  // NVML writes a PCI domain with eight digits, OpenCL drivers with four.
  if (id.size() == 16 && id[8] == ':' && id.starts_with("0000")) id.erase(0, 4);
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (id == devices[i].uuid || id == devices[i].pci) return i;
  std::string known;
  for (const NativeDevice& device : devices)
    known += (known.empty() ? "" : ", ") + (device.pci.empty() ? device.name : device.pci);
  return Fail(Errc::kNotFound, "no device has the UUID or PCI address '" + std::string(wanted) + "'; it has: " + known);
}

std::vector<std::string> VendorLibraries(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".icd") files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<std::string> libraries;
  for (const auto& path : files) {
    std::ifstream file(path);
    std::string line;
    if (std::getline(file, line) && !line.empty() && line.find("weir-opencl") == std::string::npos)
      libraries.push_back(line);
  }
  return libraries;
}

std::uint64_t DeviceNumber(const cl_icd_dispatch& cl, cl_device_id device, cl_device_info name) {
  std::uint64_t value = 0;  // numbers have 4 or 8 bytes, little-endian
  if (cl.clGetDeviceInfo(device, name, sizeof value, &value, nullptr) != CL_SUCCESS) return 0;
  return value;
}

std::string DeviceText(const cl_icd_dispatch& cl, cl_device_id device, cl_device_info name) {
  std::size_t bytes = 0;
  if (cl.clGetDeviceInfo(device, name, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (cl.clGetDeviceInfo(device, name, bytes, text.data(), nullptr) != CL_SUCCESS) return {};
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

Result<std::vector<NativeDevice>> OpenLibrary(const std::string& library) {
  std::vector<pid_t> before = platform::ThreadsOfThisProcess();
  // Never closed, because drivers leave threads behind.
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Fail(Errc::kUnavailable, std::string("cannot open an OpenCL driver: ") + ::dlerror());
  using Lookup = void* (*)(const char*);
  const auto lookup = reinterpret_cast<Lookup>(::dlsym(handle, "clGetExtensionFunctionAddress"));
  if (lookup == nullptr) return Fail(Errc::kUnavailable, library + " is not an OpenCL driver");
  const auto platforms_of = reinterpret_cast<clIcdGetPlatformIDsKHR_fn>(lookup("clIcdGetPlatformIDsKHR"));
  std::array<cl_platform_id, 16> platforms{};
  cl_uint count = 0;
  if (platforms_of == nullptr || platforms_of(platforms.size(), platforms.data(), &count) != CL_SUCCESS) count = 0;

  std::vector<NativeDevice> found;
  for (cl_uint p = 0; p < std::min<cl_uint>(count, platforms.size()); ++p) {
    // The first member of every object points to the vendor's table.
    const auto* cl = *reinterpret_cast<const cl_icd_dispatch* const*>(platforms[p]);
    std::array<cl_device_id, 64> devices{};
    cl_uint here = 0;
    if (cl->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, devices.size(), devices.data(), &here) != CL_SUCCESS)
      continue;
    for (cl_uint d = 0; d < std::min<cl_uint>(here, devices.size()); ++d) {
      NativeDevice device{.cl = cl,
                          .platform = platforms[p],
                          .device = devices[d],
                          .library = library,
                          .name = DeviceText(*cl, devices[d], CL_DEVICE_NAME),
                          .workers = {}};
      const bool cpu = (DeviceNumber(*cl, devices[d], CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
      device.in_host_memory = cpu && DeviceNumber(*cl, devices[d], CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
      // Driver 580.159 on an H200: 6 to 20 ms for kernels of 0.03 to 4 ms, where clWaitForEvents takes 0.02 ms.
      device.calls_back_late = DeviceText(*cl, devices[d], CL_DEVICE_VENDOR).starts_with("NVIDIA");
      device.uuid = UuidOf(*cl, devices[d]);
      device.pci = PciAddressOf(*cl, devices[d]);
      found.push_back(std::move(device));
    }
  }
  std::vector<pid_t> workers;
  for (const pid_t tid : platform::ThreadsOfThisProcess())
    if (std::ranges::find(before, tid) == before.end()) workers.push_back(tid);
  for (NativeDevice& device : found) device.workers = workers;
  return found;
}

proto::cl::PlatformFacts FactsOfPlatform(const NativeDevice& device) {
  proto::cl::PlatformFacts facts;
  Collect(kPlatformNames, facts.facts, [&](std::uint32_t name, std::size_t room, void* value, std::size_t* bytes) {
    return device.cl->clGetPlatformInfo(device.platform, name, room, value, bytes);
  });
  return facts;
}

proto::cl::DeviceFacts FactsOfDevice(const cl_icd_dispatch& cl, cl_device_id device, std::uint32_t id,
                                     bool shares_arena, std::uint64_t memory_bytes) {
  proto::cl::DeviceFacts facts{.id = id, .shares_arena = shares_arena, .facts = {}};
  Collect(kDeviceNames, facts.facts, [&](std::uint32_t name, std::size_t room, void* value, std::size_t* bytes) {
    return cl.clGetDeviceInfo(device, name, room, value, bytes);
  });
  for (proto::cl::Fact& fact : facts.facts) {
    if (fact.name != CL_DEVICE_GLOBAL_MEM_SIZE && fact.name != CL_DEVICE_MAX_MEM_ALLOC_SIZE) continue;
    cl_ulong value = 0;
    if (fact.value.size() != sizeof value) continue;
    std::memcpy(&value, fact.value.data(), sizeof value);
    value = std::min<cl_ulong>(value, memory_bytes);
    std::memcpy(fact.value.data(), &value, sizeof value);
  }
  return facts;
}

}  // namespace weir::opencl
