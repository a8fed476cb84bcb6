// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/replies.h"

#include <algorithm>
#include <cstring>

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
  kept_bytes_ += message.size();
  given_up_ |= kept_bytes_ > kKeptBytesMax;
  if (!given_up_) kept_.push_back(std::move(message));
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
}

}  // namespace weir::opencl
