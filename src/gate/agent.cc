// SPDX-License-Identifier: Apache-2.0
#include "gate/agent.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <utility>

#include "gate/attachment.h"
#include "gate/statistic_words.h"
#include "gate/turns.h"
#include "platform/clock.h"
#include "platform/futex.h"
#include "platform/mutex.h"
#include "platform/unix_socket.h"

namespace weir::gate {
namespace {

using Lock = std::lock_guard<platform::Mutex>;
using proto::kHeartbeatStaleNs;

/// Prediction for the first frame, before any measurement.
constexpr std::int64_t kFirstPredictionNs = 1'000'000;

/// Counts this thread as waiting while the object lives. Locks the agent's mutex.
class Waiting {
 public:
  Waiting(platform::Mutex& mutex, Attachment& attachment) : mutex_(mutex), attachment_(attachment) {
    Add(1, std::memory_order_seq_cst);
  }
  ~Waiting() { Add(kMinusOne, std::memory_order_relaxed); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  void Add(std::uint32_t more, std::memory_order order) {
    const Lock lock(mutex_);
    Show(attachment_.waiting, more, attachment_.process().waiting, order);
  }
  platform::Mutex& mutex_;
  Attachment& attachment_;
};

/// Whether the peer has closed the connection. Leaves messages in the socket.
bool SocketClosed(int fd) {
  char byte = 0;
  const ssize_t got = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace

Agent::Agent(std::string attach_path, proto::Api api, std::string program)
    : attach_path_(std::move(attach_path)), api_(api), program_(std::move(program)) {}

Agent::~Agent() = default;

bool Agent::Wanted() const noexcept {
  if (attached_.load(std::memory_order_relaxed) || full_.load(std::memory_order_relaxed)) return true;
  return !attach_path_.empty() && platform::CoarseNowNs() >= next_attempt_ns_.load(std::memory_order_relaxed);
}

Ticket Agent::Arrive(std::int64_t now_ns, Duration attach_wait) noexcept {
  try {
    const Ticket ticket = ArriveNow(now_ns, attach_wait);
    return full_.load(std::memory_order_relaxed) ? AwaitPlace(attach_wait) : ticket;
  } catch (...) {
    return {};  // at worst out of memory: the program continues without a gate
  }
}

Ticket Agent::ArriveNow(std::int64_t now_ns, Duration attach_wait) {
  const Lock lock(mutex_);
  Attachment* attachment = current_ ? current_.get() : AttachIfDue(now_ns, attach_wait);
  if (attachment == nullptr || !StillThere(*attachment, now_ns, false)) return {};
  if (attachment->vgpu().messages_sent.load(std::memory_order_acquire) != attachment->messages_seen) {
    ReadMessages(*attachment);
    if (attachment->dropped.load(std::memory_order_relaxed)) return Drop(false), Ticket{};
  }
  ++attachment->users;
  return {.attachment = attachment, .reserved_ns = predicted_ns_ > 0 ? predicted_ns_ : kFirstPredictionNs};
}

Pace Agent::PaceOf(const Ticket& ticket) noexcept {
  if (ticket.attachment == nullptr || ticket.attachment->dropped.load(std::memory_order_relaxed)) return {};
  const proto::VgpuRegion& region = ticket.attachment->vgpu();
  const std::uint32_t sync = region.frame_sync.load(std::memory_order_relaxed);
  const std::uint32_t start = region.frame_start.load(std::memory_order_relaxed);
  return {.interval_ns = std::clamp<std::int64_t>(region.frame_interval_ns.load(std::memory_order_relaxed), 0,
                                                  kPaceIntervalMax.count()),
          .sync = sync <= proto::kFrameSyncMax ? static_cast<proto::FrameSync>(sync) : proto::FrameSync::kAuto,
          .start = start <= proto::kFrameStartMax ? static_cast<proto::FrameStart>(start) : proto::FrameStart::kEarly};
}

bool Agent::MustWait(const Ticket& ticket) noexcept {
  return ticket.attachment != nullptr && !ticket.attachment->dropped.load(std::memory_order_relaxed) &&
         ticket.attachment->vgpu().mode.load(std::memory_order_relaxed) !=
             static_cast<std::uint32_t>(proto::GateMode::kOpen);
}

std::int64_t Agent::Delay(const Ticket& ticket, std::int64_t until_ns, std::int64_t interval_ns, bool& gone) noexcept {
  Attachment& attachment = *ticket.attachment;
  proto::VgpuRegion& region = attachment.vgpu();
  std::int64_t now_ns = platform::NowNs();
  std::int64_t looked_ns = now_ns;
  gone = false;
  while (now_ns < until_ns) {
    const std::uint32_t word = region.wake_word.load(std::memory_order_acquire);
    if (PaceOf(ticket).interval_ns != interval_ns) break;
    platform::FutexWait(region.wake_word, word, std::min(Duration{until_ns - now_ns}, kWaitSlice), kWaitsForNoTurn);
    now_ns = platform::NowNs();
    if (now_ns - looked_ns < kWaitSlice.count()) continue;
    looked_ns = now_ns;
    const Lock lock(mutex_);
    gone = !StillThere(attachment, now_ns, true);
    if (gone) break;
  }
  return now_ns;
}

void Agent::Enter(Ticket& ticket, std::int64_t now_ns) noexcept {
  if (ticket.attachment == nullptr) return;
  Attachment& attachment = *ticket.attachment;
  try {
    if (!attachment.TryReserve(ticket.reserved_ns)) Wait(attachment, ticket, now_ns);
  } catch (...) {  // out of memory: the program continues, and Leave settles
    attachment.vgpu().allowance_ns.fetch_sub(ticket.reserved_ns, std::memory_order_relaxed);
  }
  {
    const Lock lock(mutex_);
    Show(attachment.reserved_ns, ticket.reserved_ns, attachment.process().reserved_ns);
    // Sequentially consistent here and in the daemon (ProcessGate::Count): either the daemon sees this work in flight,
    // or this thread sees that the daemon wants the doorbell.
    Show(attachment.in_flight, 1, attachment.process().in_flight, std::memory_order_seq_cst);
  }
  if (attachment.DoorbellWanted(proto::kRingAtEntry)) attachment.RingDoorbell();
  ticket.entered = true;
}

Ticket Agent::Enter(std::int64_t now_ns) noexcept {
  Ticket ticket = Arrive(now_ns);
  Enter(ticket, ticket.waited_for_place ? platform::NowNs() : now_ns);
  return ticket;
}

void Agent::Charge(Ticket& ticket, std::int64_t used_ns) noexcept {
  if (ticket.attachment == nullptr || !ticket.entered || used_ns <= ticket.reserved_ns) return;
  const std::int64_t more_ns = used_ns - std::exchange(ticket.reserved_ns, used_ns);
  {
    const Lock lock(mutex_);
    Show(ticket.attachment->reserved_ns, more_ns, ticket.attachment->process().reserved_ns);
  }
  ticket.attachment->vgpu().allowance_ns.fetch_sub(more_ns, std::memory_order_relaxed);
}

/// A program that draws ahead of the device presents frames whose GPU time becomes known some frames later. Each stays
/// charged with its predicted time until then. Otherwise such frames would cost nothing when they pass the gate, and
/// the program would fill the driver's queue at once. Returns by how much these charges grow; negative: frames became
/// known.
std::int64_t Agent::Keep(Attachment& attachment, int unknown, std::int64_t gpu_ns) {
  if (unknown == Frame::kEndsNothing) {
    late_ns_ += gpu_ns;
    return 0;
  }
  const bool counts = unknown != Frame::kNoFrame;
  const int known = counts ? attachment.unknown + 1 - unknown : 1;
  if (counts) attachment.unknown = unknown;
  if (known > 0) {
    const std::int64_t mean_ns = (gpu_ns + std::exchange(late_ns_, 0)) / known;
    predicted_ns_ = predicted_ns_ == 0 ? mean_ns : (predicted_ns_ * 3 + mean_ns) / 4;
  }
  const std::int64_t before_ns = std::exchange(attachment.predicted_ns, attachment.unknown * predicted_ns_);
  return attachment.predicted_ns - before_ns;
}

void Agent::Leave(const Ticket& ticket, const Frame& frame) noexcept {
  if (ticket.attachment == nullptr) return;
  Attachment& attachment = *ticket.attachment;
  const std::int64_t gpu_ns = std::max<std::int64_t>(frame.gpu_ns, 0);
  const std::int64_t reserved_ns = ticket.entered ? ticket.reserved_ns : 0;
  // Time of the driver's present if it was called at once after the wait
  const std::int64_t at_once_ns = std::min(frame.present_ns + ticket.wait_ns, frame.end_ns);

  const Lock lock(mutex_);
  const std::int64_t kept_ns = Keep(attachment, frame.unknown, gpu_ns);
  attachment.vgpu().allowance_ns.fetch_sub(gpu_ns + kept_ns - reserved_ns, std::memory_order_relaxed);
  proto::ProcessRegion& process = attachment.process();
  Show(attachment.reserved_ns, kept_ns - reserved_ns, process.reserved_ns);
  Show(attachment.gpu_ns_total, gpu_ns, process.gpu_ns_total);
  if (ticket.entered) Show(attachment.in_flight, kMinusOne, process.in_flight);
  const bool last = ticket.entered && attachment.in_flight == 0;
  // No stronger order is needed: a daemon that sets the bit at this moment polls again at its next tick anyway.
  if (last && attachment.DoorbellWanted(proto::kRingAtEnd)) attachment.RingDoorbell();
  attachment.Push({.sequence = ++attachment.sequence,
                   .kind = static_cast<std::uint32_t>(proto::RecordKind::kFrame),
                   .surface = frame.surface,
                   .begin_ns = frame.begin_ns,
                   .present_ns = frame.present_ns,
                   .submit_ns = frame.submit_ns != 0 ? frame.submit_ns : at_once_ns,
                   .end_ns = frame.end_ns,
                   .gpu_ns = gpu_ns,
                   .sync_ns = frame.sync_ns,
                   .pace_ns = frame.pace_ns,
                   .wait_ns = ticket.wait_ns,
                   .predicted_ns = frame.predicted_ns,
                   .interval_ns = frame.interval_ns,
                   .reserved_ns = reserved_ns,
                   .tasks = frame.tasks,
                   .reserved0 = {},
                   .start_delay_ns = frame.start_delay_ns,
                   .reserved = {}});
  Release(ticket.attachment);
}

void Agent::Withdraw(const Ticket& ticket) noexcept {
  if (ticket.attachment == nullptr) return;
  const Lock lock(mutex_);
  Release(ticket.attachment);
}

void Agent::Wait(Attachment& attachment, Ticket& ticket, std::int64_t now_ns) {
  proto::VgpuRegion& region = attachment.vgpu();
  const Waiting waiting(mutex_, attachment);
  const std::int64_t start_ns = now_ns;
  std::int64_t looked_ns = now_ns;  // last check of the socket; signals and wakes end waits early
  bool slice_over = false;
  if (attachment.DoorbellWanted(proto::kRingAtEntry)) attachment.RingDoorbell();
  for (;;) {
    // Read before everything that a wake may announce: a message or an allowance that comes later ends the sleep.
    const std::uint32_t word = region.wake_word.load(std::memory_order_acquire);
    {
      const Lock lock(mutex_);
      Show(attachment.waiting, 0, attachment.process().waiting);  // again, in case it was overwritten
      if (region.messages_sent.load(std::memory_order_acquire) != attachment.messages_seen) ReadMessages(attachment);
      if (!StillThere(attachment, now_ns, slice_over)) {
        region.allowance_ns.fetch_sub(ticket.reserved_ns, std::memory_order_relaxed);  // Leave settles it
        break;
      }
    }
    if (attachment.TryReserve(ticket.reserved_ns)) break;
    // A paused process can't use its turn, and must not keep the turn from others.
    const bool paused = attachment.paused.load(std::memory_order_relaxed);
    const Duration waited{paused ? 0 : now_ns - start_ns};
    const std::uint32_t turn = TurnBit(waited);
    NoteTurn(region, turn);
    platform::FutexWait(region.wake_word, word, WaitSlice(waited), turn);
    now_ns = platform::NowNs();
    slice_over = now_ns - looked_ns >= kWaitSlice.count();
    if (slice_over) looked_ns = now_ns;
  }
  ticket.wait_ns = platform::NowNs() - start_ns;  // also of a wait that ended before its first sleep
  // The daemon wakes one thread, and each woken thread wakes the next one while there is allowance left.
  if (region.allowance_ns.load(std::memory_order_relaxed) > 0) WakeNext(region);
}

bool Agent::StillThere(Attachment& attachment, std::int64_t now_ns, bool look_at_socket, bool passing) {
  if (attachment.dropped.load(std::memory_order_relaxed)) {
    if (current_.get() == &attachment) Drop(false);
    return false;
  }
  const bool stale = now_ns - attachment.vgpu().heartbeat_ns.load(std::memory_order_relaxed) > kHeartbeatStaleNs;
  const bool suspicious = stale || look_at_socket;
  if (!suspicious || (!stale && !SocketClosed(attachment.socket.get()))) return true;
  if (current_.get() == &attachment) Drop(/*count_fail_open=*/passing);
  return false;
}

void Agent::Drop(bool count_fail_open) {
  if (count_fail_open) current_->vgpu().fail_opens.fetch_add(1, std::memory_order_relaxed);
  current_->dropped.store(true, std::memory_order_relaxed);
  GiveUpWord(*current_);
  attached_.store(false, std::memory_order_relaxed);
  next_attempt_ns_.store(platform::NowNs() + kAttachRetry.count(), std::memory_order_relaxed);
  Release(current_.release());
}

void Agent::Release(Attachment* attachment) {
  if (--attachment->users == 0) delete attachment;
}

void Agent::ReadMessages(Attachment& attachment) {
  constexpr int kMessagesMax = 64;  // a bound for one visit: the next visit reads the rest
  const std::uint64_t sent = attachment.vgpu().messages_sent.load(std::memory_order_acquire);
  for (int i = 0; i < kMessagesMax; ++i) {
    auto packet = platform::ReceivePacket(attachment.socket.get(), proto::kAttachMessageBytesMax);
    if (!packet && packet.error().code == Errc::kProtocol) continue;
    if (!packet || packet->bytes.empty()) {  // no further message, or the connection is closed (StillThere)
      attachment.messages_seen = sent;
      return;
    }
    const auto message = proto::Decode(packet->bytes);
    if (!message) continue;
    const auto* command = std::get_if<proto::Command>(&*message);
    if (command == nullptr) continue;
    proto::Ack ack{.sequence = command->sequence, .code = Errc::kInternal, .done = true};
    switch (command->kind) {
      case proto::CommandKind::kPause: attachment.SetPaused(true); break;
      case proto::CommandKind::kResume: attachment.SetPaused(false); break;
      case proto::CommandKind::kDetach: attachment.dropped.store(true, std::memory_order_relaxed); break;
      case proto::CommandKind::kEvict:
      case proto::CommandKind::kDrain:
      case proto::CommandKind::kMigrate: ack = {command->sequence, Errc::kInvalidArgument, false}; break;
    }
    // If the daemon does not read, an Ack may not fit into the socket and is lost. The daemon then soon treats this
    // agent as dead.
    static_cast<void>(platform::SendPacket(attachment.socket.get(), proto::Encode(ack)));
  }
}

proto::CpuMask Agent::device_cpus() const noexcept {
  const Lock lock(mutex_);
  return current_ ? current_->device_cpus : proto::CpuMask{};
}

bool Agent::gated() const noexcept {
  const Lock lock(mutex_);
  return current_ &&
         current_->vgpu().mode.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(proto::GateMode::kGated);
}

// Reads a sequence lock: `memory_order` is read before and after the other words, and is odd while they are written. A
// mixture of two orders is discarded.
MemoryOrder Agent::memory_order() const noexcept {
  const Lock lock(mutex_);
  if (!current_) return memory_order_;
  const proto::VgpuRegion& region = current_->vgpu();
  for (int i = 0; i < 8; ++i) {
    const MemoryOrder order{.number = region.memory_order.load(std::memory_order_acquire),
                            .elastic = region.memory_elastic.load(std::memory_order_acquire) == 1,
                            .limit = region.memory_limit_slots.load(std::memory_order_acquire),
                            .here = region.memory_here_slots.load(std::memory_order_acquire),
                            .max = region.memory_max_slots.load(std::memory_order_acquire)};
    if (order.number == 0) break;  // no order has been given yet
    if (order.number % 2 != 0 || region.memory_order.load(std::memory_order_acquire) != order.number) continue;
    memory_order_ = order;
    break;
  }
  return memory_order_;
}

void Agent::AwaitMemoryOrder(std::uint32_t known, Duration timeout) noexcept {
  Attachment* attachment = nullptr;
  {
    const Lock lock(mutex_);
    attachment = current_.get();
    if (attachment != nullptr) ++attachment->users;
  }
  if (attachment == nullptr) {
    const timespec nap{.tv_sec = 0, .tv_nsec = std::min<std::int64_t>(timeout.count(), kWaitSlice.count())};
    ::nanosleep(&nap, nullptr);
    return;
  }
  proto::VgpuRegion& region = attachment->vgpu();
  const std::uint32_t word = region.wake_word.load(std::memory_order_acquire);
  if (region.memory_order.load(std::memory_order_acquire) == known)
    platform::FutexWait(region.wake_word, word, std::min(timeout, kWaitSlice), kWaitsForNoTurn);
  const Lock lock(mutex_);
  Release(attachment);
}

void Agent::ReportMemory(const proto::ExecutorStatistics& statistics, bool ring) noexcept {
  const Lock lock(mutex_);
  if (!current_) return;
  StoreStatistics(statistics, current_->process());
  if (ring) current_->RingDoorbell();
}

void Agent::ReportUse(std::uint64_t work_items, std::uint64_t memory_bytes, std::uint32_t memory_refused) noexcept {
  const Lock lock(mutex_);
  if (!current_) return;
  proto::ProcessRegion& process = current_->process();
  process.work_items.store(work_items, std::memory_order_relaxed);
  process.memory_bytes.store(memory_bytes, std::memory_order_relaxed);
  process.memory_refused.store(memory_refused, std::memory_order_relaxed);
}

void Agent::Describe(proto::MeterKind meter, const char* renderer) noexcept {
  const Lock lock(mutex_);
  meter_ = meter;
  std::strncpy(renderer_, renderer, sizeof renderer_ - 1);
  if (current_) PublishDescription();
}

void Agent::ReportOffScreen(bool off_screen) noexcept {
  const Lock lock(mutex_);
  off_screen_ = off_screen;
  if (current_) current_->process().off_screen.store(off_screen ? 1 : 0, std::memory_order_relaxed);
}

void Agent::PublishDescription() {
  proto::ProcessRegion& process = current_->process();
  process.meter.store(static_cast<std::uint32_t>(meter_), std::memory_order_relaxed);
  std::memcpy(process.renderer, renderer_, sizeof renderer_);
  process.off_screen.store(off_screen_ ? 1 : 0, std::memory_order_relaxed);
  if (api_ != proto::Api::kOpenCl) PublishMemory(/*claiming=*/false);  // an executor reports its memory by ReportUse
}

void Agent::AbandonInChild() noexcept {
  unanswered_.Reset();
  if (current_ == nullptr) return;
  current_->socket.Reset();
  current_->doorbell.Reset();
}

std::string Agent::last_error() const {
  const Lock lock(mutex_);
  return last_error_;
}

}  // namespace weir::gate
