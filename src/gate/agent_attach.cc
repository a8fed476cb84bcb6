// SPDX-License-Identifier: Apache-2.0
// How an agent attaches to a gate, also if the daemon answers late, and how it waits for a place in a vGPU that is
// full.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <utility>

#include "gate/agent.h"
#include "gate/attachment.h"
#include "platform/clock.h"
#include "platform/mutex.h"
#include "platform/unix_socket.h"

namespace weir::gate {

void Agent::StayAttached(std::int64_t now_ns) noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      if (current_) {
        ShowAgain(*current_);
        // Nothing passes without the gate because of what is seen now.
        static_cast<void>(StillThere(*current_, now_ns, /*look_at_socket=*/true, /*passing=*/false));
      }
    }
    if (const Ticket ticket = ArriveNow(now_ns, kAttachWait); ticket.attachment != nullptr) Withdraw(ticket);
  } catch (...) {  // out of memory: the next call tries again
  }
}

// Does not hold the mutex while it sleeps. Of several threads that wait here, the first one that wakes up after an
// attempt is due asks for a place.
Ticket Agent::AwaitPlace(Duration attach_wait) {
  for (;;) {
    const timespec nap{.tv_sec = 0, .tv_nsec = kWaitSlice.count()};
    ::nanosleep(&nap, nullptr);
    const std::int64_t now_ns = platform::NowNs();
    Ticket ticket = MayGetPlace(now_ns) ? ArriveNow(now_ns, attach_wait) : Ticket{};
    ticket.waited_for_place = true;
    if (!full_.load(std::memory_order_relaxed)) return ticket;
  }
}

/// Whether the agent goes on asking for a place. False: no process listens at the daemon's path, so the agent fails
/// open.
bool Agent::MayGetPlace(std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (!full_.load(std::memory_order_relaxed) || !platform::NobodyListens(attach_path_)) return true;
  AttachFailed(Fail(Errc::kUnavailable, attach_path_ + ": no daemon listens there any more"), now_ns);
  return false;
}

Attachment* Agent::AttachIfDue(std::int64_t now_ns, Duration wait) {
  if (attach_path_.empty() || now_ns < next_attempt_ns_.load(std::memory_order_relaxed)) return nullptr;
  const bool was_full = full_.load(std::memory_order_relaxed);
  const std::int64_t stale_at_ns = full_at_ns_ + proto::kHeartbeatStaleNs;
  Answer answer = Answer::kNone;
  std::int64_t deadline_ns = now_ns + wait.count();
  if (was_full)
    deadline_ns = std::max(stale_at_ns, now_ns + proto::kHeartbeatStaleNs / 2);
  else if (late_ && wait <= kAttachWait)
    deadline_ns = now_ns;  // in a frame: the program has already waited once for this daemon
  auto made = TryAttach(deadline_ns, answer);
  if (!made) {
    const std::int64_t failed_ns = platform::NowNs();
    if (answer == Answer::kNoPlace)
      GotNoPlace(std::move(made).error(), failed_ns);
    else if (was_full && answer == Answer::kNone && failed_ns < stale_at_ns && !platform::NobodyListens(attach_path_))
      next_attempt_ns_.store(failed_ns + kWaitSlice.count(), std::memory_order_relaxed);  // the daemon is busy
    else
      AttachFailed(std::move(made).error(), failed_ns);
    return nullptr;
  }
  retry_ns_ = 0;
  full_.store(false, std::memory_order_relaxed);
  last_error_.clear();
  current_ = std::move(*made);
  current_->users = 1;
  PublishDescription();
  attach_count_.fetch_add(1, std::memory_order_relaxed);
  attached_.store(true, std::memory_order_relaxed);
  return current_.get();
}

void Agent::GotNoPlace(Error why, std::int64_t now_ns) {
  full_.store(true, std::memory_order_relaxed);
  full_at_ns_ = now_ns;
  retry_ns_ = std::clamp(retry_ns_ * 2, 2 * kAttachRetry.count(), kPlaceRetryMax.count());
  next_attempt_ns_.store(now_ns + retry_ns_, std::memory_order_relaxed);
  last_error_ = std::move(why.message);
  if (!std::exchange(full_said_, true))
    std::fprintf(stderr, "weir: %s; this program waits until it is admitted\n", last_error_.c_str());
}

