// SPDX-License-Identifier: Apache-2.0
// clSetKernelArg. The driver's facts of the build determine the kind of an argument. If there are none, a value of a
// pointer's size that is the address of a live object means that object.
#include <cstring>

#include "opencl/icd/kernel.h"
#include "opencl/icd/memory.h"
#include "opencl/icd/sampler.h"

namespace weir::opencl::icd {
namespace {

struct Value {
  wire::ArgKind kind = wire::ArgKind::kData;
  std::uint64_t size = 0, serial = 0;
  std::uint32_t object = 0;
  const void* data = nullptr;
};

const void* PointerAt(const void* value) {
  const void* pointer = nullptr;
  std::memcpy(&pointer, value, sizeof pointer);
  return pointer;
}

cl_int ReadObject(Link& link, Kind kind, std::size_t size, const void* from, cl_int invalid, Value& value) {
  if (size != sizeof(void*)) return CL_INVALID_ARG_SIZE;
  Link::Enlisted found;
  if (from == nullptr || !link.Find(PointerAt(from), found) || found.kind != kind) return invalid;
  value.kind = wire::ArgKind::kObject;
  value.object = found.id;
  value.serial = found.serial;
  return CL_SUCCESS;
}

cl_int ReadValue(Link& link, const ArgType& type, std::size_t size, const void* from, Value& value) {
  using Class = ArgType::Class;
  value.size = size;
  switch (type.what) {
    case Class::kBuffer:
      if (size == sizeof(void*) && (from == nullptr || PointerAt(from) == nullptr)) {
        value.kind = wire::ArgKind::kNull;
        return CL_SUCCESS;
      }
      return ReadObject(link, Kind::kMemory, size, from, CL_INVALID_MEM_OBJECT, value);
    case Class::kImage: return ReadObject(link, Kind::kMemory, size, from, CL_INVALID_MEM_OBJECT, value);
    case Class::kSampler: return ReadObject(link, Kind::kSampler, size, from, CL_INVALID_SAMPLER, value);
    case Class::kLocal:
      if (from != nullptr) return CL_INVALID_ARG_VALUE;
      value.kind = wire::ArgKind::kLocal;
      return size > 0 ? CL_SUCCESS : CL_INVALID_ARG_SIZE;
    case Class::kData:
      if (from == nullptr) return CL_INVALID_ARG_VALUE;
      if (size == 0 || (type.bytes != 0 && size != type.bytes)) return CL_INVALID_ARG_SIZE;
      value.data = from;
      return CL_SUCCESS;
    case Class::kNeverThere: return CL_INVALID_ARG_VALUE;
    case Class::kUnknown: break;
  }
  if (size == 0) return CL_INVALID_ARG_SIZE;
  if (from == nullptr) {
    value.kind = wire::ArgKind::kLocal;
    return CL_SUCCESS;
  }
  Link::Enlisted found;
  if (size == sizeof(void*) && link.Find(PointerAt(from), found)) {
    value.kind = wire::ArgKind::kObject;
    value.object = found.id;
    value.serial = found.serial;
    return CL_SUCCESS;
  }
  value.data = from;
  return CL_SUCCESS;
}

bool Same(const KernelArg& arg, const Value& value) {
  if (!arg.set || arg.kind != value.kind) return false;
  if (value.kind == wire::ArgKind::kObject) return arg.serial == value.serial;
  if (arg.size != value.size) return false;
  return value.kind != wire::ArgKind::kData || std::memcmp(arg.data().data(), value.data, value.size) == 0;
}

cl_int SendArg(const Kernel& kernel, std::uint32_t index, const KernelArg& arg) {
  wire::SetArg message{.kernel = kernel.id, .index = index, .kind = static_cast<std::uint8_t>(arg.kind)};
  if (arg.kind == wire::ArgKind::kObject)
    message.object = arg.object;
  else if (arg.kind == wire::ArgKind::kData)
    message.data = arg.data();
  else
    message.size = arg.size;
  return kernel.link->SendOne(message);
}

}  // namespace

// Programs may set an argument several times between two launches. Only the values at the launch are sent.
cl_int SendArgs(Kernel& kernel) {
  if (!kernel.args_unsent) return CL_SUCCESS;
  for (std::uint32_t i = 0; i < kernel.args.size(); ++i) {
    if (kernel.args[i].sent || !kernel.args[i].set) continue;
    if (const cl_int error = SendArg(kernel, i, kernel.args[i]); error != CL_SUCCESS) return error;
    kernel.args[i].sent = true;
  }
  kernel.args_unsent = false;
  return CL_SUCCESS;
}

namespace api {

cl_int SetKernelArg(cl_kernel handle, cl_uint index, std::size_t size, const void* from) {
  Kernel* kernel = As<Kernel>(handle);
  if (kernel == nullptr) return CL_INVALID_KERNEL;
  if (index >= kernel->args.size()) return CL_INVALID_ARG_INDEX;
  if (!kernel->link->usable()) return kGone;
  Value value;
  if (const cl_int error = ReadValue(*kernel->link, kernel->types[index], size, from, value); error != CL_SUCCESS)
    return error;
  KernelArg& arg = kernel->args[index];
  if (Same(arg, value)) return CL_SUCCESS;
  if (value.kind == wire::ArgKind::kData && value.size > wire::kMessageBytesMax / 2) return CL_INVALID_ARG_SIZE;
  arg.kind = value.kind;
  arg.size = value.size;
  arg.serial = value.serial;
  arg.object = value.object;
  if (value.kind == wire::ArgKind::kData) {
    if (value.size > KernelArg::kFew) arg.more.resize(value.size);
    std::memcpy(value.size <= KernelArg::kFew ? arg.few : arg.more.data(), value.data, value.size);
  }
  if (!std::exchange(arg.set, true)) --kernel->args_missing;
  arg.sent = false;
  kernel->args_unsent = true;
  return CL_SUCCESS;
}

cl_kernel CloneKernel(cl_kernel handle, cl_int* error) {
  Kernel* kernel = As<Kernel>(handle);
  if (kernel == nullptr) return Refuse(CL_INVALID_KERNEL, error);
  auto* clone = new Kernel(*kernel->program, kernel->facts);
  cl_int result = kGone;
  {
    Link::Sending sending(*kernel->link);
    if (sending.usable()) {
      const std::uint32_t id = sending.NewId();
      if (sending.Send(wire::CreateKernel{.id = id, .program = kernel->program->id, .name = kernel->facts->name})) {
        clone->id = id;
        result = CL_SUCCESS;
      }
    }
  }
  clone->args = kernel->args;
  clone->args_missing = kernel->args_missing;
  for (KernelArg& arg : clone->args) arg.sent = false;
  clone->args_unsent = true;
  if (result == CL_SUCCESS) return Give<cl_kernel>(clone, error);
  Drop(*clone);
  return Refuse(result, error);
}

}  // namespace api
}  // namespace weir::opencl::icd
