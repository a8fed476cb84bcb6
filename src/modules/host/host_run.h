// SPDX-License-Identifier: Apache-2.0
// One run in its host: the weir_run that the kernel receives and the implementation of its functions.
#pragma once

#include <weir/module.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "modules/host/device_context.h"
#include "modules/host/residual_data.h"
#include "platform/fd.h"

namespace weir::modules {

class HostRun : public weir_run {
 public:
  HostRun(const ExecuteFrame& order, ResidualData& residual);
  ~HostRun();
  HostRun(const HostRun&) = delete;
  HostRun& operator=(const HostRun&) = delete;

  /// Calls the module's code and finishes the queue. The error is the one that the module reported or threw.
  template <typename Code>
  Status Call(const char* what, Code code) {
    int failed = 0;
    try {
      failed = code();
    } catch (const std::exception& thrown) {
      return Fail(Errc::kInternal, std::string(what) + " threw: " + thrown.what());
    } catch (...) {
      return Fail(Errc::kInternal, std::string(what) + " threw something");
    }
    return Outcome(what, failed);
  }

  /// A sealed memfd with the output; without a valid descriptor if there is none.
  [[nodiscard]] Result<platform::Fd> SealedOutput() const;
  [[nodiscard]] std::size_t output_bytes() const { return output_.size(); }
  [[nodiscard]] const std::string& text() const { return text_; }

  cl_command_queue queue_of_run = nullptr;  // released with this object
  std::string input_bytes_of_run;
  std::optional<MeasuredLoads> measured;

 private:
  static HostRun& Of(const weir_run* run) { return const_cast<HostRun&>(static_cast<const HostRun&>(*run)); }
  static void* Allocate(const weir_run* run, std::uint64_t bytes);
  static int Output(const weir_run* run, const void* bytes, std::uint64_t count);
  static void Say(const weir_run* run, const char* text);
  static int FailRun(const weir_run* run, const char* words);
  static int Keep(const weir_run* run, const char* name, void* object, std::uint64_t bytes, void (*release)(void*));
  static void* Find(const weir_run* run, const char* name);
  static std::uint64_t MakeRoom(const weir_run* run, std::uint64_t bytes);
  Status Outcome(const char* what, int failed);

  const ExecuteFrame& order_;
  ResidualData& residual_;
  std::mutex mutex_;  // a module may call from several threads
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::string output_, text_, words_;
};

}  // namespace weir::modules
