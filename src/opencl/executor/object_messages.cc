// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/object_messages.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>

#include "opencl/executor/transfer_check.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

constexpr cl_mem_flags kHostPointerFlags = CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR | CL_MEM_ALLOC_HOST_PTR;
/// Restrictions of the program's own accesses. The driver does not get them: the client library enforces them, and it
/// reads a buffer even if the program maps it only for writing.
constexpr cl_mem_flags kHostAccessFlags = CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY;
/// Limit of each dimension of an image; log/contents.cc relies on it.
constexpr std::uint64_t kImageExtentMax = 1U << 20;

std::atomic<std::uint32_t> g_parts_made{0};

/// Sets the extent of an image type. False: unknown type.
bool ExtentOf(const cl_image_desc& desc, std::uint64_t (&extent)[3]) {
  const std::uint64_t w = desc.image_width, h = desc.image_height, layers = desc.image_array_size;
  const auto are = [&extent](std::uint64_t x, std::uint64_t y, std::uint64_t z) {
    extent[0] = x;
    extent[1] = y;
    extent[2] = z;
    return x != 0 && y != 0 && z != 0;
  };
  switch (desc.image_type) {
    case CL_MEM_OBJECT_IMAGE1D:
    case CL_MEM_OBJECT_IMAGE1D_BUFFER: return are(w, 1, 1);
    case CL_MEM_OBJECT_IMAGE1D_ARRAY: return are(w, layers, 1);
    case CL_MEM_OBJECT_IMAGE2D: return are(w, h, 1);
    case CL_MEM_OBJECT_IMAGE2D_ARRAY: return are(w, h, layers);
    case CL_MEM_OBJECT_IMAGE3D: return are(w, h, desc.image_depth);
    default: return false;
  }
}

/// Whether an image over a buffer or another image lies within it.
cl_int ImageFitsBuffer(const cl_image_desc& desc, std::uint64_t pixel_bytes, const Memory& buffer) {
  if (buffer.image || (desc.image_type != CL_MEM_OBJECT_IMAGE1D_BUFFER && desc.image_type != CL_MEM_OBJECT_IMAGE2D))
    return CL_INVALID_IMAGE_DESCRIPTOR;
  if (pixel_bytes == 0) return CL_IMAGE_FORMAT_NOT_SUPPORTED;
  constexpr std::uint64_t kOrigin[3] = {0, 0, 0};
  const bool flat = desc.image_type == CL_MEM_OBJECT_IMAGE1D_BUFFER;
  const std::uint64_t region[3] = {desc.image_width * pixel_bytes, flat ? 1 : desc.image_height, 1};
  const bool fits = BoxFits(buffer.size, {kOrigin, region, flat ? 0 : desc.image_row_pitch, 0});
  return fits ? CL_SUCCESS : CL_INVALID_IMAGE_SIZE;
}

}  // namespace

void ObjectMessages::Do(const wire::CreateContext& m) {
  auto context = std::make_shared<Context>(cl_);
  context->id = m.id;
  context->own_memory = !shared_.device.in_host_memory;
  std::vector<cl_device_id> devices;
  cl_int error = m.devices.empty() || m.devices.size() > kDevicesMax ? CL_INVALID_VALUE : CL_SUCCESS;
  if (error == CL_SUCCESS) error = client_.Charge(*context);
  for (std::size_t i = 0; i < m.devices.size() && error == CL_SUCCESS; ++i) {
    std::shared_ptr<Device> device;
    error = objects_.Share(m.devices[i], device);
    if (error != CL_SUCCESS) break;
    devices.push_back(device->native);
    context->devices.emplace_back(m.devices[i], device);
    context->in_host_memory = context->in_host_memory && device->in_host_memory;
  }
  if (error == CL_SUCCESS) {
    const std::array<cl_context_properties, 3> properties{
        CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(shared_.device.platform), 0};
    context->native = cl_.clCreateContext(properties.data(), static_cast<cl_uint>(devices.size()), devices.data(),
                                          nullptr, nullptr, &error);
  }
  objects_.Keep(m.id, std::move(context), error, "clCreateContext");
}

