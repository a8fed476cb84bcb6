// SPDX-License-Identifier: Apache-2.0
// What all sessions of an executor share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/partition/plan.h"
#include "gate/agent.h"
#include "opencl/executor/analyzer_client.h"
#include "opencl/executor/arg_types.h"
#include "opencl/executor/buffer_store.h"
#include "opencl/executor/device_clock.h"
#include "opencl/executor/device_meter.h"
#include "opencl/executor/driver.h"
#include "opencl/executor/host_budget.h"
#include "opencl/executor/peers.h"
#include "opencl/executor/quota.h"

namespace weir::opencl {

struct Shared {
  NativeDevice device;
  gate::Agent& agent;
  DeviceMeter& meter;
  std::shared_ptr<Quota> quota;
  std::shared_ptr<DeviceClock> clock = std::make_shared<DeviceClock>();
  std::shared_ptr<std::atomic<std::uint64_t>> work_items = std::make_shared<std::atomic<std::uint64_t>>(0);
  bool copies = false;                 // treat the device as one with memory of its own, whatever it reports
  std::shared_ptr<BufferStore> store;  // null: memory is not elastic
  // Launches that do not fit the device run in parts. Without an analyzer they fail.
  core::PartitionMode partition = core::PartitionMode::kAuto;
  std::shared_ptr<AnalyzerClient> analyzer;
  PeerSources peers;  // executors that may run parts
  std::shared_ptr<HostBudget> host_budget = std::make_shared<HostBudget>(HostBudget::kAllBytesMax);
  std::shared_ptr<ArgProbe> arg_probe = std::make_shared<ArgProbe>();
};

}  // namespace weir::opencl
