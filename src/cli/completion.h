// SPDX-License-Identifier: Apache-2.0
// Computes the words that may follow on a command line, from the same definitions of commands that parse it. Pure.
#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): of the library CLI11
class App;
}

namespace weir::cli {

struct Candidate {
  std::string word;
  std::string summary;  // first sentence of the description; may be empty
};

/// What the word under the cursor may be. All kinds together are the answer.
struct Completion {
  std::vector<Candidate> words;  // those that begin with the word under the cursor
  bool vgpus = false;            // the name of a vGPU
  bool devices = false;          // the name of a device
  bool files = false;            // a file, a folder, or a program
};

/// `words`: the words after `weir`. The last one is under the cursor and may be empty.
Completion Complete(const CLI::App& weir, const std::vector<std::string>& words);

}  // namespace weir::cli
