// SPDX-License-Identifier: Apache-2.0
// Kernels of tests/kernels, compiled by clang for this processor with a call before each load and store, run work-item
// by work-item; and the same kernels, analysed. What was touched lies in what was derived; groups that may be cut apart
// write nothing that others touch; and parts that are given their slices only, all else being poison, make the bytes of
// the unsplit run.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>

#include "base/prng.h"
#include "core/partition/analysis_frames.h"
#include "core/partition/cuttable.h"

namespace weir::testing {
namespace {

using core::KernelAccess;
using Ids = std::array<std::uint64_t, 3>;

/// What the program under test asks and does.
struct Machine {
  struct Record {
    std::size_t argument;
    std::uint64_t byte, size;
    bool write;
    Ids group;
  };
  core::KernelLaunch launch{};
  Ids group{}, local{};
  std::vector<std::vector<std::byte>> buffers;
  std::vector<Record> records;
  bool recording = false;
  ucontext_t scheduler{};
  ucontext_t* item = nullptr;

  void Touch(const void* at, std::uint64_t size, bool write) {
    if (!recording) return;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(at) - buffers[i].data());
      if (offset < buffers[i].size()) records.push_back({i, offset, size, write, group});
    }
  }
};
Machine machine;

}  // namespace
}  // namespace weir::testing

using weir::testing::machine;

#define WEIR_TOUCHES(size)                                                                       \
  extern "C" void __sanitizer_cov_load##size(const void* at) { machine.Touch(at, size, false); } \
  extern "C" void __sanitizer_cov_store##size(const void* at) { machine.Touch(at, size, true); }
WEIR_TOUCHES(1)
WEIR_TOUCHES(2)
WEIR_TOUCHES(4)
WEIR_TOUCHES(8)
WEIR_TOUCHES(16)

// The built-ins that the kernels use, by their mangled names.
extern "C" {
std::uint64_t WeirGlobalId(unsigned d) asm("_Z13get_global_idj");
std::uint64_t WeirGlobalId(unsigned d) {
  return machine.launch.offset[d] + machine.group[d] * machine.launch.local[d] + machine.local[d];
}
std::uint64_t WeirLocalId(unsigned d) asm("_Z12get_local_idj");
std::uint64_t WeirLocalId(unsigned d) { return machine.local[d]; }
std::uint64_t WeirGroupId(unsigned d) asm("_Z12get_group_idj");
std::uint64_t WeirGroupId(unsigned d) { return machine.group[d]; }
std::uint64_t WeirGlobalSize(unsigned d) asm("_Z15get_global_sizej");
std::uint64_t WeirGlobalSize(unsigned d) { return machine.launch.global[d]; }
std::uint64_t WeirLocalSize(unsigned d) asm("_Z14get_local_sizej");
std::uint64_t WeirLocalSize(unsigned d) { return machine.launch.local[d]; }
void WeirBarrier(unsigned) asm("_Z7barrierj");
void WeirBarrier(unsigned) { swapcontext(machine.item, &machine.scheduler); }
int WeirClamp(int x, int low, int high) asm("_Z5clampiii");
int WeirClamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
unsigned WeirAtomicInc(unsigned* at) asm("_Z10atomic_incPU7CLlocalVj");
unsigned WeirAtomicInc(unsigned* at) { return (*at)++; }
// Of kernels that are refused, and not run.
#define WEIR_NEVER(number, symbol)      \
  void WeirNever##number() asm(symbol); \
  void WeirNever##number() { std::abort(); }
WEIR_NEVER(1, "_Z10atomic_incPU8CLglobalVi")
WEIR_NEVER(2, "_Z10atomic_incPU8CLglobalVj")
WEIR_NEVER(3, "_Z11read_imagef14ocl_image2d_ro11ocl_samplerDv2_i")
WEIR_NEVER(4, "_Z14atomic_cmpxchgPU8CLglobalVjjj")
WEIR_NEVER(5, "_Z6rotateDv4_jS_")
WEIR_NEVER(6, "__translate_sampler_initializer")
// Each work-item copies what the group would; what it waits for is that all have.
void* WeirGroupCopy(float* to, const float* from, std::uint64_t count, void* event) asm(
    "_Z21async_work_group_copyPU7CLlocalfPU8CLglobalKfm9ocl_event");
void* WeirGroupCopy(float* to, const float* from, std::uint64_t count, void* event) {
  machine.Touch(from, 4 * count, false);
  std::memcpy(to, from, 4 * count);
  return event;
}
void WeirWaitForCopies(int, void*) asm("_Z17wait_group_eventsiPU9CLgeneric9ocl_event");
void WeirWaitForCopies(int, void*) { WeirBarrier(0); }
__m128 WeirLoad4(std::uint64_t i, const float* p) asm("_Z6vload4mPU8CLglobalKf");
__m128 WeirLoad4(std::uint64_t i, const float* p) {
  machine.Touch(p + 4 * i, 16, false);
  return _mm_loadu_ps(p + 4 * i);
}
void WeirStore4(__m128 data, std::uint64_t i, float* p) asm("_Z7vstore4Dv4_fmPU8CLglobalf");
void WeirStore4(__m128 data, std::uint64_t i, float* p) {
  machine.Touch(p + 4 * i, 16, true);
  _mm_storeu_ps(p + 4 * i, data);
}
}

