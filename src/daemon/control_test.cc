// SPDX-License-Identifier: Apache-2.0
#include "daemon/control_test.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "base/prng.h"

namespace weir::daemon {
namespace {

using nlohmann::json;

TEST_F(ControlTest, CreatesShowsChangesAndRemovesAVgpu) {
  Answer made = Ask("POST", "/v1/vgpus", R"({"name":"a","weight":50,"fps":60,"memory_max_bytes":1073741824})");
  ASSERT_EQ(made.status, 201U) << made.body;
  EXPECT_EQ(made.body["settings"]["weight"], 50);
  EXPECT_EQ(made.body["state"], "idle");
  struct stat info {};
  ASSERT_EQ(::stat(made.body["attach"].get<std::string>().c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));

  EXPECT_EQ(Ask("PATCH", "/v1/vgpus/a", R"({"weight":20})").body["settings"]["weight"], 20);
  EXPECT_EQ(Ask("GET", "/v1/vgpus/a").body["settings"]["fps"], 60);  // absent fields are unchanged
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
        {"POST", "/v1/vgpus", R"({"name":"b","cap":1e300})", "invalid-argument", "is outside 0.01 … 1"},
        {"POST", "/v1/vgpus", R"({"name":"b","cap":-1})", "invalid-argument", "cap = -1 is outside 0.01 … 1"},
        {"POST", "/v1/vgpus", R"({"name":"b","device":"x"})", "not-found", "existing: embedded"},
        {"PATCH", "/v1/vgpus/nobody", "{}", "not-found", "existing: a"},
        {"PUT", "/v1/devices/embedded/policy", R"({"policy":"magic"})", "not-found", "known: none"},
        {"PUT", "/v1/devices/embedded/policy", R"({"policy":"reserve","params":{"period_ms":"x"}})", "invalid-argument",
         "a number"},
        {"PUT", "/v1/devices/x/policy", R"({"policy":"none"})", "not-found", "no device named 'x'"},
        {"PUT", "/v1/devices/embedded/oversell", R"({"mode":"on"})", "invalid-argument", "known: off, strict"},
        {"PUT", "/v1/devices/embedded/oversell", R"({"mode":"static","params":{"ratio":0.5}})", "invalid-argument",
         "ratio"},
        {"PUT", "/v1/devices/embedded/oversell", R"({"mode":"static","params":{"ratio":"x"}})", "invalid-argument",
         "a number"},
        {"PUT", "/v1/devices/embedded/oversell", R"({"mode":"static","params":{"rate":2}})", "invalid-argument",
         "rate"},
        {"PUT", "/v1/devices/x/oversell", R"({"mode":"off"})", "not-found", "no device named 'x'"},
        {"PUT", "/v1/devices/x/memory", R"({"size_bytes":0})", "not-found", "no device named 'x'"},
        {"GET", "/v1/devices/x/memory", "", "not-found", "no device named 'x'"},
        {"PUT", "/v1/devices/embedded/memory", R"({"size_bytes":1})", "invalid-argument", "between 64 and"},
        {"PUT", "/v1/devices/x/memory/used", R"({"used_bytes":0})", "not-found", "no device named 'x'"},
        {"PUT", "/v1/devices/embedded/memory/used", R"({"used_bytes":-1})", "invalid-argument", "not negative"},
        {"PUT", "/v1/use", "{}", "invalid-argument", "devices must be a list"},
        {"PUT", "/v1/use", R"({"devices":[{"device":"x","busy_ns":0,"processes":[]}]})", "not-found", "no device"},
        {"PUT", "/v1/devices/embedded/memory/used", "{}", "invalid-argument", "used_bytes is missing"},
        {"PUT", "/v1/devices/embedded/memory", R"({"size_bytes":-1})", "invalid-argument", "not negative"},
        {"PUT", "/v1/devices/embedded/memory", R"({"size_bytes":134217728,"params":{"layout":"round"}})",
         "invalid-argument", "contiguous, scattered"},
        {"PUT", "/v1/devices/embedded/memory", R"({"size_bytes":134217728,"params":{"low_line":1.5}})",
         "invalid-argument", "low_line 1.5 is above high_line 1"},
        {"PUT", "/v1/devices/embedded/memory", R"({"size_bytes":134217728,"copy_bytes_per_s":-1})", "invalid-argument",
         "give 0"},
        {"POST", "/v1/vgpus", R"({"name":"b","best_effort":1})", "invalid-argument", "true or false"},
        {"POST", "/v1/vgpus", R"({"name":"b","partition":"often"})", "invalid-argument",
         "partition = 'often': give auto, never or always"},
        {"POST", "/v1/vgpus", R"({"name":"b","partition":1})", "invalid-argument", "expected a string, got number"},
        {"POST", "/v1/vgpus", R"({"name":"b","partition":"paper"})", "invalid-argument", "give auto, never or always"},
        {"PATCH", "/v1/vgpus/a", R"({"partition":""})", "invalid-argument", "give auto, never or always"},
        {"GET", "/v1/vgpus/a/frames/x/y/z", "", "not-found", "no GET"},
        {"BREW", "/v1/status", "", "not-found", "no BREW"}}) {
    const Answer answer = Ask(w.method, w.path, w.body);
    EXPECT_GE(answer.status, 400U) << w.path << w.body;
    EXPECT_EQ(answer.code(), w.code) << w.path << w.body;
    EXPECT_NE(answer.message().find(w.says), std::string::npos) << answer.message();
  }
  EXPECT_EQ(Ask("GET", "/v1/vgpus").body["vgpus"].size(), 1U) << "nothing was made by a refused request";
}

