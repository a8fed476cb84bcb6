// SPDX-License-Identifier: Apache-2.0
// One client's connection: reads its messages in order and carries them out on the driver. A thread of its own; what
// takes long answers from the driver's threads, so that a message never waits for another one's end.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/partition/hand_out.h"
#include "core/partition/kept_plans.h"
#include "opencl/channel/handshake.h"
#include "opencl/executor/admission.h"
#include "opencl/executor/arrivals.h"
#include "opencl/executor/buffer_store.h"
#include "opencl/executor/device_clock.h"
#include "opencl/executor/objects.h"
#include "opencl/executor/peers.h"
#include "opencl/executor/slices.h"

namespace weir::opencl {

/// What all sessions of an executor share.
struct Shared {
  NativeDevice device;
  gate::Agent& agent;
  DeviceMeter& meter;
  std::shared_ptr<Quota> quota;
  std::shared_ptr<DeviceClock> clock = std::make_shared<DeviceClock>();
  std::shared_ptr<std::atomic<std::uint64_t>> work_items = std::make_shared<std::atomic<std::uint64_t>>(0);
  bool copies = false;                 // treat the device as one with memory of its own, whatever it says
  std::shared_ptr<BufferStore> store;  // null: memory isn't elastic
  // What doesn't fit the device runs in parts. Null analyzer: it doesn't run.
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

  /// Until the client has gone or sent what no client sends; the latter is the error. Then nothing of it is left.
  Status Run();
  /// From another thread: ends Run soon, whatever it waits for.
  void Stop();
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] const std::string& program() const { return program_; }
  /// Since when the device has been at work for this session without a word; 0: it isn't. For the watchdog.
  [[nodiscard]] std::int64_t BusySinceNs() const;
  /// From another thread, at every poll: charges what is in flight for what it has used so far.
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
  /// Puts an object under an id; with an error it stands there with the reason, and the client's context is told.
  void Keep(std::uint32_t id, std::shared_ptr<Object> object, cl_int error, const char* attempted);
  // -- Arguments (session_args.cc). What one may be set to, by arg_types.h.
  cl_int MayBeValue(Kernel& kernel, std::uint32_t index, std::size_t size);
  [[nodiscard]] cl_int MayBeNull(const Kernel& kernel, std::uint32_t index) const;
  [[nodiscard]] cl_int MayBeSampler(const Kernel& kernel, std::uint32_t index) const;
  [[nodiscard]] cl_int MayBeMemory(const Kernel& kernel, std::uint32_t index, bool image) const;
  /// Counts an object, and `more` bytes, to the session's host memory, before the driver makes it.
  cl_int Charge(Object& object, std::uint64_t more = 0) const;
  void Complain(cl_int error, const char* attempted);
  /// Puts it there, in the place of what the client has given the same id before. False: no such id can be.
  bool Place(std::uint32_t id, std::shared_ptr<Object> object);
  void LetGo(Object& object);
  // -- Memory (memory.cc; where it is elastic session_memory.cc)
  /// A memory object that the next command uses. Its native one is there now; where memory is elastic when the command
  /// has claimed what it uses.
  cl_int Reads(std::uint32_t id, Memory*& memory) {
    return Use(id, memory, [](const Memory&) { return ByteRange{}; });
  }
  /// It writes to `where(memory)`, a range of it, which is asked for only if somebody wants to know.
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
  /// Where these bytes of a buffer lie, if they are to be read or written in host memory (BufferStore::StaysOut). The
  /// command then claims nothing.
  std::byte* InHostMemory(const proto::cl::Enqueue& enqueue, const Memory& memory, std::uint64_t offset,
                          std::uint64_t size, bool writes);
  /// Passes the gate with everything there and pinned that the command uses; waits for the device's memory if it must.
  cl_int Claim(Queue& queue, std::uint32_t queue_id, std::int64_t predicted_ns, const Admission::Entry& entry);
  cl_int ClaimOnce(Queue& queue, std::uint32_t queue_id, std::int64_t predicted_ns, const Admission::Entry& entry,
                   bool& again);
  void EndBatchBeforeCompiling();
  cl_int WhyNot(BufferStore::Outcome outcome, cl_int error);
  [[nodiscard]] std::string WhatItNeeds() const;
  void SayThatItNeverFits();
  void NoteArgs(const Kernel& kernel);
  /// Its arguments' native objects are others when they have been away.
  cl_int SetArgsAnew(Kernel& kernel);
  void LearnArgs(Kernel& kernel) const;
  cl_int MakeStoredImage(const proto::cl::CreateImage& m, Memory& image, const Shape& shape,
                         proto::cl::ByteView content);
  /// 0: there are no such images.
  std::uint64_t PixelBytesOf(const Context& context, const Shape& shape) const;
  /// The bytes of a blob, or an error when it lies outside the arena.
  cl_int View(const proto::cl::Blob& blob, proto::cl::ByteView& bytes) const;
  [[nodiscard]] bool InArena(std::uint64_t offset, std::uint64_t size) const;

