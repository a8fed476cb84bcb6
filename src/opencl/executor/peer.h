// SPDX-License-Identifier: Apache-2.0
// A part of a launch on another executor: this one is its client. Where that runs on another node, a relay's socket is
// what is connected to (docs/network.md); nothing here knows the difference.
//
//   Begin: slices into the arena, objects made, launch and reads enqueued ─▶ (it runs) ─▶ End: what was written comes
//     ▲                                                                                     │
//     └── the launch's next part: slices that all of them have are still there ─────────────┴─▶ EndLaunch
//
// Nothing of it waits but End: what was begun travels, and is compiled, while this executor runs parts of its own. A
// second part may be begun before the first has ended: its slices travel while the first one computes. Each has half of
// the arena then. Used by one thread at a time. Once it has failed it is of no more use.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/partition/part_slices.h"
#include "opencl/channel/handshake.h"
#include "opencl/executor/part_launch.h"
#include "proto/opencl_messages.h"

namespace weir::opencl {

class Peer {
 public:
  /// `ours`: this executor's device. Errors: those of Connect; kVersionMismatch when its device is of another kind, so
  /// that results might differ.
  static Result<std::unique_ptr<Peer>> Join(const std::string& path, const proto::cl::DeviceFacts& ours,
                                            const std::atomic<bool>& stop);

  /// Has the part kernels of a program built there, which takes longer than anything else of its first part.
  Status Prepare(const PartProgram& program);
  /// Starts a part. `contents` of each slice that is sent, else null. Longer than `at_most` it is not waited for: then
  /// the part has failed with kTimeout. Not beside another unless MayBegin.
  Status Begin(const PartProgram& program, const PartLaunch& part, const std::vector<const std::byte*>& contents,
               Duration at_most);
  /// Waits for the end of the one that was begun first, and puts what was written where each slice's memory begins:
  /// `memory`. `device_s`: what the part would take of this executor's device; 0: unknown.
  Status End(const std::vector<std::byte*>& memory, double device_s);
  /// Whether a part may be begun: any where none is under way, beside one that keeps to its half one of half of `room`.
  [[nodiscard]] bool MayBegin() const { return under_way_.empty() || (under_way_.size() == 1 && half_is_free_); }
  /// What it keeps between parts of one launch goes.
  Status EndLaunch();

  /// Device memory that a part may have at most, bytes.
  [[nodiscard]] std::uint64_t room() const { return room_; }
  /// Means of the parts so far, the last weighing most; before the first, what a gigabit link and a device like ours
  /// would do. The link's is of slices on their way there, and has no wait at the gate there in it.
  [[nodiscard]] double bytes_per_s() const { return bytes_per_s_; }
  /// What it takes of its device's time, for what the same takes of ours.
  [[nodiscard]] double slowness() const { return slowness_; }
  [[nodiscard]] Duration latency() const { return latency_; }

 private:
  Peer(std::string path, Connection connection, const std::atomic<bool>& stop)
      : path_(std::move(path)), connection_(std::move(connection)), stop_(stop) {}

  struct KernelThere {
    std::uint32_t id = 0;
    bool has_run = false;  // drivers compile when they first launch
  };
  struct ProgramThere {
    std::uint32_t id = 0;
    std::uint32_t build_request = 0;  // 0: it has answered
    std::map<std::string, KernelThere> kernels{};
  };
  /// A slice that the launch's next parts have, too.
  struct Held {
    core::MemorySlice slice{};
    std::uint32_t id = 0;
  };
  /// Of a result in the arena: `rows` of `bytes` without gaps.
  struct Returned {
    std::size_t slice = 0;
    core::Extent extent{};
    std::uint64_t at = 0;
  };
  /// The events that tell how a part goes.
  struct Marks {
    std::uint32_t begun = 0, arrived = 0, kernel = 0;
  };
  /// Of a part in the first half of the arena, and of one in the second.
  static constexpr Marks kMarks[] = {{4, 5, 6}, {7, 8, 9}};
  /// A part that was begun.
  struct UnderWay {
    std::size_t half = 0;
    KernelThere* kernel = nullptr;
    std::vector<std::uint32_t> buffers{};  // for each slice
    std::vector<Returned> returned{};
    std::uint64_t sent = 0;
    std::uint32_t request = 0;
    std::int64_t until_ns = 0;  // longer it is not waited for
    [[nodiscard]] const Marks& marks() const { return kMarks[half]; }
  };

  template <typename M>
  Status Send(const M& message);
  /// One message, or none for a while; then whether it still lives is looked at.
  Status Receive();
  Status StillThere();
  Status Await(std::uint32_t request, std::string_view attempted);
  Status LearnFacts(const proto::cl::DeviceFacts& ours);
  Result<KernelThere*> KernelOf(const PartProgram& program, const std::string& kernel);
  /// The end of what was asked for is in. Errors: the build's, too.
  Status AwaitEnd(const UnderWay& part);
  Status Mark(std::uint32_t event);
  void Learn(const UnderWay& part, double device_s);
  Result<std::uint64_t> Place(std::uint64_t bytes);
  Status SendSlices(UnderWay& mine, const PartLaunch& part, const std::vector<const std::byte*>& contents);
  Result<std::uint32_t> SendSlice(UnderWay& mine, std::uint64_t bytes, const std::byte* contents);
  Status SendArgs(const UnderWay& mine, const PartLaunch& part);
  Status SendReads(UnderWay& mine, const PartLaunch& part);

  const std::string path_;
  Connection connection_;
  const std::atomic<bool>& stop_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(proto::cl::kMessageBytesMax);
  std::vector<std::byte> facts_;  // of the platform, as they come
  std::map<std::uint32_t, std::int32_t> answers_;
  std::string notice_;                                  // the last
  std::map<std::uint32_t, proto::cl::EventDone> done_;  // of the parts that are under way
  std::map<std::uint64_t, ProgramThere> programs_;      // by number
  std::uint32_t next_id_ = 0, next_request_ = 0;
  // Of the arena, from its beginning: sources of programs whose builds have not answered, and after those were let go
  // what is held; then the first half; the second one.
  std::uint64_t sources_ = 0, held_end_ = 0, first_ = 0, half_ = 0;
  std::uint64_t placed_ = 0, end_ = 0;  // of what is being placed, and where it has to end
  std::vector<Held> held_;
  std::uint32_t next_buffer_ = 0;
  std::deque<UnderWay> under_way_;
  bool half_is_free_ = false;
  std::int64_t until_ns_ = 0;  // of what is being waited for
  std::uint64_t room_ = 0;
  bool link_measured_ = false, device_measured_ = false;
  double bytes_per_s_ = 1e8, slowness_ = 1;
  Duration latency_{};
};

}  // namespace weir::opencl
