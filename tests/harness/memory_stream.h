// SPDX-License-Identifier: Apache-2.0
// A stream whose input is fixed in advance and whose output is discarded.
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "net/stream.h"

namespace weir::testing {

class MemoryStream final : public net::Stream {
 public:
  explicit MemoryStream(std::span<const std::byte> said) : left_(said) {}

  Result<std::size_t> TrySend(std::span<const iovec> parts) override {
    std::size_t taken = 0;
    for (const iovec& part : parts) taken += part.iov_len;
    return taken;
  }
  Result<std::size_t> TryReceive(std::span<std::byte> into) override {
    if (left_.empty()) return Fail(Errc::kUnavailable, "closed by the other side");
    const std::size_t n = std::min(into.size(), left_.size());
    std::copy_n(left_.begin(), n, into.begin());
    left_ = left_.subspan(n);
    return n;
  }
  bool AwaitSend(Duration) override { return true; }
  bool AwaitReceive(Duration) override { return true; }
  void Shutdown() override { left_ = {}; }
  [[nodiscard]] const std::string& peer() const override { return peer_; }
  [[nodiscard]] const std::string& peer_name() const override { return peer_; }

 private:
  std::span<const std::byte> left_;
  const std::string peer_ = "memory";
};

}  // namespace weir::testing
