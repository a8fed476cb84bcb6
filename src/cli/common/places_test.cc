// SPDX-License-Identifier: Apache-2.0
#include "cli/common/places.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace weir::cli {
namespace {

namespace fs = std::filesystem;

class PlacesTest : public ::testing::Test {
 protected:
  PlacesTest() {
    std::string name = ::testing::TempDir() + "/weir-places-XXXXXX";
    dir_ = mkdtemp(name.data());
    unsetenv("WEIR_SOCKET");
    unsetenv("WEIR_LIB_DIR");
  }
  ~PlacesTest() override {
    fs::remove_all(dir_);
    unsetenv("WEIR_SOCKET");
    unsetenv("WEIR_LIB_DIR");
  }
  void Touch(const fs::path& path) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
  }
  fs::path dir_;
};

TEST_F(PlacesTest, AFlagWinsOverTheEnvironmentAndThatOverTheRunFolder) {
  EXPECT_EQ(FindPlaces({.run_dir = "/r", .socket = ""}).socket, "/r/control.sock");
  EXPECT_FALSE(FindPlaces({.run_dir = "/r", .socket = ""}).socket_named);
  setenv("WEIR_SOCKET", "/e.sock", 1);
  EXPECT_EQ(FindPlaces({}).socket, "/e.sock");
  EXPECT_TRUE(FindPlaces({}).socket_named);
  EXPECT_EQ(FindPlaces({.run_dir = "", .socket = "/f.sock"}).socket, "/f.sock");
  EXPECT_EQ(FindPlaces({.run_dir = "/r", .socket = ""}).socket, "/r/control.sock");
}

TEST_F(PlacesTest, FindsTheShimBesideTheProgramOrByEnvironment) {
  const fs::path self = dir_ / "bin/weir";
  const auto missing = FindPreloadLibrary(self);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
  EXPECT_NE(missing.error().message.find("WEIR_LIB_DIR"), std::string::npos);

  Touch(dir_ / "lib/weir/libweir-gl-preload.so");
  EXPECT_EQ(FindPreloadLibrary(self).value(), (dir_ / "lib/weir/libweir-gl-preload.so").lexically_normal());
  Touch(dir_ / "other/libweir-gl-preload.so");
  setenv("WEIR_LIB_DIR", (dir_ / "other").c_str(), 1);
  EXPECT_EQ(FindPreloadLibrary(self).value(), (dir_ / "other/libweir-gl-preload.so").lexically_normal());
}

TEST_F(PlacesTest, FindsTheVulkanLayersManifestBesideTheStub) {
  const fs::path library = dir_ / "lib/weir/libweir-gl-preload.so";
  EXPECT_EQ(FindVulkanLayer(library), "");
  Touch(dir_ / "lib/weir/share/vulkan/implicit_layer.d/weir_layer.json");
  EXPECT_EQ(FindVulkanLayer(library), (dir_ / "lib/weir/share").string());
}

TEST(ComposeDataDirs, KeepsTheProgramsOwnFoldersInFront) {
  EXPECT_EQ(ComposeDataDirs("", "/w/share"), "/usr/local/share:/usr/share:/w/share");
  EXPECT_EQ(ComposeDataDirs("/home/u/share:/usr/share", "/w/share"), "/home/u/share:/usr/share:/w/share");
  EXPECT_EQ(ComposeDataDirs("/w/share:/usr/share", "/w/share"), "/w/share:/usr/share") << "once";
}

TEST(ComposePreload, KeepsWhatTheUserPreloads) {
  EXPECT_EQ(ComposePreload("", "/l/a.so").value(), "/l/a.so");
  EXPECT_EQ(ComposePreload("libx.so", "/l/a.so").value(), "/l/a.so:libx.so");
  EXPECT_EQ(ComposePreload("x.so y.so:z.so", "/l/a.so").value(), "/l/a.so:x.so y.so:z.so");
}

TEST(ComposePreload, AddsItselfOnlyOnce) {
  EXPECT_EQ(ComposePreload("/l/a.so", "/l/a.so").value(), "/l/a.so");
  EXPECT_EQ(ComposePreload("x.so /l/a.so", "/l/a.so").value(), "x.so /l/a.so");
}

TEST(ComposePreload, RefusesPathsThatLdSoWouldSplit) {
  for (const char* path : {"/my lib/a.so", "/l:m/a.so"}) {
    const auto composed = ComposePreload("", path);
    ASSERT_FALSE(composed) << path;
    EXPECT_EQ(composed.error().code, Errc::kInvalidArgument);
  }
}

}  // namespace
}  // namespace weir::cli