void Agent::AttachFailed(Error why, std::int64_t now_ns) {
  // An absent daemon is cheap to detect. A daemon that does not answer, or refuses, is asked less and less often.
  const bool no_daemon = why.code == Errc::kNotFound || why.code == Errc::kUnavailable;
  retry_ns_ =
      no_daemon ? kAttachRetry.count() : std::clamp(retry_ns_ * 2, 2 * kAttachRetry.count(), kAttachRetryMax.count());
  next_attempt_ns_.store(now_ns + (unanswered_ ? kAnswerLook.count() : retry_ns_), std::memory_order_relaxed);
  last_error_ = std::move(why.message);
  full_.store(false, std::memory_order_relaxed);
}

Status Agent::SayHello() {
  WEIR_TRY(platform::Fd socket, platform::ConnectSeqPacket(attach_path_));
  const proto::Hello hello{proto::kGateVersionMajor, proto::kGateVersionMinor, api_, program_};
  const Status sent = platform::SendPacket(socket.get(), proto::Encode(hello));
  // The daemon may have refused and closed the connection before the Hello was sent.
  if (!sent && !platform::WaitReadable(socket.get(), 0)) return sent.error();
  unanswered_ = std::move(socket);
  said_hello_ns_ = platform::NowNs();
  return Ok();
}

/// Sends a Hello, unless one is unanswered, and reads the answer if it comes by the deadline. A busy daemon answers
/// late: its answer is read from the same connection at a later call.
Result<std::unique_ptr<Attachment>> Agent::TryAttach(std::int64_t deadline_ns, Answer& answer) {
  if (unanswered_ && platform::NowNs() - said_hello_ns_ >= kAnswerLatest.count()) unanswered_.Reset();
  if (!unanswered_) WEIR_TRY_STATUS(SayHello());
  const std::int64_t left_ms = (deadline_ns - platform::NowNs()) / 1'000'000;
  late_ = !platform::WaitReadable(unanswered_.get(), static_cast<int>(std::max<std::int64_t>(left_ms, 0)));
  if (late_) return Fail(Errc::kTimeout, attach_path_ + ": no answer within the bound; is that a Weir daemon?");
  return ReadAnswer(std::exchange(unanswered_, {}), answer);
}

Result<std::unique_ptr<Attachment>> Agent::ReadAnswer(platform::Fd socket, Answer& answer) {
  auto made = std::make_unique<Attachment>();
  made->socket = std::move(socket);
  WEIR_TRY(platform::Packet packet, platform::ReceivePacket(made->socket.get(), proto::kAttachMessageBytesMax));
  if (packet.bytes.empty()) return Fail(Errc::kUnavailable, attach_path_ + ": the daemon closed the connection");
  answer = Answer::kOther;
  WEIR_TRY(const proto::AttachMessage message, proto::Decode(packet.bytes));
  if (const auto* refusal = std::get_if<proto::Refusal>(&message)) {
    if (refusal->code == Errc::kResourceExhausted) answer = Answer::kNoPlace;
    const bool leaving = refusal->code == Errc::kUnavailable;
    return Fail(leaving ? Errc::kUnavailable : Errc::kPermissionDenied, "the daemon refused: " + refusal->reason);
  }
  const auto* welcome = std::get_if<proto::Welcome>(&message);
  if (welcome == nullptr || packet.fds.size() != proto::kWelcomeFds)
    return Fail(Errc::kProtocol,
                attach_path_ + ": expected a Welcome with " + std::to_string(proto::kWelcomeFds) + " descriptors");

  using proto::kProcessRegionBytes, proto::kVgpuRegionBytes;
  WEIR_TRY(made->vgpu_mapping, platform::MapForeignRegion(packet.fds[proto::kVgpuRegionFd].get(), kVgpuRegionBytes));
  WEIR_TRY(made->process_mapping,
           platform::MapForeignRegion(packet.fds[proto::kProcessRegionFd].get(), kProcessRegionBytes));
  const char* fault = proto::HeaderFault(made->vgpu().header, proto::kVgpuRegionMagic, kVgpuRegionBytes);
  if (fault == nullptr)
    fault = proto::HeaderFault(made->process().header, proto::kProcessRegionMagic, kProcessRegionBytes);
  if (fault != nullptr) return Fail(Errc::kVersionMismatch, attach_path_ + ": the region is not usable: " + fault);
  made->doorbell = std::move(packet.fds[proto::kDoorbellFd]);
  made->device_cpus = welcome->device_cpus;
  return made;
}

}  // namespace weir::gate
