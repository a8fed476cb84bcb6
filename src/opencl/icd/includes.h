// SPDX-License-Identifier: Apache-2.0
// The files that a program includes. They lie with the tenant, the compiler runs elsewhere: so they are found here,
// sent along, and the options that say where they lie are taken out.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weir::opencl::icd {

struct BuildOptions {
  std::string text;                  // for the compiler: as given, less -I, and folders in -D made relative
  std::vector<std::string> folders;  // of -I, in order
  std::map<std::string, std::string> folder_macros;  // -D NAME=/a/folder, as given
  bool arg_info = false;                             // -cl-kernel-arg-info
};
/// Reads options as compilers do: words, with quotes and backslashes.
BuildOptions ReadBuildOptions(std::string_view options);

inline constexpr std::size_t kIncludedBytesMax = 8 << 20;
inline constexpr std::size_t kIncludedFilesMax = 1024;

/// Names, as the compiler will ask for them, and contents: of the files that `source` includes, those that they
/// include, and so on. A name that a macro makes is guessed from what macros for folders are known; where that finds
/// nothing, all headers of the folders are taken. What is not found is left to the compiler to complain about.
std::map<std::string, std::string> FindIncludedFiles(std::string_view source, const BuildOptions& options);

/// The source with absolute names in its #include lines made relative: under those names the files come with it.
std::string WithRelativeIncludes(std::string_view source);

}  // namespace weir::opencl::icd
