// SPDX-License-Identifier: Apache-2.0
// Moves objects to and from the device, and accounts for their memory.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "opencl/executor/buffer_store.h"
#include "opencl/executor/objects.h"
#include "platform/clock.h"

namespace weir::opencl {
namespace {

/// The data of a native object's release callback: the store gets these bytes back.
struct Leaving {
  std::shared_ptr<BufferStore> store;
  std::uint64_t bytes;
};

void SayStuck(const Stored& object, cl_int error) {
  std::fprintf(stderr,
               "weir-executor: the driver does not return the contents of %s of %s (error %d): it is not evicted\n",
               object.shape.image ? "an image" : "a buffer", MebibytesOf(object.bytes).c_str(), error);
}

}  // namespace

// -- Objects ---------------------------------------------------------------------------------------------------------

std::shared_ptr<Stored> BufferStore::Make(std::shared_ptr<Context> context, const Shape& shape,
                                          std::shared_ptr<Stored> parent, const std::byte* first) {
  auto made = std::make_shared<Stored>(shared_from_this(), std::move(context), shape, std::move(parent));
  made->first = first;
  const std::lock_guard lock(mutex_);
  if (made->parent) {
    auto& parts = made->root().parts;
    if (parts.size() == parts.capacity())
      std::erase_if(parts, [](const std::weak_ptr<Stored>& part) { return part.expired(); });
    parts.push_back(made);
  } else {
    ledger_.Add(*made, platform::NowNs());
  }
  return made;
}

bool BufferStore::Fill(Stored& image, std::span<const std::byte> packed) {
  void* at = ::mmap(nullptr, image.shape.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return false;
  image.host = platform::Mapping(at, image.shape.size);
  std::memcpy(at, packed.data(), std::min<std::uint64_t>(packed.size(), image.shape.size));
  image.content = {0, image.shape.size};
  return true;
}

void BufferStore::Forget(Stored& object) {
  const std::lock_guard lock(mutex_);
  ledger_.Remove(object);
  if (object.native != nullptr) leaving_ += object.bytes;
}

void BufferStore::Leave(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  leaving_ += bytes;
}

void BufferStore::Left(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  taken_ -= bytes;
  leaving_ -= bytes;
  changed_.notify_all();
}

void CL_CALLBACK BufferStore::OnNativeReleased(cl_mem, void* data) {
  const std::unique_ptr<Leaving> leaving(static_cast<Leaving*>(data));
  leaving->store->Left(leaving->bytes);
}

// The bytes of an object are returned when the driver has freed it: commands and parts may keep it beyond its release.
cl_int BufferStore::CountNative(Stored& object) {
  auto leaving = std::make_unique<Leaving>(Leaving{shared_from_this(), object.bytes});
  const cl_int error =
      object.context->cl.clSetMemObjectDestructorCallback(object.native, OnNativeReleased, leaving.get());
  if (error == CL_SUCCESS) static_cast<void>(leaving.release());
  return error;
}

// -- Moving contents -------------------------------------------------------------------------------------------------

void BufferStore::WaitOutLink(std::int64_t begin_ns, std::uint64_t bytes) const {
  if (options_.copy_bytes_per_s <= 0) return;
  const Duration whole = FromSeconds(static_cast<double>(bytes) / options_.copy_bytes_per_s);
  const Duration left = whole - Duration{platform::NowNs() - begin_ns};
  if (left.count() > 0) std::this_thread::sleep_for(left);
}

/// Corrects the size of an image on the device, whose rows the driver may have padded.
void BufferStore::CountBytes(Stored& object) {
  std::size_t really = 0;
  if (!object.shape.image ||
      object.context->cl.clGetMemObjectInfo(object.native, CL_MEM_SIZE, sizeof really, &really, nullptr) != CL_SUCCESS)
    return;
  const std::lock_guard lock(mutex_);
  if (really <= object.bytes) return;
  taken_ += really - object.bytes;
  ledger_.SetBytes(object, really);
}

cl_int BufferStore::MakeAndFill(Stored& object, bool& counted) {
  if (const cl_int error = object.MakeNative(); error != CL_SUCCESS) return error;
  CountBytes(object);
  if (const cl_int error = CountNative(object); error != CL_SUCCESS) return error;
  counted = true;
  return object.host && !object.content.empty() ? object.CopyIn(object.content) : CL_SUCCESS;
}

cl_int BufferStore::Restore(Lock& lock, Stored& object) {
  object.moving = true;
  taken_ += object.bytes;
  const bool again = object.number != 0;  // the first load of an object is not counted as a copy
  lock.unlock();
  const std::int64_t begin_ns = platform::NowNs();
  const std::uint64_t copied = again && object.host ? object.content.size() : 0;
  bool counted = false;
  const cl_int error = MakeAndFill(object, counted);
  if (error == CL_SUCCESS) WaitOutLink(begin_ns, copied);
  const std::int64_t took_ns = platform::NowNs() - begin_ns;
  if (error != CL_SUCCESS && object.native != nullptr) {
    if (counted) Leave(object.bytes);
    object.context->cl.clReleaseMemObject(std::exchange(object.native, nullptr));
  }

  lock.lock();
  object.moving = false;
  changed_.notify_all();
  if (error != CL_SUCCESS) {
    if (!counted) taken_ -= object.bytes;
    return error;
  }
  ledger_.SetResident(object, true);
  copied_in_ += copied;
  if (std::exchange(object.switched_out, false)) switch_copy_ns_ += took_ns;
  return CL_SUCCESS;
}

void BufferStore::Evict(Lock& lock, Stored& object, bool for_an_order) {
  object.moving = true;
  const bool switched = for_an_order && order_.here < order_.limit;
  // Null: the object is being destroyed, and its destructor waits for the lock
  auto keep = object.weak_from_this().lock();
  if (!keep) return;
  lock.unlock();
  const std::int64_t begin_ns = platform::NowNs();
  const std::uint64_t copied = object.dirty.size();
  cl_int error = CL_SUCCESS;
  if (copied > 0) {
    error = object.CopyOut(object.dirty);
    WaitOutLink(begin_ns, copied);
  }
  const std::int64_t took_ns = platform::NowNs() - begin_ns;
  if (error != CL_SUCCESS) SayStuck(object, error);

  lock.lock();
  object.moving = false;
  changed_.notify_all();
  std::vector<cl_mem> natives;
  Roots parts;
  if (error == CL_SUCCESS) {
    object.dirty = {};
    natives.push_back(std::exchange(object.native, nullptr));
    for (const auto& weak : object.parts)
      if (auto part = weak.lock()) {
        if (part->native != nullptr) natives.push_back(std::exchange(part->native, nullptr));
        parts.push_back(std::move(part));
      }
    leaving_ += object.bytes;
    ledger_.SetResident(object, false);
    object.switched_out = switched && !object.content.empty();
    ++evictions_;
    copied_out_ += copied;
    if (switched) switch_copy_ns_ += took_ns;
  } else {
    object.stuck = true;
  }
  // The last references to an object or a native object must not be dropped under the lock.
  lock.unlock();
  for (const cl_mem native : natives) keep->context->cl.clReleaseMemObject(native);
  parts.clear();
  keep.reset();
  lock.lock();
}

}  // namespace weir::opencl
