// SPDX-License-Identifier: Apache-2.0
// A launch that is cut: what session_cut.cc gathers and plans, and session_parts.cc runs. Private to the two.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "core/partition/hand_out.h"
#include "core/partition/kept_plans.h"
#include "opencl/executor/part_launch.h"
#include "opencl/executor/session.h"

namespace weir::opencl {

struct Session::CutLaunch {
  std::uint32_t queue_id = 0;
  Queue* queue = nullptr;
  const PartProgram* program = nullptr;
  PartProgram::Part kernel{};
  core::KernelLaunch launch{};
  std::vector<core::LaunchArgument> arguments{};
  std::vector<ArgValue> values{};
  std::vector<std::shared_ptr<Stored>> roots{};  // of memory 1, 2, ...
  std::uint64_t alignment = 1;
  std::uint64_t whole_bytes = 0;  // of all that it uses
  core::CutLaunchPlans* plans = nullptr;
  core::Plan plan{};
  PartsCount done{};
  std::uint64_t room = 0;  // of the device here, that its parts may fill
  double items = 1;
  double item_s = 0;        // of the device's time, for each work-item; 0: unknown
  bool handed_out = false;  // to this node and others, each as it ends what it had; else as planned
  // Slices that parts have alike, kept from one to the next.
  std::vector<core::MemorySlice> alike{};
  std::vector<std::shared_ptr<Stored>> kept{};

  [[nodiscard]] std::uint64_t groups() const { return launch.Groups(plan.dimension); }
  [[nodiscard]] Stored& RootOf(const core::MemorySlice& slice) const { return *roots[slice.memory - 1]; }
  [[nodiscard]] bool IsWhole(const core::MemorySlice& slice) const {
    return slice.written.empty() && slice.begin == 0 && slice.end == RootOf(slice).shape.size;
  }
  /// Every part reads all of it.
  [[nodiscard]] bool Stays(const Stored& root) const {
    return std::ranges::any_of(alike,
                               [&](const core::MemorySlice& one) { return &RootOf(one) == &root && IsWhole(one); });
  }
};

/// One part of it, here.
struct Session::CutPart {
  PartLaunch launch{};
  std::vector<std::shared_ptr<Stored>> memory{};  // of each slice
  std::vector<cl_mem> natives{};
  cl_event began = nullptr, ended = nullptr;  // its kernel; the last of its copies
};

/// One part of it, elsewhere.
struct Session::PartThere {
  NodeId node{};
  GroupRange range{};
  PartLaunch launch{};
};

/// One that is handed out: worker 0 is this node, worker 1 is `others[0]`, whose thread has its peer to itself.
struct Session::SharedCut {
  struct Other {
    NodeId node{};
    std::uint64_t room = 0;
    Status end = Ok();  // why it went, if it did
    bool busy = false;  // it still has what nobody waits for
    std::vector<PartLaunch> ran{};
  };
  std::mutex mutex{};
  std::condition_variable changed{};
  core::HandOut hand_out;  // under the mutex
  bool over = false;       // likewise: nobody begins another
  std::vector<Other> others{};
};

}  // namespace weir::opencl