TEST_F(ControlTest, ClusterNodesAreAcceptedWhenEnabled) {
  EXPECT_EQ(Ask("GET", "/v1/peers").body["nodes"], json::array());
  EXPECT_EQ(Ask("PUT", "/v1/peers", R"({"nodes":[]})").code(), "not-found");
  PeerRelays relays(loop_, folder_, {});  // without tokens and with no plain nodes allowed, no offer can be used
  Control control(node_, {folder_, folder_ + "/state", false, platform::Now(), [] {}, &relays});
  const auto ask = [&](const char* method, const std::string& body) {
    const http::Reply reply = control.Handle({method, "/v1/peers", "", body, "", 0, ::getpid()});
    return Answer{reply.status, json::parse(reply.body)};
  };
  const std::string node = R"({"node":"n1","address":"gpu:1","vgpu":"parts","plain":false,"room_bytes":7,"threads":9})";
  EXPECT_EQ(ask("PUT", R"({"nodes":[)" + node + "]}").body["taken"], 1);
  const json shown = ask("GET", "").body["nodes"];
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(shown[0]["room_bytes"], 7);
  EXPECT_EQ(shown[0]["socket"], "");
  EXPECT_EQ(shown[0]["why_not"], "no token for it: give --peers-token");
  for (const char* bad : {"{}", R"({"nodes":3})", R"({"nodes":[3]})", R"({"nodes":[{"node":"a","colour":1}]})",
                          R"({"nodes":[{"node":"a/b","address":"x:1","vgpu":"v"}]})", R"({"nodes":[],"more":1})"})
    EXPECT_EQ(ask("PUT", bad).code(), "invalid-argument") << bad;
  EXPECT_EQ(ask("GET", "").body["nodes"].size(), 1U) << "what was refused changed nothing";
}

TEST_F(ControlTest, OnlyRootMakesVgpusForOthers) {
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"a","owner_uid":0})", 1000).code(), "permission-denied");
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"a"})", 1000).body["owner_uid"], 1000);
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"b","owner_uid":1000})", 0).body["owner_uid"], 1000);
}

