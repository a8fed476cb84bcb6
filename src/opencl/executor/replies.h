// SPDX-License-Identifier: Apache-2.0
// The executor's messages to one client. Thread-safe: answers come from the session and from the driver's threads.
// Never waits for the client: messages without room are kept and sent later.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "opencl/channel/ring.h"
#include "opencl/executor/host_budget.h"
#include "proto/opencl_messages.h"

namespace weir::opencl {

class Replies {
 public:
  /// Limit of what is kept for a client that does not read. Beyond it the client is given up.
  static constexpr std::size_t kKeptBytesMax = 64 << 20;

  /// Kept messages count towards `budget`. If it has no room, the client is given up as well.
  explicit Replies(RingProducer out, std::shared_ptr<HostBudget> budget = nullptr)
      : out_(std::move(out)), budget_(std::move(budget)) {}
  ~Replies() { Close(); }
  Replies(const Replies&) = delete;
  Replies& operator=(const Replies&) = delete;

  template <typename M>
  void Send(const M& message) {
    const std::size_t bytes = proto::cl::SizeOf(message);
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    if (kept_.empty()) {
      if (std::byte* at = out_.Reserve(bytes)) {
        proto::cl::EncodeInto(message, {at, bytes});
        out_.Publish(bytes);
        if (!CanWait(message)) out_.Ring();
        return;
      }
    }
    Keep(proto::cl::Encode(message));
  }
  /// Sends the answer in as many messages as needed.
  void Answer(std::uint32_t request, std::int32_t status, proto::cl::ByteView body = {});
  template <typename M>
  void AnswerWith(std::uint32_t request, std::int32_t status, const M& body) {
    proto::cl::FieldWriter counter;
    M::Fields(body, counter);
    std::vector<std::byte> bytes(counter.size());
    proto::cl::FieldWriter writer(bytes);
    M::Fields(body, writer);
    Answer(request, status, bytes);
  }

  /// Sends kept messages as far as there is room. True: some remain.
  bool Flush();
  /// The client wrote invalid positions, or did not read for too long.
  [[nodiscard]] bool broken() const;
  /// Stops sending.
  void Close();

 private:
  void Keep(std::vector<std::byte> message);
  template <typename M>
  static bool CanWait([[maybe_unused]] const M& message) {
    if constexpr (std::is_same_v<M, proto::cl::Freed>) return (message.ticket & proto::cl::kNobodyWaits) != 0;
    return false;
  }

  mutable std::mutex mutex_;
  RingProducer out_;
  const std::shared_ptr<HostBudget> budget_;
  std::deque<std::vector<std::byte>> kept_;
  std::size_t kept_bytes_ = 0;
  bool closed_ = false;
  bool given_up_ = false;
};

}  // namespace weir::opencl
