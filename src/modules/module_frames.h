// SPDX-License-Identifier: Apache-2.0
// What weir-modules and a weir-module-host say to each other: packets of a socket pair, one frame each. A host runs
// native code of tenants, so what it says is bounded and checked. Both are of one installation: there is no version.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "core/placement/load.h"
#include "modules/launch_loads.h"

namespace weir::modules {

inline constexpr std::size_t kFrameBytesMax = 32 * 1024;
inline constexpr std::size_t kTextBytesMax = 4 * 1024;  // arguments; what a run says; why it failed
inline constexpr std::size_t kKernelsMax = 64;
inline constexpr std::size_t kKernelNameMax = 64;
inline constexpr std::size_t kSummaryMax = 255;

/// 1 to 64 of A-Z a-z 0-9 . _ -: kernels, modules, runs.
bool IsPlainName(std::string_view text);

// From weir-modules.

struct ExecuteFrame {
  std::uint64_t run = 0;
  std::uint64_t tenant = 0;  // whose residual data it finds
  std::string blob{}, kernel{}, arguments{};
  std::string input{};     // a blob; empty: none
  core::Loads capacity{};  // of the device, if its launches are to be measured; zeros: they are not
  friend bool operator==(const ExecuteFrame&, const ExecuteFrame&) = default;
};
/// The module stands under no name any more.
struct ForgetFrame {
  std::string blob{};
  friend bool operator==(const ForgetFrame&, const ForgetFrame&) = default;
};

// From a host.

/// The first one: its context is there.
struct DeviceFrame {
  std::uint32_t index = 0, count = 0;  // which of the devices that it sees
  std::uint32_t units = 0;
  std::uint64_t memory_bytes = 0, local_memory_bytes = 0;
  std::string name{};
  friend bool operator==(const DeviceFrame&, const DeviceFrame&) = default;
};
/// Instead of it: it can't serve. Of an inspection: it is no module.
struct RefusalFrame {
  Errc code = Errc::kInternal;
  std::string words{};
  friend bool operator==(const RefusalFrame&, const RefusalFrame&) = default;
};
/// A run went well; with `output` the packet carries a sealed memfd of that many bytes.
struct DoneFrame {
  std::uint64_t run = 0;
  std::uint64_t output_bytes = 0;
  std::string text{};
  std::optional<MeasuredLoads> measured{};
  friend bool operator==(const DoneFrame&, const DoneFrame&) = default;
};
struct FailedFrame {
  std::uint64_t run = 0;
  Errc code = Errc::kInternal;
  std::string text{}, words{};
  friend bool operator==(const FailedFrame&, const FailedFrame&) = default;
};
/// Written by a signal handler, the last thing that a host does. Run 0: in a thread of no run.
struct CrashFrame {
  std::uint64_t run = 0;
  std::uint32_t signal = 0;
  friend bool operator==(const CrashFrame&, const CrashFrame&) = default;
};
/// The device answers no more: the host ends, and its runs are to run elsewhere.
struct DeviceLostFrame {
  std::string words{};
  friend bool operator==(const DeviceLostFrame&, const DeviceLostFrame&) = default;
};
/// What an inspected module exports.
struct KernelLine {
  std::string name{}, summary{};
  core::RunNeed need{};
  friend bool operator==(const KernelLine&, const KernelLine&) = default;
};
struct TableFrame {
  std::vector<KernelLine> kernels{};
  friend bool operator==(const TableFrame&, const TableFrame&) = default;
};

using HostFrame =
    std::variant<DeviceFrame, RefusalFrame, DoneFrame, FailedFrame, CrashFrame, DeviceLostFrame, TableFrame>;
using OrderFrame = std::variant<ExecuteFrame, ForgetFrame>;

/// Texts are cut at their bounds.
std::vector<std::byte> EncodeFrame(const HostFrame& frame);
std::vector<std::byte> EncodeOrder(const OrderFrame& frame);
/// kProtocol: cut off, too long, of a kind or with a value that there is not.
Result<HostFrame> DecodeFrame(std::span<const std::byte> packet);
Result<OrderFrame> DecodeOrder(std::span<const std::byte> packet);

/// What a crash frame is made of in a signal handler, where nothing may be allocated: kind, run, signal.
inline constexpr std::size_t kCrashFrameBytes = 1 + 8 + 4;
void EncodeCrash(std::uint64_t run, std::uint32_t signal, std::span<std::byte, kCrashFrameBytes> out) noexcept;

}  // namespace weir::modules
