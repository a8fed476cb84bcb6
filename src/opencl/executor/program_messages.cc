// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/program_messages.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "opencl/executor/build_options.h"
#include "opencl/executor/header_folder.h"
#include "opencl/executor/slices.h"
#include "platform/clock.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// The result of an info function as text.
template <typename Get>
std::string TextFrom(Get get) {
  std::size_t bytes = 0;
  if (get(0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (get(bytes, text.data(), nullptr) != CL_SUCCESS) return {};
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

template <typename T, typename Get>
T NumberFrom(Get get, T otherwise = {}) {
  T value{};
  return get(sizeof value, &value, nullptr) == CL_SUCCESS ? value : otherwise;
}

/// A device for which the client has created a program, and the device that the driver names for it: PoCL names the
/// root device where a sub-device was given.
struct KnownDevice {
  std::uint32_t id;
  cl_device_id native;
  std::size_t place;  // index among the program's devices
};

std::vector<cl_device_id> DevicesOfProgram(const cl_icd_dispatch& cl, cl_program program) {
  cl_uint count = 0;
  if (cl.clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, nullptr) != CL_SUCCESS) return {};
  std::vector<cl_device_id> natives(std::min<std::size_t>(count, kDevicesMax));
  if (cl.clGetProgramInfo(program, CL_PROGRAM_DEVICES, natives.size() * sizeof(cl_device_id), natives.data(),
                          nullptr) != CL_SUCCESS)
    return {};
  return natives;
}

/// Nullopt if the program is not for that device.
std::optional<KnownDevice> KnownAs(const std::vector<cl_device_id>& natives, std::uint32_t id, const Device& device) {
  for (const Device* at = &device; at != nullptr; at = at->parent.get()) {
    const auto found = std::ranges::find(natives, at->native);
    if (found != natives.end()) return KnownDevice{id, at->native, static_cast<std::size_t>(found - natives.begin())};
  }
  return std::nullopt;
}

/// Asked only for a client that wants the binary: PoCL 3.1 crashes here while another process builds the same program
/// for the first time, because they share a cache.
std::vector<std::size_t> BinarySizes(const cl_icd_dispatch& cl, cl_program program, std::size_t count) {
  std::vector<std::size_t> sizes(count);
  if (cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, count * sizeof sizes[0], sizes.data(), nullptr) !=
      CL_SUCCESS)
    sizes.assign(count, 0);
  return sizes;
}

wire::ArgFacts FactsOfArg(const cl_icd_dispatch& cl, cl_kernel kernel, cl_uint index, bool& told) {
  wire::ArgFacts facts;
  const auto get = [&](cl_kernel_arg_info name) {
    return [&cl, kernel, index, name](std::size_t room, void* value, std::size_t* bytes) {
      return cl.clGetKernelArgInfo(kernel, index, name, room, value, bytes);
    };
  };
  cl_kernel_arg_address_qualifier address = 0;
  told = told && get(CL_KERNEL_ARG_ADDRESS_QUALIFIER)(sizeof address, &address, nullptr) == CL_SUCCESS;
  facts.address = address;
  facts.access = NumberFrom<cl_kernel_arg_access_qualifier>(get(CL_KERNEL_ARG_ACCESS_QUALIFIER));
  facts.type_qualifier = NumberFrom<cl_kernel_arg_type_qualifier>(get(CL_KERNEL_ARG_TYPE_QUALIFIER));
  facts.type = TextFrom(get(CL_KERNEL_ARG_TYPE_NAME));
  facts.name = TextFrom(get(CL_KERNEL_ARG_NAME));
  return facts;
}

wire::KernelFacts FactsOfKernel(const cl_icd_dispatch& cl, cl_kernel kernel, const std::vector<KnownDevice>& devices) {
  wire::KernelFacts facts;
  const auto get = [&](cl_kernel_info name) {
    return [&cl, kernel, name](std::size_t room, void* value, std::size_t* bytes) {
      return cl.clGetKernelInfo(kernel, name, room, value, bytes);
    };
  };
  facts.name = TextFrom(get(CL_KERNEL_FUNCTION_NAME));
  facts.attributes = TextFrom(get(CL_KERNEL_ATTRIBUTES));
  facts.arg_count = std::min(NumberFrom<cl_uint>(get(CL_KERNEL_NUM_ARGS)), kArgsMax);
  bool told = true;
  for (cl_uint i = 0; i < facts.arg_count && told; ++i) facts.args.push_back(FactsOfArg(cl, kernel, i, told));
  if (!told) facts.args.clear();
  for (const KnownDevice& device : devices) {
    const auto group = [&](cl_kernel_work_group_info name) {
      return [&cl, kernel, name, native = device.native](std::size_t room, void* value, std::size_t* bytes) {
        return cl.clGetKernelWorkGroupInfo(kernel, native, name, room, value, bytes);
      };
    };
    wire::WorkGroupFacts& there = facts.groups.emplace_back();
    there.device = device.id;
    there.size = NumberFrom<std::size_t>(group(CL_KERNEL_WORK_GROUP_SIZE));
    there.preferred_multiple = NumberFrom<std::size_t>(group(CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE));
    there.local_bytes = NumberFrom<cl_ulong>(group(CL_KERNEL_LOCAL_MEM_SIZE));
    there.private_bytes = NumberFrom<cl_ulong>(group(CL_KERNEL_PRIVATE_MEM_SIZE));
    const auto sizes = NumberFrom<std::array<std::size_t, 3>>(group(CL_KERNEL_COMPILE_WORK_GROUP_SIZE));
    std::ranges::copy(sizes, there.compile_size);
  }
  return facts;
}

// PoCL 3.1 uses a kernel's name as a folder name, and ends the process if the file system refuses it. Therefore the
// preprocessor replaces the name of a kernel longer than this by a short one.
constexpr std::size_t kKernelNameMax = 128;

/// The kernel names that are too long for a driver.
std::vector<std::string> LongNames(const cl_icd_dispatch& cl, cl_program program) {
  const std::string names = TextFrom([&](std::size_t room, void* value, std::size_t* bytes) {
    return cl.clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, room, value, bytes);
  });
  std::vector<std::string> found;
  for (std::size_t begin = 0, end = 0; begin < names.size(); begin = end + 1) {
    end = std::min(names.find(';', begin), names.size());
    if (end - begin > kKernelNameMax) found.push_back(names.substr(begin, end - begin));
  }
  return found;
}

