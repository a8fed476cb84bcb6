// SPDX-License-Identifier: Apache-2.0
#include "kernel/footprint.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "base/prng.h"
#include "kernel/cuttable.h"
#include "tests/harness/drawn_kernel.h"

namespace weir::kernel {
namespace {

std::span<const std::byte> BytesOfInt(const std::int32_t& value) { return std::as_bytes(std::span(&value, 1)); }

/// if (gid0 < n) out[gid0] = in[gid0]
DrawnKernel Copy() {
  DrawnKernel k;
  const auto in = k.Buffer(), out = k.Buffer(), n = k.Scalar();
  const auto guard =
      k.Where(k.table.Binary(ExprOp::kSLt, k.table.Convert(ExprOp::kSExt, k.Id(0), 32), k.table.Argument(n, 32)));
  const auto at = k.Scaled(k.table.Convert(ExprOp::kSExt, k.table.Convert(ExprOp::kSExt, k.Id(0), 32), 64), 4);
  k.Touch(in, false, at, guard);
  k.Touch(out, true, at, guard);
  return k;
}

TEST(Footprint, AGuardBoundsTheLastGroup) {
  DrawnKernel k = Copy();
  const std::int32_t n = 100;
  const std::array<LaunchArgument, 3> arguments{LaunchArgument{.memory = 1, .bytes = 400},
                                                LaunchArgument{.memory = 2, .bytes = 400},
                                                LaunchArgument{.value = BytesOfInt(n)}};
  const KernelLaunch launch{.global = {128, 1, 1}, .local = {16, 1, 1}, .arguments = arguments};
  const auto answer = Cuttable(k.Done(), launch);
  EXPECT_TRUE(answer[0].yes) << answer[0].why_not;
  EXPECT_FALSE(answer[1].yes);
  const auto part = FootprintOf(k.access, launch, {.dimension = 0, .first = 4, .end = 8});
  ASSERT_TRUE(part);
  const Extent wanted{.begin = 256, .bytes = 144};
  ASSERT_EQ((*part)[0].reads, std::vector{wanted});
  EXPECT_TRUE((*part)[0].writes.empty());
  const Extent written{.begin = 256, .bytes = 144, .whole = true};
  EXPECT_EQ((*part)[1].writes, std::vector{written});
  const auto past = FootprintOf(k.access, launch, {.dimension = 0, .first = 7, .end = 8});
  ASSERT_TRUE(past);
  EXPECT_TRUE((*past)[1].writes.empty());
}

TEST(Cuttable, MemoryThatIsReadAndWrittenMustBePrivateToAGroup) {
  DrawnKernel k = Copy();
  const std::int32_t n = 64;
  std::array<LaunchArgument, 3> arguments{LaunchArgument{.memory = 1, .bytes = 256},
                                          LaunchArgument{.memory = 1, .bytes = 256},
                                          LaunchArgument{.value = BytesOfInt(n)}};
  const KernelLaunch launch{.global = {64, 1, 1}, .local = {16, 1, 1}, .arguments = arguments};
  EXPECT_TRUE(Cuttable(k.Done(), launch)[0].yes);
  arguments[1].offset = 4;  // out is in, shifted by one
  const auto shifted = Cuttable(k.access, launch);
  EXPECT_FALSE(shifted[0].yes);
  EXPECT_NE(shifted[0].why_not.find("data that others write"), std::string::npos) << shifted[0].why_not;
  arguments[1].bytes = 200;  // and the buffer is too small
  EXPECT_NE(Cuttable(k.access, launch)[0].why_not.find("outside of its 200 bytes"), std::string::npos);
}

/// if (gid0 < w) out[gid1 * w + gid0] = 0
DrawnKernel Plane(bool guarded) {
  DrawnKernel k;
  const auto out = k.Buffer(), w = k.Scalar();
  const auto guard = guarded ? k.Where(k.table.Binary(ExprOp::kSLt, k.Id(0), k.Int(w))) : std::uint16_t{0};
  k.Touch(out, true, k.Scaled(k.Plus(k.By(k.Id(1), k.Int(w)), k.Id(0)), 4), guard);
  return k;
}

TEST(Cuttable, RowsAreDisjointOnlyWithinTheWidth) {
  const std::int32_t w = 30;
  const std::array<LaunchArgument, 2> arguments{LaunchArgument{.memory = 1, .bytes = 4 * 32 * 32},
                                                LaunchArgument{.value = BytesOfInt(w)}};
  const KernelLaunch launch{.dimensions = 2, .global = {32, 16, 1}, .local = {8, 4, 1}, .arguments = arguments};
  DrawnKernel guarded = Plane(true), open = Plane(false);
  const auto kept = Cuttable(guarded.Done(), launch), lost = Cuttable(open.Done(), launch);
  EXPECT_TRUE(kept[1].yes) << kept[1].why_not;
  EXPECT_TRUE(kept[0].yes) << kept[0].why_not;  // columns, by their stride
  EXPECT_FALSE(lost[1].yes);
  EXPECT_FALSE(lost[0].yes);
  const auto rows = FootprintOf(guarded.access, launch, {.dimension = 1, .first = 1, .end = 2});
  ASSERT_TRUE(rows);
  EXPECT_EQ((*rows)[0].writes, (std::vector{Extent{.begin = 4 * 4 * 30, .bytes = 4 * 4 * 30, .whole = true}}));
  const auto columns = FootprintOf(guarded.access, launch, {.dimension = 0, .first = 3, .end = 4});
  ASSERT_TRUE(columns);
  EXPECT_EQ((*columns)[0].writes,
            (std::vector{Extent{.begin = 96, .bytes = 24, .stride = 120, .rows = 16, .whole = true}}));
}

/// for (k = gid0; k < n; k += gsize0) out[k] = 0
TEST(Footprint, AStrideOfTheWholeLaunchGivesRows) {
  DrawnKernel k;
  const auto out = k.Buffer(), n = k.Scalar();
  k.access.loops = 1;
  k.access.asks = kAsksGlobalSize;
  const auto size = k.table.Leaf(ExprOp::kGlobalSize, 0);
  const auto at = k.Plus(k.Id(0), k.By(k.table.Leaf(ExprOp::kLoop, 0), size));
  k.access.tests.push_back({.loop = 0, .test = ExprOp::kSLt, .start = k.Id(0), .step = size, .bound = k.Int(n)});
  k.Touch(out, true, k.Scaled(at, 4), k.Where(k.table.Binary(ExprOp::kSLt, at, k.Int(n))));
  const std::int32_t value = 100;
  const std::array<LaunchArgument, 2> arguments{LaunchArgument{.memory = 1, .bytes = 400},
                                                LaunchArgument{.value = BytesOfInt(value)}};
  const KernelLaunch launch{.global = {32, 1, 1}, .local = {8, 1, 1}, .arguments = arguments};
  const auto answer = Cuttable(k.Done(), launch);
  EXPECT_TRUE(answer[0].yes) << answer[0].why_not;
  const auto part = FootprintOf(k.access, launch, {.dimension = 0, .first = 0, .end = 1});
  ASSERT_TRUE(part);
  const std::vector<Extent> wanted{{.begin = 0, .bytes = 32, .stride = 128, .rows = 3}, {.begin = 384, .bytes = 16}};
  EXPECT_EQ((*part)[0].writes, wanted);
}

/// if (k0 <= gid1) if (k1 <= k0) if (k1 >= 10) out[64 * gid1 + gid0] = 0, for k0 and k1 from 0 to 63
TEST(Footprint, APartSendsBackItsColumnsOnlyWhereConditionsDependOnEachOther) {
  DrawnKernel k;
  const auto out = k.Buffer();
  k.access.loops = 2;
  const auto outer = k.table.Leaf(ExprOp::kLoop, 0), inner = k.table.Leaf(ExprOp::kLoop, 1);
  const auto zero = k.table.Constant(0), one = k.table.Constant(1), most = k.table.Constant(64);
  for (const std::uint16_t loop : {0, 1})
    k.access.tests.push_back({.loop = loop, .test = ExprOp::kSLt, .start = zero, .step = one, .bound = most});
  const auto first = k.Where(k.table.Binary(ExprOp::kSLe, outer, k.Id(1)));
  const auto second = k.Where(k.table.Binary(ExprOp::kSLe, inner, outer), first);
  const auto third = k.Where(k.table.Binary(ExprOp::kSLe, k.table.Constant(10), inner), second);
  k.Touch(out, true, k.Scaled(k.Plus(k.Scaled(k.Id(1), 64), k.Id(0)), 4), third);
  const std::array<LaunchArgument, 1> arguments{LaunchArgument{.memory = 1, .bytes = 4 * 64 * 64}};
  const KernelLaunch launch{.dimensions = 2, .global = {64, 64, 1}, .local = {8, 8, 1}, .arguments = arguments};
  const auto answer = Cuttable(k.Done(), launch);
  ASSERT_TRUE(answer[0].yes) << answer[0].why_not;
  const auto part = FootprintOf(k.access, launch, {.dimension = 0, .first = 1, .end = 2});
  ASSERT_TRUE(part);
  for (const Extent& extent : (*part)[0].writes) {
    EXPECT_EQ(extent.begin % 256, 32u);
    EXPECT_EQ(extent.bytes, 32u);
    EXPECT_TRUE(extent.rows == 1 || extent.stride == 256);
  }
}

TEST(Footprint, ALaunchOfAnotherKernelIsRefused) {
  DrawnKernel k = Copy();
  const KernelLaunch none{};
  EXPECT_EQ(FootprintOf(k.Done(), none, {.first = 0, .end = 1}).error().code, Errc::kInvalidArgument);
  EXPECT_FALSE(Cuttable(k.access, none)[0].yes);
}

// For any computation from two ids and two numbers: the bytes of each work-item are in the footprint of its part, and
// work-groups that may be cut apart don't share written bytes.
struct IdAndGeometry {
  std::uint64_t group0, group1, local0, local1;
};

class Reference {
 public:
  Reference(const KernelAccess& access, const KernelLaunch& launch) : access_(access), launch_(launch) {}

