// SPDX-License-Identifier: Apache-2.0
// A device: batches of commands are executed first come first served, one at a time, to their end. The queue of each
// program is the driver's; what a program can't queue it waits for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/units.h"

namespace weir::sim {

struct Batch {
  std::uint32_t loop = 0;
  bool last_of_frame = false;
  Duration work{};
};

class DeviceModel {
 public:
  explicit DeviceModel(Duration switch_cost) : switch_cost_(switch_cost) {}

  /// True: it was idle, and the batch starts now; ask Running() when it will be done.
  bool Submit(Instant now, const Batch& batch) {
    queue_.push_back(batch);
    if (running_) return false;
    StartNext(now);
    return true;
  }
  /// The batch that runs is done. True: another one has started.
  bool Done(Instant now) {
    used_ += now - began_;
    running_ = false;
    if (queue_.empty()) return false;
    StartNext(now);
    return true;
  }
  /// Nothing is finished before `until`: the device hangs, or is reset.
  void Stall(Instant until) { stalled_until_ = std::max(stalled_until_, until); }
  /// What the device waits for before each batch; none: nothing.
  void BeforeEach(std::function<Duration(const Batch&)> before) { before_ = std::move(before); }
  /// Takes what a program has queued and not begun.
  void Forget(std::uint32_t loop) {
    std::erase_if(queue_, [loop](const Batch& batch) { return batch.loop == loop; });
  }

  [[nodiscard]] const Batch& current() const { return current_; }
  [[nodiscard]] Instant done_at() const { return done_at_; }
  [[nodiscard]] bool running() const { return running_; }
  [[nodiscard]] Duration used() const { return used_; }

 private:
  void StartNext(Instant now) {
    const bool other = queue_.front().loop != current_.loop;
    current_ = queue_.front();
    queue_.erase(queue_.begin());
    running_ = true;
    began_ = std::max(now, stalled_until_);
    done_at_ = began_ + (other ? switch_cost_ : Duration{0}) + current_.work;
    if (before_) done_at_ += before_(current_);
  }

  const Duration switch_cost_;
  std::vector<Batch> queue_;  // short, and nothing while it is empty: there may be 100,000 devices
  Batch current_{.loop = ~std::uint32_t{0}};
  bool running_ = false;
  Instant began_{};
  Instant done_at_{};
  Instant stalled_until_{};
  Duration used_{};  // busy, switches included
  std::function<Duration(const Batch&)> before_;
};

}  // namespace weir::sim
