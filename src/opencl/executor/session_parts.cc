// SPDX-License-Identifier: Apache-2.0
// Launches in parts: one whose memory does not fit the device runs some work-groups at a time, each time with slices of
// its buffers. Page: docs/partition.md
//
//   commands of before ended ─▶ contents to host memory ─▶ for each part: slices made from them, claimed, part kernel,
//                                                          what it has written read back into them
//
// The session waits for the end of each part. Contents stay in host memory until another command wants them.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <span>

#include "core/partition/footprint_need.h"
#include "opencl/executor/session.h"
#include "platform/clock.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// Of copies to and from a device of which nothing is known; a plan for one node does not depend on it.
constexpr double kCopyBytesPerS = 8e9;
/// What a part's kernel is told of the whole launch (docs/kernel-analysis.md, "A part's kernel").
using LaunchWords = std::array<cl_ulong, 16>;

constexpr Duration kPeerAgain = seconds(10);
/// Of a launch, for each of two pieces that tell what its groups take.
constexpr std::uint64_t kMeasuredPart = 32;

/// Of a launch that has begun: the groups from `first` on along one dimension, counted from there.
class RestNeed final : public core::TaskNeed {
 public:
  RestNeed(const core::TaskNeed& all, unsigned dimension, std::uint64_t first)
      : all_(all), dimension_(dimension), first_(first) {}
  [[nodiscard]] bool Cuttable(unsigned dimension) const override {
    return dimension == dimension_ && all_.Cuttable(dimension);
  }
  [[nodiscard]] core::PartNeed Of(const core::PartRange& part) const override {
    return all_.Of({dimension_, part.first + first_, part.end + first_});
  }

 private:
  const core::TaskNeed& all_;
  const unsigned dimension_;
  const std::uint64_t first_;
};

bool Runs(const core::Plan& plan) { return !plan.ends.empty(); }

