// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "opencl/channel/arg_names.h"
#include "opencl/icd/info.h"
#include "platform/mutex.h"

namespace weir::opencl::icd {
namespace {

struct Scalar {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<Scalar, 17> kScalars{{{"char", 1},
                                           {"uchar", 1},
                                           {"unsigned char", 1},
                                           {"short", 2},
                                           {"ushort", 2},
                                           {"unsigned short", 2},
                                           {"half", 2},
                                           {"int", 4},
                                           {"uint", 4},
                                           {"unsigned int", 4},
                                           {"float", 4},
                                           {"long", 8},
                                           {"ulong", 8},
                                           {"unsigned long", 8},
                                           {"double", 8},
                                           {"signed char", 1},
                                           {"unsigned", 4}}};

/// The size of a scalar or vector type; 0: another type.
std::size_t BytesOf(std::string_view type) {
  std::size_t digits = 0;
  while (digits < type.size() && type[type.size() - 1 - digits] >= '0' && type[type.size() - 1 - digits] <= '9')
    ++digits;
  const std::string_view base = type.substr(0, type.size() - digits), width = type.substr(type.size() - digits);
  std::size_t count = 1;
  if (width == "2")
    count = 2;
  else if (width == "3" || width == "4")
    count = 4;
  else if (width == "8")
    count = 8;
  else if (width == "16")
    count = 16;
  else if (!width.empty())
    return 0;
  const auto* const scalar =
      std::find_if(kScalars.begin(), kScalars.end(), [base](const Scalar& s) { return s.name == base; });
  return scalar == kScalars.end() ? 0 : scalar->bytes * count;
}

}  // namespace

ArgType ArgTypeOf(const wire::ArgFacts& facts) {
  using Class = ArgType::Class;
  const std::string_view type = facts.type;
  const bool pointer = type.ends_with('*');
  if (!pointer && (type == "queue_t" || IsPipeArg(facts.type_qualifier, type))) return {Class::kNeverThere};
  if (!pointer && IsImageArg(facts.access, type)) return {Class::kImage};
  if (!pointer && type == "sampler_t") return {Class::kSampler};
  switch (facts.address) {
    case CL_KERNEL_ARG_ADDRESS_LOCAL: return {Class::kLocal};
    case CL_KERNEL_ARG_ADDRESS_GLOBAL:
    case CL_KERNEL_ARG_ADDRESS_CONSTANT: return {pointer ? Class::kBuffer : Class::kUnknown};
    case CL_KERNEL_ARG_ADDRESS_PRIVATE: return {Class::kData, BytesOf(type)};
    default: return {};
  }
}

Kernel::Kernel(Program& of, std::shared_ptr<const wire::KernelFacts> what)
    : Object(kKind, of.link), program(&of), facts(std::move(what)) {
  args.resize(facts->arg_count);
  types.resize(facts->arg_count);
  if (facts->args.size() == facts->arg_count)
    std::transform(facts->args.begin(), facts->args.end(), types.begin(), ArgTypeOf);
  args_missing = facts->arg_count;
  of.kernels_made.fetch_add(1);
}

void Kernel::End(Kernel* kernel) {
  kernel->program->kernels_made.fetch_sub(1);
  kernel->link->Release(kernel->id);
  delete kernel;
}

const wire::WorkGroupFacts* Kernel::GroupsOn(const Device& device, bool parents_too) const {
  for (const Device* on = &device; on != nullptr; on = parents_too ? on->parent.get() : nullptr)
    for (const wire::WorkGroupFacts& groups : facts->groups)
      if (groups.device == on->id) return &groups;
  return nullptr;
}

namespace {

Kernel* MakeKernel(Program& program, const std::shared_ptr<const wire::KernelFacts>& facts, cl_int* error) {
  auto* kernel = new Kernel(program, facts);
  bool sent = false;
  {
    Link::Sending sending(*program.link);
    if (sending.usable()) {
      const std::uint32_t id = sending.NewId();
      sent = sending.Send(wire::CreateKernel{.id = id, .program = program.id, .name = facts->name});
      if (sent) kernel->id = id;
    }
  }
  if (sent) return Give<Kernel*>(kernel, error);
  Drop(*kernel);
  return Refuse(kGone, error);
}

}  // namespace

namespace api {

cl_kernel CreateKernel(cl_program handle, const char* name, cl_int* error) {
  Program* program = As<Program>(handle);
  if (program == nullptr) return Refuse(CL_INVALID_PROGRAM, error);
  if (name == nullptr) return Refuse(CL_INVALID_VALUE, error);
  const std::lock_guard lock(program->mutex);
  if (!program->HasExecutable()) return Refuse(CL_INVALID_PROGRAM_EXECUTABLE, error);
  for (const auto& facts : program->kernels)
    if (facts->name == name) return reinterpret_cast<cl_kernel>(MakeKernel(*program, facts, error));
  return Refuse(CL_INVALID_KERNEL_NAME, error);
}

cl_int CreateKernelsInProgram(cl_program handle, cl_uint count, cl_kernel* kernels, cl_uint* count_ret) {
  Program* program = As<Program>(handle);
  if (program == nullptr) return CL_INVALID_PROGRAM;
  const std::lock_guard lock(program->mutex);
  if (!program->HasExecutable()) return CL_INVALID_PROGRAM_EXECUTABLE;
  if (kernels != nullptr && count < program->kernels.size()) return CL_INVALID_VALUE;
  if (count_ret != nullptr) *count_ret = static_cast<cl_uint>(program->kernels.size());
  if (kernels == nullptr) return CL_SUCCESS;
  for (std::size_t i = 0; i < program->kernels.size(); ++i) {
    cl_int error = CL_SUCCESS;
    kernels[i] = reinterpret_cast<cl_kernel>(MakeKernel(*program, program->kernels[i], &error));
    if (error == CL_SUCCESS) continue;
    for (std::size_t made = 0; made < i; ++made) ReleaseKernel(kernels[made]);
    return error;
  }
  return CL_SUCCESS;
}

cl_int RetainKernel(cl_kernel kernel) { return RetainHandle<Kernel>(kernel, CL_INVALID_KERNEL); }
cl_int ReleaseKernel(cl_kernel kernel) { return ReleaseHandle<Kernel>(kernel, CL_INVALID_KERNEL); }

cl_int GetKernelInfo(cl_kernel handle, cl_kernel_info name, std::size_t size, void* value, std::size_t* size_ret) {
  const Kernel* kernel = As<Kernel>(handle);
  if (kernel == nullptr) return CL_INVALID_KERNEL;
  const InfoAnswer answer{size, value, size_ret};
  switch (name) {
    case CL_KERNEL_FUNCTION_NAME: return answer.Text(kernel->facts->name);
    case CL_KERNEL_NUM_ARGS: return answer.Value(cl_uint{kernel->facts->arg_count});
    case CL_KERNEL_REFERENCE_COUNT: return answer.Value(static_cast<cl_uint>(kernel->references.load()));
    case CL_KERNEL_CONTEXT: return answer.Object<cl_context>(kernel->program->context.get());
    case CL_KERNEL_PROGRAM: return answer.Object<cl_program>(kernel->program.get());
    case CL_KERNEL_ATTRIBUTES: return answer.Text(kernel->facts->attributes);
    default: return CL_INVALID_VALUE;
  }
}

cl_int GetKernelArgInfo(cl_kernel handle, cl_uint index, cl_kernel_arg_info name, std::size_t size, void* value,
                        std::size_t* size_ret) {
  const Kernel* kernel = As<Kernel>(handle);
  if (kernel == nullptr) return CL_INVALID_KERNEL;
  if (index >= kernel->facts->arg_count) return CL_INVALID_ARG_INDEX;
  if (!kernel->program->arg_info || kernel->facts->args.size() != kernel->facts->arg_count)
    return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
  const wire::ArgFacts& arg = kernel->facts->args[index];
  const InfoAnswer answer{size, value, size_ret};
  switch (name) {
    case CL_KERNEL_ARG_ADDRESS_QUALIFIER: return answer.Value(cl_kernel_arg_address_qualifier{arg.address});
    case CL_KERNEL_ARG_ACCESS_QUALIFIER: return answer.Value(cl_kernel_arg_access_qualifier{arg.access});
    case CL_KERNEL_ARG_TYPE_NAME: return answer.Text(arg.type);
    case CL_KERNEL_ARG_TYPE_QUALIFIER: return answer.Value(cl_kernel_arg_type_qualifier{arg.type_qualifier});
    case CL_KERNEL_ARG_NAME: return answer.Text(arg.name);
    default: return CL_INVALID_VALUE;
  }
}

cl_int GetKernelWorkGroupInfo(cl_kernel handle, cl_device_id device_handle, cl_kernel_work_group_info name,
                              std::size_t size, void* value, std::size_t* size_ret) {
  const Kernel* kernel = As<Kernel>(handle);
  if (kernel == nullptr) return CL_INVALID_KERNEL;
  const auto& builds = kernel->program->builds;
  const Device* device = As<Device>(device_handle);
  if (device_handle == nullptr && builds.size() == 1) device = builds.front().device.get();
  if (device == nullptr || kernel->program->BuildOf(*device) == nullptr) return CL_INVALID_DEVICE;
  const InfoAnswer answer{size, value, size_ret};
  const wire::WorkGroupFacts* groups = kernel->GroupsOn(*device, false);
  if (groups == nullptr) {
    wire::KernelWorkGroup request{.kernel = kernel->id, .device = device->id, .name = name};
    Answer told;
    const cl_int error = kernel->link->Ask(request, told);
    return error != CL_SUCCESS ? error : answer.Bytes(told.body.data(), told.body.size());
  }
  switch (name) {
    case CL_KERNEL_WORK_GROUP_SIZE: return answer.Value(static_cast<std::size_t>(groups->size));
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
      return answer.Value(static_cast<std::size_t>(groups->preferred_multiple));
    case CL_KERNEL_LOCAL_MEM_SIZE: {
      cl_ulong bytes = groups->local_bytes;
      for (const KernelArg& arg : kernel->args)
        if (arg.set && arg.kind == wire::ArgKind::kLocal) bytes += arg.size;
      return answer.Value(bytes);
    }
    case CL_KERNEL_PRIVATE_MEM_SIZE: return answer.Value(cl_ulong{groups->private_bytes});
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE: {
      const std::array<std::size_t, 3> sizes{groups->compile_size[0], groups->compile_size[1], groups->compile_size[2]};
      return answer.Value(sizes);
    }
    default: return CL_INVALID_VALUE;  // CL_KERNEL_GLOBAL_WORK_SIZE is for custom devices and built-in kernels
  }
}

}  // namespace api
}  // namespace weir::opencl::icd