  std::int64_t Value(std::uint16_t index, const IdAndGeometry& at) const {
    const Expr& expr = access_.exprs[index];
    const auto of = [&](std::uint16_t operand) { return Value(operand, at); };
    const std::uint64_t groups[]{at.group0, at.group1}, locals[]{at.local0, at.local1};
    const unsigned unused = 64U - expr.bits;
    const auto wrap = [&](std::uint64_t value) { return static_cast<std::int64_t>(value << unused) >> unused; };
    const auto plain = [&](std::int64_t value) { return static_cast<std::uint64_t>(value) << unused >> unused; };
    switch (expr.op) {
      case ExprOp::kConstant: return expr.value;
      case ExprOp::kGroupId: return static_cast<std::int64_t>(groups[expr.a]);
      case ExprOp::kLocalId: return static_cast<std::int64_t>(locals[expr.a]);
      case ExprOp::kGlobalId:
        return static_cast<std::int64_t>(launch_.offset[expr.a] + groups[expr.a] * launch_.local[expr.a] +
                                         locals[expr.a]);
      case ExprOp::kAdd: return wrap(static_cast<std::uint64_t>(of(expr.a)) + static_cast<std::uint64_t>(of(expr.b)));
      case ExprOp::kMul: return wrap(static_cast<std::uint64_t>(of(expr.a)) * static_cast<std::uint64_t>(of(expr.b)));
      case ExprOp::kUDiv: return wrap(plain(of(expr.b)) == 0 ? 0 : plain(of(expr.a)) / plain(of(expr.b)));
      case ExprOp::kURem: return wrap(plain(of(expr.b)) == 0 ? 0 : plain(of(expr.a)) % plain(of(expr.b)));
      case ExprOp::kSDiv: return of(expr.b) <= 0 ? 0 : wrap(static_cast<std::uint64_t>(of(expr.a) / of(expr.b)));
      case ExprOp::kSRem: return of(expr.b) <= 0 ? 0 : of(expr.a) % of(expr.b);
      case ExprOp::kSMin: return std::min(of(expr.a), of(expr.b));
      case ExprOp::kSMax: return std::max(of(expr.a), of(expr.b));
      case ExprOp::kUMin: return wrap(std::min(plain(of(expr.a)), plain(of(expr.b))));
      case ExprOp::kUMax: return wrap(std::max(plain(of(expr.a)), plain(of(expr.b))));
      case ExprOp::kAnd: return of(expr.a) & of(expr.b);
      case ExprOp::kSExt: return of(expr.a);
      case ExprOp::kZExt: {
        const unsigned inner = 64U - access_.exprs[expr.a].bits;
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(of(expr.a)) << inner >> inner);
      }
      case ExprOp::kTrunc: return wrap(static_cast<std::uint64_t>(of(expr.a)));
      case ExprOp::kSelect: return of(expr.c) != 0 ? of(expr.a) : of(expr.b);
      case ExprOp::kEq: return of(expr.a) == of(expr.b);
      case ExprOp::kNe: return of(expr.a) != of(expr.b);
      case ExprOp::kSLt: return of(expr.a) < of(expr.b);
      case ExprOp::kSLe: return of(expr.a) <= of(expr.b);
      case ExprOp::kULt: return plain(of(expr.a)) < plain(of(expr.b));
      case ExprOp::kULe: return plain(of(expr.a)) <= plain(of(expr.b));
      default: return 0;
    }
  }
  bool Reaches(std::uint16_t context, const IdAndGeometry& at) const {
    for (; context != 0; context = access_.contexts[context].parent)
      if ((Value(access_.contexts[context].condition, at) != 0) != access_.contexts[context].holds) return false;
    return true;
  }

