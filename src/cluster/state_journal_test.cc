// SPDX-License-Identifier: Apache-2.0
#include "cluster/state_journal.h"

#include <gtest/gtest.h>

#include "cluster/memory_store.h"
#include "tests/harness/fake_disk.h"
#include "tests/harness/temp_folder.h"

namespace weir::cluster {
namespace {

using weir::testing::FakeDisk;
using weir::testing::PowerCut;
using weir::testing::TempFolder;

Change Is(std::string key, std::string value) { return {std::move(key), std::move(value)}; }

std::string ThreeLines() {
  JournalWriter writer;
  std::string text = writer.Begin(5);
  text += writer.Line(5, std::vector{Is("a", "1"), Is("b", "2")});
  text += writer.Line(6, std::vector{Is("a", "3"), Change{"b", {}}});
  return text;
}

TEST(Journal, IsReadAsItWasWritten) {
  const std::string text = ThreeLines();
  const auto content = ParseJournal(text);
  ASSERT_TRUE(content.has_value()) << content.error().message;
  EXPECT_EQ(content->fence, 6U);
  EXPECT_EQ(content->records, (std::map<std::string, std::string>{{"a", "3"}}));
  EXPECT_EQ(content->good_bytes, text.size());
}

// Published formats: journals of these versions must stay readable.
TEST(Journal, VersionsOneAndTwoAreReadForEver) {
  const auto one =
      ParseJournal("{\"fence\":3}\n{\"fence\":3,\"set\":{\"a\":\"1\",\"b\":\"2\"}}\n{\"fence\":4,\"gone\":[\"b\"]}\n");
  ASSERT_TRUE(one.has_value()) << one.error().message;
  EXPECT_EQ(one->fence, 4U);
  EXPECT_EQ(one->records, (std::map<std::string, std::string>{{"a", "1"}}));
  const auto two = ParseJournal(R"({"fence":5,"weir_journal":2,"crc32c":"3286be6a"})"
                                "\n"
                                R"({"fence":5,"set":{"weir/record/run/a":"1","b":"2"},"crc32c":"cdb9605c"})"
                                "\n"
                                R"({"fence":6,"set":{"b":"3"},"gone":["weir/record/run/a"],"crc32c":"286ac655"})"
                                "\n");
  ASSERT_TRUE(two.has_value()) << two.error().message;
  EXPECT_EQ(two->fence, 6U);
  EXPECT_EQ(two->records, (std::map<std::string, std::string>{{"b", "3"}}));
  EXPECT_EQ(ParseJournal("{\"fence\":1,\"weir_journal\":3}\n").error().code, Errc::kVersionMismatch);
}

TEST(Journal, ATornLastLineIsLeftOut) {
  const std::string text = ThreeLines();
  const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
  for (std::size_t size = last; size < text.size(); ++size) {
    const auto content = ParseJournal(std::string_view(text).substr(0, size));
    ASSERT_TRUE(content.has_value()) << size << ": " << content.error().message;
    EXPECT_EQ(content->good_bytes, last);
    EXPECT_EQ(content->records.at("a"), "1");
  }
  for (std::size_t at = last; at + 1 < text.size(); ++at) {
    std::string zeros = text;  // a block that was never written
    zeros[at] = '\0';
    const auto content = ParseJournal(zeros);
    ASSERT_TRUE(content.has_value()) << at << ": " << content.error().message;
    EXPECT_EQ(content->good_bytes, last);
  }
}

TEST(Journal, DamageInAnyOtherLineIsRefused) {
  const std::string text = ThreeLines();
  const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
  for (std::size_t at = 0; at < last; ++at)
    for (const char change : {'\x01', '\x20', '\x7f'}) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      const auto content = ParseJournal(damaged);
      ASSERT_FALSE(content.has_value()) << damaged;
    }
}

TEST(Journal, DetectsAMissingLine) {
  JournalWriter writer;
  const std::string begin = writer.Begin(1), first = writer.Line(1, std::vector{Is("a", "1")}),
                    second = writer.Line(1, std::vector{Is("b", "2")}),
                    third = writer.Line(1, std::vector{Is("c", "3")});
  EXPECT_TRUE(ParseJournal(begin + first + second + third).has_value());
  EXPECT_EQ(ParseJournal(begin + second + third).error().message, "line 2 is damaged, or lines before it are missing");
  EXPECT_FALSE(ParseJournal(begin + first + first + third).has_value());
  EXPECT_FALSE(ParseJournal(begin + second + first + third).has_value());
}

TEST(Journal, AFileWithoutOneGoodLineIsRefused) {
  for (const char* text : {"nonsense", "nonsense\n", "\n", "{\"fence\":1", "[]\n"})
    EXPECT_EQ(ParseJournal(text).error().code, Errc::kProtocol) << text;
  EXPECT_TRUE(ParseJournal("").has_value());
}

constexpr int kWrites = 5;

/// Writes k=1 … k=kWrites. Each write is tried until it succeeds or has failed three times, as StateWriter does.
/// Returns the last value that was confirmed.
int WriteAllTo(FakeDisk& disk, const std::string& path) {
  int confirmed = 0;
  try {
    const auto store = MemoryStore::Open(path, disk);
    if (!store) return confirmed;
    auto lead = (*store)->TakeLead("a:1", {});
    if (!lead) lead = (*store)->TakeLead("a:1", {});
    if (!lead) return confirmed;
    for (int value = 1; value <= kWrites; ++value)
      for (int tries = 0; tries < 3; ++tries)
        if ((*store)->Write(*lead, std::vector{Is("k", std::to_string(value)), Is("pad", std::string(200, 'x'))})) {
          confirmed = value;
          break;
        }
  } catch (const PowerCut&) {
  }
  return confirmed;
}

void ExpectNothingLost(FakeDisk& disk, const std::string& path, int confirmed, std::uint64_t seed) {
  Prng prng(seed);
  disk.Restart(prng);
  const auto store = MemoryStore::Open(path, disk);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  int value = 0;
  const std::vector<Entry> entries = (*store)->Read().value();
  for (const Entry& entry : entries)
    if (entry.key == "k") value = std::stoi(entry.value);
  EXPECT_GE(value, confirmed);
}

TEST(JournalOnDisk, AFaultAtAnyCallThenAPowerCutLosesNothingThatWasConfirmed) {
  const TempFolder folder;  // holds only the lock
  const std::string path = folder / "journal";
  FakeDisk whole;
  ASSERT_EQ(WriteAllTo(whole, path), kWrites);
  ASSERT_GT(whole.calls(), 2U * kWrites);
  for (const int error : {0, EIO, ENOSPC})
    for (std::size_t at = 0; at < whole.calls(); ++at)
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        SCOPED_TRACE("error " + std::to_string(error) + " at call " + std::to_string(at) + ", seed " +
                     std::to_string(seed));
        FakeDisk disk;
        disk.Break(FakeDisk::Fault{.at = at, .error = error});
        const int confirmed = WriteAllTo(disk, path);
        EXPECT_TRUE(error == 0 || at < 5 || confirmed == kWrites) << "a failure is made good by writing again";
        ExpectNothingLost(disk, path, confirmed, seed);
        if (HasFailure()) return;
      }
}

