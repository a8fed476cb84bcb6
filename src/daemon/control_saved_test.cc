// SPDX-License-Identifier: Apache-2.0
// What the control API saves of a node, and what a node restores.
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "daemon/control_test.h"
#include "daemon/user_range.h"
#include "tests/harness/temp_folder.h"

namespace weir::daemon {
namespace {

using nlohmann::json;

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

TEST_F(ControlTest, AVgpuThatCannotBeRestoredIsNamedAndTheOthersAreRestored) {
  SavedNode saved;
  saved.policies.push_back({"embedded", "from-the-future", {}});
  saved.vgpus.push_back({.id = VgpuId{1}, .name = "bad/name", .device = "embedded", .settings = {}});
  saved.vgpus.push_back({.id = VgpuId{2}, .name = "good", .device = "embedded", .settings = {}});
  EXPECT_EQ(node_.Restore(saved).size(), 2U);
  EXPECT_EQ(Ask("GET", "/v1/vgpus/good").status, 200U);
}

class NotRestoredTest : public ControlTest {
 protected:
  NotRestoredTest() {
    state_.policies.push_back({"gone", "reserve", {}});
    state_.oversell.push_back({"embedded", "auction", {}});
    state_.memory.push_back({"gone", 4 * kSlotBytes.count, {}, 0});
    state_.vgpus.push_back({.id = VgpuId{7}, .name = "a", .device = "gone", .settings = {.weight = 30}});
    state_.vgpus.push_back({.id = VgpuId{9}, .name = "b", .device = "gone", .settings = {}});
    state_.vgpus.push_back({.id = VgpuId{3}, .name = "c", .device = "embedded", .settings = {}});
    EXPECT_EQ(node_.Restore(state_).size(), 5U);
  }
  std::vector<std::string> SavedVgpus() const {
    std::vector<std::string> names;
    for (const SavedVgpu& vgpu : saved_.vgpus) names.push_back(vgpu.name);
    std::ranges::sort(names);
    return names;
  }
  SavedNode state_;
};

TEST_F(NotRestoredTest, StaysSavedAndIsShown) {
  Ask("PATCH", "/v1/vgpus/c", R"({"weight":3})");
  EXPECT_EQ(SavedVgpus(), (std::vector<std::string>{"a", "b", "c"}));
  const json list = Ask("GET", "/v1/status").body["not_restored"];
  ASSERT_EQ(list.size(), 5U);
  EXPECT_EQ(list[3]["what"], "vGPU a");
  EXPECT_NE(list[3]["why"].get<std::string>().find("gone"), std::string::npos) << list;

  // A start with the device, by a daemon that knows the way of selling.
  auto saved = FromText(ToText(saved_));
  ASSERT_TRUE(saved) << saved.error().message;
  ASSERT_EQ(saved->oversell.size(), 1U);
  EXPECT_EQ(saved->oversell[0].mode, "auction");
  saved->oversell.clear();
  Node next{
      loop_,
      NewFolder(),
      {{.spec = {"embedded", "software", {0}}, .executors = {}}, {.spec = {"gone", "software", {0}}, .executors = {}}},
      [](const SavedNode&) {}};
  EXPECT_TRUE(next.Restore(*saved).empty());
  ASSERT_TRUE(next.Vgpu("a"));
  EXPECT_EQ(next.Vgpu("a")->status.id, VgpuId{7});
  EXPECT_EQ(next.Vgpu("a")->status.settings.weight, 30U);
  EXPECT_EQ(next.Devices()[1].policy, "reserve");
  EXPECT_EQ(next.Devices()[1].memory.slots, 4U);
}

TEST_F(NotRestoredTest, ItsIdsAreGivenToNoOther) {
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"d"})").body["id"], 10);
}

TEST_F(NotRestoredTest, GoesWhenItIsMadeRemovedOrSet) {
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"a"})").status, 201U);
  EXPECT_EQ(Ask("DELETE", "/v1/vgpus/b").body, json::parse(R"({"removed":"b","not_restored":true})"));
  EXPECT_EQ(Ask("DELETE", "/v1/vgpus/b").status, 404U);
  EXPECT_EQ(Ask("DELETE", "/v1/vgpus/a").body, json::parse(R"({"removed":"a","not_restored":false})"));
  EXPECT_EQ(SavedVgpus(), (std::vector<std::string>{"c"}));
  EXPECT_EQ(Ask("PUT", "/v1/devices/embedded/oversell", R"({"mode":"adaptive"})").status, 200U);
  ASSERT_EQ(saved_.oversell.size(), 1U);
  EXPECT_EQ(saved_.oversell[0].mode, "adaptive");
  EXPECT_EQ(Ask("GET", "/v1/status").body["not_restored"].size(), 2U) << "the policy and the memory of 'gone'";
}

