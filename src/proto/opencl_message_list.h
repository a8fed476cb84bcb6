// SPDX-License-Identifier: Apache-2.0
// Lists of all messages between an OpenCL client and its executor, for code that handles every message.
#pragma once

#include <tuple>

#include "proto/opencl_messages.h"

namespace weir::proto::cl {

using FromClient = std::tuple<CreateContext, CreateQueue, CreateBuffer, CreateSubBuffer, CreateImage, CreateSampler,
                              CreateProgram, CreateProgramFromBinary, CreateKernel, CreateUserEvent, SetUserEvent,
                              SetArg, Release, NdRange, WriteBuffer, ReadBuffer, CopyBuffer, FillBuffer,
                              WriteBufferRect, ReadBufferRect, CopyBufferRect, WriteImage, ReadImage, CopyImage,
                              FillImage, CopyImageToBuffer, CopyBufferToImage, Marker, Barrier, Migrate, Flush, Build,
                              Compile, Link, GetBinary, CreateSubDevices, Finish, Watch, KernelWorkGroup, ImageFormats>;
using FromExecutor = std::tuple<Reply, EventDone, Freed, Notice, Arrived>;
using Handshake = std::tuple<Hello, Welcome>;

template <typename M>
struct MessageType {
  using type = M;
};

/// Calls `each(MessageType<M>{})` for every message of one of the lists.
template <typename List, typename Each>
void ForEachMessage(Each each) {
  []<typename... M>(std::type_identity<std::tuple<M...>>, Each& call) { (call(MessageType<M>{}), ...); }(
      std::type_identity<List>{}, each);
}

/// Calls `each(message)`. False: malformed.
template <typename M, typename Each>
bool DecodeAs(ByteView bytes, Each& each) {
  M message;
  if (!Decode(bytes, message)) return false;
  each(message);
  return true;
}

/// Decodes a message and calls `each` with it. Unknown messages that may be ignored are skipped. False: malformed, or
/// not a message that a client sends.
template <typename Each>
bool DecodeFromClient(ByteView bytes, Each each) {
  Header header;
  if (!ReadHeader(bytes, header)) return false;
  switch (static_cast<Op>(header.op)) {
    case Op::kCreateContext: return DecodeAs<CreateContext>(bytes, each);
    case Op::kCreateQueue: return DecodeAs<CreateQueue>(bytes, each);
    case Op::kCreateBuffer: return DecodeAs<CreateBuffer>(bytes, each);
    case Op::kCreateSubBuffer: return DecodeAs<CreateSubBuffer>(bytes, each);
    case Op::kCreateImage: return DecodeAs<CreateImage>(bytes, each);
    case Op::kCreateSampler: return DecodeAs<CreateSampler>(bytes, each);
    case Op::kCreateProgram: return DecodeAs<CreateProgram>(bytes, each);
    case Op::kCreateProgramFromBinary: return DecodeAs<CreateProgramFromBinary>(bytes, each);
    case Op::kCreateKernel: return DecodeAs<CreateKernel>(bytes, each);
    case Op::kCreateUserEvent: return DecodeAs<CreateUserEvent>(bytes, each);
    case Op::kSetUserEvent: return DecodeAs<SetUserEvent>(bytes, each);
    case Op::kSetArg: return DecodeAs<SetArg>(bytes, each);
    case Op::kRelease: return DecodeAs<Release>(bytes, each);
    case Op::kNdRange: return DecodeAs<NdRange>(bytes, each);
    case Op::kWriteBuffer: return DecodeAs<WriteBuffer>(bytes, each);
    case Op::kReadBuffer: return DecodeAs<ReadBuffer>(bytes, each);
    case Op::kCopyBuffer: return DecodeAs<CopyBuffer>(bytes, each);
    case Op::kFillBuffer: return DecodeAs<FillBuffer>(bytes, each);
    case Op::kWriteBufferRect: return DecodeAs<WriteBufferRect>(bytes, each);
    case Op::kReadBufferRect: return DecodeAs<ReadBufferRect>(bytes, each);
    case Op::kCopyBufferRect: return DecodeAs<CopyBufferRect>(bytes, each);
    case Op::kWriteImage: return DecodeAs<WriteImage>(bytes, each);
    case Op::kReadImage: return DecodeAs<ReadImage>(bytes, each);
    case Op::kCopyImage: return DecodeAs<CopyImage>(bytes, each);
    case Op::kFillImage: return DecodeAs<FillImage>(bytes, each);
    case Op::kCopyImageToBuffer: return DecodeAs<CopyImageToBuffer>(bytes, each);
    case Op::kCopyBufferToImage: return DecodeAs<CopyBufferToImage>(bytes, each);
    case Op::kMarker: return DecodeAs<Marker>(bytes, each);
    case Op::kBarrier: return DecodeAs<Barrier>(bytes, each);
    case Op::kMigrate: return DecodeAs<Migrate>(bytes, each);
    case Op::kFlush: return DecodeAs<Flush>(bytes, each);
    case Op::kBuild: return DecodeAs<Build>(bytes, each);
    case Op::kCompile: return DecodeAs<Compile>(bytes, each);
    case Op::kLink: return DecodeAs<Link>(bytes, each);
    case Op::kGetBinary: return DecodeAs<GetBinary>(bytes, each);
    case Op::kCreateSubDevices: return DecodeAs<CreateSubDevices>(bytes, each);
    case Op::kFinish: return DecodeAs<Finish>(bytes, each);
    case Op::kWatch: return DecodeAs<Watch>(bytes, each);
    case Op::kKernelWorkGroup: return DecodeAs<KernelWorkGroup>(bytes, each);
    case Op::kImageFormats: return DecodeAs<ImageFormats>(bytes, each);
    case Op::kReply:
    case Op::kEventDone:
    case Op::kFreed:
    case Op::kNotice:
    case Op::kArrived: return false;
  }
  return (header.flags & kMayIgnore) != 0;
}

}  // namespace weir::proto::cl
