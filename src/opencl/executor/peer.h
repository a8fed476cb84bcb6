// SPDX-License-Identifier: Apache-2.0
// A part of a launch on another executor: this one is its client. Where that runs on another node, a relay's socket is
// what is connected to (docs/network.md); nothing here knows the difference.
//
//   Begin: slices into the arena, objects made, launch and reads enqueued ─▶ (it runs) ─▶ End: what was written comes
//
// Used by one session. Once it has failed it is of no more use.
#pragma once

#include <atomic>
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

  /// Starts a part. `contents` of each slice that is sent, else null.
  Status Begin(const PartProgram& program, const PartLaunch& part, const std::vector<const std::byte*>& contents);
  /// Waits for its end, and puts what was written where each slice's memory begins: `memory`.
  Status End(const std::vector<std::byte*>& memory);

  /// Device memory that it has at most, bytes.
  [[nodiscard]] std::uint64_t room() const { return room_; }
  /// Measured on the parts so far; before the first, what a gigabit link and a device like ours would do.
  [[nodiscard]] double bytes_per_s() const { return bytes_per_s_; }
  [[nodiscard]] Duration latency() const { return latency_; }
  /// Of the kernel of the last part; zero: unknown.
  [[nodiscard]] Duration computed() const { return computed_; }

 private:
  Peer(std::string path, Connection connection, const std::atomic<bool>& stop)
      : path_(std::move(path)), connection_(std::move(connection)), stop_(stop) {}

  struct Ids {
    std::uint32_t program = 0;
    std::map<std::string, std::uint32_t> kernels{};
  };
  /// Of a result in the arena: `rows` of `bytes` without gaps.
  struct Returned {
    std::size_t slice = 0;
    core::Extent extent{};
    std::uint64_t at = 0;
  };

  template <typename M>
  Status Send(const M& message);
  /// One message, or none for a while; then whether it still lives is looked at.
  Status Receive();
  Status Await(std::uint32_t request, std::string_view attempted);
  Status LearnFacts(const proto::cl::DeviceFacts& ours);
  Result<std::uint32_t> KernelOf(const PartProgram& program, const std::string& kernel);
  Result<std::uint64_t> Place(std::uint64_t bytes);
  Status SendSlices(const PartLaunch& part, const std::vector<const std::byte*>& contents);
  Status SendArgs(std::uint32_t kernel, const PartLaunch& part);
  Status SendReads(const PartLaunch& part);

  const std::string path_;
  Connection connection_;
  const std::atomic<bool>& stop_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(proto::cl::kMessageBytesMax);
  std::vector<std::byte> facts_;  // of the platform, as they come
  std::map<std::uint32_t, std::int32_t> answers_;
  std::string notice_;  // the last
  proto::cl::EventDone done_;
  std::map<std::uint64_t, Ids> programs_;  // by number
  std::uint32_t next_id_ = 0, next_request_ = 0;
  std::uint64_t placed_ = 0;  // of the arena, for the part that is on its way
  std::vector<std::uint32_t> buffers_;
  std::vector<Returned> returned_;
  std::uint64_t moved_ = 0;
  std::int64_t begun_ns_ = 0;
  std::uint64_t room_ = 0;
  double bytes_per_s_ = 1e8;
  Duration latency_{}, computed_{};
};

}  // namespace weir::opencl
