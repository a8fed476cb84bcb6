// SPDX-License-Identifier: Apache-2.0
// The protocol between weir-modules and a weir-module-host: packets of a socket pair, one frame each. A host runs
// native code of tenants, so its frames are bounded and checked. Both programs are of the same installation, so that
// the protocol has no version.
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
inline constexpr std::size_t kTextBytesMax = 4 * 1024;  // for arguments, a run's text and error messages
inline constexpr std::size_t kKernelsMax = 64;
inline constexpr std::size_t kKernelNameMax = 64;
inline constexpr std::size_t kSummaryMax = 255;

/// 1 to 64 of A-Z a-z 0-9 . _ -: names of kernels, modules and runs.
bool IsPlainName(std::string_view text);

// Frames from weir-modules. The packet of an ExecuteFrame carries the files of its blob and, if it has one, of its
// input; that of an InspectFrame carries the file of its blob. A host has no right to the folder of blobs.

struct ExecuteFrame {
  std::uint64_t run = 0;
  std::uint64_t tenant = 0;  // owner of the residual data
  std::string blob{}, kernel{}, arguments{};
  std::string input{};     // blob name; empty: none
  core::Loads capacity{};  // the device's, if launches are to be measured; zeros: not measured
  friend bool operator==(const ExecuteFrame&, const ExecuteFrame&) = default;
};
/// The only order of a host that inspects: which kernels does this module have?
struct InspectFrame {
  std::string blob{};
  friend bool operator==(const InspectFrame&, const InspectFrame&) = default;
};
/// The module is no longer registered under any name.
struct ForgetFrame {
  std::string blob{};
  friend bool operator==(const ForgetFrame&, const ForgetFrame&) = default;
};

// Frames from a host.

/// The first frame: the context exists.
struct DeviceFrame {
  std::uint32_t index = 0, count = 0;  // index and number of the devices that the host sees
  std::uint32_t units = 0;
  std::uint64_t memory_bytes = 0, local_memory_bytes = 0;
  std::string name{};
  friend bool operator==(const DeviceFrame&, const DeviceFrame&) = default;
};
/// Sent instead of DeviceFrame: the host can't serve. As the reply to an inspection: the file is not a module.
struct RefusalFrame {
  Errc code = Errc::kInternal;
  std::string words{};
  friend bool operator==(const RefusalFrame&, const RefusalFrame&) = default;
};
/// The run succeeded. With `output` the packet carries a sealed memfd of that many bytes.
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
/// Written by a signal handler as the host's last action. Run 0: the thread belonged to no run.
struct CrashFrame {
  std::uint64_t run = 0;
  std::uint32_t signal = 0;
  friend bool operator==(const CrashFrame&, const CrashFrame&) = default;
};
/// The device no longer responds. The host ends, and its runs are placed on other devices.
struct DeviceLostFrame {
  std::string words{};
  friend bool operator==(const DeviceLostFrame&, const DeviceLostFrame&) = default;
};
/// One kernel of an inspected module.
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
using OrderFrame = std::variant<ExecuteFrame, ForgetFrame, InspectFrame>;

/// Texts are truncated at their bounds.
std::vector<std::byte> EncodeFrame(const HostFrame& frame);
std::vector<std::byte> EncodeOrder(const OrderFrame& frame);
/// kProtocol: the packet is cut off, too long, of an unknown kind, or has an invalid value.
Result<HostFrame> DecodeFrame(std::span<const std::byte> packet);
Result<OrderFrame> DecodeOrder(std::span<const std::byte> packet);

/// The layout of a crash frame: kind, run, signal. A signal handler must not allocate, so that EncodeCrash fills a
/// fixed buffer.
inline constexpr std::size_t kCrashFrameBytes = 1 + 8 + 4;
void EncodeCrash(std::uint64_t run, std::uint32_t signal, std::span<std::byte, kCrashFrameBytes> out) noexcept;

}  // namespace weir::modules
