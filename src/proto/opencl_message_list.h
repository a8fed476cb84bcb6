// SPDX-License-Identifier: Apache-2.0
// Every message between an OpenCL client and its executor, for what is done with all of them.
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

/// Calls `each(MessageType<M>{})` for every message of a list above.
template <typename List, typename Each>
void ForEachMessage(Each each) {
  []<typename... M>(std::type_identity<std::tuple<M...>>, Each& call) { (call(MessageType<M>{}), ...); }(
      std::type_identity<List>{}, each);
}

}  // namespace weir::proto::cl
