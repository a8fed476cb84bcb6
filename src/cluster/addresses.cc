// SPDX-License-Identifier: Apache-2.0
#include "cluster/addresses.h"

#include <algorithm>

namespace weir::cluster {

Result<std::vector<Address>> ParseAddresses(const std::string& text) {
  std::vector<Address> all;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    WEIR_TRY(Address address, ParseAddress(text.substr(begin, end - begin)));
    all.push_back(std::move(address));
    begin = end + 1;
  }
  return all;
}

}  // namespace weir::cluster
