// SPDX-License-Identifier: Apache-2.0
// A context: its devices and its callbacks.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "opencl/icd/device.h"
#include "opencl/icd/link.h"

namespace weir::opencl::icd {

struct Context : Object {
  static constexpr Kind kKind = Kind::kContext;
  explicit Context(Link* of) : Object(kKind, of) {}
  static void End(Context* context);
  [[nodiscard]] bool Has(const Device& device) const;
  [[nodiscard]] bool has_images() const;

  std::vector<Ref<Device>> devices;
  std::vector<cl_context_properties> given;
  bool shares_arena = false;                // true if true for all of its devices
  std::vector<Queue*> queues;               // that the program can use; guarded by the state lock
  std::atomic<std::size_t> queue_count{0};  // of `queues`
  // Formats already queried from the executor, by flags and type of image. Guarded by the state lock.
  std::map<std::pair<cl_mem_flags, cl_mem_object_type>, std::vector<cl_image_format>> image_formats;
  void(CL_CALLBACK* notify)(const char*, const void*, std::size_t, void*) = nullptr;
  void* notify_user = nullptr;
  std::vector<std::function<void()>> destructor_callbacks;  // guarded by the state lock
};

}  // namespace weir::opencl::icd
