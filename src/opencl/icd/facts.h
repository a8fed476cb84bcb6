// SPDX-License-Identifier: Apache-2.0
// The device information that programs see: the driver's answers without the features that an executor does not
// support.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opencl/icd/cl_api.h"
#include "proto/opencl_messages.h"

namespace weir::opencl::icd {

inline constexpr std::string_view kPlatformName = "Weir";
inline constexpr std::string_view kDeviceVersion = "OpenCL 3.0 Weir";

/// The extensions of a space-separated list that need only kernels and buffers, so that they work through an executor.
std::string TravellingExtensions(std::string_view all);
bool Travels(std::string_view extension);

/// Values of clGetDeviceInfo by name.
class FactTable {
 public:
  FactTable() = default;
  explicit FactTable(std::vector<proto::cl::Fact> facts);

  /// Null: unknown.
  [[nodiscard]] const std::string* Find(cl_uint name) const;
  void Set(cl_uint name, std::string value);
  template <typename T>
  void SetValue(cl_uint name, T value) {
    Set(name, std::string(reinterpret_cast<const char*>(&value), sizeof value));
  }
  /// The value as a T; `otherwise` if it is unknown or has another size.
  template <typename T>
  [[nodiscard]] T Get(cl_uint name, T otherwise = {}) const {
    const std::string* value = Find(name);
    if (value == nullptr || value->size() != sizeof(T)) return otherwise;
    T result;
    std::memcpy(&result, value->data(), sizeof result);
    return result;
  }
  [[nodiscard]] std::string_view Text(cl_uint name) const;

 private:
  std::vector<proto::cl::Fact> facts_;  // sorted by name
};

struct FactRules {
  std::uint64_t memory_bytes = 0;  // limit of one buffer and of all buffers together
  bool as_gpu = false;             // WEIR_OPENCL_DEVICE_TYPE=gpu
};
/// Converts the driver's answers to those that programs see.
FactTable OurFacts(FactTable drivers, const FactRules& rules);

}  // namespace weir::opencl::icd
