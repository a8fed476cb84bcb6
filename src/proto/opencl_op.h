// SPDX-License-Identifier: Apache-2.0
// The numbers of the messages between an OpenCL client and its executor, and the bounds that both keep.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::proto::cl {

/// Writes of up to this many bytes are sent within their message.
inline constexpr std::size_t kInlineBytesMax = 16 * 1024;
/// Flag of a ticket: no thread waits for it, so its Freed need not wake one.
inline constexpr std::uint64_t kNobodyWaits = 1ULL << 63;
/// Alignment of ranges in the arena: enough for host memory that a buffer of any device uses.
inline constexpr std::uint64_t kArenaAlignment = 4096;

enum class Op : std::uint16_t {
  // Objects. No answer.
  kCreateContext = 1,
  kCreateQueue = 2,
  kCreateBuffer = 3,
  kCreateSubBuffer = 4,
  kCreateImage = 5,
  kCreateSampler = 6,
  kCreateProgram = 7,
  kCreateProgramFromBinary = 8,
  kCreateKernel = 9,
  kCreateUserEvent = 10,
  kSetUserEvent = 11,
  kSetArg = 12,
  kRelease = 13,
  // Commands. No answer.
  kNdRange = 20,
  kWriteBuffer = 21,
  kReadBuffer = 22,
  kCopyBuffer = 23,
  kFillBuffer = 24,
  kWriteBufferRect = 25,
  kReadBufferRect = 26,
  kCopyBufferRect = 27,
  kWriteImage = 28,
  kReadImage = 29,
  kCopyImage = 30,
  kFillImage = 31,
  kCopyImageToBuffer = 32,
  kCopyBufferToImage = 33,
  kMarker = 34,
  kBarrier = 35,
  kMigrate = 36,
  kFlush = 37,
  // Requests. Each gets one Reply, or one of the other messages to the client below.
  kBuild = 50,
  kCompile = 51,
  kLink = 52,
  kGetBinary = 53,
  kCreateSubDevices = 54,
  kFinish = 55,
  kWatch = 56,
  kKernelWorkGroup = 57,
  kImageFormats = 58,
  // Executor to client.
  kReply = 100,
  kEventDone = 101,
  kFreed = 102,
  kNotice = 103,
  kArrived = 104,
};

}  // namespace weir::proto::cl
