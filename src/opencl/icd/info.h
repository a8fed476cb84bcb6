// SPDX-License-Identifier: Apache-2.0
// Answers clGet…Info calls by OpenCL's rules about sizes.
#pragma once

#include <cstring>
#include <span>
#include <string_view>

#include "opencl/icd/cl_api.h"

namespace weir::opencl::icd {

struct InfoAnswer {
  std::size_t room = 0;
  void* value = nullptr;
  std::size_t* size_ret = nullptr;

  [[nodiscard]] cl_int Bytes(const void* from, std::size_t n) const {
    if (value != nullptr) {
      if (room < n) return CL_INVALID_VALUE;
      if (n > 0) std::memcpy(value, from, n);
    }
    if (size_ret != nullptr) *size_ret = n;
    return CL_SUCCESS;
  }
  template <typename T>
  requires(std::is_trivially_copyable_v<T> && !std::is_array_v<T>) [[nodiscard]] cl_int Value(const T& v) const {
    return Bytes(&v, sizeof v);  // NOLINT(bugprone-sizeof-expression): of a handle, the answer is the handle
  }
  template <typename Handle>
  [[nodiscard]] cl_int Object(const void* object) const {
    return Value(static_cast<Handle>(const_cast<void*>(object)));
  }
  /// Includes the terminating zero.
  [[nodiscard]] cl_int Text(std::string_view text) const {
    if (value != nullptr) {
      if (room < text.size() + 1) return CL_INVALID_VALUE;
      if (!text.empty()) std::memcpy(value, text.data(), text.size());
      static_cast<char*>(value)[text.size()] = 0;
    }
    if (size_ret != nullptr) *size_ret = text.size() + 1;
    return CL_SUCCESS;
  }
  template <typename T>
  [[nodiscard]] cl_int List(std::span<const T> list) const {
    return Bytes(list.data(), list.size_bytes());
  }
};

}  // namespace weir::opencl::icd
