// SPDX-License-Identifier: Apache-2.0
// For tests of the control API: a real node with real gates, called without HTTP.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/control.h"
#include "platform/clock.h"

namespace weir::daemon {

class ControlTest : public ::testing::Test {
 protected:
  static std::string NewFolder() {
    char folder[] = "/tmp/weir-control-XXXXXX";
    std::string made = ::mkdtemp(folder);
    std::filesystem::create_directory(made + "/vgpu");
    std::filesystem::create_directory(made + "/opencl");
    return made;
  }
  ~ControlTest() override { std::filesystem::remove_all(folder_); }

  struct Answer {
    unsigned status;
    nlohmann::json body;
    [[nodiscard]] std::string code() const { return body.at("error").at("code"); }
    [[nodiscard]] std::string message() const { return body.at("error").at("message"); }
  };
  Answer Ask(const std::string& method, const std::string& path, const std::string& body = "", uid_t uid = 0,
             const std::string& query = "") {
    const http::Reply reply = control_.Handle({method, path, query, body, "", uid, ::getpid()});
    return {reply.status, nlohmann::json::parse(reply.body)};
  }

  std::string folder_ = NewFolder();
  boost::asio::io_context loop_{1};
  SavedNode saved_;
  int saves_ = 0;
  Node node_{
      loop_, folder_, {{.spec = {"embedded", "software", {0, 1}}, .executors = {}}}, [this](const SavedNode& saved) {
        saved_ = saved;
        ++saves_;
      }};
  bool stopped_ = false;
  Control control_{node_, {folder_, folder_ + "/state", false, platform::Now(), [this] { stopped_ = true; }}};
};

}  // namespace weir::daemon