 private:
  const KernelAccess& access_;
  const KernelLaunch& launch_;
};

bool Covers(const std::vector<Extent>& extents, std::uint64_t byte) {
  return std::any_of(extents.begin(), extents.end(), [&](const Extent& one) {
    if (byte < one.begin || byte >= one.end()) return false;
    return one.rows == 1 || (byte - one.begin) % one.stride < one.bytes;
  });
}

/// Expressions of 8, 16 and 64 bits over ids and small numbers, so that they wrap around.
std::uint16_t DrawExpr(Prng& prng, DrawnKernel& k, unsigned bits, int depth) {
  const auto any = [&prng](int most) { return static_cast<int>(prng.Between(0, most - 1)); };
  if (depth == 0 || any(5) == 0) {
    const auto d = static_cast<std::uint16_t>(any(2));
    switch (any(4)) {
      case 0: return k.table.Constant(prng.Between(-20, 99), bits);
      case 1: return k.table.Convert(ExprOp::kZExt, k.table.Leaf(ExprOp::kGroupId, d), bits);
      case 2: return k.table.Convert(ExprOp::kZExt, k.table.Leaf(ExprOp::kLocalId, d), bits);
      default: return k.table.Convert(ExprOp::kZExt, k.Id(d), bits);
    }
  }
  constexpr ExprOp kOps[]{ExprOp::kAdd,  ExprOp::kAdd,  ExprOp::kAdd,  ExprOp::kMul,  ExprOp::kMul,
                          ExprOp::kUDiv, ExprOp::kSDiv, ExprOp::kURem, ExprOp::kSRem, ExprOp::kSMin,
                          ExprOp::kSMax, ExprOp::kUMin, ExprOp::kUMax, ExprOp::kAnd};
  const int kind = any(18);
  if (kind < 14)
    return k.table.Binary(kOps[kind], DrawExpr(prng, k, bits, depth - 1), DrawExpr(prng, k, bits, depth - 1));
  if (kind == 14) {
    const auto test = static_cast<ExprOp>(static_cast<int>(ExprOp::kEq) + any(6));
    const auto condition = k.table.Binary(test, DrawExpr(prng, k, bits, 1), DrawExpr(prng, k, bits, 1));
    return k.table.Select(condition, DrawExpr(prng, k, bits, depth - 1), DrawExpr(prng, k, bits, depth - 1));
  }
  const unsigned other = std::array{8U, 16U, 64U}[static_cast<std::size_t>(any(3))];
  return k.table.Convert(kind == 15 ? ExprOp::kZExt : ExprOp::kSExt, DrawExpr(prng, k, other, depth - 1), bits);
}

void DrawAccesses(Prng& prng, DrawnKernel& k) {
  const auto any = [&prng](int most) { return static_cast<int>(prng.Between(0, most - 1)); };
  k.Buffer();
  k.access.verdict = AccessVerdict::kGuarded;
  const int accesses = 1 + any(3);
  for (int i = 0; i < accesses; ++i) {
    std::uint16_t context = 0;
    for (int j = any(3); j > 0; --j) {
      const unsigned bits = std::array{8U, 16U, 64U}[static_cast<std::size_t>(any(3))];
      const auto test = static_cast<ExprOp>(static_cast<int>(ExprOp::kEq) + any(6));
      context = k.Where(k.table.Binary(test, DrawExpr(prng, k, bits, 2), DrawExpr(prng, k, bits, 1)), context);
      k.access.contexts.back().holds = any(2) == 0;
    }
    k.Touch(0, any(3) != 0, DrawExpr(prng, k, 64, 3), context);
  }
  k.access.exprs = k.table.exprs();
}

void LogDrawn(const KernelAccess& access, const KernelLaunch& launch) {
  for (const MemoryAccess& one : access.accesses) {
    RC_LOG() << (one.write ? "writes " : "reads ") << ExprText(access, one.offset);
    for (std::uint16_t at = one.context; at != 0; at = access.contexts[at].parent)
      RC_LOG() << (access.contexts[at].holds ? " where " : " where not ")
               << ExprText(access, access.contexts[at].condition);
    RC_LOG() << "\n";
  }
  for (unsigned d = 0; d < 2; ++d)
    RC_LOG() << launch.global[d] << " in " << launch.local[d] << " from " << launch.offset[d] << "\n";
}

// From a seed, since shrinking so many draws takes longer than reading the failure.
RC_GTEST_PROP(FootprintLaws, DerivedRangesContainTheTrueOnes, (std::uint64_t seed)) {
  Prng prng(seed);
  const auto any = [&prng](int most) { return static_cast<int>(prng.Between(0, most - 1)); };
  DrawnKernel k;
  DrawAccesses(prng, k);
  RC_ASSERT(CheckAccess(k.access));
  const auto size = [&any](int most) { return static_cast<std::uint64_t>(1 + any(most - 1)); };
  const std::array<LaunchArgument, 1> arguments{LaunchArgument{.memory = 1, .bytes = 1000}};
  KernelLaunch launch{.dimensions = 2, .arguments = arguments};
  for (unsigned d = 0; d < 2; ++d) {
    launch.local[d] = size(5);
    launch.global[d] = launch.local[d] * size(6);
    launch.offset[d] = static_cast<std::uint64_t>(any(3));
  }
  LogDrawn(k.access, launch);
  const Reference reference(k.access, launch);
  const auto answers = Cuttable(k.access, launch);
  for (unsigned d = 0; d < 2; ++d) {
    const std::uint64_t groups = launch.Groups(d);
    const std::uint64_t first = static_cast<std::uint64_t>(any(static_cast<int>(groups)));
    const PartRange part{.dimension = d, .first = first, .end = first + 1 + (groups - first) / 2};
    const PartRange fit{.dimension = d, .first = first, .end = std::min(part.end, groups)};
    const auto footprint = FootprintOf(k.access, launch, fit);
    RC_ASSERT(footprint);
    std::vector<int> writer(1000, -1), sure(1000, 0);
    for (const Extent& one : (*footprint)[0].writes)
      for (std::uint64_t row = 0; row < one.rows; ++row)
        for (std::uint64_t i = 0; i < one.bytes && one.whole; ++i) sure[one.begin + row * one.stride + i] = 1;
    std::vector<std::pair<std::int64_t, int>> reads;
    for (std::uint64_t g0 = 0; g0 < launch.Groups(0); ++g0)
      for (std::uint64_t g1 = 0; g1 < launch.Groups(1); ++g1)
        for (std::uint64_t l0 = 0; l0 < launch.local[0]; ++l0)
          for (std::uint64_t l1 = 0; l1 < launch.local[1]; ++l1) {
            const IdAndGeometry at{g0, g1, l0, l1};
            const std::uint64_t group = d == 0 ? g0 : g1;
            for (const MemoryAccess& one : k.access.accesses) {
              if (!reference.Reaches(one.context, at)) continue;
              const std::int64_t begin = reference.Value(one.offset, at);
              if (answers[d].yes && one.write) RC_ASSERT((begin >= 0 && begin <= 996));
              if (begin < -3 || begin >= 1000) continue;
              for (std::int64_t i = begin; i < begin + 4; ++i) {
                if (i < 0 || i >= 1000) continue;
                const auto byte = static_cast<std::uint64_t>(i);
                if (group >= fit.first && group < fit.end) {
                  const ArgumentFootprint& argument = (*footprint)[0];
                  RC_ASSERT(Covers(one.write ? argument.writes : argument.reads, byte));
                  if (one.write) sure[byte] = 0;
                }
                if (one.write) {
                  if (answers[d].yes) RC_ASSERT(writer[byte] < 0 || writer[byte] == static_cast<int>(group));
                  writer[byte] = static_cast<int>(group);
                } else {
                  reads.emplace_back(i, static_cast<int>(group));
                }
              }
            }
          }
    RC_ASSERT(std::count(sure.begin(), sure.end(), 1) == 0);  // whole: every byte was written
    if (answers[d].yes)
      for (const auto& [byte, group] : reads)
        RC_ASSERT(writer[static_cast<std::size_t>(byte)] < 0 || writer[static_cast<std::size_t>(byte)] == group);
    for (std::size_t byte = 0; byte < writer.size() && answers[d].yes; ++byte) {
      const bool others = writer[byte] >= 0 && (static_cast<std::uint64_t>(writer[byte]) < fit.first ||
                                                static_cast<std::uint64_t>(writer[byte]) >= fit.end);
      RC_ASSERT(!others || !Covers((*footprint)[0].writes, byte));  // a part sends back nothing that another one writes
    }
    RC_CLASSIFY(answers[d].yes, "cuttable");
  }
}

}  // namespace
}  // namespace weir::kernel
