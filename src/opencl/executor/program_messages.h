// SPDX-License-Identifier: Apache-2.0
// Programs: source and binaries from the client, and results of builds to the client.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "opencl/executor/batches.h"
#include "opencl/executor/client.h"
#include "opencl/executor/client_objects.h"
#include "opencl/executor/shared.h"

namespace weir::opencl {

class ProgramMessages {
 public:
  ProgramMessages(Shared& shared, const Client& client, ClientObjects& objects, Batches& batches)
      : shared_(shared), cl_(*shared.device.cl), client_(client), objects_(objects), batches_(batches) {}
  ProgramMessages(const ProgramMessages&) = delete;
  ProgramMessages& operator=(const ProgramMessages&) = delete;

  void Do(const proto::cl::CreateProgram& m);
  void Do(const proto::cl::CreateProgramFromBinary& m);
  void Do(const proto::cl::Build& m);
  void Do(const proto::cl::Compile& m);
  void Do(const proto::cl::Link& m);
  void Do(const proto::cl::GetBinary& m);

  /// The time since which the driver has been building a program; 0: it is not. For the watchdog, in another thread.
  [[nodiscard]] std::int64_t BuildingSinceNs() const { return building_since_ns_.load(std::memory_order_relaxed); }

 private:
  /// Notes that the driver builds, as long as it lives.
  class Building {
   public:
    explicit Building(ProgramMessages& of);
    ~Building() { of_.building_since_ns_.store(0, std::memory_order_relaxed); }
    Building(const Building&) = delete;
    Building& operator=(const Building&) = delete;

   private:
    ProgramMessages& of_;
  };
  [[nodiscard]] std::vector<cl_device_id> DevicesOf(const proto::cl::IdList& ids, cl_int& error) const;
  cl_int ChargeProgram(Program& program, std::uint64_t bytes) const;
  void RefuseLongNames(std::uint32_t request, Program& program);
  void AnswerBuild(std::uint32_t request, cl_int status, const Program* program);
  void EndBatch();

  Shared& shared_;
  const cl_icd_dispatch& cl_;
  const Client& client_;
  ClientObjects& objects_;
  Batches& batches_;
  std::atomic<std::int64_t> building_since_ns_{0};
};

}  // namespace weir::opencl
