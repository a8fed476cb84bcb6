// SPDX-License-Identifier: Apache-2.0
#include "account/drm_fdinfo.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::account {
namespace {

TEST(DrmFdinfo, IgnoresEngineCapacityAndMemoryFields) {
  const auto client = ParseFdinfo(
      "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t497\ndrm-driver:\tamdgpu\ndrm-client-id:\t42\n"
      "drm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t9012 KiB\ndrm-engine-gfx:\t1500000 ns\n"
      "drm-engine-capacity-gfx:\t2\ndrm-engine-compute:\t 20 ns\n");
  ASSERT_TRUE(client);
  EXPECT_EQ(client->driver, "amdgpu");
  EXPECT_EQ(client->pdev, "0000:03:00.0");
  EXPECT_EQ(client->id, 42U);
  EXPECT_EQ(client->Sum(), Duration{1'500'020});
  EXPECT_EQ(client->engines.size(), 2U);
  EXPECT_FALSE(client->counts_cycles);
}

TEST(DrmFdinfo, ADriverWithoutTimesIsReported) {
  const std::string text = "drm-driver:\txe\ndrm-client-id:\t1\ndrm-cycles-rcs:\t8257\ndrm-total-cycles-rcs:\t99\n";
  EXPECT_TRUE(ParseFdinfo(text)->counts_cycles);
  EXPECT_FALSE(ParseFdinfo(text + "drm-engine-rcs:\t5 ns\n")->counts_cycles);
}

TEST(DrmFdinfo, OtherFilesAndDamagedNumbersAreRefused) {
  const std::string good = "drm-driver:\ti915\ndrm-client-id:\t7\n";
  EXPECT_TRUE(ParseFdinfo(good));
  for (const char* text : {"", "pos:\t0\nflags:\t02\n", "drm-driver:\ti915\n", "drm-client-id:\t7\n",
                           "drm-driver:\ti915\ndrm-client-id:\tseven\n", "drm-driver:\ti915\ndrm-client-id:\t-7\n"})
    EXPECT_FALSE(ParseFdinfo(text)) << text;
  for (const char* line : {"drm-engine-render:\t5\n", "drm-engine-render:\tns\n", "drm-engine-render:\t5 us\n",
                           "drm-engine-render:\t9223372036854775807 ns\n", "drm-engine-render:\t-5 ns\n"})
    EXPECT_FALSE(ParseFdinfo(good + line)) << line;
  std::string many = good;
  for (std::size_t i = 0; i <= kFdinfoEnginesMax; ++i) many += "drm-engine-e" + std::to_string(i) + ":\t1 ns\n";
  EXPECT_FALSE(ParseFdinfo(many));
  EXPECT_FALSE(ParseFdinfo(good + std::string(kFdinfoBytesMax, 'x')));
}

RC_GTEST_PROP(DrmFdinfo, ParsesWhatTheKernelWrites, ()) {
  const auto word = rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::inRange('a', 'z')));
  DrmClient client;
  client.driver = *word;
  client.pdev = *rc::gen::oneOf(rc::gen::just(std::string()), rc::gen::just(std::string("0000:03:00.0")));
  client.id = *rc::gen::arbitrary<std::uint64_t>();
  const auto engines = *rc::gen::container<std::vector<std::pair<std::string, std::int64_t>>>(
      rc::gen::pair(word, rc::gen::inRange<std::int64_t>(0, 1LL << 50)));
  for (const auto& [name, ns] : engines)
    if (!name.starts_with("capacity-") && client.engines.size() < kFdinfoEnginesMax)
      client.engines.emplace_back(name, Duration{ns});
  RC_ASSERT(ParseFdinfo(FdinfoText(client)) == client);
}

}  // namespace
}  // namespace weir::account
