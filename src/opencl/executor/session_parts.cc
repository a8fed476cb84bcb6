// SPDX-License-Identifier: Apache-2.0
// Launches in parts: one whose memory does not fit the device runs some work-groups at a time, each time with slices of
// its buffers. Where it is cut: session_cut.cc. Page: docs/partition.md
//
//   commands of before ended ─▶ contents to host memory ─▶ parts elsewhere begun
//     ─▶ for each part here: slices made from them, claimed, part kernel, what it has written read back into them
//     ─▶ parts elsewhere ended, merged ─▶ what was lost runs here; what is left when the others have ended is shared
//     anew
//
// The session waits for the end of each part. Contents stay in host memory until another command wants them.
#include <array>
#include <span>

#include "opencl/executor/cut_launch.h"
#include "platform/clock.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// What a part's kernel is told of the whole launch (docs/kernel-analysis.md, "A part's kernel").
using LaunchWords = std::array<cl_ulong, 16>;

/// Of a launch, for each of the pieces that tell what its groups take.
constexpr std::uint64_t kMeasuredPart = 32;
/// While others have parts: after each piece of ours it is looked whether they have ended.
constexpr std::uint64_t kPiecesBesideOthers = 6;
/// A part elsewhere is given up after so many times what was foreseen for it, and some.
constexpr int kLateAfterTimes = 10;
constexpr Duration kLateAfter = seconds(30), kForeseenMax = seconds(600);
/// Of what a part of ours takes, the last one's share in the mean.
constexpr double kLastPart = 0.5;

template <typename T>
std::vector<std::byte> BytesOfValue(const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

std::uint64_t ItemsOf(const PartLaunch& part) { return part.global[0] * part.global[1] * part.global[2]; }

}  // namespace

bool Session::FitsWhole() const { return shared_.store->BytesOf(uses_) <= shared_.store->MostBytes(); }

bool Session::DoInParts(const wire::NdRange& m, Queue& queue, Kernel& kernel, const Launch& launch) {
  CutLaunch cut{.queue_id = m.enqueue.queue, .queue = &queue};
  const Status prepared = PrepareCut(cut, kernel, launch);
  no_parts_ = prepared ? std::string() : prepared.error().message;
  if (!prepared) {
    if (!FitsWhole()) shared_.store->CountParts({.not_cut = 1});
    return false;
  }
  uses_.clear();  // from here on those of a part
  EventSpan span;
  cl_event event = nullptr;
  cl_int error = RunCut(cut, kernel, span);
  cut.done.launches = 1;
  if (error == CL_SUCCESS) shared_.store->CountParts(cut.done);
  if (error == CL_SUCCESS) error = cl_.clEnqueueMarkerWithWaitList(queue.native, 0, nullptr, &event);
  EndCommand(m.enqueue, &queue, error, event, "clEnqueueNDRangeKernel");
  Event* made = nullptr;
  if (m.enqueue.event != 0 && objects_.Find(m.enqueue.event, made) == CL_SUCCESS && made->profiling) made->span = span;
  return true;
}

cl_int Session::RunCut(CutLaunch& cut, Kernel& kernel, EventSpan& span) {
  CloseBatch();
  if (!waits_.empty()) {
    const cl_int error = cl_.clWaitForEvents(static_cast<cl_uint>(waits_.size()), waits_.data());
    if (error != CL_SUCCESS) return error;
    waits_.clear();
  }
  const bool may_leave = cut.plan.Leaves() || cut.measures;
  for (const auto& root : cut.roots) {
    if (cut.Stays(*root) && !may_leave) continue;  // nobody else needs it
    cl_int error = CL_SUCCESS;
    const auto outcome =
        shared_.store->Withdraw(*root, {.before_waiting = [this] { CloseBatch(); }, .stop = &stop_}, error);
    if (outcome != BufferStore::Outcome::kThere)
      return outcome == BufferStore::Outcome::kEnded ? CL_OUT_OF_RESOURCES : error;
  }
  GroupRange rest{0, cut.groups()};
  core::Plan plan = cut.plan;
  if (cut.measures) {
    if (const cl_int error = MeasurePieces(cut, kernel, rest, span); error != CL_SUCCESS) return error;
    if (rest.first > 0) plan = PlanRest(cut, kernel, rest, /*alone=*/false);
  }
  while (!rest.empty()) {
    if (plan.ends.empty()) return CL_OUT_OF_RESOURCES;  // less room than a moment ago
    bool lost = false;
    if (const cl_int error = RunPlan(cut, kernel, plan, rest, lost, span); error != CL_SUCCESS) return error;
    if (!rest.empty()) plan = PlanRest(cut, kernel, rest, /*alone=*/lost);
  }
  return CL_SUCCESS;
}