template <typename T>
std::vector<std::byte> BytesOfValue(const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

/// The largest divisor of `size` that is no larger than `most`.
std::uint64_t DivisorOf(std::uint64_t size, std::uint64_t most) {
  std::uint64_t divisor = std::max<std::uint64_t>(std::min(size, most), 1);
  while (size % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

/// One launch that is cut.
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
  std::optional<core::FootprintNeed> need{};
  core::Plan plan{};
  PartsCount done{};
  std::uint64_t room = 0;  // of the device here, that its parts may fill
  double item_s = 0;       // of the device's time, for each work-item; 0: unknown
  bool measures = false;   // two small pieces first, then a plan for the rest
  // Slices that parts have alike, kept from one to the next.
  std::vector<core::MemorySlice> alike{};
  std::vector<std::shared_ptr<Stored>> kept{};

  Stored& RootOf(const core::MemorySlice& slice) const { return *roots[slice.memory - 1]; }
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

void Session::RememberArg(Kernel& kernel, const wire::SetArg& m) const {
  if (m.index >= kernel.values.size()) kernel.values.resize(std::size_t{m.index} + 1);
  const bool data = static_cast<wire::ArgKind>(m.kind) == wire::ArgKind::kData;
  ArgValue& value = kernel.values[m.index];
  value.bytes.assign(m.data.begin(), data ? m.data.end() : m.data.begin());  // mostly as many as before
  value.local = data ? 0 : m.size;
}

bool Session::FitsWhole() const { return shared_.store->BytesOf(uses_) <= shared_.store->MostBytes(); }

bool Session::WantsParts() const {
  if (shared_.analyzer == nullptr || uses_.empty()) return false;
  if (shared_.partition == core::PartitionMode::kAlways) return true;
  // Of each launch this is asked: which objects are the same is looked at only where it matters.
  std::uint64_t at_most = 0;
  for (const MemoryUse& use : uses_) at_most += use.object->root().bytes;
  return at_most > shared_.store->MostBytes() && !FitsWhole();
}

Result<PartProgram::Part> Session::PartOf(Kernel& kernel) {
  Program& program = *kernel.program;
  if (program.parts == nullptr && program.no_parts.empty()) {
    EndBatchBeforeCompiling();
    auto made = PartProgram::Make(*shared_.analyzer, program);
    if (made)
      program.parts = std::move(*made);
    else
      program.no_parts = made.error().message;
  }
  if (program.parts == nullptr) return Fail(Errc::kUnavailable, program.no_parts);
  std::array<char, 1024> name{};
  if (cl_.clGetKernelInfo(kernel.native, CL_KERNEL_FUNCTION_NAME, name.size() - 1, name.data(), nullptr) != CL_SUCCESS)
    return Fail(Errc::kUnavailable, "the driver does not name the kernel");
  return program.parts->Find(name.data());
}

/// Everything about the launch that the parts have in common, and the plan.
Status Session::PrepareCut(CutLaunch& cut, Kernel& kernel, const Launch& launch) {
  if (user_events_ > 0) return Fail(Errc::kUnavailable, "the program has events of its own that it has not set");
  WEIR_TRY(cut.kernel, PartOf(kernel));
  cut.program = kernel.program->parts.get();
  const core::KernelAccess& access = *cut.kernel.access;
  const cl_device_id device = kernel.program->context->devices.front().second->native;
  cut.alignment = std::max<std::uint64_t>(DeviceNumber(cl_, device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8, 1);
  cut.values = kernel.values;
  cut.values.resize(access.arguments.size());
  cut.arguments.resize(access.arguments.size());
  for (std::size_t i = 0; i < access.arguments.size(); ++i) {
    cut.arguments[i].value = cut.values[i].bytes;
    if (access.arguments[i].kind != core::ArgumentKind::kBuffer) continue;
    const auto object = i < kernel.args.size() && kernel.args[i] ? kernel.args[i]->lock() : nullptr;
    if (!object) continue;  // a null pointer
    if (object->kind != Kind::kMemory || static_cast<const Memory&>(*object).image)
      return Fail(Errc::kUnavailable, "argument " + std::to_string(i) + " is no buffer");
    const auto& memory = static_cast<const Memory&>(*object);
    const std::shared_ptr<Stored> root = memory.stored->root().shared_from_this();
    auto at = std::ranges::find(cut.roots, root);
    if (at == cut.roots.end()) at = cut.roots.insert(cut.roots.end(), root);
    const ByteRange range = memory.stored->InRoot({0, memory.size});
    cut.arguments[i].memory = static_cast<std::uint64_t>(at - cut.roots.begin()) + 1;
    cut.arguments[i].offset = range.begin;
    cut.arguments[i].bytes = range.size();
  }
  cut.launch.dimensions = launch.dimensions;
  cut.launch.arguments = cut.arguments;
  std::array<std::size_t, 3> required{};
  std::size_t most = 1;
  cl_.clGetKernelWorkGroupInfo(cut.kernel.native, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof required,
                               required.data(), nullptr);
  cl_.clGetKernelWorkGroupInfo(cut.kernel.native, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, nullptr);
  std::uint64_t left = std::min<std::uint64_t>(most, 256);
  for (unsigned d = 0; d < launch.dimensions; ++d) {
    cut.launch.offset[d] = launch.offset[d];
    cut.launch.global[d] = launch.global[d];
    // Where the choice is the driver's it is made here, once for all parts.
    cut.launch.local[d] = launch.has_local ? launch.local[d]
                          : required[d] != 0
                              ? required[d]
                              : DivisorOf(launch.global[d], d == 0 ? std::min<std::uint64_t>(left, 64) : left);
    left = std::max<std::uint64_t>(left / std::max<std::uint64_t>(cut.launch.local[d], 1), 1);
  }
  WEIR_TRY_STATUS(core::CheckLaunch(access, cut.launch));

  cut.need.emplace(access, cut.launch, cut.alignment);
  // What a group takes is measured before groups are sent away for it.
  cut.measures = !shared_.peers.empty() && shared_.partition == core::PartitionMode::kAuto && kernel.part_item_s == 0;
  cut.plan = PlanCut(cut, kernel, 0, /*alone=*/cut.measures);
  if (cut.measures && !Runs(cut.plan)) {
    cut.measures = false;
    cut.plan = PlanCut(cut, kernel, 0, /*alone=*/false);
  }
  if (!Runs(cut.plan)) {
    std::string why(core::NameOf(cut.plan.reason));
    for (unsigned d = 0; d < launch.dimensions; ++d)
      if (const core::CutAnswer& answer = cut.need->Answer(d); !answer.yes)
        why += "; dimension " + std::to_string(d) + " can't be cut: " + answer.why_not;
    return Fail(Errc::kUnavailable, why);
  }
  for (const core::MemorySlice& slice : cut.need->AlikeAlong(cut.plan.dimension)) cut.alike.push_back(slice);
  cut.kept.resize(cut.alike.size());
  return Ok();
}

/// Of the groups from `first` on along the dimension of `cut.plan`; of all where that is 0. With a peer where there is
/// one and it helps; `alone`: without.
core::Plan Session::PlanCut(CutLaunch& cut, const Kernel& kernel, std::uint64_t first, bool alone) {
  const RestNeed rest(*cut.need, cut.plan.dimension, first);
  core::TaskView task;
  task.need = first == 0 ? static_cast<const core::TaskNeed*>(&*cut.need) : &rest;
  double groups = 1, items = 1;  // none is 0: the launch has been checked
  for (unsigned d = 0; d < cut.launch.dimensions; ++d) {
    task.groups[d] = cut.launch.Groups(d) - (d == cut.plan.dimension ? first : 0);
    groups *= static_cast<double>(cut.launch.Groups(d));
    items *= static_cast<double>(cut.launch.global[d]);
  }
  // Here it has its share of the device; a peer is taken for idle until it is known better.
  const double device_s = static_cast<double>(kernel.cost->PredictNs(static_cast<std::uint64_t>(items))) / 1e9 / groups;
  const double group_s = kernel.part_item_s > 0 ? kernel.part_item_s * items / groups : device_s;
  cut.item_s = kernel.cost->known() ? device_s * groups / items : 0;
  core::DeviceView here{.total = {shared_.store->MostBytes()},
                        .in_bytes_per_s = kCopyBytesPerS,
                        .out_bytes_per_s = kCopyBytesPerS,
                        .group_s = group_s};
  // What it holds now; where that is too little, what it may ever hold.
  std::vector<std::uint64_t> rooms{shared_.store->AllowedBytes(), here.total.count};
  const bool always = shared_.partition == core::PartitionMode::kAlways;
  if (always) rooms.insert(rooms.begin(), std::min(here.total.count, shared_.store->BytesOf(uses_) / 2));
  core::Plan plan;
  for (const std::uint64_t room : rooms) {
    cut.room = room;
    here.room = {room};
    plan = core::MakePlan(core::PartitionMode::kStay, task, here, std::nullopt);
    if (Runs(plan)) break;
  }
  if (Peer* const peer = alone ? nullptr : PeerForParts(); peer != nullptr) {
    const core::PeerView view{
        .id = NodeId{1},
        .device = {.room = {peer->room()},
                   .total = {peer->room()},
                   .in_bytes_per_s = kCopyBytesPerS,
                   .out_bytes_per_s = kCopyBytesPerS,
                   .group_s = device_s * peer_slowness_},
        .link = {.bytes_per_s = peer->bytes_per_s(), .latency = peer->latency(), .stretch = microseconds(1)}};
    core::Plan split = core::MakePlan(shared_.partition, task, here, view);
    if (Runs(split)) plan = std::move(split);
  }
  for (std::uint64_t& end : plan.ends) end += first;
  return plan;
}

Peer* Session::PeerForParts() {
  const std::int64_t now_ns = platform::NowNs();
  if (peer_ != nullptr || shared_.peers.empty() || now_ns < peer_again_ns_) return peer_.get();
  const proto::cl::DeviceFacts ours =
      FactsOfDevice(cl_, shared_.device.device, 1, /*shares_arena=*/false, shared_.quota->limits().each);
  for (const std::string& path : shared_.peers) {
    auto joined = Peer::Join(path, ours, stop_);
    if (joined) {
      peer_ = std::move(*joined);
      return peer_.get();
    }
    LosePeer(joined.error());
  }
  return nullptr;
}

/// Its parts run here; it is asked again after a while.
void Session::LosePeer(const Error& why) {
  std::fprintf(stderr, "weir-executor: no parts elsewhere: %s\n", why.message.c_str());
  peer_.reset();
  peer_again_ns_ = platform::NowNs() + kPeerAgain.count();
}

bool Session::DoInParts(const wire::NdRange& m, Queue& queue, Kernel& kernel, const Launch& launch) {
  CutLaunch cut{.queue_id = m.enqueue.queue, .queue = &queue};
  const Status prepared = PrepareCut(cut, kernel, launch);
  no_parts_ = prepared ? std::string() : prepared.error().message;
  if (!prepared) {
    if (!FitsWhole()) shared_.store->CountParts({.not_cut = 1});
    return false;
  }
  EventSpan span;
  cl_event event = nullptr;
  cl_int error = RunCut(cut, kernel, span);
  cut.done.launches = 1;
  if (error == CL_SUCCESS) shared_.store->CountParts(cut.done);
  uses_.clear();
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
  for (const auto& root : cut.roots) {
    if (cut.Stays(*root) && shared_.peers.empty()) continue;
    cl_int error = CL_SUCCESS;
    const auto outcome =
        shared_.store->Withdraw(*root, {.before_waiting = [this] { CloseBatch(); }, .stop = &stop_}, error);
    if (outcome != BufferStore::Outcome::kThere)
      return outcome == BufferStore::Outcome::kEnded ? CL_OUT_OF_RESOURCES : error;
  }
  std::uint64_t first = 0;
  if (cut.measures && cut.plan.kind == core::PlanKind::kPieces) {
    const std::uint64_t small =
        std::clamp<std::uint64_t>(cut.plan.ends.back() / kMeasuredPart, 1, cut.plan.ends.front());
    const std::vector<std::uint64_t> two{small, 2 * small};
    if (two.back() < cut.plan.ends.back()) {
      if (const cl_int error = RunHere(cut, kernel, 0, two, span); error != CL_SUCCESS) return error;
      first = two.back();
      if (core::Plan rest = PlanCut(cut, kernel, first, /*alone=*/false); Runs(rest)) cut.plan = std::move(rest);
    }
  }
  const std::vector<std::uint64_t> ours(cut.plan.ends.begin(), cut.plan.ends.begin() + cut.plan.here);
  if (!cut.plan.Leaves()) return RunHere(cut, kernel, first, ours, span);
  // The part elsewhere begins before ours do.
  const std::uint64_t kept = ours.empty() ? first : ours.back();
  PartLaunch there;
  Status status = SliceUp(cut, {cut.plan.dimension, kept, cut.plan.ends.back()}, there);
  if (status) status = BeginThere(cut, there);
  if (const cl_int error = RunHere(cut, kernel, first, ours, span); error != CL_SUCCESS) {
    peer_.reset();  // what it returns is not waited for
    return error;
  }
  if (status) status = EndThere(cut, there);
  if (status) ++cut.done.parts;
  if (status) return CL_SUCCESS;
  LosePeer(status.error());
  const std::vector<std::uint64_t> lost = EndsThatFit(cut, kept);
  return lost.empty() ? CL_OUT_OF_RESOURCES : RunHere(cut, kernel, kept, lost, span);
}

/// Pieces of what begins at `first`, as large as there is room for; none where one group needs more.
std::vector<std::uint64_t> Session::EndsThatFit(const CutLaunch& cut, std::uint64_t first) {
  const std::uint64_t all = cut.plan.ends.back();
  std::vector<std::uint64_t> ends;
  for (std::uint64_t size = all - first; first < all; first = ends.back()) {
    size = std::min(size, all - first);
    const auto fits = [&] { return cut.need->Of({cut.plan.dimension, first, first + size}).device.count <= cut.room; };
    while (!fits() && size > 1) size = (size + 1) / 2;
    if (!fits()) return {};
    ends.push_back(first + size);
  }
  return ends;
}

cl_int Session::RunHere(CutLaunch& cut, Kernel& kernel, std::uint64_t first, const std::vector<std::uint64_t>& ends,
                        EventSpan& span) {
  for (const std::uint64_t end : ends) {
    if (stop_.load(std::memory_order_relaxed)) return CL_OUT_OF_RESOURCES;
    CutPart part;
    if (!SliceUp(cut, {cut.plan.dimension, std::exchange(first, end), end}, part.launch)) return CL_OUT_OF_RESOURCES;
    if (const cl_int error = RunPart(cut, kernel, part, span); error != CL_SUCCESS) return error;
  }
  return CL_SUCCESS;
}

/// What a part's kernel gets.
Status Session::SliceUp(const CutLaunch& cut, const core::PartRange& range, PartLaunch& part) const {
  const core::KernelAccess& access = *cut.kernel.access;
  WEIR_TRY(part.slices, core::SlicesOf(access, cut.launch, range, cut.alignment));
  part.kernel = access.kernel;
  part.dimensions = cut.launch.dimensions;
  LaunchWords words{};
  words[range.dimension] = range.first;
  for (unsigned d = 0; d < 3; ++d) {
    words[3 + d] = d < part.dimensions ? cut.launch.Groups(d) : 1;
    words[6 + d] = d < part.dimensions ? cut.launch.global[d] : 1;
    words[9 + d] = d < part.dimensions ? cut.launch.offset[d] : 0;
    if (d >= part.dimensions) continue;
    const bool along = d == range.dimension;
    part.local[d] = cut.launch.local[d];
    part.offset[d] = cut.launch.offset[d] + (along ? range.first * part.local[d] : 0);
    part.global[d] = along ? range.count() * part.local[d] : cut.launch.global[d];
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

Status Session::BeginThere(const CutLaunch& cut, const PartLaunch& part) {
  std::vector<const std::byte*> contents;
  for (const core::MemorySlice& slice : part.slices.slices)
    contents.push_back(slice.sent ? cut.RootOf(slice).host.As<std::byte>() + slice.begin : nullptr);
  return peer_->Begin(*cut.program, part, contents);
}

Status Session::EndThere(const CutLaunch& cut, const PartLaunch& part) {
  std::vector<std::byte*> memory;
  for (const core::MemorySlice& slice : part.slices.slices) {
    Stored& root = cut.RootOf(slice);
    memory.push_back(root.host.As<std::byte>());
    for (const core::Extent& extent : slice.written) root.content.Cover({extent.begin, extent.end()});
  }
  WEIR_TRY_STATUS(peer_->End(memory));
  double items = 1;
  for (const std::uint64_t size : part.global) items *= static_cast<double>(size);
  if (cut.item_s > 0 && peer_->computed().count() > 0)
    peer_slowness_ = std::clamp(SecondsOf(peer_->computed()) / (items * cut.item_s), 0.01, 100.0);
  return Ok();
}

// -- Here ------------------------------------------------------------------------------------------------------------

cl_int Session::RunPart(CutLaunch& cut, Kernel& kernel, CutPart& part, EventSpan& span) {
  MakeSlices(cut, part);
  std::uint64_t items = 1;
  for (const std::uint64_t size : part.launch.global) items *= size;
  const std::int64_t predicted_ns = kernel.cost->PredictNs(items), begin_ns = platform::NowNs();
  cl_int error = Admit(*cut.queue, cut.queue_id, predicted_ns, {.task = true});
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
    kernel.part_item_s = SecondsOf(Duration{platform::NowNs() - begin_ns}) / static_cast<double>(items);
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
  uses_.clear();
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
