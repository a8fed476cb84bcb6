// SPDX-License-Identifier: Apache-2.0
// Runs partitioned launches. A launch whose memory does not fit the device runs some work-groups at a time, each time
// with slices of its buffers. partitioned_launches_plan.cc decides where it is cut. Page: docs/partition.md
//
//   earlier commands ended ─▶ contents to host memory ─▶ remote parts begun
//     ─▶ for each local part: slices created, claimed, part kernel, results copied back to host memory
//     ─▶ remote parts ended, merged ─▶ lost parts run on this node
//
// If several nodes share a launch by `auto`, groups are assigned dynamically: each node takes more when it has finished
// its last ones (core/partition/hand_out.h). The session waits for the end of each part. Contents stay in host memory
// until another command needs them on the device.
#include "opencl/executor/partitioned_launches.h"

#include <array>
#include <deque>
#include <span>
#include <thread>

#include "opencl/executor/cut_launch.h"
#include "platform/clock.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// What a part's kernel needs to know of the whole launch (docs/kernel-analysis.md, "A part's kernel").
using LaunchWords = std::array<cl_ulong, 16>;

/// Interval of checks for a stop while peers run the last parts.
constexpr Duration kStopLook = milliseconds(100);
/// A remote part is given up after this many times its prediction, plus kLateAfter.
constexpr int kLateAfterTimes = 10;
constexpr Duration kLateAfter = seconds(30), kForeseenMax = seconds(600);
/// Weight of the latest local part in the mean.
constexpr double kLastPart = 0.5;

template <typename T>
std::vector<std::byte> BytesOfValue(const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

std::uint64_t ItemsOf(const PartLaunch& part) { return part.global[0] * part.global[1] * part.global[2]; }

}  // namespace

bool PartitionedLaunches::Run(const wire::NdRange& m, Queue& queue, Kernel& kernel, const Launch& launch) {
  CutLaunch cut{.queue = &queue};
  const std::int64_t began_ns = platform::NowNs();
  proto::ExecutorStatistics cost;
  const Status prepared = PrepareCut(cut, kernel, launch, cost);
  cost.parts_decide = Duration(platform::NowNs() - began_ns) - cost.parts_compile;
  cost.launches_not_cut = !prepared && !memory_.FitsWhole() ? 1 : 0;
  shared_.store->CountParts(cost);
  no_parts_ = prepared ? std::string() : prepared.error().message;
  if (!prepared) return false;
  memory_.Forget();  // from here on it holds the uses of a part
  EventSpan span;
  cl_event event = nullptr;
  cl_int error = RunCut(cut, kernel, span);
  cut.done.launches_in_parts = 1;
  if (error == CL_SUCCESS) shared_.store->CountParts(cut.done);
  if (error == CL_SUCCESS) error = cl_.clEnqueueMarkerWithWaitList(queue.native, 0, nullptr, &event);
  commands_.End(m.enqueue, &queue, error, event, "clEnqueueNDRangeKernel");
  Event* made = nullptr;
  if (m.enqueue.event != 0 && objects_.Find(m.enqueue.event, made) == CL_SUCCESS && made->profiling) made->span = span;
  return true;
}

cl_int PartitionedLaunches::RunCut(CutLaunch& cut, Kernel& kernel, EventSpan& span) {
  batches_.Close();
  if (!commands_.waits().empty()) {
    const cl_int error = cl_.clWaitForEvents(static_cast<cl_uint>(commands_.waits().size()), commands_.waits().data());
    if (error != CL_SUCCESS) return error;
    commands_.waits().clear();
  }
  const bool may_leave = cut.plan.Leaves() || cut.handed_out;
  for (const auto& root : cut.roots) {
    if (cut.Stays(*root) && !may_leave) continue;  // no other command needs the room
    cl_int error = CL_SUCCESS;
    const auto outcome =
        shared_.store->Withdraw(*root, {.before_waiting = [this] { batches_.Close(); }, .stop = &stop_}, error);
    if (outcome != BufferStore::Outcome::kThere)
      return outcome == BufferStore::Outcome::kEnded ? CL_OUT_OF_RESOURCES : error;
  }
  return cut.handed_out ? RunHandedOut(cut, kernel, span) : RunPlan(cut, kernel, span);
}

