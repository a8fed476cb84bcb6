// SPDX-License-Identifier: Apache-2.0
// weir-analyzer: frames of core/partition/analysis_frames.h on standard input, answers on standard output, until its
// input ends. Each request is a fork of this process, which has LLVM loaded: what a source does to the compiler or to
// LLVM costs one answer.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/partition/analysis_frames.h"
#include "opencl/analyzer/compile.h"
#include "opencl/analyzer/lowering.h"
#include "opencl/analyzer/sandbox.h"

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

Result<std::vector<core::KernelAccess>> Analyse(const Bytes& frame) {
  WEIR_TRY(const core::AnalysisRequest request, core::DecodeAnalysisRequest(frame));
  WEIR_TRY(const std::vector<char> bitcode, CompileToBitcode(request.options, request.source));
  return LowerBitcode(bitcode);
}

/// What the child wrote before it ended or its time was over.
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
    if (n <= 0 || answer.size() > core::kAnalysisBytesMax) return answer;
    answer.insert(answer.end(), part, part + n);
  }
}

Bytes AnswerTo(const Bytes& frame) {
  const auto failed = [](const std::string& why) {
    return core::EncodeAnalysisReply(Fail(Errc::kInvalidArgument, why));
  };
  int ends[2];
  if (::pipe(ends) != 0) return failed(std::string("making a pipe: ") + std::strerror(errno));
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    if (!EnterSandbox()) ::_exit(1);
    const Bytes answer = core::EncodeAnalysisReply(Analyse(frame));
    WriteAll(ends[1], answer.data(), answer.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  Bytes answer;
  if (child > 0) {
    ::setpgid(child, child);
    answer = AnswerOf(ends[0]);
    ::kill(-child, SIGKILL);  // what it started, too
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(ends[0]);
  return answer.empty() ? failed("the source could not be analysed within its time and memory") : answer;
}

int Serve() {
  ::signal(SIGPIPE, SIG_IGN);
  for (;;) {
    std::byte head[4];
    if (!ReadAll(STDIN_FILENO, head, sizeof head)) return 0;
    std::size_t size = 0;
    for (unsigned i = 0; i < 4; ++i) size |= std::to_integer<std::size_t>(head[i]) << (8 * i);
    if (size > core::kAnalysisBytesMax) return 2;
    Bytes frame(size);
    if (!ReadAll(STDIN_FILENO, frame.data(), size)) return 2;
    const Bytes answer = AnswerTo(frame);
    for (unsigned i = 0; i < 4; ++i) head[i] = static_cast<std::byte>(answer.size() >> (8 * i));
    if (!WriteAll(STDOUT_FILENO, head, sizeof head) || !WriteAll(STDOUT_FILENO, answer.data(), answer.size())) return 0;
  }
}

}  // namespace
}  // namespace weir::opencl

int main() { return weir::opencl::Serve(); }
