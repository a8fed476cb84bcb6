// SPDX-License-Identifier: Apache-2.0
// One client's connection: reads its messages in order and executes them on the driver, on a thread of its own. Long
// operations are answered from the driver's threads, so that no message waits for the end of another.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/partition/hand_out.h"
#include "core/partition/plan_cache.h"
#include "opencl/channel/handshake.h"
#include "opencl/executor/admission.h"
#include "opencl/executor/arrivals.h"
#include "opencl/executor/buffer_store.h"
#include "opencl/executor/device_clock.h"
#include "opencl/executor/objects.h"
#include "opencl/executor/peers.h"
#include "opencl/executor/slices.h"

namespace weir::opencl {

/// Shared by all sessions of an executor.
struct Shared {
  NativeDevice device;
  gate::Agent& agent;
  DeviceMeter& meter;
  std::shared_ptr<Quota> quota;
  std::shared_ptr<DeviceClock> clock = std::make_shared<DeviceClock>();
  std::shared_ptr<std::atomic<std::uint64_t>> work_items = std::make_shared<std::atomic<std::uint64_t>>(0);
  bool copies = false;                 // treat the device as one with memory of its own, whatever it reports
  std::shared_ptr<BufferStore> store;  // null: memory is not elastic
  // Launches that do not fit the device run in parts. Without an analyzer they fail.
  core::PartitionMode partition = core::PartitionMode::kAuto;
  std::shared_ptr<AnalyzerClient> analyzer;
  PeerSources peers;  // executors that may run parts
  std::shared_ptr<HostBudget> host_budget = std::make_shared<HostBudget>(HostBudget::kAllBytesMax);
  std::shared_ptr<ArgProbe> arg_probe = std::make_shared<ArgProbe>();
};

using core::GroupRange;

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
  [[nodiscard]] const std::string& program() const { return program_; }
  /// The time since which the device has been executing for this session without progress; 0: it is idle. For the
  /// watchdog.
  [[nodiscard]] std::int64_t BusySinceNs() const;
  /// Called by another thread at every poll: charges batches in flight for the GPU time used so far.
  void ChargeInFlight(std::int64_t now_ns);

 private:
  Status Serve();
  void End();
  // -- Dispatch (session.cc). False: malformed.
  bool Handle(proto::cl::ByteView message);

  // -- Objects (session_objects.cc)
  void Do(const proto::cl::CreateContext& m);
  void Do(const proto::cl::CreateQueue& m);
  void Do(const proto::cl::CreateBuffer& m);
  void Do(const proto::cl::CreateSubBuffer& m);
  void Do(const proto::cl::CreateImage& m);
  void Do(const proto::cl::CreateSampler& m);
  void Do(const proto::cl::CreateUserEvent& m);
  void Do(const proto::cl::SetUserEvent& m);
  void Do(const proto::cl::CreateKernel& m);
  void Do(const proto::cl::SetArg& m);
  void Do(const proto::cl::Release& m);
  void Do(const proto::cl::CreateSubDevices& m);
  void Do(const proto::cl::KernelWorkGroup& m);
  void Do(const proto::cl::ImageFormats& m);

  // -- Programs (session_programs.cc)
  void Do(const proto::cl::CreateProgram& m);
  void Do(const proto::cl::CreateProgramFromBinary& m);
  void Do(const proto::cl::Build& m);
  void Do(const proto::cl::Compile& m);
  void Do(const proto::cl::Link& m);
  void Do(const proto::cl::GetBinary& m);

  // -- Commands that move contents (session_transfers.cc)
  void Do(const proto::cl::WriteBuffer& m);
  void Do(const proto::cl::ReadBuffer& m);
  void Do(const proto::cl::CopyBuffer& m);
  void Do(const proto::cl::FillBuffer& m);
  void Do(const proto::cl::WriteBufferRect& m);
  void Do(const proto::cl::ReadBufferRect& m);
  void Do(const proto::cl::CopyBufferRect& m);
  void Do(const proto::cl::WriteImage& m);
  void Do(const proto::cl::ReadImage& m);
  void Do(const proto::cl::CopyImage& m);
  void Do(const proto::cl::FillImage& m);
  void Do(const proto::cl::CopyImageToBuffer& m);
  void Do(const proto::cl::CopyBufferToImage& m);