wire::BuildFacts FactsOfBuild(const cl_icd_dispatch& cl, const Program& program) {
  wire::BuildFacts facts;
  const std::vector<cl_device_id> natives = DevicesOfProgram(cl, program.native);
  std::vector<KnownDevice> devices;
  for (const auto& [id, device] : program.context->devices)
    if (const auto known = KnownAs(natives, id, *device)) devices.push_back(*known);
  bool built = false;
  for (const KnownDevice& device : devices) {
    const auto get = [&](cl_program_build_info name) {
      return [&cl, &program, name, &device](std::size_t room, void* value, std::size_t* bytes) {
        return cl.clGetProgramBuildInfo(program.native, device.native, name, room, value, bytes);
      };
    };
    wire::DeviceBuildFacts& there = facts.devices.emplace_back();
    there.device = device.id;
    there.status = NumberFrom<cl_build_status>(get(CL_PROGRAM_BUILD_STATUS), CL_BUILD_ERROR);
    there.binary_type = NumberFrom<cl_program_binary_type>(get(CL_PROGRAM_BINARY_TYPE));
    there.global_variables = NumberFrom<std::size_t>(get(CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE));
    there.log = TextFrom(get(CL_PROGRAM_BUILD_LOG));
    built |= there.status == CL_BUILD_SUCCESS && there.binary_type == CL_PROGRAM_BINARY_TYPE_EXECUTABLE;
  }
  cl_uint kernels = 0;
  if (!built || cl.clCreateKernelsInProgram(program.native, 0, nullptr, &kernels) != CL_SUCCESS || kernels == 0)
    return facts;
  std::vector<cl_kernel> made(kernels);
  if (cl.clCreateKernelsInProgram(program.native, kernels, made.data(), nullptr) != CL_SUCCESS) return facts;
  for (const cl_kernel kernel : made) {
    wire::KernelFacts& of = facts.kernels.emplace_back(FactsOfKernel(cl, kernel, devices));
    for (const auto& [long_name, short_name] : program.short_names)
      if (of.name == short_name) of.name = long_name;
    cl.clReleaseKernel(kernel);
  }
  return facts;
}

