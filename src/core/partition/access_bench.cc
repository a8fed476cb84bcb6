// SPDX-License-Identifier: Apache-2.0
// Cost of a launch of a kernel with known accesses: whether it may be cut, and what one part touches (bar: 20 us).
#include <benchmark/benchmark.h>

#include "core/partition/plan_cache.h"
#include "kernel/cuttable.h"
#include "kernel/expr_table.h"

namespace weir::core {
namespace {

/// A kernel on square planes of float; their width is the last argument, an int.
class PlaneKernel {
 public:
  explicit PlaneKernel(std::uint16_t planes) {
    access_.verdict = kernel::AccessVerdict::kExact;
    access_.kernel = "planes";
    for (std::uint16_t i = 0; i < planes; ++i) access_.arguments.push_back({.kind = kernel::ArgumentKind::kBuffer});
    access_.arguments.push_back({.kind = kernel::ArgumentKind::kScalar, .bytes = 4});
    width_ = table_.Argument(planes, 32);
    column_ = table_.Convert(kernel::ExprOp::kTrunc, table_.Leaf(kernel::ExprOp::kGlobalId, 0), 32);
    row_ = table_.Convert(kernel::ExprOp::kTrunc, table_.Leaf(kernel::ExprOp::kGlobalId, 1), 32);
  }

  /// Later accesses happen only if a < b.
  void Where(std::uint16_t a, std::uint16_t b) {
    const auto condition = table_.Binary(kernel::ExprOp::kSLt, a, b);
    access_.contexts.push_back({.parent = context_, .condition = condition});
    context_ = static_cast<std::uint16_t>(access_.contexts.size() - 1);
  }
  /// Leaves the innermost condition.
  void Leave() { context_ = access_.contexts[context_].parent; }
  std::uint16_t RoundsUpToWidth() {
    const auto none = table_.Constant(0, 32), one = table_.Constant(1, 32);
    access_.tests.push_back({.loop = access_.loops, .start = none, .step = one, .bound = width_});
    return table_.Leaf(kernel::ExprOp::kLoop, access_.loops++, 32);
  }
  /// plane[row * width + column]
  void Touch(std::uint16_t plane, bool write, std::uint16_t row, std::uint16_t column) {
    const auto index = table_.Binary(kernel::ExprOp::kAdd, table_.Binary(kernel::ExprOp::kMul, row, width_), column);
    const auto four = table_.Constant(4);
    access_.accesses.push_back(
        {.argument = plane,
         .write = write,
         .context = context_,
         .offset = table_.Binary(kernel::ExprOp::kMul, table_.Convert(kernel::ExprOp::kSExt, index, 64), four),
         .bytes = four});
  }
  std::uint16_t Constant(std::int64_t value) { return table_.Constant(value, 32); }
  std::uint16_t Plus(std::uint16_t a, std::int64_t b) {
    return table_.Binary(kernel::ExprOp::kAdd, a, table_.Constant(b, 32));
  }
  [[nodiscard]] std::uint16_t width() const { return width_; }
  [[nodiscard]] std::uint16_t row() const { return row_; }
  [[nodiscard]] std::uint16_t column() const { return column_; }

  kernel::KernelAccess Take() {
    access_.exprs = table_.exprs();
    return std::move(access_);
  }

