// SPDX-License-Identifier: Apache-2.0
// A program whose kernels can run in parts: what they access, and their part kernels (docs/kernel-analysis.md, "A
// part's kernel"), built by the driver when the first of them is launched.
#pragma once

#include <array>
#include <map>
#include <string>

#include "opencl/channel/cl.h"
#include "opencl/executor/analyzer_client.h"

namespace weir::opencl {

struct Program;

/// The words of a program's build options; "..." is one.
std::vector<std::string> WordsOf(const std::string& options);

/// Names that a device's compiler defines, as OpenCL says.
std::vector<std::string> MacrosOf(const cl_icd_dispatch& cl, cl_device_id device);

class PartProgram {
 public:
  /// What is asked of the analyzer, of a program that was built from source. Errors: as Make.
  static Result<core::AnalysisRequest> RequestOf(const Program& program);
  /// Of a program that was built from source: source() is known then. Errors: why none of its kernels can run in parts.
  static Result<std::unique_ptr<PartProgram>> Make(AnalyzerClient& analyzer, const Program& program);
  /// To be done before Find. Errors: the driver's words.
  Status Build(const Program& program);
  ~PartProgram();
  PartProgram(const PartProgram&) = delete;
  PartProgram& operator=(const PartProgram&) = delete;

  struct Part {
    const core::KernelAccess* access = nullptr;
    std::size_t number = 0;  // among the program's
    cl_kernel native = nullptr;
    std::array<std::size_t, 3> local{};  // that it was compiled for; zeros: any
    std::size_t items_max = 1;           // of a work-group
  };
  /// What a kernel is called in source().
  static std::string NameOf(const std::string& kernel) { return "weir_part_" + kernel; }
  [[nodiscard]] const std::string& source() const { return analysis_->part_source; }
  [[nodiscard]] const std::string& options() const { return options_; }
  [[nodiscard]] const AnalyzerClient::Answer& analysis() const { return analysis_; }
  /// No two in a process have the same.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// kUnavailable: why this kernel can't run in parts.
  Result<Part> Find(const std::string& kernel);

 private:
  PartProgram(const Program& program, AnalyzerClient::Answer analysis);

  const cl_icd_dispatch& cl_;
  const AnalyzerClient::Answer analysis_;
  const std::string options_;
  const std::uint64_t number_;
  cl_program native_ = nullptr;
  cl_device_id device_ = nullptr;  // the first
  std::map<std::string, Part, std::less<>> kernels_;
};

}  // namespace weir::opencl