/// Runs a static plan: remote parts and local pieces at the same time, then lost parts on this node.
cl_int PartitionedLaunches::RunPlan(CutLaunch& cut, Kernel& kernel, EventSpan& span) {
  const std::vector<std::uint64_t> ours(cut.plan.ends.begin(), cut.plan.ends.begin() + cut.plan.here);
  const GroupRange here{0, cut.plan.kept()};
  std::vector<PartThere> there;
  std::vector<GroupRange> back;
  cl_int error = BeginThere(cut, here.end, there, back);
  if (error == CL_SUCCESS) error = RunHere(cut, kernel, here, ours, span);
  for (const PartThere& part : there) {
    if (error != CL_SUCCESS) {
      peers_.Leave(part.node);  // its result is not awaited
    } else if (const Status status = EndThere(cut, part); status) {
      peers_.Succeeded(part.node);
      ++cut.done.parts;
    } else {
      peers_.Lost(part.node, status.error());
      back.push_back(part.range);
    }
  }
  for (const GroupRange& one : back) {
    if (error != CL_SUCCESS) break;
    const std::vector<std::uint64_t> ends = EndsThatFit(cut, one);
    error = ends.empty() ? CL_OUT_OF_RESOURCES : RunHere(cut, kernel, one, ends, span);
  }
  return error;
}

// -- Dynamic assignment -----------------------------------------------------------------------------------------------

/// Each node takes groups as it finishes earlier ones. Waits, copies and messages of a peer run on its own thread.
cl_int PartitionedLaunches::RunHandedOut(CutLaunch& cut, Kernel& kernel, EventSpan& span) {
  const double groups = static_cast<double>(cut.groups());
  std::vector<double> rates{kernel.parts_run >= 2 ? groups / (kernel.part_item_s * cut.items) : 0.0};
  std::vector<SharedCut::Other> others;
  for (const core::PeerView& view : peers_.Views(0)) {
    if (cut.plan.Leaves() && std::ranges::find(cut.plan.nodes, view.id) == cut.plan.nodes.end()) continue;
    others.push_back({.node = view.id, .room = view.device.room.count});
    const auto known = kernel.items_per_s.find(view.id);
    rates.push_back(known != kernel.items_per_s.end() ? known->second * groups / cut.items : 0.0);
  }
  SharedCut shared{.hand_out = core::HandOut({0, cut.groups()}, std::move(rates)), .others = std::move(others)};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < shared.others.size(); ++i)
    threads.emplace_back([this, &cut, &shared, i] { RunSharesThere(cut, shared, i + 1); });
  const cl_int error = RunLocalShares(cut, kernel, shared, span);
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < shared.others.size(); ++i) {
    const SharedCut::Other& one = shared.others[i];
    for (const PartLaunch& part : one.ran)
      for (const kernel::MemorySlice& slice : part.slices.slices)
        for (const kernel::Extent& extent : slice.written)
          cut.RootOf(slice).content.Cover({extent.begin, extent.end()});
    cut.done.parts += one.ran.size();
    if (shared.hand_out.rate(i + 1) > 0)
      kernel.items_per_s[one.node] = shared.hand_out.rate(i + 1) * cut.items / groups;
    if (!one.end)
      peers_.Lost(one.node, one.end.error());
    else if (one.busy)
      peers_.Leave(one.node);  // the launch has failed on this node: the result is not awaited
    else if (!one.ran.empty())
      peers_.Succeeded(one.node);
  }
  return error;
}

