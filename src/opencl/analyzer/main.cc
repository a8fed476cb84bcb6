// SPDX-License-Identifier: Apache-2.0
// weir-analyzer: reads frames of kernel/analysis_frames.h from standard input and answers on standard output
// until the input ends. Each request runs in a fork of this process, which has LLVM loaded, so that a source that
// crashes the compiler or LLVM costs only its own answer.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "kernel/analysis_frames.h"
#include "kernel/compiler_names.h"
#include "opencl/analyzer/compile.h"
#include "opencl/analyzer/lowering.h"
#include "opencl/analyzer/sandbox.h"
#include "platform/service_options.h"

namespace weir::opencl {
namespace {

using Bytes = std::vector<std::byte>;
constexpr int kAnswerMs = 10'000;

bool ReadAll(int fd, std::byte* to, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::read(fd, to + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

bool WriteAll(int fd, const std::byte* from, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::write(fd, from + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

kernel::AnalysisReply Analyse(const Bytes& body) {
  WEIR_TRY(const kernel::AnalysisRequest request, kernel::DecodeAnalysisRequest(body));
  const std::vector<std::string> defined = kernel::MacrosOfOptions(request.options);
  const std::string asked = kernel::AsksItsCompiler(request.source, defined, request.macros);
  kernel::ProgramAnalysis analysis;
  if (!asked.empty() && request.macros.empty()) {
    // Without the device's macros, the macros of this clang are sufficient for a verdict.
    WEIR_TRY(const std::vector<char> bitcode, CompileToBitcode(request.options, request.source));
    WEIR_TRY(analysis.kernels, LowerBitcode(bitcode));
    analysis.parts = kernel::NoPartSource(analysis.kernels, asked).parts;
    return analysis;
  }
  // The analysis uses the same text as the part kernels.
  const bool as_it_is = kernel::IsPreprocessed(request.source, defined, request.macros);
  WEIR_TRY(const std::string text,
           as_it_is ? request.source : Preprocess(request.options, request.macros, request.source));
  WEIR_TRY(const std::vector<char> bitcode, CompileToBitcode(LanguageOptions(request.options), text));
  WEIR_TRY(analysis.kernels, LowerBitcode(bitcode));
  std::vector<std::string> names;
  names.reserve(defined.size());
  for (const std::string& macro : defined) names.emplace_back(kernel::MacroName(macro));
  kernel::PartSource made = asked.empty() ? kernel::MakePartSource(text, analysis.kernels, names)
                                          : kernel::NoPartSource(analysis.kernels, asked);
  analysis.parts = std::move(made.parts);
  analysis.part_source = std::move(made.text);
  return analysis;
}

/// Reads the child's answer. Empty: the child did not end within kAnswerMs. Cut off: it crashed while it wrote.
Bytes AnswerOf(int from) {
  Bytes answer;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kAnswerMs);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd wait{.fd = from, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) == 0) return {};
    std::byte part[65'536];
    const ssize_t n = ::read(from, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || answer.size() > kernel::kAnalysisBytesMax) return answer;
    answer.insert(answer.end(), part, part + n);
  }
}

Bytes AnswerTo(const Bytes& body) {
  const auto failed = [](const std::string& why) {
    return kernel::EncodeAnalysisReply(Fail(Errc::kInvalidArgument, why));
  };
  int ends[2];
  if (::pipe(ends) != 0) return failed(std::string("making a pipe: ") + std::strerror(errno));
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    if (!EnterSandbox()) ::_exit(1);
    Bytes answer = kernel::EncodeAnalysisReply(Analyse(body));
    if (answer.size() > kernel::kAnalysisBytesMax) answer = failed("the analysis of the source is larger than 8 MiB");
    WriteAll(ends[1], answer.data(), answer.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  Bytes answer;
  if (child > 0) {
    ::setpgid(child, child);
    answer = AnswerOf(ends[0]);
    ::kill(-child, SIGKILL);  // including processes that it started
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(ends[0]);
  return answer.empty() ? failed("the source could not be analysed within its time and memory") : answer;
}

int Serve() {
  ::signal(SIGPIPE, SIG_IGN);
  if (!HasLandlock())
    std::fputs("weir-analyzer: this kernel has no Landlock: source that is analysed may read files of this user\n",
               stderr);
  for (;;) {
    std::array<std::byte, kernel::kAnalysisHeadBytes> head{};
    if (!ReadAll(STDIN_FILENO, head.data(), head.size())) return 0;
    const auto size = kernel::BodySize(head);
    if (!size) return 2;
    Bytes body(*size);
    if (!ReadAll(STDIN_FILENO, body.data(), body.size())) return 2;
    const Bytes answer = kernel::FrameOf(AnswerTo(body));
    if (!WriteAll(STDOUT_FILENO, answer.data(), answer.size())) return 0;
  }
}

}  // namespace
}  // namespace weir::opencl

int main(int argc, char** argv) {
  constexpr const char* kAbout =
      "Usage: weir-analyzer\n"
      "\n"
      "Analyses kernels: reads requests from standard input and writes answers to standard output until the input\n"
      "ends. Executors and 'weir analyze' start it by themselves.\n";
  weir::platform::ServiceOptions options("weir-analyzer", kAbout);
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  return weir::opencl::Serve();
}