TEST(JournalOnDisk, ATornRecordIsKeptBesideTheJournal) {
  const TempFolder folder;
  const std::string path = folder / "journal";
  FakeDisk disk;
  ASSERT_EQ(WriteAllTo(disk, path), kWrites);
  disk.Content(path) += "{\"fence\":1,\"set\":{\"k\":\"to";
  ASSERT_TRUE(MemoryStore::Open(path, disk).has_value());
  EXPECT_EQ(disk.Content(path + ".torn"), "{\"fence\":1,\"set\":{\"k\":\"to");
}

TEST(JournalOnDisk, ADamagedRecordIsRefusedWithTheWayBack) {
  const TempFolder folder;
  const std::string path = folder / "journal";
  FakeDisk disk;
  ASSERT_EQ(WriteAllTo(disk, path), kWrites);
  disk.Content(path)[60] ^= 1;
  const std::string before = disk.Content(path);
  const auto store = MemoryStore::Open(path, disk);
  ASSERT_FALSE(store.has_value());
  for (const std::string& says : {path + ": line 2 is damaged", "mv " + path})
    EXPECT_NE(store.error().message.find(says), std::string::npos) << store.error().message;
  EXPECT_EQ(disk.Content(path), before) << "nothing was changed";
}

TEST(JournalOnDisk, LargeRecordsThatAreReplacedDoNotFillTheDisk) {
  const TempFolder folder;
  const std::string path = folder / "journal";
  FakeDisk disk;
  const auto store = MemoryStore::Open(path, disk).value();
  const Lead lead = store->TakeLead("a:1", {}).value();
  const std::string large(std::size_t{512} << 10, 'x');
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(store->Write(lead, std::vector{Is("k", large + std::to_string(i))}));
  EXPECT_LT(disk.Content(path).size(), 9 * large.size());
  EXPECT_EQ(ParseJournal(disk.Content(path))->records.at("k"), large + "11");
}

}  // namespace
}  // namespace weir::cluster
