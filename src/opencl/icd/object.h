// SPDX-License-Identifier: Apache-2.0
// The common part of all objects that a program has handles to: the dispatch table pointer, the kind, and two reference
// counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "opencl/icd/entry_points.h"

namespace weir::opencl::icd {

class Link;

enum class Kind : std::uint32_t {
  kPlatform = 0x57434C01,
  kDevice,
  kContext,
  kQueue,
  kMemory,
  kSampler,
  kProgram,
  kKernel,
  kEvent
};

/// A number that no other object ever has, even at the same address.
inline std::uint64_t NextSerial() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

struct Object {
  explicit Object(Kind what, Link* of = nullptr) : kind(what), link(of) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() { kind = Kind{}; }

  const cl_icd_dispatch* dispatch = &kDispatch;  // first member, used by the loader
  Kind kind;                                     // also distinguishes a live object from other memory
  std::uint32_t id = 0;                          // its id at the executor; 0: the executor does not know it
  Link* link;
  std::uint64_t serial = NextSerial();
  std::atomic<std::uint32_t> references{1};  // held by the program
  std::atomic<std::uint32_t> holds{1};       // of the library; one hold stands for all references of the program
};

/// The object behind a handle; null if the handle is null or not such an object.
template <typename T>
T* As(const void* handle) {
  auto* object = static_cast<Object*>(const_cast<void*>(handle));
  if (object == nullptr || reinterpret_cast<std::uintptr_t>(object) % alignof(Object) != 0 || object->kind != T::kKind)
    return nullptr;
  return static_cast<T*>(object);
}

template <typename T>
void Hold(T& object) {
  object.holds.fetch_add(1, std::memory_order_relaxed);
}
/// T::End(T*) destroys an object whose last hold is dropped.
template <typename T>
void Drop(T& object) {
  if (object.holds.fetch_sub(1, std::memory_order_acq_rel) == 1) T::End(&object);
}

/// Holds an object.
template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) Hold(*object_);
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) Drop(*object_);
  }
  [[nodiscard]] T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

/// clRetain… and clRelease… for any kind.
template <typename T>
cl_int RetainHandle(const void* handle, cl_int invalid) {
  T* object = As<T>(handle);
  if (object == nullptr) return invalid;
  object->references.fetch_add(1, std::memory_order_relaxed);
  return CL_SUCCESS;
}
/// `last(object)` is called with the program's last reference gone, while the library still holds the object.
template <typename T, typename Last>
cl_int ReleaseHandle(const void* handle, cl_int invalid, Last last) {
  T* object = As<T>(handle);
  if (object == nullptr) return invalid;
  std::uint32_t references = object->references.load(std::memory_order_relaxed);
  do {
    if (references == 0) return invalid;  // released too often; only the library still holds it
  } while (!object->references.compare_exchange_weak(references, references - 1, std::memory_order_acq_rel));
  if (references != 1) return CL_SUCCESS;
  last(*object);
  Drop(*object);
  return CL_SUCCESS;
}
template <typename T>
cl_int ReleaseHandle(const void* handle, cl_int invalid) {
  return ReleaseHandle<T>(handle, invalid, [](T&) {});
}

/// Results of functions that create an object: the object, or null and the error.
template <typename Handle, typename T>
Handle Give(T* object, cl_int* error) {
  if (error != nullptr) *error = CL_SUCCESS;
  return reinterpret_cast<Handle>(object);
}
inline std::nullptr_t Refuse(cl_int code, cl_int* error) {
  if (error != nullptr) *error = code;
  return nullptr;
}

}  // namespace weir::opencl::icd
