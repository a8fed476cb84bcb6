// SPDX-License-Identifier: Apache-2.0
// Text of a file in /proc/PID/fdinfo. An accepted client is bounded, and is unchanged after it was written and read
// again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "account/drm_fdinfo.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::account;
  const auto client = ParseFdinfo({reinterpret_cast<const char*>(data), size});
  if (!client) return 0;
  if (client->engines.size() > kFdinfoEnginesMax || client->Sum() < weir::Duration::zero()) std::abort();
  auto again = ParseFdinfo(FdinfoText(*client));
  if (!again) std::abort();
  again->counts_cycles = client->counts_cycles;  // cycles are not written
  if (*again != *client) std::abort();
  return 0;
}
