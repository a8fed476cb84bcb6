// SPDX-License-Identifier: Apache-2.0
#include "modules/kernel_profile.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::modules {
namespace {

/// A published format: profiles of version 1 must stay readable.
constexpr std::string_view kGoldenProfile = R"({
 "weir_profile": 1,
 "device": {
  "name": "device0",
  "model": "a processor's unit",
  "memory_bytes": 1073741824,
  "concurrent_max": 16,
  "local_memory": 8,
  "traffic": 10000,
  "threads": 1024,
  "blocks": 8
 },
 "kernels": [
  {
   "module": "sort",
   "kernel": "sorting-network",
   "arguments": "n=65536",
   "blob": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
   "need": {
    "memory_bytes": 262144,
    "local_memory": 0,
    "traffic": 2350,
    "threads": 1024,
    "blocks": 8,
    "alone_s": 0.125
   },
   "loads": "measured",
   "runs": 3
  },
  {
   "module": "bs",
   "kernel": "black-scholes",
   "arguments": "",
   "blob": "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210",
   "need": {
    "memory_bytes": 0,
    "local_memory": 4,
    "traffic": 250,
    "threads": 512,
    "blocks": 4,
    "alone_s": 0.25
   },
   "loads": "declared",
   "runs": 5
  }
 ],
 "pairs": [
  {
   "first": 0,
   "second": 0,
   "first_s": 0.25,
   "second_s": 0.25,
   "first_beside": 1.0,
   "second_beside": 0.96875
  },
  {
   "first": 0,
   "second": 1,
   "first_s": 0.25,
   "second_s": 0.5,
   "first_beside": 1.0,
   "second_beside": 1.0
  }
 ]
}
)";

KernelProfile GoldenProfile() { return ProfileFrom(kGoldenProfile).value(); }

/// `text` with the first occurrence of `from` replaced.
std::string Altered(const std::string& from, const std::string& to) {
  std::string text(kGoldenProfile);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string WhyNoProfile(const std::string& text) {
  const auto profile = ProfileFrom(text);
  return profile ? "" : profile.error().message;
}

TEST(KernelProfile, GoldenTextIsReadAndWrittenAsItWasPublished) {
  const KernelProfile profile = GoldenProfile();
  EXPECT_EQ(ProfileText(profile), kGoldenProfile);
  EXPECT_EQ(profile.kernels[0].work, (KernelWork{"sort", "sorting-network", "n=65536"}));
  EXPECT_EQ(profile.kernels[0].need.loads, (core::Loads{0, 2350, 1024, 8}));
  EXPECT_EQ(profile.kernels[0].loads_from, LoadsFrom::kMeasured);
  EXPECT_EQ(profile.kernels[1].alone_s, 0.25);
  EXPECT_EQ(profile.capacity.loads, (core::Loads{8, 10'000, 1'024, 8}));
  EXPECT_EQ(profile.pairs[1].second_s, 0.5);
  EXPECT_EQ(profile.pairs[0].second_beside, 0.96875);
}

TEST(KernelProfile, FieldsOfALaterWeirAreLeftOut) {
  EXPECT_EQ(WhyNoProfile(Altered("\"pairs\"", "\"fit\": {\"company\": 1}, \"pairs\"")), "");
}

TEST(KernelProfile, ReportsTheErrorOfAMalformedFile) {
  EXPECT_NE(WhyNoProfile("").find("it is not JSON, or is incomplete; 'weir profile --output FILE' makes one"),
            std::string::npos);
  EXPECT_NE(WhyNoProfile(std::string(kGoldenProfile.substr(0, 700))).find("is incomplete"), std::string::npos);
  EXPECT_NE(WhyNoProfile("{\"modules\": []}").find("it has no 'weir_profile'"), std::string::npos);
  EXPECT_NE(WhyNoProfile("[]").find("it has no 'weir_profile'"), std::string::npos);
  const auto later = ProfileFrom(Altered("\"weir_profile\": 1", "\"weir_profile\": 2"));
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code, Errc::kVersionMismatch);
  EXPECT_NE(WhyNoProfile(Altered("\"alone_s\": 0.125", "\"alone_s\": 0")).find("time alone of 0 ms"),
            std::string::npos);
  EXPECT_NE(WhyNoProfile(Altered("\"alone_s\": 0.125", "\"lone_s\": 1")).find("'need' has no 'lone_s'"),
            std::string::npos);
  EXPECT_NE(WhyNoProfile(Altered("\"traffic\": 2350", "\"traffic\": -1")).find("traffic"), std::string::npos);
  EXPECT_NE(WhyNoProfile(Altered("\"blocks\": 8", "\"blocks\": 0")).find("blocks"), std::string::npos);
  EXPECT_NE(WhyNoProfile(Altered("0123456789abcdef", "0123456789abcdeF")).find("a SHA-256"), std::string::npos);
  EXPECT_NE(WhyNoProfile(Altered("\"measured\"", "\"guessed\"")).find("not 'guessed'"), std::string::npos);
  EXPECT_NE(WhyNoProfile(Altered("\"second\": 1", "\"second\": 2")).find("'second'"), std::string::npos);
  EXPECT_NE(WhyNoProfile(Altered("\"second\": 1", "\"second\": 0.5")).find("not a whole number"), std::string::npos);
  EXPECT_NE(WhyNoProfile(Altered("\"kernels\": [", "\"kernels\": [7,")).find("'kernels' is not a list"),
            std::string::npos);
}

