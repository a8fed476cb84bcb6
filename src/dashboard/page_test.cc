// SPDX-License-Identifier: Apache-2.0
#include "dashboard/page.h"

#include <gtest/gtest.h>

#include <string>

#include "dashboard/access.h"

namespace weir::dashboard {
namespace {

TEST(DashboardPage, EachFileOfTheTableIsCompiledIn) {
  for (const char* path : {"/", "/app.js", "/app.css", "/icon.svg"}) {
    const PageFile* const file = FindPage(path);
    ASSERT_NE(file, nullptr) << path;
    EXPECT_FALSE(file->content.empty()) << path;
  }
  EXPECT_EQ(FindPage("/index.html"), nullptr);
  EXPECT_TRUE(FindPage("/")->content.starts_with("<!doctype html>") ||
              FindPage("/")->content.starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(FindPage("/app.js")->content_type, "text/javascript; charset=utf-8");
}

// The content security policy forbids inline scripts and styles, so a page with any would not work.
TEST(DashboardPage, ItHasNoScriptAndNoStyleInItsText) {
  const std::string index(FindPage("/")->content);
  for (const char* found : {"<style", "style=\"", "onclick=", "javascript:", "<script>"})
    EXPECT_EQ(index.find(found), std::string::npos) << found;
}

}  // namespace
}  // namespace weir::dashboard
