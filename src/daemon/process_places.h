// SPDX-License-Identifier: Apache-2.0
// How many processes a vGPU may have, so that no vGPU's processes take the descriptors that other vGPUs' programs need
// to attach. Pure.
//
// A vGPU gets another place only while more places are free than it has itself. One greedy vGPU thus takes at most half
// of the places, n greedy vGPUs leave 1/(n+1) of the places free, and a new vGPU finds a place.
#pragma once

#include <algorithm>
#include <cstddef>

#include "gate/host.h"

namespace weir::daemon {

class ProcessPlaces {
 public:
  /// Descriptors of an attached process: its socket, and an executor's pidfd. Before the process takes its Welcome, the
  /// three descriptors in that message count against the same limit (ETOOMANYREFS).
  static constexpr std::size_t kPerProcess = 3;
  /// Descriptors of a vGPU: two listeners, the doorbell, two regions, and the executor's process and socket.
  static constexpr std::size_t kPerVgpu = 7;
  /// Descriptors for files, helpers, control connections and connections that have not sent Hello. If a quarter of the
  /// limit is less, the quarter is used.
  static constexpr std::size_t kOther = 256;
  /// Upper bound of the places. Each process is one memory mapping of the daemon, and the kernel allows 65,530 mappings
  /// (vm.max_map_count).
  static constexpr std::size_t kMost = 32'768;

  /// `descriptors`: the limit of open files of this process.
  explicit ProcessPlaces(std::size_t descriptors) : descriptors_(descriptors) {}

  /// How many processes a vGPU that has `here` may have now. `all`: processes of all `vgpus` vGPUs.
  [[nodiscard]] std::size_t For(std::size_t here, std::size_t all, std::size_t vgpus) const {
    const std::size_t other = std::min(kOther, descriptors_ / 4) + vgpus * kPerVgpu;
    const std::size_t places = descriptors_ > other ? std::min((descriptors_ - other) / kPerProcess, kMost) : 0;
    const std::size_t free = places > all ? places - all : 0;
    return std::min(gate::kProcessesPerVgpuMax, free > here ? here + 1 : here);
  }

 private:
  std::size_t descriptors_;
};

}  // namespace weir::daemon