/// The client's headers in a folder, and the options including the executor's.
struct Prepared {
  std::optional<HeaderFolder> folder;
  std::string options;
  bool may_slice = true;
};

}  // namespace

// A compiler takes seconds, during which an order would wait for the open batch's pins.
void ProgramMessages::EndBatch() {
  if (shared_.store != nullptr) batches_.Close();
}

cl_int ProgramMessages::ChargeProgram(Program& program, std::uint64_t bytes) const {
  if (bytes > kProgramTextBytesMax) return CL_OUT_OF_HOST_MEMORY;
  return client_.Charge(program, bytes * kHostBytesPerProgramByte);
}

void ProgramMessages::Do(const wire::CreateProgram& m) {
  auto program = std::make_shared<Program>(cl_);
  wire::ByteView source;
  cl_int error = objects_.Share(m.context, program->context);
  if (error == CL_SUCCESS) error = client_.View(m.source, source);
  if (error == CL_SUCCESS) error = ChargeProgram(*program, source.size());
  if (error == CL_SUCCESS) {
    // Copied first, because the client could change the arena while the driver reads it.
    const std::string text(wire::TextOf(source));
    program->may_slice = MayBeSliced(text);
    const char* start = text.data();
    const std::size_t length = text.size();
    program->native = cl_.clCreateProgramWithSource(program->context->native, 1, &start, &length, &error);
  }
  client_.Free(m.ticket);
  objects_.Keep(m.id, std::move(program), error, "clCreateProgramWithSource");
}

void ProgramMessages::Do(const wire::CreateProgramFromBinary& m) {
  auto program = std::make_shared<Program>(cl_);
  wire::ByteView binary;
  cl_int error = objects_.Share(m.context, program->context);
  if (error == CL_SUCCESS) error = client_.View(m.binary, binary);
  if (error == CL_SUCCESS) error = ChargeProgram(*program, binary.size());
  if (error != CL_SUCCESS) binary = {};
  const std::vector<std::byte> copy(binary.begin(), binary.end());
  std::vector<cl_device_id> devices;
  for (std::size_t i = 0; i < m.devices.size() && error == CL_SUCCESS; ++i) {
    Device* device = nullptr;
    error = i < kDevicesMax ? objects_.Find(m.devices[i], device) : CL_INVALID_VALUE;
    if (error == CL_SUCCESS) devices.push_back(device->native);
  }
  if (error == CL_SUCCESS) {
    const std::vector<const unsigned char*> binaries(devices.size(),
                                                     reinterpret_cast<const unsigned char*>(copy.data()));
    const std::vector<std::size_t> sizes(devices.size(), copy.size());
    program->native = cl_.clCreateProgramWithBinary(
        program->context->native, static_cast<cl_uint>(devices.size()), devices.data(), sizes.data(),
        const_cast<const unsigned char**>(binaries.data()), nullptr, &error);
  }
  client_.Free(m.ticket);
  objects_.Keep(m.id, std::move(program), error, "clCreateProgramWithBinary");
}

namespace {

/// Only the client's options and headers are invalid; other failures are those of the executor's folder.
cl_int ErrorOf(const Error& error) {
  return error.code == Errc::kInvalidArgument ? CL_INVALID_BUILD_OPTIONS : CL_OUT_OF_HOST_MEMORY;
}

template <typename View>
Result<Prepared> Prepare(std::string_view options, const std::vector<wire::IncludedFile>& headers, View view) {
  Prepared prepared;
  // Names and types of arguments are for the client, and for the checks of arguments (arg_types.h).
  const std::string own = "-cl-kernel-arg-info";
  prepared.may_slice = MayBeSliced(options);  // options may define names
  if (headers.empty()) {
    WEIR_TRY(prepared.options, MakeBuildOptions(own, options));
    return prepared;
  }
  WEIR_TRY(HeaderFolder folder, HeaderFolder::Make());
  std::uint64_t bytes = 0;
  for (const wire::IncludedFile& header : headers) {
    wire::ByteView content;
    if (header.content.length() > kProgramTextBytesMax - bytes)
      return Fail(Errc::kResourceExhausted, "the files that a program includes have more than 64 MiB");
    bytes += header.content.length();
    if (view(header.content, content) != CL_SUCCESS) return Fail(Errc::kInvalidArgument, "a header outside the arena");
    WEIR_TRY_STATUS(folder.Add(header.name, content));
    prepared.may_slice = prepared.may_slice && MayBeSliced(wire::TextOf(content));
  }
  WEIR_TRY(prepared.options, MakeBuildOptions(own + " -I " + folder.include_path(), options));
  prepared.folder = std::move(folder);
  return prepared;
}

}  // namespace

