// SPDX-License-Identifier: Apache-2.0
// The functions that describe the platform and its devices, with the model's facts where it has them and PoCL's facts
// otherwise.
#include <array>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "emulator/opencl/exports.h"
#include "emulator/opencl/info.h"
#include "emulator/opencl/memory.h"
#include "platform/clock.h"

namespace weir::emulator::cl {
namespace {

// Names from extensions that Debian's headers may not have yet.
constexpr cl_device_info kUuid = 0x106A;        // cl_khr_device_uuid
constexpr cl_device_info kDriverUuid = 0x106B;  // the same
constexpr cl_device_info kLuidValid = 0x106C;   // the same
constexpr cl_device_info kPciBusInfo = 0x410F;  // cl_khr_pci_bus_info
constexpr const char* kOwnExtensions[] = {"cl_khr_device_uuid", "cl_khr_pci_bus_info"};
constexpr const char* kSuffix = "EMULATED";

/// Whether the extension is offered. Extensions with functions that would bypass this driver are not.
bool Left(const std::string& extension) {
  return !extension.starts_with("cl_khr_command_buffer") && !extension.starts_with("cl_pocl") &&
         !extension.starts_with("cl_ext_device_fission");
}

std::string PoclText(cl_device_id device, cl_device_info name) {
  std::size_t bytes = 0;
  if (Pocl().clGetDeviceInfo(device, name, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (Pocl().clGetDeviceInfo(device, name, bytes, text.data(), nullptr) != CL_SUCCESS) return {};
  text.resize(text.find('\0') == std::string::npos ? bytes : text.find('\0'));
  return text;
}

std::string Extensions(cl_device_id device) {
  std::istringstream all(PoclText(device, CL_DEVICE_EXTENSIONS));
  std::string out;
  for (std::string one; all >> one;)
    if (Left(one)) out += one + ' ';
  for (const char* own : kOwnExtensions) out += std::string(own) + ' ';
  out.pop_back();
  return out;
}

std::vector<cl_name_version> VersionedExtensions(cl_device_id device) {
  std::size_t bytes = 0;
  std::vector<cl_name_version> all;
  if (Pocl().clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS_WITH_VERSION, 0, nullptr, &bytes) == CL_SUCCESS) {
    all.resize(bytes / sizeof(cl_name_version));
    if (Pocl().clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS_WITH_VERSION, bytes, all.data(), nullptr) != CL_SUCCESS)
      all.clear();
  }
  std::erase_if(all, [](const cl_name_version& one) { return !Left(one.name); });
  for (const char* own : kOwnExtensions) {
    cl_name_version& added = all.emplace_back();
    added.version = CL_MAKE_VERSION(1, 0, 0);
    std::snprintf(added.name, sizeof added.name, "%s", own);
  }
  return all;
}

/// Changes "OpenCL 3.0 PoCL 3.1…" to "OpenCL 3.0 emulated, PoCL 3.1…".
std::string Version(std::string pocl) {
  const std::size_t minor = pocl.find(' ', std::string("OpenCL ").size());
  return minor == std::string::npos ? pocl : pocl.insert(minor + 1, "emulated, ");
}

std::array<unsigned char, 16> UuidOf(const std::string& text) {
  std::array<unsigned char, 16> bytes{};
  std::string digits;
  for (const char c : text)
    if (c != '-') digits += c;
  for (std::size_t i = 0; i < bytes.size() && 2 * i + 1 < digits.size(); ++i)
    bytes[i] = static_cast<unsigned char>(std::strtoul(digits.substr(2 * i, 2).c_str(), nullptr, 16));
  return bytes;
}

std::array<cl_uint, 4> PciOf(const std::string& text) {
  std::array<cl_uint, 4> at{};
  if (std::sscanf(text.c_str(), "%x:%x:%x.%x", &at[0], &at[1], &at[2], &at[3]) != 4) at = {};
  return at;
}

cl_int CL_API_CALL GetDeviceInfo(cl_device_id native, cl_device_info name, std::size_t room, void* value,
                                 std::size_t* size) {
  return Guarded([&]() -> cl_int {
    const Driver::Device* device = Driver::The().Find(native);
    if (device == nullptr) return CL_INVALID_DEVICE;
    const InfoAnswer answer{room, value, size};
    const auto yes = [&](bool is) { return answer.Value<cl_bool>(is ? CL_TRUE : CL_FALSE); };
    switch (name) {
      case CL_DEVICE_AVAILABLE: return yes(!Driver::The().Lost(device->number));
      case CL_DEVICE_TYPE: return answer.Value<cl_device_type>(CL_DEVICE_TYPE_GPU);
      case CL_DEVICE_NAME: return answer.Text(device->model.name);
      case CL_DEVICE_VENDOR: return answer.Text("Weir (emulated)");
      case CL_DEVICE_VENDOR_ID: return answer.Value<cl_uint>(0);
      case CL_DEVICE_VERSION: return answer.Text(Version(PoclText(native, name)));
      case CL_DEVICE_MAX_COMPUTE_UNITS: return answer.Value<cl_uint>(device->model.units);
      case CL_DEVICE_GLOBAL_MEM_SIZE: return answer.Value<cl_ulong>(device->model.memory.count);
      case CL_DEVICE_MAX_MEM_ALLOC_SIZE: return answer.Value<cl_ulong>(LargestBuffer(*device));
      case CL_DEVICE_HOST_UNIFIED_MEMORY: return yes(false);
      case CL_DEVICE_SVM_CAPABILITIES:
        return answer.Value<cl_device_svm_capabilities>(CL_DEVICE_SVM_COARSE_GRAIN_BUFFER);
      case CL_DEVICE_PROFILING_TIMER_RESOLUTION: return answer.Value<std::size_t>(1);
      case CL_DEVICE_PARTITION_MAX_SUB_DEVICES: return answer.Value<cl_uint>(0);
      case CL_DEVICE_PARTITION_PROPERTIES: return answer.Value<cl_device_partition_property>(0);
      case CL_DEVICE_PARTITION_AFFINITY_DOMAIN: return answer.Value<cl_device_affinity_domain>(0);
      case CL_DEVICE_EXTENSIONS: return answer.Text(Extensions(native));
      case CL_DEVICE_EXTENSIONS_WITH_VERSION:
        return answer.List(std::span<const cl_name_version>(VersionedExtensions(native)));
      case kUuid: return answer.Value(UuidOf(device->model.uuid));
      case kDriverUuid: return answer.Value(std::array<unsigned char, 16>{'w', 'e', 'i', 'r'});
      case kLuidValid: return yes(false);
      case kPciBusInfo: return answer.Value(PciOf(device->model.pci));
      default: return Pocl().clGetDeviceInfo(native, name, room, value, size);
    }
  });
}

cl_int CL_API_CALL GetDeviceIds(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id* devices,
                                cl_uint* count) {
  if (platform != nullptr && platform != Driver::The().platform()) return CL_INVALID_PLATFORM;
  if ((devices == nullptr) != (room == 0) || (devices == nullptr && count == nullptr)) return CL_INVALID_VALUE;
  if (type == 0) return CL_INVALID_DEVICE_TYPE;
  const auto& all = Driver::The().devices();
  if ((type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT)) == 0) {
    if (count != nullptr) *count = 0;
    return CL_DEVICE_NOT_FOUND;
  }
  for (cl_uint i = 0; i < room && i < all.size(); ++i) devices[i] = all[i].native;
  if (count != nullptr) *count = static_cast<cl_uint>(all.size());
  return CL_SUCCESS;
}

cl_context CL_API_CALL CreateContext(const cl_context_properties* properties, cl_uint count,
                                     const cl_device_id* devices,
                                     void(CL_CALLBACK* notify)(const char*, const void*, std::size_t, void*),
                                     void* data, cl_int* error) {
  for (cl_uint i = 0; devices != nullptr && i < count; ++i) {
    const Driver::Device* device = Driver::The().Find(devices[i]);
    if (device == nullptr || !Driver::The().Lost(device->number)) continue;
    if (error != nullptr) *error = CL_DEVICE_NOT_AVAILABLE;
    return nullptr;
  }
  return Pocl().clCreateContext(properties, count, devices, notify, data, error);
}

cl_context CL_API_CALL CreateContextFromType(const cl_context_properties* properties, cl_device_type type,
                                             void(CL_CALLBACK* notify)(const char*, const void*, std::size_t, void*),
                                             void* data, cl_int* error) {
  std::array<cl_device_id, 64> devices{};
  cl_uint count = 0;
  const cl_int found = GetDeviceIds(nullptr, type, static_cast<cl_uint>(devices.size()), devices.data(), &count);
  if (found != CL_SUCCESS) {
    if (error != nullptr) *error = found;
    return nullptr;
  }
  return CreateContext(properties, count, devices.data(), notify, data, error);
}

cl_int CL_API_CALL CreateSubDevices(cl_device_id, const cl_device_partition_property*, cl_uint, cl_device_id*,
                                    cl_uint*) {
  return CL_INVALID_VALUE;
}

cl_int CL_API_CALL GetDeviceAndHostTimer(cl_device_id device, cl_ulong* device_ns, cl_ulong* host_ns) {
  if (Driver::The().Find(device) == nullptr) return CL_INVALID_DEVICE;
  if (device_ns == nullptr || host_ns == nullptr) return CL_INVALID_VALUE;
  *device_ns = *host_ns = static_cast<cl_ulong>(platform::NowNs());
  return CL_SUCCESS;
}

cl_int CL_API_CALL GetHostTimer(cl_device_id device, cl_ulong* host_ns) {
  cl_ulong device_ns = 0;
  return GetDeviceAndHostTimer(device, &device_ns, host_ns);
}

void* CL_API_CALL FunctionForPlatform(cl_platform_id, const char* name) { return ExtensionFunction(name); }

}  // namespace

