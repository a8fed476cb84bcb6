// SPDX-License-Identifier: Apache-2.0
// The parts of migration scenarios: nodes with memory and copy engines, the network between them, and clients that each
// run one matrix product (Partial migration, sections 3 and 5). Plain data. Played by migration_simulation.h.
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
  Bytes memory{};                     // of the device, as far as tasks may use it
  double in_bytes_per_s = 3e9;        // host to device; flows share it
  double out_bytes_per_s = 2e9;       // device to host; flows share it
  Duration in_setup{};                // time on the copy engine before a task's inputs are copied in
  Duration kernel{};                  // time of a launch of any size
  double flops = 0;                   // rate of a kernel's operations, whose time is added; 0: no time is added
  double client_bytes_per_s = 150e6;  // of the interface that all clients share, in each direction; 0: no time
  double client_spread = 0;           // a client's share of the interface is up to this part larger or smaller
  // While more memory is allocated than there is, copies take 1 + slow · (used / memory − 1) times as long.
  double slow = 0;
  Duration clock_ahead{};      // offset of the node's clock at the start
  std::int64_t clock_ppm = 0;  // by how much the clock runs too fast; negative: too slow
};

/// Messages between two nodes are lost from `at` to `until`; data that flows between them is not affected.
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
  int copies = 1;          // several: with the names NAME-1, NAME-2 …
  bool managed = true;     // false: it runs on its node even if its memory does not fit
  Duration hold{};         // how long it keeps its memory after the client has its outputs; not if it migrated
};
/// A group computes kGroupSide · kGroupSide elements of C.
inline constexpr std::uint64_t kGroupSide = 8;

struct MigrationWorld {
  std::vector<MigrationNode> nodes{};
  LinkSpec network{};
  Duration stretch = microseconds(5);  // time on the network for each contiguous stretch of a part's buffers
  Duration decide = microseconds(20);  // time of a decision: the upper limit that the benchmark enforces
  std::vector<MigrationTask> tasks{};
  std::vector<MigrationParting> partings{};
};

/// What is done with a managed task whose memory does not fit on its node.
enum class Shortage : std::uint8_t {
  kIgnore,   // it runs there all the same, as without a monitor
  kWait,     // it waits until it fits
  kMigrate,  // it migrates as a whole, to the node with the fewest threads
  kPlan,     // core/partition decides
};

/// What a run chooses.
struct MigrationRun {
  Shortage shortage = Shortage::kIgnore;
  core::PartitionMode mode = core::PartitionMode::kAuto;
  core::PlanParams params{};
  std::map<std::string, std::uint64_t> sizes{};  // by name of a task, instead of its own
  std::map<std::string, int> copies{};           // by name of a task, instead of its own
  double network_bytes_per_s = 0;                // 0: the world's
};

/// The result of a task. Times in ns; where two parts run side by side, input, kernel and output are those of the part
/// for which the three together took longer. "Here" is the client's node.
struct TaskRecord {
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t asked_ns = 0;     // asking other nodes, until one or none was chosen
  std::int64_t decided_ns = 0;   // making the plan
  std::int64_t waited_ns = 0;    // for memory
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
