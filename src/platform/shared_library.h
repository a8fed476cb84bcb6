// SPDX-License-Identifier: Apache-2.0
// Finds a shared library without loading it, as the loader of libraries would find it for a program.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::platform {

/// The paths that a loader cache (/etc/ld.so.cache, glibc 2.2 and later) has for a library of 64 bits, in its order.
/// Empty: it has none, or the bytes are no such cache.
std::vector<std::string> PathsInLoaderCache(std::span<const std::byte> cache, std::string_view name);

/// The path of library `name` in `folders` (as in LD_LIBRARY_PATH), the loader's cache or its standard folders. The
/// file `except` is passed over, whichever path leads to it. Returns an empty text if there is no such library.
std::string FindSharedLibrary(std::string_view name, std::string_view folders, const std::string& except);

}  // namespace weir::platform
