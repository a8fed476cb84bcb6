// SPDX-License-Identifier: Apache-2.0
// Prints the digests of swarm seeds, FROM … TO, a line each as in tests/golden/sim_digests.txt. Needs no module beyond
// sim, so that scripts/check-determinism can build it with several compilers.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "sim/swarm.h"

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: swarm_digests FROM TO\n", stderr), 2;
  const std::uint64_t to = std::strtoull(argv[2], nullptr, 10);
  for (std::uint64_t seed = std::strtoull(argv[1], nullptr, 10); seed <= to; ++seed)
    std::printf("swarm %" PRIu64 " %016" PRIx64 "\n", seed, weir::sim::PlaySeed(seed).record.digest);
  return 0;
}
