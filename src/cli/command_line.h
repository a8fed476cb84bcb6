// SPDX-License-Identifier: Apache-2.0
// The entry point of `weir`: reads the command line, runs the command, returns the exit code.
#pragma once

namespace weir::cli {

int Main(int argc, char** argv);

}  // namespace weir::cli
