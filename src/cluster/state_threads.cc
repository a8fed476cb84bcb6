// SPDX-License-Identifier: Apache-2.0
#include "cluster/state_threads.h"

#include <boost/asio/post.hpp>

#include "cluster/addresses.h"
#include "net/tcp_stream.h"
#include "platform/clock.h"

namespace weir::cluster {
namespace {

constexpr Duration kFollowEvery = milliseconds(200);
constexpr Duration kKeepEvery = milliseconds(700);
constexpr Duration kTryAgainAfter = milliseconds(50);
constexpr Duration kProbeMax = milliseconds(500);
/// Refused connections in a row before the leader counts as gone; a single one may mean that it is just starting.
constexpr int kGoneAfter = 2;
/// Longer than etcd's election of a leader takes. The fence keeps a late write from doing harm.
constexpr Duration kWriteMax = seconds(10);

}  // namespace

LeadKeeper::LeadKeeper(boost::asio::io_context& loop, StateStore& store, std::string self, Callbacks callbacks)
    : loop_(loop), store_(store), self_(std::move(self)), callbacks_(std::move(callbacks)), thread_([this] {
        Run();
      }) {}

LeadKeeper::~LeadKeeper() {
  {
    const std::lock_guard guard(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LeadKeeper::StartAgain() {
  {
    const std::lock_guard guard(mutex_);
    again_ = true;
  }
  changed_.notify_all();
}

bool LeadKeeper::Pause(Duration time) {
  std::unique_lock guard(mutex_);
  changed_.wait_for(guard, time, [this] { return ends_ || again_; });
  return !ends_ && !again_;
}

/// Whether no process listens there. A leader that does not answer may be slow or out of reach; its lease decides.
bool LeadKeeper::IsGone(const std::string& leader) {
  const auto address = ParseAddress(leader);
  return address && net::RefusesConnections({address->host, std::to_string(address->port)}, kProbeMax);
}

void LeadKeeper::Follow() {
  int gone = 0;
  std::string watched;
  for (;; (void)Pause(kFollowEvery)) {
    {
      const std::lock_guard guard(mutex_);
      if (ends_) return;
      again_ = false;
    }
    const auto leader = store_.WhoLeads();
    const auto tell = [&](const std::string& who, const std::string& why) {
      if (said_ == who + why) return;
      said_ = who + why;
      boost::asio::post(loop_, [callbacks = callbacks_.follows, who, why] { callbacks(who, why); });
    };
    if (!leader) {
      tell("", leader.error().message);
      continue;
    }
    const std::string who = *leader ? (*leader)->holder : "";
    if (*leader && who != self_) {
      tell(who, "");
      gone = who == watched && IsGone(who) ? gone + 1 : 0;
      watched = who;
      if (gone < kGoneAfter) continue;
    }
    const Instant asked = platform::Now();
    const auto lead = store_.TakeLead(self_, *leader);
    if (!lead) continue;
    kept_ = asked;
    auto records = store_.Read();
    if (!records) {
      store_.GiveUpLead(*lead);
      continue;
    }
    said_ = "?";
    boost::asio::post(loop_, [callbacks = callbacks_.leads, lead = *lead, records = std::move(*records)]() mutable {
      callbacks(lead, std::move(records));
    });
    return KeepTo(*lead);
  }
}

bool LeadKeeper::LeadIsOver() const { return platform::Now() - kept_.load() >= kLeadTtl; }

void LeadKeeper::KeepTo(const Lead& lead) {
  std::string why = "the decision could not be written";
  while (Pause(kKeepEvery)) {
    const Instant asked = platform::Now();
    const Status status = store_.KeepLead(lead);
    if (status) kept_ = asked;
    if (status || (status.error().code != Errc::kNotFound && !LeadIsOver())) continue;
    why = status.error().message;
    break;
  }
  store_.GiveUpLead(lead);
  boost::asio::post(loop_, [callbacks = callbacks_.follows, why] { callbacks("", why); });
}

void LeadKeeper::Run() {
  for (;;) {
    {
      const std::lock_guard guard(mutex_);
      if (ends_) return;
    }
    Follow();
  }
}

StateWriter::StateWriter(boost::asio::io_context& loop, StateStore& store, Lead lead,
                         std::function<void(std::uint64_t)> done, std::function<void(Error)> failed)
    : loop_(loop), store_(store), lead_(lead), done_(std::move(done)), failed_(std::move(failed)), thread_([this] {
        Run();
      }) {}

StateWriter::~StateWriter() {
  {
    const std::lock_guard guard(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StateWriter::Add(std::uint64_t sequence, Change change) {
  {
    const std::lock_guard guard(mutex_);
    waiting_.push_back({sequence, std::move(change)});
  }
  changed_.notify_all();
}

std::vector<StateWriter::Ordered> StateWriter::Take() {
  std::unique_lock guard(mutex_);
  changed_.wait(guard, [this] { return ends_ || !waiting_.empty(); });
  if (ends_) return {};
  std::size_t bytes = 0, count = 0;
  while (count < waiting_.size() && count < kChangesMax) {
    const Change& change = waiting_[count].change;
    bytes += change.key.size() + (change.value ? change.value->size() : 0);
    if (count > 0 && bytes > kChangeBytesMax) break;
    ++count;
  }
  const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<Ordered> taken(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  return taken;
}

Status StateWriter::Write(const std::vector<Change>& changes) {
  const Instant until = platform::Now() + kWriteMax;
  for (;;) {
    // The transaction requires the lead and only the leader writes, so repeating it is harmless.
    Status status = store_.Write(lead_, changes);
    if (status || status.error().code == Errc::kBusy || platform::Now() >= until) return status;
    std::unique_lock guard(mutex_);
    if (changed_.wait_for(guard, kTryAgainAfter, [this] { return ends_; })) return status;
  }
}

void StateWriter::Run() {
  for (;;) {
    std::vector<Ordered> taken = Take();
    if (taken.empty()) return;
    std::vector<Change> changes;
    changes.reserve(taken.size());
    for (Ordered& each : taken) changes.push_back(std::move(each.change));
    const Status status = Write(changes);
    if (!status) {
      boost::asio::post(loop_, [failed = failed_, error = status.error()] { failed(error); });
      return;
    }
    boost::asio::post(loop_, [done = done_, last = taken.back().sequence] { done(last); });
  }
}

}  // namespace weir::cluster