TEST(KernelProfile, OneWorkHasOneEntry) {
  EXPECT_NE(WhyNoProfile(Altered("\"module\": \"bs\",\n   \"kernel\": \"black-scholes\",\n   \"arguments\": \"\"",
                                 "\"module\": \"sort\", \"kernel\": \"sorting-network\", \"arguments\": \"n=65536\""))
                .find("'sort/sorting-network n=65536' has two entries"),
            std::string::npos);
  EXPECT_NE(WhyNoProfile(Altered("\"first\": 0,\n   \"second\": 1", "\"first\": 0,\n   \"second\": 0"))
                .find("kernels 0 and 0 have two pairs"),
            std::string::npos);
}

/// A prefix of the text, or the text with one byte changed.
RC_GTEST_PROP(KernelProfile, IsRefusedOrSurvivesTheRoundTrip, ()) {
  std::string text(kGoldenProfile);
  if (*rc::gen::arbitrary<bool>()) text.resize(*rc::gen::inRange<std::size_t>(0, text.size() + 1));
  if (!text.empty() && *rc::gen::arbitrary<bool>())
    text[*rc::gen::inRange<std::size_t>(0, text.size())] = *rc::gen::arbitrary<char>();
  const auto profile = ProfileFrom(text);
  if (!profile) return;
  const auto again = ProfileFrom(ProfileText(*profile));
  RC_ASSERT(again.has_value());
  RC_ASSERT(ProfileText(*again) == ProfileText(*profile));
  RC_ASSERT(FitOf(*profile).has_value());
}

TEST(KernelProfile, AnswersForExactlyTheWorkThatWasProfiled) {
  const KernelProfile profile = GoldenProfile();
  const auto entry = EntryFor(profile, {"sort", "sorting-network", "n=65536"});
  ASSERT_TRUE(entry);
  EXPECT_EQ(NeedOf(*entry).dump(),
            R"({"memory_bytes":262144,"local_memory":0,"traffic":2350,"threads":1024,"blocks":8,"alone_s":0.125})");
  const auto other = EntryFor(profile, {"sort", "sorting-network", "n=4"});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::kNotFound);
  EXPECT_NE(other.error().message.find("no 'sort/sorting-network n=4': of that kernel it has arguments 'n=65536'"),
            std::string::npos);
  EXPECT_NE(EntryFor(profile, {"sort", "merge", ""}).error().message.find("nothing of that kernel"), std::string::npos);
}

TEST(KernelProfile, ReadsWorkAsItIsWritten) {
  for (const KernelWork& work : {KernelWork{"m", "k", ""}, KernelWork{"m.1", "k-2", "n=4 path=/a/b"}}) {
    const auto read = ParseWork(TextOf(work));
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, work);
  }
  for (const char* none : {"", "m", "m/", "/k", "m k/n", "m/k/l", "m/k\tn"}) EXPECT_FALSE(ParseWork(none)) << none;
}

TEST(KernelProfile, FitsALineThroughItsPairs) {
  const auto model = FitOf(GoldenProfile());
  ASSERT_TRUE(model);
  // Every kernel takes twice its time beside every other one, whatever their loads: the device alternates between them.
  EXPECT_NEAR(model->weights().back(), 1, 0.05);
  EXPECT_EQ(SlowdownsOf(GoldenProfile(), GoldenProfile().pairs[1]), (std::array<double, 2>{2, 2}));
}

}  // namespace
}  // namespace weir::modules
