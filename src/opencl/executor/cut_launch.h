// SPDX-License-Identifier: Apache-2.0
// The state of one partitioned launch. Private to PartitionedLaunches.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "core/partition/hand_out.h"
#include "core/partition/plan_cache.h"
#include "opencl/executor/objects.h"
#include "opencl/executor/part_launch.h"
#include "proto/executor_statistics.h"

namespace weir::opencl {

struct CutLaunch {
  Queue* queue = nullptr;
  const PartProgram* program = nullptr;
  PartProgram::Part kernel{};
  kernel::KernelLaunch launch{};
  std::vector<kernel::LaunchArgument> arguments{};
  std::vector<ArgValue> values{};
  std::vector<std::shared_ptr<Stored>> roots{};  // the memory object with the number n is roots[n - 1]
  std::uint64_t alignment = 1;
  std::uint64_t whole_bytes = 0;  // of all objects that it uses
  core::CutLaunchPlans* plans = nullptr;
  core::Plan plan{};
  proto::ExecutorStatistics done{};
  std::uint64_t room = 0;  // device memory of this node that its parts may use
  double items = 1;
  double item_s = 0;  // device time of each work-item; 0: unknown
  // Parts are assigned dynamically, to this node and to peers as each becomes free; otherwise as planned.
  bool handed_out = false;
  // Slices that all parts share, and for each the memory that is kept from one part to the next; null: not made yet, or
  // a whole object.
  std::vector<kernel::MemorySlice> alike{};
  std::vector<std::shared_ptr<Stored>> kept{};

  [[nodiscard]] std::uint64_t groups() const { return launch.Groups(plan.dimension); }
  [[nodiscard]] Stored& RootOf(const kernel::MemorySlice& slice) const { return *roots[slice.memory - 1]; }
  [[nodiscard]] bool IsWhole(const kernel::MemorySlice& slice) const {
    return slice.written.empty() && slice.begin == 0 && slice.end == RootOf(slice).shape.size;
  }
  /// Every part reads the whole object.
  [[nodiscard]] bool Stays(const Stored& root) const {
    return std::ranges::any_of(alike,
                               [&](const kernel::MemorySlice& one) { return &RootOf(one) == &root && IsWhole(one); });
  }
};

/// A part that runs on this node.
struct CutPart {
  PartLaunch launch{};
  std::vector<std::shared_ptr<Stored>> memory{};  // for each slice
  std::vector<cl_mem> natives{};
  cl_event began = nullptr, ended = nullptr;  // of its kernel; of the last of its copies
};

/// A part that runs on a peer.
struct PartThere {
  NodeId node{};
  core::GroupRange range{};
  PartLaunch launch{};
};

/// State of a dynamically assigned launch. Worker 0 is this node; worker 1 is `others[0]`, whose thread alone uses its
/// peer.
struct SharedCut {
  struct Other {
    NodeId node{};
    std::uint64_t room = 0;
    Status end = Ok();  // why it dropped out, if it did
    bool busy = false;  // it still runs a part whose result is not needed
    std::vector<PartLaunch> ran{};
  };
  std::mutex mutex{};
  std::condition_variable changed{};
  core::HandOut hand_out;  // guarded by the mutex
  bool over = false;       // guarded by the mutex: no further part begins
  std::vector<Other> others{};
};

}  // namespace weir::opencl
