// SPDX-License-Identifier: Apache-2.0
// CheckModuleImage accepts any bytes without reading beyond them.
#include "modules/module_image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)weir::modules::CheckModuleImage(std::as_bytes(std::span(data, size)));
  return 0;
}
