// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/link.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include "opencl/icd/device.h"
#include "platform/clock.h"
#include "platform/mutex.h"

namespace weir::opencl::icd {
namespace {

constexpr std::int64_t kLookEveryNs = 50'000'000;  // interval of checks of the socket
constexpr Duration kRoomWait = milliseconds(50);   // the same, while the ring is full

// Per process; reset in the child of a fork.
constinit platform::Mutex g_connecting;
std::atomic<Link*> g_current{nullptr};
Link* g_last = nullptr;  // the last one created, in whatever state; links are never freed
bool g_said = false;     // whether a failure to connect was reported

void PrintStats() {
  if (Link* link = Link::Existing(); link != nullptr)
    std::fprintf(stderr, "weir-opencl: %llu messages, %llu bytes in them, %llu round trips, %llu wakes\n",
                 static_cast<unsigned long long>(link->stats().messages.load()),
                 static_cast<unsigned long long>(link->stats().inline_bytes.load()),
                 static_cast<unsigned long long>(link->stats().round_trips.load()),
                 static_cast<unsigned long long>(link->stats().wakes.load()));
}

void Say(const std::string& line) {
  if (std::exchange(g_said, true)) return;
  std::fprintf(stderr, "weir-opencl: %s\n", line.c_str());
}

}  // namespace

Link::Link(Connection connection)
    : connection_(std::move(connection)),
      arena_base_(connection_.arena.As<std::byte>()),
      buffer_ranges_(memory_bytes()),
      staging_ranges_(connection_.staging_bytes, memory_bytes()) {
  pthread_condattr_t attributes;
  ::pthread_condattr_init(&attributes);
  ::pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  ::pthread_cond_init(&changed_, &attributes);
  ::pthread_cond_init(&callbacks_changed_, &attributes);
  ::pthread_condattr_destroy(&attributes);
}

void Link::AbandonAll() {
  for (Link* link = g_last; link != nullptr; link = link->before_) {
    link->state_of_link_.store(State::kAbandoned, std::memory_order_relaxed);
    // Otherwise the executor would not notice the end of the parent while this child lives.
    link->connection_.socket.Reset();
  }
  g_current.store(nullptr, std::memory_order_relaxed);
  g_connecting.Renew();
  g_said = false;
}

Link* Link::Existing() {
  Link* link = g_current.load(std::memory_order_acquire);
  return link != nullptr && link->usable() ? link : nullptr;
}

Link* Link::Current() {
  if (Link* link = Existing(); link != nullptr) return link;
  const char* path = std::getenv("WEIR_OPENCL");
  if (path == nullptr || *path == 0) return nullptr;
  const std::lock_guard lock(g_connecting);
  if (Link* link = Existing(); link != nullptr) return link;
  return MakeCurrent(path);
}

Link* Link::MakeCurrent(const std::string& path) {
  auto connection = Connect(path, program_invocation_short_name);
  if (!connection) {
    Say("connecting to " + path + ": " + connection.error().message +
        "; no OpenCL platform of Weir's. Is the daemon running, and WEIR_OPENCL its socket?");
    return nullptr;
  }
  auto* link = new Link(std::move(*connection));
  link->before_ = g_last;
  if (g_last == nullptr) {
    ::pthread_atfork(nullptr, nullptr, [] { AbandonAll(); });
    const char* stats = std::getenv("WEIR_OPENCL_STATS");
    if (stats != nullptr && *stats == '1') std::atexit(PrintStats);
  }
  g_last = link;
  const Status facts = link->ReadFacts();
  if (!facts) {
    Say(path + ": " + facts.error().message);
    return nullptr;
  }
  g_current.store(link, std::memory_order_release);
  return link;
}

Status Link::ReadFacts() {
  Answer answer;
  answers_.emplace(0, &answer);
  if (Await(answer) != CL_SUCCESS) return Fail(Errc::kUnavailable, "the executor has no devices; see the daemon's log");
  wire::PlatformFacts facts;
  wire::FieldReader reader(answer.body);
  wire::PlatformFacts::Fields(facts, reader);
  if (reader.malformed()) return Fail(Errc::kProtocol, "the executor's facts are malformed; is it of another version?");
  FactTable platform(std::move(facts.facts));
  tag_ = std::string(platform.Text(CL_PLATFORM_NAME)) + "; " + std::string(platform.Text(CL_PLATFORM_VERSION));
  for (const wire::DeviceFacts& device : facts.devices) {
    devices_.push_back(MakeDevice(*this, device, nullptr));
    next_id_ = std::max(next_id_, device.id + 1);
  }
  return Ok();
}

// -- Sending ---------------------------------------------------------------------------------------------------------

Link::Sending::Sending(Link& link) : link_(link) {
  if (!link_.usable()) return;
  link_.send_.lock();
  locked_ = true;
}

Link::Sending::~Sending() {
  if (locked_) link_.send_.unlock();
}

std::uint32_t Link::Sending::NewId() {
  if (link_.free_ids_.empty()) return link_.next_id_++;
  const std::uint32_t id = link_.free_ids_.back();
  link_.free_ids_.pop_back();
  return id;
}

std::uint32_t Link::Sending::NewIds(std::uint32_t count) {
  link_.next_id_ += count;
  return link_.next_id_ - count;
}

void Link::Sending::FreeId(std::uint32_t id) { link_.free_ids_.push_back(id); }

std::byte* Link::Sending::Reserve(std::size_t bytes) {
  if (bytes > wire::kMessageBytesMax || !usable()) return nullptr;
  link_.LookAtSocket();
  RingProducer& out = link_.connection_.channel.out;
  std::byte* into = out.Reserve(bytes);
  while (into == nullptr && link_.usable()) {
    out.WaitForRoom(bytes, kRoomWait);
    if (out.broken()) link_.Lose("it wrote nonsense into the ring");
    link_.LookAtSocket();
    into = out.Reserve(bytes);
  }
  return into;
}

void Link::Sending::Publish(std::size_t bytes, bool can_wait) {
  RingProducer& out = link_.connection_.channel.out;
  out.Publish(bytes);
  if (!can_wait) out.Ring();
  link_.stats_.wakes.store(out.wakes(), std::memory_order_relaxed);
  link_.stats_.messages.fetch_add(1, std::memory_order_relaxed);
  link_.stats_.inline_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

std::uint32_t Link::Expect(Answer& answer) {
  std::uint32_t request = next_request_++;
  if (request == 0) request = next_request_++;
  const StateLock lock(*this);
  answers_[request] = &answer;
  return request;
}

void Link::Unexpect(std::uint32_t request) {
  const StateLock lock(*this);
  answers_.erase(request);
}

cl_int Link::Await(Answer& answer) {
  if (!WaitUntil([&] { return answer.done; }, Of::kAnswer)) return kGone;
  return answer.status;
}

void Link::Release(std::uint32_t id, std::uint64_t ticket) {
  if (id == 0) return;
  Sending sending(*this);
  if (!sending.usable()) return;
  if (sending.Send(wire::Release{.id = id, .ticket = ticket})) sending.FreeId(id);
}

// -- The arena -------------------------------------------------------------------------------------------------------

std::optional<std::uint64_t> Link::Allocate(std::uint64_t bytes, For use) {
  std::optional<std::uint64_t> offset;
  const std::uint64_t most = use == For::kBuffer ? memory_bytes() : std::max(memory_bytes(), staging_bytes());
  if (!usable() || ArenaRanges::Rounded(bytes) == 0 || bytes > most) return offset;
  Drain();
  // WaitUntil may call this again after it was true.
  const auto take = [&] {
    if (offset) return true;
    const std::lock_guard lock(arena_);
    if (use == For::kStaging) offset = staging_ranges_.Take(bytes);
    if (!offset) offset = buffer_ranges_.Take(bytes);
    return offset.has_value();
  };
  if (take()) return offset;
  const std::int64_t until_ns = platform::NowNs() + wait_beside_user_events_.count();
  const auto in_vain = [&] { return user_events_unset() > 0 && platform::NowNs() >= until_ns; };
  // Ranges that the executor still uses are freed ticket by ticket. Tickets without a waiter are reported only with the
  // answer to another request.
  WaitUntil([&] { return take() || hurried_tickets_ == 0 || in_vain(); });
  if (offset || in_vain()) return offset;
  if (Owed()) Sync();
  WaitUntil([&] { return take() || (tickets_.empty() && undelivered_ == 0) || in_vain(); });
  return offset;
}

bool Link::Owed() {
  const StateLock lock(*this);
  return !tickets_.empty();
}

void Link::Free(Range range) {
  if (range.bytes == 0 || !usable()) return;
  const std::lock_guard lock(arena_);
  (range.offset < memory_bytes() ? buffer_ranges_ : staging_ranges_).GiveBack(range.offset, range.bytes);
}

void Link::Delivered(Range range) {
  if (range.bytes == 0) return;
  const StateLock lock(*this);
  Free(range);  // under the lock, as in OnFreed
  --undelivered_;
  Wake();
}

std::uint64_t Link::NewTicket(Range range, std::vector<std::function<void()>> then, std::uint64_t nobody_waits) {
  const StateLock lock(*this);
  if (!then.empty()) ExpectCallback();
  const std::uint64_t ticket = next_ticket_++ | nobody_waits;
  if (nobody_waits == 0) ++hurried_tickets_;
  tickets_.emplace(ticket, Ticket{range, std::move(then)});
  return ticket;
}

// -- Live objects ----------------------------------------------------------------------------------------------------

void Link::Enlist(const Object& object) {
  if (!usable()) return;
  const std::lock_guard lock(live_);
  live_objects_[&object] = {object.kind, object.serial, object.id};
}

void Link::Delist(const Object& object) {
  if (!usable()) return;
  const std::lock_guard lock(live_);
  live_objects_.erase(&object);
}

bool Link::Find(const void* handle, Enlisted& found) {
  if (!usable()) return false;
  const std::lock_guard lock(live_);
  const auto at = live_objects_.find(handle);
  if (at == live_objects_.end()) return false;
  found = at->second;
  return true;
}

void Link::LookAtSocket() {
  const std::int64_t now = platform::CoarseNowNs();
  if (now - looked_ns_.load(std::memory_order_relaxed) < kLookEveryNs) return;
  looked_ns_.store(now, std::memory_order_relaxed);
  if (usable() && !StillConnected(connection_.socket.get())) Lose("it is gone");
}

}  // namespace weir::opencl::icd
