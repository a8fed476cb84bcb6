// SPDX-License-Identifier: Apache-2.0
// Looks at a program before it is run: can the shim get into it? ld.so does the loading, so what has no ld.so, or one
// that drops LD_PRELOAD, runs unthrottled; the user should hear of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::cli {

/// What an executable's first bytes say.
enum class ImageKind : std::uint8_t {
  kDynamic,  // an ELF program that names an interpreter (ld.so)
  kStatic,   // an ELF program that names none
  kForeign,  // an ELF program of another word size or machine than this one
  kScript,   // "#!": its interpreter loads the shim
  kOther,    // a shell takes it for a script without "#!", or the kernel has a handler for it
};

/// `head`: the file's first bytes. Headers that point outside of it make the kind kOther: such a file won't run anyway.
ImageKind InspectImage(std::string_view head);

/// What decides whether ld.so distrusts the environment (AT_SECURE; kernel: security/commoncap.c,
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
/// Of executing `path` in this process.
Privilege PrivilegeOf(const std::string& path);

struct Program {
  std::string path;     // what will be executed
  std::string caution;  // why the shim won't get into it; empty: it will
};

/// Finds `name` as execvp would and looks at it. Errors: kNotFound, or kPermissionDenied for what can't be executed.
Result<Program> FindProgram(const std::string& name);

/// Pointers into `arguments`, ended by a null pointer, as execv takes them.
std::vector<char*> ArgvOf(std::vector<std::string>& arguments);

}  // namespace weir::cli
