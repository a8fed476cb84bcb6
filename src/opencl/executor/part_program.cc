// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/part_program.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <sstream>

#include "opencl/executor/objects.h"

namespace weir::opencl {
namespace {

std::atomic<std::uint64_t> g_part_programs{0};

/// The source given to clCreateProgramWithSource; empty: there is none.
std::string SourceOf(const Program& program) {
  std::size_t bytes = 0;
  if (program.native == nullptr ||
      program.cl.clGetProgramInfo(program.native, CL_PROGRAM_SOURCE, 0, nullptr, &bytes) != CL_SUCCESS || bytes < 2)
    return {};
  std::string source(bytes, '\0');
  if (program.cl.clGetProgramInfo(program.native, CL_PROGRAM_SOURCE, bytes, source.data(), nullptr) != CL_SUCCESS)
    return {};
  source.resize(bytes - 1);  // without the terminating zero
  return source;
}

std::string FirstLineOfLog(const cl_icd_dispatch& cl, cl_program program, cl_device_id device) {
  std::array<char, 4096> log{};
  if (cl.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, log.size() - 1, log.data(), nullptr) !=
      CL_SUCCESS)
    return "it gives no reason";
  const std::string text(log.data());
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::vector<std::string> WordsOf(const std::string& options) {
  std::vector<std::string> words;
  bool quoted = false, open = false;
  for (const char c : options) {
    if (c == '"') {
      quoted = !quoted;
      if (!open) words.emplace_back();
      open = true;
    } else if (!quoted && (c == ' ' || c == '\t' || c == '\n')) {
      open = false;
    } else {
      if (!open) words.emplace_back();
      open = true;
      words.back() += c;
    }
  }
  return words;
}

namespace {

/// The options without include folders, which no longer exist.
std::vector<std::string> OptionsToAnalyse(const Program& program) {
  std::vector<std::string> words = WordsOf(program.options), kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "-I")
      ++i;
    else if (!words[i].starts_with("-I"))
      kept.push_back(std::move(words[i]));
  }
  return kept;
}

}  // namespace

std::vector<std::string> MacrosOf(const cl_icd_dispatch& cl, cl_device_id device) {
  std::vector<std::string> macros;
  std::istringstream extensions(DeviceText(cl, device, CL_DEVICE_EXTENSIONS));
  for (std::string name; extensions >> name;)
    if (name.starts_with("cl_")) macros.push_back(name + "=1");
  // The version in "OpenCL 3.0 ..." or "OpenCL C 1.2 ..."
  const auto version = [&](cl_device_info what, std::size_t at) {
    const std::string text = DeviceText(cl, device, what);
    return text.size() >= at + 3 ? std::string{text[at], text[at + 2]} + "0" : std::string("100");
  };
  macros.push_back("__OPENCL_VERSION__=" + version(CL_DEVICE_VERSION, 7));
  if (DeviceNumber(cl, device, CL_DEVICE_ENDIAN_LITTLE) != 0) macros.emplace_back("__ENDIAN_LITTLE__=1");
  if (DeviceNumber(cl, device, CL_DEVICE_IMAGE_SUPPORT) != 0) macros.emplace_back("__IMAGE_SUPPORT__=1");
  return macros;
}

Result<kernel::AnalysisRequest> PartProgram::RequestOf(const Program& program) {
  if (!program.built) return Fail(Errc::kUnavailable, "its program was not built from source at once");
  if (program.includes) return Fail(Errc::kUnavailable, "its program includes files");
  kernel::AnalysisRequest request{.options = OptionsToAnalyse(program), .source = SourceOf(program)};
  request.macros = MacrosOf(program.cl, program.context->devices.front().second->native);
  if (request.source.empty()) return Fail(Errc::kUnavailable, "its program was not made from source");
  return request;
}

Result<std::unique_ptr<PartProgram>> PartProgram::Make(AnalyzerClient& analyzer, const Program& program) {
  WEIR_TRY(const kernel::AnalysisRequest request, RequestOf(program));
  WEIR_TRY(AnalyzerClient::Answer analysis, analyzer.Ask(request));
  return std::unique_ptr<PartProgram>(new PartProgram(program, std::move(analysis)));
}

PartProgram::PartProgram(const Program& program, AnalyzerClient::Answer analysis)
    : cl_(program.cl), analysis_(std::move(analysis)), options_(program.options), number_(++g_part_programs) {}

Status PartProgram::Build(const Program& program) {
  std::vector<cl_device_id> devices;
  for (const auto& [id, device] : program.context->devices) devices.push_back(device->native);
  device_ = devices.front();
  if (analysis_->part_source.empty()) return Ok();  // no kernel has a part's kernel; the analysis says why
  const char* text = analysis_->part_source.data();
  const std::size_t length = analysis_->part_source.size();
  cl_int error = CL_SUCCESS;
  native_ = cl_.clCreateProgramWithSource(program.context->native, 1, &text, &length, &error);
  if (error == CL_SUCCESS)
    error = cl_.clBuildProgram(native_, static_cast<cl_uint>(devices.size()), devices.data(), options_.c_str(), nullptr,
                               nullptr);
  if (error == CL_SUCCESS) return Ok();
  return Fail(Errc::kUnavailable, "the driver does not compile its part kernels (error " + std::to_string(error) +
                                      "): " + FirstLineOfLog(cl_, native_, devices.front()));
}

PartProgram::~PartProgram() {
  for (const auto& [name, part] : kernels_) cl_.clReleaseKernel(part.native);
  if (native_ != nullptr) cl_.clReleaseProgram(native_);
}

Result<PartProgram::Part> PartProgram::Find(const std::string& kernel) {
  if (const auto known = kernels_.find(kernel); known != kernels_.end()) return known->second;
  const auto access = std::ranges::find(analysis_->kernels, kernel, &kernel::KernelAccess::kernel);
  if (access == analysis_->kernels.end()) return Fail(Errc::kUnavailable, "the analyzer finds no such kernel");
  if (access->verdict == kernel::AccessVerdict::kRefuse) return Fail(Errc::kUnavailable, access->reason);
  const auto made = std::ranges::find(analysis_->parts, kernel, &kernel::PartKernel::kernel);
  if (made == analysis_->parts.end()) return Fail(Errc::kUnavailable, "the analyzer makes no part kernel of it");
  if (!made->why_not.empty()) return Fail(Errc::kUnavailable, made->why_not);
  cl_int error = CL_SUCCESS;
  Part part{.access = &*access, .number = static_cast<std::size_t>(access - analysis_->kernels.begin())};
  part.native = cl_.clCreateKernel(native_, NameOf(kernel).c_str(), &error);
  if (error != CL_SUCCESS)
    return Fail(Errc::kUnavailable, "the driver makes no part kernel (error " + std::to_string(error) + ")");
  cl_.clGetKernelWorkGroupInfo(part.native, device_, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof part.local,
                               part.local.data(), nullptr);
  cl_.clGetKernelWorkGroupInfo(part.native, device_, CL_KERNEL_WORK_GROUP_SIZE, sizeof part.items_max, &part.items_max,
                               nullptr);
  return kernels_.emplace(kernel, part).first->second;
}

}  // namespace weir::opencl
