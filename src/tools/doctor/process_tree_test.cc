// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/process_tree.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tools/doctor/trial.h"

namespace weir::cli {
namespace {

TEST(ProcessTree, HoldsThisProcessAndItsLibraries) {
  const auto tree = LookAtTree(getpid());
  ASSERT_FALSE(tree.empty());
  EXPECT_EQ(tree[0].pid, getpid());
  EXPECT_TRUE(tree[0].maps_readable);
  EXPECT_FALSE(tree[0].vulkan || tree[0].layer_loaded);
}

TEST(ProcessTree, LibrariesAreRecognisedByName) {
  TreeProcess p;
  NoteLibraries(
      "7f00-7f01 r-xp 00000000 08:01 1 /opt/weir/lib/weir/libweir-gl-preload.so\n"
      "7f02-7f03 r-xp 00000000 08:01 2 /usr/lib/x86_64-linux-gnu/libGLX.so.0.0.0\n"
      "7f04-7f05 rw-p 00000000 00:00 0 [heap]\n"
      "7f06-7f07 r-xp 00000000 08:01 3 /usr/lib/x86_64-linux-gnu/libEGL.so.1.1.0",
      p);
  EXPECT_TRUE(p.stub_loaded && p.gl && p.egl);
  EXPECT_FALSE(p.shim_loaded || p.vulkan || p.angle || p.musl);
  TreeProcess chrome;
  NoteLibraries("1-2 r-xp 0 08:01 9 /opt/google/chrome/libEGL.so\n3-4 r-xp 0 08:01 8 /usr/lib/libvulkan.so.1\n",
                chrome);
  EXPECT_TRUE(chrome.angle && chrome.vulkan);
  EXPECT_FALSE(chrome.egl);
}

TEST(ProcessTree, EarlierLibrariesCountUntilExec) {
  TreeProcess early;
  early.pid = 5;
  early.program = "a";
  early.gl = true;
  std::vector<TreeProcess> known{early};
  TreeProcess late = early;
  late.gl = false;
  MergeTree({late}, known);
  EXPECT_TRUE(known[0].gl);
  late.program = "b";
  MergeTree({late}, known);
  EXPECT_FALSE(known[0].gl);
  EXPECT_EQ(known.size(), 1U);
}

TEST(AncestryText, ListsTheProcessesFromTheStartedOne) {
  std::vector<TreeProcess> tree(3);
  tree[0] = {.pid = 1, .parent = 0, .program = "launcher"};
  tree[1] = {.pid = 2, .parent = 1, .program = "sh"};
  tree[2] = {.pid = 3, .parent = 2, .program = "game"};
  EXPECT_EQ(AncestryText(tree, 1, 3), "launcher(1) > sh(2)");
  EXPECT_EQ(AncestryText(tree, 1, 1), "");
  tree[2].parent = 77;
  EXPECT_EQ(AncestryText(tree, 1, 3), "an ended process");
  tree[1].parent = 3;
  tree[2].parent = 2;  // a cycle, because pids are reused
  EXPECT_NE(AncestryText(tree, 1, 3), "");
}

TEST(OutputWatch, KeepsExplanationsAndTheLastLine) {
  OutputWatch output;
  output.Add("300 frames\nweir: cannot attach\nscene 1: weir: cannot attach\nERROR: ld.so: object 'x' can");
  output.Add("not be preloaded: ignored.\n" + std::string(10'000, 'z') + "\nError: no display\n\n");
  EXPECT_EQ(output.messages(), (std::vector<std::string>{"weir: cannot attach",
                                                         "ERROR: ld.so: object 'x' cannot be preloaded: ignored."}));
  EXPECT_EQ(output.last_line(), "Error: no display");
}

}  // namespace
}  // namespace weir::cli
