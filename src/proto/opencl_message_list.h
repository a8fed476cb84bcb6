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

/// Calls `decode` with the type of the message whose number is `op`. False: it is not in the list.
template <typename List, typename DecodeIt>
bool FindMessage(Op op, DecodeIt decode) {
  return [&]<typename... M>(std::type_identity<std::tuple<M...>>) {
    return ((op == M::kOp && (decode(MessageType<M>{}), true)) || ...);
  }(std::type_identity<List>{});
}

/// Decodes a message and calls `each` with it. Unknown messages that may be ignored are skipped. False: malformed, or
/// not a message that a client sends.
template <typename Each>
bool DecodeFromClient(ByteView bytes, Each each) {
  Header header;
  if (!ReadHeader(bytes, header)) return false;
  const Op op = static_cast<Op>(header.op);
  bool good = false;
  if (FindMessage<FromClient>(op, [&]<typename M>(MessageType<M>) { good = DecodeAs<M>(bytes, each); })) return good;
  if (FindMessage<FromExecutor>(op, [](auto) {})) return false;
  return (header.flags & kMayIgnore) != 0;
}

}  // namespace weir::proto::cl
