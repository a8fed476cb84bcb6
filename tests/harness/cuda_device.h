// SPDX-License-Identifier: Apache-2.0
// For tests of what is measured: a CUDA driver whose device works when the test says so.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "shim/cuda/driver.h"

namespace weir::shim::cuda {

/// A device with one queue of work for each stream, in ns of its own clock. An event comes when the work that was
/// submitted before it has ended.
struct FakeDevice {
  struct Event {
    bool recorded = false;
    double at_ns = 0;
    CudaHandle context = nullptr;
  };

  FakeDevice() {
    only = this;
    Set(
        kCall_cuCtxGetCurrent, +[](CudaHandle* current) { return *current = only->context, kSuccess; });
    Set(
        kCall_cuCtxPushCurrent_v2, +[](CudaHandle next) {
          only->stack.push_back(only->context);
          return only->context = next, kSuccess;
        });
    Set(
        kCall_cuCtxPopCurrent_v2, +[](CudaHandle* last) {
          *last = only->context;
          only->context = only->stack.back();
          return only->stack.pop_back(), kSuccess;
        });
    Set(
        kCall_cuStreamGetCtx, +[](CudaHandle stream, CudaHandle* owner) {
          if (!only->owners.contains(stream)) return kFails;
          return *owner = only->owners[stream], kSuccess;
        });
    Set(
        kCall_cuCtxGetDevice, +[](int* device) {
          const auto found = only->devices.find(only->context);
          *device = found != only->devices.end() ? found->second : 0;
          return kSuccess;
        });
    Set(
        kCall_cuDeviceGetName, +[](char* name, int, int) { return name[0] = '\0', kSuccess; });
    Set(
        kCall_cuThreadExchangeStreamCaptureMode,
        +[](int* mode) { return std::swap(*mode, only->capture_mode), kSuccess; });
    Set(
        kCall_cuEventCreate, +[](CudaHandle* made, unsigned) {
          if (only->fails) return kFails;
          *made = only->NewEvent();
          return kSuccess;
        });
    Set(
        kCall_cuEventRecord, +[](CudaHandle event, CudaHandle stream) {
          if (only->fails || !only->Knows(event)) return kFails;
          auto& one = *static_cast<Event*>(event);
          if (one.context != only->ContextOf(stream)) return kFails;
          ++only->records;
          one.recorded = true;
          one.at_ns = std::max(only->busy_until_ns[stream], only->now_ns);
          return kSuccess;
        });
    Set(
        kCall_cuEventQuery, +[](CudaHandle event) {
          if (!only->Knows(event)) return kFails;
          only->now_ns += only->question_ns;
          return static_cast<Event*>(event)->at_ns <= only->now_ns ? kSuccess : kNotReady;
        });
    Set(
        kCall_cuEventElapsedTime, +[](float* ms, CudaHandle from, CudaHandle to) {
          if (!only->Knows(from) || !only->Knows(to)) return kFails;
          *ms = static_cast<float>((static_cast<Event*>(to)->at_ns - static_cast<Event*>(from)->at_ns) / 1e6);
          return kSuccess;
        });
  }
  template <typename Type>
  static void Set(Function function, Type* code) {
    weir_cuda_driver[function] = reinterpret_cast<void*>(code);
  }
  [[nodiscard]] bool Knows(CudaHandle event) {
    for (const auto& one : events)
      if (one.get() == event) return true;
    for (const auto& one : ended)
      if (one.get() == event) ++uses_of_ended;
    return false;
  }
  CudaHandle NewEvent() {
    events.push_back(std::make_unique<Event>(Event{.context = context}));
    return events.back().get();
  }
  /// The device completes everything.
  void Finish() {
    for (const auto& [stream, until_ns] : busy_until_ns) now_ns = std::max(now_ns, until_ns);
  }
  /// The context ends, and its events with it. A real driver may crash if one is used, or give its handle to another
  /// event. Here no handle is used again.
  void EndContext(CudaHandle which) {
    for (auto& one : events)
      if (one->context == which) ended.push_back(std::move(one));
    std::erase(events, nullptr);
  }
  [[nodiscard]] CudaHandle ContextOf(CudaHandle stream) const {
    const auto found = owners.find(stream);
    return found != owners.end() ? found->second : own_context;
  }
  void Launch(CudaHandle stream, double work_ns) {
    busy_until_ns[stream] = std::max(busy_until_ns[stream], now_ns) + work_ns;
    worked_ns += work_ns;
  }

  static constexpr CudaResult kFails = 400;
  static inline FakeDevice* only = nullptr;
  const CudaHandle own_context = &now_ns;
  CudaHandle context = own_context;
  std::vector<CudaHandle> stack;
  int capture_mode = 0;
  std::map<CudaHandle, CudaHandle> owners;  // contexts of streams; of others it is own_context
  std::map<CudaHandle, int> devices;        // of contexts; of others it is 0
  double now_ns = 1e6;
  double worked_ns = 0;
  double question_ns = 0;  // that each question about an event takes
  int records = 0;
  int uses_of_ended = 0;  // calls with events of contexts that have ended
  bool fails = false;
  std::map<CudaHandle, double> busy_until_ns;
  std::vector<std::unique_ptr<Event>> events, ended;
};

}  // namespace weir::shim::cuda