  // -- Other commands (session_commands.cc)
  void Do(const proto::cl::NdRange& m);
  void Do(const proto::cl::Marker& m);
  void Do(const proto::cl::Barrier& m);
  void Do(const proto::cl::Migrate& m);
  void Do(const proto::cl::Flush& m);
  void Do(const proto::cl::Finish& m);
  void Do(const proto::cl::Watch& m);

  [[nodiscard]] std::vector<cl_device_id> DevicesOf(const proto::cl::IdList& ids, cl_int& error) const;
  cl_int ChargeProgram(Program& program, std::uint64_t bytes) const;
  void RefuseLongNames(std::uint32_t request, Program& program);
  void AnswerBuild(std::uint32_t request, cl_int status, const Program* program);

  // -- Helpers
  /// Stores an object under an id. With an error, the entry holds the reason, and the client's context is notified.
  void Keep(std::uint32_t id, std::shared_ptr<Object> object, cl_int error, const char* attempted);
  // -- Arguments (session_args.cc): what an argument may be set to, by arg_types.h.
  cl_int MayBeValue(Kernel& kernel, std::uint32_t index, std::size_t size);
  [[nodiscard]] cl_int MayBeNull(const Kernel& kernel, std::uint32_t index) const;
  [[nodiscard]] cl_int MayBeSampler(const Kernel& kernel, std::uint32_t index) const;
  [[nodiscard]] cl_int MayBeMemory(const Kernel& kernel, std::uint32_t index, bool image) const;
  /// Charges an object, and `more` bytes, to the session's host memory before the driver creates it.
  cl_int Charge(Object& object, std::uint64_t more = 0) const;
  void Complain(cl_int error, const char* attempted);
  /// Stores an object in place of an earlier one with the same id. False: the id is out of range.
  bool Place(std::uint32_t id, std::shared_ptr<Object> object);
  void LetGo(Object& object);
  // -- Memory (memory.cc; if it is elastic, session_memory.cc)
  /// A memory object that the next command uses. Its native object exists now; with elastic memory, once the command
  /// has claimed its objects.
  cl_int Reads(std::uint32_t id, Memory*& memory) {
    return Use(id, memory, [](const Memory&) { return ByteRange{}; });
  }
  /// A memory object that the command writes to. `where(memory)` is the written range; it is called only if memory is
  /// elastic.
  template <typename Where>
  cl_int Writes(std::uint32_t id, Memory*& memory, Where where) {
    return Use(id, memory, where);
  }
  template <typename Where>
  cl_int Use(std::uint32_t id, Memory*& memory, Where where) {
    const cl_int error = objects_.Find(id, memory);
    if (error != CL_SUCCESS) return error;
    if (shared_.store == nullptr) return memory->native == nullptr ? Materialise(*memory) : CL_SUCCESS;
    const ByteRange written = where(*memory);
    NoteUse(*memory, !written.empty(), written);
    return CL_SUCCESS;
  }
  cl_int Materialise(Memory& memory);
  void NoteUse(Memory& memory, bool writes, const ByteRange& range);
  /// The address of these bytes of a buffer if they are to be accessed in host memory (BufferStore::StaysOut). The
  /// command then claims nothing.
  std::byte* InHostMemory(const proto::cl::Enqueue& enqueue, const Memory& memory, std::uint64_t offset,
                          std::uint64_t size, bool writes);
  /// Passes the gate with all objects of the command on the device and pinned; waits for device memory if necessary.
  cl_int Claim(Queue& queue, std::uint32_t queue_id, std::int64_t predicted_ns, const Admission::Entry& entry);
  cl_int ClaimOnce(Queue& queue, std::uint32_t queue_id, std::int64_t predicted_ns, const Admission::Entry& entry,
                   bool& again);
  void EndBatchBeforeCompiling();
  cl_int WhyNot(BufferStore::Outcome outcome, cl_int error);
  [[nodiscard]] std::string WhatItNeeds() const;
  void SayThatItNeverFits();
  void NoteArgs(const Kernel& kernel);
  /// The native objects of its arguments differ after an eviction.
  cl_int SetArgsAgain(Kernel& kernel);
  void LearnArgs(Kernel& kernel) const;
  cl_int MakeStoredImage(const proto::cl::CreateImage& m, Memory& image, const Shape& shape,
                         proto::cl::ByteView content);
  /// 0: such images are not supported.
  std::uint64_t PixelBytesOf(const Context& context, const Shape& shape) const;
  /// The bytes of a blob; an error if it lies outside the arena.
  cl_int View(const proto::cl::Blob& blob, proto::cl::ByteView& bytes) const;
  [[nodiscard]] bool InArena(std::uint64_t offset, std::uint64_t size) const;

