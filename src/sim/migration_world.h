// SPDX-License-Identifier: Apache-2.0
// What migration scenarios consist of: nodes with memory and copy engines, the network between them, and clients that
// each run one matrix product (Partial migration, sections 3 and 5). Plain data. Played by migration_simulation.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/partition/plan.h"
#include "sim/network_model.h"

namespace weir::sim {

struct MigrationNode {
  std::string name{};
  Bytes memory{};                     // of the device, as far as it may be counted on
  double in_bytes_per_s = 3e9;        // host to device; flows share it
  double out_bytes_per_s = 2e9;       // device to host, likewise
  Duration in_setup{};                // of each task's copying in, takes the copy engine
  Duration kernel{};                  // of a launch, whatever its size
  double flops = 0;                   // of its kernels on top of that; 0: nothing more
  double client_bytes_per_s = 150e6;  // of the interface that all of its clients share, in each direction; 0: at once
  double client_spread = 0;           // a client's part of it is up to this much more or less
  // Copies take 1 + slow · (used / memory − 1) times as long while more is allocated than there is memory.
  double slow = 0;
  Duration clock_ahead{};      // of its own clock, at the start
  std::int64_t clock_ppm = 0;  // by which it runs too fast; negative: too slow
};

/// Two nodes hear nothing of each other for a while; what already flows between them goes on.
struct MigrationParting {
  std::uint32_t a = 0, b = 0;
  Duration at{}, until{};
};

/// A client that computes C = A · B of size · size floats, once.
struct MigrationTask {
  std::string name{};
  std::uint32_t node = 0;
  Duration start{};
  std::uint64_t size = 0;  // a multiple of kGroupSide
  int copies = 1;          // called NAME-1 … where there are several
  bool managed = true;     // else it runs here whatever is free
  Duration hold{};         // it keeps its memory so long after it has its outputs
};
inline constexpr std::uint64_t kGroupSide = 8;

struct MigrationWorld {
  std::vector<MigrationNode> nodes{};
  LinkSpec network{};
  Duration stretch = microseconds(5);  // of the network, for each contiguous stretch
  Duration decide = microseconds(20);  // a decision: the benchmark's bar
  std::vector<MigrationTask> tasks{};
  std::vector<MigrationParting> partings{};
};

/// What is done with a managed task that does not fit.
enum class Shortage : std::uint8_t {
  kIgnore,   // it runs here, as without a monitor
  kWait,     // until it fits
  kMigrate,  // as a whole, to the node with the fewest threads
  kPlan,     // core/partition decides
};

/// Of a run.
struct MigrationRun {
  Shortage shortage = Shortage::kIgnore;
  core::PartitionMode mode = core::PartitionMode::kAuto;
  core::PlanParams params{};
  std::map<std::string, std::uint64_t> sizes{};  // in the place of the tasks' own
  std::map<std::string, int> copies{};
  double network_bytes_per_s = 0;  // likewise; 0: the world's
};

/// What became of a task. Times in ns; of parts that run side by side the later one's.
struct TaskRecord {
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t asked_ns = 0;     // until a node was chosen, or none
  std::int64_t decided_ns = 0;   // the plan
  std::int64_t waited_ns = 0;    // for room
  std::int64_t transfer_ns = 0;  // client to here
  std::int64_t network_ns = 0;   // between nodes, both ways
  std::int64_t input_ns = 0;     // host to device
  std::int64_t kernel_ns = 0;
  std::int64_t output_ns = 0;  // device to host
  std::int64_t return_ns = 0;  // here to client
  double network_bytes = 0;
  double kept = 1;  // part of the groups that ran here
  std::uint32_t pieces = 1;
  core::PlanKind kind = core::PlanKind::kHere;
};

}  // namespace weir::sim