 private:
  kernel::ExprTable table_;
  kernel::KernelAccess access_;
  std::uint16_t width_ = 0, row_ = 0, column_ = 0, context_ = 0;
};

/// for (k = 0; k < n; ++k) sum += a[row][k] * b[k][column]; c[row][column] = sum
kernel::KernelAccess ProductAccess() {
  PlaneKernel k(3);
  k.Where(k.row(), k.width());
  k.Where(k.column(), k.width());
  const auto round = k.RoundsUpToWidth();
  k.Where(round, k.width());  // the body's context; in the round after the last one only the condition is evaluated
  k.Touch(0, false, k.row(), round);
  k.Touch(1, false, round, k.column());
  k.Leave();
  k.Touch(2, true, k.row(), k.column());
  return k.Take();
}

/// Reads five points of one plane, inside its border, and writes another plane.
kernel::KernelAccess StencilAccess() {
  PlaneKernel k(2);
  k.Where(k.Constant(0), k.row());
  k.Where(k.Constant(0), k.column());
  k.Where(k.row(), k.Plus(k.width(), -1));
  k.Where(k.column(), k.Plus(k.width(), -1));
  k.Touch(0, false, k.row(), k.column());
  k.Touch(0, false, k.Plus(k.row(), -1), k.column());
  k.Touch(0, false, k.Plus(k.row(), 1), k.column());
  k.Touch(0, false, k.row(), k.Plus(k.column(), -1));
  k.Touch(0, false, k.row(), k.Plus(k.column(), 1));
  k.Touch(1, true, k.row(), k.column());
  return k.Take();
}

constexpr std::int32_t kPlaneWidth = 4096;
constexpr std::uint64_t kPlaneBytes = 4ULL * kPlaneWidth * kPlaneWidth;

std::vector<kernel::LaunchArgument> PlanesOf(const kernel::KernelAccess& access) {
  std::vector<kernel::LaunchArgument> arguments;
  for (std::size_t i = 0; i + 1 < access.arguments.size(); ++i)
    arguments.push_back({.memory = i, .bytes = kPlaneBytes});
  arguments.push_back({.value = std::as_bytes(std::span(&kPlaneWidth, 1))});
  return arguments;
}

kernel::KernelLaunch PlaneLaunch(const std::vector<kernel::LaunchArgument>& arguments) {
  return {.dimensions = 2, .global = {kPlaneWidth, kPlaneWidth, 1}, .local = {16, 16, 1}, .arguments = arguments};
}

void BM_LaunchAccess(benchmark::State& state, kernel::KernelAccess (*make)()) {
  const kernel::KernelAccess access = make();
  const std::vector<kernel::LaunchArgument> arguments = PlanesOf(access);
  const kernel::KernelLaunch launch = PlaneLaunch(arguments);
  const kernel::PartRange part{.dimension = 1, .first = 64, .end = 128};
  if (!kernel::CheckAccess(access) || !kernel::Cuttable(access, launch)[1].yes)
    return state.SkipWithError("it is not cut along its rows, which is what this is the cost of");
  for (auto _ : state) {
    const auto answers = kernel::Cuttable(access, launch);
    const auto footprint = kernel::FootprintOf(access, launch, part);
    benchmark::DoNotOptimize(answers.data());
    benchmark::DoNotOptimize(footprint->data());
  }
}
BENCHMARK_CAPTURE(BM_LaunchAccess, product, ProductAccess);
BENCHMARK_CAPTURE(BM_LaunchAccess, stencil, StencilAccess);

/// All decisions about one launch that does not fit, with as many peers as the argument says: whether it may be cut,
/// and where. `kept`: the launch is in the cache.
void BM_CutDecision(benchmark::State& state, kernel::KernelAccess (*make)(), bool kept) {
  const auto analysis = std::make_shared<const kernel::ProgramAnalysis>(kernel::ProgramAnalysis{.kernels = {make()}});
  const kernel::KernelAccess& access = analysis->kernels.front();
  const std::vector<kernel::LaunchArgument> arguments = PlanesOf(access);
  const kernel::KernelLaunch launch = PlaneLaunch(arguments);
  PlanViews views{.here = {.room = Bytes{kPlaneBytes * 3 / 2},
                           .total = Bytes{kPlaneBytes * 3 / 2},
                           .in_bytes_per_s = 8e9,
                           .out_bytes_per_s = 8e9,
                           .group_s = 1e-4}};
  for (std::int64_t i = 1; i <= state.range(0); ++i)
    views.peers.push_back({.id = NodeId{static_cast<std::uint64_t>(i)}, .device = views.here, .link = {1e8}});
  LaunchCache launches;
  std::uint64_t evaluated = 0;
  for (auto _ : state) {
    auto key = LaunchCache::KeyOf(1, 0, access, launch, 128);
    CutLaunchPlans* plans = kept ? launches.Find(key) : nullptr;
    if (plans == nullptr)
      plans = &launches.Keep(std::move(key), std::make_unique<CutLaunchPlans>(analysis, access, launch, 128));
    const Plan& plan = plans->PlanFor(views, false);
    if (plan.ends.empty()) return state.SkipWithError("it is not cut, which is what this is the cost of");
    evaluated = plans->need().evaluated();
    benchmark::DoNotOptimize(plan.ends.data());
  }
  state.counters["footprints"] = static_cast<double>(evaluated);
}
BENCHMARK_CAPTURE(BM_CutDecision, product_cold, ProductAccess, false)->Arg(0)->Arg(1)->Arg(2);
BENCHMARK_CAPTURE(BM_CutDecision, product_kept, ProductAccess, true)->Arg(0)->Arg(2);
BENCHMARK_CAPTURE(BM_CutDecision, stencil_cold, StencilAccess, false)->Arg(2);
BENCHMARK_CAPTURE(BM_CutDecision, stencil_kept, StencilAccess, true)->Arg(2);

}  // namespace
}  // namespace weir::core
