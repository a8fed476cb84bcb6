// SPDX-License-Identifier: Apache-2.0
// Building, compiling and linking. Each costs one round trip, and its answer serves all later queries.
#include <cstring>
#include <mutex>

#include "opencl/icd/includes.h"
#include "opencl/icd/memory.h"
#include "opencl/icd/program.h"
#include "platform/mutex.h"

namespace weir::opencl::icd {
namespace {

using BuildNotify = void(CL_CALLBACK*)(cl_program, void*);

/// Owns the headers of a build until it is sent: the message refers to them, or they lie in the arena.
class Headers {
 public:
  Headers(Link& link, std::map<std::string, std::string> files) : link_(link), files_(std::move(files)) {}
  ~Headers() {
    for (const Range& range : ranges_) link_.Free(range);
  }
  Headers(const Headers&) = delete;
  Headers& operator=(const Headers&) = delete;

  /// Adds the headers to a message that is otherwise complete. False: no room, or the message would be too long.
  template <typename M>
  bool AddTo(M& message) {
    std::size_t in_message = 0;
    for (const auto& [name, content] : files_) {
      wire::IncludedFile file{.name = name};
      in_message += name.size() + content.size();
      if (in_message <= wire::kInlineBytesMax) {
        file.content = wire::Blob::Inline(wire::BytesOf(content));
      } else {
        in_message -= content.size();
        const auto offset = link_.AllocateStaging(content.size());
        if (!offset) return false;
        ranges_.push_back({*offset, content.size()});
        std::memcpy(link_.arena() + *offset, content.data(), content.size());
        file.content = wire::Blob::Arena(*offset, content.size());
      }
      message.headers.push_back(file);
    }
    if (wire::SizeOf(message) > wire::kMessageBytesMax) return false;
    // Only now, because Allocate waits for tickets, and one that is not sent is never reported.
    auto range = ranges_.begin();
    for (wire::IncludedFile& file : message.headers)
      if (file.content.kind == wire::Blob::kArena) file.ticket = link_.NewTicket(*range++);
    ranges_.clear();
    return true;
  }

