// SPDX-License-Identifier: Apache-2.0
// A loader cache, as ldconfig writes it. For any bytes, each path that is found is absolute and ends, and there are no
// more paths than entries that the bytes have room for.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "platform/shared_library.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto paths = weir::platform::PathsInLoaderCache(std::as_bytes(std::span(data, size)), "libx.so.1");
  if (paths.size() > size / 24) std::abort();
  for (const std::string& path : paths)
    if (!path.starts_with('/') || path.size() >= size) std::abort();
  return 0;
}