TEST_F(ControlTest, SellsADeviceStrictlyAndSaysWhatCanBeSold) {
  EXPECT_EQ(Ask("GET", "/v1/devices").body["devices"][0]["oversell"]["mode"], "off");
  const json device = Ask("PUT", "/v1/devices/embedded/oversell", R"({"mode":"strict"})").body;
  EXPECT_EQ(device["oversell"]["mode"], "strict");
  EXPECT_EQ(device["oversell"]["offer"]["guaranteed"], 1.0);
  const json a = Ask("POST", "/v1/vgpus", R"({"name":"a","cap":0.7})").body;
  EXPECT_EQ(a["sale"], "guaranteed");
  EXPECT_EQ(a["cap_now"], 0.7);
  const Answer refused = Ask("POST", "/v1/vgpus", R"({"name":"b","cap":0.5})");
  EXPECT_EQ(refused.code(), "resource-exhausted");
  EXPECT_NE(refused.message().find("at most 30 % can"), std::string::npos) << refused.message();
  EXPECT_EQ(Ask("PATCH", "/v1/vgpus/a", R"({"cap":0.9})").status, 200U);
  const json c = Ask("POST", "/v1/vgpus", R"({"name":"c","cap":0.5,"best_effort":true})").body;
  EXPECT_EQ(c["sale"], "best-effort");
  EXPECT_NEAR(c["cap_now"].get<double>(), 0.1, 1e-4);
  const json sold = Ask("GET", "/v1/devices").body["devices"][0]["oversell"];
  EXPECT_NEAR(sold["sold"].get<double>(), 0.9, 1e-4);
  for (const char* field : {"revenue", "penalty", "cost", "net", "sold_s", "broken_s"})
    EXPECT_TRUE(sold["account"][field].is_number()) << field;
  const http::Reply metrics = control_.Handle({"GET", "/metrics", "", "", "", 0, 1});
  EXPECT_NE(metrics.body.find("weir_vgpu_cap_now_ratio{vgpu=\"a\",device=\"embedded\"} 0.9\n"), std::string::npos);
  EXPECT_NE(metrics.body.find("weir_events_total{kind=\"sold\"} 3\n"), std::string::npos) << metrics.body;
}

TEST_F(ControlTest, SamplesAreRowsInTheOrderOfTheirFields) {
  const json empty = Ask("GET", "/v1/samples").body;
  EXPECT_EQ(empty["vgpus"], json::array());
  ASSERT_EQ(empty["devices"].size(), 1U);
  EXPECT_EQ(empty["devices"][0][0], "embedded");
  const json made = Ask("POST", "/v1/vgpus", R"({"name":"a","cap":0.4})").body;
  Ask("POST", "/v1/vgpus", R"({"name":"b"})");
  const json samples = Ask("GET", "/v1/samples").body;
  ASSERT_EQ(samples["vgpus"].size(), 2U);
  const auto field = [&samples](const char* fields, const json& row, const char* name) {
    const json& names = samples[fields];
    EXPECT_EQ(row.size(), names.size() + 1);
    return row.at(static_cast<std::size_t>(std::ranges::find(names, name) - names.begin()) + 1);
  };
  const json& a = samples["vgpus"][0];
  EXPECT_EQ(a[0], made["id"]);
  EXPECT_EQ(field("vgpu_fields", a, "cap"), 0.4);
  EXPECT_EQ(field("vgpu_fields", samples["vgpus"][1], "cap"), 1.0);
  for (const char* zero :
       {"gpu_use", "fps", "p50_ms", "p99_ms", "wait_share", "pace_share", "frames", "late", "processes", "held_slots"})
    EXPECT_EQ(field("vgpu_fields", a, zero), 0) << zero;
  EXPECT_NEAR(field("device_fields", samples["devices"][0], "sold").get<double>(), 1.4, 1e-5);
  for (const char* name : {"gpu_use", "load", "held_slots", "revenue", "penalty"})
    EXPECT_TRUE(field("device_fields", samples["devices"][0], name).is_number()) << name;
  // On an oversold device the cap is what a vGPU may use at this moment.
  Ask("PUT", "/v1/devices/embedded/oversell", R"({"mode":"static","params":{"ratio":3}})");
  const json sold = Ask("GET", "/v1/samples").body["vgpus"][0];
  EXPECT_NEAR(field("vgpu_fields", sold, "cap").get<double>(), Ask("GET", "/v1/vgpus/a").body["cap_now"], 1e-5);
}

