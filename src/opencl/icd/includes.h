// SPDX-License-Identifier: Apache-2.0
// Finds the files that a program includes. They are on the tenant's side, but the compiler runs in the executor.
// Therefore the files are sent along, and the options that locate them are removed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weir::opencl::icd {

struct BuildOptions {
  std::string text;                  // for the compiler: as given, without -I, and with folders in -D made relative
  std::vector<std::string> folders;  // from -I, in order
  std::map<std::string, std::string> folder_macros;  // from -D NAME=/a/folder, as given
  bool arg_info = false;                             // -cl-kernel-arg-info
};
/// Parses options as compilers do: words, with quotes and backslashes.
BuildOptions ReadBuildOptions(std::string_view options);

inline constexpr std::size_t kIncludedBytesMax = 8 << 20;
inline constexpr std::size_t kIncludedFilesMax = 1024;

/// Returns the names, as the compiler will look them up, and the contents of the files that `source` includes, directly
/// or indirectly. A name made by a macro is guessed from the known folder macros; if that finds nothing, all headers of
/// the folders are taken. Missing files are left for the compiler to report.
std::map<std::string, std::string> FindIncludedFiles(std::string_view source, const BuildOptions& options);

/// Returns the source with absolute names in #include lines made relative, as the files are named in the message.
std::string WithRelativeIncludes(std::string_view source);

}  // namespace weir::opencl::icd
