// SPDX-License-Identifier: Apache-2.0
// The node that a program goes to, before it is there: its executor's answers are read by whoever asks.
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
  /// Nobody else reads `in`, nor sends on `stream`.
  FreshNode(net::Stream& stream, InPump& in, const std::atomic<bool>& stop) : stream_(stream), in_(in), stop_(stop) {}

  Status Send(std::span<const std::vector<std::byte>> messages) { return SendMessages(stream_, messages, stop_); }
  Status Put(std::uint64_t offset, std::span<const std::byte> bytes) {
    return SendContents(stream_, offset, bytes, stop_);
  }
  /// Until `request` is answered as expected. kTimeout; kUnavailable: it was answered otherwise, or the node has gone.
  Status Await(std::uint32_t request, std::int32_t expected, const char* what);
  /// kVersionMismatch, in words, where its device is another one than `here`, the body of the reply to request 0.
  Status SameDeviceAs(std::span<const std::byte> here);
  /// What it has said and is the client's.
  std::vector<std::vector<std::byte>> TakeLate() { return std::move(late_); }
  /// Why it asks already to be left again; empty: it does not.
  std::string TakeLeaveWhy() { return std::move(leave_why_); }

 private:
  Status Take(std::span<std::byte> message) override;
  Result<std::span<std::byte>> Room(std::uint64_t, std::size_t) override {
    return Fail(Errc::kProtocol, "contents that nobody has asked for");
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
};

}  // namespace weir::remote