/// The devices that the client named, or all that it has.
std::vector<cl_device_id> ProgramMessages::DevicesOf(const wire::IdList& ids, cl_int& error) const {
  std::vector<cl_device_id> devices;
  for (std::size_t i = 0; i < ids.size() && error == CL_SUCCESS; ++i) {
    Device* device = nullptr;
    error = i < kDevicesMax ? objects_.Find(ids[i], device) : CL_INVALID_VALUE;
    if (error == CL_SUCCESS) devices.push_back(device->native);
  }
  return devices;
}

void ProgramMessages::AnswerBuild(std::uint32_t request, cl_int status, const Program* program) {
  const bool there = program != nullptr && program->native != nullptr;
  client_.replies->AnswerWith(request, status, there ? FactsOfBuild(cl_, *program) : wire::BuildFacts{});
}

/// Makes no further query to the driver, because PoCL would end the process.
void ProgramMessages::RefuseLongNames(std::uint32_t request, Program& program) {
  cl_.clReleaseProgram(program.native);
  program.native = nullptr;
  program.error = CL_OUT_OF_RESOURCES;
  program.built = false;
  client_.Complain(CL_OUT_OF_RESOURCES,
                   "a kernel of a linked program or a binary has a name of more than 128 characters");
  client_.replies->AnswerWith(request, CL_OUT_OF_RESOURCES, wire::BuildFacts{});
}

ProgramMessages::Building::Building(ProgramMessages& of) : of_(of) {
  of_.building_since_ns_.store(platform::NowNs(), std::memory_order_relaxed);
}

void ProgramMessages::Do(const wire::Build& m) {
  EndBatch();
  Program* program = nullptr;
  cl_int error = objects_.Find(m.program, program);
  const std::vector<cl_device_id> devices = DevicesOf(m.devices, error);
  const auto view = [this](const wire::Blob& blob, wire::ByteView& bytes) { return client_.View(blob, bytes); };
  auto prepared = Prepare(m.options, m.headers, view);
  if (error == CL_SUCCESS && !prepared) error = ErrorOf(prepared.error());
  if (error == CL_SUCCESS) program->may_slice = program->may_slice && prepared->may_slice;
  bool too_long = false;
  const auto build = [&](const std::string& options) {
    const Building building(*this);
    return cl_.clBuildProgram(program->native, static_cast<cl_uint>(devices.size()),
                              devices.empty() ? nullptr : devices.data(), options.c_str(), nullptr, nullptr);
  };
  if (error == CL_SUCCESS) {
    program->short_names.clear();
    error = build(prepared->options);
  }
  if (error == CL_SUCCESS) {
    std::string definitions;
    for (const std::string& name : LongNames(cl_, program->native)) {
      const std::string short_name = "weir_long_name_" + std::to_string(program->short_names.size());
      program->short_names.emplace(name, short_name);
      definitions.append("-D ").append(name).append("=").append(short_name).append(" ");
    }
    if (!definitions.empty()) error = build(definitions + prepared->options);
    // A binary has no preprocessor.
    too_long = !LongNames(cl_, program->native).empty();
    if (too_long) error = CL_OUT_OF_RESOURCES;
  }
  if (program != nullptr) {
    program->built = error == CL_SUCCESS;
    program->includes = !m.headers.empty();
    program->options = m.options;
    program->parts.reset();
    program->asked_ahead = false;
    program->no_parts.clear();
  }
  for (const wire::IncludedFile& header : m.headers) client_.Free(header.ticket);
  if (too_long) return RefuseLongNames(m.request, *program);
  AnswerBuild(m.request, error, program);
}

