// SPDX-License-Identifier: Apache-2.0
// The parts of a manager, and a manager on a real loop with real sockets. Clusters of processes are tested in
// tests/e2e/cluster_e2e.py.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "cluster/addresses.h"
#include "cluster/cluster_json.h"
#include "cluster/manager.h"
#include "cluster/memory_store.h"
#include "http/client.h"
#include "http/json_api.h"
#include "modules/sha256.h"
#include "platform/clock.h"

namespace weir::cluster {
namespace {

using nlohmann::json;

class ClusterFolder : public ::testing::Test {
 protected:
  ClusterFolder() {
    std::string pattern = ::testing::TempDir() + "weir-cluster-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ClusterFolder() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string Path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};
using StateJournal = ClusterFolder;

Change Set(const std::string& key, const std::string& value) { return {key, value}; }

TEST(Addresses, AreHostAndPort) {
  EXPECT_EQ(ParseAddress("gpu1:7710")->Text(), "gpu1:7710");
  EXPECT_EQ(ParseAddress("[::1]:7710")->host, "::1");
  for (const char* bad : {"", "gpu1", ":1", "gpu1:", "gpu1:x", "gpu1:70000", "::1:5", "[]:5"})
    EXPECT_EQ(ParseAddress(bad).error().code, Errc::kInvalidArgument) << bad;
  EXPECT_EQ(ParseAddresses("a:1,b:2")->size(), 2U);
  EXPECT_FALSE(ParseAddresses("a:1,"));
  EXPECT_TRUE(IsLoopback("127.0.0.2"));
  EXPECT_FALSE(IsLoopback("0.0.0.0"));
}

TEST(ClusterJson, AnAttemptKeepsItsNumber) {
  EXPECT_EQ(AttemptOf(json::parse(R"({"number": 7, "attempt": 4294967295})")).value().attempt, 4'294'967'295U);
  // Truncated to 32 bits this would be attempt 1, whose result counts.
  const auto attempt = AttemptOf(json::parse(R"({"number": 7, "attempt": 4294967297})"));
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().code, Errc::kInvalidArgument);
}

TEST(ClusterJson, ARunsNeedIsTheSameAfterItWasWritten) {
  engine::RunRequest request{.module = "m", .blob = "b", .kernel = "k"};
  request.need_alone = true;
  request.need.alone_ms = 2'007;  // 2.007 * 1e3 is more than 2007
  EXPECT_EQ(RequestOf(json::parse(JsonOf(request).dump())).value().need.alone_ms, 2'007U);
}

TEST(SecretToken, IsComparedAsAWhole) {
  EXPECT_TRUE(SameToken("abc", "abc"));
  EXPECT_FALSE(SameToken("abd", "abc"));
  EXPECT_FALSE(SameToken("abcabc", "abc"));
  EXPECT_FALSE(SameToken("", "abc"));
}

TEST_F(StateJournal, OutlivesItsProcess) {
  const std::string path = Path("state");
  std::uint64_t fence = 0;
  {
    const auto store = MemoryStore::Open(path).value();
    const Lead lead = store->TakeLead("a:1", {}).value();
    fence = lead.fence;
    ASSERT_TRUE(store->Write(lead, std::vector{Set("k1", "v1"), Set("k2", "v2")}));
    ASSERT_TRUE(store->Write(lead, std::vector{Set("k1", "v3"), Change{"k2", {}}, Set("k3", "\xFF\n")}));
    EXPECT_EQ(MemoryStore::Open(path).error().code, Errc::kBusy) << "one manager has it";
  }
  std::ofstream(path, std::ios::app) << R"({"fence":9,"set":{"k1":"torn)";
  const auto store = MemoryStore::Open(path).value();
  const auto entries = store->Read().value();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].value, "v3");
  EXPECT_EQ(entries[1].key, "k3");
  EXPECT_GT(store->TakeLead("a:1", {})->fence, fence) << "numbers of runs begin with it";
}

TEST_F(StateJournal, NamesTheMalformedLine) {
  const std::string path = Path("state");
  std::ofstream(path) << "{\"fence\":1}\nnonsense\n{\"fence\":2}\n";
  const auto store = MemoryStore::Open(path);
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find("line 2"), std::string::npos) << store.error().message;
}

TEST(MemoryState, AFormerLeaderCannotWrite) {
  MemoryStore store;
  const Lead first = store.TakeLead("a:1", {}).value();
  EXPECT_EQ(store.TakeLead("b:1", {}).error().code, Errc::kBusy);
  const auto leader = store.WhoLeads().value();
  EXPECT_EQ(leader->holder, "a:1");
  const Lead second = store.TakeLead("b:1", leader).value();
  EXPECT_EQ(store.TakeLead("c:1", leader).error().code, Errc::kBusy) << "another manager did";
  EXPECT_EQ(store.Write(first, std::vector{Set("k", "v")}).error().code, Errc::kBusy);
  EXPECT_EQ(store.KeepLead(first).error().code, Errc::kNotFound);
  store.GiveUpLead(first);
  EXPECT_TRUE(store.KeepLead(second));
  EXPECT_TRUE(store.Read()->empty());
}

TEST_F(StateJournal, TheNextFenceIsBeyondAllWrites) {
  constexpr std::uint64_t kWrites = 5;
  std::uint64_t fence = 0;
  {
    const auto store = MemoryStore::Open(Path("state")).value();
    const Lead lead = store->TakeLead("a:1", {}).value();
    fence = lead.fence;
    for (std::uint64_t i = 0; i < kWrites; ++i) ASSERT_TRUE(store->Write(lead, std::vector{Set("k", "v")}));
    EXPECT_TRUE(store->KeepLead(lead)) << "its fence stays";
  }
  EXPECT_GT(MemoryStore::Open(Path("state")).value()->TakeLead("a:1", {})->fence, fence + kWrites);
}

TEST(ClusterJson, RecordsComeBackAsTheyWere) {
  engine::ClusterRun run{
      .id = "r", .number = 7, .attempt = 2, .state = engine::RunState::kFailed, .node = "n", .device = "d"};
  run.request = {.module = "m",
                 .blob = std::string(64, 'a'),
                 .kernel = "k",
                 .arguments = "n=1",
                 .input = std::string(64, 'b'),
                 .need = {MiB(3), {1, 2, 3, 4}, 1'500},
                 .need_alone = true,
                 .seconds_max = 2.5};
  run.result = {.failed = true,
                .text = "half",
                .error_code = "timeout",
                .error_message = "too long",
                .seconds = 2.5,
                .ran_beside = 0.5};
  engine::ClusterRun waiting{.id = "w", .number = 8};
  waiting.request = {.module = "m", .blob = std::string(64, 'a'), .kernel = "k"};
  const engine::ClusterNode node{.name = "n", .identity = "i", .devices = {{"d", {MiB(9), 3, {5, 6, 7, 8}}}}};
  const engine::ClusterModule module{
      .name = "m", .blob = std::string(64, 'a'), .kernels = {{"k", "does", {MiB(1), {1, 2, 3, 4}, 5}}}};
  using Kind = engine::RecordWrite::Kind;
  std::vector<Entry> entries;
  for (const engine::RecordWrite& write :
       {engine::RecordWrite{1, Kind::kRun, "r", run}, engine::RecordWrite{2, Kind::kRun, "w", waiting},
        engine::RecordWrite{3, Kind::kNode, "n", node}, engine::RecordWrite{4, Kind::kModule, "m", module}}) {
    const Change change = ChangeOf(write);
    entries.push_back({change.key, *change.value});
  }
  EXPECT_EQ(entries[0].key, "weir/record/run/r");
  const auto records = RecordsOf(entries);
  ASSERT_TRUE(records) << records.error().message;
  EXPECT_EQ(records->runs, (std::vector{run, waiting}));
  EXPECT_EQ(records->nodes, std::vector{node});
  EXPECT_EQ(records->modules, std::vector{module});
  EXPECT_FALSE(ChangeOf({5, Kind::kRun, "r", {}}).value);
  for (const char* bad : {"{", "[]", "{}", R"({"number":1,"state":"sleeping"})", R"({"number":"1","state":"done"})"})
    EXPECT_EQ(RecordsOf({{"weir/record/run/r", bad}}).error().code, Errc::kProtocol) << bad;
  EXPECT_EQ(RecordsOf({{"weir/record/other/r", "{}"}}).error().code, Errc::kProtocol);
}

TEST(ClusterJson, NamesTheFieldThatIsWrong) {
  const auto message = [](const char* body) {
    const auto request = RequestOf(json::parse(body));
    return request ? std::string() : request.error().message;
  };
  EXPECT_EQ(message(R"({"module":1})"), "field 'module': expected a string, got number");
  EXPECT_EQ(message(R"({"colour":1})"),
            "unknown field 'colour'; known: module, blob, kernel, arguments, input, device, need, seconds_max");
  EXPECT_EQ(message(R"({"need":{"threads":-1}})"), "field 'threads': expected a whole number, not negative, got -1");
  EXPECT_EQ(message(R"({"need":{"alone_s":0}})"), "field 'alone_s': expected a number over 0 and at most 16777, got 0");
  EXPECT_EQ(message(R"({"seconds_max":"1"})"), "field 'seconds_max': expected a number, got string");
  EXPECT_NE(message(R"({"device":"gpu0"})").find("the manager chooses"), std::string::npos);
}

/// A manager in a separate thread.
class ManagerThread {
 public:
  ManagerThread(StateStore& store, const std::string& folder, std::string token = "")
      : thread_([this, &store, folder, token] {
          boost::asio::io_context loop(1);
          Manager* manager = nullptr;
          const auto server = http::Server::ListenTcp(loop, "127.0.0.1", 0, {},
                                                      [&manager](const http::Request& request, http::Respond respond) {
                                                        manager->Handle(request, std::move(respond));
                                                      });
          Manager made(loop, store, modules::ModuleStore::Open(folder).value(),
                       {.self = "127.0.0.1:" + std::to_string((*server)->port()),
                        .placement = "spread",
                        .token = token,
                        .quiet = true},
                       [](const Error& error) { ADD_FAILURE() << error.message; });
          manager = &made;
          loop_ = &loop;
          port_.set_value((*server)->port());
          loop.run();
        }) {
    at_ = port_.get_future().get();
  }
  ~ManagerThread() { End(); }
  void End() {
    if (!thread_.joinable()) return;
    loop_->stop();
    thread_.join();
  }
  http::Answer Ask(const std::string& method, const std::string& target, const json& body = {},
                   std::string token = "") const {
    auto answer = http::AskTcp(
        "127.0.0.1", at_,
        {.method = method, .target = target, .body = body.is_null() ? "" : body.dump(), .bearer = std::move(token)},
        seconds(10));
    return answer ? *answer : http::Answer{.status = 0, .body = answer.error().message};
  }
  json Get(const std::string& target) const { return json::parse(Ask("GET", target).body); }
  bool WaitUntilItLeads() const {
    for (const Instant until = platform::Now() + seconds(20); platform::Now() < until;) {
      if (Get("/v1/cluster")["leads"] == true) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }

 private:
  std::promise<std::uint16_t> port_;
  boost::asio::io_context* loop_ = nullptr;
  std::uint16_t at_ = 0;
  std::thread thread_;
};

class ManagerApi : public ClusterFolder {
 protected:
  static json Device() { return {{"name", "d0"}, {"memory_bytes", 1'000}, {"concurrent_max", 2}}; }
  static json Run(const std::string& arguments) {
    return {{"module", "m"}, {"blob", std::string(64, 'a')}, {"kernel", "k"}, {"arguments", arguments}};
  }
  static std::uint64_t SayHello(const ManagerThread& manager, const json& runs = json::array(),
                                const std::string& name = "n1") {
    const auto answer = manager.Ask("POST", "/v1/members/" + name + "/hello",
                                    {{"identity", "i"}, {"devices", {Device()}}, {"runs", runs}});
    EXPECT_EQ(answer.status, 200U) << answer.body;
    return json::parse(answer.body)["session"];
  }
  static json TakeWork(const ManagerThread& manager, std::uint64_t session) {
    return manager.Get("/v1/members/n1/work?wait_ms=500&session=" + std::to_string(session));
  }
};

TEST_F(ManagerApi, ARunGoesToANodeAndItsResultComesBack) {
  MemoryStore store;
  const ManagerThread manager(store, Path("blobs"));
  ASSERT_TRUE(manager.WaitUntilItLeads());
  EXPECT_EQ(manager.Ask("PUT", "/v1/runs/r1", Run("x")).status, 202U);
  EXPECT_EQ(manager.Get("/v1/runs/r1")["state"], "waiting");
  const std::uint64_t session = SayHello(manager);
  const json work = TakeWork(manager, session);
  ASSERT_EQ(work["start"].size(), 1U) << work;
  EXPECT_EQ(work["start"][0]["run"]["arguments"], "x");
  EXPECT_EQ(work["start"][0]["run"]["device"], "d0");
  std::thread waits([&] {
    const json run = manager.Get("/v1/runs/r1?wait_ms=20000");
    EXPECT_EQ(run["state"], "done");
    EXPECT_EQ(run["text"], "42");
    EXPECT_EQ(run["node"], "n1");
  });
  json result{
      {"number", work["start"][0]["number"]}, {"attempt", 1}, {"state", "done"}, {"text", "42"}, {"seconds", 0.1}};
  const auto answer = manager.Ask("POST", "/v1/members/n1/results", {{"session", session}, {"results", {result}}});
  EXPECT_EQ(json::parse(answer.body)["taken"].size(), 1U) << answer.body;
  waits.join();
  EXPECT_EQ(manager.Ask("PUT", "/v1/runs/r1", Run("x")).status, 202U);
  EXPECT_EQ(manager.Ask("PUT", "/v1/runs/r1", Run("y")).status, 409U);
  EXPECT_EQ(manager.Ask("DELETE", "/v1/runs/r1").status, 200U);
  EXPECT_EQ(manager.Ask("GET", "/v1/runs/r1?wait_ms=1000").status, 404U);
  EXPECT_EQ(manager.Get("/v1/nodes")["nodes"][0]["state"], "up");
  EXPECT_NE(manager.Ask("GET", "/metrics").body.find("weir_cluster_leads 1"), std::string::npos);
}

TEST_F(ManagerApi, NodesLearnOffersOfOtherNodes) {
  MemoryStore store;
  const ManagerThread manager(store, Path("blobs"));
  ASSERT_TRUE(manager.WaitUntilItLeads());
  const std::uint64_t first = SayHello(manager), second = SayHello(manager, json::array(), "n2");
  const json offer{{"vgpu", "parts"}, {"address", "gpu2:7700"}, {"plain", false},       {"device", "d"},
                   {"driver", "1"},   {"room_bytes", 1 << 20},  {"threads", 1ULL << 33}};
  const auto say = [&](const std::string& node, const json& body) {
    return manager.Ask("POST", "/v1/members/" + node + "/parts", body);
  };
  const json from_first{{"session", first}, {"device", "d"}, {"driver", "1"}};
  EXPECT_EQ(json::parse(say("n1", from_first).body)["nodes"], json::array());
  const auto alone = say("n2", {{"session", second}, {"device", "d"}, {"driver", "1"}, {"offer", offer}});
  EXPECT_EQ(json::parse(alone.body)["nodes"], json::array()) << "its own is not told to it";
  json expected = offer;
  expected["node"] = "n2";
  EXPECT_EQ(json::parse(say("n1", from_first).body)["nodes"], json::array({expected}));
  EXPECT_EQ(manager.Get("/v1/nodes")["nodes"][1]["parts"], offer);
  EXPECT_FALSE(manager.Get("/v1/nodes")["nodes"][0].contains("parts"));
  json wrong = from_first;
  wrong["session"] = first + 17;
  EXPECT_EQ(say("n1", wrong).status, 404U);
  wrong["session"] = "1";
  EXPECT_EQ(say("n1", wrong).status, 400U);
  wrong = from_first;
  wrong["offer"] = {{"vgpu", "parts"}, {"room_bytes", -1}};
  EXPECT_EQ(say("n1", wrong).status, 400U);
  wrong["offer"] = 7;
  EXPECT_EQ(say("n1", wrong).status, 400U);
}

TEST_F(ManagerApi, RefusesInWords) {
  MemoryStore store;
  const ManagerThread manager(store, Path("blobs"));
  ASSERT_TRUE(manager.WaitUntilItLeads());
  const auto status = [&](const char* method, const std::string& target, const json& body = {}) {
    return manager.Ask(method, target, body).status;
  };
  EXPECT_EQ(status("GET", "/nothing"), 404U);
  EXPECT_EQ(status("PUT", "/v1/runs/r"), 400U);
  EXPECT_EQ(status("PUT", "/v1/runs/r", {{"module", "none"}, {"kernel", "k"}}), 404U);
  EXPECT_EQ(status("GET", "/v1/runs/r?wait_ms=soon"), 400U);
  EXPECT_EQ(status("GET", "/v1/runs/r/explain"), 404U);
  EXPECT_EQ(status("PUT", "/v1/modules/m", {{"blob", "abc"}}), 400U);
  EXPECT_EQ(status("PUT", "/v1/modules/m", {{"blob", std::string(64, 'a')}}), 404U);
  EXPECT_EQ(status("GET", "/v1/members/n1/work?session=1"), 404U);
  EXPECT_EQ(status("POST", "/v1/members/n1/hello", {{"identity", "i"}, {"devices", 3}}), 400U);
  EXPECT_EQ(status("POST", "/v1/members/n1/results", json::object()), 400U);
  const std::string no_module = "just text";
  const auto blob = modules::ModuleStore::Open(Path("blobs"))->Put(no_module).value().blob;
  const auto answer = manager.Ask("PUT", "/v1/modules/m", {{"blob", blob}});
  EXPECT_EQ(answer.status, 400U);
}

TEST_F(ManagerApi, WantsItsToken) {
  MemoryStore store;
  const ManagerThread manager(store, Path("blobs"), "0123456789abcdef");
  EXPECT_EQ(manager.Ask("GET", "/v1/cluster").status, 403U);
  EXPECT_EQ(manager.Ask("GET", "/v1/cluster", {}, "0123456789abcdeg").status, 403U);
  EXPECT_EQ(manager.Ask("GET", "/v1/cluster", {}, "0123456789abcdef").status, 200U);
  EXPECT_EQ(manager.Ask("GET", "/v1/alive").status, 200U) << "for other managers, and says nothing";
}

TEST_F(ManagerApi, AnswersWhileABlobIsReadFromASlowDisk) {
  MemoryStore store;
  const ManagerThread manager(store, Path("blobs"));
  const std::string content = "what the pipe brings", blob = modules::Sha256Of(content);
  const std::string pipe = Path("blobs") + "/" + blob;  // reading it blocks until the test writes
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  auto got = std::async(std::launch::async, [&] { return manager.Ask("GET", "/v1/blobs/" + blob); });
  std::ofstream end(pipe);  // opening blocks until the manager reads
  EXPECT_EQ(manager.Ask("GET", "/v1/cluster").status, 200U);
  end << content;
  end.close();
  EXPECT_EQ(got.get().body, content);
}

TEST_F(ManagerApi, AnotherManagerTakesOverConfirmedRuns) {
  MemoryStore store;
  ManagerThread first(store, Path("blobs"));
  ASSERT_TRUE(first.WaitUntilItLeads());
  const ManagerThread second(store, Path("blobs"));
  ASSERT_EQ(first.Ask("PUT", "/v1/runs/r1", Run("x")).status, 202U);
  const json work = TakeWork(first, SayHello(first));
  const json attempt{{"number", work["start"][0]["number"]}, {"attempt", 1}};
  const auto refused = second.Ask("GET", "/v1/runs/r1");
  EXPECT_EQ(refused.status, 503U);
  first.End();
  ASSERT_TRUE(second.WaitUntilItLeads());
  EXPECT_EQ(second.Get("/v1/runs/r1")["state"], "running");
  const std::uint64_t session = SayHello(second, json::array({attempt}));
  EXPECT_TRUE(TakeWork(second, session)["start"].empty()) << "the node has it already";
  json result = attempt;
  result["state"] = "done";
  (void)second.Ask("POST", "/v1/members/n1/results", {{"session", session}, {"results", {result}}});
  EXPECT_EQ(second.Get("/v1/runs/r1")["state"], "done");
}

}  // namespace
}  // namespace weir::cluster
