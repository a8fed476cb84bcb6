// SPDX-License-Identifier: Apache-2.0
// What a program is told of a device: the driver's own answers, less what does not travel to an executor.
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

/// The extensions of a device that need nothing but kernels and buffers, from a list with spaces between.
std::string TravellingExtensions(std::string_view all);
bool Travels(std::string_view extension);

/// Values of clGetDeviceInfo by name.
class FactTable {
 public:
  FactTable() = default;
  explicit FactTable(std::vector<proto::cl::Fact> facts);

  /// Null: not known.
  [[nodiscard]] const std::string* Find(cl_uint name) const;
  void Set(cl_uint name, std::string value);
  template <typename T>
  void SetValue(cl_uint name, T value) {
    Set(name, std::string(reinterpret_cast<const char*>(&value), sizeof value));
  }
  /// The value as a T; `otherwise` where it isn't known or of another size.
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
  std::uint64_t arena_bytes = 0;  // no buffer is larger, nor all of them
  bool as_gpu = false;            // WEIR_OPENCL_DEVICE_TYPE=gpu
};
/// Makes of the driver's answers ours.
FactTable OurFacts(FactTable drivers, const FactRules& rules);

}  // namespace weir::opencl::icd
