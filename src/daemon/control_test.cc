// SPDX-License-Identifier: Apache-2.0
// The control API against a real node with real gates, without the HTTP socket in between.
#include "daemon/control.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/prng.h"
#include "platform/clock.h"
#include "platform/files.h"

namespace weir::daemon {
namespace {

using nlohmann::json;

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
    json body;
    [[nodiscard]] std::string code() const { return body.at("error").at("code"); }
    [[nodiscard]] std::string message() const { return body.at("error").at("message"); }
  };
  Answer Ask(const std::string& method, const std::string& path, const std::string& body = "", uid_t uid = 0,
             const std::string& query = "") {
    const HttpReply reply = control_.Handle({method, path, query, body, uid, ::getpid()});
    return {reply.status, json::parse(reply.body)};
  }

  std::string folder_ = NewFolder();
  boost::asio::io_context loop_{1};
  SavedNode saved_;
  int saves_ = 0;
  Node node_{loop_, folder_, {"embedded", "software", {0, 1}}, {}, [this](const SavedNode& saved) {
               saved_ = saved;
               ++saves_;
             }};
  bool stopped_ = false;
  Control control_{node_, {folder_, folder_ + "/state", false, platform::Now(), [this] { stopped_ = true; }}};
};

TEST_F(ControlTest, CreatesShowsChangesAndRemovesAVgpu) {
  Answer made = Ask("POST", "/v1/vgpus", R"({"name":"a","weight":50,"fps":60,"memory_max_bytes":1073741824})");
  ASSERT_EQ(made.status, 201U) << made.body;
  EXPECT_EQ(made.body["settings"]["weight"], 50);
  EXPECT_EQ(made.body["state"], "idle");
  struct stat info {};
  ASSERT_EQ(::stat(made.body["attach"].get<std::string>().c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));

  EXPECT_EQ(Ask("PATCH", "/v1/vgpus/a", R"({"weight":20})").body["settings"]["weight"], 20);
  EXPECT_EQ(Ask("GET", "/v1/vgpus/a").body["settings"]["fps"], 60);  // what isn't named stays
  EXPECT_EQ(Ask("GET", "/v1/vgpus").body["vgpus"].size(), 1U);
  EXPECT_EQ(Ask("DELETE", "/v1/vgpus/a").body["removed"], "a");
  EXPECT_EQ(Ask("GET", "/v1/vgpus/a").status, 404U);
  EXPECT_NE(::stat(made.body["attach"].get<std::string>().c_str(), &info), 0);
}

TEST_F(ControlTest, EveryWrongRequestSaysWhatIsWrong) {
  Ask("POST", "/v1/vgpus", R"({"name":"a"})");
  struct Wrong {
    const char *method, *path, *body, *code, *says;
  };
  for (const Wrong& w :
       {Wrong{"POST", "/v1/vgpus", "{", "invalid-argument", "not JSON"},
        {"POST", "/v1/vgpus", "[1]", "invalid-argument", "expected a JSON object, got array"},
        {"POST", "/v1/vgpus", R"({"name":"a"})", "already-exists", "'a' exists already"},
        {"POST", "/v1/vgpus", R"({"name":"../x"})", "invalid-argument", "can't name a vGPU"},
        {"POST", "/v1/vgpus", R"({"name":"b","wieght":1})", "invalid-argument", "unknown field 'wieght'"},
        {"POST", "/v1/vgpus", R"({"name":"b","weight":"heavy"})", "invalid-argument", "expected a number, got string"},
        {"POST", "/v1/vgpus", R"({"name":"b","weight":0})", "invalid-argument", "outside 1"},
        {"POST", "/v1/vgpus", R"({"name":"b","cap":1e300})", "invalid-argument", "out of range"},
        {"POST", "/v1/vgpus", R"({"name":"b","cap":-1})", "invalid-argument", "out of range"},
        {"POST", "/v1/vgpus", R"({"name":"b","device":"x"})", "not-found", "existing: embedded"},
        {"PATCH", "/v1/vgpus/nobody", "{}", "not-found", "existing: a"},
        {"PUT", "/v1/devices/embedded/policy", R"({"policy":"magic"})", "not-found", "known: none"},
        {"PUT", "/v1/devices/embedded/policy", R"({"policy":"reserve","params":{"period_ms":"x"}})", "invalid-argument",
         "a number"},
        {"PUT", "/v1/devices/x/policy", R"({"policy":"none"})", "not-found", "no device named 'x'"},
        {"GET", "/v1/vgpus/a/frames/x/y/z", "", "not-found", "no GET"},
        {"BREW", "/v1/status", "", "not-found", "no BREW"}}) {
    const Answer answer = Ask(w.method, w.path, w.body);
    EXPECT_GE(answer.status, 400U) << w.path << w.body;
    EXPECT_EQ(answer.code(), w.code) << w.path << w.body;
    EXPECT_NE(answer.message().find(w.says), std::string::npos) << answer.message();
  }
  EXPECT_EQ(Ask("GET", "/v1/vgpus").body["vgpus"].size(), 1U) << "nothing was made by a refused request";
}

