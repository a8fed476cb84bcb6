// SPDX-License-Identifier: Apache-2.0
// The requirements of every engine as one suite. It runs with the engine in memory and with models of Placement and
// Slurm. The end-to-end tests also run it with real ones (WEIR_TEST_PLACEMENT=http://HOST:PORT,
// WEIR_TEST_SLURM=LICENCE).
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "drivers/memory_engine.h"
#include "drivers/placement_driver.h"
#include "drivers/slurm_driver.h"
#include "http/client.h"
#include "platform/clock.h"
#include "tests/harness/model_engines.h"

namespace weir::drivers {
namespace {

/// What a real engine is asked may take this long on a busy host.
constexpr Duration kPatience = seconds(120);

/// An engine's driver and the actions of its customers.
class Site {
 public:
  virtual ~Site() = default;
  virtual EngineDriver& driver() = 0;
  /// Returns the consumer's id; empty: refused.
  virtual std::optional<std::string> Take(std::int64_t shares) = 0;
  virtual void GiveBack(const std::string& consumer) = 0;
  [[nodiscard]] const std::string& gpu() const { return gpu_; }
  virtual bool there() { return true; }

 private:
  std::string gpu_ = fmt::format("gpu-{}-{}", getpid(), std::chrono::steady_clock::now().time_since_epoch().count());
};

class MemorySite final : public Site {
 public:
  EngineDriver& driver() override { return engine_; }
  std::optional<std::string> Take(std::int64_t shares) override {
    std::string consumer = std::to_string(next_++);
    if (!engine_.Take(gpu(), {consumer, shares, {}})) return {};
    return consumer;
  }
  void GiveBack(const std::string& consumer) override { EXPECT_TRUE(engine_.GiveBack(gpu(), consumer)); }

 private:
  MemoryEngine engine_;
  int next_ = 1;
};

class ModelPlacementSite final : public Site {
 public:
  EngineDriver& driver() override { return driver_; }
  std::optional<std::string> Take(std::int64_t shares) override {
    std::string consumer = testing::ModelPlacement::Uuid(next_++);
    if (!model_.Take(*model_.Named(driver_.ProviderName(gpu())), consumer, shares)) return {};
    return consumer;
  }
  void GiveBack(const std::string& consumer) override {
    model_.Named(driver_.ProviderName(gpu()))->allocations.erase(consumer);
  }

 private:
  testing::ModelPlacement model_;
  PlacementDriver driver_{
      {.host_provider = "n1"}, [this](const http::Call& call) { return model_.Ask(call); }, [](Duration) {}, 1};
  int next_ = 1000;
};

class ModelSlurmSite final : public Site {
 public:
  EngineDriver& driver() override { return driver_; }
  std::optional<std::string> Take(std::int64_t shares) override {
    if (!model_.Take(next_, shares)) return {};
    return std::to_string(next_++);
  }
  void GiveBack(const std::string& consumer) override { model_.jobs.erase(std::stoi(consumer)); }

