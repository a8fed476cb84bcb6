// SPDX-License-Identifier: Apache-2.0
// Kernels of tests/kernels, compiled by clang for this processor with a call before each load and store, run work-item
// by work-item; and the same kernels, analysed. What was touched lies in what was derived; groups that may be cut apart
// write nothing that others touch; and parts that are given their slices only, all else being poison, make the bytes of
// the unsplit run.
#include <ucontext.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cstdlib>

#include "tests/kernels/drawn_launch.h"

namespace weir::testing {
namespace {

using kernel::KernelAccess;
using Ids = std::array<std::uint64_t, 3>;

/// What the program under test asks and does.
struct Machine {
  struct Record {
    std::size_t argument;
    std::uint64_t byte, size;
    bool write;
    Ids group;
  };
  kernel::KernelLaunch launch{};
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
std::uint64_t WeirGroupId(unsigned d) { return d < 3 ? machine.group[d] : 0; }
std::uint64_t WeirGlobalSize(unsigned d) asm("_Z15get_global_sizej");
std::uint64_t WeirGlobalSize(unsigned d) { return machine.launch.global[d]; }
std::uint64_t WeirLocalSize(unsigned d) asm("_Z14get_local_sizej");
std::uint64_t WeirLocalSize(unsigned d) { return machine.launch.local[d]; }
std::uint64_t WeirNumGroups(unsigned d) asm("_Z14get_num_groupsj");
std::uint64_t WeirNumGroups(unsigned d) { return d < 3 ? machine.launch.Groups(d) : 1; }
std::uint64_t WeirGlobalOffset(unsigned d) asm("_Z17get_global_offsetj");
std::uint64_t WeirGlobalOffset(unsigned d) { return machine.launch.offset[d]; }
unsigned WeirWorkDim() asm("_Z12get_work_dimv");
unsigned WeirWorkDim() { return machine.launch.dimensions; }
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
void* WeirGroupCopy(float* to, const float* from, std::uint64_t count,
                    void* event) asm("_Z21async_work_group_copyPU7CLlocalfPU8CLglobalKfm9ocl_event");
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

struct RunKernel {
  const char* name;
  void (*kernel)();
};
#define WEIR_DECLARE(name, ...) extern "C" void name();
WEIR_TRIALS(WEIR_DECLARE)
#undef WEIR_DECLARE
#define WEIR_RUN_KERNEL(name, ...) {#name, name},
constexpr RunKernel kRunKernels[]{WEIR_TRIALS(WEIR_RUN_KERNEL)};
#undef WEIR_RUN_KERNEL

constexpr int kLaunches = 6;  // drawn, of each kernel

const std::map<std::string, KernelAccess>& Analysed() {
  static const auto all = [] {
    std::map<std::string, KernelAccess> made;
    for (const char* file : kKernelFiles)
      for (const KernelAccess& one : AnalyseFile(file).kernels) made.emplace(one.kernel, one);
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
    const auto answers = kernel::Cuttable(access_, machine.launch);
    bool cut = false;
    for (unsigned d = 0; d < trial_.dimensions; ++d) {
      const std::uint64_t groups = machine.launch.Groups(d);
      const auto at = static_cast<std::uint64_t>(prng_.Between(1, static_cast<std::int64_t>(groups)));
      std::vector<kernel::PartRange> parts{{d, 0, at}};
      if (at < groups) parts.push_back({d, at, groups});
      for (const kernel::PartRange& part : parts) CheckContained(part);
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
    drawn_ = testing::Draw(trial_, prng_);
    machine.launch = drawn_.launch;
    machine.buffers = drawn_.buffers;
    const auto named = [&](const RunKernel& one) { return std::string_view(one.name) == trial_.name; };
    call_.kernel = std::find_if(std::begin(kRunKernels), std::end(kRunKernels), named)->kernel;
    std::size_t words = 0, numbers = 0;
    for (std::size_t i = 0; i < drawn_.given.size(); ++i) {
      const Given& one = drawn_.given[i];
      switch (one.kind) {
        case Given::Kind::kBuffer:
        case Given::Kind::kIndices:
          call_.words[words++] = reinterpret_cast<std::uint64_t>(machine.buffers[i].data());
          break;
        case Given::Kind::kLocal:
          local_.assign(one.size, std::byte{});
          call_.words[words++] = reinterpret_cast<std::uint64_t>(local_.data());
          break;
        // A structure lies on the stack, after the words that registers have.
        case Given::Kind::kStruct2: std::memcpy(&call_.words[6], drawn_.scalars[i].data(), one.size); break;
        case Given::Kind::kInt: call_.words[words++] = static_cast<std::uint64_t>(one.value); break;
        case Given::Kind::kFloat:
        case Given::Kind::kInt2: std::memcpy(&call_.numbers[numbers++], drawn_.scalars[i].data(), one.size); break;
      }
    }
  }

  void RunPart(const kernel::PartRange& part) {
    for (std::uint64_t z = 0; z < machine.launch.Groups(2); ++z)
      for (std::uint64_t y = 0; y < machine.launch.Groups(1); ++y)
        for (std::uint64_t x = 0; x < machine.launch.Groups(0); ++x) {
          machine.group = {x, y, z};
          if (machine.group[part.dimension] < part.first || machine.group[part.dimension] >= part.end) continue;
          RunGroup(call_, stacks_);
        }
  }

  void CheckContained(const kernel::PartRange& part) {
    const auto footprint = kernel::FootprintOf(access_, machine.launch, part);
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
        ASSERT_TRUE(writer == kNobody || writer == one.group[d]) << trial_.name << ": reads data that others write";
      }
  }

  void CheckSplit(const std::vector<kernel::PartRange>& parts, const std::vector<std::vector<std::byte>>& before,
                  const std::vector<std::vector<std::byte>>& unsplit) {
    std::vector<std::vector<std::byte>> merged = before;
    for (const kernel::PartRange& part : parts) {
      const auto footprint = kernel::FootprintOf(access_, machine.launch, part);
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
  DrawnLaunch drawn_;
  std::vector<std::byte> local_, stacks_;
};

// What stands before each kernel in the files; and how many there are of each kind stands in the page.
TEST(KernelLaws, VerdictsMatchTheFiles) {
  std::map<std::string, int> counts;
  for (const char* file : kKernelFiles) {
    std::ifstream lines(std::string(WEIR_KERNELS) + "/" + file);
    std::string said;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("// ")) said = line.substr(3, line.find_first_of(" :.,", 3) - 3);
      if (!line.starts_with("kernel ") && !line.starts_with("__kernel ")) continue;
      const std::size_t begin = line.find("void ") + 5, end = line.find('(', begin);
      const std::string name = line.substr(begin, end - begin);
      const auto found = Analysed().find(name);
      ASSERT_NE(found, Analysed().end()) << name;
      EXPECT_EQ(kernel::NameOf(found->second.verdict), said) << name << ": " << found->second.reason;
      ++counts[std::string(kernel::NameOf(found->second.verdict))];
    }
  }
  std::string row = "|";
  for (const char* verdict : {"exact", "guarded", "replicate", "refuse"})
    row += " " + std::to_string(counts[verdict]) + " |";
  std::ifstream page(WEIR_KERNELS "/../../docs/kernel-analysis.md");
  const std::string text(std::istreambuf_iterator<char>(page), {});
  EXPECT_NE(text.find("\n" + row + "\n"), std::string::npos) << "docs/kernel-analysis.md lacks the line\n" << row;
}

TEST(KernelLaws, DerivedRangesAreRightAndSplitRunsGiveTheSameBytes) {
  for (const Trial& trial : kTrials) {
    const auto found = Analysed().find(trial.name);
    ASSERT_NE(found, Analysed().end()) << trial.name;
    EXPECT_NE(found->second.verdict, kernel::AccessVerdict::kRefuse) << trial.name << ": " << found->second.reason;
    if (found->second.verdict == kernel::AccessVerdict::kRefuse) continue;
    int cuts = 0;
    for (std::uint64_t seed = 1; seed <= kLaunches; ++seed) {
      cuts += LawRun(trial, found->second, seed).Check() ? 1 : 0;
      if (::testing::Test::HasFatalFailure()) FAIL() << trial.name << ", seed " << seed;
    }
    std::printf("%-24s %-10s cut in %d of %d launches\n", trial.name, kernel::NameOf(found->second.verdict), cuts,
                kLaunches);
  }
}

}  // namespace
}  // namespace weir::testing
