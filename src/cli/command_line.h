// SPDX-License-Identifier: Apache-2.0
// The whole of `weir`: reads the command line, does what it says, returns the exit code.
#pragma once

namespace weir::cli {

int Main(int argc, char** argv);

}  // namespace weir::cli
