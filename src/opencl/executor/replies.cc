// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/replies.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weir::opencl {

namespace wire = proto::cl;

void Replies::Answer(std::uint32_t request, std::int32_t status, wire::ByteView body) {
  do {
    const wire::ByteView part = body.first(std::min(body.size(), wire::kReplyPartBytesMax));
    body = body.subspan(part.size());
    Send(wire::Reply{
        .request = request, .status = status, .more = body.empty() ? std::uint8_t{0} : std::uint8_t{1}, .part = part});
  } while (!body.empty());
}

void Replies::Keep(std::vector<std::byte> message) {
  const std::uint64_t bytes = message.size();
  if (given_up_) return;
  given_up_ = bytes > kKeptBytesMax - kept_bytes_ || (budget_ != nullptr && !budget_->Take(bytes));
  if (given_up_) return;
  kept_bytes_ += bytes;
  kept_.push_back(std::move(message));
}

bool Replies::Flush() {
  const std::lock_guard lock(mutex_);
  while (!kept_.empty()) {
    const std::vector<std::byte>& message = kept_.front();
    std::byte* at = out_.Reserve(message.size());
    if (at == nullptr) break;
    std::memcpy(at, message.data(), message.size());
    out_.Send(message.size());
    kept_bytes_ -= message.size();
    if (budget_ != nullptr) budget_->Return(message.size());
    kept_.pop_front();
  }
  return !kept_.empty();
}

bool Replies::broken() const {
  const std::lock_guard lock(mutex_);
  return given_up_ || out_.broken();
}

void Replies::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  kept_.clear();
  if (budget_ != nullptr) budget_->Return(std::exchange(kept_bytes_, 0));
}

}  // namespace weir::opencl
