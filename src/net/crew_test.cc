// SPDX-License-Identifier: Apache-2.0
#include "net/crew.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include "platform/call_filter.h"
#include "tests/harness/child.h"

namespace weir::net {
namespace {

/// From now on no thread can be started, as with a limit of processes that is reached.
bool RefuseThreads() {
  using platform::CallFilter;
  CallFilter filter;
  filter.OnCall(SYS_clone, {CallFilter::Return(SECCOMP_RET_ERRNO | EAGAIN)});
  filter.OnCall(SYS_clone3, {CallFilter::Return(SECCOMP_RET_ERRNO | EAGAIN)});
  filter.Add({CallFilter::Return(SECCOMP_RET_ALLOW)});
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && filter.Install();
}

TEST(Crew, GoesOnWhenNoThreadCanBeStarted) {
  EXPECT_EQ(testing::Child([] {
              Crew crew;
              std::atomic<int> done{0};
              if (!crew.Start([&done] { ++done; })) return 1;
              while (crew.Reap() > 0) continue;
              if (!RefuseThreads()) return 2;
              if (crew.Start([&done] { ++done; })) return 3;
              return crew.Reap() == 0 && done == 1 ? 0 : 4;
            }).Wait(),
            0);
}

}  // namespace
}  // namespace weir::net