cl_int CL_API_CALL PlatformIds(cl_uint room, cl_platform_id* platforms, cl_uint* count) {
  if ((platforms == nullptr) != (room == 0) || (platforms == nullptr && count == nullptr)) return CL_INVALID_VALUE;
  const bool started = Driver::Start();
  if (count != nullptr) *count = started ? 1 : 0;
  if (!started) return CL_PLATFORM_NOT_FOUND_KHR;
  if (platforms != nullptr) platforms[0] = Driver::The().platform();
  return CL_SUCCESS;
}

cl_int CL_API_CALL PlatformInfo(cl_platform_id platform, cl_platform_info name, std::size_t room, void* value,
                                std::size_t* size) {
  return Guarded([&]() -> cl_int {
    if (!Driver::Start() || (platform != nullptr && platform != Driver::The().platform())) return CL_INVALID_PLATFORM;
    const InfoAnswer answer{room, value, size};
    switch (name) {
      case CL_PLATFORM_NAME: return answer.Text("Weir emulated GPUs");
      case CL_PLATFORM_VENDOR: return answer.Text("Weir (emulated)");
      case CL_PLATFORM_EXTENSIONS: return answer.Text("cl_khr_icd");
      case CL_PLATFORM_EXTENSIONS_WITH_VERSION: {
        cl_name_version icd{.version = CL_MAKE_VERSION(1, 0, 0), .name = "cl_khr_icd"};
        return answer.Value(icd);
      }
      case CL_PLATFORM_ICD_SUFFIX_KHR: return answer.Text(kSuffix);
      case CL_PLATFORM_HOST_TIMER_RESOLUTION: return answer.Value<cl_ulong>(1);
      case CL_PLATFORM_VERSION: {
        std::array<char, 512> pocl{};
        const cl_int error =
            Pocl().clGetPlatformInfo(Driver::The().platform(), name, pocl.size() - 1, pocl.data(), nullptr);
        return error == CL_SUCCESS ? answer.Text(Version(pocl.data())) : error;
      }
      default: return Pocl().clGetPlatformInfo(Driver::The().platform(), name, room, value, size);
    }
  });
}

void* ExtensionFunction(const char* name) {
  if (name == nullptr) return nullptr;
  if (std::strcmp(name, "clIcdGetPlatformIDsKHR") == 0) return reinterpret_cast<void*>(&PlatformIds);
  if (std::strcmp(name, "clGetPlatformInfo") == 0) return reinterpret_cast<void*>(&PlatformInfo);
  return nullptr;
}

void AddDeviceCalls(cl_icd_dispatch& table) {
  table.clGetPlatformIDs = PlatformIds;
  table.clGetPlatformInfo = PlatformInfo;
  table.clGetDeviceIDs = GetDeviceIds;
  table.clGetDeviceInfo = GetDeviceInfo;
  table.clCreateContext = CreateContext;
  table.clCreateContextFromType = CreateContextFromType;
  table.clCreateSubDevices = CreateSubDevices;
  table.clCreateSubDevicesEXT = nullptr;
  table.clGetDeviceAndHostTimer = GetDeviceAndHostTimer;
  table.clGetHostTimer = GetHostTimer;
  table.clGetExtensionFunctionAddress = ExtensionFunction;
  table.clGetExtensionFunctionAddressForPlatform = FunctionForPlatform;
}

}  // namespace weir::emulator::cl
