// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/memory_keeper.h"

#include <pthread.h>

#include "platform/clock.h"

namespace weir::opencl {
namespace {

/// Interval at which statistics are published.
constexpr Duration kBooksEvery = milliseconds(100);
/// Least age of a sample of the threads' waits before the next one is taken.
constexpr Duration kSampleEvery = milliseconds(250);
/// The wait for an order while there is nothing to do; the agent polls equally often.
constexpr Duration kOrderWait = milliseconds(50);
/// The wait for pins to be released; another order may arrive meanwhile.
constexpr Duration kPinsWait = milliseconds(5);

}  // namespace

MemoryKeeper::MemoryKeeper(gate::Agent& agent, std::shared_ptr<BufferStore> store, std::vector<pid_t> workers,
                           const gate::MemoryOrder& order)
    : agent_(agent), store_(std::move(store)), waits_(std::move(workers)) {
  store_->Adopt(order, agent_.attached());
  store_->OnWait([this] { Publish(/*ring=*/true); });
  thread_ = std::thread([this] { Run(); });
}

MemoryKeeper::~MemoryKeeper() {
  stop_ = true;
  store_->Wake();
  thread_.join();
}

void MemoryKeeper::Run() {
  ::pthread_setname_np(::pthread_self(), "weir-memory");
  std::uint64_t told_at_attach = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    StayAttached();
    const std::uint64_t attach = agent_.attach_count();
    const gate::MemoryOrder order = agent_.memory_order();
    store_->Adopt(order, agent_.attached());
    const bool within = store_->CarryOut();
    if (within && (order.number != done_ || attach != told_at_attach)) {
      {
        const std::lock_guard lock(books_);
        done_ = order.number;
      }
      told_at_attach = attach;
      Publish(/*ring=*/true);
    }
    PublishIfDue();
    if (within) {
      agent_.AwaitMemoryOrder(order.number, kOrderWait);
    } else {
      store_->AwaitChange(kPinsWait);
    }
  }
}

// Sessions notice a lost daemon, and attach again, when they pass the gate. Sessions that wait for memory do not pass
// it.
void MemoryKeeper::StayAttached() {
  if (!agent_.Wanted()) return;
  if (const gate::Ticket ticket = agent_.Arrive(platform::NowNs()); ticket.attachment != nullptr)
    agent_.Withdraw(ticket);
}

void MemoryKeeper::Publish(bool ring) {
  const std::lock_guard lock(books_);
  const std::int64_t now_ns = platform::NowNs();
  if (now_ns - sampled_ns_ >= kSampleEvery.count()) {
    sums_ = waits_.Sample();
    sampled_ns_ = now_ns;
  }
  proto::ExecutorStatistics report = store_->Report();
  report.order_done = done_;
  report.steal = Duration{sums_.steal_ns};
  report.elsewhere = Duration{sums_.elsewhere_ns};
  report.threads = sums_.threads;
  agent_.ReportMemory(report, ring);
  published_ns_ = now_ns;
}

void MemoryKeeper::PublishIfDue() {
  {
    const std::lock_guard lock(books_);
    if (platform::NowNs() - published_ns_ < kBooksEvery.count()) return;
  }
  Publish(/*ring=*/false);
}

}  // namespace weir::opencl