 private:
  testing::ModelSlurm model_;
  SlurmDriver driver_ =
      SlurmDriver::Make({"vgpu", "weir-hold", ""}, [this](const auto& argv) { return model_.Run(argv); }).value();
  int next_ = 1;
};

class RealPlacementSite final : public Site {
 public:
  RealPlacementSite() {
    if (const char* url = std::getenv("WEIR_TEST_PLACEMENT")) place_ = ParsePlacementUrl(url).value();
  }
  bool there() override { return !place_.host.empty(); }
  EngineDriver& driver() override { return driver_; }
  std::optional<std::string> Take(std::int64_t shares) override {
    const auto found = Ask({.method = "GET", .target = "/resource_providers?name=" + driver_.ProviderName(gpu())});
    const std::string uuid = nlohmann::json::parse(found->body)["resource_providers"][0]["uuid"];
    std::string consumer = testing::ModelPlacement::Uuid(
        static_cast<int>(std::chrono::steady_clock::now().time_since_epoch().count() % 1'000'000'000));
    const nlohmann::json body{{"allocations", {{uuid, {{"resources", {{"CUSTOM_VGPU_SHARE", shares}}}}}}},
                              {"project_id", "weir"},
                              {"user_id", "weir"},
                              {"consumer_generation", nullptr}};
    const auto answer = Ask({.method = "PUT", .target = "/allocations/" + consumer, .body = body.dump()});
    if (answer->status != 204) return {};
    return consumer;
  }
  void GiveBack(const std::string& consumer) override {
    EXPECT_EQ(Ask({.method = "DELETE", .target = "/allocations/" + consumer})->status, 204U);
  }

 private:
  Result<http::Answer> Ask(http::Call call) {
    call.headers = {{"OpenStack-API-Version", kPlacementVersion}, {"X-Auth-Token", "admin"}};
    return http::AskTcp(place_.host, place_.port, call, kPatience);
  }
  PlacementPlace place_;
  PlacementDriver driver_{{.host_provider = "conformance"},
                          [this](const http::Call& call) { return Ask(call); },
                          [](Duration d) { std::this_thread::sleep_for(d); },
                          1};
};

class RealSlurmSite final : public Site {
 public:
  RealSlurmSite() {
    if (const char* licence = std::getenv("WEIR_TEST_SLURM")) licence_ = licence;
    if (!licence_.empty()) (void)Run({"scontrol", "delete", "reservationname=conformance"});
  }
  ~RealSlurmSite() override {
    for (const std::string& job : jobs_) (void)Run({"scancel", "--full", job});
    if (!licence_.empty()) (void)Run({"scontrol", "delete", "reservationname=conformance"});
  }
  bool there() override { return !licence_.empty(); }
  EngineDriver& driver() override { return driver_; }
  std::optional<std::string> Take(std::int64_t shares) override {
    const auto submitted = Run({"sbatch", "--parsable", "--output=/dev/null",
                                "--licenses=" + licence_ + ":" + std::to_string(shares), "--wrap=sleep 600"});
    if (!submitted || submitted->exit_code != 0) {
      ADD_FAILURE() << (submitted ? submitted->text : submitted.error().message);
      return {};
    }
    const std::string job = submitted->text.substr(0, submitted->text.find('\n'));
    jobs_.push_back(job);
    // Slurm checks waiting jobs every second. A job is refused once Slurm has said for three seconds that it waits for
    // licences; before that, a busy host has not come to it.
    const Instant deadline = platform::Now() + kPatience;
    for (int refused = 0; refused < 30 && platform::Now() < deadline;) {
      const auto state = Run({"squeue", "--noheader", "--jobs=" + job, "--format=%T %r"});
      if (state && state->text.starts_with("RUNNING ")) return job;
      if (state && state->text == "PENDING Licenses\n") ++refused;
      std::this_thread::sleep_for(milliseconds(100));
    }
    EXPECT_LT(platform::Now(), deadline) << "job " << job << " neither runs nor waits for licences";
    (void)Run({"scancel", job});
    return {};
  }
  void GiveBack(const std::string& job) override {
    (void)Run({"scancel", "--full", job});
    for (const Instant deadline = platform::Now() + kPatience; platform::Now() < deadline;) {
      const auto state = Run({"squeue", "--noheader", "--states=all", "--jobs=" + job, "--format=%T"});
      if (!state || state->text == "CANCELLED\n") return;
      std::this_thread::sleep_for(milliseconds(100));
    }
    ADD_FAILURE() << "job " << job << " goes on";
  }

 private:
  static Result<CommandOutput> Run(const std::vector<std::string>& argv) { return RunCommand(argv, kPatience); }
  std::string licence_;
  std::vector<std::string> jobs_;
  SlurmDriver driver_ =
      SlurmDriver::Make(
          {std::getenv("WEIR_TEST_SLURM") == nullptr ? "vgpu" : std::getenv("WEIR_TEST_SLURM"), "conformance", ""}, Run)
          .value();
};

template <typename T>
std::unique_ptr<Site> MakeSite() {
  return std::make_unique<T>();
}

struct SiteKind {
  const char* name;
  std::unique_ptr<Site> (*make)();
};

class Conformance : public ::testing::TestWithParam<SiteKind> {
 protected:
  void SetUp() override {
    site_ = GetParam().make();
    if (!site_->there()) GTEST_SKIP() << "no real one runs here";
  }
  EngineDriver& driver() { return site_->driver(); }
  const std::string& gpu() { return site_->gpu(); }
  Usage Read() {
    auto usage = driver().ReadUsage(gpu());
    EXPECT_TRUE(usage) << usage.error().message;
    return usage ? std::move(*usage) : Usage{};
  }
  void Sell(std::int64_t shares, std::int64_t sellable) {
    const Status published = driver().Publish(gpu(), shares);
    ASSERT_TRUE(published) << published.error().message;
    const Status set = driver().SetSellable(gpu(), sellable);
    ASSERT_TRUE(set) << set.error().message;
  }
  std::unique_ptr<Site> site_;
};

TEST_P(Conformance, ANewlyPublishedDeviceHasNothingSellable) {
  const auto unknown = driver().ReadUsage(gpu());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Errc::kNotFound) << unknown.error().message;
  EXPECT_FALSE(driver().SetSellable(gpu(), 1));
  ASSERT_TRUE(driver().Publish(gpu(), 4));
  const Usage usage = Read();
  EXPECT_EQ(usage.sellable, 0);
  EXPECT_TRUE(usage.grants.empty());
  EXPECT_FALSE(site_->Take(1));
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, kSharesMax + 1})
    EXPECT_FALSE(driver().Publish(gpu(), bad));
  EXPECT_FALSE(driver().SetSellable(gpu(), -1));
}

TEST_P(Conformance, GrantsExactlyTheSellableShares) {
  Sell(4, 3);
  const auto one = site_->Take(1), two = site_->Take(2);
  ASSERT_TRUE(one && two);
  EXPECT_FALSE(site_->Take(1));
  const Usage usage = Read();
  EXPECT_EQ(usage.sellable, 3);
  EXPECT_EQ(usage.used(), 3);
  ASSERT_EQ(usage.grants.size(), 2U);
  for (const Grant& grant : usage.grants) EXPECT_EQ(grant.shares, grant.consumer == *one ? 1 : 2) << grant.consumer;
  ASSERT_TRUE(driver().SetSellable(gpu(), 6));
  EXPECT_TRUE(site_->Take(3)) << "more than the four that there are";
}

TEST_P(Conformance, LoweringBelowTheUsedSharesStopsNewGrantsWithoutEvictions) {
  Sell(4, 4);
  std::vector<std::string> consumers;
  for (int i = 0; i < 4; ++i) consumers.push_back(site_->Take(1).value_or("refused"));
  const auto before = Read().grants;
  ASSERT_EQ(before.size(), 4U);
  for (const std::int64_t lowered : {2, 0, 2}) {
    ASSERT_TRUE(driver().SetSellable(gpu(), lowered));
    EXPECT_EQ(Read().sellable, lowered);
    EXPECT_EQ(Read().grants, before);
  }
  EXPECT_FALSE(site_->Take(1));
  site_->GiveBack(consumers[0]);
  site_->GiveBack(consumers[1]);
  EXPECT_FALSE(site_->Take(1)) << "two are used, and two are sellable";
  site_->GiveBack(consumers[2]);
  const auto later = site_->Take(1);
  ASSERT_TRUE(later);
  const GrantChanges changes = CompareGrants(before, Read().grants);
  EXPECT_EQ(changes.released.size(), 3U);
  ASSERT_EQ(changes.granted.size(), 1U);
  EXPECT_EQ(changes.granted[0].consumer, *later);
}

TEST_P(Conformance, PublishingAgainChangesNothing) {
  Sell(4, 3);
  const auto consumer = site_->Take(2);
  ASSERT_TRUE(consumer);
  ASSERT_TRUE(driver().Publish(gpu(), 4));
  EXPECT_EQ(Read().sellable, 3);
  EXPECT_EQ(Read().used(), 2);
}

INSTANTIATE_TEST_SUITE_P(Engines, Conformance,
                         ::testing::Values(SiteKind{"Memory", MakeSite<MemorySite>},
                                           SiteKind{"ModelPlacement", MakeSite<ModelPlacementSite>},
                                           SiteKind{"ModelSlurm", MakeSite<ModelSlurmSite>},
                                           SiteKind{"RealPlacement", MakeSite<RealPlacementSite>},
                                           SiteKind{"RealSlurm", MakeSite<RealSlurmSite>}),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace weir::drivers
