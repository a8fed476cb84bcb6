// SPDX-License-Identifier: Apache-2.0
#include "cli/common/program.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "cli/common/text_units.h"

namespace weir::cli {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
#error "say here which ELF machine this is"
#endif
constexpr std::size_t kElfHeadBytes =
    64 * 1024;  // program headers lie right behind the ELF header in all but crafted files

ImageKind InspectElf(std::string_view head) {
  Elf64_Ehdr header{};
  if (head.size() < EI_NIDENT) return ImageKind::kOther;
  if (head[EI_CLASS] != ELFCLASS64) return ImageKind::kForeign;
  if (head.size() < sizeof(header)) return ImageKind::kOther;
  std::memcpy(&header, head.data(), sizeof(header));
  if (header.e_machine != kMachine) return ImageKind::kForeign;
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > head.size()) return ImageKind::kOther;
  const std::size_t room = (head.size() - header.e_phoff) / sizeof(Elf64_Phdr);
  if (header.e_phnum > room) return ImageKind::kOther;
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    std::memcpy(&segment, head.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_type == PT_INTERP) return ImageKind::kDynamic;
  }
  return ImageKind::kStatic;
}

ImageKind ImageKindOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(kElfHeadBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return InspectImage(head);
}

std::string CautionAbout(const std::string& path, ImageKind kind) {
  if (kind == ImageKind::kStatic) return fmt::format("{} is statically linked: it can't be paced or metered", path);
  if (kind == ImageKind::kForeign)
    return fmt::format("{} is for another word size or machine than weir: it can't be paced or metered", path);
  if (kind != ImageKind::kScript && DropsPreload(PrivilegeOf(path)))  // the bits of a script have no effect
    return fmt::format(
        "{} changes its privileges when it starts (setuid, setgid or file capabilities), so the system loads "
        "no shim into it: it can't be paced or metered",
        path);
  return "";
}

Program ExamineProgram(const std::string& path) {
  const ImageKind kind = ImageKindOf(path);
  return {path, CautionAbout(path, kind), kind == ImageKind::kWindows};
}

/// The errno with which executing `path` would fail; 0: it would not fail.
int ExecuteError(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return errno;
  if (!S_ISREG(file.st_mode)) return EACCES;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

Error CannotRun(const std::string& name, int error) {
  const bool absent = error == ENOENT || error == ENOTDIR;
  if (absent && name.find('/') == std::string::npos)
    return Fail(Errc::kNotFound, fmt::format("cannot run '{}': no such program in $PATH", name));
  return Fail(absent ? Errc::kNotFound : Errc::kPermissionDenied,
              fmt::format("cannot run '{}': {}", name, std::strerror(error)));
}

}  // namespace

ImageKind InspectImage(std::string_view head) {
  if (head.starts_with("#!")) return ImageKind::kScript;
  if (head.starts_with("MZqFpD='")) return ImageKind::kOther;  // a Cosmopolitan program, which is also a shell script
  // A script may begin with MZ, but has no zeros.
  if (head.starts_with("MZ") && head.find('\0') != head.npos) return ImageKind::kWindows;
  return head.starts_with(ELFMAG) ? InspectElf(head) : ImageKind::kOther;
}

std::string WhyNotExecuted(const std::string& name, bool windows, int error) {
  if (windows && error == ENOEXEC) return fmt::format("it is a Windows program; start it as 'wine {}'", name);
  return std::strerror(error);
}

bool DropsPreload(const Privilege& p) {
  const bool setuid = !p.ignored && (p.mode & S_ISUID) != 0;
  const bool setgid = !p.ignored && (p.mode & S_ISGID) != 0 && (p.mode & S_IXGRP) != 0;
  const uid_t new_uid = setuid ? p.file_uid : p.effective_uid;
  const gid_t new_gid = setgid ? p.file_gid : p.effective_gid;
  const bool ids_differ = new_uid != p.caller_uid || new_gid != p.caller_gid;
  return ids_differ || (p.file_capabilities && !p.ignored && p.caller_uid != 0);
}

Privilege PrivilegeOf(const std::string& path) {
  Privilege p;
  p.caller_uid = getuid();
  p.caller_gid = getgid();
  p.effective_uid = geteuid();
  p.effective_gid = getegid();
  struct stat file {};
  if (stat(path.c_str(), &file) == 0) {
    p.mode = file.st_mode;
    p.file_uid = file.st_uid;
    p.file_gid = file.st_gid;
  }
  p.file_capabilities = getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  struct statvfs mount {};
  const bool nosuid = statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0;
  p.ignored = nosuid || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
  return p;
}

std::vector<char*> ArgvOf(std::vector<std::string>& arguments) {
  std::vector<char*> argv(arguments.size() + 1, nullptr);
  std::transform(arguments.begin(), arguments.end(), argv.begin(),
                 [](std::string& argument) { return argument.data(); });
  return argv;
}

Result<Program> FindProgram(const std::string& name) {
  if (name.empty()) return Fail(Errc::kNotFound, "cannot run '': the program's name is empty");
  if (name.find('/') != std::string::npos) {
    if (const int error = ExecuteError(name); error != 0) return CannotRun(name, error);
    return ExamineProgram(name);
  }
  const char* path = std::getenv("PATH");
  int last_error = ENOENT;
  for (const std::string& folder : SplitList(path == nullptr ? "/bin:/usr/bin" : path, ':')) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    const int error = ExecuteError(candidate);
    if (error == 0) return ExamineProgram(candidate);
    if (error == EACCES) last_error = error;  // execvp also continues the search, and reports this error at its end
  }
  return CannotRun(name, last_error);
}

}  // namespace weir::cli