void ProgramMessages::Do(const wire::Compile& m) {
  EndBatch();
  Program* program = nullptr;
  cl_int error = objects_.Find(m.program, program);
  const std::vector<cl_device_id> devices = DevicesOf(m.devices, error);
  const auto view = [this](const wire::Blob& blob, wire::ByteView& bytes) { return client_.View(blob, bytes); };
  auto prepared = Prepare(m.options, m.headers, view);
  if (error == CL_SUCCESS && !prepared) error = ErrorOf(prepared.error());
  std::vector<cl_program> headers;
  std::vector<std::string> names;
  std::vector<const char*> pointers;
  if (m.header_programs.size() != m.header_names.size()) error = CL_INVALID_VALUE;
  for (std::size_t i = 0; i < m.header_programs.size() && error == CL_SUCCESS; ++i) {
    Program* header = nullptr;
    error = objects_.Find(m.header_programs[i], header);
    if (error != CL_SUCCESS) break;
    headers.push_back(header->native);
    names.emplace_back(m.header_names[i]);
  }
  pointers.reserve(names.size());
  for (const std::string& name : names) pointers.push_back(name.c_str());
  if (error == CL_INVALID_BUILD_OPTIONS) error = CL_INVALID_COMPILER_OPTIONS;
  if (error == CL_SUCCESS) {
    const Building building(*this);
    error = cl_.clCompileProgram(program->native, static_cast<cl_uint>(devices.size()),
                                 devices.empty() ? nullptr : devices.data(), prepared->options.c_str(),
                                 static_cast<cl_uint>(headers.size()), headers.empty() ? nullptr : headers.data(),
                                 pointers.empty() ? nullptr : pointers.data(), nullptr, nullptr);
  }
  for (const wire::IncludedFile& header : m.headers) client_.Free(header.ticket);
  AnswerBuild(m.request, error, program);
}

void ProgramMessages::Do(const wire::Link& m) {
  EndBatch();
  auto program = std::make_shared<Program>(cl_);
  cl_int error = objects_.Share(m.context, program->context);
  if (error == CL_SUCCESS) error = ChargeProgram(*program, 0);
  const std::vector<cl_device_id> devices = DevicesOf(m.devices, error);
  std::vector<cl_program> inputs;
  for (std::size_t i = 0; i < m.programs.size() && error == CL_SUCCESS; ++i) {
    Program* input = nullptr;
    error = objects_.Find(m.programs[i], input);
    if (error == CL_SUCCESS) inputs.push_back(input->native);
  }
  const auto options = MakeBuildOptions("", m.options);
  if (error == CL_SUCCESS && !options) error = CL_INVALID_LINKER_OPTIONS;
  if (error == CL_SUCCESS) {
    const Building building(*this);
    program->native = cl_.clLinkProgram(program->context->native, static_cast<cl_uint>(devices.size()),
                                        devices.empty() ? nullptr : devices.data(), options->c_str(),
                                        static_cast<cl_uint>(inputs.size()), inputs.empty() ? nullptr : inputs.data(),
                                        nullptr, nullptr, &error);
  }
  if (error == CL_SUCCESS && !LongNames(cl_, program->native).empty()) {
    RefuseLongNames(m.request, *program);
    return objects_.Keep(m.id, program, CL_OUT_OF_RESOURCES, "clLinkProgram");
  }
  AnswerBuild(m.request, error, program.get());
  // A program left by a failed link has a log that can be queried.
  objects_.Keep(m.id, program, program->native != nullptr ? CL_SUCCESS : error, "clLinkProgram");
}

void ProgramMessages::Do(const wire::GetBinary& m) {
  Program* program = nullptr;
  Device* device = nullptr;
  cl_int error = objects_.Find(m.program, program);
  if (error == CL_SUCCESS) error = objects_.Find(m.device, device);
  std::vector<unsigned char> binary;
  if (error == CL_SUCCESS) {
    const std::vector<cl_device_id> natives = DevicesOfProgram(cl_, program->native);
    const std::vector<std::size_t> sizes = BinarySizes(cl_, program->native, natives.size());
    const auto known = KnownAs(natives, m.device, *device);
    if (!known) {
      error = CL_INVALID_DEVICE;
    } else if (sizes[known->place] > 0) {
      binary.resize(sizes[known->place]);
      std::vector<unsigned char*> places(natives.size());  // null places are skipped
      places[known->place] = binary.data();
      error = cl_.clGetProgramInfo(program->native, CL_PROGRAM_BINARIES, places.size() * sizeof places[0],
                                   places.data(), nullptr);
    }
  }
  client_.replies->Answer(m.request, error, std::as_bytes(std::span(binary)));
}

}  // namespace weir::opencl
