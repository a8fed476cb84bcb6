// SPDX-License-Identifier: Apache-2.0
// Elastic memory: the objects of a command are claimed before it is enqueued.
//
//   uses noted ──▶ there? ──no──▶ loaded, waited for ──▶ gate ──▶ still there? pinned ──▶ enqueued
//                    └─────────────yes─────────────────▶            └──no: batch closed, from the start
//
// Nothing is pinned during the wait at the gate: the wait may be for another vGPU's turn, and an order to give up
// memory may arrive meanwhile.
#include "opencl/executor/command_memory.h"

#include <algorithm>
#include <cstring>

#include "opencl/channel/limits.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

}  // namespace

void CommandMemory::NoteUse(Memory& memory, bool writes, const ByteRange& range) {
  uses_.push_back({.object = memory.stored.get(), .writes = writes, .range = range, .native = &memory.native});
}

// Commands in flight use only objects on the device, so a command without a wait list need not wait. Its event is that
// of a marker, which in an out-of-order queue would wait for commands that this command does not wait for.
std::byte* CommandMemory::InHostMemory(const wire::Enqueue& enqueue, const Memory& memory, std::uint64_t offset,
                                       std::uint64_t size, bool writes) {
  if (shared_.store == nullptr || !enqueue.waits.empty()) return nullptr;
  // The driver reports these errors.
  if (size == 0 || offset > memory.size || size > memory.size - offset) return nullptr;
  Queue* queue = nullptr;
  if (objects_.Find(enqueue.queue, queue) != CL_SUCCESS || !queue->in_order) return nullptr;
  Stored& root = memory.stored->root();
  if (!shared_.store->StaysOut(root) || root.MakeHost() != CL_SUCCESS) return nullptr;
  const ByteRange range = memory.stored->InRoot({offset, offset + size});
  if (writes) root.content.Cover(range);
  uses_.clear();
  return root.host.As<std::byte>() + range.begin;
}

cl_int CommandMemory::Admit(Queue& queue, std::int64_t predicted_ns, const Admission::Entry& entry) {
  never_fits_ = false;
  if (shared_.store != nullptr && !uses_.empty()) {
    if (const cl_int error = Claim(queue, predicted_ns, entry); error != CL_SUCCESS) return error;
  } else {
    batches_.Open(queue, predicted_ns, entry);
  }
  batches_.admission().Add(predicted_ns);
  return CL_SUCCESS;
}

cl_int CommandMemory::Claim(Queue& queue, std::int64_t predicted_ns, const Admission::Entry& entry) {
  for (bool again = true;;) {
    const cl_int error = ClaimOnce(queue, predicted_ns, entry, again);
    if (error != CL_SUCCESS || !again) return error;
  }
}

cl_int CommandMemory::ClaimOnce(Queue& queue, std::int64_t predicted_ns, const Admission::Entry& entry, bool& again) {
  using Outcome = BufferStore::Outcome;
  BufferStore& store = *shared_.store;
  cl_int error = CL_SUCCESS;
  if (!store.Ready(uses_, batches_.pins().get())) {
    const BufferStore::Patience patience{.before_waiting = [this] { batches_.Close(); },
                                         .stop = &stop_,
                                         .at_most = ends_.user_events() > 0 ? kWaitBesideUserEvents : Duration{}};
    if (const Outcome outcome = store.Acquire(uses_, nullptr, patience, error); outcome != Outcome::kThere)
      return WhyNot(outcome, error);
  }
  batches_.Open(queue, predicted_ns, entry);
  if (!batches_.pins()) batches_.pins() = std::make_shared<Pins>(shared_.store);
  const Outcome outcome = store.Acquire(uses_, batches_.pins().get(), {.stop = &stop_}, error);
  again = outcome == Outcome::kWouldWait;
  if (outcome == Outcome::kThere) return CL_SUCCESS;
  if (!again) return WhyNot(outcome, error);
  batches_.Close();
  return CL_SUCCESS;
}

cl_int CommandMemory::WhyNot(BufferStore::Outcome outcome, cl_int error) {
  using Outcome = BufferStore::Outcome;
  if (outcome == Outcome::kEnded) return CL_OUT_OF_RESOURCES;
  if (outcome == Outcome::kFailed && error != CL_MEM_OBJECT_ALLOCATION_FAILURE) return error;
  if (outcome == Outcome::kNever) {
    // The launch may run in parts, and then there is no error.
    never_fits_ = true;
    return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  }
  shared_.quota->Refused();
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

std::string CommandMemory::WhatItNeeds() const {
  return "it needs " + MebibytesOf(shared_.store->BytesOf(uses_)) + " of device memory at once";
}

void CommandMemory::SayThatItNeverFits(const std::string& no_parts) {
  why_not_ = WhatItNeeds() + ", and " + MebibytesOf(shared_.store->MostBytes()) + " is its maximum" +
             (no_parts.empty() ? "" : "; it can't run in parts: " + no_parts);
  if (shared_.partition == core::PartitionMode::kStay)
    why_not_ += "; launches don't run in parts here (--partition never)";
}

// -- Kernels' arguments ----------------------------------------------------------------------------------------------

void CommandMemory::NoteArgs(const Kernel& kernel) {
  for (std::size_t i = 0; i < kernel.args.size(); ++i) {
    if (!kernel.args[i]) continue;
    const std::shared_ptr<Object> object = kernel.args[i]->lock();
    if (!object || object->kind != Kind::kMemory) continue;
    auto& memory = static_cast<Memory&>(*object);
    const bool reads = memory.read_only || (i < kernel.reads_only.size() && kernel.reads_only[i]);
    NoteUse(memory, !reads, {0, memory.size});
  }
}

cl_int CommandMemory::SetArgsAgain(Kernel& kernel) {
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

// -- Device memory ---------------------------------------------------------------------------------------------------

cl_int CommandMemory::Materialise(Memory& memory) {
  if (memory.native != nullptr) return CL_SUCCESS;
  cl_int error = CL_SUCCESS;
  if (memory.parent) {  // a sub-buffer: images are created at once
    error = Materialise(*memory.parent);
    if (error != CL_SUCCESS) return error;
    const cl_buffer_region region{memory.origin, memory.size};
    memory.native =
        cl_.clCreateSubBuffer(memory.parent->native, memory.flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
  } else if (memory.context->in_host_memory) {
    memory.native = cl_.clCreateBuffer(memory.context->native, memory.flags | CL_MEM_USE_HOST_PTR, memory.size,
                                       memory.host, &error);
  } else if (memory.placed != nullptr) {
    if (memory.filled) std::memcpy(memory.placed, memory.host, memory.size);
    memory.native = cl_.clCreateBuffer(memory.context->native, memory.flags | CL_MEM_USE_HOST_PTR, memory.size,
                                       memory.placed, &error);
  } else {
    const cl_mem_flags content = memory.filled ? CL_MEM_COPY_HOST_PTR : 0;
    memory.native = cl_.clCreateBuffer(memory.context->native, memory.flags | content, memory.size,
                                       memory.filled ? memory.host : nullptr, &error);
    if (error == CL_SUCCESS && !memory.filled) error = ClearNew(*memory.context, memory.native, memory.size);
  }
  if (error != CL_SUCCESS) memory.error = error;
  return error;
}

}  // namespace weir::opencl
