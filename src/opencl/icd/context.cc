// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/context.h"

#include <algorithm>

#include "opencl/icd/info.h"
#include "opencl/icd/platform.h"

namespace weir::opencl::icd {

bool Context::Has(const Device& device) const {
  return std::any_of(devices.begin(), devices.end(), [&](const auto& mine) { return mine.get() == &device; });
}

bool Context::has_images() const {
  return std::any_of(devices.begin(), devices.end(), [](const auto& device) { return device->images; });
}

void Context::End(Context* context) {
  if (context->notify != nullptr) context->link->ForgetNotices(context->id);
  context->link->Release(context->id);
  std::vector<std::function<void()>> callbacks = std::move(context->destructor_callbacks);
  delete context;
  for (auto callback = callbacks.rbegin(); callback != callbacks.rend(); ++callback) (*callback)();
}

namespace {

using Notify = void(CL_CALLBACK*)(const char*, const void*, std::size_t, void*);

/// Checks a list of properties and sets `length` to its length including the final zero.
cl_int CheckProperties(const cl_context_properties* properties, std::size_t& length) {
  length = 0;
  if (properties == nullptr) return CL_SUCCESS;
  bool platform_given = false, sync_given = false;
  for (; properties[length] != 0; length += 2) {
    bool& given = properties[length] == CL_CONTEXT_PLATFORM ? platform_given : sync_given;
    if (properties[length] != CL_CONTEXT_PLATFORM && properties[length] != CL_CONTEXT_INTEROP_USER_SYNC)
      return CL_INVALID_PROPERTY;
    if (given) return CL_INVALID_PROPERTY;
    given = true;
    if (properties[length] == CL_CONTEXT_PLATFORM &&
        As<Platform>(reinterpret_cast<const void*>(properties[length + 1])) == nullptr)
      return CL_INVALID_PLATFORM;
    if (properties[length] == CL_CONTEXT_INTEROP_USER_SYNC && properties[length + 1] != CL_FALSE &&
        properties[length + 1] != CL_TRUE)
      return CL_INVALID_PROPERTY;
  }
  ++length;
  return CL_SUCCESS;
}

cl_context MakeContext(const cl_context_properties* properties, std::size_t length, std::span<Device* const> devices,
                       Notify notify, void* user, cl_int* error) {
  Link* link = devices.front()->link;
  auto* context = new Context(link);
  context->shares_arena = true;
  std::vector<std::uint32_t> ids;
  for (Device* device : devices) {
    if (context->Has(*device)) continue;
    context->devices.emplace_back(device);
    context->shares_arena = context->shares_arena && device->shares_arena;
    ids.push_back(device->id);
  }
  context->given.assign(properties, properties + length);
  context->notify = notify;
  context->notify_user = user;
  bool sent = false;
  {
    Link::Sending sending(*link);
    if (sending.usable()) {
      context->id = sending.NewId();
      sent = sending.Send(wire::CreateContext{.id = context->id, .devices = {ids.data(), ids.size()}});
    }
  }
  if (!sent) {
    context->notify = nullptr;
    Drop(*context);
    return Refuse(kGone, error);
  }
  if (notify != nullptr) link->WantNotices(*context);
  return Give<cl_context>(context, error);
}

}  // namespace

namespace api {

cl_context CreateContext(const cl_context_properties* properties, cl_uint count, const cl_device_id* handles,
                         Notify notify, void* user, cl_int* error) {
  std::size_t length = 0;
  if (const cl_int wrong = CheckProperties(properties, length); wrong != CL_SUCCESS) return Refuse(wrong, error);
  if (count == 0 || handles == nullptr || (notify == nullptr && user != nullptr))
    return Refuse(CL_INVALID_VALUE, error);
  std::vector<Device*> devices;
  for (cl_uint i = 0; i < count; ++i) {
    Device* device = As<Device>(handles[i]);
    if (device == nullptr) return Refuse(CL_INVALID_DEVICE, error);
    if (!device->link->usable() || (i > 0 && device->link != devices[0]->link)) return Refuse(kGone, error);
    devices.push_back(device);
  }
  return MakeContext(properties, length, devices, notify, user, error);
}

cl_context CreateContextFromType(const cl_context_properties* properties, cl_device_type type, Notify notify,
                                 void* user, cl_int* error) {
  std::size_t length = 0;
  if (const cl_int wrong = CheckProperties(properties, length); wrong != CL_SUCCESS) return Refuse(wrong, error);
  if (notify == nullptr && user != nullptr) return Refuse(CL_INVALID_VALUE, error);
  cl_uint count = 0;
  if (const cl_int wrong = GetDeviceIDs(PlatformHandle(), type, 0, nullptr, &count); wrong != CL_SUCCESS)
    return Refuse(wrong, error);
  std::vector<cl_device_id> handles(count);
  GetDeviceIDs(PlatformHandle(), type, count, handles.data(), nullptr);
  return CreateContext(properties, count, handles.data(), notify, user, error);
}

cl_int RetainContext(cl_context context) { return RetainHandle<Context>(context, CL_INVALID_CONTEXT); }
cl_int ReleaseContext(cl_context context) { return ReleaseHandle<Context>(context, CL_INVALID_CONTEXT); }

cl_int GetContextInfo(cl_context handle, cl_context_info name, std::size_t size, void* value, std::size_t* size_ret) {
  const Context* context = As<Context>(handle);
  if (context == nullptr) return CL_INVALID_CONTEXT;
  const InfoAnswer answer{size, value, size_ret};
  switch (name) {
    case CL_CONTEXT_REFERENCE_COUNT: return answer.Value(static_cast<cl_uint>(context->references.load()));
    case CL_CONTEXT_NUM_DEVICES: return answer.Value(static_cast<cl_uint>(context->devices.size()));
    case CL_CONTEXT_DEVICES: {
      std::vector<cl_device_id> devices;
      for (const auto& device : context->devices) devices.push_back(reinterpret_cast<cl_device_id>(device.get()));
      return answer.List<cl_device_id>(devices);
    }
    case CL_CONTEXT_PROPERTIES: return answer.List<cl_context_properties>(context->given);
    default: return CL_INVALID_VALUE;
  }
}

cl_int SetContextDestructorCallback(cl_context handle, void(CL_CALLBACK* call)(cl_context, void*), void* user) {
  Context* context = As<Context>(handle);
  if (context == nullptr) return CL_INVALID_CONTEXT;
  if (call == nullptr) return CL_INVALID_VALUE;
  const Link::StateLock lock(*context->link);
  context->destructor_callbacks.emplace_back([call, handle, user] { call(handle, user); });
  return CL_SUCCESS;
}

}  // namespace api
}  // namespace weir::opencl::icd
