// SPDX-License-Identifier: Apache-2.0
// A program whose kernels can run in parts: what they access, and their part kernels (docs/kernel-analysis.md, "A
// part's kernel"), built by the driver when the first of them is launched.
#pragma once

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
  /// Of a program that was built from source. Errors: why none of its kernels can run in parts.
  static Result<std::unique_ptr<PartProgram>> Make(AnalyzerClient& analyzer, const Program& program);
  ~PartProgram();
  PartProgram(const PartProgram&) = delete;
  PartProgram& operator=(const PartProgram&) = delete;

  struct Part {
    const core::KernelAccess* access = nullptr;
    cl_kernel native = nullptr;
  };
  /// What a kernel is called in source().
  static std::string NameOf(const std::string& kernel) { return "weir_part_" + kernel; }
  [[nodiscard]] const std::string& source() const { return analysis_->part_source; }
  [[nodiscard]] const std::string& options() const { return options_; }
  /// No two in a process have the same.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// kUnavailable: why this kernel can't run in parts.
  Result<Part> Find(const std::string& kernel);

 private:
  PartProgram(const Program& program, AnalyzerClient::Answer analysis);
  Status Build(const Program& program, const std::vector<cl_device_id>& devices);

  const cl_icd_dispatch& cl_;
  const AnalyzerClient::Answer analysis_;
  const std::string options_;
  const std::uint64_t number_;
  cl_program native_ = nullptr;
  std::map<std::string, cl_kernel, std::less<>> kernels_;
};

}  // namespace weir::opencl