TEST_F(ControlTest, TheLayoutGrowsWithEachChangeAndOnlyThen) {
  const auto layout = [this] { return Ask("GET", "/v1/samples").body.at("layout").get<std::uint64_t>(); };
  struct Change {
    const char *method, *path, *body;
  };
  std::uint64_t last = layout();
  for (const Change& change : {Change{"POST", "/v1/vgpus", R"({"name":"a"})"},
                               {"PATCH", "/v1/vgpus/a", R"({"cap":0.5})"},
                               {"POST", "/v1/vgpus/a/pause", ""},
                               {"POST", "/v1/vgpus/a/resume", ""},
                               {"PUT", "/v1/devices/embedded/policy", R"({"policy":"cap"})"},
                               {"PUT", "/v1/devices/embedded/oversell", R"({"mode":"strict"})"},
                               {"PUT", "/v1/devices/embedded/memory", R"({"size_bytes":4294967296})"},
                               {"DELETE", "/v1/vgpus/a", ""}}) {
    EXPECT_LT(Ask(change.method, change.path, change.body).status, 300U) << change.path;
    const std::uint64_t now = layout();
    EXPECT_GT(now, last) << change.method << change.path;
    last = now;
  }
  for (const char* path : {"/v1/status", "/v1/devices", "/v1/vgpus", "/v1/events", "/v1/samples"}) Ask("GET", path);
  EXPECT_EQ(Ask("PATCH", "/v1/vgpus/nobody", R"({"cap":0.5})").status, 404U);
  EXPECT_EQ(layout(), last);
}

TEST_F(ControlTest, ShowsTheParametersOfSelling) {
  const json params = Ask("GET", "/v1/oversell/params").body["params"];
  EXPECT_EQ(params.size(), core::kOversellParams.size());
  EXPECT_EQ(params[0]["name"], "ratio");
  EXPECT_EQ(params[0]["max"], 100.0);
  const json device =
      Ask("PUT", "/v1/devices/embedded/oversell", R"({"mode":"static","params":{"ratio":1.5}})").body["oversell"];
  EXPECT_EQ(device["params"]["ratio"], 1.5);
  EXPECT_EQ(device["params"].size(), core::kOversellParams.size()) << "complete";
}

TEST_F(ControlTest, ReportsEvents) {
  Ask("PUT", "/v1/devices/embedded/oversell", R"({"mode":"strict"})");
  Ask("PUT", "/v1/devices/embedded/policy", R"({"policy":"reserve","params":{"period_ms":4}})");
  Ask("POST", "/v1/vgpus", R"({"name":"a","cap":0.7})");
  Ask("POST", "/v1/vgpus", R"({"name":"b","cap":0.5})");
  Ask("POST", "/v1/vgpus", R"({"name":"b","cap":9})");  // an invalid request, not a refused sale
  Ask("PATCH", "/v1/vgpus/a", R"({"cap":0.4})");
  Ask("PATCH", "/v1/vgpus/a", R"({"weight":4,"fps":30})");
  Ask("PATCH", "/v1/vgpus/a", R"({"weight":4})");  // no change
  for (const char* what : {"pause", "pause", "resume"}) Ask("POST", std::string("/v1/vgpus/a/") + what);
  Ask("DELETE", "/v1/vgpus/a");
  const json told = Ask("GET", "/v1/events").body;
  std::vector<std::string> kinds, vgpus;
  for (const json& event : told["events"]) {
    kinds.push_back(event["kind"]);
    vgpus.push_back(event["vgpu"]);
    EXPECT_EQ(event["device"], "embedded");
    EXPECT_EQ(event["number"], kinds.size());
    EXPECT_GT(event["utc_ns"].get<std::int64_t>(), 1'600'000'000'000'000'000);
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"oversell", "policy", "sold", "refused", "changed", "sold", "changed",
                                             "paused", "resumed", "removed"}));
  EXPECT_EQ(vgpus, (std::vector<std::string>{"", "", "a", "b", "a", "a", "a", "a", "a", "a"}));
  EXPECT_EQ(told["events"][4]["text"], "cap 0.7 to 0.4");
  EXPECT_EQ(told["events"][6]["text"], "weight 100 to 4, fps 0 to 30");
  EXPECT_EQ(told["next"], 10);
  EXPECT_EQ(told["lost"], 0);
  EXPECT_NE(told["events"][1]["text"].get<std::string>().find("period_ms=4"), std::string::npos);
  EXPECT_EQ(told["events"][2]["text"], "a ceiling of 70 %, guaranteed; cap now 70 %");
  EXPECT_NE(told["events"][3]["text"].get<std::string>().find("at most 30 % can"), std::string::npos);

  const json two = Ask("GET", "/v1/events", "", 0, "after=3&limit=2").body;
  EXPECT_EQ(two["events"][0]["number"], 4);
  EXPECT_EQ(two["next"], 5);
  EXPECT_EQ(two["began_ns"], told["began_ns"]);
  EXPECT_EQ(Ask("GET", "/v1/events", "", 0, "after=x").code(), "invalid-argument");
}

