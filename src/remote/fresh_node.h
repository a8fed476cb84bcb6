// SPDX-License-Identifier: Apache-2.0
// The new node of a migration before the client uses it. The migration's thread receives the messages of the new node's
// executor; no pump's thread runs for this connection yet.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "remote/pump.h"

namespace weir::remote {

class FreshNode final : private Sink {
 public:
  /// `in` and `stream` must not be used by any other code meanwhile.
  FreshNode(net::Stream& stream, InPump& in, const std::atomic<bool>& stop) : stream_(stream), in_(in), stop_(stop) {}

  // kTimeout: the new node has read nothing for kReadsWithin.
  Status Send(std::span<const std::vector<std::byte>> messages) {
    return SendMessages(stream_, messages, stop_, kReadsWithin);
  }
  Status Put(std::uint64_t offset, std::span<const std::byte> bytes) {
    return SendContents(stream_, offset, bytes, stop_, kReadsWithin);
  }
  /// Waits until `request` is answered with `expected`. kTimeout: there was no answer. kUnavailable: the answer was
  /// another one, or the connection has ended.
  Status Await(std::uint32_t request, std::int32_t expected, const char* what);
  /// kVersionMismatch: the node's device differs from the one that `here` describes. `here` is the body of the reply to
  /// request 0.
  Status SameDeviceAs(std::span<const std::byte> here);
  /// Messages from the executor that are meant for the client.
  std::vector<std::vector<std::byte>> TakeLate() { return std::move(late_); }
  /// The reason of a drain request of the new node; empty if there is none.
  std::string TakeDrainReason() { return std::move(leave_why_); }

 private:
  static constexpr Duration kReadsWithin = seconds(60);

  Status Take(std::span<std::byte> message) override;
  Result<std::span<std::byte>> Room(std::uint64_t, std::size_t) override {
    return Fail(Errc::kProtocol, "contents that were not requested");
  }
  Status MoveWanted(const std::string& why) override {
    leave_why_ = why;
    return Ok();
  }

  net::Stream& stream_;
  InPump& in_;
  const std::atomic<bool>& stop_;
  std::map<std::uint32_t, std::int32_t> answers_;
  std::vector<std::byte> facts_;
  std::vector<std::vector<std::byte>> late_;
  std::string leave_why_;
  std::size_t kept_bytes_ = 0;  // of all messages that were kept
};

}  // namespace weir::remote