  // -- All commands (session_command.h)
  /// Enqueues one command: `call(queue, number of events to wait for, these events, event to create)`. `device_bytes`:
  /// bytes that it moves on the device; 0: too little to pass the gate for.
  template <typename Call>
  void Command(const proto::cl::Enqueue& enqueue, std::uint64_t device_bytes, const char* attempted, Call call);
  /// The same for commands that read `size` bytes of `content`: keeps it until the command has ended, then frees
  /// `ticket`.
  template <typename Call>
  void Upload(const proto::cl::Enqueue& enqueue, const proto::cl::Blob& content, std::uint64_t ticket,
              std::uint64_t size, std::uint64_t device_bytes, const char* attempted, Call call);
  /// When `event` has ended, drops `copy` and frees `ticket` (0: none).
  void FreeAfter(cl_event event, std::shared_ptr<std::byte[]> copy, std::uint64_t ticket);
  cl_int PrepareCommand(const proto::cl::Enqueue& enqueue, Queue*& queue);
  void EndCommand(const proto::cl::Enqueue& enqueue, Queue* queue, cl_int error, cl_event event, const char* attempted);
  void SetLast(Queue& queue, cl_event event);

  cl_int LaunchOne(std::uint32_t id, Queue& queue, Kernel& kernel, const Launch& launch, const Admission::Entry& entry,
                   cl_event& event);
  /// Counts a submitted launch, which is a task, or a part of one that a marker will end.
  void CountLaunch(Queue& queue);

  // -- Partitioned launches: planning (session_cut.cc) and execution (session_parts.cc)
  struct CutLaunch;
  struct CutPart;
  struct PartThere;
  struct SharedCut;
  void RememberArg(Kernel& kernel, const proto::cl::SetArg& m) const;
  /// Analyses the client's kernels in advance if there is more memory than the device may hold, because launches may
  /// soon have to be partitioned.
  void AnalyseAhead();
  /// Whether all of `uses_` may ever be on the device at once.
  [[nodiscard]] bool FitsWhole() const;
  /// Runs a partitioned launch and waits for its end. False: it cannot be partitioned, `no_parts_` holds the reason,
  /// and nothing has run.
  bool DoInParts(const proto::cl::NdRange& m, Queue& queue, Kernel& kernel, const Launch& launch);
  Result<PartProgram::Part> PartOf(Kernel& kernel, proto::ExecutorStatistics& cost);
  Status PrepareCut(CutLaunch& cut, Kernel& kernel, const Launch& launch, proto::ExecutorStatistics& cost);
  Status GatherArgs(CutLaunch& cut, const Kernel& kernel) const;
  static void GatherSizes(CutLaunch& cut, const Launch& launch);
  core::PlanViews ViewsFor(CutLaunch& cut, const Kernel& kernel, bool alone) const;
  core::Plan PlanCut(CutLaunch& cut, const Kernel& kernel, bool alone);
  void JoinPeers(std::uint64_t need);
  cl_int RunCut(CutLaunch& cut, Kernel& kernel, EventSpan& span);
  cl_int RunPlan(CutLaunch& cut, Kernel& kernel, EventSpan& span);
  cl_int RunHandedOut(CutLaunch& cut, Kernel& kernel, EventSpan& span);
  void RunSharesThere(const CutLaunch& cut, SharedCut& shared, std::size_t worker) const;
  cl_int RunLocalShares(CutLaunch& cut, Kernel& kernel, SharedCut& shared, EventSpan& span);
  cl_int RunHere(CutLaunch& cut, Kernel& kernel, const GroupRange& range, const std::vector<std::uint64_t>& ends,
                 EventSpan& span);
  static std::vector<std::uint64_t> EndsThatFit(const CutLaunch& cut, const GroupRange& range);
  Status SliceUp(const CutLaunch& cut, const GroupRange& range, PartLaunch& part) const;
  cl_int BeginThere(CutLaunch& cut, std::uint64_t first, std::vector<PartThere>& there, std::vector<GroupRange>& back);
  static std::vector<const std::byte*> ContentsOf(const CutLaunch& cut, const PartLaunch& part);
  Status EndThere(const CutLaunch& cut, const PartThere& part);
  cl_int RunPart(CutLaunch& cut, Kernel& kernel, CutPart& part, EventSpan& span);
  void MakeSlices(CutLaunch& cut, CutPart& part);
  cl_int SetPartArgs(const CutLaunch& cut, const CutPart& part) const;
  cl_int EnqueuePart(const CutLaunch& cut, CutPart& part);