/// Runs until no groups are left for the peer, or it is lost. The next part is transferred while one computes.
void PartitionedLaunches::RunSharesThere(const CutLaunch& cut, SharedCut& shared, std::size_t worker) const {
  SharedCut::Other& mine = shared.others[worker - 1];
  Peer& peer = *peers_.Of(mine.node);
  const auto take = [&](std::uint64_t room) {
    const auto fits = [&](const GroupRange& range) {
      return cut.plans->need().Of({cut.plan.dimension, range.first, range.end}).device.count <= room;
    };
    return shared.hand_out.Take(worker, fits, platform::Now());
  };
  std::deque<PartLaunch> begun;
  bool more = true;
  std::unique_lock lock(shared.mutex);
  while (mine.end && !shared.over) {
    GroupRange range;
    if (more && peer.MayBegin()) range = take(mine.room / 2);
    if (more && range.empty() && begun.empty()) range = take(mine.room);
    if (range.empty() && begun.empty()) break;
    const Duration foreseen = std::min(shared.hand_out.Foreseen(worker), kForeseenMax);
    lock.unlock();
    if (range.empty()) {
      std::vector<std::byte*> memory;
      for (const kernel::MemorySlice& slice : begun.front().slices.slices)
        memory.push_back(cut.RootOf(slice).host.As<std::byte>());
      mine.end = peer.End(memory, static_cast<double>(ItemsOf(begun.front())) * cut.item_s);
    } else {
      begun.emplace_back();
      // A part that cannot be created here is attempted, and fails, on this node.
      more = SliceUp(cut, range, begun.back()).has_value();
      if (more)
        mine.end = peer.Begin(*cut.program, begun.back(), ContentsOf(cut, begun.back()),
                              foreseen > Duration{} ? kLateAfterTimes * foreseen + kLateAfter : kForeseenMax);
      else
        begun.pop_back();
    }
    lock.lock();
    if (!mine.end || !range.empty()) continue;
    shared.hand_out.Ended(worker, platform::Now());
    mine.ran.push_back(std::move(begun.front()));
    begun.pop_front();
    shared.changed.notify_all();
  }
  mine.busy = mine.end && !begun.empty();
  shared.hand_out.Lost(worker);
  shared.changed.notify_all();
  lock.unlock();
  if (mine.end && !mine.busy) mine.end = peer.EndLaunch();
}

/// Runs until all groups have been executed, on any node.
cl_int PartitionedLaunches::RunLocalShares(CutLaunch& cut, Kernel& kernel, SharedCut& shared, EventSpan& span) {
  const auto fits = [&](const GroupRange& range) {
    return cut.plans->need().Of({cut.plan.dimension, range.first, range.end}).device.count <= cut.room;
  };
  cl_int error = CL_SUCCESS;
  std::unique_lock lock(shared.mutex);
  while (error == CL_SUCCESS && !shared.hand_out.Done()) {
    const GroupRange range = shared.hand_out.Take(0, fits, platform::Now());
    if (range.empty()) {
      // Nothing to run here now: other nodes still have groups, may take more, or may be lost and return theirs. If
      // there are no other nodes, device memory has shrunk.
      if (stop_.load(std::memory_order_relaxed) || shared.hand_out.Alone(0)) error = CL_OUT_OF_RESOURCES;
      if (error == CL_SUCCESS) shared.changed.wait_for(lock, kStopLook);
      continue;
    }
    lock.unlock();
    error = RunHere(cut, kernel, range, {range.end}, span);
    lock.lock();
    if (error == CL_SUCCESS) shared.hand_out.Ended(0, platform::Now());
  }
  shared.over = true;
  return error;
}

/// The ends of pieces as large as the memory allows; empty if one group needs more.
std::vector<std::uint64_t> PartitionedLaunches::EndsThatFit(const CutLaunch& cut, const GroupRange& range) {
  std::vector<std::uint64_t> ends;
  std::uint64_t first = range.first;
  for (std::uint64_t size = range.end - first; first < range.end; first = ends.back()) {
    size = std::min(size, range.end - first);
    const auto fits = [&] {
      return cut.plans->need().Of({cut.plan.dimension, first, first + size}).device.count <= cut.room;
    };
    while (!fits() && size > 1) size = (size + 1) / 2;
    if (!fits()) return {};
    ends.push_back(first + size);
  }
  return ends;
}