namespace weir::testing {
namespace {

/// An argument of a drawn launch.
struct Given {
  enum class Kind : std::uint8_t { kBuffer, kIndices, kInt, kFloat, kInt2, kLocal } kind;
  std::uint64_t size = 0;  // bytes
  std::int64_t value = 0;  // of kInt; kIndices: they are below it
  std::int64_t second = 0;
};
Given Floats(std::int64_t n) { return {Given::Kind::kBuffer, 4 * static_cast<std::uint64_t>(n)}; }
Given RawBytes(std::int64_t n) { return {Given::Kind::kBuffer, static_cast<std::uint64_t>(n)}; }
Given Indices(std::int64_t n, std::int64_t below) {
  return {Given::Kind::kIndices, 4 * static_cast<std::uint64_t>(n), below};
}
Given Int(std::int64_t value) { return {Given::Kind::kInt, 4, value}; }
Given Real() { return {Given::Kind::kFloat, 4}; }
Given Int2(std::int64_t x, std::int64_t y) { return {Given::Kind::kInt2, 8, x, y}; }
Given Local(std::int64_t n) { return {Given::Kind::kLocal, static_cast<std::uint64_t>(n)}; }

/// Sizes that a launch is drawn from: n, w and h are of the problem, and the geometry covers them or equals them.
struct Sizes {
  std::int64_t n, w, h, d, k, items, wide, high, deep, group;  // items, wide, ...: work-items
};

struct Trial {
  const char* name;
  void (*kernel)();
  unsigned dimensions;
  bool square;  // groups of 8 by 8, w and h multiples of 8 and equal
  std::vector<Given> (*arguments)(const Sizes&);
};

#define WEIR_TRIAL(name, dimensions, square, ...)                                                        \
  Trial {                                                                                                \
#name, name, dimensions, square, [](const Sizes& s) { (void)s; return std::vector<Given>{__VA_ARGS__}; } \
  }
#include "tests/kernels/trials.inc"

std::vector<KernelAccess> AnalyseFile(const std::string& name) {
  std::ifstream file(std::string(WEIR_KERNELS) + "/" + name);
  core::AnalysisRequest request;
  request.source.assign(std::istreambuf_iterator<char>(file), {});
  const std::vector<std::byte> body = core::EncodeAnalysisRequest(request);
  int to[2], from[2];
  EXPECT_EQ(pipe2(to, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(from, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    execl(WEIR_ANALYZER, WEIR_ANALYZER, nullptr);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  const auto size = static_cast<std::uint32_t>(body.size());
  EXPECT_EQ(write(to[1], &size, 4), 4);
  EXPECT_EQ(write(to[1], body.data(), body.size()), static_cast<ssize_t>(body.size()));
  close(to[1]);
  std::vector<std::byte> answer;
  std::byte part[65'536];
  for (ssize_t n = 0; (n = read(from[0], part, sizeof part)) > 0;) answer.insert(answer.end(), part, part + n);
  close(from[0]);
  waitpid(child, nullptr, 0);
  if (answer.size() < 4) return {};
  auto kernels = core::DecodeAnalysisReply(std::span(answer).subspan(4));
  EXPECT_TRUE(kernels) << (kernels ? "" : kernels.error().message);
  return kernels ? *kernels : std::vector<KernelAccess>{};
}

constexpr int kLaunches = 6;  // drawn, of each kernel
constexpr const char* kFiles[]{"linear_algebra.cl", "data.cl", "grids.cl"};

const std::map<std::string, KernelAccess>& Analysed() {
  static const auto all = [] {
    std::map<std::string, KernelAccess> made;
    for (const char* file : kFiles)
      for (KernelAccess& one : AnalyseFile(file)) made.emplace(one.kernel, one);
    return made;
  }();
  return all;
}

/// Integers first, then numbers, as the processor's calling convention has them; the rest of either is not looked at.
struct Call {
  void (*kernel)();
  std::array<std::uint64_t, 10> words{};
  __m128 numbers[2]{};
  void Run() const {
    using Any = void (*)(std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                         std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, __m128, __m128);
    const auto& w = words;
    reinterpret_cast<Any>(kernel)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], numbers[0], numbers[1]);
  }
};
const Call* current_call = nullptr;

void RunItem() { current_call->Run(); }

constexpr std::size_t kStackBytes = 32 * 1024;

/// A group's work-items take turns from barrier to barrier.
void RunGroup(const Call& call, std::vector<std::byte>& stacks) {
  current_call = &call;
  const Ids& size = machine.launch.local;
  const std::uint64_t count = size[0] * size[1] * size[2];
  std::vector<ucontext_t> items(count);
  stacks.resize(std::max<std::size_t>(stacks.size(), count * kStackBytes));
  std::vector<bool> started(count, false), ended(count, false);
  std::vector<ucontext_t> ends(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    getcontext(&items[i]);
    items[i].uc_stack.ss_sp = stacks.data() + i * kStackBytes;
    items[i].uc_stack.ss_size = kStackBytes;
    items[i].uc_link = &ends[i];
    makecontext(&items[i], RunItem, 0);
  }
  for (bool any = true; any;) {
    any = false;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (ended[i]) continue;
      machine.local = {i % size[0], i / size[0] % size[1], i / size[0] / size[1]};
      machine.item = &items[i];
      volatile bool entered = false;
      getcontext(&ends[i]);  // comes back here when the work-item has returned
      if (entered) {
        ended[i] = true;
        continue;
      }
      entered = true;
      any = true;
      swapcontext(&machine.scheduler, &items[i]);
    }
  }
}

class LawRun {
 public:
  LawRun(const Trial& trial, const KernelAccess& access, std::uint64_t seed)
      : trial_(trial), access_(access), prng_(seed) {
    Draw();
  }

  bool Check() {
    const std::vector<std::vector<std::byte>> before = machine.buffers;
    machine.records.clear();
    machine.recording = true;
    RunPart({.dimension = 0, .first = 0, .end = machine.launch.Groups(0)});
    machine.recording = false;
    const std::vector<std::vector<std::byte>> unsplit = machine.buffers;
    const auto answers = core::Cuttable(access_, machine.launch);
    bool cut = false;
    for (unsigned d = 0; d < trial_.dimensions; ++d) {
      const std::uint64_t groups = machine.launch.Groups(d);
      const auto at = static_cast<std::uint64_t>(prng_.Between(1, static_cast<std::int64_t>(groups)));
      std::vector<core::PartRange> parts{{d, 0, at}};
      if (at < groups) parts.push_back({d, at, groups});
      for (const core::PartRange& part : parts) CheckContained(part);
      if (!answers[d].yes) continue;
      cut = true;
      CheckApart(d);
      CheckSplit(parts, before, unsplit);
    }
    machine.buffers = unsplit;
    return cut;
  }

 private:
  void Draw() {
    const auto between = [&](std::int64_t a, std::int64_t b) { return prng_.Between(a, b); };
    Sizes s{};
    const bool exact = between(0, 1) == 0;
    const auto round = [](std::int64_t v, std::int64_t unit) { return (v + unit - 1) / unit * unit; };
    s.group = std::int64_t{1} << between(2, 5);
    s.n = between(3, 200), s.w = between(3, 40), s.h = between(3, 24), s.d = between(3, 6), s.k = between(1, 9);
    Ids local{static_cast<std::uint64_t>(s.group), 1, 1};
    if (trial_.dimensions > 1) local = {1ULL << between(0, 3), 1ULL << between(0, 2), 1};
    if (trial_.square) local = {8, 8, 1}, s.w = s.h = 8 * between(1, 4);
    if (exact || trial_.square) {
      s.n = round(s.n, static_cast<std::int64_t>(local[0]));
      s.w = round(s.w, static_cast<std::int64_t>(local[0]));
      s.h = round(s.h, static_cast<std::int64_t>(local[1]));
    }
    s.items = round(s.n, static_cast<std::int64_t>(local[0]));
    s.wide = round(s.w, static_cast<std::int64_t>(local[0])), s.high = round(s.h, static_cast<std::int64_t>(local[1]));
    s.deep = s.d;
    machine.launch = {.dimensions = trial_.dimensions, .local = local};
    const auto size = [](std::int64_t v) { return static_cast<std::uint64_t>(v); };
    machine.launch.global = trial_.dimensions == 1   ? Ids{size(s.items), 1, 1}
                            : trial_.dimensions == 2 ? Ids{size(s.wide), size(s.high), 1}
                                                     : Ids{size(s.wide), size(s.high), size(s.deep)};
    const std::vector<Given> given = trial_.arguments(s);
    machine.buffers.assign(given.size(), {});
    arguments_.assign(given.size(), {});
    scalars_.assign(given.size(), {});
    call_.kernel = trial_.kernel;
    std::size_t words = 0, numbers = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Given& one = given[i];
      const std::array<std::int32_t, 2> pair{static_cast<std::int32_t>(one.value),
                                             static_cast<std::int32_t>(one.second)};
      switch (one.kind) {
        case Given::Kind::kBuffer:
        case Given::Kind::kIndices: {
          std::vector<std::byte>& bytes = machine.buffers[i];
          bytes.resize(one.size);
          for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng_.Next() >> 60);  // small numbers
          for (std::size_t j = 0; one.kind == Given::Kind::kIndices && j + 4 <= bytes.size(); j += 4) {
            const auto index = static_cast<std::int32_t>(between(0, one.value - 1));
            std::memcpy(bytes.data() + j, &index, 4);
          }
          call_.words[words++] = reinterpret_cast<std::uint64_t>(bytes.data());
          arguments_[i] = {.memory = i + 1, .bytes = one.size};
          break;
        }
        case Given::Kind::kLocal:
          local_.assign(one.size, std::byte{});
          call_.words[words++] = reinterpret_cast<std::uint64_t>(local_.data());
          break;
        case Given::Kind::kInt: call_.words[words++] = static_cast<std::uint64_t>(one.value); [[fallthrough]];
        case Given::Kind::kFloat:
        case Given::Kind::kInt2:
          scalars_[i].resize(one.size);
          std::memcpy(scalars_[i].data(), pair.data(), one.size);
          arguments_[i] = {.value = scalars_[i]};
          if (one.kind == Given::Kind::kInt) break;
          std::memcpy(&call_.numbers[numbers++], pair.data(), one.size);
          break;
      }
    }
    machine.launch.arguments = arguments_;
  }

