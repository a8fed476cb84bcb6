// SPDX-License-Identifier: Apache-2.0
// The path of every command of a session: its wait list, the gate, its event, its errors.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "opencl/executor/batches.h"
#include "opencl/executor/client.h"
#include "opencl/executor/client_objects.h"
#include "opencl/executor/command_memory.h"
#include "opencl/executor/event_ends.h"

namespace weir::opencl {

/// A generous estimate of the host memory of a command that waits, in the driver and here. A session may have 8,192.
inline constexpr std::uint64_t kPendingCommandBytes = 64 << 10;
/// Assumed cost of moving a byte: 1/16 ns, about 16 GB/s.
inline constexpr std::uint64_t kNsPer16Bytes = 1;

/// The bytes of a box; the maximum on overflow.
inline std::uint64_t Product(const std::uint64_t (&region)[3]) {
  unsigned __int128 product = 1;
  for (const std::uint64_t n : region) {
    product *= n;
    if (product > std::numeric_limits<std::int64_t>::max()) return std::numeric_limits<std::uint64_t>::max();
  }
  return static_cast<std::uint64_t>(product);
}

struct Sizes {
  explicit Sizes(const std::uint64_t (&from)[3]) : values{from[0], from[1], from[2]} {}
  std::size_t values[3];
  operator const std::size_t*() const { return values; }  // NOLINT(google-explicit-constructor)
};

class Commands {
 public:
  Commands(const cl_icd_dispatch& cl, const Client& client, ClientObjects& objects, Batches& batches,
           CommandMemory& memory, EventEnds& ends)
      : cl_(cl), client_(client), objects_(objects), batches_(batches), memory_(memory), ends_(ends) {}
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  /// Enqueues one command: `call(queue, number of events to wait for, these events, event to create)`. `device_bytes`:
  /// bytes that it moves on the device; 0: too little to pass the gate for.
  template <typename Call>
  void Enqueue(const proto::cl::Enqueue& enqueue, std::uint64_t device_bytes, const char* attempted, Call call);
  /// The same for commands that read `size` bytes of `content`: keeps it until the command has ended, then frees
  /// `ticket`.
  template <typename Call>
  void Upload(const proto::cl::Enqueue& enqueue, const proto::cl::Blob& content, std::uint64_t ticket,
              std::uint64_t size, std::uint64_t device_bytes, const char* attempted, Call call);

  // For commands with a path of their own: Prepare comes first, and End last.
  cl_int Prepare(const proto::cl::Enqueue& enqueue, Queue*& queue);
  /// Takes over the reference to `event`.
  void End(const proto::cl::Enqueue& enqueue, Queue* queue, cl_int error, cl_event event, const char* attempted);
  /// The events that the prepared command waits for. Once it has waited, the caller clears them.
  [[nodiscard]] std::vector<cl_event>& waits() { return waits_; }

 private:
  /// Adds the earlier commands of an in-order queue to `waits_` if the driver would not wait for them.
  void WaitForEarlier(const Queue& queue);
  /// When `event` has ended, drops `copy` and frees `ticket` (0: none).
  void FreeAfter(cl_event event, std::shared_ptr<std::byte[]> copy, std::uint64_t ticket);

  const cl_icd_dispatch& cl_;
  const Client& client_;
  ClientObjects& objects_;
  Batches& batches_;
  CommandMemory& memory_;
  EventEnds& ends_;
  std::vector<cl_event> waits_;                  // reused between commands
  std::vector<RunningCommands::Event> earlier_;  // those that are in `waits_`
  /// Of the prepared command, if it may wait for an event that only the client sets: any number of such commands could
  /// be kept.
  std::shared_ptr<HostCharge> pending_;
};

template <typename Call>
void Commands::Enqueue(const proto::cl::Enqueue& enqueue, std::uint64_t device_bytes, const char* attempted,
                       Call call) {
  Queue* queue = nullptr;
  cl_event event = nullptr;
  cl_int error = Prepare(enqueue, queue);
  if (error == CL_SUCCESS && (device_bytes > 0 || !memory_.empty()))
    error = memory_.Admit(*queue, static_cast<std::int64_t>(device_bytes / 16 * kNsPer16Bytes), {.task = false});
  if (error != CL_SUCCESS && memory_.never_fits()) memory_.SayThatItNeverFits();
  memory_.Forget();
  if (error == CL_SUCCESS)
    error = call(queue->native, static_cast<cl_uint>(waits_.size()), waits_.empty() ? nullptr : waits_.data(), &event);
  End(enqueue, queue, error, event, attempted);
}

template <typename Call>
void Commands::Upload(const proto::cl::Enqueue& enqueue, const proto::cl::Blob& content, std::uint64_t ticket,
                      std::uint64_t size, std::uint64_t device_bytes, const char* attempted, Call call) {
  proto::cl::ByteView bytes;
  const cl_int outside = client_.View(content, bytes);
  const bool fits = outside == CL_SUCCESS && bytes.size() >= size;
  bool told = ticket == 0;
  Enqueue(enqueue, device_bytes, attempted,
          [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) -> cl_int {
            if (!fits) return CL_INVALID_VALUE;
            // The message's own bytes are valid only during this call.
            std::shared_ptr<std::byte[]> copy;
            if (content.kind == proto::cl::Blob::kInline) {
              if (pending_ && !pending_->Take(client_.host_budget, bytes.size())) return CL_OUT_OF_HOST_MEMORY;
              copy = std::shared_ptr<std::byte[]>(new std::byte[std::max<std::size_t>(bytes.size(), 1)]);
              std::ranges::copy(bytes, copy.get());
            }
            const cl_int error = call(queue, copy ? copy.get() : bytes.data(), count, waits, event);
            if (error != CL_SUCCESS || (!copy && ticket == 0)) return error;
            told = true;
            FreeAfter(*event, std::move(copy), ticket);
            return error;
          });
  if (!told) client_.Free(ticket);
}

}  // namespace weir::opencl
