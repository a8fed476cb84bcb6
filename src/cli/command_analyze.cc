// SPDX-License-Identifier: Apache-2.0
// weir analyze: which bytes of its buffers each work-item of a kernel reads and writes, and whether the kernel may be
// split.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>

#include "cli/common/places.h"
#include "cli/common/table.h"
#include "cli/options.h"
#include "kernel/analysis_frames.h"
#include "platform/fd.h"

namespace weir::cli {
namespace {

using nlohmann::ordered_json;

constexpr int kRefusedKernel = 1;  // exit status: analysed, and at least one kernel can't be split

struct AnalyzeFlags {
  std::string file, kernel;
  std::vector<std::string> options, macros;
  bool part_source = false;
};

/// Sends one request to a new weir-analyzer, which ends with its input.
kernel::AnalysisReply AskAnalyzer(const kernel::AnalysisRequest& request) {
  WEIR_TRY(const std::filesystem::path self, SelfExecutable());
  std::string analyzer = FindHelper(self, kAnalyzer);
  if (analyzer.empty()) return Fail(Errc::kUnavailable, "weir-analyzer is not where weir was installed");
  std::array<int, 2> to{}, from{};
  if (::pipe2(to.data(), O_CLOEXEC) != 0) return platform::ErrnoError("making a pipe for weir-analyzer", errno);
  const platform::Fd to_read(to[0]);
  platform::Fd to_write(to[1]);
  if (::pipe2(from.data(), O_CLOEXEC) != 0) return platform::ErrnoError("making a pipe for weir-analyzer", errno);
  const platform::Fd from_read(from[0]);
  platform::Fd from_write(from[1]);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, to_read.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, from_write.get(), STDOUT_FILENO);
  std::array<char*, 2> argv{analyzer.data(), nullptr};
  pid_t child = -1;
  const int error = ::posix_spawn(&child, analyzer.c_str(), &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return platform::ErrnoError("starting " + analyzer, error);
  from_write.Reset();
  const std::vector<std::byte> frame = kernel::FrameOf(kernel::EncodeAnalysisRequest(request));
  ::signal(SIGPIPE, SIG_IGN);
  for (std::size_t done = 0; done < frame.size();) {
    const ssize_t n = ::write(to_write.get(), frame.data() + done, frame.size() - done);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  to_write.Reset();
  std::vector<std::byte> answer;
  std::array<std::byte, 65'536> part{};
  for (ssize_t got = 0; (got = ::read(from_read.get(), part.data(), part.size())) > 0;)
    answer.insert(answer.end(), part.begin(), part.begin() + got);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return kernel::ReplyOf(answer);
}

std::string ConditionText(const kernel::KernelAccess& kernel, std::uint16_t context) {
  std::string text;
  for (; context != 0; context = kernel.contexts[context].parent) {
    const kernel::AccessContext& one = kernel.contexts[context];
    const kernel::Expr& condition = kernel.exprs[one.condition];
    const std::string plain =
        condition.op == kernel::ExprOp::kData ? "depends on data" : kernel::ExprText(kernel, one.condition);
    const bool as_it_is = one.holds || condition.op == kernel::ExprOp::kData;
    text = fmt::format("{}{}{}", as_it_is ? plain : fmt::format("not ({})", plain), text.empty() ? "" : " and ", text);
  }
  return text;
}

std::string PlaceText(const kernel::KernelAccess& kernel, const kernel::MemoryAccess& one) {
  const kernel::Expr& offset = kernel.exprs[one.offset];
  std::string text =
      offset.op == kernel::ExprOp::kData
          ? std::string("anywhere")
          : fmt::format("{} bytes at {}", kernel::ExprText(kernel, one.bytes), kernel::ExprText(kernel, one.offset));
  if (const std::string condition = ConditionText(kernel, one.context); !condition.empty())
    text += "  where " + condition;
  return text;
}

void PrintKernel(const kernel::KernelAccess& kernel, const std::string& no_part) {
  fmt::print("{}: {}{}\n", Printable(kernel.kernel), kernel::NameOf(kernel.verdict),
             kernel.reason.empty()
                 ? ""
                 : ": " + Printable(kernel.reason) + (kernel.line != 0 ? fmt::format(" (line {})", kernel.line) : ""));
  for (const kernel::MemoryAccess& one : kernel.accesses)
    fmt::print("  {} {:<12} {}\n", one.write ? (one.may ? "may write" : "writes   ") : "reads    ",
               Printable(kernel.arguments[one.argument].name), Printable(PlaceText(kernel, one)));
  if (!no_part.empty()) fmt::print("  no part's kernel: {}\n", Printable(no_part));
}

ordered_json KernelJson(const kernel::KernelAccess& kernel, const std::string& no_part) {
  ordered_json out{{"kernel", kernel.kernel},   {"verdict", kernel::NameOf(kernel.verdict)},
                   {"reason", kernel.reason},   {"line", kernel.line},
                   {"no_part_kernel", no_part}, {"accesses", ordered_json::array()}};
  for (const kernel::MemoryAccess& one : kernel.accesses)
    out["accesses"].push_back({{"argument", kernel.arguments[one.argument].name},
                               {"write", one.write},
                               {"may", one.may},
                               {"bytes", kernel::ExprText(kernel, one.bytes)},
                               {"offset", kernel::ExprText(kernel, one.offset)},
                               {"where", ConditionText(kernel, one.context)},
                               {"line", one.line}});
  return out;
}

/// Returns 1 if a kernel that may be split has no source for parts.
Result<int> PrintPartSource(const kernel::ProgramAnalysis& analysis) {
  std::string text = analysis.part_source;
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == 0x7F || (c >= 0 && c < ' ' && c != '\n'); }, ' ');
  fmt::print("{}", text);
  bool all = true;
  for (const kernel::PartKernel& part : analysis.parts) {
    if (part.why_not.empty()) continue;
    all = false;
    fmt::print(stderr, "weir: no part's kernel of {}: {}\n", Printable(part.kernel), Printable(part.why_not));
  }
  return all ? 0 : kRefusedKernel;
}

Result<int> Analyze(const Session& session, const AnalyzeFlags& flags) {
  std::ifstream file(flags.file, std::ios::binary);
  if (!file) return Fail(Errc::kNotFound, fmt::format("cannot read '{}': {}", flags.file, std::strerror(errno)));
  if (flags.options.size() > kernel::kAnalysisOptionsMax || flags.macros.size() > kernel::kAnalysisMacrosMax)
    return Fail(Errc::kInvalidArgument, fmt::format("more than {} options or macros", kernel::kAnalysisOptionsMax));
  kernel::AnalysisRequest request{.options = flags.options, .macros = flags.macros};
  request.source.assign(std::istreambuf_iterator<char>(file), {});
  if (request.source.find('\0') != std::string::npos || request.source.size() > kernel::kAnalysisBytesMax / 2)
    return Fail(Errc::kInvalidArgument,
                fmt::format("'{}' is not an OpenCL C source, or is larger than 4 MiB", flags.file));
  WEIR_TRY(kernel::ProgramAnalysis analysis, AskAnalyzer(request));
  if (flags.part_source) return PrintPartSource(analysis);
  std::vector<kernel::KernelAccess>& kernels = analysis.kernels;
  std::map<std::string, std::string> no_parts;
  for (const kernel::PartKernel& part : analysis.parts) no_parts[part.kernel] = part.why_not;
  if (!flags.kernel.empty()) {
    std::erase_if(kernels, [&](const auto& one) { return one.kernel != flags.kernel; });
    if (kernels.empty()) return Fail(Errc::kNotFound, fmt::format("'{}' has no kernel '{}'", flags.file, flags.kernel));
  }
  ordered_json out = ordered_json::array();
  bool refused = false;
  for (const kernel::KernelAccess& kernel : kernels) {
    refused = refused || kernel.verdict == kernel::AccessVerdict::kRefuse;
    if (session.json)
      out.push_back(KernelJson(kernel, no_parts[kernel.kernel]));
    else
      PrintKernel(kernel, no_parts[kernel.kernel]);
  }
  if (session.json) fmt::print("{}\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace));
  return refused ? kRefusedKernel : 0;
}

constexpr const char* kAnalyzeExamples =
    "  weir analyze kernels.cl\n"
    "  weir analyze kernels.cl --kernel gemm --option=-DTILE=16\n"
    "  weir analyze kernels.cl --part-source > parts.cl\n"
    "  weir --json analyze kernels.cl\n"
    "\n"
    "Exact, guarded, replicate and refuse are defined in docs/kernel-analysis.md. gid, lid and group are a work-item's "
    "ids,\n"
    "k0, k1, ... rounds of loops; offsets are in bytes.\n"
    "\n"
    "EXIT CODES\n"
    "  0 when every kernel may be split, 1 when at least one is refused; 2 when the source does not compile.\n";

}  // namespace

void AddAnalyze(Command app, Session& session) {
  auto flags = std::make_shared<AnalyzeFlags>();
  const Command command =
      AddCommand(app, "analyze", "Show whether an OpenCL kernel can be split, and what each part needs",
                 kAnalyzeExamples, session);
  command.Add("file", "FILE", flags->file, "OpenCL C").Required();
  command.Add("--option", "OPTION", flags->options, "A build option, as --option=-DN=4; may be repeated");
  command.Add("--macro", "NAME=VALUE", flags->macros,
              "A macro that the device's compiler defines, such as cl_khr_fp64; give all of its extensions or none");
  command.AddFlag("--part-source", flags->part_source, "Print the source of the parts' kernels, and nothing else");
  command.Add("--kernel", "NAME", flags->kernel, "Only this one");
  command.WhenGiven([flags, &session] { session.action = [flags, &session] { return Analyze(session, *flags); }; });
}

}  // namespace weir::cli