  void RunPart(const core::PartRange& part) {
    for (std::uint64_t z = 0; z < machine.launch.Groups(2); ++z)
      for (std::uint64_t y = 0; y < machine.launch.Groups(1); ++y)
        for (std::uint64_t x = 0; x < machine.launch.Groups(0); ++x) {
          machine.group = {x, y, z};
          if (machine.group[part.dimension] < part.first || machine.group[part.dimension] >= part.end) continue;
          RunGroup(call_, stacks_);
        }
  }

  template <typename Each>
  static void ForBytes(const std::vector<core::Extent>& extents, Each each) {
    for (const core::Extent& one : extents)
      for (std::uint64_t row = 0; row < one.rows; ++row)
        for (std::uint64_t i = 0; i < one.bytes; ++i) each(one.begin + row * one.stride + i, one.whole);
  }

  void CheckContained(const core::PartRange& part) {
    const auto footprint = core::FootprintOf(access_, machine.launch, part);
    ASSERT_TRUE(footprint) << footprint.error().message;
    std::vector<std::vector<std::uint8_t>> marks;  // 1: read, 2: written, 4: surely; 8: it was
    for (std::size_t i = 0; i < machine.buffers.size(); ++i) {
      marks.emplace_back(machine.buffers[i].size(), 0);
      ForBytes((*footprint)[i].reads, [&](std::uint64_t at, bool) { marks[i].at(at) |= 1; });
      ForBytes((*footprint)[i].writes, [&](std::uint64_t at, bool whole) { marks[i].at(at) |= whole ? 6 : 2; });
    }
    std::size_t outside = 0;
    for (const Machine::Record& one : machine.records) {
      const std::uint64_t group = one.group[part.dimension];
      if (group < part.first || group >= part.end) continue;
      for (std::uint64_t at = one.byte; at < one.byte + one.size && at < marks[one.argument].size(); ++at) {
        std::uint8_t& mark = marks[one.argument][at];
        outside += (mark & (one.write ? 2 : 3)) == 0 ? 1 : 0;
        if (one.write) mark |= 8;
      }
    }
    EXPECT_EQ(outside, 0U) << trial_.name << ": bytes touched outside of what was derived";
    std::size_t missed = 0;
    for (const auto& of : marks)
      for (const std::uint8_t mark : of) missed += (mark & 12) == 4 ? 1 : 0;
    EXPECT_EQ(missed, 0U) << trial_.name << ": bytes said to be written for sure, and not written";
  }

