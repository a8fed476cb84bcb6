// SPDX-License-Identifier: Apache-2.0
// Creating images and answering queries.
#include <algorithm>
#include <cstring>

#include "opencl/channel/image_format.h"
#include "opencl/icd/box_copy.h"
#include "opencl/icd/info.h"
#include "opencl/icd/memory.h"

namespace weir::opencl::icd {
namespace {

bool IsArray(cl_mem_object_type type) {
  return type == CL_MEM_OBJECT_IMAGE1D_ARRAY || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
}

/// The image's size as a box. The layers of an array are the next dimension.
void WholeOf(const cl_image_desc& desc, std::size_t (&whole)[3]) {
  whole[0] = desc.image_width;
  whole[1] = whole[2] = 1;
  switch (desc.image_type) {
    case CL_MEM_OBJECT_IMAGE1D_ARRAY: whole[1] = desc.image_array_size; break;
    case CL_MEM_OBJECT_IMAGE2D: whole[1] = desc.image_height; break;
    case CL_MEM_OBJECT_IMAGE2D_ARRAY: whole[1] = desc.image_height, whole[2] = desc.image_array_size; break;
    case CL_MEM_OBJECT_IMAGE3D: whole[1] = desc.image_height, whole[2] = desc.image_depth; break;
    default: break;
  }
}

/// The largest value of all devices of the context.
std::size_t LargestOf(const Context& context, cl_device_info name) {
  std::size_t largest = 0;
  for (const auto& device : context.devices) largest = std::max(largest, device->facts.Get<std::size_t>(name));
  return largest;
}

cl_int CheckDimensions(const Context& context, const cl_image_desc& desc) {
  const auto within = [&](std::size_t n, cl_device_info most) { return n >= 1 && n <= LargestOf(context, most); };
  bool good = false, fits = true;
  switch (desc.image_type) {
    case CL_MEM_OBJECT_IMAGE1D:
      good = desc.image_width >= 1;
      fits = within(desc.image_width, CL_DEVICE_IMAGE2D_MAX_WIDTH);
      break;
    case CL_MEM_OBJECT_IMAGE1D_BUFFER:
      good = desc.image_width >= 1;
      fits = within(desc.image_width, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE);
      break;
    case CL_MEM_OBJECT_IMAGE1D_ARRAY:
      good = desc.image_width >= 1 && desc.image_array_size >= 1;
      fits = within(desc.image_width, CL_DEVICE_IMAGE2D_MAX_WIDTH) &&
             within(desc.image_array_size, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE);
      break;
    case CL_MEM_OBJECT_IMAGE2D_ARRAY:
      fits = within(desc.image_array_size, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE);
      good = desc.image_array_size >= 1;
      [[fallthrough]];
    case CL_MEM_OBJECT_IMAGE2D:
      good = (desc.image_type == CL_MEM_OBJECT_IMAGE2D || good) && desc.image_width >= 1 && desc.image_height >= 1;
      fits = fits && within(desc.image_width, CL_DEVICE_IMAGE2D_MAX_WIDTH) &&
             within(desc.image_height, CL_DEVICE_IMAGE2D_MAX_HEIGHT);
      break;
    case CL_MEM_OBJECT_IMAGE3D:
      good = desc.image_width >= 1 && desc.image_height >= 1 && desc.image_depth >= 1;
      fits = within(desc.image_width, CL_DEVICE_IMAGE3D_MAX_WIDTH) &&
             within(desc.image_height, CL_DEVICE_IMAGE3D_MAX_HEIGHT) &&
             within(desc.image_depth, CL_DEVICE_IMAGE3D_MAX_DEPTH);
      break;
    default: return CL_INVALID_IMAGE_DESCRIPTOR;
  }
  if (!good || desc.num_mip_levels != 0 || desc.num_samples != 0) return CL_INVALID_IMAGE_DESCRIPTOR;
  return fits ? CL_SUCCESS : CL_INVALID_IMAGE_SIZE;
}

/// The pitches of the program's memory: those given, or those of tightly packed rows.
cl_int CheckPitches(Memory& image, const void* host_ptr) {
  cl_image_desc& desc = image.desc;
  std::size_t whole[3];
  WholeOf(desc, whole);
  const std::size_t row = whole[0] * image.element_bytes;
  if (host_ptr == nullptr && !image.parent && (desc.image_row_pitch != 0 || desc.image_slice_pitch != 0))
    return CL_INVALID_IMAGE_DESCRIPTOR;
  const std::size_t row_pitch = desc.image_row_pitch != 0 ? desc.image_row_pitch : row;
  if (row_pitch < row || row_pitch % image.element_bytes != 0) return CL_INVALID_IMAGE_DESCRIPTOR;
  const bool rows_are_slices = desc.image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY;
  const std::size_t least = rows_are_slices ? row_pitch : row_pitch * whole[1];
  const std::size_t slice_pitch = desc.image_slice_pitch != 0 ? desc.image_slice_pitch : least;
  if (IsArray(desc.image_type) || desc.image_type == CL_MEM_OBJECT_IMAGE3D)
    if (slice_pitch < least || slice_pitch % row_pitch != 0) return CL_INVALID_IMAGE_DESCRIPTOR;
  // In an array of rows, consecutive rows are a slice pitch apart.
  image.host_row_pitch = rows_are_slices ? slice_pitch : row_pitch;
  image.host_slice_pitch = slice_pitch;
  return CL_SUCCESS;
}

cl_int CheckFormat(const cl_image_format* format, std::size_t& element_bytes) {
  if (format == nullptr) return CL_INVALID_IMAGE_FORMAT_DESCRIPTOR;
  element_bytes = ElementBytes(*format);
  if (element_bytes == 0) return CL_INVALID_IMAGE_FORMAT_DESCRIPTOR;
  const cl_channel_order order = format->image_channel_order;
  const cl_channel_type type = format->image_channel_data_type;
  const bool packed = type == CL_UNORM_SHORT_565 || type == CL_UNORM_SHORT_555 || type == CL_UNORM_INT_101010;
  if (packed != (order == CL_RGB || order == CL_RGBx)) return CL_INVALID_IMAGE_FORMAT_DESCRIPTOR;
  return CL_SUCCESS;
}

/// Formats that every device with images supports (OpenCL 1.2, table 5.8), so that no query is needed.
bool IsEverywhere(const cl_image_format& format) {
  constexpr cl_channel_type kTypes[] = {CL_UNORM_INT8,   CL_UNORM_INT16,   CL_SIGNED_INT8,    CL_SIGNED_INT16,
                                        CL_SIGNED_INT32, CL_UNSIGNED_INT8, CL_UNSIGNED_INT16, CL_UNSIGNED_INT32,
                                        CL_HALF_FLOAT,   CL_FLOAT};
  return format.image_channel_order == CL_RGBA && std::ranges::count(kTypes, format.image_channel_data_type) > 0;
}

cl_int AskForFormats(Context& context, cl_mem_flags flags, cl_mem_object_type type,
                     std::vector<cl_image_format>& formats) {
  wire::ImageFormats request{.context = context.id, .flags = WireFlags(flags), .type = type};
  Answer answer;
  if (const cl_int error = context.link->Ask(request, answer); error != CL_SUCCESS) return error;
  formats.resize(answer.body.size() / sizeof(cl_image_format));
  std::memcpy(formats.data(), answer.body.data(), formats.size() * sizeof(cl_image_format));
  return CL_SUCCESS;
}

/// Programs try formats until one is accepted. The executor is queried once for each kind of image of a context.
cl_int CheckSupported(Context& context, cl_mem_flags flags, cl_mem_object_type type, const cl_image_format& format) {
  if (IsEverywhere(format)) return CL_SUCCESS;
  const cl_mem_flags access = flags & (CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY);
  const auto is_there = [&](const std::vector<cl_image_format>& formats) {
    return std::ranges::any_of(formats, [&](const cl_image_format& one) {
      return one.image_channel_order == format.image_channel_order &&
             one.image_channel_data_type == format.image_channel_data_type;
    });
  };
  {
    const Link::StateLock lock(*context.link);
    if (const auto known = context.image_formats.find({access, type}); known != context.image_formats.end())
      return is_there(known->second) ? CL_SUCCESS : CL_IMAGE_FORMAT_NOT_SUPPORTED;
  }
  std::vector<cl_image_format> formats;
  if (const cl_int error = AskForFormats(context, access, type, formats); error != CL_SUCCESS) return error;
  const bool there = is_there(formats);
  const Link::StateLock lock(*context.link);
  context.image_formats[{access, type}] = std::move(formats);
  return there ? CL_SUCCESS : CL_IMAGE_FORMAT_NOT_SUPPORTED;
}

/// Finds the buffer that an image of this description lies over. Null: the image has memory of its own.
cl_int CheckBufferUnder(const Context& context, const cl_image_desc& desc, Memory*& buffer) {
  const bool over_buffer = desc.image_type == CL_MEM_OBJECT_IMAGE1D_BUFFER;
  buffer = over_buffer ? As<Memory>(desc.buffer) : nullptr;
  if ((over_buffer && (buffer == nullptr || !buffer->is_buffer() || buffer->context.get() != &context)) ||
      (!over_buffer && desc.buffer != nullptr))
    return CL_INVALID_IMAGE_DESCRIPTOR;
  return CL_SUCCESS;
}

/// Makes the executor create the image, and sets its id.
cl_int SendImage(Memory& image, const StagedContent& content) {
  Link::Sending sending(*image.context->link);
  if (!sending.usable()) return kGone;
  const std::uint32_t id = sending.NewId();
  const bool sent = sending.Send(wire::CreateImage{.id = id,
                                                   .context = image.context->id,
                                                   .flags = WireFlags(image.flags),
                                                   .channel_order = image.format.image_channel_order,
                                                   .channel_type = image.format.image_channel_data_type,
                                                   .type = image.desc.image_type,
                                                   .width = image.desc.image_width,
                                                   .height = image.desc.image_height,
                                                   .depth = image.desc.image_depth,
                                                   .array_size = image.desc.image_array_size,
                                                   .row_pitch = 0,
                                                   .buffer = image.parent ? image.parent->id : 0,
                                                   .content = content.blob(),
                                                   .ticket = content.ticket()});
  if (!sent) return kGone;
  image.id = id;
  return CL_SUCCESS;
}

}  // namespace

cl_int CheckImageBox(const Memory& image, const std::size_t* origin, const std::size_t* region, ImageBox& box) {
  if (origin == nullptr || region == nullptr) return CL_INVALID_VALUE;
  std::size_t whole[3];
  WholeOf(image.desc, whole);
  for (int i = 0; i < 3; ++i) {
    if (region[i] == 0 || origin[i] > whole[i] || region[i] > whole[i] - origin[i]) return CL_INVALID_VALUE;
    box.origin[i] = origin[i];
    box.region[i] = region[i];
  }
  return CL_SUCCESS;
}

namespace api {

cl_mem CreateImageWithProperties(cl_context handle, const cl_mem_properties* properties, cl_mem_flags flags,
                                 const cl_image_format* format, const cl_image_desc* desc, void* host_ptr,
                                 cl_int* error) {
  Context* context = As<Context>(handle);
  if (context == nullptr) return Refuse(CL_INVALID_CONTEXT, error);
  if (properties != nullptr && properties[0] != 0) return Refuse(CL_INVALID_PROPERTY, error);
  std::size_t element_bytes = 0;
  if (const cl_int wrong = CheckFormat(format, element_bytes); wrong != CL_SUCCESS) return Refuse(wrong, error);
  if (desc == nullptr) return Refuse(CL_INVALID_IMAGE_DESCRIPTOR, error);
  Memory* buffer = nullptr;
  if (const cl_int wrong = CheckBufferUnder(*context, *desc, buffer); wrong != CL_SUCCESS) return Refuse(wrong, error);
  if (const cl_int wrong = CheckMemoryFlags(flags, host_ptr, true); wrong != CL_SUCCESS) return Refuse(wrong, error);
  if (!context->has_images()) return Refuse(CL_INVALID_OPERATION, error);
  if (const cl_int wrong = CheckDimensions(*context, *desc); wrong != CL_SUCCESS) return Refuse(wrong, error);
  if (const cl_int wrong = CheckSupported(*context, flags, desc->image_type, *format); wrong != CL_SUCCESS)
    return Refuse(wrong, error);

  auto* image = new Memory(*context);
  image->type = desc->image_type;
  image->flags = flags;
  if (buffer != nullptr && (flags & (CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY)) == 0)
    image->flags |= buffer->flags & (CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY);
  image->host_ptr = host_ptr;
  image->format = *format;
  image->desc = *desc;
  image->element_bytes = element_bytes;
  image->parent = Ref<Memory>(buffer);
  if (buffer != nullptr) image->at = buffer->at;
  if (properties != nullptr) image->given = {0};
  cl_int wrong = CheckPitches(*image, host_ptr);
  std::size_t whole[3];
  WholeOf(*desc, whole);
  const std::size_t box[3] = {whole[0] * element_bytes, whole[1], whole[2]};
  image->size = box[0] * box[1] * box[2];
  if (wrong == CL_SUCCESS && buffer != nullptr && image->size > buffer->size) wrong = CL_INVALID_IMAGE_DESCRIPTOR;

  StagedContent content;
  if (wrong == CL_SUCCESS && host_ptr != nullptr) {
    if (content.Make(*context->link, image->size))
      CopyBox(Packed(content.into(), box),
              {static_cast<std::byte*>(host_ptr), image->host_row_pitch, image->host_slice_pitch}, box);
    else
      wrong = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  }
  if (wrong == CL_SUCCESS) wrong = SendImage(*image, content);
  if (wrong != CL_SUCCESS) {
    Drop(*image);
    return Refuse(wrong, error);
  }
  context->link->Enlist(*image);
  return Give<cl_mem>(image, error);
}

cl_mem CreateImage(cl_context context, cl_mem_flags flags, const cl_image_format* format, const cl_image_desc* desc,
                   void* host_ptr, cl_int* error) {
  return CreateImageWithProperties(context, nullptr, flags, format, desc, host_ptr, error);
}

cl_mem CreateImage2D(cl_context context, cl_mem_flags flags, const cl_image_format* format, std::size_t width,
                     std::size_t height, std::size_t row_pitch, void* host_ptr, cl_int* error) {
  cl_image_desc desc{};
  desc.image_type = CL_MEM_OBJECT_IMAGE2D;
  desc.image_width = width;
  desc.image_height = height;
  desc.image_row_pitch = row_pitch;
  cl_int result = CL_SUCCESS;
  cl_mem image = CreateImage(context, flags, format, &desc, host_ptr, &result);
  if (error != nullptr) *error = result == CL_INVALID_IMAGE_DESCRIPTOR ? CL_INVALID_IMAGE_SIZE : result;
  return image;
}

cl_mem CreateImage3D(cl_context context, cl_mem_flags flags, const cl_image_format* format, std::size_t width,
                     std::size_t height, std::size_t depth, std::size_t row_pitch, std::size_t slice_pitch,
                     void* host_ptr, cl_int* error) {
  cl_image_desc desc{};
  desc.image_type = CL_MEM_OBJECT_IMAGE3D;
  desc.image_width = width;
  desc.image_height = height;
  desc.image_depth = depth;
  desc.image_row_pitch = row_pitch;
  desc.image_slice_pitch = slice_pitch;
  cl_int result = CL_SUCCESS;
  cl_mem image = CreateImage(context, flags, format, &desc, host_ptr, &result);
  if (error != nullptr) *error = result == CL_INVALID_IMAGE_DESCRIPTOR ? CL_INVALID_IMAGE_SIZE : result;
  return image;
}

cl_int GetSupportedImageFormats(cl_context handle, cl_mem_flags flags, cl_mem_object_type type, cl_uint count,
                                cl_image_format* formats, cl_uint* count_ret) {
  Context* context = As<Context>(handle);
  if (context == nullptr) return CL_INVALID_CONTEXT;
  if ((count == 0 && formats != nullptr) || type < CL_MEM_OBJECT_IMAGE2D || type > CL_MEM_OBJECT_IMAGE1D_BUFFER)
    return CL_INVALID_VALUE;
  std::vector<cl_image_format> there;
  if (const cl_int error = AskForFormats(*context, flags, type, there); error != CL_SUCCESS) return error;
  if (count_ret != nullptr) *count_ret = static_cast<cl_uint>(there.size());
  if (formats != nullptr) std::copy_n(there.begin(), std::min<std::size_t>(count, there.size()), formats);
  return CL_SUCCESS;
}

cl_int GetImageInfo(cl_mem handle, cl_image_info name, std::size_t size, void* value, std::size_t* size_ret) {
  const Memory* image = As<Memory>(handle);
  if (image == nullptr || image->is_buffer()) return CL_INVALID_MEM_OBJECT;
  const InfoAnswer answer{size, value, size_ret};
  const cl_image_desc& desc = image->desc;
  const bool has_height = desc.image_type == CL_MEM_OBJECT_IMAGE2D || desc.image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY ||
                          desc.image_type == CL_MEM_OBJECT_IMAGE3D;
  const bool has_depth = desc.image_type == CL_MEM_OBJECT_IMAGE3D;
  switch (name) {
    case CL_IMAGE_FORMAT: return answer.Value(image->format);
    case CL_IMAGE_ELEMENT_SIZE: return answer.Value(image->element_bytes);
    case CL_IMAGE_ROW_PITCH:
      return answer.Value(desc.image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY && desc.image_row_pitch == 0
                              ? desc.image_width * image->element_bytes
                          : desc.image_row_pitch != 0 ? desc.image_row_pitch
                                                      : image->host_row_pitch);
    case CL_IMAGE_SLICE_PITCH:
      return answer.Value(has_depth || IsArray(desc.image_type) ? image->host_slice_pitch : std::size_t{0});
    case CL_IMAGE_WIDTH: return answer.Value(desc.image_width);
    case CL_IMAGE_HEIGHT: return answer.Value(has_height ? desc.image_height : std::size_t{0});
    case CL_IMAGE_DEPTH: return answer.Value(has_depth ? desc.image_depth : std::size_t{0});
    case CL_IMAGE_ARRAY_SIZE: return answer.Value(IsArray(desc.image_type) ? desc.image_array_size : std::size_t{0});
    case CL_IMAGE_BUFFER: return answer.Object<cl_mem>(image->parent.get());
    case CL_IMAGE_NUM_MIP_LEVELS:
    case CL_IMAGE_NUM_SAMPLES: return answer.Value(cl_uint{0});
    default: return CL_INVALID_VALUE;
  }
}

}  // namespace api
}  // namespace weir::opencl::icd
