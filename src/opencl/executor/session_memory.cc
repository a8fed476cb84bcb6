// SPDX-License-Identifier: Apache-2.0
// Elastic memory: the objects of a command are claimed before it is enqueued.
//
//   uses noted ──▶ there? ──no──▶ loaded, waited for ──▶ gate ──▶ still there? pinned ──▶ enqueued
//                    └─────────────yes─────────────────▶            └──no: batch closed, from the start
//
// Nothing is pinned during the wait at the gate: the wait may be for another vGPU's turn, and an order to give up
// memory may arrive meanwhile.
#include <algorithm>

#include "opencl/executor/session.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// Limit of the wait for pins that only the client could end: those of batches that wait for a user event.
constexpr Duration kWaitBesideUserEvents = seconds(5);

}  // namespace

void Session::NoteUse(Memory& memory, bool writes, const ByteRange& range) {
  uses_.push_back({.object = memory.stored.get(), .writes = writes, .range = range, .native = &memory.native});
}

// Commands in flight use only objects on the device, so a command without a wait list need not wait. Its event is that
// of a marker, which in an out-of-order queue would wait for commands that this command does not wait for.
std::byte* Session::InHostMemory(const wire::Enqueue& enqueue, const Memory& memory, std::uint64_t offset,
                                 std::uint64_t size, bool writes) {
  if (shared_.store == nullptr || !enqueue.waits.empty()) return nullptr;
  // The driver reports these errors
  if (size == 0 || offset > memory.size || size > memory.size - offset) return nullptr;
  Queue* queue = nullptr;
  if (objects_.Find(enqueue.queue, queue) != CL_SUCCESS || !queue->in_order) return nullptr;
  Stored& root = memory.stored->root();
  if (!shared_.store->StaysOut(root) || root.MakeHost() != CL_SUCCESS) return nullptr;
  AnalyseAhead();
  const ByteRange range = memory.stored->InRoot({offset, offset + size});
  if (writes) root.content.Cover(range);
  uses_.clear();
  return root.host.As<std::byte>() + range.begin;
}

cl_int Session::Claim(Queue& queue, std::uint32_t queue_id, std::int64_t predicted_ns, const Admission::Entry& entry) {
  for (bool again = true;;) {
    const cl_int error = ClaimOnce(queue, queue_id, predicted_ns, entry, again);
    if (error != CL_SUCCESS || !again) return error;
  }
}

cl_int Session::ClaimOnce(Queue& queue, std::uint32_t queue_id, std::int64_t predicted_ns,
                          const Admission::Entry& entry, bool& again) {
  using Outcome = BufferStore::Outcome;
  BufferStore& store = *shared_.store;
  cl_int error = CL_SUCCESS;
  if (!store.Ready(uses_, pins_.get())) {
    const BufferStore::Patience patience{.before_waiting = [this] { CloseBatch(); },
                                         .stop = &stop_,
                                         .at_most = user_events_ > 0 ? kWaitBesideUserEvents : Duration{}};
    if (const Outcome outcome = store.Acquire(uses_, nullptr, patience, error); outcome != Outcome::kThere)
      return WhyNot(outcome, error);
  }
  OpenBatch(queue, queue_id, predicted_ns, entry);
  if (!pins_) pins_ = std::make_shared<Pins>(shared_.store);
  const Outcome outcome = store.Acquire(uses_, pins_.get(), {.stop = &stop_}, error);
  again = outcome == Outcome::kWouldWait;
  if (outcome == Outcome::kThere) return CL_SUCCESS;
  if (!again) return WhyNot(outcome, error);
  CloseBatch();
  return CL_SUCCESS;
}