/// Runs the pieces of `range` in order.
cl_int PartitionedLaunches::RunHere(CutLaunch& cut, Kernel& kernel, const GroupRange& range,
                                    const std::vector<std::uint64_t>& ends, EventSpan& span) {
  std::uint64_t first = range.first;
  for (const std::uint64_t end : ends) {
    if (stop_.load(std::memory_order_relaxed)) return CL_OUT_OF_RESOURCES;
    CutPart part;
    if (!SliceUp(cut, {first, end}, part.launch)) return CL_OUT_OF_RESOURCES;
    const cl_int error = RunPart(cut, kernel, part, span);
    memory_.Forget();  // they belong to `part`
    if (error != CL_SUCCESS) return error;
    first = end;
  }
  return CL_SUCCESS;
}

/// Computes the slices and arguments of a part's kernel.
Status PartitionedLaunches::SliceUp(const CutLaunch& cut, const GroupRange& range, PartLaunch& part) const {
  const kernel::KernelAccess& access = *cut.kernel.access;
  const unsigned dimension = cut.plan.dimension;
  WEIR_TRY(part.slices, kernel::SlicesOf(access, cut.launch, {dimension, range.first, range.end}, cut.alignment));
  for (const kernel::MemorySlice& slice : part.slices.slices)
    part.alike.push_back(slice.written.empty() && std::ranges::any_of(cut.alike, [&](const kernel::MemorySlice& one) {
                           return kernel::SameBytes(one, slice);
                         }));
  part.kernel = access.kernel;
  part.dimensions = cut.launch.dimensions;
  LaunchWords words{};
  words[dimension] = range.first;
  for (unsigned d = 0; d < 3; ++d) {
    words[3 + d] = d < part.dimensions ? cut.launch.Groups(d) : 1;
    words[6 + d] = d < part.dimensions ? cut.launch.global[d] : 1;
    words[9 + d] = d < part.dimensions ? cut.launch.offset[d] : 0;
    if (d >= part.dimensions) continue;
    const bool along = d == dimension;
    part.local[d] = cut.launch.local[d];
    part.offset[d] = cut.launch.offset[d] + (along ? range.first * part.local[d] : 0);
    part.global[d] = along ? (range.end - range.first) * part.local[d] : cut.launch.global[d];
  }
  std::vector<PartArg> bases;
  for (std::size_t i = 0; i < access.arguments.size(); ++i) {
    const kernel::SlicedArgument& at = part.slices.arguments[i];
    switch (access.arguments[i].kind) {
      case kernel::ArgumentKind::kBuffer:
        part.args.push_back(
            {.kind = at.slice == kernel::kNoSlice ? PartArg::Kind::kNull : PartArg::Kind::kSlice, .slice = at.slice});
        bases.push_back({.kind = PartArg::Kind::kBytes, .bytes = BytesOfValue(at.base)});
        break;
      case kernel::ArgumentKind::kScalar:
        part.args.push_back({.kind = PartArg::Kind::kBytes, .bytes = cut.values[i].bytes});
        break;
      case kernel::ArgumentKind::kLocal:
        part.args.push_back({.kind = PartArg::Kind::kLocal, .local = cut.values[i].local});
        break;
    }
  }
  part.args.insert(part.args.end(), bases.begin(), bases.end());
  part.args.push_back({.kind = PartArg::Kind::kBytes, .bytes = BytesOfValue(words)});
  return Ok();
}

std::vector<const std::byte*> PartitionedLaunches::ContentsOf(const CutLaunch& cut, const PartLaunch& part) {
  std::vector<const std::byte*> contents;
  for (const kernel::MemorySlice& slice : part.slices.slices)
    contents.push_back(slice.sent ? cut.RootOf(slice).host.As<std::byte>() + slice.begin : nullptr);
  return contents;
}

// -- Remote parts -----------------------------------------------------------------------------------------------------

