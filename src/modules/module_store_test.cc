// SPDX-License-Identifier: Apache-2.0
#include "modules/module_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "modules/sha256.h"
#include "tests/harness/temp_folder.h"

namespace weir::modules {
namespace {

TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(Sha256Of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-4
  EXPECT_TRUE(IsSha256(Sha256Of("")));
  EXPECT_FALSE(IsSha256("BA" + std::string(62, '0')));
}

class Stores : public ::testing::Test {
 protected:
  weir::testing::TempFolder folder_;
  ModuleStore store_ = *ModuleStore::Open(folder_.path() + "/blobs");

  void Overwrite(const std::string& blob, const std::string& bytes) {
    std::ofstream(store_.folder() + "/" + blob, std::ios::binary | std::ios::trunc) << bytes;
  }
};

TEST_F(Stores, ReturnStoredBlobs) {
  const auto first = store_.Put("bytes");
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->added);
  EXPECT_FALSE(store_.Put("bytes")->added);
  EXPECT_EQ(*store_.Get(first->blob), "bytes");
}

TEST_F(Stores, RemoveOldBlobs) {
  const std::string old = store_.Put("old")->blob, touched = store_.Put("touched")->blob, put = store_.Put("put")->blob,
                    young = store_.Put("young")->blob;
  const auto age = [&](const std::string& name, std::chrono::hours by) {
    const std::string path = store_.folder() + "/" + name;
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) - by);
  };
  Overwrite(old + ".torn", "aside");
  Overwrite("README", "of the administrator");
  for (const std::string& name : {old, touched, put, old + ".torn", std::string("README")})
    age(name, std::chrono::hours(30));
  age(young, std::chrono::hours(20));
  store_.Touch(touched);
  store_.Touch("../../etc/passwd");
  EXPECT_FALSE(store_.Put("put")->added);
  EXPECT_EQ(store_.Sweep(seconds(24 * 3600)).value(), 2U);
  EXPECT_FALSE(store_.Has(old));
  for (const std::string& blob : {touched, put, young}) EXPECT_TRUE(store_.Has(blob)) << blob;
  EXPECT_TRUE(std::filesystem::exists(store_.folder() + "/README")) << "no blob";
}

TEST_F(Stores, RefuseBytesOfAnotherName) {
  const auto put = store_.PutAs(Sha256Of("a"), "b");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Errc::kInvalidArgument);
  EXPECT_NE(put.error().message.find(Sha256Of("b")), std::string::npos);
  EXPECT_FALSE(store_.PutAs("../../etc/passwd", "b"));
  EXPECT_EQ(store_.Get("../../etc/passwd").error().code, Errc::kInvalidArgument);
}

TEST_F(Stores, ReplaceDamagedBlobs) {
  const std::string blob = store_.Put("whole")->blob;
  Overwrite(blob, "who");
  const auto torn = store_.Get(blob);
  ASSERT_FALSE(torn);
  EXPECT_EQ(torn.error().code, Errc::kIo);
  EXPECT_EQ(store_.Get(blob).error().code, Errc::kNotFound);
  EXPECT_TRUE(store_.Put("whole")->added);
  EXPECT_EQ(*store_.Get(blob), "whole");
  Overwrite(blob, "torn again");
  EXPECT_TRUE(store_.Put("whole")->added);
}

TEST_F(Stores, TakeNothingTooLarge) {
  const auto put = store_.Put(std::string(ModuleStore::kBlobBytesMax + 1, '\0'));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Errc::kResourceExhausted);
}

TEST_F(Stores, GiveTheFileOfABlobToThoseWithoutARightToTheFolder) {
  const std::string blob = store_.Put("bytes")->blob;
  const platform::Fd file = store_.File(blob).value();
  EXPECT_EQ(ReadBlob(file, blob).value(), "bytes");
  EXPECT_EQ(ReadBlob(file, Sha256Of("other")).error().code, Errc::kIo);
  Overwrite(blob, "torn");
  EXPECT_EQ(ReadBlob(store_.File(blob).value(), blob).error().code, Errc::kIo);
  EXPECT_EQ(store_.File(Sha256Of("absent")).error().code, Errc::kNotFound);
  EXPECT_EQ(store_.File("../../etc/passwd").error().code, Errc::kInvalidArgument);
}

TEST_F(Stores, ReportAMissingFolder) {
  std::filesystem::remove_all(store_.folder());
  EXPECT_EQ(store_.Get(Sha256Of("x")).error().code, Errc::kNotFound);
  EXPECT_FALSE(store_.Put("x"));
}

}  // namespace
}  // namespace weir::modules
