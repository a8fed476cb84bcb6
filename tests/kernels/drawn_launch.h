// SPDX-License-Identifier: Apache-2.0
// Launches of the kernels in this folder, drawn; and what the analyzer says of the kernels.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "base/prng.h"
#include "kernel/analysis_frames.h"
#include "kernel/cuttable.h"

namespace weir::testing {

/// An argument of a drawn launch.
struct Given {
  enum class Kind : std::uint8_t { kBuffer, kIndices, kInt, kFloat, kInt2, kStruct2, kLocal } kind;
  std::uint64_t size = 0;  // bytes
  std::int64_t value = 0;  // of kInt; kIndices: they are below it
  std::int64_t second = 0;
};
inline Given Floats(std::int64_t n) { return {Given::Kind::kBuffer, 4 * static_cast<std::uint64_t>(n)}; }
inline Given RawBytes(std::int64_t n) { return {Given::Kind::kBuffer, static_cast<std::uint64_t>(n)}; }
inline Given Indices(std::int64_t n, std::int64_t below) {
  return {Given::Kind::kIndices, 4 * static_cast<std::uint64_t>(n), below};
}
inline Given Int(std::int64_t value) { return {Given::Kind::kInt, 4, value}; }
inline Given Real() { return {Given::Kind::kFloat, 4}; }
inline Given Int2(std::int64_t x, std::int64_t y) { return {Given::Kind::kInt2, 8, x, y}; }
inline Given Struct2(std::int64_t x, std::int64_t y) { return {Given::Kind::kStruct2, 8, x, y}; }
inline Given Local(std::int64_t n) { return {Given::Kind::kLocal, static_cast<std::uint64_t>(n)}; }

/// Sizes that a launch is drawn from: n, w and h are of the problem, and the geometry covers them or equals them.
struct Sizes {
  std::int64_t n, w, h, d, k, items, wide, high, deep, group;  // items, wide, ...: work-items
};

struct Trial {
  const char* name;
  unsigned dimensions;
  bool square;  // groups of 8 by 8, w and h multiples of 8 and equal
  std::vector<Given> (*arguments)(const Sizes&);
};

#include "tests/kernels/trials.inc"

#define WEIR_TRIAL(name, dimensions, square, ...)       \
  Trial{#name, dimensions, square, [](const Sizes& s) { \
          (void)s;                                      \
          return std::vector<Given>{__VA_ARGS__};       \
        }},
inline const Trial kTrials[]{WEIR_TRIALS(WEIR_TRIAL)};
#undef WEIR_TRIAL

/// What is drawn: not to be copied, its parts point into each other.
struct DrawnLaunch {
  std::vector<Given> given;
  std::vector<std::vector<std::byte>> buffers, scalars;  // by argument
  std::vector<kernel::LaunchArgument> arguments;
  kernel::KernelLaunch launch{};

  DrawnLaunch() = default;
  DrawnLaunch(DrawnLaunch&&) = default;
  DrawnLaunch& operator=(DrawnLaunch&&) = default;
};

