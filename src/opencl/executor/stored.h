// SPDX-License-Identifier: Apache-2.0
// A buffer or an image whose contents move between the device and host memory, and the parts that were made of one.
//
//                 first use            released, after a copy out of what is dirty
//   nowhere yet ────────────▶ resident ───────────────────────────────────────────▶ in host memory
//        ▲                     │   ▲                                                      │
//        └── nothing written ──┘   └───────── made again, contents copied in ─────────────┘
//
// The host's copy stays when contents come back: what isn't written then need not be copied out again.
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

/// What is to happen when a memory object is gone for good: bytes to return, and a ticket to tell the client of.
struct Gone {
  std::shared_ptr<Quota> quota;
  std::uint64_t charged = 0;
  std::shared_ptr<Replies> replies;
  std::uint64_t ticket = 0;

  void Tell() const;
};

/// Gives a native object back to the driver, and tells when that has no more use for it either: commands that were
/// enqueued keep it, and the range it lies in.
void ReleaseAndTell(const cl_icd_dispatch& cl, cl_mem native, Gone gone);

/// Clears new objects in a device's own memory: drivers leave there what another tenant's process has written.
cl_int ClearNew(Context& context, cl_mem buffer, std::uint64_t bytes);
cl_int ClearNewImage(Context& context, cl_mem image, const cl_image_desc& desc);

/// What it takes to make a native object again.
struct Shape {
  cl_mem_flags flags = 0;
  std::uint64_t size = 0, origin = 0;
  bool image = false;
  cl_image_format format{};
  cl_image_desc desc{};
  std::uint64_t pixel_bytes = 0;

  /// All of an image, as reads and writes name it.
  void WholeImage(std::size_t (&region)[3]) const;
  [[nodiscard]] std::uint64_t PackedBytes() const;
};

struct Stored final : Held, std::enable_shared_from_this<Stored> {
  /// A part has a parent; a part's content, place and pins are its root's.
  Stored(std::shared_ptr<BufferStore> of, std::shared_ptr<Context> in, const Shape& like,
         std::shared_ptr<Stored> part_of);
  ~Stored();
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  [[nodiscard]] Stored& root() { return parent ? parent->root() : *this; }
  /// Where a root's bytes lie that a command touches which uses `range` of this one.
  [[nodiscard]] ByteRange InRoot(const ByteRange& range) const;
  [[nodiscard]] ByteRange All() const { return InRoot({0, shape.size}); }

  /// Makes the native object, with its first content where it has one. Parts need their parent's.
  cl_int MakeNative();
  /// Of a root that is not on the device: `host` holds all of its contents from now on.
  cl_int MakeHost();
  /// Copy a range of a root's contents, all of an image's, between the device and host memory, and wait for it.
  cl_int CopyOut(const ByteRange& range);
  cl_int CopyIn(const ByteRange& range);

  const std::shared_ptr<BufferStore> store;
  const std::shared_ptr<Context> context;
  const Shape shape;
  const std::shared_ptr<Stored> parent;
  const std::byte* first = nullptr;  // a buffer's first content, in the arena

  // The store's lock; while it is pinned or moving, whoever pinned or moves it.
  cl_mem native = nullptr;
  std::uint64_t number = 0;  // of the native object; no two in a process have the same
  ByteRange content;         // what was ever written
  ByteRange dirty;           // of it, what host memory doesn't hold
  platform::Mapping host;
  bool switched_out = false;                 // evicted since its slots were another's for a while
  std::vector<std::weak_ptr<Stored>> parts;  // of a root

  std::uint64_t pinned_by = 0;  // the session's thread: the last Pins that it is in
  Gone gone;                    // set when the client has released it

 private:
  bool MapHost();
};

}  // namespace weir::opencl
