// SPDX-License-Identifier: Apache-2.0
// Messages that create, change, query and release objects.
#pragma once

#include <cstdint>

#include "opencl/executor/batches.h"
#include "opencl/executor/client.h"
#include "opencl/executor/client_objects.h"
#include "opencl/executor/command_memory.h"
#include "opencl/executor/event_ends.h"
#include "opencl/executor/partitioned_launches.h"
#include "opencl/executor/shared.h"

namespace weir::opencl {

class ObjectMessages {
 public:
  ObjectMessages(Shared& shared, const Client& client, ClientObjects& objects, Batches& batches, CommandMemory& memory,
                 EventEnds& ends, PartitionedLaunches& parts)
      : shared_(shared),
        cl_(*shared.device.cl),
        client_(client),
        objects_(objects),
        batches_(batches),
        memory_(memory),
        ends_(ends),
        parts_(parts) {}
  ObjectMessages(const ObjectMessages&) = delete;
  ObjectMessages& operator=(const ObjectMessages&) = delete;

  void Do(const proto::cl::CreateContext& m);
  void Do(const proto::cl::CreateQueue& m);
  void Do(const proto::cl::CreateBuffer& m);
  void Do(const proto::cl::CreateSubBuffer& m);
  void Do(const proto::cl::CreateImage& m);
  void Do(const proto::cl::CreateSampler& m);
  void Do(const proto::cl::CreateUserEvent& m);
  void Do(const proto::cl::SetUserEvent& m);
  void Do(const proto::cl::CreateKernel& m);
  void Do(const proto::cl::Release& m);
  void Do(const proto::cl::CreateSubDevices& m);
  void Do(const proto::cl::KernelWorkGroup& m);
  void Do(const proto::cl::ImageFormats& m);

 private:
  void LearnArgs(Kernel& kernel) const;
  cl_int CheckImage(const proto::cl::CreateImage& m, Memory& image, const Shape& shape) const;
  cl_int MakeImage(Memory& image, Shape shape, proto::cl::ByteView content, std::uint64_t& charged) const;
  cl_int MakeStoredImage(const proto::cl::CreateImage& m, Memory& image, const Shape& shape,
                         proto::cl::ByteView content);
  cl_int ChargeAsMade(Memory& image, std::uint64_t& charged) const;
  bool ChargeUpTo(std::uint64_t bytes, std::uint64_t& charged) const;
  /// 0: such images are not supported.
  std::uint64_t PixelBytesOf(const Context& context, const Shape& shape) const;

  Shared& shared_;
  const cl_icd_dispatch& cl_;
  const Client& client_;
  ClientObjects& objects_;
  Batches& batches_;
  CommandMemory& memory_;
  EventEnds& ends_;
  PartitionedLaunches& parts_;
};

}  // namespace weir::opencl
