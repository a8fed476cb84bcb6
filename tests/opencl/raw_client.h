// SPDX-License-Identifier: Apache-2.0
// A client that speaks the protocol by hand, for what a well-behaved one never sends.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "opencl/channel/cl.h"
#include "opencl/channel/handshake.h"
#include "platform/clock.h"
#include "proto/opencl_messages.h"

namespace weir::testing {

class RawClient {
 public:
  explicit RawClient(opencl::Connection connection) : connection_(std::move(connection)) {}

  void SendBytes(std::span<const std::byte> bytes) {
    std::byte* at = connection_.channel.out.Reserve(bytes.size());
    ASSERT_NE(at, nullptr);
    std::memcpy(at, bytes.data(), bytes.size());
    connection_.channel.out.Send(bytes.size());
  }
  template <typename M>
  void Send(const M& message) {
    SendBytes(proto::cl::Encode(message));
  }

  struct Answer {
    std::int32_t status = -9999;  // none came
    std::vector<std::byte> body;
  };
  /// The whole answer to `request`. Meanwhile what else comes is kept.
  Answer AnswerTo(std::uint32_t request, Duration within = seconds(30)) {
    const std::int64_t until = platform::NowNs() + within.count();
    while (!answers_.contains(request) && Receive(until)) continue;
    const auto found = answers_.find(request);
    if (found == answers_.end()) return {};
    Answer answer = std::move(found->second);
    answers_.erase(found);
    return answer;
  }
  std::int32_t Finish(std::uint32_t queue) {
    Send(proto::cl::Finish{.request = ++request_, .queue = queue});
    return AnswerTo(request_).status;
  }
  /// The event's status, once it has ended.
  std::int32_t EndOf(std::uint32_t event, Duration within = seconds(30)) {
    Send(proto::cl::Watch{.event = event});
    const std::int64_t until = platform::NowNs() + within.count();
    while (!ended_.contains(event) && Receive(until)) continue;
    return ended_.contains(event) ? ended_[event].status : -9999;
  }
  proto::cl::EventDone Ended(std::uint32_t event) { return ended_[event]; }
  bool Freed(std::uint64_t ticket, Duration within = seconds(30)) {
    const std::int64_t until = platform::NowNs() + within.count();
    while (freed_[ticket] == 0 && Receive(until)) continue;
    return freed_[ticket] == 1;
  }
  /// Whether the executor has closed the connection.
  bool Gone(Duration within = seconds(10)) {
    const std::int64_t until = platform::NowNs() + within.count();
    while (opencl::StillConnected(connection_.socket.get()) && platform::NowNs() < until) Receive(until);
    return !opencl::StillConnected(connection_.socket.get());
  }

  [[nodiscard]] std::byte* arena() { return connection_.arena.As<std::byte>(); }
  [[nodiscard]] std::uint64_t arena_bytes() const { return connection_.arena.bytes(); }
  opencl::Connection& connection() { return connection_; }
  std::vector<std::string> notices;
  std::vector<std::uint32_t> ended_in_order;                     // events
  std::vector<std::pair<std::uint64_t, std::uint64_t>> arrived;  // offset and size of `arrivals`
  std::vector<proto::cl::Arrived> arrivals;

 private:
  /// One message, if one comes within 20 ms. False: it is too late for more.
  bool Receive(std::int64_t until) {
    const auto message = connection_.channel.in.Next(scratch_);
    EXPECT_TRUE(message);
    if (!message) return false;
    if (message->empty()) {
      connection_.channel.in.Wait(milliseconds(20));
      return platform::NowNs() < until;
    }
    proto::cl::Header header;
    proto::cl::ReadHeader(*message, header);
    proto::cl::Reply reply;
    proto::cl::EventDone done;
    proto::cl::Freed freed;
    proto::cl::Notice notice;
    proto::cl::Arrived has_arrived;
    switch (header.op) {
      case proto::cl::Reply::kOp:
        EXPECT_TRUE(proto::cl::Decode(*message, reply));
        parts_.insert(parts_.end(), reply.part.begin(), reply.part.end());
        if (reply.more == 0) answers_[reply.request] = {reply.status, std::exchange(parts_, {})};
        break;
      case proto::cl::EventDone::kOp:
        EXPECT_TRUE(proto::cl::Decode(*message, done));
        ended_[done.event] = done;
        ended_in_order.push_back(done.event);
        break;
      case proto::cl::Freed::kOp:
        EXPECT_TRUE(proto::cl::Decode(*message, freed));
        ++freed_[freed.ticket];
        break;
      case proto::cl::Notice::kOp:
        EXPECT_TRUE(proto::cl::Decode(*message, notice));
        notices.emplace_back(notice.text);
        break;
      case proto::cl::Arrived::kOp:
        EXPECT_TRUE(proto::cl::Decode(*message, has_arrived));
        arrived.emplace_back(has_arrived.offset, has_arrived.size);
        arrivals.push_back(has_arrived);
        break;
      default: ADD_FAILURE() << "an executor does not send op " << header.op;
    }
    return true;
  }

  opencl::Connection connection_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(proto::cl::kMessageBytesMax);
  std::vector<std::byte> parts_;
  std::map<std::uint32_t, Answer> answers_;
  std::map<std::uint32_t, proto::cl::EventDone> ended_;
  std::map<std::uint64_t, int> freed_;
  std::uint32_t request_ = 1000;
};

/// A body, decoded.
template <typename M>
M BodyAs(const std::vector<std::byte>& body) {
  M decoded;
  proto::cl::FieldReader reader(body);
  M::Fields(decoded, reader);
  EXPECT_FALSE(reader.malformed());
  return decoded;
}

}  // namespace weir::testing
