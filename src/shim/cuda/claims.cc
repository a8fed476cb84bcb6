// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/claims.h"

namespace weir::shim::cuda {

void Release(std::uint64_t bytes) {
  if (bytes > 0) Hooks()->release_memory(bytes);
}

bool Claim::Take(std::uint64_t bytes) {
  bool granted = true;
  Aside([&] {
    if (bytes == 0 || Hooks() == nullptr) return;
    granted = Hooks()->claim_memory(bytes) != 0;
    if (granted) bytes_ += bytes;
  });
  return granted;
}

void EndContext(CudaHandle context, std::uint64_t before) {
  std::uint64_t bytes = 0;
  for (const Allocations::Block& block : Held().TakeOf(context, before)) bytes += block.bytes;
  Release(bytes);
}

std::uint64_t NextBlock() {
  std::uint64_t next = 0;
  Aside([&] { next = Held().Next(); });
  return next;
}

}  // namespace weir::shim::cuda
