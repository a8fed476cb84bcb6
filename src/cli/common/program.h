// SPDX-License-Identifier: Apache-2.0
// Examines a program before it runs: can the shim be loaded into it? ld.so loads the shim, so a program without ld.so,
// or whose ld.so ignores LD_PRELOAD, runs unthrottled. The user is warned of this.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::cli {

/// The kind of an executable, according to its first bytes.
enum class ImageKind : std::uint8_t {
  kDynamic,  // an ELF program that names an interpreter (ld.so)
  kStatic,   // an ELF program that names no interpreter
  kForeign,  // an ELF program of another word size or machine than this one
  kScript,   // "#!": its interpreter loads the shim
  kWindows,  // "MZ", and zeros: the kernel executes it only where Wine is registered for such files
  kOther,    // a script without "#!", which a shell runs, or a format for which the kernel has a handler
};

/// `head`: the file's first bytes. If headers point outside of it, the kind is kOther; such a file cannot run anyway.
ImageKind InspectImage(std::string_view head);

/// The facts that decide whether ld.so ignores LD_PRELOAD (AT_SECURE; in the kernel: security/commoncap.c,
/// cap_bprm_creds_from_file).
struct Privilege {
  uid_t caller_uid = 0, caller_gid = 0;  // real ids
  uid_t effective_uid = 0, effective_gid = 0;
  mode_t mode = 0;
  uid_t file_uid = 0, file_gid = 0;
  bool file_capabilities = false;
  bool ignored = false;  // a nosuid mount, or no_new_privs: the file's bits have no effect
};
bool DropsPreload(const Privilege& privilege);
/// The facts for executing `path` in this process.
Privilege PrivilegeOf(const std::string& path);

struct Program {
  std::string path;     // the file to execute
  std::string caution;  // why the shim cannot be loaded into the program; empty: it can
  bool windows = false;
};

/// Finds `name` as execvp would and examines it. Errors: kNotFound; kPermissionDenied: the file cannot be executed.
Result<Program> FindProgram(const std::string& name);

/// Why executing the program `name` failed with this errno. `windows`: Program::windows.
std::string WhyNotExecuted(const std::string& name, bool windows, int error);

/// Pointers into `arguments`, ended by a null pointer, as execv takes them.
std::vector<char*> ArgvOf(std::vector<std::string>& arguments);

}  // namespace weir::cli
