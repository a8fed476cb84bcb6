// SPDX-License-Identifier: Apache-2.0
#include "daemon/fd_watch.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <boost/asio/io_context.hpp>

#include "platform/fd.h"

namespace weir::daemon {
namespace {

// For example a listener stays readable while its owner has no descriptors left for connections.
TEST(FdWatch, IsNotCalledWhileItPauses) {
  boost::asio::io_context loop{1};
  const platform::Fd readable(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  int calls = 0;
  std::unique_ptr<FdWatch> watch;
  watch = std::make_unique<FdWatch>(loop, readable.get(), [&] {
    if (++calls == 3) return watch.reset();
    watch->Pause(milliseconds(100));
  });
  loop.run_for(milliseconds(50));
  EXPECT_EQ(calls, 1);
  loop.restart();
  loop.run();  // until the watch is destroyed
  EXPECT_EQ(calls, 3);
}

TEST(FdWatch, CanBeDestroyedWhileItPauses) {
  boost::asio::io_context loop{1};
  const platform::Fd readable(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  int calls = 0;
  std::unique_ptr<FdWatch> watch = nullptr;
  watch = std::make_unique<FdWatch>(loop, readable.get(), [&] {
    ++calls;
    watch->Pause(milliseconds(1));
  });
  loop.run_one();
  watch.reset();
  loop.run();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace weir::daemon
