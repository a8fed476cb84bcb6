// SPDX-License-Identifier: Apache-2.0
// The functions that name pools of memory. The driver does not say of a pool whether it is on a device. So the pools
// that are on the host are noted.
#include <atomic>
#include <mutex>
#include <set>

#include "platform/mutex.h"
#include "shim/cuda/claims.h"
#include "shim/cuda/pools.h"

namespace weir::shim::cuda {
namespace {

using PoolsLock = std::lock_guard<platform::Mutex>;

struct HostPools {
  platform::Mutex mutex;
  std::set<CudaHandle> all;
};
std::atomic<bool> any{false};

constexpr int kPinned = 1;          // CU_MEM_ALLOCATION_TYPE_PINNED
constexpr int kLocationDevice = 1;  // CU_MEM_LOCATION_TYPE_DEVICE

/// The first members of CUmemPoolProps.
struct PoolProperties {
  int type, handle_types, location_type, location;
};
/// CUmemLocation.
struct Location {
  int type, id;
};

/// The program has got the pool. Managed memory may move to a device, so it counts wherever it begins.
void Note(CudaHandle pool, int type, int location_type) {
  const bool on_host = type == kPinned && location_type != kLocationDevice;
  if (!on_host && !any.load(std::memory_order_relaxed)) return;
  Aside([&] {
    HostPools& pools = OfProcess<HostPools>::Get();
    const PoolsLock lock(pools.mutex);
    if (!on_host) return static_cast<void>(pools.all.erase(pool));
    pools.all.insert(pool);
    any.store(true, std::memory_order_relaxed);
  });
}

}  // namespace

bool IsHostPool(CudaHandle pool) {
  bool is = false;
  if (pool == nullptr || !any.load(std::memory_order_relaxed)) return is;
  Aside([&] {
    HostPools& pools = OfProcess<HostPools>::Get();
    const PoolsLock lock(pools.mutex);
    is = pools.all.count(pool) > 0;
  });
  return is;
}

}  // namespace weir::shim::cuda

using namespace weir::shim::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))
// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are the driver's
WEIR_EXPORT CudaResult cuMemPoolCreate(CudaHandle* pool, const void* properties) {
  const CudaResult result = Driver<CudaResult(CudaHandle*, const void*)>(kCall_cuMemPoolCreate)(pool, properties);
  const auto* as = static_cast<const PoolProperties*>(properties);
  if (result == kSuccess) Note(*pool, as->type, as->location_type);
  return result;
}

#define WEIR_GET_POOL(name)                                                                                    \
  WEIR_EXPORT CudaResult name(CudaHandle* pool, void* location, int type) {                                    \
    const CudaResult result = Driver<CudaResult(CudaHandle*, void*, int)>(kCall_##name)(pool, location, type); \
    if (result == kSuccess) Note(*pool, type, static_cast<const Location*>(location)->type);                   \
    return result;                                                                                             \
  }
WEIR_GET_POOL(cuMemGetDefaultMemPool)
WEIR_GET_POOL(cuMemGetMemPool)
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
