// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "drivers/slurm_driver.h"
#include "drivers/slurm_text.h"
#include "tests/harness/code_of.h"
#include "tests/harness/model_engines.h"

namespace weir::drivers {
namespace {

using testing::CodeOf;
using testing::ModelSlurm;

TEST(SlurmText, ParsesSlurmsOutput) {
  const auto licence = ParseSlurmLicence("LicenseName=vgpu Total=16 Used=4 Free=12 Reserved=12 Remote=no\n", "vgpu");
  ASSERT_TRUE(licence && *licence);
  EXPECT_EQ((*licence)->total, 16);
  EXPECT_EQ((*licence)->used, 4);
  EXPECT_FALSE(ParseSlurmLicence("", "vgpu").value());
  const std::string hold =
      "ReservationName=hold StartTime=2026-11-22T09:24:10 Nodes=(null) Licenses=a:2,vgpu:8 State=ACTIVE\n";
  EXPECT_EQ(ParseSlurmHold(hold, "hold", "vgpu").value(), 8);
  EXPECT_EQ(ParseSlurmHold("ReservationName=hold Licenses=(null)\n", "hold", "vgpu").value(), 0);
  EXPECT_EQ(CountLicences("vgpu", "vgpu").value(), 1);
  EXPECT_EQ(CountLicences("vgpu@server:3,other", "vgpu@server").value(), 3);
  const auto jobs = ParseSlurmJobs("12|1000|vgpu:2\n13|0|\n7|1001|matlab:1,vgpu:1\n", "vgpu");
  ASSERT_TRUE(jobs) << jobs.error().message;
  EXPECT_EQ(*jobs, (std::vector<Grant>{{"12", 2, 1000}, {"7", 1, 1001}}));
}

TEST(SlurmText, UnknownTextIsAnErrorAndNeverANumber) {
  for (const char* bad :
       {"vgpu", "LicenseName=vgpu Total=16", "LicenseName=vgpu Total=-1 Used=0", "LicenseName=vgpu Total=1e3 Used=0",
        "LicenseName=other Total=16 Used=0", "LicenseName=vgpu Total=16 Total=99 Used=0",
        "LicenseName=vgpu Total=99999999999999999999 Used=0",
        "LicenseName=vgpu Total=16 Used=4\nLicenseName=vgpu Total=1 Used=0\n"})
    EXPECT_EQ(CodeOf(ParseSlurmLicence(bad, "vgpu")), Errc::kProtocol) << bad;
  for (const char* bad : {"12|1000", "12|1000|vgpu:1|x", "x|1000|vgpu:1", "-1|1000|vgpu:1", "12|4294967295|vgpu:1",
                          "12|1000|vgpu:", "12|1000|vgpu:-1", "12|1000|vgpu:1:2", "12|1000|a b:1",
                          "12|1000|vgpu:1\n12|1000|vgpu:1", "4294967296|0|vgpu:1", "12|1000|,vgpu:1", "\n"})
    EXPECT_EQ(CodeOf(ParseSlurmJobs(bad, "vgpu")), Errc::kProtocol) << bad;
  for (const char* bad : {"", "-x", "a b", "a;b", "a\n", "a,b", "a:1"}) EXPECT_FALSE(CheckSlurmName(bad, "x")) << bad;
}

RC_GTEST_PROP(SlurmTextLaws, NoTextIsTooHostile, (const std::string& text)) {
  const auto licence = ParseSlurmLicence(text, "vgpu");
  const bool found = licence && licence->has_value();
  RC_ASSERT(!found);
  (void)ParseSlurmHold(text, "hold", "vgpu");
  const auto jobs = ParseSlurmJobs(text + "|0|vgpu:3", "vgpu");
  if (jobs)
    for (const Grant& grant : *jobs) RC_ASSERT(grant.shares > 0);
}

TEST(SlurmDriver, WithholdsUnsellableLicencesAndNeverMoreThanExist) {
  ModelSlurm slurm;
  SlurmDriver driver =
      SlurmDriver::Make({"vgpu", "weir-hold", "n1"}, [&](const auto& argv) { return slurm.Run(argv); }).value();
  ASSERT_TRUE(driver.Publish("gpu", 8));
  EXPECT_EQ(slurm.hold, 16) << "all, until something is sellable";
  ASSERT_TRUE(driver.SetSellable("gpu", 12));
  EXPECT_EQ(slurm.hold, 4);
  ASSERT_TRUE(driver.SetSellable("gpu", 99));
  EXPECT_EQ(slurm.hold, 0);
  EXPECT_EQ(driver.ReadUsage("gpu").value().sellable_max, 16);
  EXPECT_NE(std::ranges::find(slurm.asked.back(), "--nodelist=n1"), slurm.asked.back().end());
  slurm.jobs[5] = 2;
  EXPECT_EQ(driver.GrantOf(5).value(), (Grant{"5", 2, 1000}));
  EXPECT_FALSE(driver.GrantOf(999).value()) << "a job without the licence";
}

TEST(SlurmDriver, NamesTheMissingLicence) {
  EXPECT_EQ(CodeOf(SlurmDriver::Make({"vgpu x", "hold", ""}, nullptr)), Errc::kInvalidArgument);
  EXPECT_EQ(CodeOf(SlurmDriver::Make({"vgpu", "hold;id", ""}, nullptr)), Errc::kInvalidArgument);
  SlurmDriver driver = SlurmDriver::Make({"vgpu", "hold", ""}, [](const auto&) {
                         return CommandOutput{0, ""};
                       }).value();
  const Status none = driver.Publish("gpu", 8);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("add 'Licenses=vgpu:N' to slurm.conf"), std::string::npos)
      << none.error().message;
  SlurmDriver away = SlurmDriver::Make({"vgpu", "hold", ""}, [](const auto&) -> Result<CommandOutput> {
                       return CommandOutput{1, "slurm_load_licenses error: Unable to contact slurm controller"};
                     }).value();
  EXPECT_EQ(CodeOf(away.ReadUsage("gpu")), Errc::kUnavailable);
}

}  // namespace
}  // namespace weir::drivers