TEST_F(NotRestoredTest, SettingsOfADeviceThatIsGoneForGoodAreForgotten) {
  EXPECT_EQ(Ask("DELETE", "/v1/devices/gone/not_restored").body,
            json::parse(R"({"forgotten":["policy of gone","memory of gone"]})"));
  const auto is_gone = [](const auto& setting) { return setting.device == "gone"; };
  EXPECT_TRUE(std::ranges::none_of(saved_.policies, is_gone));
  EXPECT_TRUE(std::ranges::none_of(saved_.memory, is_gone));
  EXPECT_EQ(SavedVgpus(), (std::vector<std::string>{"a", "b", "c"})) << "vGPUs stay kept";
  EXPECT_EQ(Ask("GET", "/v1/status").body["not_restored"].size(), 3U);

  const Answer again = Ask("DELETE", "/v1/devices/gone/not_restored");
  EXPECT_EQ(again.code(), "not-found");
  EXPECT_NE(again.message().find("'gone'"), std::string::npos) << again.message();
  // Of a device that the node has, what is in force stays.
  ASSERT_EQ(saved_.oversell.size(), 1U);
  EXPECT_EQ(saved_.oversell[0].mode, "auction");
  EXPECT_EQ(Ask("DELETE", "/v1/devices/embedded/not_restored").body["forgotten"],
            json::array({"how embedded is sold"}));
  ASSERT_EQ(saved_.oversell.size(), 1U);
  EXPECT_EQ(saved_.oversell[0].mode, "off");
  EXPECT_EQ(Ask("DELETE", "/v1/devices/embedded/not_restored").code(), "not-found");
}

/// A node whose executors have users of their own, with a kept vGPU "a" that has files.
class NotRestoredHomeTest : public ::testing::Test {
 protected:
  static constexpr uid_t kAlice = 54'321, kBob = 54'322;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can start processes of another user";
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
    for (const char* name : {"vgpu", "opencl", "homes", "homes/a"}) std::filesystem::create_directory(folder_ / name);
    auto range = UserRange::Take(folder_.path());  // that no daemon of this machine has
    ASSERT_TRUE(range) << range.error().message;
    range_.emplace(std::move(*range));
    std::ofstream(kernel_) << "x";
    ASSERT_EQ(::chown((folder_ / "homes/a").c_str(), range_->first(), range_->first()), 0);
    node_.emplace(
        loop_, folder_.path(), std::vector<DeviceSetup>{{.spec = {"embedded", "software", {0}}, .executors = {}}},
        [](const SavedNode&) {}, OwnUsers{.why_not = "", .first = range_->first()});
    SavedNode saved;
    saved.vgpus.push_back({.id = VgpuId{7}, .name = "a", .device = "gone", .settings = {}, .owner_uid = kAlice});
    ASSERT_EQ(node_->Restore(saved).size(), 1U);
  }
  [[nodiscard]] bool HasFiles() const { return std::filesystem::exists(kernel_); }
  /// Waits until no home is left of a vGPU that is gone.
  std::size_t HomesAtTheEnd(std::size_t expected) {
    const auto homes = [this] {
      const std::filesystem::directory_iterator all(folder_ / "homes");
      return static_cast<std::size_t>(std::distance(begin(all), end(all)));
    };
    for (const Instant until = platform::Now() + seconds(20); homes() != expected && platform::Now() < until;) {
      loop_.restart();
      loop_.run_for(milliseconds(5));
    }
    return homes();
  }

  const testing::TempFolder folder_;
  const std::string kernel_ = folder_ / "homes/a/kernel";
  std::optional<UserRange> range_;
  boost::asio::io_context loop_{1};
  std::optional<Node> node_;
};

