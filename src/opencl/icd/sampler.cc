// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/sampler.h"

#include "opencl/icd/info.h"

namespace weir::opencl::icd {

void Sampler::End(Sampler* sampler) {
  sampler->link->Delist(*sampler);
  sampler->link->Release(sampler->id);
  delete sampler;
}

namespace {

cl_sampler MakeSampler(cl_context handle, cl_bool normalized, cl_addressing_mode addressing, cl_filter_mode filter,
                       std::vector<cl_sampler_properties> given, cl_int* error) {
  Context* context = As<Context>(handle);
  if (context == nullptr) return Refuse(CL_INVALID_CONTEXT, error);
  const bool addressing_known = addressing >= CL_ADDRESS_NONE && addressing <= CL_ADDRESS_MIRRORED_REPEAT;
  if (normalized > CL_TRUE || !addressing_known || (filter != CL_FILTER_NEAREST && filter != CL_FILTER_LINEAR))
    return Refuse(CL_INVALID_VALUE, error);
  if (!context->has_images()) return Refuse(CL_INVALID_OPERATION, error);
  auto* sampler = new Sampler(*context);
  sampler->normalized = normalized;
  sampler->addressing = addressing;
  sampler->filter = filter;
  sampler->given = std::move(given);
  bool sent = false;
  {
    Link::Sending sending(*context->link);
    if (sending.usable()) {
      const std::uint32_t id = sending.NewId();
      sent = sending.Send(wire::CreateSampler{
          .id = id, .context = context->id, .normalized = normalized, .addressing = addressing, .filter = filter});
      if (sent) sampler->id = id;
    }
  }
  if (!sent) {
    Drop(*sampler);
    return Refuse(kGone, error);
  }
  context->link->Enlist(*sampler);
  return Give<cl_sampler>(sampler, error);
}

}  // namespace

namespace api {

cl_sampler CreateSampler(cl_context context, cl_bool normalized, cl_addressing_mode addressing, cl_filter_mode filter,
                         cl_int* error) {
  return MakeSampler(context, normalized, addressing, filter, {}, error);
}

cl_sampler CreateSamplerWithProperties(cl_context context, const cl_sampler_properties* list, cl_int* error) {
  cl_bool normalized = CL_TRUE;
  cl_addressing_mode addressing = CL_ADDRESS_CLAMP;
  cl_filter_mode filter = CL_FILTER_NEAREST;
  std::vector<cl_sampler_properties> given;
  if (list != nullptr) {
    bool seen[3] = {};
    for (; *list != 0; list += 2) {
      given.insert(given.end(), list, list + 2);
      std::size_t which = 0;
      switch (list[0]) {
        case CL_SAMPLER_NORMALIZED_COORDS: normalized = static_cast<cl_bool>(list[1]); break;
        case CL_SAMPLER_ADDRESSING_MODE: which = 1, addressing = static_cast<cl_addressing_mode>(list[1]); break;
        case CL_SAMPLER_FILTER_MODE: which = 2, filter = static_cast<cl_filter_mode>(list[1]); break;
        default: return Refuse(CL_INVALID_VALUE, error);
      }
      if (std::exchange(seen[which], true)) return Refuse(CL_INVALID_VALUE, error);
    }
    given.push_back(0);
  }
  return MakeSampler(context, normalized, addressing, filter, std::move(given), error);
}

cl_int RetainSampler(cl_sampler sampler) { return RetainHandle<Sampler>(sampler, CL_INVALID_SAMPLER); }
cl_int ReleaseSampler(cl_sampler sampler) { return ReleaseHandle<Sampler>(sampler, CL_INVALID_SAMPLER); }

cl_int GetSamplerInfo(cl_sampler handle, cl_sampler_info name, std::size_t size, void* value, std::size_t* size_ret) {
  const Sampler* sampler = As<Sampler>(handle);
  if (sampler == nullptr) return CL_INVALID_SAMPLER;
  const InfoAnswer answer{size, value, size_ret};
  switch (name) {
    case CL_SAMPLER_REFERENCE_COUNT: return answer.Value(static_cast<cl_uint>(sampler->references.load()));
    case CL_SAMPLER_CONTEXT: return answer.Object<cl_context>(sampler->context.get());
    case CL_SAMPLER_NORMALIZED_COORDS: return answer.Value(sampler->normalized);
    case CL_SAMPLER_ADDRESSING_MODE: return answer.Value(sampler->addressing);
    case CL_SAMPLER_FILTER_MODE: return answer.Value(sampler->filter);
    case CL_SAMPLER_PROPERTIES: return answer.List<cl_sampler_properties>(sampler->given);
    default: return CL_INVALID_VALUE;
  }
}

}  // namespace api
}  // namespace weir::opencl::icd
