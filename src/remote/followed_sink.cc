// SPDX-License-Identifier: Apache-2.0
#include "remote/followed_sink.h"

#include <algorithm>

#include "platform/clock.h"
#include "proto/opencl_messages.h"
#include "remote/handshake.h"

namespace weir::remote {
namespace {

namespace cl = proto::cl;

/// Converts the times of an event from the node's clock to this machine's. `ahead_ns` is the estimated difference. An
/// event ends before its message arrives here, which gives a lower bound of the difference.
void MoveTimes(std::span<std::byte> message, std::int64_t& ahead_ns) {
  cl::EventDone done;
  if (!cl::Decode(message, done)) return;
  if (std::max({done.queued_ns, done.submit_ns, done.start_ns, done.end_ns}) > kClockMaxNs) return;
  const auto end_ns = static_cast<std::int64_t>(done.end_ns);
  if (end_ns != 0) ahead_ns = std::max(ahead_ns, end_ns - platform::NowNs());
  for (std::uint64_t* at : {&done.queued_ns, &done.submit_ns, &done.start_ns, &done.end_ns})
    if (*at != 0) *at = static_cast<std::uint64_t>(static_cast<std::int64_t>(*at) - ahead_ns);
  if (cl::SizeOf(done) == message.size()) cl::EncodeInto(done, message);
}

}  // namespace

Status FollowedSink::Take(std::span<std::byte> message) {
  cl::Header header;
  if (!cl::ReadHeader(message, header)) return Fail(Errc::kProtocol, "a malformed message");
  {
    const std::lock_guard lock(followed_.mutex);
    if (TakeOwn(header, message)) {
      followed_.changed.notify_all();
      return Ok();
    }
    const bool own = followed_.log.IsOwn(message);
    if (!followed_.log.FromExecutor(message)) return Fail(Errc::kProtocol, "a message that no executor sends");
    followed_.changed.notify_all();
    if (own) return Ok();
    if (header.op == cl::EventDone::kOp) MoveTimes(message, ahead_ns_);
  }
  return LineSink::Take(message);
}

/// Whether the message belongs to a migration and not to the client; an answer to a migration's request is recorded.
/// Also collects the platform's facts from the reply to request 0.
bool FollowedSink::TakeOwn(const cl::Header& header, std::span<const std::byte> message) {
  if (header.op == cl::Notice::kOp) return notices_are_nobodys_;
  cl::Reply reply;
  if (header.op != cl::Reply::kOp || !cl::Decode(message, reply)) return false;
  if (reply.request == 0 && !followed_.facts_complete) {
    followed_.facts.insert(followed_.facts.end(), reply.part.begin(), reply.part.end());
    followed_.facts_complete = reply.more == 0;
  }
  if (asked_.erase(reply.request) == 0) return false;
  answers_[reply.request] = reply.status;
  return true;
}

Result<std::span<std::byte>> FollowedSink::Room(std::uint64_t offset, std::size_t bytes) {
  if (offset < spare_at_) return LineSink::Room(offset, bytes);
  const std::uint64_t at = offset - spare_at_;
  const std::lock_guard lock(followed_.mutex);
  if (at > spare_.size() || bytes > spare_.size() - at || at / kSpareSlotBytes != (at + bytes - 1) / kSpareSlotBytes)
    return Fail(Errc::kProtocol, "contents that were not requested");
  std::uint64_t& arrived = arrived_[at / kSpareSlotBytes];
  if (at % kSpareSlotBytes == arrived) arrived += bytes;
  return std::span(spare_).subspan(at, bytes);
}

Status FollowedSink::MoveWanted(const std::string& why) {
  const std::lock_guard lock(followed_.mutex);
  followed_.drain_reason = why;
  return Ok();
}

void FollowedSink::OpenSpare() {
  const std::lock_guard lock(followed_.mutex);
  if (spare_.empty()) spare_ = ZeroedBytes(opencl::kSpareBytes);
}

std::uint32_t FollowedSink::NewRequest() {
  const std::lock_guard lock(followed_.mutex);
  const std::uint32_t request = next_request_++;
  if (next_request_ >= opencl::ObjectLog::kQuestions) next_request_ = kRequests;
  answers_.erase(request);
  asked_.insert(request);
  return request;
}

std::optional<std::int32_t> FollowedSink::AnswerTo(std::uint32_t request, Duration timeout) {
  std::unique_lock lock(followed_.mutex);
  followed_.changed.wait_for(lock, timeout, [&] { return ended_ || answers_.contains(request); });
  const auto answer = answers_.find(request);
  if (answer == answers_.end()) return std::nullopt;
  const std::int32_t status = answer->second;
  answers_.erase(answer);
  return status;
}

bool FollowedSink::AwaitAnswers(Duration timeout) {
  std::unique_lock lock(followed_.mutex);
  return followed_.changed.wait_for(lock, timeout, [&] { return ended_ || asked_.empty(); });
}

void FollowedSink::Expect(unsigned slot) {
  const std::lock_guard lock(followed_.mutex);
  arrived_[slot] = 0;
}

std::span<const std::byte> FollowedSink::ArrivedIn(unsigned slot) {
  const std::lock_guard lock(followed_.mutex);
  return std::span<const std::byte>(spare_).subspan(slot * kSpareSlotBytes, arrived_[slot]);
}

void FollowedSink::Notices(bool nobodys) {
  const std::lock_guard lock(followed_.mutex);
  notices_are_nobodys_ = nobodys;
}

void FollowedSink::Ended() {
  const std::lock_guard lock(followed_.mutex);
  ended_ = true;
  followed_.changed.notify_all();
}

}  // namespace weir::remote
