// SPDX-License-Identifier: Apache-2.0
// A buffer or an image whose contents move between the device and host memory, and its parts.
//
//                 first use            released, after a copy out of what is dirty
//   nowhere yet ────────────▶ resident ───────────────────────────────────────────▶ in host memory
//        ▲                     │   ▲                                                      │
//        └── nothing written ──┘   └───────── created again, contents copied in ──────────┘
//
// The host copy stays when contents return to the device, so that unmodified bytes need not be copied out again.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "opencl/channel/cl.h"
#include "opencl/executor/byte_range.h"
#include "opencl/executor/ledger.h"
#include "opencl/executor/quota.h"
#include "opencl/executor/replies.h"
#include "platform/shared_memory.h"

namespace weir::opencl {

class BufferStore;
struct Context;

/// What happens when a memory object is finally released: bytes to return to the quota, and a ticket to report to the
/// client.
struct Gone {
  std::shared_ptr<Quota> quota;
  std::uint64_t charged = 0;
  std::shared_ptr<Replies> replies;
  std::uint64_t ticket = 0;

  void Tell() const;
};

/// Releases a native object, and reports when the driver no longer uses it. Enqueued commands keep it and its memory
/// range.
void ReleaseAndTell(const cl_icd_dispatch& cl, cl_mem native, Gone gone);

/// Clears new objects in a device's own memory, because drivers leave data of other tenants' processes there.
cl_int ClearNew(Context& context, cl_mem buffer, std::uint64_t bytes);
cl_int ClearNewImage(Context& context, cl_mem image, const cl_image_desc& desc);

/// What is needed to create a native object again.
struct Shape {
  cl_mem_flags flags = 0;
  std::uint64_t size = 0, origin = 0;
  bool image = false;
  cl_image_format format{};
  cl_image_desc desc{};
  std::uint64_t pixel_bytes = 0;

  /// The whole region of an image as reads and writes name it.
  void WholeImage(std::size_t (&region)[3]) const;
  [[nodiscard]] std::uint64_t PackedBytes() const;
};

struct Stored final : Held, std::enable_shared_from_this<Stored> {
  /// A part has a parent; its content, place and pins are those of its root.
  Stored(std::shared_ptr<BufferStore> of, std::shared_ptr<Context> in, const Shape& like,
         std::shared_ptr<Stored> part_of);
  ~Stored();
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  [[nodiscard]] Stored& root() { return parent ? parent->root() : *this; }
  /// The range in the root that corresponds to `range` of this object.
  [[nodiscard]] ByteRange InRoot(const ByteRange& range) const;
  [[nodiscard]] ByteRange All() const { return InRoot({0, shape.size}); }

  /// Creates the native object, with its initial content if there is one. A part needs its parent's native object.
  cl_int MakeNative();
  /// Requires a root that is not on the device: `host` holds all of its contents from now on.
  cl_int MakeHost();
  /// Copy a range of a root's contents (an image: all of them) between the device and host memory, and wait for the
  /// copy.
  cl_int CopyOut(const ByteRange& range);
  cl_int CopyIn(const ByteRange& range);

  const std::shared_ptr<BufferStore> store;
  const std::shared_ptr<Context> context;
  const Shape shape;
  const std::shared_ptr<Stored> parent;
  const std::byte* first = nullptr;  // initial content of a buffer, in the arena

  // Guarded by the store's lock; while pinned or moving, owned by the thread that pinned or moves it.
  cl_mem native = nullptr;
  std::uint64_t number = 0;  // of the native object; unique within the process
  ByteRange content;         // range that was ever written
  ByteRange dirty;           // the part of it that host memory lacks
  platform::Mapping host;
  bool switched_out = false;                 // evicted because its slots were temporarily assigned to another vGPU
  std::vector<std::weak_ptr<Stored>> parts;  // of a root

  std::uint64_t pinned_by = 0;  // used by the session's thread: the last Pins that contain it
  Gone gone;                    // set when the client has released it

 private:
  bool MapHost();
};

}  // namespace weir::opencl
