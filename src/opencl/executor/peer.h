// SPDX-License-Identifier: Apache-2.0
// Runs a part of a launch on another executor, as its client. For an executor on another node this connects to a
// relay's socket (docs/network.md), which behaves in the same way.
//
//   Begin: slices into the arena, objects created, launch and reads enqueued ─▶ (it runs) ─▶ End: the results arrive
//     ▲                                                                                     │
//     └── the launch's next part: slices that all parts share are still there ──────────────┴─▶ EndLaunch
//
// Only End waits. A part that was begun is transferred and compiled while this executor runs its own parts. A second
// part may begin before the first has ended, so that its slices are transferred while the first computes; each part
// then uses half of the arena. Used by one thread at a time. After a failure the peer is unusable.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernel/part_slices.h"
#include "opencl/channel/handshake.h"
#include "opencl/executor/part_launch.h"
#include "proto/opencl_messages.h"

namespace weir::opencl {

class Peer {
 public:
  /// `ours`: this executor's device. Errors: those of Connect; kVersionMismatch if the peer's device is of another
  /// kind, so that results might differ.
  static Result<std::unique_ptr<Peer>> Join(const std::string& path, const proto::cl::DeviceFacts& ours,
                                            const std::atomic<bool>& stop);

  /// Makes the peer build a program's part kernels, which takes longer than any other step of its first part.
  Status Prepare(const PartProgram& program);
  /// Starts a part. `contents`: for each slice that is sent, its content, otherwise null. After `at_most` the part
  /// fails with kTimeout. Beside another part only if MayBegin.
  Status Begin(const PartProgram& program, const PartLaunch& part, const std::vector<const std::byte*>& contents,
               Duration at_most);
  /// Waits for the part that began first, and copies its results to `memory`, which holds the address of each slice's
  /// memory. `device_s`: what the part would take on this executor's device; 0: unknown.
  Status End(const std::vector<std::byte*>& memory, double device_s);
  /// Whether a part may begin: always if none is in progress; beside one that uses only its half of the arena, a part
  /// that needs at most half of `room`.
  [[nodiscard]] bool MayBegin() const { return in_flight_.empty() || (in_flight_.size() == 1 && half_is_free_); }
  /// Releases what is kept between the parts of one launch.
  Status EndLaunch();

  /// Limit of the device memory of a part, in bytes.
  [[nodiscard]] std::uint64_t room() const { return room_; }
  /// Means over the parts so far, weighted towards the latest. Before the first part, the values of a gigabit link and
  /// of a device like this one's. The link's rate is that of sending slices, without waits at the peer's gate.
  [[nodiscard]] double bytes_per_s() const { return bytes_per_s_; }
  /// The peer's device time relative to this device's time for the same work.
  [[nodiscard]] double slowness() const { return slowness_; }
  [[nodiscard]] Duration latency() const { return latency_; }

 private:
  Peer(std::string path, Connection connection, const std::atomic<bool>& stop)
      : path_(std::move(path)), connection_(std::move(connection)), stop_(stop) {}

  struct KernelThere {
    std::uint32_t id = 0;
    bool has_run = false;  // drivers compile at the first launch
  };
  struct ProgramThere {
    std::uint32_t id = 0;
    std::uint32_t build_request = 0;  // 0: the build was answered
    std::map<std::string, KernelThere> kernels{};
  };
  /// A slice that the launch's next parts use too.
  struct Held {
    kernel::MemorySlice slice{};
    std::uint32_t id = 0;
  };
  /// A result in the arena: `rows` rows of `bytes` bytes, tightly packed.
  struct Returned {
    std::size_t slice = 0;
    kernel::Extent extent{};
    std::uint64_t at = 0;
  };
  /// The ids of the events that report a part's progress.
  struct Marks {
    std::uint32_t begun = 0, arrived = 0, kernel = 0;
  };
  /// For a part in the first half of the arena, and for one in the second.
  static constexpr Marks kMarks[] = {{4, 5, 6}, {7, 8, 9}};
  /// A part in progress.
  struct InFlightPart {
    std::size_t half = 0;
    KernelThere* kernel = nullptr;
    std::vector<std::uint32_t> buffers{};  // for each slice
    std::vector<Returned> returned{};
    std::uint64_t sent = 0;
    std::uint32_t request = 0;
    std::int64_t until_ns = 0;  // deadline
    [[nodiscard]] const Marks& marks() const { return kMarks[half]; }
  };

  template <typename M>
  Status Send(const M& message);
  /// Receives one message, if one comes soon; otherwise checks that the peer still lives.
  Status Receive();
  Status StillThere();
  Status Await(std::uint32_t request, std::string_view attempted);
  Status LearnFacts(const proto::cl::DeviceFacts& ours);
  Result<KernelThere*> KernelOf(const PartProgram& program, const std::string& kernel);
  /// Waits for the results of a part. Errors include those of the build.
  Status AwaitEnd(const InFlightPart& part);
  Status Mark(std::uint32_t event);
  void Learn(const InFlightPart& part, double device_s);
  Result<std::uint64_t> Place(std::uint64_t bytes);
  Status SendSlices(InFlightPart& mine, const PartLaunch& part, const std::vector<const std::byte*>& contents);
  Result<std::uint32_t> SendSlice(InFlightPart& mine, std::uint64_t bytes, const std::byte* contents);
  Status SendArgs(const InFlightPart& mine, const PartLaunch& part);
  Status SendReads(InFlightPart& mine, const PartLaunch& part);

  const std::string path_;
  Connection connection_;
  const std::atomic<bool>& stop_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(proto::cl::kMessageBytesMax);
  std::vector<std::byte> facts_;  // of the platform, as received so far
  std::map<std::uint32_t, std::int32_t> answers_;
  std::string notice_;                                  // the last one
  std::map<std::uint32_t, proto::cl::EventDone> done_;  // of the parts in progress
  std::map<std::uint64_t, ProgramThere> programs_;      // by number
  std::uint32_t next_id_ = 0, next_request_ = 0;
  // Layout of the arena: first the sources of programs with unanswered builds, later the held slices; then the first
  // half, then the second half.
  std::uint64_t sources_ = 0, held_end_ = 0, first_ = 0, half_ = 0;
  std::uint64_t placed_ = 0, end_ = 0;  // of the current placement: its position and its end
  std::vector<Held> held_;
  std::uint32_t next_buffer_ = 0;
  std::deque<InFlightPart> in_flight_;
  bool half_is_free_ = false;
  std::int64_t until_ns_ = 0;  // deadline of the current wait
  std::uint64_t room_ = 0;
  bool link_measured_ = false, device_measured_ = false;
  double bytes_per_s_ = 1e8, slowness_ = 1;
  Duration latency_{};
};

}  // namespace weir::opencl
