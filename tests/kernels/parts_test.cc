// SPDX-License-Identifier: Apache-2.0
// Kernels of tests/kernels on PoCL: launched as they were written, and in parts, by the parts' kernels that the
// analyzer made of their source, each with slices of the buffers and nothing else. Both make the same bytes.
#include <algorithm>
#include <cstdlib>

#include "opencl/executor/driver.h"
#include "tests/kernels/drawn_launch.h"

namespace weir::testing {
namespace {

constexpr int kDraws = 6;  // at most, of each kernel, until one can be cut
constexpr std::byte kPoison{0x5A};
/// What lies around each slice. What a kernel reads there shows in its results, and what it writes there is seen.
constexpr std::size_t kFence = 4096;
constexpr std::uint64_t kSliceAlign = 128;

const opencl::NativeDevice& Device() {
  static const opencl::NativeDevice device = [] {
    for (const std::string& library : opencl::VendorLibraries("/etc/OpenCL/vendors"))
      if (const auto devices = opencl::OpenLibrary(library); devices && !devices->empty()) return devices->front();
    ADD_FAILURE() << "there is not an OpenCL driver: scripts/install-deps --test installs PoCL";
    std::abort();
  }();
  return device;
}

const cl_icd_dispatch& Cl() { return *Device().cl; }

/// A context and a queue for all of the tests.
struct Place {
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
};

const Place& ThePlace() {
  static const Place place = [] {
    Place made;
    made.context = Cl().clCreateContext(nullptr, 1, &Device().device, nullptr, nullptr, nullptr);
    made.queue = Cl().clCreateCommandQueue(made.context, Device().device, 0, nullptr);
    return made;
  }();
  return place;
}

cl_program Built(const std::string& source) {
  const char* text = source.c_str();
  cl_program program = Cl().clCreateProgramWithSource(ThePlace().context, 1, &text, nullptr, nullptr);
  if (Cl().clBuildProgram(program, 1, &Device().device, "", nullptr, nullptr) != CL_SUCCESS) {
    std::string said(20'000, '\0');
    Cl().clGetProgramBuildInfo(program, Device().device, CL_PROGRAM_BUILD_LOG, said.size(), said.data(), nullptr);
    ADD_FAILURE() << said.c_str() << "\n" << source;
  }
  return program;
}

struct KernelOnDevice {
  kernel::KernelAccess access{};
  kernel::PartKernel part{};
  cl_kernel whole = nullptr, parts = nullptr;
};

const std::map<std::string, KernelOnDevice>& OnDevice() {
  static const auto all = [] {
    std::map<std::string, KernelOnDevice> made;
    for (const char* file : kKernelFiles) {
      const kernel::ProgramAnalysis analysis = AnalyseFile(file);
      cl_program whole = Built(KernelFile(file)), parts = Built(analysis.part_source);
      for (const kernel::KernelAccess& access : analysis.kernels)
        if (access.verdict != kernel::AccessVerdict::kRefuse)
          made[access.kernel] = {.access = access, .whole = Cl().clCreateKernel(whole, access.kernel.c_str(), nullptr)};
      for (const kernel::PartKernel& part : analysis.parts) {
        made[part.kernel].part = part;
        made[part.kernel].parts = Cl().clCreateKernel(parts, ("weir_part_" + part.kernel).c_str(), nullptr);
      }
    }
    return made;
  }();
  return all;
}

class PartsRun {
 public:
  PartsRun(const Trial& trial, const KernelOnDevice& kernel, std::uint64_t seed)
      : trial_(trial), kernel_(kernel), prng_(seed), drawn_(Draw(trial, prng_)) {}

  /// How many parts were run.
  int Check() {
    const auto answers = kernel::Cuttable(kernel_.access, drawn_.launch);
    std::vector<std::vector<std::byte>> unsplit;
    int parts = 0;
    for (unsigned d = 0; d < trial_.dimensions; ++d) {
      const std::uint64_t groups = drawn_.launch.Groups(d);
      if (!answers[d].yes || groups < 2) continue;
      if (unsplit.empty()) unsplit = RunWhole();
      const auto wanted = static_cast<std::uint64_t>(prng_.Between(2, 4));
      std::vector<std::vector<std::byte>> merged = drawn_.buffers;
      for (std::uint64_t first = 0; first < groups;) {
        const std::uint64_t most = std::max<std::uint64_t>(1, 2 * groups / wanted);
        std::uint64_t end = first + static_cast<std::uint64_t>(prng_.Between(1, static_cast<std::int64_t>(most)));
        end = first == 0 ? std::min(end, groups - 1) : std::min(end, groups);
        RunPart({.dimension = d, .first = first, .end = end}, merged);
        first = end;
        ++parts;
      }
      EXPECT_TRUE(merged == unsplit) << trial_.name << ": parts along " << d << " make other bytes";
    }
    return parts;
  }

 private:
  /// What is given instead of a buffer.
  struct Slice {
    std::uint64_t begin = 0;  // of the argument
    std::vector<std::byte> bytes;
  };

  void Run(cl_kernel kernel, std::vector<Slice>& slices, const kernel::PartRange* part) {
    std::vector<std::vector<std::byte>> memories(slices.size());
    std::vector<cl_mem> made;
    cl_uint argument = 0;
    for (std::size_t i = 0; i < slices.size(); ++i, ++argument) {
      const Given& one = drawn_.given[i];
      if (one.kind == Given::Kind::kLocal) {
        ASSERT_EQ(Cl().clSetKernelArg(kernel, argument, one.size, nullptr), CL_SUCCESS);
      } else if (!drawn_.scalars[i].empty()) {
        ASSERT_EQ(Cl().clSetKernelArg(kernel, argument, one.size, drawn_.scalars[i].data()), CL_SUCCESS);
      } else {
        // The fences are in the same allocation, and the buffer is a part of it.
        std::vector<std::byte>& memory = memories[i];
        memory.assign(2 * kFence + slices[i].bytes.size(), kPoison);
        std::copy(slices[i].bytes.begin(), slices[i].bytes.end(), memory.begin() + kFence);
        cl_int status = CL_SUCCESS;
        made.push_back(Cl().clCreateBuffer(ThePlace().context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, memory.size(),
                                           memory.data(), &status));
        const cl_buffer_region region{kFence, std::max<std::size_t>(1, slices[i].bytes.size())};
        made.push_back(
            Cl().clCreateSubBuffer(made.back(), CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
        ASSERT_EQ(status, CL_SUCCESS);
        ASSERT_EQ(Cl().clSetKernelArg(kernel, argument, sizeof(cl_mem), &made.back()), CL_SUCCESS);
      }
    }
    const kernel::KernelLaunch& launch = drawn_.launch;
    std::array<std::size_t, 3> offset{}, global{}, local{};
    for (unsigned d = 0; d < 3; ++d)
      offset[d] = launch.offset[d], global[d] = launch.global[d], local[d] = launch.local[d];
    if (part != nullptr) {
      for (std::size_t i = 0; i < slices.size(); ++i) {
        if (memories[i].empty()) continue;
        const auto begin = static_cast<cl_long>(slices[i].begin);
        ASSERT_EQ(Cl().clSetKernelArg(kernel, argument++, sizeof begin, &begin), CL_SUCCESS);
      }
      cl_ulong16 place{};
      place.s[part->dimension] = part->first;
      for (unsigned d = 0; d < 3; ++d) {
        place.s[3 + d] = launch.Groups(d);
        place.s[6 + d] = launch.global[d];
        place.s[9 + d] = launch.offset[d];
      }
      ASSERT_EQ(Cl().clSetKernelArg(kernel, argument++, sizeof place, &place), CL_SUCCESS);
      offset[part->dimension] += part->first * local[part->dimension];
      global[part->dimension] = (part->end - part->first) * local[part->dimension];
    }
    ASSERT_EQ(Cl().clEnqueueNDRangeKernel(ThePlace().queue, kernel, launch.dimensions, offset.data(), global.data(),
                                          local.data(), 0, nullptr, nullptr),
              CL_SUCCESS);
    ASSERT_EQ(Cl().clFinish(ThePlace().queue), CL_SUCCESS);
    std::size_t at = 0;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      if (memories[i].empty()) continue;
      // Mapping makes what the device computed visible in host memory, where it may have kept a copy.
      void* mapped = Cl().clEnqueueMapBuffer(ThePlace().queue, made[at], CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                             memories[i].size(), 0, nullptr, nullptr, nullptr);
      ASSERT_NE(mapped, nullptr);
      const auto is_poison = [](std::byte byte) { return byte == kPoison; };
      EXPECT_TRUE(std::all_of(memories[i].begin(), memories[i].begin() + kFence, is_poison) &&
                  std::all_of(memories[i].end() - kFence, memories[i].end(), is_poison))
          << trial_.name << ": something was written outside of a slice";
      slices[i].bytes.assign(memories[i].begin() + kFence, memories[i].end() - kFence);
      Cl().clEnqueueUnmapMemObject(ThePlace().queue, made[at], mapped, 0, nullptr, nullptr);
      at += 2;
    }
    Cl().clFinish(ThePlace().queue);
    for (auto buffer = made.rbegin(); buffer != made.rend(); ++buffer) Cl().clReleaseMemObject(*buffer);
  }

  std::vector<std::vector<std::byte>> RunWhole() {
    std::vector<Slice> slices(drawn_.given.size());
    for (std::size_t i = 0; i < slices.size(); ++i) slices[i].bytes = drawn_.buffers[i];
    Run(kernel_.whole, slices, nullptr);
    std::vector<std::vector<std::byte>> unsplit;
    for (Slice& slice : slices) unsplit.push_back(std::move(slice.bytes));
    return unsplit;
  }

  void RunPart(const kernel::PartRange& part, std::vector<std::vector<std::byte>>& merged) {
    const auto footprint = kernel::FootprintOf(kernel_.access, drawn_.launch, part);
    ASSERT_TRUE(footprint);
    std::vector<Slice> slices(drawn_.given.size());
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const kernel::ArgumentFootprint& one = (*footprint)[i];
      std::uint64_t begin = ~std::uint64_t{0}, end = 0;
      for (const auto* extents : {&one.reads, &one.writes})
        for (const kernel::Extent& extent : *extents)
          begin = std::min(begin, extent.begin), end = std::max(end, extent.end());
      if (end == 0) continue;
      slices[i].begin = begin / kSliceAlign * kSliceAlign;
      slices[i].bytes.assign(end - slices[i].begin, kPoison);
      const auto bring = [&](std::uint64_t at, bool whole) {
        if (!whole) slices[i].bytes.at(at - slices[i].begin) = drawn_.buffers[i].at(at);
      };
      ForBytes(one.writes, bring);
      ForBytes(one.reads, [&](std::uint64_t at, bool) { bring(at, false); });
    }
    Run(kernel_.parts, slices, &part);
    for (std::size_t i = 0; i < slices.size(); ++i)
      ForBytes((*footprint)[i].writes,
               [&](std::uint64_t at, bool) { merged[i].at(at) = slices[i].bytes.at(at - slices[i].begin); });
  }

  const Trial& trial_;
  const KernelOnDevice& kernel_;
  Prng prng_;
  DrawnLaunch drawn_;
};

TEST(KernelParts, EveryKernelThatMayBeSplitHasOne) {
  for (const auto& [name, kernel] : OnDevice()) {
    EXPECT_EQ(kernel.part.why_not, "") << name;
    EXPECT_NE(kernel.parts, nullptr) << name;
  }
}

/// WEIR_TEST_EVERY=3: each third kernel. A driver compiles each twice, which takes a cold cache most of a second.
std::size_t Every() {
  const char* const given = std::getenv("WEIR_TEST_EVERY");
  return given == nullptr ? 1 : std::max(std::strtoul(given, nullptr, 10), 1UL);
}

TEST(KernelParts, PartsOnSlicesGiveTheBytesOfTheWhole) {
  std::size_t count = 0;
  for (const Trial& trial : kTrials) {
    if (count++ % Every() != 0) continue;
    const auto found = OnDevice().find(trial.name);
    ASSERT_NE(found, OnDevice().end()) << trial.name;
    if (found->second.parts == nullptr) continue;
    int parts = 0;
    for (std::uint64_t seed = 1; seed <= kDraws && parts == 0; ++seed) {
      parts = PartsRun(trial, found->second, seed).Check();
      if (::testing::Test::HasFailure()) FAIL() << trial.name << ", seed " << seed;
    }
    std::printf("%-24s %2d parts\n", trial.name, parts);
  }
}

}  // namespace
}  // namespace weir::testing
