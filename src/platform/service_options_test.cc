// SPDX-License-Identifier: Apache-2.0
#include "platform/service_options.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <sstream>

namespace weir::platform {
namespace {

/// One option of each kind.
struct EveryKind {
  EveryKind() {
    options.Add("--path", "PATH", path, "where it is");
    options.AddFlag("--quiet", quiet, "print only errors");
    options.AddText("\nOF EACH DEVICE\n");
    options.Add("--device", "NAME", devices, "a device; may be repeated");
    options.AddChoice("--mode", mode, {"auto", "never", "always"}, "when to cut");
    options.AddWhole("--count", "N", count, 1, 128, "how many");
    options.AddWhole("--bytes", "N", bytes, 0, std::numeric_limits<std::uint64_t>::max(), "how much");
    options.AddReal("--rate", "GB/S", rate, 0.5, 1e9, "how fast");
    options.AddSeconds("--idle", idle, Duration{0}, seconds(1'000'000'000), "how long; 0: for ever");
    options.AddDescriptor("--ready-fd", descriptor, "where to write");
    options.AddParent(parent);
    options.AddParsed(
        "--pair", "A,B",
        [this](const std::string& text) -> Status {
          if (text.find(',') == std::string::npos) return Fail(Errc::kInvalidArgument, "takes two words");
          pair = text;
          return Ok();
        },
        "two words");
  }

  /// The error; empty: the options were read.
  std::string ErrorOf(const std::vector<std::string>& given) {
    const auto outcome = options.ParseTexts(given);
    if (outcome) return "";
    EXPECT_EQ(outcome.error().code, Errc::kInvalidArgument);
    return outcome.error().message;
  }

  ServiceOptions options{"weir-test", "Usage: weir-test [OPTIONS]\n"};
  std::string path, mode = "auto", pair;
  bool quiet = false;
  std::vector<std::string> devices;
  std::uint32_t count = 16;
  std::uint64_t bytes = 0;
  double rate = 2.5;
  Duration idle = seconds(604'800);
  int descriptor = -1;
  pid_t parent = 0;
};

TEST(ServiceOptions, KeepTheirValuesIfTheyAreNotGiven) {
  EveryKind kind;
  EXPECT_EQ(kind.ErrorOf({}), "");
  EXPECT_EQ(kind.mode, "auto");
  EXPECT_EQ(kind.count, 16u);
  EXPECT_EQ(kind.idle, seconds(604'800));
  EXPECT_FALSE(kind.quiet);
}

TEST(ServiceOptions, AnErrorNamesWhatWasGiven) {
  EveryKind kind;
  EXPECT_EQ(kind.ErrorOf({"--quiet", "--no-such", "x"}), "unknown option '--no-such'");
  EXPECT_EQ(kind.ErrorOf({"--no-such=3"}), "unknown option '--no-such=3'");
  EXPECT_EQ(kind.ErrorOf({"-x"}), "unknown option '-x'");
  EXPECT_EQ(kind.ErrorOf({"--pat", "x"}), "unknown option '--pat'") << "a new option must not change an abbreviation";
  EXPECT_EQ(kind.ErrorOf({"--=x"}), "unknown option '--=x'");
  EXPECT_EQ(kind.ErrorOf({"--quiet=3"}), "option '--quiet' takes no value, not '3'");
  EXPECT_EQ(kind.ErrorOf({"--quiet", "--path"}), "option '--path' needs a value: PATH");
  EXPECT_EQ(kind.ErrorOf({"--quiet", "stray"}), "unexpected argument 'stray'");
  EXPECT_EQ(kind.ErrorOf({""}), "unexpected argument ''");
  EXPECT_EQ(kind.ErrorOf({"--", "--quiet"}), "unexpected argument '--quiet'");
}

TEST(ServiceOptions, AnErrorSaysWhatIsAccepted) {
  EveryKind kind;
  for (const std::string bad : {"0", "129", "-1", "+1", " 1", "1 ", "1.5", "0x1", "abc", "", "99999999999999999999"})
    EXPECT_EQ(kind.ErrorOf({"--count", bad}), "--count takes a whole number from 1 to 128, not '" + bad + "'");
  for (const std::string bad : {"0", "abc", "2147483648"})
    EXPECT_EQ(kind.ErrorOf({"--parent", bad}), "--parent takes a whole number from 1 to 2147483647, not '" + bad + "'");
  for (const std::string bad : {"0.4", "nan", "inf", "-inf", "1e10", "1,5", ""})
    EXPECT_EQ(kind.ErrorOf({"--rate", bad}), "--rate takes a number from 0.5 to 1000000000, not '" + bad + "'");
  for (const std::string bad : {"-1", "1000000001", "1s", "nan"})
    EXPECT_EQ(kind.ErrorOf({"--idle=" + bad}),
              "--idle takes a number of seconds from 0 to 1000000000, not '" + bad + "'");
  for (const std::string bad : {"-1", "x", "999999"})
    EXPECT_EQ(kind.ErrorOf({"--ready-fd", bad}),
              "--ready-fd takes the number of an open descriptor, not '" + bad + "'");
  EXPECT_EQ(kind.ErrorOf({"--mode", "some"}), "--mode takes auto, never or always, not 'some'");
  EXPECT_EQ(kind.ErrorOf({"--pair", "one"}), "--pair takes two words, not 'one'");
  EXPECT_EQ(kind.count, 16u) << "a value that is refused is not kept";
}

TEST(ServiceOptions, AValueMayLookLikeAnOption) {
  EveryKind kind;
  EXPECT_EQ(kind.ErrorOf({"--device", "--quiet", "--device", "-h", "--device=--path=x"}), "");
  EXPECT_EQ(kind.devices, (std::vector<std::string>{"--quiet", "-h", "--path=x"}));
  EXPECT_FALSE(kind.quiet);
}

TEST(ServiceOptions, TheLastValueCounts) {
  EveryKind kind;
  EXPECT_EQ(kind.ErrorOf({"--count", "2", "--count=3", "--path", "a", "--path", ""}), "");
  EXPECT_EQ(kind.count, 3u);
  EXPECT_EQ(kind.path, "");
}

TEST(ServiceOptions, ArgumentsAreTakenWhereTheProgramHasSome) {
  EveryKind kind;
  std::vector<std::string> arguments;
  kind.options.AddArguments(arguments);
  EXPECT_EQ(kind.ErrorOf({"stats", "--path", "/x", "-", "--", "--quiet"}), "");
  EXPECT_EQ(arguments, (std::vector<std::string>{"stats", "-", "--quiet"}));
  EXPECT_EQ(kind.path, "/x");
  EXPECT_FALSE(kind.quiet);
}

TEST(ServiceOptions, HelpListsEveryOptionWithItsDefault) {
  EveryKind kind;
  EXPECT_EQ(kind.options.Help(), R"(Usage: weir-test [OPTIONS]

  --path PATH               where it is
  --quiet                   print only errors

OF EACH DEVICE
  --device NAME             a device; may be repeated
  --mode auto|never|always  when to cut (default: auto)
  --count N                 how many (default: 16)
  --bytes N                 how much
  --rate GB/S               how fast (default: 2.5)
  --idle SECONDS            how long; 0: for ever (default: 604800)
  --ready-fd FD             where to write
  --parent PID              end when this process has ended
  --pair A,B                two words
)");
}

TEST(ServiceOptions, HelpShowsADefaultOnceAndWrapsLongLines) {
  ServiceOptions options("weir-test", "Usage: weir-test\n");
  std::string socket = "/run/x";
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word" + std::to_string(i) + " ";
  options.Add("--socket", "PATH", socket, "listen there (default: in the run folder)");
  options.Add("--long", "X", socket, words);
  const std::string help = options.Help();
  EXPECT_NE(help.find("/run/x"), std::string::npos);
  EXPECT_EQ(help.find("/run/x"), help.rfind("/run/x")) << "of --long only";
  EXPECT_NE(help.find("(default: in the run folder)\n"), std::string::npos);
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  for (int i = 0; i < 60; ++i) EXPECT_NE(help.find("word" + std::to_string(i)), std::string::npos) << i;
}

TEST(ServiceOptions, MainGetsAnExitStatus) {
  EveryKind kind;
  const char* const right[] = {"weir-test", "--count", "3", nullptr};
  EXPECT_EQ(kind.options.Parse(3, right), std::nullopt);
  EXPECT_EQ(kind.count, 3u);
  const char* const help[] = {"weir-test", "-h", "--no-such", nullptr};
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(kind.options.Parse(3, help), 0);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), kind.options.Help());
  const char* const wrong[] = {"weir-test", "--count", "%s", nullptr};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(kind.options.Parse(3, wrong), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "weir-test: --count takes a whole number from 1 to 128, not '%s'; see weir-test --help\n");
  EXPECT_EQ(kind.options.Parse(0, right + 3), std::nullopt);  // a program may be executed without even its name
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(kind.options.ExitStatusOf(Ok()), 0);
  EXPECT_EQ(kind.options.ExitStatusOf(Fail(Errc::kNotFound, "no GPU")), 3);
  EXPECT_EQ(ExitStatusOf("weir", Fail(Errc::kBusy, "taken")), 5);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "weir-test: no GPU\nweir: taken\n");
}

// -- Any order, and any text -----------------------------------------------------------------------------------------

/// `indices` sorted by generated keys.
std::vector<std::size_t> AnyOrder(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<int> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(*rc::gen::inRange(0, 1'000'000));
  std::ranges::stable_sort(order, {}, [&keys](std::size_t i) { return keys[i]; });
  return order;
}

RC_GTEST_PROP(ServiceOptions, ValuesSurviveInAnyOrder, ()) {
  const auto path = *rc::gen::arbitrary<std::string>(), device = *rc::gen::arbitrary<std::string>();
  const auto count = *rc::gen::inRange(1, 129), descriptor = *rc::gen::inRange(1, 3),
             pid = *rc::gen::inRange(1, 1 << 30);
  const auto bytes = *rc::gen::arbitrary<std::uint64_t>();
  const auto quarters = *rc::gen::inRange(2, 1'000'000);  // quarters are exact in binary
  const std::string mode = *rc::gen::elementOf(std::vector<std::string>{"auto", "never", "always"});
  const auto quiet = *rc::gen::arbitrary<bool>();
  std::vector<std::pair<std::string, std::string>> given{{"--path", path},
                                                         {"--device", device},
                                                         {"--mode", mode},
                                                         {"--count", std::to_string(count)},
                                                         {"--bytes", std::to_string(bytes)},
                                                         {"--rate", std::to_string(quarters / 4.0)},
                                                         {"--idle", std::to_string(quarters / 4.0)},
                                                         {"--ready-fd", std::to_string(descriptor)},
                                                         {"--parent", std::to_string(pid)},
                                                         {"--pair", path + "," + device}};
  if (quiet) given.emplace_back("--quiet", "");
  std::vector<std::string> line;
  for (const std::size_t i : AnyOrder(given.size())) {
    const auto& [name, value] = given[i];
    if (name == "--quiet") {
      line.push_back(name);
    } else if (*rc::gen::arbitrary<bool>()) {
      line.push_back(name + "=" + value);
    } else {
      line.insert(line.end(), {name, value});
    }
  }
  EveryKind kind;
  RC_ASSERT(kind.ErrorOf(line) == "");
  RC_ASSERT(kind.path == path);
  RC_ASSERT(kind.devices == std::vector<std::string>{device});
  RC_ASSERT(kind.mode == mode);
  RC_ASSERT(kind.count == static_cast<std::uint32_t>(count));
  RC_ASSERT(kind.bytes == bytes);
  RC_ASSERT(kind.rate == quarters / 4.0);
  RC_ASSERT(kind.idle == milliseconds(250) * quarters);
  RC_ASSERT(kind.descriptor == descriptor);
  RC_ASSERT(kind.parent == pid);
  RC_ASSERT(kind.pair == path + "," + device);
  RC_ASSERT(kind.quiet == quiet);
}

RC_GTEST_PROP(ServiceOptions, AnyTextIsReadOrRefused, ()) {
  static const std::vector<std::string> kWords{
      "--path",   "--quiet",    "--device", "--mode", "--count", "--bytes", "--rate", "--idle", "--pair",
      "--parent", "--ready-fd", "-",        "--",     "-=",      "--=",     "=",      "",       "-h",
      "--help",   "1e999",      "-1",       "nan",    "inf",     "1",       "never",  ","};
  const auto line = *rc::gen::container<std::vector<std::string>>(rc::gen::oneOf(
      rc::gen::elementOf(kWords), rc::gen::arbitrary<std::string>(),
      rc::gen::map(rc::gen::pair(rc::gen::elementOf(kWords), rc::gen::arbitrary<std::string>()),
                   [](const std::pair<std::string, std::string>& both) { return both.first + "=" + both.second; })));
  EveryKind kind;
  const auto outcome = kind.options.ParseTexts(line);
  // RapidCheck would evaluate both sides of an || in RC_ASSERT.
  const bool good = outcome || (outcome.error().code == Errc::kInvalidArgument && !outcome.error().message.empty());
  RC_ASSERT(good);
  RC_ASSERT(kind.count >= 1 && kind.count <= 128);
  RC_ASSERT(kind.rate >= 0.5 && kind.rate <= 1e9);
  RC_ASSERT(kind.idle >= Duration{0} && kind.idle <= seconds(1'000'000'000));
  RC_ASSERT(kind.parent >= 0);
  RC_ASSERT(kind.mode == "auto" || kind.mode == "never" || kind.mode == "always");
}

}  // namespace
}  // namespace weir::platform
