// SPDX-License-Identifier: Apache-2.0
#include "modules/host_process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>

#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::modules {
namespace {

using weir::testing::TempFolder;
using weir::testing::WaitUntil;

constexpr int kFrames = 100;

/// The command line of a host that sends kFrames frames, makes the file `sent` and goes on with `then`.
std::vector<std::string> HostThatSends(const std::string& sent, const std::string& then) {
  std::string frame;
  for (const std::byte byte : EncodeFrame(DeviceLostFrame{"gone"}))
    frame += fmt::format("\\{:03o}", std::to_integer<unsigned>(byte));
  return {"/bin/sh", "-c",
          fmt::format("i=0; while [ $i -lt {} ]; do printf '{}' >&$2; i=$((i + 1)); done; : > {}; {}", kFrames, frame,
                      sent, then),
          "host"};
}

class HostProcessTest : public ::testing::Test {
 protected:
  /// Starts the host, whose frames are then in its socket.
  void Start(const std::string& then) {
    auto host =
        HostProcess::Start(loop_, HostThatSends(folder_ / "sent", then), {.files = HostProcess::Files::kOfItsDriver},
                           {.frame =
                                [this](const HostFrame&, const std::vector<platform::Fd>&) {
                                  if (frames_++ == 0)
                                    boost::asio::post(loop_, [this] { before_other_work_ = frames_; });
                                },
                            .ended = [this](const std::string&) { has_ended_ = true; }});
    ASSERT_TRUE(host) << host.error().message;
    host_ = std::move(*host);
    ASSERT_TRUE(WaitUntil([this] { return std::filesystem::exists(folder_ / "sent"); }));
  }
  bool RunUntil(const std::function<bool()>& condition) {
    return WaitUntil([&] {
      loop_.restart();
      loop_.poll_one();
      return condition();
    });
  }

  const TempFolder folder_;
  boost::asio::io_context loop_{1};
  int frames_ = 0, before_other_work_ = 0;
  bool has_ended_ = false;
  std::unique_ptr<HostProcess> host_;
};

TEST_F(HostProcessTest, AHostThatSendsALotDoesNotHoldTheLoop) {
  Start("exec sleep 600");
  ASSERT_TRUE(RunUntil([this] { return frames_ == kFrames; })) << frames_;
  EXPECT_GT(before_other_work_, 0);
  EXPECT_LT(before_other_work_, kFrames);
}

TEST_F(HostProcessTest, WhatAHostSentBeforeItsEndIsHandled) {
  Start("exit 0");
  ASSERT_TRUE(RunUntil([this] { return has_ended_; }));
  EXPECT_EQ(frames_, kFrames);
}

}  // namespace
}  // namespace weir::modules