/// The first groups in small pieces: two here, for drivers compile when they first launch, and one on each peer, which
/// compiles too, and tells how fast its link is. `rest` begins behind them.
cl_int Session::MeasurePieces(CutLaunch& cut, Kernel& kernel, GroupRange& rest, EventSpan& span) {
  core::Plan small{.kind = core::PlanKind::kSplit, .here = 2, .times = cut.plan.times};
  const std::uint64_t size = std::clamp<std::uint64_t>(rest.end / kMeasuredPart, 1, cut.plan.ends.front());
  small.ends = {size, 2 * size};
  for (const core::PeerView& peer : peers_.Views(0)) {
    if (cut.plans->need().Of({cut.plan.dimension, small.ends.back(), small.ends.back() + size}).device >
        peer.device.room)
      continue;
    small.ends.push_back(small.ends.back() + size);
    small.nodes.push_back(peer.id);
  }
  if (small.ends.back() >= rest.end) return CL_SUCCESS;
  GroupRange measured{0, small.ends.back()};
  bool lost = false;
  const cl_int error = RunPlan(cut, kernel, small, measured, lost, span);
  rest.first = small.ends.back();
  return error;
}

/// Runs `range` as `plan` says. When others have ended before us, `range` is what is left of ours; else it is empty.
/// `lost`: a peer was.
cl_int Session::RunPlan(CutLaunch& cut, Kernel& kernel, const core::Plan& plan, GroupRange& range, bool& lost,
                        EventSpan& span) {
  std::vector<std::uint64_t> ours(plan.ends.begin(), plan.ends.begin() + plan.here);
  GroupRange here{range.first, ours.empty() ? range.first : ours.back()};
  std::vector<PartThere> there;
  std::vector<GroupRange> back;
  const cl_int begun = BeginThere(cut, plan, here.end, there, back);
  const bool shares = !there.empty() && shared_.partition == core::PartitionMode::kAuto && !cut.measures;
  if (shares) ours = FinerEnds(here, ours);
  const auto enough = [&] {
    return shares &&
           std::ranges::all_of(there, [this](const PartThere& part) { return peers_.Of(part.node)->Ended(); });
  };
  cl_int error = begun == CL_SUCCESS ? RunHere(cut, kernel, here, ours, enough, span) : begun;
  for (const PartThere& part : there) {
    if (error != CL_SUCCESS) {
      peers_.Leave(part.node);  // what it returns is not waited for
    } else if (const Status status = EndThere(cut, part); status) {
      peers_.Kept(part.node);
      ++cut.done.parts;
    } else {
      peers_.Lost(part.node, status.error());
      back.push_back(part.range);
    }
  }
  cut.measures = false;
  lost = !back.empty();
  for (GroupRange& one : back) {
    if (error != CL_SUCCESS) break;
    const std::vector<std::uint64_t> ends = EndsThatFit(cut, one);
    error = ends.empty() ? CL_OUT_OF_RESOURCES : RunHere(cut, kernel, one, ends, nullptr, span);
  }
  range = here;
  return error;
}

/// The same in smaller pieces.
std::vector<std::uint64_t> Session::FinerEnds(const GroupRange& range, const std::vector<std::uint64_t>& ends) {
  const std::uint64_t most = std::max<std::uint64_t>((range.end - range.first) / kPiecesBesideOthers, 1);
  std::vector<std::uint64_t> finer;
  std::uint64_t first = range.first;
  for (const std::uint64_t end : ends) {
    const std::uint64_t pieces = (end - first + most - 1) / most;
    for (std::uint64_t i = 1; i <= pieces; ++i) finer.push_back(first + (end - first) * i / pieces);
    first = end;
  }
  return finer;
}