TEST_F(ControlTest, DeeplyNestedBodiesAreRefused) {
  constexpr std::size_t kDepth = 30'000;  // 60 KiB, within the limit of a request
  const std::string nested = std::string(kDepth, '[') + std::string(kDepth, ']');
  for (const char* path : {"/v1/peers", "/v1/devices/embedded/policy", "/v1/devices/embedded/memory"})
    EXPECT_EQ(Ask("PUT", path, R"({"nodes":)" + nested + "}").status, path == std::string("/v1/peers") ? 404U : 400U);
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["})").code(),
            "invalid-argument")
      << "a name, but not a good one";
  EXPECT_NE(Ask("PATCH", "/v1/vgpus/nobody", R"({"weight":)" + nested + "}").message().find("deeper"),
            std::string::npos);
}

TEST_F(ControlTest, MetricsAreOfTheNodeAtThisMoment) {
  Ask("POST", "/v1/vgpus", R"({"name":"a","latency_ms":25})");
  Ask("POST", "/v1/vgpus/a/pause");
  const http::Reply reply = control_.Handle({"GET", "/metrics", "", "", "", 0, 1});
  EXPECT_EQ(reply.status, 200U);
  for (const char* line :
       {"weir_vgpu_frames_total{vgpu=\"a\",device=\"embedded\"} 0\n",
        "weir_vgpu_paused{vgpu=\"a\",device=\"embedded\"} 1\n",
        "weir_vgpu_promised_latency_seconds{vgpu=\"a\",device=\"embedded\"} 0.025\n",
        "weir_vgpu_executor_starts_total{vgpu=\"a\",device=\"embedded\"} 0\n", "weir_node_state_saved 1\n",
        "weir_device_info{device=\"embedded\",policy=\"proportional-share\",kind=\"software\",model=\"\"} 1\n"})
    EXPECT_NE(reply.body.find(line), std::string::npos) << line << reply.body;
  const std::string start = "\nprocess_start_time_seconds ";
  const double started = std::stod(reply.body.substr(reply.body.find(start) + start.size()));
  EXPECT_NEAR(started, static_cast<double>(::time(nullptr)), 120) << "this test takes less";
}

TEST_F(ControlTest, StopIsPassedOn) {
  EXPECT_EQ(Ask("POST", "/v1/shutdown").body["stopping"], true);
  EXPECT_TRUE(stopped_);
}

TEST_F(ControlTest, NoRequestCrashes) {
  Prng prng(3);
  const std::string seed =
      R"({"name":"a","weight":50,"cap":0.5,"ephemeral":true,"policy":"reserve","params":{"period_ms":1}})";
  for (int i = 0; i < 3000; ++i) {
    std::string body = seed;
    for (int flips = 0; flips < 3; ++flips)
      body[static_cast<std::size_t>(prng.Between(0, static_cast<std::int64_t>(seed.size()) - 1))] =
          static_cast<char>(prng.Next());
    const http::Reply reply =
        control_.Handle({prng.Next() % 2 ? "POST" : "PATCH", prng.Next() % 2 ? "/v1/vgpus" : "/v1/vgpus/a", "", body,
                         "", 0, ::getpid()});
    EXPECT_TRUE(reply.status < 500 || reply.status == 507) << body << reply.body;
  }
}

