// SPDX-License-Identifier: Apache-2.0
// One client's connection: reads its messages in order and executes them on the driver, on a thread of its own. Long
// operations are answered from the driver's threads, so that no message waits for the end of another.
//
// A session is put together from components with one task each. An arrow points to what a component uses:
//
//   *_messages ─▶ PartitionedLaunches ─▶ Commands ─▶ CommandMemory ─▶ ClientObjects ─▶ Batches ─▶ EventEnds
//        └─────────────────────────────── all of them ─▶ Client, Shared
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "opencl/channel/handshake.h"
#include "opencl/executor/arg_messages.h"
#include "opencl/executor/command_messages.h"
#include "opencl/executor/object_messages.h"
#include "opencl/executor/program_messages.h"
#include "opencl/executor/shared.h"
#include "opencl/executor/transfer_messages.h"

namespace weir::opencl {

class Session {
 public:
  Session(Shared& shared, Accepted accepted);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Runs until the client disconnects or sends an invalid message, which is the error. All its objects are then
  /// destroyed.
  Status Run();
  /// May be called from another thread: ends Run soon, whatever it waits for.
  void Stop();
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] const std::string& program() const { return client_.program; }
  /// The time since which the device has been executing for this session without progress; 0: it is idle. For the
  /// watchdog.
  [[nodiscard]] std::int64_t BusySinceNs() const;
  [[nodiscard]] std::int64_t OldestSinceNs() const;
  /// The time since which the driver has been building a program for this session; 0: it is not.
  [[nodiscard]] std::int64_t BuildingSinceNs() const { return program_messages_.BuildingSinceNs(); }
  /// Called by another thread at every poll: charges batches in flight for the GPU time used so far.
  void ChargeInFlight(std::int64_t now_ns);

 private:
  Status Serve();
  void End();
  /// False: malformed.
  bool Handle(proto::cl::ByteView message);

  Shared& shared_;
  const cl_icd_dispatch& cl_;
  std::atomic<bool> stop_{false};
  platform::Fd socket_;
  platform::Mapping control_;
  RingConsumer in_;
  std::vector<std::byte> scratch_;

  Client client_;
  EventEnds ends_;
  Batches batches_;
  ClientObjects objects_;
  CommandMemory memory_;
  Commands commands_;
  PartitionedLaunches parts_;

  ObjectMessages object_messages_;
  ArgMessages arg_messages_;
  ProgramMessages program_messages_;
  TransferMessages transfer_messages_;
  CommandMessages command_messages_;
};

}  // namespace weir::opencl