inline DrawnLaunch Draw(const Trial& trial, Prng& prng) {
  using Lengths = std::array<std::uint64_t, 3>;
  DrawnLaunch drawn;
  const auto between = [&](std::int64_t a, std::int64_t b) { return prng.Between(a, b); };
  Sizes s{};
  const bool exact = between(0, 1) == 0;
  const auto round = [](std::int64_t v, std::int64_t unit) { return (v + unit - 1) / unit * unit; };
  s.group = std::int64_t{1} << between(2, 5);
  s.n = between(3, 200), s.w = between(3, 40), s.h = between(3, 24), s.d = between(3, 6), s.k = between(1, 9);
  Lengths local{static_cast<std::uint64_t>(s.group), 1, 1};
  if (trial.dimensions > 1) local = {1ULL << between(0, 3), 1ULL << between(0, 2), 1};
  if (trial.square) local = {8, 8, 1}, s.w = s.h = 8 * between(1, 4);
  if (exact || trial.square) {
    s.n = round(s.n, static_cast<std::int64_t>(local[0]));
    s.w = round(s.w, static_cast<std::int64_t>(local[0]));
    s.h = round(s.h, static_cast<std::int64_t>(local[1]));
  }
  s.items = round(s.n, static_cast<std::int64_t>(local[0]));
  s.wide = round(s.w, static_cast<std::int64_t>(local[0])), s.high = round(s.h, static_cast<std::int64_t>(local[1]));
  s.deep = s.d;
  drawn.launch = {.dimensions = trial.dimensions, .local = local};
  const auto size = [](std::int64_t v) { return static_cast<std::uint64_t>(v); };
  drawn.launch.global = trial.dimensions == 1   ? Lengths{size(s.items), 1, 1}
                        : trial.dimensions == 2 ? Lengths{size(s.wide), size(s.high), 1}
                                                : Lengths{size(s.wide), size(s.high), size(s.deep)};
  if (std::string_view(trial.name).starts_with("offset_"))
    for (unsigned dimension = 0; dimension < trial.dimensions; ++dimension)
      drawn.launch.offset[dimension] = size(between(0, 9));
  drawn.given = trial.arguments(s);
  drawn.buffers.resize(drawn.given.size());
  drawn.scalars.resize(drawn.given.size());
  drawn.arguments.resize(drawn.given.size());
  for (std::size_t i = 0; i < drawn.given.size(); ++i) {
    const Given& one = drawn.given[i];
    const std::array<std::int32_t, 2> pair{static_cast<std::int32_t>(one.value), static_cast<std::int32_t>(one.second)};
    if (one.kind == Given::Kind::kBuffer || one.kind == Given::Kind::kIndices) {
      std::vector<std::byte>& bytes = drawn.buffers[i];
      bytes.resize(one.size);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.Next() >> 60);  // small numbers
      for (std::size_t j = 0; one.kind == Given::Kind::kIndices && j + 4 <= bytes.size(); j += 4) {
        const auto index = static_cast<std::int32_t>(between(0, one.value - 1));
        std::memcpy(bytes.data() + j, &index, 4);
      }
      drawn.arguments[i] = {.memory = i + 1, .bytes = one.size};
    } else if (one.kind != Given::Kind::kLocal) {
      drawn.scalars[i].resize(one.size);
      std::memcpy(drawn.scalars[i].data(), pair.data(), one.size);
      drawn.arguments[i] = {.value = drawn.scalars[i]};
    }
  }
  drawn.launch.arguments = drawn.arguments;
  return drawn;
}

constexpr const char* kKernelFiles[]{"linear_algebra.cl", "data.cl", "grids.cl", "helpers.cl"};

inline std::string KernelFile(const std::string& name) {
  std::ifstream file(std::string(WEIR_KERNELS) + "/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline kernel::ProgramAnalysis AnalyseFile(const std::string& name) {
  const std::vector<std::byte> frame = kernel::FrameOf(kernel::EncodeAnalysisRequest({.source = KernelFile(name)}));
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
  EXPECT_EQ(write(to[1], frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
  close(to[1]);
  std::vector<std::byte> answer;
  std::byte part[65'536];
  for (ssize_t n = 0; (n = read(from[0], part, sizeof part)) > 0;) answer.insert(answer.end(), part, part + n);
  close(from[0]);
  waitpid(child, nullptr, 0);
  auto analysis = kernel::ReplyOf(answer);
  EXPECT_TRUE(analysis) << (analysis ? "" : analysis.error().message);
  return analysis ? std::move(*analysis) : kernel::ProgramAnalysis{};
}

template <typename Each>
void ForBytes(const std::vector<kernel::Extent>& extents, Each each) {
  for (const kernel::Extent& one : extents)
    for (std::uint64_t row = 0; row < one.rows; ++row)
      for (std::uint64_t i = 0; i < one.bytes; ++i) each(one.begin + row * one.stride + i, one.whole);
}

}  // namespace weir::testing
