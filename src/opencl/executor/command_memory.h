// SPDX-License-Identifier: Apache-2.0
// The memory objects of one command. Without elastic memory their device memory is allocated at the first use. With
// elastic memory the command claims all of them before it is enqueued.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "opencl/executor/admission.h"
#include "opencl/executor/batches.h"
#include "opencl/executor/buffer_store.h"
#include "opencl/executor/client_objects.h"
#include "opencl/executor/shared.h"

namespace weir::opencl {

class CommandMemory {
 public:
  /// `stop`: ends every wait for memory.
  CommandMemory(const Shared& shared, ClientObjects& objects, Batches& batches, const EventEnds& ends,
                const std::atomic<bool>& stop)
      : shared_(shared), cl_(*shared.device.cl), objects_(objects), batches_(batches), ends_(ends), stop_(stop) {}
  CommandMemory(const CommandMemory&) = delete;
  CommandMemory& operator=(const CommandMemory&) = delete;

  /// Finds a memory object that the next command reads. Its native object exists afterwards; with elastic memory, once
  /// the command has claimed its objects.
  cl_int Reads(std::uint32_t id, Memory*& memory) {
    return Use(id, memory, [](const Memory&) { return ByteRange{}; });
  }
  /// Finds a memory object that the next command writes to. `where(memory)` is the written range; it is called only if
  /// memory is elastic.
  template <typename Where>
  cl_int Writes(std::uint32_t id, Memory*& memory, Where where) {
    return Use(id, memory, where);
  }
  /// Notes the memory objects among a kernel's arguments for the next command.
  void NoteArgs(const Kernel& kernel);
  /// Notes an object that the client does not know.
  void Add(const MemoryUse& use) { uses_.push_back(use); }
  /// Forgets the objects noted: the command has been enqueued or has failed.
  void Forget() { uses_.clear(); }

  [[nodiscard]] bool empty() const { return uses_.empty(); }
  /// The bytes that the command needs on the device at once, and whether they ever fit.
  [[nodiscard]] std::uint64_t Bytes() const { return shared_.store->BytesOf(uses_); }
  [[nodiscard]] bool FitsWhole() const { return Bytes() <= shared_.store->MostBytes(); }

  /// Opens a batch for the command with all of its objects on the device and pinned. Waits for the gate, and for device
  /// memory if necessary.
  cl_int Admit(Queue& queue, std::int64_t predicted_ns, const Admission::Entry& entry);
  /// Passes the native objects to the driver again; they differ after an eviction.
  cl_int SetArgsAgain(Kernel& kernel);
  /// Allocates the device memory of an object. Not for elastic memory.
  cl_int Materialise(Memory& memory);
  /// The address of these bytes of a buffer if they are to be accessed in host memory (BufferStore::StaysOut). The
  /// command then claims nothing.
  std::byte* InHostMemory(const proto::cl::Enqueue& enqueue, const Memory& memory, std::uint64_t offset,
                          std::uint64_t size, bool writes);

  /// Whether the last Admit failed because the objects exceed the maximum.
  [[nodiscard]] bool never_fits() const { return never_fits_; }
  /// Sets the explanation for that. `no_parts`: why the launch cannot run in parts; empty: not tried.
  void SayThatItNeverFits(const std::string& no_parts = {});
  /// The explanation of the command's error; empty: none.
  void Explain(std::string why) { why_not_ = std::move(why); }
  [[nodiscard]] std::string TakeExplanation() { return std::exchange(why_not_, {}); }

 private:
  template <typename Where>
  cl_int Use(std::uint32_t id, Memory*& memory, Where where) {
    const cl_int error = objects_.Find(id, memory);
    if (error != CL_SUCCESS) return error;
    if (shared_.store == nullptr) return memory->native == nullptr ? Materialise(*memory) : CL_SUCCESS;
    const ByteRange written = where(*memory);
    NoteUse(*memory, !written.empty(), written);
    return CL_SUCCESS;
  }
  void NoteUse(Memory& memory, bool writes, const ByteRange& range);
  cl_int Claim(Queue& queue, std::int64_t predicted_ns, const Admission::Entry& entry);
  cl_int ClaimOnce(Queue& queue, std::int64_t predicted_ns, const Admission::Entry& entry, bool& again);
  cl_int WhyNot(BufferStore::Outcome outcome, cl_int error);
  [[nodiscard]] std::string WhatItNeeds() const;

  const Shared& shared_;
  const cl_icd_dispatch& cl_;
  ClientObjects& objects_;
  Batches& batches_;
  const EventEnds& ends_;
  const std::atomic<bool>& stop_;
  std::vector<MemoryUse> uses_;
  bool never_fits_ = false;
  std::string why_not_;
};

}  // namespace weir::opencl