void ObjectMessages::Do(const wire::CreateQueue& m) {
  auto queue = std::make_shared<Queue>(cl_);
  Device* device = nullptr;
  cl_int error = objects_.Share(m.context, queue->context);
  if (error == CL_SUCCESS) error = objects_.Find(m.device, device);
  if (error == CL_SUCCESS) error = client_.Charge(*queue);
  if (error == CL_SUCCESS) {
    constexpr cl_command_queue_properties kKnown = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
    cl_command_queue_properties properties = m.properties & kKnown;
    queue->in_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
    queue->profiling = (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
    // Without metered workers, the GPU time of a task comes from the times of events.
    if (!shared_.meter.by_workers()) properties |= CL_QUEUE_PROFILING_ENABLE;
    queue->native = cl_.clCreateCommandQueue(queue->context->native, device->native, properties, &error);
  }
  objects_.Keep(m.id, std::move(queue), error, "clCreateCommandQueue");
}

void ObjectMessages::Do(const wire::CreateBuffer& m) {
  auto buffer = std::make_shared<Memory>(cl_);
  buffer->flags = m.flags & ~(kHostPointerFlags | kHostAccessFlags);
  buffer->size = m.size;
  buffer->filled = m.filled != 0;
  cl_int error = objects_.Share(m.context, buffer->context);
  if (error == CL_SUCCESS) error = client_.Charge(*buffer);
  if (error == CL_SUCCESS &&
      (m.size == 0 || m.offset % wire::kArenaAlignment != 0 || !client_.InArena(m.offset, m.size)))
    error = CL_INVALID_BUFFER_SIZE;
  if (error == CL_SUCCESS) {
    buffer->host = client_.At(m.offset);
    if (m.offset <= client_.buffers.bytes() && m.size <= client_.buffers.bytes() - m.offset)
      buffer->placed = client_.buffers.As<std::byte>() + m.offset;
    if (shared_.quota->Take(m.size)) {
      buffer->gone.quota = shared_.quota;
      buffer->gone.charged = m.size;
    } else {
      error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
  }
  if (error == CL_SUCCESS && shared_.store != nullptr) {
    buffer->read_only = (buffer->flags & CL_MEM_READ_ONLY) != 0;
    buffer->stored = shared_.store->Make(buffer->context, {.flags = buffer->flags, .size = m.size}, nullptr,
                                         buffer->filled ? buffer->host : nullptr);
  }
  objects_.Keep(m.id, std::move(buffer), error, "clCreateBuffer");
}

void ObjectMessages::Do(const wire::CreateSubBuffer& m) {
  auto buffer = std::make_shared<Memory>(cl_);
  buffer->flags = m.flags & ~(kHostPointerFlags | kHostAccessFlags);
  buffer->origin = m.origin;
  buffer->size = m.size;
  cl_int error = objects_.Share(m.parent, buffer->parent);
  if (error == CL_SUCCESS) error = client_.Charge(*buffer);
  if (error == CL_SUCCESS) {
    const Memory& parent = *buffer->parent;
    buffer->context = parent.context;
    if (parent.image || parent.parent)
      error = CL_INVALID_MEM_OBJECT;
    else if (m.size == 0 || m.origin > parent.size || m.size > parent.size - m.origin)
      error = CL_INVALID_VALUE;
    else
      buffer->host = parent.host + m.origin;
    if (error == CL_SUCCESS && parent.placed != nullptr) buffer->placed = parent.placed + m.origin;
  }
  if (error == CL_SUCCESS && shared_.store != nullptr) {
    constexpr cl_mem_flags kKernelAccess = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
    buffer->read_only =
        (buffer->flags & kKernelAccess) != 0 ? (buffer->flags & CL_MEM_READ_ONLY) != 0 : buffer->parent->read_only;
    buffer->stored = shared_.store->Make(buffer->context, {.flags = buffer->flags, .size = m.size, .origin = m.origin},
                                         buffer->parent->stored, nullptr);
  }
  objects_.Keep(m.id, std::move(buffer), error, "clCreateSubBuffer");
}

void ObjectMessages::Do(const wire::CreateImage& m) {
  auto image = std::make_shared<Memory>(cl_);
  image->image = true;
  image->flags = m.flags & ~(kHostPointerFlags | kHostAccessFlags);
  wire::ByteView content;
  cl_int error = objects_.Share(m.context, image->context);
  if (error == CL_SUCCESS) error = client_.Charge(*image);
  if (error == CL_SUCCESS) error = client_.View(m.content, content);
  Shape shape{.flags = image->flags, .image = true, .format = {m.channel_order, m.channel_type}};
  shape.desc.image_type = m.type;
  shape.desc.image_width = m.width;
  shape.desc.image_height = m.height;
  shape.desc.image_depth = m.depth;
  shape.desc.image_array_size = m.array_size;
  if (error == CL_SUCCESS && m.buffer != 0) {
    error = objects_.Share(m.buffer, image->parent);
    if (error == CL_SUCCESS && shared_.store == nullptr) error = memory_.Materialise(*image->parent);
    if (error == CL_SUCCESS) shape.desc.mem_object = image->parent->native;
    shape.desc.image_row_pitch = m.row_pitch;
  }
  // An image with memory of its own. It is charged before the driver makes it, with what its pixels take at least.
  const bool own = m.buffer == 0 && shared_.store == nullptr;
  std::uint64_t charged = 0;
  if (error == CL_SUCCESS) error = CheckImage(m, *image, shape);
  if (error == CL_SUCCESS && shared_.store != nullptr) error = MakeStoredImage(m, *image, shape, content);
  if (error == CL_SUCCESS && shared_.store == nullptr) error = MakeImage(*image, shape, content, charged);
  if (error == CL_SUCCESS && own) error = ChargeAsMade(*image, charged);
  if (error == CL_SUCCESS && own) {
    image->gone.quota = shared_.quota;
    image->gone.charged = charged;
  } else {
    shared_.quota->Return(charged);
  }
  client_.Free(m.ticket);
  objects_.Keep(m.id, std::move(image), error, "clCreateImage");
}

/// Charges what `bytes` exceed `charged` by, and adds it there. False: the limit is reached, and nothing is charged.
bool ObjectMessages::ChargeUpTo(std::uint64_t bytes, std::uint64_t& charged) const {
  if (bytes <= charged) return true;
  if (!shared_.quota->Take(bytes - charged)) return false;
  charged = bytes;
  return true;
}

void ObjectMessages::Do(const wire::CreateSampler& m) {
  auto sampler = std::make_shared<Sampler>(cl_);
  std::shared_ptr<Context> context;
  cl_int error = objects_.Share(m.context, context);
  if (error == CL_SUCCESS) error = client_.Charge(*sampler);
  if (error == CL_SUCCESS)
    sampler->native = cl_.clCreateSampler(context->native, m.normalized, m.addressing, m.filter, &error);
  objects_.Keep(m.id, std::move(sampler), error, "clCreateSampler");
}

void ObjectMessages::Do(const wire::CreateUserEvent& m) {
  auto event = std::make_shared<Event>(cl_);
  std::shared_ptr<Context> context;
  cl_int error = objects_.Share(m.context, context);
  if (error == CL_SUCCESS) error = client_.Charge(*event);
  if (error == CL_SUCCESS) event->native = cl_.clCreateUserEvent(context->native, &error);
  event->user = error == CL_SUCCESS;
  // Later commands may wait for the client. The open batch, whose commands do not, is closed before them.
  if (event->user && ends_.AddUserEvent() == 1) batches_.Close();
  objects_.Keep(m.id, std::move(event), error, "clCreateUserEvent");
}

void ObjectMessages::Do(const wire::SetUserEvent& m) {
  Event* event = nullptr;
  if (objects_.Find(m.id, event) != CL_SUCCESS || !event->user)
    return client_.Complain(CL_INVALID_EVENT, "clSetUserEventStatus");
  ends_.EndUserEvent(*event, m.status < 0 ? m.status : CL_COMPLETE);
}

void ObjectMessages::Do(const wire::CreateKernel& m) {
  auto kernel = std::make_shared<Kernel>(cl_);
  cl_int error = objects_.Share(m.program, kernel->program);
  if (error == CL_SUCCESS) error = client_.Charge(*kernel);
  if (error == CL_SUCCESS) {
    const auto shortened = kernel->program->short_names.find(m.name);
    const std::string name(shortened != kernel->program->short_names.end() ? std::string_view(shortened->second)
                                                                           : m.name);
    kernel->native = cl_.clCreateKernel(kernel->program->native, name.c_str(), &error);
    if (error == CL_SUCCESS) {
      KernelKnowledge& known = kernel->program->known[name];
      if (!known.cost)
        known = {std::make_shared<KernelCost>(),
                 std::make_shared<std::vector<ArgTakes>>(WhatArgsTake(cl_, kernel->native))};
      kernel->cost = known.cost;
      kernel->takes = known.takes;
      kernel->name = name;
    }
  }
  if (error == CL_SUCCESS && shared_.store != nullptr) LearnArgs(*kernel);
  parts_.AddKernel();
  objects_.Keep(m.id, std::move(kernel), error, "clCreateKernel");
}

void ObjectMessages::Do(const wire::Release& m) {
  const std::shared_ptr<Object> object = objects_.Take(m.id);
  if (!object || object->kind != Kind::kMemory) return client_.Free(m.ticket);
  if (m.ticket == 0) return;
  auto& memory = static_cast<Memory&>(*object);
  memory.gone.replies = client_.replies;
  memory.gone.ticket = m.ticket;
}

void ObjectMessages::Do(const wire::CreateSubDevices& m) {
  std::shared_ptr<Device> device;
  cl_int error = objects_.Share(m.device, device);
  std::vector<cl_device_partition_property> properties;
  for (std::size_t i = 0; i < m.properties.size(); ++i)
    properties.push_back(static_cast<cl_device_partition_property>(m.properties[i]));
  if (properties.empty() || properties.back() != 0) error = CL_INVALID_VALUE;
  // A list of counts ends with two zeros, and a driver may look for a zero behind a value that is 0 itself.
  properties.push_back(0);
  if (error == CL_SUCCESS && g_parts_made.load() >= kPartsMax) error = CL_OUT_OF_RESOURCES;
  std::array<cl_device_id, kDevicesMax> natives{};
  cl_uint count = 0;
  if (error == CL_SUCCESS)
    error = cl_.clCreateSubDevices(device->native, properties.data(), natives.size(), natives.data(), &count);
  if (error == CL_SUCCESS) g_parts_made += count;
  wire::SubDeviceFacts facts;
  for (cl_uint i = 0; i < count && error == CL_SUCCESS; ++i) {
    auto sub = std::make_shared<Device>(cl_);
    sub->native = natives[i];
    sub->parent = device;
    sub->in_host_memory = device->in_host_memory;
    facts.devices.push_back(
        FactsOfDevice(cl_, natives[i], m.first + i, sub->in_host_memory, shared_.quota->limits().each));
    if (!objects_.Place(m.first + i, std::move(sub))) error = CL_OUT_OF_RESOURCES;
  }
  client_.replies->AnswerWith(m.request, error, facts);
}

void ObjectMessages::Do(const wire::KernelWorkGroup& m) {
  Kernel* kernel = nullptr;
  Device* device = nullptr;
  std::array<std::byte, 256> value{};
  std::size_t bytes = 0;
  cl_int error = objects_.Find(m.kernel, kernel);
  if (error == CL_SUCCESS) error = objects_.Find(m.device, device);
  if (error == CL_SUCCESS)
    error = cl_.clGetKernelWorkGroupInfo(kernel->native, device->native, m.name, value.size(), value.data(), &bytes);
  client_.replies->Answer(m.request, error, std::span(value).first(std::min(bytes, value.size())));
}

void ObjectMessages::Do(const wire::ImageFormats& m) {
  Context* context = nullptr;
  cl_uint count = 0;
  std::vector<cl_image_format> formats;
  cl_int error = objects_.Find(m.context, context);
  if (error == CL_SUCCESS)
    error = cl_.clGetSupportedImageFormats(context->native, m.flags & ~kHostPointerFlags, m.type, 0, nullptr, &count);
  if (error == CL_SUCCESS && count > 0) {
    formats.resize(count);
    error = cl_.clGetSupportedImageFormats(context->native, m.flags & ~kHostPointerFlags, m.type, count, formats.data(),
                                           nullptr);
  }
  client_.replies->Answer(m.request, error, std::as_bytes(std::span(formats)));
}

// -- Kernels' arguments ----------------------------------------------------------------------------------------------

/// Records which arguments the kernel cannot write through, as far as the driver reports it.
void ObjectMessages::LearnArgs(Kernel& kernel) const {
  cl_uint count = 0;
  if (cl_.clGetKernelInfo(kernel.native, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr) != CL_SUCCESS) return;
  count = std::min(count, kArgsMax);
  kernel.reads_only.resize(count);
  for (cl_uint i = 0; i < count; ++i) {
    cl_kernel_arg_type_qualifier type = 0;
    cl_kernel_arg_address_qualifier address = 0;
    cl_kernel_arg_access_qualifier access = 0;
    if (cl_.clGetKernelArgInfo(kernel.native, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof type, &type, nullptr) !=
            CL_SUCCESS ||
        cl_.clGetKernelArgInfo(kernel.native, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof address, &address, nullptr) !=
            CL_SUCCESS ||
        cl_.clGetKernelArgInfo(kernel.native, i, CL_KERNEL_ARG_ACCESS_QUALIFIER, sizeof access, &access, nullptr) !=
            CL_SUCCESS)
      return;
    kernel.reads_only[i] = (type & CL_KERNEL_ARG_TYPE_CONST) != 0 || address == CL_KERNEL_ARG_ADDRESS_CONSTANT ||
                           access == CL_KERNEL_ARG_ACCESS_READ_ONLY;
  }
}

// -- Images ----------------------------------------------------------------------------------------------------------

/// The bytes of one pixel, by the driver's answer for an image of one pixel; 0: unknown. A full image would take
/// memory.
std::uint64_t ObjectMessages::PixelBytesOf(const Context& context, const Shape& shape) const {
  const cl_mem_object_type type = shape.desc.image_type;
  cl_image_desc desc{};
  desc.image_type = type == CL_MEM_OBJECT_IMAGE1D_BUFFER ? CL_MEM_OBJECT_IMAGE1D : type;
  desc.image_width = desc.image_height = desc.image_depth = desc.image_array_size = 1;
  cl_int error = CL_SUCCESS;
  const cl_mem probe = cl_.clCreateImage(context.native, shape.flags, &shape.format, &desc, nullptr, &error);
  if (error != CL_SUCCESS) return 0;
  std::size_t bytes = 0;
  if (cl_.clGetImageInfo(probe, CL_IMAGE_ELEMENT_SIZE, sizeof bytes, &bytes, nullptr) != CL_SUCCESS) bytes = 0;
  cl_.clReleaseMemObject(probe);
  return bytes;
}

/// Sets the image's extent. The image must not be too large, and one over a buffer must lie within it.
cl_int ObjectMessages::CheckImage(const wire::CreateImage& m, Memory& image, const Shape& shape) const {
  const std::array sides{m.width, m.height, m.depth, m.array_size};
  if (std::ranges::any_of(sides, [](std::uint64_t n) { return n > kImageExtentMax; })) return CL_INVALID_IMAGE_SIZE;
  if (!ExtentOf(shape.desc, image.extent)) return CL_INVALID_IMAGE_DESCRIPTOR;
  // An upper bound of 16 bytes a pixel; the real size is known once the image exists.
  unsigned __int128 pixels = 1;
  for (const std::uint64_t n : sides) pixels *= std::max<std::uint64_t>(n, 1);
  if (pixels * 16 > UINT64_MAX) return CL_INVALID_IMAGE_SIZE;
  if (!image.parent) return CL_SUCCESS;
  return ImageFitsBuffer(shape.desc, PixelBytesOf(*image.context, shape), *image.parent);
}

/// Lets the driver make the image. What an image with memory of its own takes at least is added to `charged`.
cl_int ObjectMessages::MakeImage(Memory& image, Shape shape, wire::ByteView content, std::uint64_t& charged) const {
  const bool own = !image.parent;
  if (own || !content.empty()) {
    shape.pixel_bytes = PixelBytesOf(*image.context, shape);
    if (shape.pixel_bytes == 0) return CL_IMAGE_FORMAT_NOT_SUPPORTED;
    // The driver reads as many bytes as the image has, so the content must not be shorter.
    if (!content.empty() && content.size() < shape.PackedBytes()) return CL_INVALID_HOST_PTR;
    if (own && !ChargeUpTo(shape.PackedBytes(), charged)) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  }
  const cl_mem_flags copy = content.empty() ? 0 : CL_MEM_COPY_HOST_PTR;
  cl_int error = CL_SUCCESS;
  image.native = cl_.clCreateImage(image.context->native, image.flags | copy, &shape.format, &shape.desc,
                                   content.empty() ? nullptr : const_cast<std::byte*>(content.data()), &error);
  if (error == CL_SUCCESS && own && content.empty()) error = ClearNewImage(*image.context, image.native, shape.desc);
  return error;
}

/// Charges what the driver has taken for an image with memory of its own. Without room for it, the image is released.
cl_int ObjectMessages::ChargeAsMade(Memory& image, std::uint64_t& charged) const {
  std::size_t bytes = 0;
  if (cl_.clGetMemObjectInfo(image.native, CL_MEM_SIZE, sizeof bytes, &bytes, nullptr) != CL_SUCCESS) bytes = 0;
  image.size = bytes;
  if (ChargeUpTo(bytes, charged)) return CL_SUCCESS;  // the driver's rows may be longer than their pixels
  cl_.clReleaseMemObject(image.native);
  image.native = nullptr;
  return CL_MEM_OBJECT_ALLOCATION_FAILURE;
}

cl_int ObjectMessages::MakeStoredImage(const wire::CreateImage& m, Memory& image, const Shape& shape,
                                       wire::ByteView content) {
  Shape whole = shape;
  whole.desc.mem_object = nullptr;
  whole.pixel_bytes = PixelBytesOf(*image.context, shape);
  if (whole.pixel_bytes == 0) return CL_IMAGE_FORMAT_NOT_SUPPORTED;
  whole.size = whole.PackedBytes();
  image.size = whole.size;
  image.read_only = (image.flags & CL_MEM_READ_ONLY) != 0;
  if (m.buffer != 0) {
    image.read_only = image.read_only || image.parent->read_only;
    image.stored = shared_.store->Make(image.context, whole, image.parent->stored, nullptr);
    return CL_SUCCESS;
  }
  if (!content.empty() && content.size() < whole.size) return CL_INVALID_HOST_PTR;
  if (!shared_.quota->Take(whole.size)) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  image.gone.quota = shared_.quota;
  image.gone.charged = whole.size;
  image.stored = shared_.store->Make(image.context, whole, nullptr, nullptr);
  return content.empty() || BufferStore::Fill(*image.stored, content) ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

}  // namespace weir::opencl