TEST_F(ControlTest, OnlyRootMakesVgpusForOthers) {
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"a","owner_uid":0})", 1000).code(), "permission-denied");
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"a"})", 1000).body["owner_uid"], 1000);
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"b","owner_uid":1000})", 0).body["owner_uid"], 1000);
}

TEST_F(ControlTest, SavesEachChangeAndComesBackFromIt) {
  Ask("POST", "/v1/vgpus", R"({"name":"a","weight":7})");
  Ask("PUT", "/v1/devices/embedded/policy", R"({"policy":"reserve","params":{"period_ms":4}})");
  Ask("POST", "/v1/vgpus/a/pause");
  EXPECT_EQ(saves_, 3);
  const SavedNode saved = saved_;
  Ask("DELETE", "/v1/vgpus/a");
  EXPECT_TRUE(saved_.vgpus.empty());

  EXPECT_TRUE(node_.Restore(saved).empty());
  const json a = Ask("GET", "/v1/vgpus/a").body;
  EXPECT_EQ(a["settings"]["weight"], 7);
  EXPECT_EQ(a["state"], "paused");
  const json device = Ask("GET", "/v1/devices").body["devices"][0];
  EXPECT_EQ(device["policy"], "reserve");
  EXPECT_EQ(device["policy_params"]["period_ms"], 4.0);
}

TEST_F(ControlTest, AnEphemeralVgpuOfAProgramThatEndedIsNotRestored) {
  SavedNode saved;
  saved.vgpus.push_back({.id = VgpuId{1},
                         .name = "gone",
                         .device = "embedded",
                         .settings = {},
                         .ephemeral = true,
                         .owner_pid = ::getpid(),
                         .owner_started = 1});
  EXPECT_TRUE(node_.Restore(saved).empty());
  EXPECT_EQ(Ask("GET", "/v1/vgpus").body["vgpus"].size(), 0U);
}

TEST_F(ControlTest, WhatCannotBeRestoredIsNamedAndTheRestIs) {
  SavedNode saved;
  saved.policies.push_back({"embedded", "from-the-future", {}});
  saved.vgpus.push_back({.id = VgpuId{1}, .name = "bad/name", .device = "embedded", .settings = {}});
  saved.vgpus.push_back({.id = VgpuId{2}, .name = "good", .device = "embedded", .settings = {}});
  EXPECT_EQ(node_.Restore(saved).size(), 2U);
  EXPECT_EQ(Ask("GET", "/v1/vgpus/good").status, 200U);
}

TEST_F(ControlTest, MetricsAreWellFormed) {
  Ask("POST", "/v1/vgpus", R"({"name":"a"})");
  const HttpReply reply = control_.Handle({"GET", "/metrics", "", "", 0, 1});
  EXPECT_EQ(reply.status, 200U);
  EXPECT_NE(reply.body.find("weir_vgpu_frames_total{vgpu=\"a\",device=\"embedded\"} 0\n"), std::string::npos);
  std::size_t at = 0, samples = 0;
  while (at < reply.body.size()) {
    const std::size_t end = reply.body.find('\n', at);
    const std::string line = reply.body.substr(at, end - at);
    if (line[0] != '#') {
      ++samples;
      EXPECT_NE(reply.body.find("# TYPE " + line.substr(0, line.find_first_of("{ ")) + " "), std::string::npos) << line;
    }
    at = end + 1;
  }
  EXPECT_GT(samples, 15U);
}

TEST_F(ControlTest, StopIsPassedOn) {
  EXPECT_EQ(Ask("POST", "/v1/shutdown").body["stopping"], true);
  EXPECT_TRUE(stopped_);
}

TEST_F(ControlTest, NoRequestWhateverCrashes) {
  Prng prng(3);
  const std::string seed =
      R"({"name":"a","weight":50,"cap":0.5,"ephemeral":true,"policy":"reserve","params":{"period_ms":1}})";
  for (int i = 0; i < 3000; ++i) {
    std::string body = seed;
    for (int flips = 0; flips < 3; ++flips)
      body[static_cast<std::size_t>(prng.Between(0, static_cast<std::int64_t>(seed.size()) - 1))] =
          static_cast<char>(prng.Next());
    const HttpReply reply = control_.Handle(
        {prng.Next() % 2 ? "POST" : "PATCH", prng.Next() % 2 ? "/v1/vgpus" : "/v1/vgpus/a", "", body, 0, ::getpid()});
    EXPECT_TRUE(reply.status < 500 || reply.status == 507) << body << reply.body;
  }
}

}  // namespace
}  // namespace weir::daemon
