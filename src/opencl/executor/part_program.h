// SPDX-License-Identifier: Apache-2.0
// A program whose kernels can run in parts: their accesses and their part kernels (docs/kernel-analysis.md, "A part's
// kernel"). The driver builds the part kernels when the first one is launched.
#pragma once

#include <array>
#include <map>
#include <string>

#include "opencl/channel/cl.h"
#include "opencl/executor/analyzer_client.h"

namespace weir::opencl {

struct Program;

/// The words of a program's build options; a quoted "..." is one word.
std::vector<std::string> WordsOf(const std::string& options);

/// The macros that OpenCL requires a device's compiler to define.
std::vector<std::string> MacrosOf(const cl_icd_dispatch& cl, cl_device_id device);

class PartProgram {
 public:
  /// The analyzer's request for a program built from source. Errors: as Make.
  static Result<kernel::AnalysisRequest> RequestOf(const Program& program);
  /// Requires a program built from source; source() is then available. Errors: why none of its kernels can run in
  /// parts.
  static Result<std::unique_ptr<PartProgram>> Make(AnalyzerClient& analyzer, const Program& program);
  /// Must precede Find. Errors: the driver's message.
  Status Build(const Program& program);
  ~PartProgram();
  PartProgram(const PartProgram&) = delete;
  PartProgram& operator=(const PartProgram&) = delete;

  struct Part {
    const kernel::KernelAccess* access = nullptr;
    std::size_t number = 0;  // index in the program
    cl_kernel native = nullptr;
    std::array<std::size_t, 3> local{};  // the size that it was compiled for; zeros: any
    std::size_t items_max = 1;           // of a work-group
  };
  /// The kernel's name in source().
  static std::string NameOf(const std::string& kernel) { return "weir_part_" + kernel; }
  [[nodiscard]] const std::string& source() const { return analysis_->part_source; }
  [[nodiscard]] const std::string& options() const { return options_; }
  [[nodiscard]] const AnalyzerClient::Answer& analysis() const { return analysis_; }
  /// Unique within the process.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// kUnavailable: why this kernel cannot run in parts.
  Result<Part> Find(const std::string& kernel);

 private:
  PartProgram(const Program& program, AnalyzerClient::Answer analysis);

  const cl_icd_dispatch& cl_;
  const AnalyzerClient::Answer analysis_;
  const std::string options_;
  const std::uint64_t number_;
  cl_program native_ = nullptr;
  cl_device_id device_ = nullptr;  // the first device
  std::map<std::string, Part, std::less<>> kernels_;
};

}  // namespace weir::opencl
