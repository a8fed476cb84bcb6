// SPDX-License-Identifier: Apache-2.0
// Returns a value from a clGet…Info call by OpenCL's rules about sizes.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "emulator/opencl/cl.h"

namespace weir::emulator::cl {

struct InfoAnswer {
  std::size_t room = 0;
  void* value = nullptr;
  std::size_t* size = nullptr;

  [[nodiscard]] cl_int Bytes(const void* from, std::size_t count) const {
    if (value != nullptr && room < count) return CL_INVALID_VALUE;
    if (value != nullptr && count > 0) std::memcpy(value, from, count);
    if (size != nullptr) *size = count;
    return CL_SUCCESS;
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] cl_int Value(const T& one) const { return Bytes(&one, sizeof one); }
  [[nodiscard]] cl_int Text(const std::string& text) const { return Bytes(text.c_str(), text.size() + 1); }
  template <typename T>
  [[nodiscard]] cl_int List(std::span<const T> list) const {
    return Bytes(list.data(), list.size_bytes());
  }
};

}  // namespace weir::emulator::cl