TEST_F(NotRestoredHomeTest, StaysIfAnotherUsersVgpuOfTheNameCanNotBeMade) {
  EXPECT_FALSE(node_->Create({.name = "a", .device = "gone", .settings = {}, .owner_uid = kBob}));
  EXPECT_TRUE(HasFiles()) << "the engine has refused it";
  std::filesystem::create_directory(folder_ / "opencl/a.sock");
  EXPECT_FALSE(node_->Create({.name = "a", .device = "", .settings = {}, .owner_uid = kBob}));
  EXPECT_TRUE(HasFiles()) << "its executor can't listen";
  EXPECT_EQ(HomesAtTheEnd(1), 1U);
  EXPECT_EQ(node_->not_restored().size(), 1U);
  std::filesystem::remove(folder_ / "opencl/a.sock");
  EXPECT_TRUE(node_->Create({.name = "a", .device = "", .settings = {}, .owner_uid = kBob}));
  EXPECT_FALSE(HasFiles()) << "they are not the new owner's";
  EXPECT_EQ(HomesAtTheEnd(1), 1U) << "that of the new vGPU";
  EXPECT_TRUE(node_->not_restored().empty());
}

TEST_F(NotRestoredHomeTest, StaysForItsOwner) {
  EXPECT_FALSE(node_->Create({.name = "a", .device = "gone", .settings = {}, .owner_uid = kAlice}));
  EXPECT_TRUE(HasFiles());
  EXPECT_TRUE(node_->Create({.name = "a", .device = "", .settings = {}, .owner_uid = kAlice}));
  EXPECT_TRUE(HasFiles());
}

TEST_F(NotRestoredHomeTest, IsNotLeftForALaterVgpuWhenAnEphemeralOneTakesTheName) {
  EXPECT_TRUE(node_->Create(
      {.name = "a", .device = "", .settings = {}, .ephemeral = true, .owner_uid = kAlice, .owner_pid = ::getpid()}));
  EXPECT_FALSE(HasFiles());
  EXPECT_EQ(HomesAtTheEnd(0), 0U);
}

TEST_F(ControlTest, HowLaunchesThatDoNotFitAreTreatedIsSetShownAndSaved) {
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"a"})").body["settings"]["partition"], "auto");
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"b","partition":"always"})").body["settings"]["partition"], "always");
  EXPECT_EQ(Ask("PATCH", "/v1/vgpus/a", R"({"partition":"never"})").body["settings"]["partition"], "never");
  EXPECT_EQ(Ask("PATCH", "/v1/vgpus/a", R"({"weight":3})").body["settings"]["partition"], "never") << "it stays";
  const json memory = Ask("GET", "/v1/vgpus/a").body["memory"];
  for (const char* count : {"launches_in_parts", "parts", "launches_not_cut", "parts_in_bytes", "parts_out_bytes",
                            "parts_decide_ns", "parts_compile_ns"})
    EXPECT_EQ(memory[count], 0) << count;
  const auto saved = FromText(ToText(saved_));
  ASSERT_TRUE(saved) << saved.error().message;
  Node next{loop_, NewFolder(), {{.spec = {"embedded", "software", {0}}, .executors = {}}}, [](const SavedNode&) {}};
  EXPECT_TRUE(next.Restore(*saved).empty());
  EXPECT_EQ(next.Vgpu("a")->status.settings.partition, core::PartitionMode::kStay);
  EXPECT_EQ(next.Vgpu("b")->status.settings.partition, core::PartitionMode::kAlways);
}