  void CheckApart(unsigned d) {
    constexpr std::uint64_t kNobody = ~std::uint64_t{0};
    std::vector<std::vector<std::uint64_t>> writers;
    for (const auto& buffer : machine.buffers) writers.emplace_back(buffer.size() + 16, kNobody);
    for (const Machine::Record& one : machine.records)
      for (std::uint64_t i = 0; one.write && i < one.size; ++i) {
        std::uint64_t& writer = writers[one.argument][one.byte + i];
        ASSERT_TRUE(writer == kNobody || writer == one.group[d]) << trial_.name << ": two groups write one byte";
        writer = one.group[d];
      }
    for (const Machine::Record& one : machine.records)
      for (std::uint64_t i = 0; !one.write && i < one.size; ++i) {
        const std::uint64_t writer = writers[one.argument][one.byte + i];
        ASSERT_TRUE(writer == kNobody || writer == one.group[d]) << trial_.name << ": reads what others write";
      }
  }

  void CheckSplit(const std::vector<core::PartRange>& parts, const std::vector<std::vector<std::byte>>& before,
                  const std::vector<std::vector<std::byte>>& unsplit) {
    std::vector<std::vector<std::byte>> merged = before;
    for (const core::PartRange& part : parts) {
      const auto footprint = core::FootprintOf(access_, machine.launch, part);
      ASSERT_TRUE(footprint);
      for (std::size_t i = 0; i < before.size(); ++i) {
        std::vector<std::byte>& buffer = machine.buffers[i];
        std::fill(buffer.begin(), buffer.end(), std::byte{0x5A});
        const auto bring = [&](std::uint64_t at, bool whole) {
          if (!whole) buffer.at(at) = before[i].at(at);
        };
        ForBytes((*footprint)[i].writes, bring);
        ForBytes((*footprint)[i].reads, [&](std::uint64_t at, bool) { bring(at, false); });
      }
      RunPart(part);
      for (std::size_t i = 0; i < before.size(); ++i)
        ForBytes((*footprint)[i].writes, [&](std::uint64_t at, bool) { merged[i].at(at) = machine.buffers[i].at(at); });
    }
    EXPECT_TRUE(merged == unsplit) << trial_.name << ": a split run gives another result, cut at " << parts[0].end
                                   << " along " << parts[0].dimension;
  }