/// Pieces as large as there is room for; none where one group needs more.
std::vector<std::uint64_t> Session::EndsThatFit(const CutLaunch& cut, const GroupRange& range) {
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

/// Pieces of `range` in order, until all have run or, between two, it is `enough`: `range` is what is left.
cl_int Session::RunHere(CutLaunch& cut, Kernel& kernel, GroupRange& range, const std::vector<std::uint64_t>& ends,
                        const std::function<bool()>& enough, EventSpan& span) {
  for (const std::uint64_t end : ends) {
    if (stop_.load(std::memory_order_relaxed)) return CL_OUT_OF_RESOURCES;
    CutPart part;
    if (!SliceUp(cut, {range.first, end}, part.launch)) return CL_OUT_OF_RESOURCES;
    const cl_int error = RunPart(cut, kernel, part, span);
    uses_.clear();  // they are of `part`
    if (error != CL_SUCCESS) return error;
    range.first = end;
    if (enough && !range.empty() && enough()) return CL_SUCCESS;
  }
  return CL_SUCCESS;
}

/// What a part's kernel gets.
Status Session::SliceUp(const CutLaunch& cut, const GroupRange& range, PartLaunch& part) const {
  const core::KernelAccess& access = *cut.kernel.access;
  const unsigned dimension = cut.plan.dimension;
  WEIR_TRY(part.slices, core::SlicesOf(access, cut.launch, {dimension, range.first, range.end}, cut.alignment));
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
    const core::SlicedArgument& at = part.slices.arguments[i];
    switch (access.arguments[i].kind) {
      case core::ArgumentKind::kBuffer:
        part.args.push_back(
            {.kind = at.slice == core::kNoSlice ? PartArg::Kind::kNull : PartArg::Kind::kSlice, .slice = at.slice});
        bases.push_back({.kind = PartArg::Kind::kBytes, .bytes = BytesOfValue(at.base)});
        break;
      case core::ArgumentKind::kScalar:
        part.args.push_back({.kind = PartArg::Kind::kBytes, .bytes = cut.values[i].bytes});
        break;
      case core::ArgumentKind::kLocal:
        part.args.push_back({.kind = PartArg::Kind::kLocal, .local = cut.values[i].local});
        break;
    }
  }
  part.args.insert(part.args.end(), bases.begin(), bases.end());
  part.args.push_back({.kind = PartArg::Kind::kBytes, .bytes = BytesOfValue(words)});
  return Ok();
}

// -- Elsewhere -------------------------------------------------------------------------------------------------------

/// Parts that were begun are in `there`, those whose peer was lost on the way in `back`. Errors: that a part can't be
/// made of what it would touch, which is nobody's loss.
cl_int Session::BeginThere(CutLaunch& cut, const core::Plan& plan, std::uint64_t first, std::vector<PartThere>& there,
                           std::vector<GroupRange>& back) {
  const Duration at_most = cut.item_s > 0 ? kLateAfterTimes * std::min(plan.times.total, kForeseenMax) + kLateAfter
                                          : kForeseenMax;  // nothing is known of it
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    PartThere part{.node = plan.nodes[i], .range = {first, plan.ends[plan.here + i]}, .launch = {}};
    first = part.range.end;
    if (const Status sliced = SliceUp(cut, part.range, part.launch); !sliced) {
      why_not_ = "a part of it can't be made: " + sliced.error().message;
      return CL_INVALID_KERNEL_ARGS;
    }
    std::vector<const std::byte*> contents;
    for (const core::MemorySlice& slice : part.launch.slices.slices)
      contents.push_back(slice.sent ? cut.RootOf(slice).host.As<std::byte>() + slice.begin : nullptr);
    Peer* const peer = peers_.Of(part.node);
    const Status status = peer == nullptr ? Status(Fail(Errc::kUnavailable, "it was lost a moment ago"))
                                          : peer->Begin(*cut.program, part.launch, contents, at_most);
    if (status) {
      there.push_back(std::move(part));
    } else {
      peers_.Lost(part.node, status.error());
      back.push_back(part.range);
    }
  }
  return CL_SUCCESS;
}

Status Session::EndThere(const CutLaunch& cut, const PartThere& part) {
  std::vector<std::byte*> memory;
  for (const core::MemorySlice& slice : part.launch.slices.slices) {
    Stored& root = cut.RootOf(slice);
    memory.push_back(root.host.As<std::byte>());
    for (const core::Extent& extent : slice.written) root.content.Cover({extent.begin, extent.end()});
  }
  return peers_.Of(part.node)->End(memory, static_cast<double>(ItemsOf(part.launch)) * cut.item_s);
}

// -- Here ------------------------------------------------------------------------------------------------------------

