// SPDX-License-Identifier: Apache-2.0
// Passes the daemon's orders to a BufferStore and returns its statistics. Runs the thread "weir-memory" of an executor
// with elastic memory.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gate/agent.h"
#include "opencl/executor/buffer_store.h"
#include "opencl/executor/thread_waits.h"

namespace weir::opencl {

class MemoryKeeper {
 public:
  /// `workers`: the driver's threads, whose waits do not count as the tenant's. `order`: the current order.
  MemoryKeeper(gate::Agent& agent, std::shared_ptr<BufferStore> store, std::vector<pid_t> workers,
               const gate::MemoryOrder& order);
  ~MemoryKeeper();
  MemoryKeeper(const MemoryKeeper&) = delete;
  MemoryKeeper& operator=(const MemoryKeeper&) = delete;

 private:
  void Run();
  void StayAttached();
  void Publish(bool ring);
  void PublishIfDue();

  gate::Agent& agent_;
  const std::shared_ptr<BufferStore> store_;
  std::atomic<bool> stop_{false};

  // Guards the members up to `done_`. Two threads publish: this one, and a session that begins to wait.
  std::mutex books_;
  ThreadWaits waits_;
  ThreadWaits::Sums sums_;
  std::int64_t sampled_ns_ = 0, published_ns_ = 0;
  std::uint32_t done_ = 0;  // the last order that was carried out

  std::thread thread_;
};

}  // namespace weir::opencl