/// Parts that have begun are added to `there`, and those whose peer was lost to `back`. Errors: a part's slices cannot
/// be computed, which is not the peer's failure.
cl_int PartitionedLaunches::BeginThere(CutLaunch& cut, std::uint64_t first, std::vector<PartThere>& there,
                                       std::vector<GroupRange>& back) {
  const core::Plan& plan = cut.plan;
  const Duration at_most = cut.item_s > 0 ? kLateAfterTimes * std::min(plan.times.total, kForeseenMax) + kLateAfter
                                          : kForeseenMax;  // the cost is unknown
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    PartThere part{.node = plan.nodes[i], .range = {first, plan.ends[plan.here + i]}, .launch = {}};
    first = part.range.end;
    if (const Status sliced = SliceUp(cut, part.range, part.launch); !sliced) {
      memory_.Explain("a part of it can't be made: " + sliced.error().message);
      return CL_INVALID_KERNEL_ARGS;
    }
    Peer* const peer = peers_.Of(part.node);
    const Status status = peer == nullptr
                              ? Status(Fail(Errc::kUnavailable, "it was lost a moment ago"))
                              : peer->Begin(*cut.program, part.launch, ContentsOf(cut, part.launch), at_most);
    if (status) {
      there.push_back(std::move(part));
    } else {
      peers_.Lost(part.node, status.error());
      back.push_back(part.range);
    }
  }
  return CL_SUCCESS;
}

Status PartitionedLaunches::EndThere(const CutLaunch& cut, const PartThere& part) {
  std::vector<std::byte*> memory;
  for (const kernel::MemorySlice& slice : part.launch.slices.slices) {
    Stored& root = cut.RootOf(slice);
    memory.push_back(root.host.As<std::byte>());
    for (const kernel::Extent& extent : slice.written) root.content.Cover({extent.begin, extent.end()});
  }
  Peer& peer = *peers_.Of(part.node);
  WEIR_TRY_STATUS(peer.End(memory, static_cast<double>(ItemsOf(part.launch)) * cut.item_s));
  return peer.EndLaunch();
}

// -- Local parts ------------------------------------------------------------------------------------------------------

cl_int PartitionedLaunches::RunPart(CutLaunch& cut, Kernel& kernel, CutPart& part, EventSpan& span) {
  MakeSlices(cut, part);
  const std::uint64_t items = ItemsOf(part.launch);
  const std::int64_t predicted_ns = kernel.cost->PredictNs(items), begin_ns = platform::NowNs();
  cl_int error = memory_.Admit(*cut.queue, predicted_ns, {.task = true});
  if (error != CL_SUCCESS && memory_.never_fits()) memory_.SayThatItNeverFits();
  if (error != CL_SUCCESS) return error;
  batches_.admission().AddLaunch(kernel.cost, items, predicted_ns);
  error = SetPartArgs(cut, part);
  if (error == CL_SUCCESS) error = EnqueuePart(cut, part);
  if (part.ended != nullptr) {
    if (cut.queue->in_order) {
      cl_.clRetainEvent(part.ended);
      cut.queue->SetLast(part.ended);
    }
    batches_.Close();
    const cl_int failed = cl_.clWaitForEvents(1, &part.ended);
    if (error == CL_SUCCESS) error = failed;
    const double item_s = SecondsOf(Duration{platform::NowNs() - begin_ns}) / static_cast<double>(items);
    // The first part includes the driver's compilation.
    kernel.part_item_s = ++kernel.parts_run <= 2 ? item_s : (1 - kLastPart) * kernel.part_item_s + kLastPart * item_s;
    const EventSpan its = SpanOf(cl_, part.began);
    if (span.start_ns == 0) span = its;
    span.end_ns = its.end_ns;
    cl_.clReleaseEvent(part.ended);
  }
  if (part.began != nullptr) cl_.clReleaseEvent(part.began);
  ++cut.done.parts;
  for (const kernel::MemorySlice& slice : part.launch.slices.slices)
    for (const kernel::Extent& extent : slice.written) cut.done.parts_out.count += extent.total();
  return error;
}