  // -- Any command (session_command.h)
  /// Enqueues one command: `call(queue, number of events to wait for, these, event to make)`. `device_bytes`: what it
  /// moves on the device; 0: nothing that is worth passing the gate for.
  template <typename Call>
  void Command(const proto::cl::Enqueue& enqueue, std::uint64_t device_bytes, const char* attempted, Call call);
  /// The same for commands that read `content`, `size` bytes of it: keeps it until they are done, then frees `ticket`.
  template <typename Call>
  void Upload(const proto::cl::Enqueue& enqueue, const proto::cl::Blob& content, std::uint64_t ticket,
              std::uint64_t size, std::uint64_t device_bytes, const char* attempted, Call call);
  /// When `event` has ended `copy` is dropped and `ticket` (0: none) freed.
  void FreeAfter(cl_event event, std::shared_ptr<std::byte[]> copy, std::uint64_t ticket);
  cl_int PrepareCommand(const proto::cl::Enqueue& enqueue, Queue*& queue);
  void EndCommand(const proto::cl::Enqueue& enqueue, Queue* queue, cl_int error, cl_event event, const char* attempted);
  void SetLast(Queue& queue, cl_event event);

  cl_int LaunchOne(std::uint32_t id, Queue& queue, Kernel& kernel, const Launch& launch, const Admission::Entry& entry,
                   cl_event& event);
  /// A launch is on its way: it is a task, or a part of one that a marker will end.
  void CountLaunch(Queue& queue);

  // -- Launches in parts: what they are and where they are cut (session_cut.cc), how they run (session_parts.cc)
  struct CutLaunch;
  struct CutPart;
  struct PartThere;
  struct SharedCut;
  void RememberArg(Kernel& kernel, const proto::cl::SetArg& m) const;
  /// The client's kernels, whose launches may have to be cut soon: there is more memory than can be on the device.
  void AnalyseAhead();
  /// Whether what `uses_` needs may ever be there at once.
  [[nodiscard]] bool FitsWhole() const;
  /// Runs a launch so, and waits for its end. False: it can't be cut, `no_parts_` says why, and nothing has run.
  bool DoInParts(const proto::cl::NdRange& m, Queue& queue, Kernel& kernel, const Launch& launch);
  Result<PartProgram::Part> PartOf(Kernel& kernel, PartsCount& cost);
  Status PrepareCut(CutLaunch& cut, Kernel& kernel, const Launch& launch, PartsCount& cost);
  Status GatherArgs(CutLaunch& cut, const Kernel& kernel) const;
  static void GatherSizes(CutLaunch& cut, const Launch& launch);
  core::PlanViews ViewsFor(CutLaunch& cut, const Kernel& kernel, bool alone) const;
  core::Plan PlanCut(CutLaunch& cut, const Kernel& kernel, bool alone);
  void JoinPeers(std::uint64_t need);
  cl_int RunCut(CutLaunch& cut, Kernel& kernel, EventSpan& span);
  cl_int RunPlan(CutLaunch& cut, Kernel& kernel, EventSpan& span);
  cl_int RunHandedOut(CutLaunch& cut, Kernel& kernel, EventSpan& span);
  void RunSharesThere(const CutLaunch& cut, SharedCut& shared, std::size_t worker) const;
  cl_int RunSharesHere(CutLaunch& cut, Kernel& kernel, SharedCut& shared, EventSpan& span);
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

