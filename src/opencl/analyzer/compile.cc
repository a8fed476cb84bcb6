// SPDX-License-Identifier: Apache-2.0
#include "opencl/analyzer/compile.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kernel/analysis_frames.h"
#include "platform/fd.h"

namespace weir::opencl {
namespace {

/// Limits of clang's output: bitcode, of which the sandbox allows no more, and preprocessed text.
constexpr std::size_t kOutputMax = std::size_t{64} << 20, kPreprocessedMax = std::size_t{8} << 20;
/// Limit of clang's diagnostics in an error.
constexpr std::size_t kSaidMax = 2000;

/// Creates a memory file, which unlike a pipe never blocks.
Result<platform::Fd> MemoryFile(const char* name, const std::string& content) {
  platform::Fd file(::memfd_create(name, MFD_CLOEXEC));
  if (file.get() < 0) return Fail(Errc::kIo, std::string("making memory for the compiler: ") + std::strerror(errno));
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = ::write(file.get(), content.data() + done, content.size() - done);
    if (n < 0) return Fail(Errc::kIo, std::string("writing the source for the compiler: ") + std::strerror(errno));
    done += static_cast<std::size_t>(n);
  }
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return Fail(Errc::kIo, "rewinding the source for the compiler");
  return file;
}

std::vector<char> ContentOf(int file, std::size_t max) {
  std::vector<char> content;
  const off_t size = ::lseek(file, 0, SEEK_END);
  if (size <= 0) return content;
  content.resize(std::min(max, static_cast<std::size_t>(size)));
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::pread(file, content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  content.resize(done);
  return content;
}

/// Returns clang's output for the source on its standard input.
Result<std::vector<char>> RunClang(std::vector<std::string> arguments, const std::string& source) {
  arguments.insert(arguments.begin(), {WEIR_CLANG, "-cc1", "-triple", "spir64", "-x", "cl", "-w", "-ferror-limit", "3",
                                       "-fno-caret-diagnostics"});
  const bool versioned = std::any_of(arguments.begin(), arguments.end(),
                                     [](const std::string& argument) { return argument.starts_with("-cl-std"); });
  if (!versioned) arguments.emplace_back("-cl-std=CL1.2");
  arguments.insert(arguments.end(), {"-o", "-", "-"});
  WEIR_TRY(const platform::Fd in, MemoryFile("weir-source", source));
  WEIR_TRY(const platform::Fd out, MemoryFile("weir-output", ""));
  WEIR_TRY(const platform::Fd said, MemoryFile("weir-diagnostics", ""));
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  char* no_environment[]{nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in.get(), 0);
  posix_spawn_file_actions_adddup2(&files, out.get(), 1);
  posix_spawn_file_actions_adddup2(&files, said.get(), 2);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, WEIR_CLANG, &files, nullptr, argv.data(), no_environment);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    return Fail(Errc::kUnavailable,
                std::string("starting ") + WEIR_CLANG + ": " + std::strerror(error) + "; install Debian's clang-14");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::vector<char> text = ContentOf(said.get(), kSaidMax);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return Fail(Errc::kInvalidArgument, "the source can't be compiled: " + std::string(text.begin(), text.end()));
  }
  return ContentOf(out.get(), kOutputMax);
}

}  // namespace

Result<std::vector<std::string>> CompilerOptions(const std::vector<std::string>& options) {
  std::vector<std::string> taken;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string& option = options[i];
    const bool defines = option.starts_with("-D") || option.starts_with("-U");
    if (option == "-w" || option == "-Werror" || option == "-cl-opt-disable" || option == "-cl-kernel-arg-info" ||
        option.starts_with("-cl-no-signed") || option.starts_with("-cl-uniform-work"))
      continue;  // these options do not affect accesses
    if ((option == "-D" || option == "-U") && i + 1 < options.size()) {
      taken.push_back(option);
      taken.push_back(options[++i]);
    } else if ((defines && option.size() > 2) || option.starts_with("-cl-")) {
      taken.push_back(option);
    } else {
      return Fail(Errc::kInvalidArgument,
                  "the build option '" + option + "' can't be analysed: -D, -U and -cl-... can");
    }
  }
  return taken;
}

std::vector<std::string> LanguageOptions(const std::vector<std::string>& options) {
  std::vector<std::string> taken;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i] == "-D" || options[i] == "-U")
      ++i;
    else if (!options[i].starts_with("-D") && !options[i].starts_with("-U"))
      taken.push_back(options[i]);
  }
  return taken;
}

Result<std::string> Preprocess(const std::vector<std::string>& options, const std::vector<std::string>& macros,
                               const std::string& source) {
  WEIR_TRY(const std::vector<std::string> given, CompilerOptions(options));
  std::vector<std::string> arguments{"-E", "-undef"};
  for (const std::string& macro : macros) arguments.push_back("-D" + macro);
  arguments.insert(arguments.end(), given.begin(), given.end());
  WEIR_TRY(const std::vector<char> text, RunClang(std::move(arguments), source));
  if (text.size() > kPreprocessedMax)
    return Fail(Errc::kInvalidArgument, "the source is larger than 8 MiB after macro expansion: it can't be analysed");
  return std::string(text.begin(), text.end());
}

Result<std::vector<char>> CompileToBitcode(const std::vector<std::string>& options, const std::string& source) {
  WEIR_TRY(const std::vector<std::string> given, CompilerOptions(options));
  std::vector<std::string> arguments{"-finclude-default-header", "-fdeclare-opencl-builtins",         "-O1",
                                     "-disable-llvm-passes",     "-debug-info-kind=line-tables-only", "-emit-llvm-bc"};
  arguments.insert(arguments.end(), given.begin(), given.end());
  return RunClang(std::move(arguments), source);
}

}  // namespace weir::opencl
