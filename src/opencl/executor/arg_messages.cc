// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/arg_messages.h"

#include "opencl/executor/partitioned_launches.h"

namespace weir::opencl {

namespace wire = proto::cl;

// What an argument may be set to (arg_types.h). Unknown arguments are values or buffers only if a test shows it.
cl_int ArgMessages::MayBeValue(Kernel& kernel, std::uint32_t index, std::size_t size) {
  if (index >= kernel.takes->size()) return CL_INVALID_ARG_INDEX;
  if (size == 0) return CL_INVALID_ARG_SIZE;  // PoCL 3.1 would end the process
  ArgTakes& takes = (*kernel.takes)[index];
  if (takes == ArgTakes::kValue) return CL_SUCCESS;
  if (takes != ArgTakes::kUnknown && takes != ArgTakes::kUntold) return CL_INVALID_ARG_VALUE;
  if (!shared_.arg_probe->IsValue(cl_, shared_.device.device, kernel.program->native, kernel.name.c_str(), index, size))
    return CL_INVALID_ARG_VALUE;
  takes = ArgTakes::kValue;
  return CL_SUCCESS;
}

cl_int ArgMessages::MayBeNull(const Kernel& kernel, std::uint32_t index) {
  if (index >= kernel.takes->size()) return CL_INVALID_ARG_INDEX;
  const ArgTakes takes = (*kernel.takes)[index];
  const bool may = takes == ArgTakes::kBuffer || takes == ArgTakes::kLocal || takes == ArgTakes::kUntold;
  return may ? CL_SUCCESS : CL_INVALID_ARG_VALUE;
}

cl_int ArgMessages::MayBeSampler(const Kernel& kernel, std::uint32_t index) const {
  if (index >= kernel.takes->size()) return CL_INVALID_ARG_INDEX;
  const ArgTakes takes = (*kernel.takes)[index];
  if (takes == ArgTakes::kSampler) return CL_SUCCESS;
  const bool shown =
      takes == ArgTakes::kUnknown &&
      shared_.arg_probe->IsSampler(cl_, shared_.device.device, kernel.program->native, kernel.name.c_str(), index);
  return shown ? CL_SUCCESS : CL_INVALID_ARG_VALUE;
}

cl_int ArgMessages::MayBeMemory(const Kernel& kernel, std::uint32_t index, bool image) const {
  if (index >= kernel.takes->size()) return CL_INVALID_ARG_INDEX;
  const ArgTakes takes = (*kernel.takes)[index];
  if (takes == (image ? ArgTakes::kImage : ArgTakes::kBuffer)) return CL_SUCCESS;
  if (takes == ArgTakes::kImage || takes == ArgTakes::kBuffer) return CL_INVALID_MEM_OBJECT;
  const bool shown =
      takes == ArgTakes::kUntold && !image &&
      shared_.arg_probe->IsBuffer(cl_, shared_.device.device, kernel.program->native, kernel.name.c_str(), index);
  return shown ? CL_SUCCESS : CL_INVALID_ARG_VALUE;
}

void ArgMessages::Do(const wire::SetArg& m) {
  Kernel* kernel = nullptr;
  if (objects_.Find(m.kernel, kernel) != CL_SUCCESS) return client_.Complain(CL_INVALID_KERNEL, "clSetKernelArg");
  cl_int error = CL_INVALID_VALUE;
  std::shared_ptr<Object> kept;
  switch (static_cast<wire::ArgKind>(m.kind)) {
    case wire::ArgKind::kData:
      error = MayBeValue(*kernel, m.index, m.data.size());
      if (error == CL_SUCCESS) error = cl_.clSetKernelArg(kernel->native, m.index, m.data.size(), m.data.data());
      break;
    case wire::ArgKind::kLocal:
    case wire::ArgKind::kNull:
      error = MayBeNull(*kernel, m.index);
      if (error == CL_SUCCESS) error = cl_.clSetKernelArg(kernel->native, m.index, m.size, nullptr);
      break;
    case wire::ArgKind::kObject: {
      kept = objects_.Any(m.object);
      Memory* memory = nullptr;
      Sampler* sampler = nullptr;
      if (kept && kept->kind == Kind::kSampler) {
        error = objects_.Find(m.object, sampler);
        if (error == CL_SUCCESS) error = MayBeSampler(*kernel, m.index);
        if (error == CL_SUCCESS)
          error = cl_.clSetKernelArg(kernel->native, m.index, sizeof(cl_sampler), &sampler->native);
      } else {
        error = objects_.Find(m.object, memory);
        if (error == CL_SUCCESS) error = MayBeMemory(*kernel, m.index, memory->image);
        if (error == CL_SUCCESS && shared_.store != nullptr) break;  // set at the launch
        if (error == CL_SUCCESS) error = memory_.Materialise(*memory);
        if (error == CL_SUCCESS) error = cl_.clSetKernelArg(kernel->native, m.index, sizeof(cl_mem), &memory->native);
      }
      break;
    }
  }
  if (error != CL_SUCCESS) {
    kernel->arg_errors[m.index < kernel->takes->size() ? m.index : kArgsMax] = error;
    return client_.Complain(error, "clSetKernelArg");
  }
  kernel->arg_errors.erase(m.index);
  if (!kept && m.index >= kernel->args.size() && shared_.analyzer == nullptr) return;
  if (m.index >= kernel->args.size()) kernel->args.resize(std::size_t{m.index} + 1);
  if (shared_.store != nullptr) {
    kernel->set_to.resize(kernel->args.size());
    kernel->set_to[m.index] = 0;
  }
  if (shared_.analyzer != nullptr) PartitionedLaunches::RememberArg(*kernel, m);
  kernel->args[m.index] = kept ? std::optional<std::weak_ptr<Object>>(kept) : std::nullopt;
}

}  // namespace weir::opencl
