// SPDX-License-Identifier: Apache-2.0
// Cost of a decision: the plan of one launch (bar: 20 us), and a node choice among up to 64 nodes.
#include <benchmark/benchmark.h>

#include "core/partition/choice.h"
#include "core/partition/plan.h"

namespace weir::core {
namespace {

void BM_MakePlan(benchmark::State& state, PartitionMode mode, double group_s, Bytes room) {
  const AffineNeed need = MatrixProductNeed(11'000, 8);
  const TaskView task{.groups = {1375, 1375, 1}, .need = &need};
  const DeviceView here{.room = room,
                        .total = MiB(10'240),
                        .in_bytes_per_s = 3e9,
                        .out_bytes_per_s = 2e9,
                        .launch = milliseconds(1),
                        .group_s = group_s};
  std::optional<PeerView> peer = PeerView{.id = NodeId{2}, .device = here, .link = {.bytes_per_s = 118e6}};
  peer->device.room = MiB(4'096);
  for (auto _ : state) {
    const Plan plan = MakePlan(mode, task, here, peer);
    benchmark::DoNotOptimize(plan.ends.data());
  }
}

BENCHMARK_CAPTURE(BM_MakePlan, fits, PartitionMode::kAuto, 0.0, MiB(4'096));
BENCHMARK_CAPTURE(BM_MakePlan, paper, PartitionMode::kPaper, 0.0, MiB(547));
BENCHMARK_CAPTURE(BM_MakePlan, pieces, PartitionMode::kAuto, 0.0, MiB(547));
BENCHMARK_CAPTURE(BM_MakePlan, split, PartitionMode::kAuto, 3e-5, MiB(547));
BENCHMARK_CAPTURE(BM_MakePlan, many_pieces, PartitionMode::kAuto, 3e-5, MiB(477));
BENCHMARK_CAPTURE(BM_MakePlan, no_room, PartitionMode::kAuto, 3e-5, MiB(100));

void BM_NodeChoice(benchmark::State& state) {
  NodeChoice choice;
  std::vector<NodeId> nodes;
  for (std::uint64_t id = 1; id <= static_cast<std::uint64_t>(state.range(0)); ++id) nodes.push_back(NodeId{id});
  choice.SetNodes(nodes);
  std::vector<ChoiceStep> steps;
  Instant now = InstantFromNs(1'000'000'000);
  for (auto _ : state) {
    now += milliseconds(1);
    steps.clear();
    const std::uint64_t number = choice.Ask(now, MiB(100), steps);
    for (const NodeId node : nodes) choice.Answer(now, node, {number, MiB(100), node.value}, steps);
    choice.Taken(now, nodes.front(), number, steps);
    benchmark::DoNotOptimize(steps.data());
  }
}
BENCHMARK(BM_NodeChoice)->Arg(1)->Arg(8)->Arg(64);

}  // namespace
}  // namespace weir::core