TEST_F(ControlTest, AnAccountOfAllClientsThatAreFollowedFitsAndOtherBodiesStaySmall) {
  json account = json::parse(R"({"devices":[{"device":"embedded","busy_ns":0,"processes":[]}]})");
  for (std::uint64_t i = 0; i < core::UseReconciler::kCountersMax; ++i)
    account["devices"][0]["processes"].push_back(
        {{"key", ~i}, {"pid", 4'194'304}, {"used_ns", std::numeric_limits<std::int64_t>::max()}});
  const std::string body = account.dump();
  EXPECT_LT(body.size(), ControlLimits().request_bytes);
  EXPECT_EQ(Ask("PUT", "/v1/use", body).body["taken"], 1);
  const std::string spaces(http::kLargeBody, ' ');
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"a"})" + spaces).code(), "invalid-argument");
  EXPECT_EQ(Ask("GET", "/v1/vgpus/a").status, 404U);
}

TEST_F(ControlTest, TheStatusNamesDevicesWhoseAccountDoesNotCome) {
  Control control(node_, {.started = platform::Now() - seconds(60), .with_account = {"embedded"}});
  const auto without = [&] {
    return json::parse(control.Handle({"GET", "/v1/status", "", "", "", 0, ::getpid()}).body)["without_account"];
  };
  EXPECT_EQ(without(), json::parse(R"(["embedded"])"));
  ASSERT_EQ(Ask("PUT", "/v1/use", R"({"devices":[{"device":"embedded","processes":[]}]})").status, 200U);
  EXPECT_TRUE(without().empty());
  EXPECT_TRUE(Ask("GET", "/v1/status").body["without_account"].empty()) << "this device has no account";
}

TEST_F(ControlTest, DevicesOfANodeHaveTheirOwnVgpusPoliciesAndLinks) {
  boost::asio::io_context loop{1};
  SavedNode saved;
  DeviceSetup first{.spec = {"card0", "emulated", {}}, .executors = {}, .environment = {"CARD=0"}};
  DeviceSetup second{
      .spec = {"card1", "emulated", {}, "Model", "1f", "0000:02:00.0"}, .executors = {}, .environment = {"CARD=1"}};
  Node node(loop, NewFolder(), {first, second}, [&saved](const SavedNode& state) { saved = state; });
  const auto a = node.Create({.name = "a", .device = "", .settings = {}});
  const auto b = node.Create({.name = "b", .device = "card1", .settings = {}});
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->status.device, "card0");
  EXPECT_EQ(b->status.device, "card1");
  EXPECT_EQ(a->environment, first.environment);
  EXPECT_EQ(b->environment, second.environment);
  EXPECT_FALSE(node.Create({.name = "c", .device = "card2", .settings = {}}));

  ASSERT_TRUE(node.SetPolicy("card1", "round-robin", {}));
  ASSERT_TRUE(node.SetMemory("card1", Bytes{4 * kSlotBytes.count}, {}, 12e9));
  EXPECT_EQ(node.copy_bytes_per_s("card0"), 0);
  EXPECT_EQ(node.copy_bytes_per_s("card1"), 12e9);
  const auto devices = node.Devices();
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_NE(devices[0].policy, "round-robin");
  EXPECT_EQ(devices[1].policy, "round-robin");

  boost::asio::io_context next_loop{1};
  Node next(next_loop, NewFolder(), {first, second}, [](const SavedNode&) {});
  EXPECT_TRUE(next.Restore(saved).empty());
  EXPECT_EQ(next.Vgpu("b")->status.device, "card1");
  EXPECT_EQ(next.Vgpu("b")->environment, second.environment);
  EXPECT_EQ(next.copy_bytes_per_s("card1"), 12e9);
}

}  // namespace
}  // namespace weir::daemon
