// SPDX-License-Identifier: Apache-2.0
// CPU time and CPU affinity of single threads of this process: the basis of the embedded device's meter.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weir::platform {

/// Bit n % 64 of word n / 64 stands for CPU n.
using CpuSet = std::array<std::uint64_t, 16>;

/// CPU time in ns of a thread of this process; empty: no such thread.
std::optional<std::int64_t> ThreadCpuNs(pid_t tid);

/// The threads of this process.
std::vector<pid_t> ThreadsOfThisProcess();
/// Only the threads whose names begin with `prefix`.
std::vector<pid_t> ThreadsOfThisProcess(std::string_view prefix);

/// Restricts a thread to those of `cpus` that it may already use: a narrower affinity stays. No effect if no CPU would
/// be left.
void KeepThreadOn(pid_t tid, const CpuSet& cpus);

}  // namespace weir::platform