cl_int Session::WhyNot(BufferStore::Outcome outcome, cl_int error) {
  using Outcome = BufferStore::Outcome;
  if (outcome == Outcome::kEnded) return CL_OUT_OF_RESOURCES;
  if (outcome == Outcome::kFailed && error != CL_MEM_OBJECT_ALLOCATION_FAILURE) return error;
  if (outcome == Outcome::kNever) {
    // The launch may run in parts, and then there is no error.
    never_fits_ = true;
    return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  }
  const std::string needs = WhatItNeeds();
  if (outcome == Outcome::kFailed) {
    why_not_ = needs + ", and the driver makes none";
    return error;
  }
  why_not_ = needs + ", of " + MebibytesOf(shared_.store->MostBytes()) + ", and waited " +
             std::to_string(kWaitBesideUserEvents.count() / 1'000'000'000) +
             " s for it while commands wait for an event that the program has not set";
  return CL_MEM_OBJECT_ALLOCATION_FAILURE;
}

std::string Session::WhatItNeeds() const {
  return "it needs " + MebibytesOf(shared_.store->BytesOf(uses_)) + " of device memory at once";
}

void Session::SayThatItNeverFits() {
  why_not_ = WhatItNeeds() + ", and " + MebibytesOf(shared_.store->MostBytes()) + " is its maximum" +
             (no_parts_.empty() ? "" : "; it can't run in parts: " + no_parts_);
  if (shared_.partition == core::PartitionMode::kStay)
    why_not_ += "; launches don't run in parts here (--partition never)";
}

// A compiler takes seconds, during which an order would wait for the open batch's pins.
void Session::EndBatchBeforeCompiling() {
  if (shared_.store != nullptr) CloseBatch();
}

// -- Kernels' arguments ----------------------------------------------------------------------------------------------

/// Records which arguments the kernel cannot write through, as far as the driver reports it.
void Session::LearnArgs(Kernel& kernel) const {
  cl_uint count = 0;
  if (cl_.clGetKernelInfo(kernel.native, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr) != CL_SUCCESS) return;
  count = std::min(count, kArgsMax);
  kernel.reads_only.resize(count);
  for (cl_uint i = 0; i < count; ++i) {
    cl_kernel_arg_type_qualifier type = 0;
    cl_kernel_arg_address_qualifier address = 0;
    cl_kernel_arg_access_qualifier access = 0;
    if (cl_.clGetKernelArgInfo(kernel.native, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof type, &type, nullptr) !=
            CL_SUCCESS ||
        cl_.clGetKernelArgInfo(kernel.native, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof address, &address, nullptr) !=
            CL_SUCCESS ||
        cl_.clGetKernelArgInfo(kernel.native, i, CL_KERNEL_ARG_ACCESS_QUALIFIER, sizeof access, &access, nullptr) !=
            CL_SUCCESS)
      return;
    kernel.reads_only[i] = (type & CL_KERNEL_ARG_TYPE_CONST) != 0 || address == CL_KERNEL_ARG_ADDRESS_CONSTANT ||
                           access == CL_KERNEL_ARG_ACCESS_READ_ONLY;
  }
}

void Session::NoteArgs(const Kernel& kernel) {
  for (std::size_t i = 0; i < kernel.args.size(); ++i) {
    if (!kernel.args[i]) continue;
    const std::shared_ptr<Object> object = kernel.args[i]->lock();
    if (!object || object->kind != Kind::kMemory) continue;
    auto& memory = static_cast<Memory&>(*object);
    const bool reads = memory.read_only || (i < kernel.reads_only.size() && kernel.reads_only[i]);
    NoteUse(memory, !reads, {0, memory.size});
  }
}

cl_int Session::SetArgsAgain(Kernel& kernel) {
  for (std::size_t i = 0; i < kernel.args.size(); ++i) {
    if (!kernel.args[i]) continue;
    const std::shared_ptr<Object> object = kernel.args[i]->lock();
    if (!object || object->kind != Kind::kMemory) continue;
    const auto& memory = static_cast<const Memory&>(*object);
    if (kernel.set_to[i] == memory.stored->number) continue;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): the argument is the handle
    const cl_int error = cl_.clSetKernelArg(kernel.native, static_cast<cl_uint>(i), sizeof(cl_mem), &memory.native);
    if (error != CL_SUCCESS) return error;
    kernel.set_to[i] = memory.stored->number;
  }
  return CL_SUCCESS;
}

// -- Images ----------------------------------------------------------------------------------------------------------

/// Queries a small image, because one of full size would take memory.
std::uint64_t Session::PixelBytesOf(const Context& context, const Shape& shape) const {
  const cl_mem_object_type type = shape.desc.image_type;
  cl_image_desc desc{};
  desc.image_type = type == CL_MEM_OBJECT_IMAGE1D_BUFFER ? CL_MEM_OBJECT_IMAGE1D : type;
  desc.image_width = desc.image_height = desc.image_depth = desc.image_array_size = 1;
  cl_int error = CL_SUCCESS;
  const cl_mem probe = cl_.clCreateImage(context.native, shape.flags, &shape.format, &desc, nullptr, &error);
  if (error != CL_SUCCESS) return 0;
  std::size_t bytes = 0;
  if (cl_.clGetImageInfo(probe, CL_IMAGE_ELEMENT_SIZE, sizeof bytes, &bytes, nullptr) != CL_SUCCESS) bytes = 0;
  cl_.clReleaseMemObject(probe);
  return bytes;
}

cl_int Session::MakeStoredImage(const wire::CreateImage& m, Memory& image, const Shape& shape, wire::ByteView content) {
  Shape whole = shape;
  whole.desc.mem_object = nullptr;
  whole.pixel_bytes = PixelBytesOf(*image.context, shape);
  if (whole.pixel_bytes == 0) return CL_IMAGE_FORMAT_NOT_SUPPORTED;
  whole.size = whole.PackedBytes();
  image.size = whole.size;
  image.read_only = (image.flags & CL_MEM_READ_ONLY) != 0;
  if (m.buffer != 0) {
    image.read_only = image.read_only || image.parent->read_only;
    image.stored = shared_.store->Make(image.context, whole, image.parent->stored, nullptr);
    return CL_SUCCESS;
  }
  if (!content.empty() && content.size() < whole.size) return CL_INVALID_HOST_PTR;
  if (!shared_.quota->Take(whole.size)) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  image.gone.quota = shared_.quota;
  image.gone.charged = whole.size;
  image.stored = shared_.store->Make(image.context, whole, nullptr, nullptr);
  return content.empty() || BufferStore::Fill(*image.stored, content) ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

}  // namespace weir::opencl