cl_int Session::RunPart(CutLaunch& cut, Kernel& kernel, CutPart& part, EventSpan& span) {
  MakeSlices(cut, part);
  const std::uint64_t items = ItemsOf(part.launch);
  const std::int64_t predicted_ns = kernel.cost->PredictNs(items), begin_ns = platform::NowNs();
  cl_int error = Admit(*cut.queue, cut.queue_id, predicted_ns, {.task = true});
  if (error != CL_SUCCESS && never_fits_) SayThatItNeverFits();
  if (error != CL_SUCCESS) return error;
  admission_->AddLaunch(kernel.cost, items, predicted_ns);
  error = SetPartArgs(cut, part);
  if (error == CL_SUCCESS) error = EnqueuePart(cut, part);
  if (part.ended != nullptr) {
    if (cut.queue->in_order) {
      cl_.clRetainEvent(part.ended);
      cut.queue->SetLast(part.ended);
    }
    CloseBatch();
    const cl_int failed = cl_.clWaitForEvents(1, &part.ended);
    if (error == CL_SUCCESS) error = failed;
    const double item_s = SecondsOf(Duration{platform::NowNs() - begin_ns}) / static_cast<double>(items);
    // The first has waited for the driver's compiler, too.
    kernel.part_item_s = ++kernel.parts_run <= 2 ? item_s : (1 - kLastPart) * kernel.part_item_s + kLastPart * item_s;
    const EventSpan its = SpanOf(cl_, part.began);
    if (span.start_ns == 0) span = its;
    span.end_ns = its.end_ns;
    cl_.clReleaseEvent(part.ended);
  }
  if (part.began != nullptr) cl_.clReleaseEvent(part.began);
  ++cut.done.parts;
  for (const core::MemorySlice& slice : part.launch.slices.slices)
    for (const core::Extent& extent : slice.written) cut.done.out_bytes += extent.total();
  return error;
}

/// The memory of each slice, with its contents to come from host memory. A buffer that is read as a whole is its own.
void Session::MakeSlices(CutLaunch& cut, CutPart& part) {
  const std::vector<core::MemorySlice>& slices = part.launch.slices.slices;
  part.natives.resize(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const core::MemorySlice& slice = slices[i];
    Stored& root = cut.RootOf(slice);
    const bool whole = cut.IsWhole(slice);
    const auto alike = std::ranges::find_if(
        cut.alike, [&](const core::MemorySlice& one) { return core::SameBytes(one, slice) && slice.written.empty(); });
    const auto place = static_cast<std::size_t>(alike - cut.alike.begin());
    std::shared_ptr<Stored> memory = whole ? root.shared_from_this() : nullptr;
    if (memory == nullptr && alike != cut.alike.end()) memory = cut.kept[place];
    if (memory == nullptr) {
      memory = shared_.store->Make(root.context, {.flags = CL_MEM_READ_WRITE, .size = slice.bytes()}, nullptr,
                                   slice.sent ? root.host.As<std::byte>() + slice.begin : nullptr);
      if (slice.sent) cut.done.in_bytes += slice.bytes();
    }
    if (!whole && alike != cut.alike.end()) cut.kept[place] = memory;
    uses_.push_back({.object = memory.get(),
                     .writes = !slice.written.empty(),
                     .range = {0, memory->shape.size},
                     .native = &part.natives[i]});
    part.memory.push_back(std::move(memory));
  }
}

cl_int Session::SetPartArgs(const CutLaunch& cut, const CutPart& part) const {
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

cl_int Session::EnqueuePart(const CutLaunch& cut, CutPart& part) {
  const PartLaunch& launch = part.launch;
  const cl_command_queue queue = cut.queue->native;
  cl_int error = cl_.clEnqueueNDRangeKernel(queue, cut.kernel.native, launch.dimensions, launch.offset.data(),
                                            launch.global.data(), launch.local.data(), 0, nullptr, &part.began);
  if (error != CL_SUCCESS) return error;
  if (!shared_.meter.by_workers() && admission_->open() && open_first_ == nullptr) {
    cl_.clRetainEvent(part.began);
    open_first_ = part.began;
  }
  std::vector<cl_event> copies;
  for (std::size_t i = 0; i < launch.slices.slices.size() && error == CL_SUCCESS; ++i) {
    const core::MemorySlice& slice = launch.slices.slices[i];
    Stored& root = cut.RootOf(slice);
    for (const core::Extent& extent : slice.written) {
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
