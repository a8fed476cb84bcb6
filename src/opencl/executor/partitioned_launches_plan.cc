// SPDX-License-Identifier: Apache-2.0
// Plans partitioned launches: gathers what a launch is, and decides where it is cut. partitioned_launches.cc runs the
// parts. Page: docs/partition.md
#include <array>
#include <cstring>

#include "opencl/executor/cut_launch.h"
#include "opencl/executor/partitioned_launches.h"
#include "platform/clock.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// Assumed rate of copies to and from a device without measurements. A plan for one node does not depend on it.
constexpr double kCopyBytesPerS = 8e9;

bool Runs(const core::Plan& plan) { return !plan.ends.empty(); }

/// The largest divisor of `size` that does not exceed `most`.
std::uint64_t DivisorOf(std::uint64_t size, std::uint64_t most) {
  std::uint64_t divisor = std::max<std::uint64_t>(std::min(size, most), 1);
  while (size % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

PartitionedLaunches::PartitionedLaunches(Shared& shared, const Client& client, ClientObjects& objects, Batches& batches,
                                         CommandMemory& memory, Commands& commands, const EventEnds& ends,
                                         const std::atomic<bool>& stop)
    : shared_(shared),
      cl_(*shared.device.cl),
      client_(client),
      objects_(objects),
      batches_(batches),
      memory_(memory),
      commands_(commands),
      ends_(ends),
      stop_(stop),
      peers_(client.partitions ? PeerSources() : shared.peers, stop) {}

void PartitionedLaunches::RememberArg(Kernel& kernel, const wire::SetArg& m) {
  if (m.index >= kernel.values.size()) kernel.values.resize(std::size_t{m.index} + 1);
  const bool data = static_cast<wire::ArgKind>(m.kind) == wire::ArgKind::kData;
  ArgValue& value = kernel.values[m.index];
  value.bytes.assign(m.data.begin(), data ? m.data.end() : m.data.begin());  // usually the same size as before
  value.local = data ? 0 : m.size;
}

void PartitionedLaunches::AnalyseAhead() {
  if (shared_.analyzer == nullptr || std::exchange(looked_ahead_, true)) return;
  objects_.ForEach<Kernel>([this](const Kernel& kernel) {
    if (kernel.program == nullptr || std::exchange(kernel.program->asked_ahead, true)) return;
    if (auto request = PartProgram::RequestOf(*kernel.program)) shared_.analyzer->AskAhead(std::move(*request));
  });
}

/// Adds the time of building the part to `cost`.
Result<PartProgram::Part> PartitionedLaunches::PartOf(Kernel& kernel, proto::ExecutorStatistics& cost) {
  Program& program = *kernel.program;
  if (program.parts == nullptr && program.no_parts.empty()) {
    batches_.Close();
    auto made = PartProgram::Make(*shared_.analyzer, program);
    Status status = made ? Ok() : Status(made.error());
    if (made) {
      // Peers compile while this executor does.
      JoinPeers(memory_.Bytes());
      peers_.Prepare(**made);
      const std::int64_t began_ns = platform::NowNs();
      status = (*made)->Build(program);
      cost.parts_compile += Duration(platform::NowNs() - began_ns);
    }
    if (status)
      program.parts = std::move(*made);
    else
      program.no_parts = status.error().message;
  }
  if (program.parts == nullptr) return Fail(Errc::kUnavailable, program.no_parts);
  std::array<char, 1024> name{};
  if (cl_.clGetKernelInfo(kernel.native, CL_KERNEL_FUNCTION_NAME, name.size() - 1, name.data(), nullptr) != CL_SUCCESS)
    return Fail(Errc::kUnavailable, "the driver does not name the kernel");
  return program.parts->Find(name.data());
}

/// Gathers the arguments for the analysis.
Status PartitionedLaunches::GatherArgs(CutLaunch& cut, const Kernel& kernel) const {
  const kernel::KernelAccess& access = *cut.kernel.access;
  cut.values = kernel.values;
  cut.values.resize(access.arguments.size());
  cut.arguments.resize(access.arguments.size());
  for (std::size_t i = 0; i < access.arguments.size(); ++i) {
    cut.arguments[i].value = cut.values[i].bytes;
    if (access.arguments[i].kind != kernel::ArgumentKind::kBuffer) continue;
    const auto object = i < kernel.args.size() && kernel.args[i] ? kernel.args[i]->lock() : nullptr;
    if (!object) continue;  // a null pointer
    if (object->kind != Kind::kMemory || static_cast<const Memory&>(*object).image)
      return Fail(Errc::kUnavailable, "argument " + std::to_string(i) + " is not a buffer");
    const auto& memory = static_cast<const Memory&>(*object);
    const std::shared_ptr<Stored> root = memory.stored->root().shared_from_this();
    auto at = std::ranges::find(cut.roots, root);
    if (at == cut.roots.end()) at = cut.roots.insert(cut.roots.end(), root);
    const ByteRange range = memory.stored->InRoot({0, memory.size});
    cut.arguments[i].memory = static_cast<std::uint64_t>(at - cut.roots.begin()) + 1;
    cut.arguments[i].offset = range.begin;
    cut.arguments[i].bytes = range.size();
  }
  cut.launch.arguments = cut.arguments;
  return Ok();
}

/// Gathers the work-items. If the driver may choose the size of work-groups, it is chosen here, once for all parts.
void PartitionedLaunches::GatherSizes(CutLaunch& cut, const Launch& launch) {
  cut.launch.dimensions = launch.dimensions;
  std::uint64_t left = std::min<std::uint64_t>(cut.kernel.items_max, 256);
  for (unsigned d = 0; d < launch.dimensions; ++d) {
    cut.launch.offset[d] = launch.offset[d];
    cut.launch.global[d] = launch.global[d];
    const std::uint64_t compiled = cut.kernel.local[d];
    cut.launch.local[d] = launch.has_local ? launch.local[d]
                          : compiled != 0
                              ? compiled
                              : DivisorOf(launch.global[d], d == 0 ? std::min<std::uint64_t>(left, 64) : left);
    left = std::max<std::uint64_t>(left / std::max<std::uint64_t>(cut.launch.local[d], 1), 1);
    cut.items *= static_cast<double>(launch.global[d]);
  }
}

/// Gathers what all parts have in common, and the plan.
Status PartitionedLaunches::PrepareCut(CutLaunch& cut, Kernel& kernel, const Launch& launch,
                                       proto::ExecutorStatistics& cost) {
  if (ends_.user_events() > 0) return Fail(Errc::kUnavailable, "the program has user events that it has not set");
  WEIR_TRY(cut.kernel, PartOf(kernel, cost));
  cut.program = kernel.program->parts.get();
  const kernel::KernelAccess& access = *cut.kernel.access;
  const cl_device_id device = kernel.program->context->devices.front().second->native;
  cut.alignment = std::max<std::uint64_t>(DeviceNumber(cl_, device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8, 1);
  cut.whole_bytes = memory_.Bytes();
  GatherSizes(cut, launch);
  WEIR_TRY_STATUS(GatherArgs(cut, kernel));
  auto key = core::LaunchCache::KeyOf(cut.program->number(), cut.kernel.number, access, cut.launch, cut.alignment);
  cut.plans = launch_cache_.Find(key);
  if (cut.plans == nullptr) {
    WEIR_TRY_STATUS(kernel::CheckLaunch(access, cut.launch));
    cut.plans = &launch_cache_.Keep(std::move(key), std::make_unique<core::CutLaunchPlans>(
                                                        cut.program->analysis(), access, cut.launch, cut.alignment));
  }
  JoinPeers(cut.whole_bytes);
  // Until the cost of a group is known, all available nodes get some.
  const bool peers = !peers_.Views(0).empty() && shared_.partition == core::PartitionMode::kAuto;
  const bool unknown = peers && kernel.parts_run < 2;
  cut.plan = PlanCut(cut, kernel, /*alone=*/unknown);
  cut.handed_out = unknown && cut.plan.kind == core::PlanKind::kPieces;
  if (unknown && !Runs(cut.plan)) cut.plan = PlanCut(cut, kernel, /*alone=*/false);
  if (peers && cut.plan.Leaves()) cut.handed_out = true;
  if (!Runs(cut.plan)) {
    std::string why(core::NameOf(cut.plan.reason));
    for (unsigned d = 0; d < launch.dimensions; ++d)
      if (const kernel::CutAnswer& answer = cut.plans->need().Answer(d); !answer.yes)
        why += "; dimension " + std::to_string(d) + " can't be cut: " + answer.why_not;
    return Fail(Errc::kUnavailable, why);
  }
  cut.alike = cut.plans->need().AlikeAlong(cut.plan.dimension);
  cut.kept.resize(cut.alike.size());
  return Ok();
}

/// The planner's view of this node and its peers. Until measured, both are assumed to have an idle device. `alone`:
/// without peers.
core::PlanViews PartitionedLaunches::ViewsFor(CutLaunch& cut, const Kernel& kernel, bool alone) const {
  double groups = 1;  // never 0: the launch has been checked
  for (unsigned d = 0; d < cut.launch.dimensions; ++d) groups *= static_cast<double>(cut.launch.Groups(d));
  const auto items = static_cast<std::uint64_t>(cut.items);
  const double device_s = static_cast<double>(kernel.cost->PredictNs(items)) / 1e9 / groups;
  cut.item_s = kernel.cost->known() ? device_s * groups / cut.items : 0;
  core::PlanViews views{
      .mode = core::PartitionMode::kStay,
      .here = {.total = {shared_.store->MostBytes()},
               .in_bytes_per_s = kCopyBytesPerS,
               .out_bytes_per_s = kCopyBytesPerS,
               .group_s = kernel.part_item_s > 0 ? kernel.part_item_s * cut.items / groups : device_s}};
  if (!alone) views.peers = peers_.Views(device_s);
  return views;
}

/// Plans the whole launch, and the device memory for its parts on this node. Uses peers if there are any and they help.
core::Plan PartitionedLaunches::PlanCut(CutLaunch& cut, const Kernel& kernel, bool alone) {
  core::PlanViews views = ViewsFor(cut, kernel, alone);
  const std::vector<core::PeerView> peers = std::exchange(views.peers, {});
  // First the memory held now; if that is too little, the maximum.
  std::vector<std::uint64_t> rooms{shared_.store->AllowedBytes(), views.here.total.count};
  if (shared_.partition == core::PartitionMode::kAlways)
    rooms.insert(rooms.begin(), std::min(views.here.total.count, cut.whole_bytes / 2));
  core::Plan plan;
  for (const std::uint64_t room : rooms) {
    cut.room = room;
    views.here.room = {room};
    plan = cut.plans->PlanFor(views, client_.partitions);
    if (Runs(plan)) break;
  }
  if (peers.empty()) return plan;
  views.mode = shared_.partition;
  views.peers = peers;
  const core::Plan& shared = cut.plans->PlanFor(views, client_.partitions);
  return Runs(shared) ? shared : plan;
}

void PartitionedLaunches::JoinPeers(std::uint64_t need) {
  peers_.Join(need, [this] {
    return FactsOfDevice(cl_, shared_.device.device, 1, /*shares_arena=*/false, shared_.quota->limits().each);
  });
}

}  // namespace weir::opencl
