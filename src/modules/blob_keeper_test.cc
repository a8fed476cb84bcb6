// SPDX-License-Identifier: Apache-2.0
#include "modules/blob_keeper.h"

#include <gtest/gtest.h>

#include <functional>

#include "platform/clock.h"
#include "tests/harness/temp_folder.h"

namespace weir::modules {
namespace {

class BlobKeeperTest : public ::testing::Test {
 protected:
  void RunUntil(const std::function<bool()>& holds) {
    for (const Instant until = platform::Now() + seconds(20); !holds() && platform::Now() < until;) {
      loop_.restart();
      loop_.run_for(milliseconds(5));
    }
    EXPECT_TRUE(holds());
  }

  weir::testing::TempFolder folder_;
  ModuleStore store_ = *ModuleStore::Open(folder_.path() + "/blobs");
  boost::asio::io_context loop_{1};
};

TEST_F(BlobKeeperTest, UnusedBlobsAreRemovedAfterTheGraceTime) {
  const std::string named = store_.Put("named")->blob, first = store_.Put("first")->blob;
  bool known = false;
  const BlobKeeper keeper(loop_, store_, milliseconds(200), [&] {
    return known ? std::optional(std::vector{named, std::string(64, '0')}) : std::nullopt;
  });
  int turns = 0;
  RunUntil([&] { return ++turns > 80; });
  EXPECT_TRUE(store_.Has(first)) << "who doesn't know the names removes nothing";
  known = true;
  RunUntil([&] { return !store_.Has(first); });
  const std::string later = store_.Put("later")->blob;
  RunUntil([&] { return !store_.Has(later); });
  EXPECT_TRUE(store_.Has(named));
}

TEST_F(BlobKeeperTest, WithoutAGraceTimeNothingIsRemoved) {
  const std::string blob = store_.Put("blob")->blob;
  int asked = 0;
  const BlobKeeper keeper(loop_, store_, {}, [&] {
    ++asked;
    return std::optional<std::vector<std::string>>(std::in_place);
  });
  RunUntil([&] { return asked > 0; });
  EXPECT_TRUE(store_.Has(blob));
}

}  // namespace
}  // namespace weir::modules
