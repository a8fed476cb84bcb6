// SPDX-License-Identifier: Apache-2.0
// The agent's part in the vGPU's memory limit: what this process holds, and its claims to more (memory_claim.h).
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <mutex>

#include "gate/agent.h"
#include "gate/attachment.h"
#include "gate/memory_claim.h"
#include "platform/clock.h"
#include "platform/mutex.h"

namespace weir::gate {
namespace {

using MemoryLock = std::lock_guard<platform::Mutex>;

/// Time that the first call waits for the daemon's answer. Programs ask how much memory there is, and allocate, before
/// they launch anything. What a program allocates before it is attached is not limited.
constexpr Duration kFirstAttachWait = seconds(1);

/// The memory limit in force, in bytes; 0: none. Elastic memory has a limit that follows the executors' needs, so its
/// upper bound counts.
std::uint64_t LimitOf(const MemoryOrder& order) {
  return std::uint64_t{order.elastic ? order.max : order.limit} * kSlotBytes.count;
}

/// Index of the process's word in the vGPU's table; kMemoryWords: it has none.
std::size_t WordOf(const proto::ProcessRegion& process) {
  const std::uint32_t word = process.memory_word.load(std::memory_order_relaxed);
  return word >= 1 && word <= proto::kMemoryWords ? word - 1 : proto::kMemoryWords;
}

/// Whether the daemon knows of words. One of an earlier version gives none.
bool HasWords(const Attachment& attachment) { return attachment.process().header.version_minor >= 10; }

}  // namespace

Duration Agent::AttachWaitForMemory() noexcept {
  const bool due = platform::NowNs() >= next_attempt_ns_.load(std::memory_order_relaxed);
  const bool first = due && attach_count_.load(std::memory_order_relaxed) == 0 && !asked_.exchange(true);
  return first ? kFirstAttachWait : kAttachWait;
}

Ticket Agent::ArriveForMemory() noexcept {
  const Duration wait = AttachWaitForMemory();
  Ticket ticket = Arrive(platform::NowNs(), wait);
  if (ticket.attachment == nullptr || IsConnected(*ticket.attachment)) return ticket;
  Withdraw(ticket);
  return Arrive(platform::NowNs(), wait);
}

/// The daemon gives the word of a connection that has ended to another process, also if this one still lives.
bool Agent::IsConnected(Attachment& attachment) {
  const MemoryLock lock(mutex_);
  return StillThere(attachment, platform::NowNs(), true);
}

/// Publishes what the process holds. Requires mutex_. A thread that holds memory_mutex_ writes the word itself when its
/// claim has ended: in the middle of a claim the word must not be written by another thread. It lets go of
/// memory_mutex_ before mutex_, so that a thread that finds memory_mutex_ held is not too late for that write.
void Agent::PublishMemory(bool claiming) {
  if (!current_) return;
  const std::uint64_t held = held_bytes_.load(std::memory_order_relaxed);
  proto::ProcessRegion& process = current_->process();
  process.memory_bytes.store(held, std::memory_order_relaxed);
  process.memory_refused.store(refused_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  if (!claiming && !memory_mutex_.try_lock()) return;
  if (const std::size_t word = WordOf(process); word < proto::kMemoryWords)
    MemoryClaim(current_->vgpu().memory, word, MemoryPagesOf(held), 0).Withdraw();
  if (!claiming) memory_mutex_.unlock();
}

/// Requires memory_mutex_, and lets go of it.
void Agent::EndClaim() {
  const MemoryLock lock(mutex_);
  PublishMemory(/*claiming=*/true);
  memory_mutex_.unlock();
}

/// A process that attaches again gets another word, perhaps before the daemon has noticed that the connection has
/// ended. What it holds must not be in both. A daemon that has ended the connection itself may have given the word to
/// another process, so the word is left as it is unless it still says what this process holds. Requires mutex_.
void Agent::GiveUpWord(const Attachment& attachment) {
  const std::size_t word = WordOf(attachment.process());
  if (word >= proto::kMemoryWords) return;
  const std::uint64_t held = held_bytes_.load(std::memory_order_relaxed);
  MemoryClaim(attachment.vgpu().memory, word, MemoryPagesOf(held), 0).GiveUp();
}

/// The limit of this process's claims, in bytes; 0: none.
std::uint64_t Agent::MemoryLimit() const {
  return limits_.load(std::memory_order_relaxed) ? LimitOf(memory_order()) : 0;
}

/// Requires memory_mutex_.
bool Agent::ClaimWithoutWord(const Attachment& attachment) {
  if (LimitOf(memory_order()) == 0) return true;
  const bool refused = HasWords(attachment);
  if (!wordless_said_ && refused)
    std::fprintf(stderr, "weir: this program gets no device memory: too many processes of its vGPU are attached%s\n",
                 api_ == proto::Api::kCuda ? "" : ", or the daemon is too old for this program");
  else if (!wordless_said_)
    std::fprintf(stderr, "weir: the memory limit of this vGPU does not hold for this program: the daemon is too old\n");
  wordless_said_ = true;
  return !refused;
}

/// Requires memory_mutex_.
bool Agent::Claim(const Attachment& attachment, std::uint64_t bytes) {
  const std::uint64_t held = held_bytes_.load(std::memory_order_relaxed);
  const std::size_t word = WordOf(attachment.process());
  limits_.store(HasWords(attachment), std::memory_order_relaxed);
  if (word >= proto::kMemoryWords) return ClaimWithoutWord(attachment);
  const std::uint32_t held_pages = MemoryPagesOf(held);
  MemoryClaim claim(attachment.vgpu().memory, word, held_pages, MemoryPagesOf(held + bytes) - held_pages);
  const std::int64_t until_ns = platform::NowNs() + kClaimWait.count();
  for (std::int64_t nap_ns = 20'000;; nap_ns = std::min<std::int64_t>(2 * nap_ns, 1'000'000)) {
    const std::uint64_t limit = LimitOf(memory_order());
    if (limit == 0) return true;
    const MemoryClaim::Answer answer =
        claim.Announce() ? claim.Decide(limit / proto::kMemoryPageBytes) : MemoryClaim::Answer::kAgain;
    if (answer != MemoryClaim::Answer::kAgain) return answer == MemoryClaim::Answer::kTaken;
    if (platform::NowNs() >= until_ns) return claim.Withdraw(), false;
    const timespec nap{.tv_sec = 0, .tv_nsec = nap_ns};
    ::nanosleep(&nap, nullptr);
  }
}

bool Agent::ClaimMemory(std::uint64_t bytes) noexcept {
  const Ticket ticket = ArriveForMemory();
  bool taken = false;
  memory_mutex_.lock();
  const std::uint64_t held = held_bytes_.load(std::memory_order_relaxed);
  std::uint64_t all = 0;
  const bool fits = !__builtin_add_overflow(held, bytes, &all);
  const std::uint64_t limit = MemoryLimit();
  if (fits && ticket.attachment != nullptr)
    taken = Claim(*ticket.attachment, bytes);
  else
    taken = fits && (limit == 0 || all <= limit);
  if (taken)
    held_bytes_.store(all, std::memory_order_relaxed);
  else
    refused_.fetch_add(1, std::memory_order_relaxed);
  EndClaim();
  Withdraw(ticket);
  return taken;
}

void Agent::ReleaseMemory(std::uint64_t bytes) noexcept {
  memory_mutex_.lock();
  const std::uint64_t held = held_bytes_.load(std::memory_order_relaxed);
  held_bytes_.store(held - std::min(held, bytes), std::memory_order_relaxed);
  EndClaim();
}

MemoryUse Agent::UsedMemory() noexcept {
  // A question does not wait for a place in a vGPU that is full.
  const Ticket ticket = ArriveNow(platform::NowNs(), AttachWaitForMemory());
  if (ticket.attachment != nullptr) limits_.store(HasWords(*ticket.attachment), std::memory_order_relaxed);
  MemoryUse use{.limit = MemoryLimit(), .held = held_bytes_.load(std::memory_order_relaxed)};
  if (ticket.attachment != nullptr && HasWords(*ticket.attachment))
    use.held = HeldPages(ticket.attachment->vgpu().memory) * proto::kMemoryPageBytes;
  Withdraw(ticket);
  return use;
}

std::uint64_t Agent::programs_memory() const noexcept {
  const MemoryLock lock(mutex_);
  if (current_)
    programs_memory_ = current_->vgpu().memory.others_pages.load(std::memory_order_relaxed) * proto::kMemoryPageBytes;
  return programs_memory_;
}

}  // namespace weir::gate
