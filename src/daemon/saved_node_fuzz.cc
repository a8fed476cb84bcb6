// SPDX-License-Identifier: Apache-2.0
// FromText accepts any bytes without crashing, and a node that it returns is unchanged after it was written and read
// again. Each input is tried as it is and with a correct checksum, which mutated inputs seldom have.
#include <cstdlib>

#include "base/crc32c.h"
#include "daemon/saved_node.h"

namespace {

void Check(const std::string& text) {
  using namespace weir::daemon;
  const auto first = FromText(text);
  if (!first) return;
  const std::string once = ToText(*first);
  const auto second = FromText(once);
  if (!second || ToText(*second) != once) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Check(text);
  const std::string field = "\"crc32c\": \"";
  const std::size_t at = text.find(field);
  if (at == std::string::npos || text.size() - at < field.size() + weir::kCrc32cDigits) return 0;
  std::string mended = text;
  mended.replace(at + field.size(), weir::kCrc32cDigits, weir::kCrc32cDigits, '0');
  mended.replace(at + field.size(), weir::kCrc32cDigits, weir::Crc32cText(weir::Crc32c(mended)));
  Check(mended);
  return 0;
}