 private:
  Link& link_;
  std::map<std::string, std::string> files_;
  std::vector<Range> ranges_;  // without a ticket
};

/// Records the start of a build. Requires the program's mutex.
void Begin(Program& program, const std::vector<std::uint32_t>& ids, std::string_view options) {
  for (DeviceBuild& build : program.builds) {
    if (!ids.empty() && std::find(ids.begin(), ids.end(), build.device->id) == ids.end()) continue;
    build.status = CL_BUILD_IN_PROGRESS;
    build.options = options;
    build.log.clear();
  }
}

/// Sends the request and stores the facts of the answer. Requires the program's mutex.
template <typename M>
cl_int AskAndTake(Program& program, M& request) {
  Answer answer;
  const cl_int error = program.link->Ask(request, answer);
  if (!answer.body.empty()) TakeFacts(program, answer);
  for (DeviceBuild& build : program.builds)
    if (build.status == CL_BUILD_IN_PROGRESS) build.status = error == CL_SUCCESS ? CL_BUILD_SUCCESS : CL_BUILD_ERROR;
  return error;
}

/// Reports the end of a build by the program's callback if there is one, and otherwise by the return value.
cl_int Report(Program& program, BuildNotify notify, void* user, cl_int error) {
  if (notify == nullptr) return error;
  const Link::StateLock lock(*program.link);
  program.link->Post(
      [notify, user, held = Ref<Program>(&program)] { notify(reinterpret_cast<cl_program>(held.get()), user); });
  return error == CL_BUILD_PROGRAM_FAILURE || error == CL_COMPILE_PROGRAM_FAILURE || error == CL_LINK_PROGRAM_FAILURE
             ? CL_SUCCESS
             : error;
}

}  // namespace

namespace api {

cl_int BuildProgram(cl_program handle, cl_uint count, const cl_device_id* list, const char* options, BuildNotify notify,
                    void* user) {
  Program* program = As<Program>(handle);
  if (program == nullptr) return CL_INVALID_PROGRAM;
  if (notify == nullptr && user != nullptr) return CL_INVALID_VALUE;
  if (!program->link->usable()) return kGone;
  const Ref<Program> held(program);
  cl_int error = CL_SUCCESS;
  {
    const std::lock_guard lock(program->mutex);
    std::vector<std::uint32_t> ids;
    if (const cl_int wrong = ReadDevices(*program, count, list, ids); wrong != CL_SUCCESS) return wrong;
    if (program->kernels_made.load() != 0 || (!program->from_source && !program->from_binary))
      return CL_INVALID_OPERATION;
    const std::string_view given = options != nullptr ? options : "";
    const BuildOptions read = ReadBuildOptions(given);
    Headers headers(*program->link, program->from_source ? FindIncludedFiles(program->source, read)
                                                         : std::map<std::string, std::string>());
    wire::Build request{.program = program->id, .devices = {ids.data(), ids.size()}, .options = read.text};
    if (!headers.AddTo(request)) return CL_OUT_OF_RESOURCES;
    Begin(*program, ids, given);
    if (program->from_source) program->arg_info = read.arg_info;
    error = AskAndTake(*program, request);
  }
  return Report(*program, notify, user, error);
}

cl_int CompileProgram(cl_program handle, cl_uint count, const cl_device_id* list, const char* options,
                      cl_uint header_count, const cl_program* header_list, const char** header_names,
                      BuildNotify notify, void* user) {
  Program* program = As<Program>(handle);
  if (program == nullptr) return CL_INVALID_PROGRAM;
  if ((notify == nullptr && user != nullptr) || (header_count == 0) != (header_list == nullptr) ||
      (header_count == 0) != (header_names == nullptr))
    return CL_INVALID_VALUE;
  if (!program->link->usable()) return kGone;
  const Ref<Program> held(program);
  cl_int error = CL_SUCCESS;
  {
    const std::lock_guard lock(program->mutex);
    std::vector<std::uint32_t> ids, header_ids;
    if (const cl_int wrong = ReadDevices(*program, count, list, ids); wrong != CL_SUCCESS) return wrong;
    if (program->kernels_made.load() != 0 || !program->from_source) return CL_INVALID_OPERATION;
    const std::string_view given = options != nullptr ? options : "";
    const BuildOptions read = ReadBuildOptions(given);
    std::map<std::string, std::string> files = FindIncludedFiles(program->source, read);
    wire::Compile request{.program = program->id, .devices = {ids.data(), ids.size()}, .options = read.text};
    for (cl_uint i = 0; i < header_count; ++i) {
      const Program* header = As<Program>(header_list[i]);
      if (header == nullptr || header_names[i] == nullptr) return CL_INVALID_PROGRAM;
      header_ids.push_back(header->id);
      request.header_names.emplace_back(header_names[i]);
      files.erase(header_names[i]);  // headers given by the program take precedence
      // A header may include further files.
      for (auto& [name, content] : FindIncludedFiles(header->source, read)) files.emplace(name, content);
    }
    for (cl_uint i = 0; i < header_count; ++i) files.erase(header_names[i]);
    request.header_programs = {header_ids.data(), header_ids.size()};
    Headers headers(*program->link, std::move(files));
    if (!headers.AddTo(request)) return CL_OUT_OF_RESOURCES;
    Begin(*program, ids, given);
    program->arg_info = read.arg_info;
    error = AskAndTake(*program, request);
  }
  return Report(*program, notify, user, error);
}

cl_program LinkProgram(cl_context context_handle, cl_uint count, const cl_device_id* list, const char* options,
                       cl_uint input_count, const cl_program* inputs, BuildNotify notify, void* user, cl_int* error) {
  Context* context = As<Context>(context_handle);
  if (context == nullptr) return Refuse(CL_INVALID_CONTEXT, error);
  if ((count == 0) != (list == nullptr) || input_count == 0 || inputs == nullptr ||
      (notify == nullptr && user != nullptr))
    return Refuse(CL_INVALID_VALUE, error);
  if (!context->link->usable()) return Refuse(kGone, error);
  std::vector<Device*> devices;
  std::vector<std::uint32_t> ids, input_ids;
  for (cl_uint i = 0; i < count; ++i) {
    Device* device = As<Device>(list[i]);
    if (device == nullptr || !context->Has(*device)) return Refuse(CL_INVALID_DEVICE, error);
    devices.push_back(device);
    ids.push_back(device->id);
  }
  bool arg_info = true;
  for (cl_uint i = 0; i < input_count; ++i) {
    Program* input = As<Program>(inputs[i]);
    if (input == nullptr) return Refuse(CL_INVALID_PROGRAM, error);
    const std::lock_guard lock(input->mutex);
    for (const DeviceBuild& build : input->builds)
      if (build.status != CL_BUILD_SUCCESS && !input->from_binary) return Refuse(CL_INVALID_OPERATION, error);
    arg_info = arg_info && input->arg_info;
    input_ids.push_back(input->id);
  }
  Program* program = NewProgram(*context, devices);
  program->arg_info = arg_info;
  const std::string_view given = options != nullptr ? options : "";
  cl_int result = CL_SUCCESS;
  {
    const std::lock_guard lock(program->mutex);
    {
      Link::Sending sending(*context->link);
      if (sending.usable()) program->id = sending.NewId();
    }
    wire::Link request{.id = program->id,
                       .context = context->id,
                       .devices = {ids.data(), ids.size()},
                       .options = given,
                       .programs = {input_ids.data(), input_ids.size()}};
    Begin(*program, {}, given);
    result = AskAndTake(*program, request);
  }
  if (result != CL_SUCCESS && result != CL_LINK_PROGRAM_FAILURE) {
    Drop(*program);
    return Refuse(result, error);
  }
  result = Report(*program, notify, user, result);
  auto* const made = Give<cl_program>(program, error);
  // A failed link gives a program as well, whose log can be queried.
  if (error != nullptr) *error = result;
  return made;
}

}  // namespace api
}  // namespace weir::opencl::icd
