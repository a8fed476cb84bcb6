// SPDX-License-Identifier: Apache-2.0
// Creating programs and answering queries.
#include "opencl/icd/program.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "opencl/icd/binary_envelope.h"
#include "opencl/icd/includes.h"
#include "opencl/icd/info.h"
#include "opencl/icd/memory.h"
#include "platform/mutex.h"

namespace weir::opencl::icd {

void Program::End(Program* program) {
  program->link->Release(program->id);
  delete program;
}

DeviceBuild* Program::BuildOf(const Device& device) {
  const auto at =
      std::find_if(builds.begin(), builds.end(), [&](const auto& build) { return build.device.get() == &device; });
  return at == builds.end() ? nullptr : &*at;
}

bool Program::HasExecutable() const {
  return std::any_of(builds.begin(), builds.end(), [](const DeviceBuild& build) {
    return build.status == CL_BUILD_SUCCESS && build.binary_type == CL_PROGRAM_BINARY_TYPE_EXECUTABLE;
  });
}

Program* NewProgram(Context& context, std::span<Device* const> devices) {
  auto* program = new Program(context);
  for (Device* device : devices) program->builds.push_back({.device = Ref<Device>(device)});
  if (devices.empty())
    for (const auto& device : context.devices) program->builds.push_back({.device = device});
  return program;
}

namespace {

std::vector<std::shared_ptr<const wire::KernelFacts>> Shared(std::vector<wire::KernelFacts> facts) {
  Program::Kernels kernels;
  for (wire::KernelFacts& kernel : facts) kernels.push_back(std::make_shared<wire::KernelFacts>(std::move(kernel)));
  return kernels;
}

/// Keeps the descriptions of kernel arguments that the driver reported when it built the source, if it reports none for
/// the binary.
void KeepArguments(std::vector<wire::KernelFacts>& kernels, const Program::Kernels& before) {
  for (wire::KernelFacts& kernel : kernels)
    for (const auto& known : before)
      if (kernel.args.empty() && known->name == kernel.name && known->args.size() == kernel.arg_count)
        kernel.args = known->args;
}

/// Whether an enveloped binary belongs to this device and its current driver.
bool IsOf(const BinaryEnvelope& envelope, const Device& device) {
  return envelope.platform == device.link->tag() && envelope.device == device.facts.Text(CL_DEVICE_NAME) &&
         envelope.driver == device.facts.Text(CL_DRIVER_VERSION);
}

/// Fetches and stores a device's binary. Requires the program's mutex.
cl_int FetchBinary(Program& program, DeviceBuild& build) {
  if (!build.binary.empty() || build.status != CL_BUILD_SUCCESS) return CL_SUCCESS;
  wire::GetBinary request{.program = program.id, .device = build.device->id};
  Answer answer;
  if (const cl_int error = program.link->Ask(request, answer); error != CL_SUCCESS) return error;
  BinaryEnvelope envelope{.platform = program.link->tag(),
                          .device = std::string(build.device->facts.Text(CL_DEVICE_NAME)),
                          .driver = std::string(build.device->facts.Text(CL_DRIVER_VERSION)),
                          .binary_type = build.binary_type,
                          .arg_info = program.arg_info ? std::uint8_t{1} : std::uint8_t{0},
                          .options = build.options,
                          .native = answer.body};
  for (const auto& kernel : program.kernels) envelope.kernels.push_back(*kernel);
  build.binary = WriteEnvelope(envelope);
  return CL_SUCCESS;
}

template <typename M>
cl_program Announce(Program* program, M message, cl_int* error) {
  bool sent = false;
  {
    Link::Sending sending(*program->link);
    if (sending.usable()) {
      message.id = sending.NewId();
      sent = sending.Send(message);
    }
    if (sent) program->id = message.id;
  }
  if (sent) return Give<cl_program>(program, error);
  Drop(*program);
  return Refuse(kGone, error);
}

}  // namespace

void TakeFacts(Program& program, const Answer& answer) {
  wire::BuildFacts facts;
  wire::FieldReader reader(answer.body);
  wire::BuildFacts::Fields(facts, reader);
  if (reader.malformed()) return;
  for (wire::DeviceBuildFacts& told : facts.devices) {
    for (DeviceBuild& build : program.builds) {
      if (build.device->id != told.device) continue;
      build.status = told.status;
      build.binary_type = told.binary_type;
      build.log = told.log;
      build.global_variables = told.global_variables;
      build.binary.clear();
    }
  }
  KeepArguments(facts.kernels, program.kernels);
  program.kernels = Shared(std::move(facts.kernels));
}

cl_int ReadDevices(Program& program, cl_uint count, const cl_device_id* list, std::vector<std::uint32_t>& ids) {
  if ((count == 0) != (list == nullptr)) return CL_INVALID_VALUE;
  for (cl_uint i = 0; i < count; ++i) {
    const Device* device = As<Device>(list[i]);
    if (device == nullptr || program.BuildOf(*device) == nullptr) return CL_INVALID_DEVICE;
    ids.push_back(device->id);
  }
  return CL_SUCCESS;
}

namespace api {

cl_program CreateProgramWithSource(cl_context handle, cl_uint count, const char** texts, const std::size_t* lengths,
                                   cl_int* error) {
  Context* context = As<Context>(handle);
  if (context == nullptr) return Refuse(CL_INVALID_CONTEXT, error);
  if (count == 0 || texts == nullptr) return Refuse(CL_INVALID_VALUE, error);
  std::string source;
  for (cl_uint i = 0; i < count; ++i) {
    if (texts[i] == nullptr) return Refuse(CL_INVALID_VALUE, error);
    if (lengths != nullptr && lengths[i] != 0)
      source.append(texts[i], lengths[i]);
    else
      source.append(texts[i]);
  }
  const std::string sent = WithRelativeIncludes(source);
  StagedContent content;
  if (!content.Of(*context->link, sent.data(), sent.size()))
    return Refuse(context->link->usable() ? CL_OUT_OF_RESOURCES : kGone, error);
  Program* program = NewProgram(*context, {});
  program->from_source = true;
  program->source = std::move(source);
  return Announce(program,
                  wire::CreateProgram{.context = context->id, .source = content.blob(), .ticket = content.ticket()},
                  error);
}

cl_program CreateProgramWithBinary(cl_context handle, cl_uint count, const cl_device_id* list,
                                   const std::size_t* lengths, const unsigned char** binaries, cl_int* statuses,
                                   cl_int* error) {
  Context* context = As<Context>(handle);
  if (context == nullptr) return Refuse(CL_INVALID_CONTEXT, error);
  if (count == 0 || list == nullptr || lengths == nullptr || binaries == nullptr)
    return Refuse(CL_INVALID_VALUE, error);
  std::vector<Device*> devices;
  std::vector<std::uint32_t> ids;
  for (cl_uint i = 0; i < count; ++i) {
    Device* device = As<Device>(list[i]);
    if (device == nullptr || !context->Has(*device)) return Refuse(CL_INVALID_DEVICE, error);
    devices.push_back(device);
    ids.push_back(device->id);
  }
  std::vector<BinaryEnvelope> envelopes;
  cl_int wrong = CL_SUCCESS;
  for (cl_uint i = 0; i < count; ++i) {
    cl_int status = CL_SUCCESS;
    std::optional<BinaryEnvelope> envelope;
    if (lengths[i] == 0 || binaries[i] == nullptr) {
      status = CL_INVALID_VALUE;
    } else {
      envelope = ReadEnvelope({reinterpret_cast<const std::byte*>(binaries[i]), lengths[i]});
      if (!envelope || !IsOf(*envelope, *devices[i])) status = CL_INVALID_BINARY;
    }
    if (statuses != nullptr) statuses[i] = status;
    if (status != CL_SUCCESS && wrong == CL_SUCCESS) wrong = status;
    if (status == CL_SUCCESS) envelopes.push_back(std::move(*envelope));
  }
  if (wrong != CL_SUCCESS) return Refuse(wrong, error);
  // Only one binary is sent, so all devices must be of one kind.
  for (cl_uint i = 1; i < count; ++i) {
    if (envelopes[i].device == envelopes[0].device) continue;
    if (statuses != nullptr) statuses[i] = CL_INVALID_BINARY;
    return Refuse(CL_INVALID_BINARY, error);
  }
  StagedContent content;
  if (!content.Of(*context->link, envelopes[0].native.data(), envelopes[0].native.size()))
    return Refuse(context->link->usable() ? CL_OUT_OF_RESOURCES : kGone, error);
  Program* program = NewProgram(*context, devices);
  program->from_binary = true;
  program->arg_info = envelopes[0].arg_info != 0;
  program->kernels = Shared(std::move(envelopes[0].kernels));
  for (cl_uint i = 0; i < count; ++i) {
    const auto* bytes = reinterpret_cast<const std::byte*>(binaries[i]);
    program->builds[i].binary.assign(bytes, bytes + lengths[i]);
    program->builds[i].binary_type = envelopes[i].binary_type;
  }
  return Announce(program,
                  wire::CreateProgramFromBinary{.context = context->id,
                                                .devices = {ids.data(), ids.size()},
                                                .binary = content.blob(),
                                                .ticket = content.ticket()},
                  error);
}

cl_int RetainProgram(cl_program program) { return RetainHandle<Program>(program, CL_INVALID_PROGRAM); }
cl_int ReleaseProgram(cl_program program) { return ReleaseHandle<Program>(program, CL_INVALID_PROGRAM); }

cl_int GetProgramInfo(cl_program handle, cl_program_info name, std::size_t size, void* value, std::size_t* size_ret) {
  Program* program = As<Program>(handle);
  if (program == nullptr) return CL_INVALID_PROGRAM;
  const InfoAnswer answer{size, value, size_ret};
  const std::lock_guard lock(program->mutex);
  switch (name) {
    case CL_PROGRAM_REFERENCE_COUNT: return answer.Value(static_cast<cl_uint>(program->references.load()));
    case CL_PROGRAM_CONTEXT: return answer.Object<cl_context>(program->context.get());
    case CL_PROGRAM_NUM_DEVICES: return answer.Value(static_cast<cl_uint>(program->builds.size()));
    case CL_PROGRAM_DEVICES: {
      std::vector<cl_device_id> devices;
      for (const auto& build : program->builds) devices.push_back(reinterpret_cast<cl_device_id>(build.device.get()));
      return answer.List<cl_device_id>(devices);
    }
    case CL_PROGRAM_SOURCE: return answer.Text(program->source);
    case CL_PROGRAM_IL: return answer.Bytes(nullptr, 0);
    case CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT:
    case CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT: return answer.Value(static_cast<cl_bool>(CL_FALSE));
    case CL_PROGRAM_NUM_KERNELS:
      if (!program->HasExecutable()) return CL_INVALID_PROGRAM_EXECUTABLE;
      return answer.Value(program->kernels.size());
    case CL_PROGRAM_KERNEL_NAMES: {
      if (!program->HasExecutable()) return CL_INVALID_PROGRAM_EXECUTABLE;
      std::string names;
      for (const auto& kernel : program->kernels) names.append(names.empty() ? "" : ";").append(kernel->name);
      return answer.Text(names);
    }
    case CL_PROGRAM_BINARY_SIZES: {
      std::vector<std::size_t> sizes;
      for (DeviceBuild& build : program->builds) {
        if (const cl_int error = FetchBinary(*program, build); error != CL_SUCCESS) return error;
        sizes.push_back(build.binary.size());
      }
      return answer.List<std::size_t>(sizes);
    }
    case CL_PROGRAM_BINARIES: {
      const std::size_t bytes = program->builds.size() * sizeof(unsigned char*);
      if (size_ret != nullptr) *size_ret = bytes;
      if (value == nullptr) return CL_SUCCESS;
      if (size < bytes) return CL_INVALID_VALUE;
      auto* const* into = static_cast<unsigned char* const*>(value);
      for (std::size_t i = 0; i < program->builds.size(); ++i) {
        DeviceBuild& build = program->builds[i];
        if (const cl_int error = FetchBinary(*program, build); error != CL_SUCCESS) return error;
        if (into[i] != nullptr && !build.binary.empty()) std::memcpy(into[i], build.binary.data(), build.binary.size());
      }
      return CL_SUCCESS;
    }
    default: return CL_INVALID_VALUE;
  }
}

cl_int GetProgramBuildInfo(cl_program handle, cl_device_id device_handle, cl_program_build_info name, std::size_t size,
                           void* value, std::size_t* size_ret) {
  Program* program = As<Program>(handle);
  if (program == nullptr) return CL_INVALID_PROGRAM;
  const Device* device = As<Device>(device_handle);
  const std::lock_guard lock(program->mutex);
  const DeviceBuild* build = device == nullptr ? nullptr : program->BuildOf(*device);
  if (build == nullptr) return CL_INVALID_DEVICE;
  const InfoAnswer answer{size, value, size_ret};
  switch (name) {
    case CL_PROGRAM_BUILD_STATUS: return answer.Value(build->status);
    case CL_PROGRAM_BUILD_OPTIONS: return answer.Text(build->options);
    case CL_PROGRAM_BUILD_LOG: return answer.Text(build->log);
    case CL_PROGRAM_BINARY_TYPE: return answer.Value(build->binary_type);
    case CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE:
      return answer.Value(static_cast<std::size_t>(build->global_variables));
    default: return CL_INVALID_VALUE;
  }
}

}  // namespace api
}  // namespace weir::opencl::icd