/// Creates the memory of each slice, to be filled from host memory. A buffer that is read as a whole is its own slice.
void PartitionedLaunches::MakeSlices(CutLaunch& cut, CutPart& part) {
  const std::vector<kernel::MemorySlice>& slices = part.launch.slices.slices;
  part.natives.resize(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const kernel::MemorySlice& slice = slices[i];
    Stored& root = cut.RootOf(slice);
    const bool whole = cut.IsWhole(slice);
    const auto alike = std::ranges::find_if(cut.alike, [&](const kernel::MemorySlice& one) {
      return kernel::SameBytes(one, slice) && slice.written.empty();
    });
    const auto place = static_cast<std::size_t>(alike - cut.alike.begin());
    std::shared_ptr<Stored> memory = whole ? root.shared_from_this() : nullptr;
    if (memory == nullptr && alike != cut.alike.end()) memory = cut.kept[place];
    if (memory == nullptr) {
      memory = shared_.store->Make(root.context, {.flags = CL_MEM_READ_WRITE, .size = slice.bytes()}, nullptr,
                                   slice.sent ? root.host.As<std::byte>() + slice.begin : nullptr);
      if (slice.sent) cut.done.parts_in.count += slice.bytes();
    }
    if (!whole && alike != cut.alike.end()) cut.kept[place] = memory;
    memory_.Add({.object = memory.get(),
                 .writes = !slice.written.empty(),
                 .range = {0, memory->shape.size},
                 .native = &part.natives[i]});
    part.memory.push_back(std::move(memory));
  }
}

cl_int PartitionedLaunches::SetPartArgs(const CutLaunch& cut, const CutPart& part) const {
  cl_int error = CL_SUCCESS;
  for (cl_uint i = 0; i < part.launch.args.size() && error == CL_SUCCESS; ++i) {
    const PartArg& arg = part.launch.args[i];
    const auto set = [&](std::size_t bytes, const void* value) {
      error = cl_.clSetKernelArg(cut.kernel.native, i, bytes, value);
    };
    switch (arg.kind) {
      case PartArg::Kind::kSlice: set(sizeof(cl_mem), &part.natives[arg.slice]); break;
      case PartArg::Kind::kNull: set(sizeof(cl_mem), nullptr); break;
      case PartArg::Kind::kBytes: set(arg.bytes.size(), arg.bytes.data()); break;
      case PartArg::Kind::kLocal: set(arg.local, nullptr); break;
    }
  }
  return error;
}

cl_int PartitionedLaunches::EnqueuePart(const CutLaunch& cut, CutPart& part) {
  const PartLaunch& launch = part.launch;
  const cl_command_queue queue = cut.queue->native;
  cl_int error = cl_.clEnqueueNDRangeKernel(queue, cut.kernel.native, launch.dimensions, launch.offset.data(),
                                            launch.global.data(), launch.local.data(), 0, nullptr, &part.began);
  if (error != CL_SUCCESS) return error;
  batches_.NoteFirst(part.began);
  std::vector<cl_event> copies;
  for (std::size_t i = 0; i < launch.slices.slices.size() && error == CL_SUCCESS; ++i) {
    const kernel::MemorySlice& slice = launch.slices.slices[i];
    Stored& root = cut.RootOf(slice);
    for (const kernel::Extent& extent : slice.written) {
      const std::size_t from[3] = {extent.begin - slice.begin, 0, 0}, to[3] = {extent.begin, 0, 0};
      const std::size_t region[3] = {extent.bytes, extent.rows, 1};
      const std::size_t pitch = extent.rows > 1 ? extent.stride : extent.bytes;
      cl_event copied = nullptr;
      error = cl_.clEnqueueReadBufferRect(queue, part.natives[i], CL_FALSE, from, to, region, pitch, 0, pitch, 0,
                                          root.host.As<std::byte>(), 1, &part.began, &copied);
      if (error != CL_SUCCESS) break;
      copies.push_back(copied);
      root.content.Cover({extent.begin, extent.end()});
    }
  }
  const cl_int marked = cl_.clEnqueueMarkerWithWaitList(queue, static_cast<cl_uint>(copies.size()),
                                                        copies.empty() ? nullptr : copies.data(), &part.ended);
  for (const cl_event copy : copies) cl_.clReleaseEvent(copy);
  return error == CL_SUCCESS ? marked : error;
}

}  // namespace weir::opencl
