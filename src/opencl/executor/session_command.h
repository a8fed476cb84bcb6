// SPDX-License-Identifier: Apache-2.0
// The path of every command of a session. Included only by the session's own files.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>

#include "opencl/executor/session.h"

namespace weir::opencl {

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

template <typename Call>
void Session::Command(const proto::cl::Enqueue& enqueue, std::uint64_t device_bytes, const char* attempted, Call call) {
  Queue* queue = nullptr;
  cl_event event = nullptr;
  cl_int error = PrepareCommand(enqueue, queue);
  if (error == CL_SUCCESS && (device_bytes > 0 || !uses_.empty()))
    error = Admit(*queue, enqueue.queue, static_cast<std::int64_t>(device_bytes / 16 * kNsPer16Bytes), {.task = false});
  if (error != CL_SUCCESS && never_fits_) SayThatItNeverFits();
  uses_.clear();
  if (error == CL_SUCCESS)
    error = call(queue->native, static_cast<cl_uint>(waits_.size()), waits_.empty() ? nullptr : waits_.data(), &event);
  EndCommand(enqueue, queue, error, event, attempted);
}

template <typename Call>
void Session::Upload(const proto::cl::Enqueue& enqueue, const proto::cl::Blob& content, std::uint64_t ticket,
                     std::uint64_t size, std::uint64_t device_bytes, const char* attempted, Call call) {
  proto::cl::ByteView bytes;
  const cl_int outside = View(content, bytes);
  const bool fits = outside == CL_SUCCESS && bytes.size() >= size;
  bool told = ticket == 0;
  Command(enqueue, device_bytes, attempted,
          [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) -> cl_int {
            if (!fits) return CL_INVALID_VALUE;
            // The message's own bytes are valid only during this call.
            std::shared_ptr<std::byte[]> copy;
            if (content.kind == proto::cl::Blob::kInline) {
              copy = std::shared_ptr<std::byte[]>(new std::byte[std::max<std::size_t>(bytes.size(), 1)]);
              std::ranges::copy(bytes, copy.get());
            }
            const cl_int error = call(queue, copy ? copy.get() : bytes.data(), count, waits, event);
            if (error != CL_SUCCESS || (!copy && ticket == 0)) return error;
            told = true;
            FreeAfter(*event, std::move(copy), ticket);
            return error;
          });
  if (!told) replies_->Send(proto::cl::Freed{.ticket = ticket});
}

}  // namespace weir::opencl