  /// Sees to it that a batch of this queue is open.
  void OpenBatch(Queue& queue, std::uint32_t id, std::int64_t predicted_ns, Admission::Entry entry);
  /// The same, with all that the command uses, and counts it to the batch.
  cl_int Admit(Queue& queue, std::uint32_t id, std::int64_t predicted_ns, const Admission::Entry& entry);
  /// The open batch's first command, where its event tells the time or whether it runs.
  void NoteFirst(cl_event event);
  void CloseBatch();
  /// A distant client is to be told this when `read` has ended.
  void WillArrive(const proto::cl::Enqueue& enqueue, cl_event read, const proto::cl::Arrived& what);
  bool InPlace(const proto::cl::ReadBuffer& m, const Memory& buffer, proto::cl::Arrived& arrived);
  /// An event of everything in the queue so far, to be released by the caller; null when there is nothing.
  cl_event TailOf(Queue& queue);
  /// Calls `done(status)` when `event` has ended, from whichever thread, once.
  template <typename DoneFunction>
  void When(cl_event event, DoneFunction done);
  /// The same for one that waits for nothing of the client's: when such a thing fails, PoCL 3.1 fails what waits for it
  /// before clSetUserEventStatus returns, and calls nobody.
  template <typename DoneFunction>
  void WhenSure(cl_event event, DoneFunction done);
  /// Sets an event that was the client's to set.
  void EndUserEvent(Event& event, cl_int status);

  Shared& shared_;
  const cl_icd_dispatch& cl_;
  platform::Fd socket_;
  const std::string program_;
  platform::Mapping arena_;
  platform::Mapping buffers_;  // a distant client's buffers, each at its range's place; empty: the driver has them
  platform::Mapping control_;
  RingConsumer in_;
  const std::shared_ptr<HostBudget> host_budget_;
  std::shared_ptr<Replies> replies_;
  std::shared_ptr<Arrivals> arrivals_;  // null: the client sees the arena itself
  std::shared_ptr<Admission> admission_;
  Objects objects_;
  std::shared_ptr<Queue> open_queue_;  // whose batch is open
  cl_event open_first_ = nullptr;      // its first command, where events tell the time
  std::vector<cl_event> waits_;        // scratch
  std::vector<std::byte> scratch_;
  std::vector<MemoryUse> uses_;  // elastic: of the command that is being carried out
  std::shared_ptr<Pins> pins_;   // elastic: the open batch's
  const bool from_elsewhere_;    // its client is an executor that cuts launches: ours are not cut among others
  Peers peers_;
  core::KeptLaunches kept_launches_;
  bool never_fits_ = false;    // elastic: the command's error is that what it uses is more than there may ever be
  std::string why_not_;        // elastic: what to say of the command's error
  std::string no_parts_;       // and why it can't be cut
  bool looked_ahead_ = false;  // every kernel's program has been analysed ahead
  struct MayFail;
  std::vector<std::shared_ptr<MayFail>> may_fail_;  // told of at its end, and may have waited for user events
  int user_events_ = 0;  // that have not been set: somebody may wait for a message that is still to come
  // One has: a queue's last command may have ended while those before it run.
  bool user_event_failed_ = false;
  std::atomic<bool> stop_{false};
};

}  // namespace weir::opencl