  const Trial& trial_;
  const KernelAccess& access_;
  Prng prng_;
  Call call_{};
  std::vector<core::LaunchArgument> arguments_;
  std::vector<std::vector<std::byte>> scalars_;
  std::vector<std::byte> local_, stacks_;
};

// What stands before each kernel in the files; and how many there are of each kind stands in the page.
TEST(KernelLaws, VerdictsAreThoseThatTheFilesSay) {
  std::map<std::string, int> counts;
  for (const char* file : kFiles) {
    std::ifstream lines(std::string(WEIR_KERNELS) + "/" + file);
    std::string said;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("// ")) said = line.substr(3, line.find_first_of(" :.,", 3) - 3);
      if (!line.starts_with("kernel ")) continue;
      const std::size_t end = line.find('('), begin = line.rfind(' ', end) + 1;
      const std::string name = line.substr(begin, end - begin);
      const auto found = Analysed().find(name);
      ASSERT_NE(found, Analysed().end()) << name;
      EXPECT_EQ(core::NameOf(found->second.verdict), said) << name << ": " << found->second.reason;
      ++counts[std::string(core::NameOf(found->second.verdict))];
    }
  }
  std::string row = "|";
  for (const char* verdict : {"exact", "guarded", "replicate", "refuse"})
    row += " " + std::to_string(counts[verdict]) + " |";
  std::ifstream page(WEIR_KERNELS "/../../docs/kernel-analysis.md");
  const std::string text(std::istreambuf_iterator<char>(page), {});
  EXPECT_NE(text.find("\n" + row + "\n"), std::string::npos) << "docs/kernel-analysis.md lacks the line\n" << row;
}

TEST(KernelLaws, DerivedRangesHoldAndSplitRunsGiveTheSameBytes) {
  for (const Trial& trial : kTrials) {
    const auto found = Analysed().find(trial.name);
    ASSERT_NE(found, Analysed().end()) << trial.name;
    EXPECT_NE(found->second.verdict, core::AccessVerdict::kRefuse) << trial.name << ": " << found->second.reason;
    if (found->second.verdict == core::AccessVerdict::kRefuse) continue;
    int cuts = 0;
    for (std::uint64_t seed = 1; seed <= kLaunches; ++seed) {
      cuts += LawRun(trial, found->second, seed).Check() ? 1 : 0;
      if (::testing::Test::HasFatalFailure()) FAIL() << trial.name << ", seed " << seed;
    }
    std::printf("%-24s %-10s cut in %d of %d launches\n", trial.name, core::NameOf(found->second.verdict), cuts,
                kLaunches);
  }
}

}  // namespace
}  // namespace weir::testing