  /// Opens a batch of this queue unless one is open.
  void OpenBatch(Queue& queue, std::uint32_t id, std::int64_t predicted_ns, Admission::Entry entry);
  /// The same, with all objects of the command, which is counted towards the batch.
  cl_int Admit(Queue& queue, std::uint32_t id, std::int64_t predicted_ns, const Admission::Entry& entry);
  /// Records the open batch's first command if events report times or whether the batch runs.
  void NoteFirst(cl_event event);
  void CloseBatch();
  /// Reports `what` to a remote client when `read` has ended.
  void WillArrive(const proto::cl::Enqueue& enqueue, cl_event read, const proto::cl::Arrived& what);
  bool InPlace(const proto::cl::ReadBuffer& m, const Memory& buffer, proto::cl::Arrived& arrived);
  /// An event for everything in the queue so far, which the caller must release. Null: the queue is empty.
  cl_event TailOf(Queue& queue);
  /// Calls `done(status)` once, from any thread, when `event` has ended.
  template <typename DoneFunction>
  void When(cl_event event, DoneFunction done);
  /// The same for an event that depends on no event of the client. When such an event fails, PoCL 3.1 fails the events
  /// that wait for it before clSetUserEventStatus returns, without calling callbacks.
  template <typename DoneFunction>
  void WhenSure(cl_event event, DoneFunction done);
  /// Sets the status of a user event on the client's behalf.
  void EndUserEvent(Event& event, cl_int status);

  Shared& shared_;
  const cl_icd_dispatch& cl_;
  platform::Fd socket_;
  const std::string program_;
  platform::Mapping arena_;
  platform::Mapping buffers_;  // buffers of a remote client; empty: the driver allocates them
  platform::Mapping control_;
  RingConsumer in_;
  const std::shared_ptr<HostBudget> host_budget_;
  std::shared_ptr<Replies> replies_;
  std::shared_ptr<Arrivals> arrivals_;  // null: the client shares the arena
  std::shared_ptr<Admission> admission_;
  Objects objects_;
  std::shared_ptr<Queue> open_queue_;  // the queue of the open batch
  cl_event open_first_ = nullptr;      // its first command, if events report times
  std::vector<cl_event> waits_;        // reused between commands
  std::vector<std::byte> scratch_;
  std::vector<MemoryUse> uses_;  // elastic: of the current command
  std::shared_ptr<Pins> pins_;   // elastic: of the open batch
  // The client is an executor that partitions launches: its launches are not distributed again
  const bool from_elsewhere_;
  Peers peers_;
  core::LaunchCache launch_cache_;
  bool never_fits_ = false;    // elastic: the command failed because its objects exceed the maximum
  std::string why_not_;        // elastic: explanation of the command's error
  std::string no_parts_;       // why it cannot be partitioned
  bool looked_ahead_ = false;  // the programs of all kernels were analysed in advance
  struct MayFail;
  // Reported by the session's end at the latest; may have waited for user events
  std::vector<std::shared_ptr<MayFail>> may_fail_;
  int user_events_ = 0;  // unset user events: a command may wait for a later message
  // A user event has failed: a queue's last command may have ended while earlier ones run.
  bool user_event_failed_ = false;
  std::atomic<bool> stop_{false};
};

}  // namespace weir::opencl
