// SPDX-License-Identifier: Apache-2.0
// Runs a libFuzzer target without libFuzzer: every file of the given folders, and for each a fixed set of variations
// that is the same on every machine and compiler. An input that was found once is thus tested on each build, with
// truncations and flipped bytes; with WEIR_FUZZ_VARIATIONS=all (scripts/test --long) up to eight times as many. --whole
// runs only the files themselves, for slow targets.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" [[gnu::weak]] int LLVMFuzzerInitialize(int* argc, char*** argv);

namespace {

/// How many variations of one file.
struct Variations {
  std::size_t prefixes;  // a longer file is cut at evenly spread lengths
  int flips, doubled_pieces;
};
constexpr Variations kSome{.prefixes = 512, .flips = 32, .doubled_pieces = 4};
constexpr Variations kAll{.prefixes = 4096, .flips = 256, .doubled_pieces = 32};
constexpr std::uint64_t kSeed = 20180521;

// The current input, for the report of a crash. Written before each input, read by the signal handler.
char running[512] = "nothing yet";
std::size_t inputs = 0;

void SayWhatRuns(int signal_number) {
  static constexpr char kPrefix[] = "\nfuzz_replay: ended while running ";
  (void)!write(STDERR_FILENO, kPrefix, sizeof kPrefix - 1);
  (void)!write(STDERR_FILENO, running, std::char_traits<char>::length(running));
  (void)!write(STDERR_FILENO, "\n", 1);
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

void RunOne(const std::string& name, const char* variation, std::size_t at, const std::vector<std::uint8_t>& bytes) {
  std::snprintf(running, sizeof running, "%s, %s %zu", name.c_str(), variation, at);
  // A block of exactly this size, so that the address sanitizer detects an overrun of one byte.
  auto exact = std::make_unique<std::uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.get());
  LLVMFuzzerTestOneInput(exact.get(), bytes.size());
  ++inputs;
}

Variations Wanted() {
  const char* wanted = std::getenv("WEIR_FUZZ_VARIATIONS");
  return wanted != nullptr && std::string_view(wanted) == "all" ? kAll : kSome;
}

void RunVariations(const std::string& name, const std::vector<std::uint8_t>& bytes) {
  const Variations variations = Wanted();
  RunOne(name, "whole, size", bytes.size(), bytes);
  const std::size_t step = bytes.size() / variations.prefixes + 1;
  for (std::size_t size = 0; size < bytes.size(); size += step)
    RunOne(name, "first bytes:", size, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
  if (bytes.empty()) return;

  weir::Prng prng(kSeed);
  const auto last = static_cast<std::int64_t>(bytes.size()) - 1;
  for (int i = 0; i < variations.flips; ++i) {
    auto flipped = bytes;
    const auto at = static_cast<std::size_t>(prng.Between(0, last));
    flipped[at] = static_cast<std::uint8_t>(flipped[at] ^ prng.Between(1, 255));
    RunOne(name, "flipped byte", at, flipped);
  }
  for (int i = 0; i < variations.doubled_pieces; ++i) {
    const auto begin = prng.Between(0, last);
    const auto end = prng.Between(begin, last) + 1;
    auto longer = bytes;
    longer.insert(longer.begin() + end, bytes.begin() + begin, bytes.begin() + end);
    RunOne(name, "piece doubled, which begins at byte", static_cast<std::size_t>(begin), longer);
  }
}

int Replay(int argc, char** argv) {
  namespace fs = std::filesystem;
  const bool whole = argc > 1 && std::string_view(argv[1]) == "--whole";
  const int first = whole ? 2 : 1;
  if (argc <= first) {
    std::fprintf(stderr, "usage: %s [--whole] FOLDER...\n", argv[0]);
    return 2;
  }
  for (int i = first; i < argc; ++i) {
    std::vector<fs::path> files;
    if (fs::is_directory(argv[i]))
      for (const auto& entry : fs::recursive_directory_iterator(argv[i]))
        if (entry.is_regular_file()) files.push_back(entry.path());
    if (files.empty()) {
      std::fprintf(stderr, "fuzz_replay: %s is missing or has no file: a fuzz target keeps at least one good input\n",
                   argv[i]);
      return 1;
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      std::ifstream stream(file, std::ios::binary);
      const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(stream), {}};
      if (stream.bad()) {
        std::fprintf(stderr, "fuzz_replay: cannot read %s\n", file.c_str());
        return 1;
      }
      if (whole)
        RunOne(file.string(), "whole, size", bytes.size(), bytes);
      else
        RunVariations(file.string(), bytes);
    }
    std::printf("fuzz_replay: %s: %zu files\n", argv[i], files.size());
  }
  std::printf("fuzz_replay: %zu inputs, none crashed\n", inputs);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal_number, SayWhatRuns);
  try {
    if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
    return Replay(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fuzz_replay: %s, while running %s\n", e.what(), running);
    return 1;
  }
}