TEST_F(ControlTest, SalesComeBackAsTheyWere) {
  Ask("POST", "/v1/vgpus", R"({"name":"a","cap":0.6})");
  Ask("POST", "/v1/vgpus", R"({"name":"b","cap":0.6})");
  Ask("POST", "/v1/vgpus", R"({"name":"c","best_effort":true})");
  // The caps add up to more than the device, so that one of the two becomes oversold.
  Ask("PUT", "/v1/devices/embedded/oversell", R"({"mode":"adaptive","params":{"low_line":0.5}})");
  ASSERT_EQ(saved_.vgpus.size(), 3U);
  EXPECT_EQ(saved_.vgpus[1].sale, core::Sale::kOversold);
  auto saved = FromText(ToText(saved_));
  ASSERT_TRUE(saved);
  std::swap(saved->vgpus[0], saved->vgpus[1]);  // the order must not matter

  boost::asio::io_context loop{1};
  const std::string folder = NewFolder();
  Node other(loop, folder, {{.spec = {"embedded", "software", {0, 1}}, .executors = {}}}, [](const SavedNode&) {});
  EXPECT_TRUE(other.Restore(*saved).empty());
  EXPECT_EQ(other.Vgpu("a")->status.sale, core::Sale::kGuaranteed);
  EXPECT_EQ(other.Vgpu("b")->status.sale, core::Sale::kOversold);
  EXPECT_EQ(other.Vgpu("c")->status.sale, core::Sale::kBestEffort);
  const engine::DeviceStatus device = other.Devices().front();
  EXPECT_EQ(device.oversell, core::OversellMode::kAdaptive);
  EXPECT_EQ(device.oversell_params.find("low_line")->second, 0.5);
  ASSERT_EQ(other.events().After(0, 100).events.size(), 1U) << "nothing was sold or changed by coming back";
  EXPECT_EQ(other.events().After(0, 100).events[0].note.kind, "restored");
  std::filesystem::remove_all(folder);
}

TEST_F(ControlTest, AWayOfSellingFromTheFutureIsNamedAndTheVgpusAreRestored) {
  SavedNode saved;
  saved.oversell.push_back({"embedded", "auction", {}});
  saved.vgpus.push_back({.id = VgpuId{2}, .name = "good", .device = "embedded", .settings = {}});
  ASSERT_EQ(node_.Restore(saved).size(), 1U);
  EXPECT_EQ(Ask("GET", "/v1/vgpus/good").status, 200U);
}

TEST_F(ControlTest, MemoryIsMadeElasticShownAndSaved) {
  EXPECT_EQ(Ask("GET", "/v1/devices/embedded/memory").body["slots"], 0);
  ASSERT_EQ(
      Ask("POST", "/v1/vgpus", R"({"name":"a","memory_min_bytes":134217728,"memory_max_bytes":268435456})").status,
      201U);
  const Answer made = Ask("PUT", "/v1/devices/embedded/memory",
                          R"({"size_bytes":536870912,"params":{"layout":"scattered"},"copy_bytes_per_s":12e9})");
  ASSERT_EQ(made.status, 200U) << made.body;
  EXPECT_EQ(made.body["slots"], 8);
  EXPECT_EQ(made.body["params"]["layout"], "scattered");
  EXPECT_EQ(made.body["held_slots"], 2);
  EXPECT_EQ(made.body["sharers"].size(), 8U);
  EXPECT_EQ(made.body["holders"][0]["name"], "a");
  EXPECT_EQ(made.body["holders"][0]["ranges"], json::parse("[[0,2]]"));
  EXPECT_EQ(made.body["copy_bytes_per_s"], 12e9);
  const json vgpu = Ask("GET", "/v1/vgpus/a").body["memory"];
  EXPECT_EQ(vgpu["held_slots"], 2);
  EXPECT_EQ(vgpu["min_slots"], 2);
  EXPECT_EQ(vgpu["max_slots"], 4);
  EXPECT_EQ(Ask("PATCH", "/v1/vgpus/a", R"({"memory_min_bytes":201326592})").body["memory"]["held_slots"], 3);
  EXPECT_EQ(Ask("POST", "/v1/vgpus", R"({"name":"b","memory_min_bytes":17179869184})").code(), "invalid-argument");
  ASSERT_EQ(saved_.memory.size(), 1U);
  EXPECT_EQ(saved_.memory[0].size_bytes, 536870912U);
  EXPECT_EQ(saved_.memory[0].params.at("layout"), 1.0);
  EXPECT_FALSE(Ask("GET", "/v1/memory/params").body["params"].empty());

  Node next{loop_, NewFolder(), {{.spec = {"embedded", "software", {0}}, .executors = {}}}, [](const SavedNode&) {}};
  EXPECT_TRUE(next.Restore(saved_).empty());
  EXPECT_EQ(next.Devices().front().memory.slots, 8U);
  EXPECT_EQ(next.copy_bytes_per_s("embedded"), 12e9);
  EXPECT_EQ(next.Vgpu("a")->status.memory.limit, 3U);

  EXPECT_EQ(Ask("PUT", "/v1/devices/embedded/memory", R"({"size_bytes":0})").body["slots"], 0);
  EXPECT_TRUE(saved_.memory.empty());
}

}  // namespace
}  // namespace weir::daemon
