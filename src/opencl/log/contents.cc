// SPDX-License-Identifier: Apache-2.0
// The contents that a log knows of: which have to be moved, how they can be read, and which queues a reader waits for.
#include <algorithm>

#include "opencl/channel/image_format.h"
#include "opencl/log/object_log.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// Sets the extent of the whole image, in the form that messages which read and write images use, and its size.
void DescribeImage(const logged::Object& image, ObjectLog::Memory& memory) {
  wire::CreateImage made;
  if (!wire::Decode(image.made.message, made)) return;
  std::uint64_t rows = 1, slices = 1;
  switch (made.type) {
    case CL_MEM_OBJECT_IMAGE1D_ARRAY: rows = made.array_size; break;
    case CL_MEM_OBJECT_IMAGE2D: rows = made.height; break;
    case CL_MEM_OBJECT_IMAGE2D_ARRAY: rows = made.height, slices = made.array_size; break;
    case CL_MEM_OBJECT_IMAGE3D: rows = made.height, slices = made.depth; break;
    default: break;
  }
  constexpr std::uint64_t kExtentMax = 1U << 20;  // as in the executor, which refuses larger images
  const std::uint64_t extent[3] = {made.width, rows, slices};
  std::uint64_t pixels = 1;
  for (int i = 0; i < 3; ++i) {
    memory.extent[i] = std::clamp<std::uint64_t>(extent[i], 1, kExtentMax);
    pixels *= memory.extent[i];
  }
  memory.pixel_bytes = ElementBytes({made.channel_order, made.channel_type});
  memory.size = pixels <= UINT64_MAX / 16 ? pixels * memory.pixel_bytes : 0;
}

constexpr std::uint64_t kHostRestrictions = CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY;

}  // namespace

std::vector<ObjectLog::Memory> ObjectLog::memories() const {
  std::vector<Memory> all;
  slots_.ForEach([&](std::uint32_t id, const logged::Slot& slot) {
    if (!slot.object || slot.object->kind != Kind::kMemory || slot.object->failed) return;
    const Object& object = *slot.object;
    const Object& root = object.root();
    // The contents of a part are those of its root. They move with the root if the client still has an id for it.
    if (&root != &object && Stands({.id = root.id, .number = root.at})) return;
    Memory& memory = all.emplace_back();
    memory.id = id;
    memory.number = object.at;
    const Object& context = *root.made.needs.front();
    if (Stands({.id = context.id, .number = context.at})) {
      memory.context = context.id;
      memory.context_number = context.at;
    }
    for (const ObjectRef& device : context.made.needs)
      if (memory.device == 0 && Stands({.id = device->id, .number = device->at})) memory.device = device->id;
    memory.image = object.image;
    memory.contents = root.contents;
    memory.flags = object.flags;
    if ((memory.flags & kHostRestrictions) == 0) memory.flags |= root.flags & kHostRestrictions;
    memory.size = object.size;
    if (object.image) DescribeImage(object, memory);
  });
  return all;
}

void ObjectLog::ContentsKnown(std::uint32_t id) {
  Object* memory = Look(Kind::kMemory, id);
  if (memory == nullptr || memory->part || memory->shares_arena || memory->contents == Contents::kNone) return;
  memory->contents = Contents::kKnown;
  ++known_;
}

void ObjectLog::ForgetContents() {
  slots_.ForEach([](std::uint32_t, const logged::Slot& slot) {
    if (!slot.object || slot.object->kind != Kind::kMemory) return;
    logged::Contents& contents = slot.object->root().contents;
    if (contents == Contents::kKnown) contents = Contents::kWritten;
  });
}

std::optional<std::vector<std::uint32_t>> ObjectLog::BusyQueues(std::uint32_t context) const {
  const ObjectRef of = Find(Kind::kContext, context);
  if (!of || lost_queues_ > 0) return std::nullopt;
  for (const auto& [number, request] : requests_)
    if (request.queue && !Stands({.id = request.queue->id, .number = request.queue->at})) return std::nullopt;
  std::vector<std::uint32_t> busy;
  bool waits = false;
  slots_.ForEach([&](std::uint32_t id, const logged::Slot& slot) {
    const Object* object = slot.object.get();
    if (object != nullptr && object->kind == Kind::kQueue && !object->failed && object->made.needs.front() == of &&
        object->issued > object->ended)
      busy.push_back(id);
    waits = waits || (slot.event.there && slot.event.user && !slot.event.set && slot.event.of);
  });
  if (waits && !busy.empty()) return std::nullopt;
  return busy;
}

}  // namespace weir::opencl
