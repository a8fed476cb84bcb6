// SPDX-License-Identifier: Apache-2.0
// Claims to the vGPU's memory around the driver's calls that allocate and free. Memory is claimed before the driver is
// asked for it. A claim that the limit refuses fails as the driver's own lack of memory does.
#pragma once

#include <cstdint>
#include <utility>

#include "shim/cuda/allocations.h"
#include "shim/cuda/aside.h"
#include "shim/cuda/of_process.h"
#include "shim/cuda/streams.h"

namespace weir::shim::cuda {

/// What the process holds.
inline Allocations& Held() { return OfProcess<Allocations>::Get(); }

/// Gives back what was claimed.
void Release(std::uint64_t bytes);

/// Memory that a call of the program is going to allocate.
class Claim {
 public:
  explicit Claim(std::uint64_t bytes) { granted_ = Take(bytes); }
  ~Claim() {
    if (bytes_ > 0) Aside([this] { Release(bytes_); });
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  [[nodiscard]] bool granted() const { return granted_; }
  /// Changes the claim to what the driver has taken. False: the limit has no room for it.
  bool Become(std::uint64_t bytes) {
    if (bytes > bytes_) return Take(bytes - bytes_);
    Aside([&] { Release(std::exchange(bytes_, bytes) - bytes); });
    return true;
  }
  /// The driver has allocated: the claim lasts until the block ends. The block's bytes are those of the claim.
  void Keep(Allocations::Block block) {
    if (bytes_ == 0) return;
    Aside([&] {
      block.bytes = bytes_;
      bytes_ = Held().Add(block);
    });
  }
  void KeepPhysical(std::uint64_t handle) {
    if (bytes_ > 0) Aside([&] { bytes_ = Held().AddPhysical(handle, bytes_); });
  }

 private:
  bool Take(std::uint64_t bytes);

  std::uint64_t bytes_ = 0;  // claimed, and held by no block
  bool granted_ = false;
};

/// What a context held, when the driver has ended it. `before`: NextBlock() before the driver was asked to.
void EndContext(CudaHandle context, std::uint64_t before);
std::uint64_t NextBlock();

}  // namespace weir::shim::cuda
