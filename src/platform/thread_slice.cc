// SPDX-License-Identifier: Apache-2.0
#include "platform/thread_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace weir::platform {
namespace {

/// The kernel's struct sched_attr in its first version; glibc has it since 2.41.
struct SchedAttributes {
  std::uint32_t size = sizeof(SchedAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;  // of an ordinary thread: its time slice
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(SchedAttributes) == 48);

}  // namespace

bool SetThreadSlice(Duration slice) {
  SchedAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return false;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return false;
  attributes.size = sizeof attributes;
  attributes.runtime_ns = static_cast<std::uint64_t>(slice.count());
  return ::syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

}  // namespace weir::platform
