// SPDX-License-Identifier: Apache-2.0
// What may follow on a command line: the same table of commands that parses it says so. Pure.
#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): of the library CLI11
class App;
}

namespace weir::cli {

struct Candidate {
  std::string word;
  std::string summary;  // its first sentence; may be empty
};

/// What the word under the cursor may be. The words of each kind together are the answer.
struct Completion {
  std::vector<Candidate> words;  // that begin as it does
  bool vgpus = false;            // the name of a vGPU
  bool devices = false;          // the name of a device
  bool files = false;            // a file, a folder, or a program
};

/// `words`: those after `weir`, the last one of which is under the cursor and may be empty.
Completion Complete(const CLI::App& weir, const std::vector<std::string>& words);

}  // namespace weir::cli
