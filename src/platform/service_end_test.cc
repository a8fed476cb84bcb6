// SPDX-License-Identifier: Apache-2.0
#include "platform/service_end.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>

#include "platform/unix_socket.h"
#include "tests/harness/child.h"

namespace weir::platform {
namespace {

using weir::testing::Child;

constexpr int kPatienceMs = 20'000;

// Each body runs in a child, because the signals stay blocked. Its exit status is 0 if all conditions hold.

TEST(ServiceEnd, ASignalMakesStopReadable) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Child child([signal] {
      const auto end = ServiceEnd::Watch();
      if (!end || end->parent || end->Wait(Duration{0}) || WaitReadable(end->stop.get(), 0)) return 1;
      ::raise(signal);
      return WaitReadable(end->stop.get(), 0) && end->Wait(std::chrono::hours(1)) ? 0 : 2;
    });
    EXPECT_EQ(child.Wait(), 0) << signal;
  }
}

TEST(ServiceEnd, TheEndOfTheParentIsSeen) {
  Child parent([] { return ::pause(); });
  Child child([pid = parent.pid()] {
    const auto end = ServiceEnd::Watch(pid);
    if (!end || end->Wait(milliseconds(1))) return 1;
    ::kill(pid, SIGKILL);
    return end->Wait(milliseconds(kPatienceMs)) && !WaitReadable(end->stop.get(), 0) &&
                   WaitReadable(end->parent.get(), 0)
               ? 0
               : 2;
  });
  EXPECT_EQ(child.Wait(), 0);
}

TEST(WatchParent, IsReadableForAProcessThatHasEndedBefore) {
  Child parent([] { return 0; });
  const pid_t pid = parent.pid();
  parent.Wait();
  const auto watch = WatchParent(pid);
  ASSERT_TRUE(watch) << watch.error().message;
  EXPECT_TRUE(WaitReadable(watch->get(), 0));
}

TEST(WatchParent, WatchesNothingWithoutAParent) {
  const auto watch = WatchParent(0);
  ASSERT_TRUE(watch);
  EXPECT_FALSE(*watch);
}

/// A child that cleans up by writing to a pipe.
class EndingChild {
 public:
  explicit EndingChild(pid_t parent) {
    WEIR_CHECK(::pipe(ends_) == 0);
    child_.emplace([this, parent] {
      if (!ExitAtServiceEnd(parent, [this] { static_cast<void>(::write(ends_[1], "end", 3) == 3); })) return 1;
      static_cast<void>(::write(ends_[1], "up", 2) == 2);
      for (;;) ::pause();
      return 2;
    });
  }
  ~EndingChild() {
    for (const int end : ends_) ::close(end);
  }
  std::string Read() {
    char text[8] = {};
    return WaitReadable(ends_[0], kPatienceMs) && ::read(ends_[0], text, sizeof text - 1) > 0 ? text : "";
  }
  Child& operator*() { return *child_; }

 private:
  int ends_[2] = {-1, -1};
  std::optional<Child> child_;
};

TEST(ExitAtServiceEnd, EndsAProgramThatWaitsElsewhere) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EndingChild child(0);
    ASSERT_EQ(child.Read(), "up");
    ::kill((*child).pid(), signal);
    EXPECT_EQ(child.Read(), "end");
    EXPECT_EQ((*child).Wait(), 0) << signal;
  }
}

TEST(ExitAtServiceEnd, EndsWithTheParent) {
  Child parent([] { return ::pause(); });
  EndingChild child(parent.pid());
  ASSERT_EQ(child.Read(), "up");
  parent.Kill();
  EXPECT_EQ(child.Read(), "end");
  EXPECT_EQ((*child).Wait(), 0);
}

}  // namespace
}  // namespace weir::platform
