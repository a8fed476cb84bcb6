// SPDX-License-Identifier: Apache-2.0
// Wrong arguments, and programs with what they bring.
#include <fstream>

#include "tests/harness/temp_folder.h"
#include "tests/opencl/client_calls.h"

namespace weir::opencl::icd {
namespace {

// -- Errors
// --------------------------------------------------------------------------------------------------------------

TEST_F(OpenCl, FindsWrongArgumentsLocally) {
  cl_kernel add = Kernel("add"), sum = Kernel("sum"), four = Kernel("four");
  cl_mem a = Buffer(4096);
  const auto error = [&](auto... arguments) { return cl.clSetKernelArg(arguments...); };
  EXPECT_EQ(Launch(add, 16), CL_INVALID_KERNEL_ARGS);
  EXPECT_EQ(error(add, 3U, sizeof(int), &a), CL_INVALID_ARG_INDEX);
  EXPECT_EQ(error(add, 2U, std::size_t{8}, &a), CL_INVALID_ARG_SIZE);
  EXPECT_EQ(error(add, 0U, std::size_t{4}, &a), CL_INVALID_ARG_SIZE);
  EXPECT_EQ(error(add, 0U, sizeof queue_, &queue_), CL_INVALID_MEM_OBJECT);
  EXPECT_EQ(error(sum, 1U, sizeof a, &a), CL_INVALID_ARG_VALUE);
  EXPECT_EQ(error(sum, 1U, std::size_t{0}, nullptr), CL_INVALID_ARG_SIZE);
  Set(four, 0, a);
  const std::size_t sixteen = 16, eight = 8, ten = 10, four_items = 4;
  const auto launch = [&](cl_uint dimensions, const std::size_t* offset, const std::size_t* global,
                          const std::size_t* local) {
    return cl.clEnqueueNDRangeKernel(queue_, four, dimensions, offset, global, local, 0, nullptr, nullptr);
  };
  EXPECT_EQ(launch(0, nullptr, &sixteen, nullptr), CL_INVALID_WORK_DIMENSION);
  EXPECT_EQ(launch(4, nullptr, &sixteen, nullptr), CL_INVALID_WORK_DIMENSION);
  EXPECT_EQ(launch(1, nullptr, &sixteen, &eight), CL_INVALID_WORK_GROUP_SIZE) << "it requires four";
  EXPECT_EQ(launch(1, nullptr, &ten, &four_items), CL_INVALID_WORK_GROUP_SIZE) << "four does not divide ten";
  const std::size_t most = SIZE_MAX;
  EXPECT_EQ(launch(1, &most, &sixteen, nullptr), CL_INVALID_GLOBAL_OFFSET);
  EXPECT_EQ(launch(1, nullptr, &sixteen, nullptr), CL_SUCCESS);
  EXPECT_EQ(Read(a, 1)[0], 4);

  EXPECT_EQ(cl.clCreateBuffer(context_, 0, 0, nullptr, &error_), nullptr);
  EXPECT_EQ(error_, CL_INVALID_BUFFER_SIZE);
  EXPECT_EQ(cl.clCreateBuffer(context_, CL_MEM_COPY_HOST_PTR, 4, nullptr, &error_), nullptr);
  EXPECT_EQ(error_, CL_INVALID_HOST_PTR);
  EXPECT_EQ(cl.clEnqueueReadBuffer(queue_, a, CL_TRUE, 4000, 100, &a, 0, nullptr, nullptr), CL_INVALID_VALUE);
  EXPECT_EQ(cl.clEnqueueCopyBuffer(queue_, a, a, 0, 50, 100, 0, nullptr, nullptr), CL_MEM_COPY_OVERLAP);
  EXPECT_EQ(cl.clEnqueueReadBuffer(reinterpret_cast<cl_command_queue>(a), a, CL_TRUE, 0, 4, &a, 0, nullptr, nullptr),
            CL_INVALID_COMMAND_QUEUE);
  EXPECT_EQ(cl.clEnqueueMarkerWithWaitList(queue_, 1, nullptr, nullptr), CL_INVALID_EVENT_WAIT_LIST);
  cl_context other = cl.clCreateContext(nullptr, 1, &device_, nullptr, nullptr, nullptr);
  cl_mem foreign = cl.clCreateBuffer(other, 0, 4096, nullptr, nullptr);
  EXPECT_EQ(cl.clEnqueueCopyBuffer(queue_, a, foreign, 0, 0, 16, 0, nullptr, nullptr), CL_INVALID_CONTEXT);
  cl.clReleaseMemObject(foreign);
  cl.clReleaseContext(other);
  for (cl_kernel kernel : {add, sum, four}) cl.clReleaseKernel(kernel);
  cl.clReleaseMemObject(a);
}

TEST_F(OpenCl, ReadsTheLogOfABrokenProgram) {
  cl_program program = Program("kernel void f( { }");
  EXPECT_EQ(error_, CL_BUILD_PROGRAM_FAILURE);
  char log[4096] = {};
  EXPECT_EQ(cl.clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, sizeof log, log, nullptr), CL_SUCCESS);
  EXPECT_NE(std::string(log).find("error"), std::string::npos) << log;
  EXPECT_EQ(cl.clCreateKernel(program, "f", &error_), nullptr);
  EXPECT_EQ(error_, CL_INVALID_PROGRAM_EXECUTABLE);
  cl.clReleaseProgram(program);
}

// -- Programs --------------------------------------------------------------------------------------------------------

TEST_F(OpenCl, FindsIncludedFilesWhereTheProgramRuns) {
  const testing::TempFolder folder;
  std::ofstream(folder / "n.h") << "#define N 42\n";
  cl_program program =
      Program("#include \"n.h\"\nkernel void f(global int* out) { *out = N; }", ("-I " + folder.path()).c_str());
  ASSERT_EQ(error_, CL_SUCCESS);
  cl_kernel kernel = cl.clCreateKernel(program, "f", &error_);
  cl_mem out = Buffer(4);
  Set(kernel, 0, out);
  Launch(kernel, 1);
  EXPECT_EQ(Read(out, 1)[0], 42);
  cl.clReleaseKernel(kernel);
  cl.clReleaseMemObject(out);
  cl.clReleaseProgram(program);
}

TEST_F(OpenCl, FindsFilesThatAreIncludedByAbsoluteNames) {
  const testing::TempFolder folder;
  std::ofstream(folder / "n.h") << "#include <" << folder / "m.h"
                                << ">\n";
  std::ofstream(folder / "m.h") << "#define N 43\n";
  cl_program program =
      Program(("#include \"" + (folder / "n.h") + "\"\nkernel void f(global int* out) { *out = N; }").c_str());
  EXPECT_EQ(error_, CL_SUCCESS);
  cl.clReleaseProgram(program);
}

TEST_F(OpenCl, ABinaryHasItsKernels) {
  cl_program source = Program(kSource, "-cl-kernel-arg-info");
  std::size_t size = 0;
  ASSERT_EQ(cl.clGetProgramInfo(source, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr), CL_SUCCESS);
  std::vector<unsigned char> binary(size);
  unsigned char* into = binary.data();
  ASSERT_EQ(cl.clGetProgramInfo(source, CL_PROGRAM_BINARIES, sizeof into, &into, nullptr), CL_SUCCESS);
  cl.clReleaseProgram(source);
  const unsigned char* from = binary.data();
  cl_int status = CL_SUCCESS;
  cl_program program = cl.clCreateProgramWithBinary(context_, 1, &device_, &size, &from, &status, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  ASSERT_EQ(cl.clBuildProgram(program, 0, nullptr, nullptr, nullptr, nullptr), CL_SUCCESS);
  cl_kernel add = cl.clCreateKernel(program, "add", &error_);
  char name[64] = {};
  EXPECT_EQ(cl.clGetKernelArgInfo(add, 2, CL_KERNEL_ARG_NAME, sizeof name, name, nullptr), CL_SUCCESS);
  EXPECT_STREQ(name, "n");
  std::vector<int> ones(16, 1);
  cl_mem a = Buffer(64, ones.data()), b = Buffer(64);
  Set(add, 0, a), Set(add, 1, b), Set(add, 2, 5);
  EXPECT_EQ(Launch(add, 16), CL_SUCCESS);
  EXPECT_EQ(Read(b, 16), std::vector<int>(16, 6));
  cl.clReleaseKernel(add);
  cl.clReleaseProgram(program);
  binary[size / 2] ^= 1;
  EXPECT_EQ(cl.clCreateProgramWithBinary(context_, 1, &device_, &size, &from, &status, &error_), nullptr);
  EXPECT_EQ(error_, CL_INVALID_BINARY);
  EXPECT_EQ(status, CL_INVALID_BINARY);
  cl.clReleaseMemObject(a);
  cl.clReleaseMemObject(b);
}

TEST_F(OpenCl, LinksWhatItCompiled) {
  const char* library = "int twice(int x) { return 2 * x; }";
  const char* user = "#include \"twice.h\"\nkernel void f(global int* out) { *out = twice(21); }";
  const char* header = "int twice(int x);";
  cl_program parts[2] = {cl.clCreateProgramWithSource(context_, 1, &library, nullptr, &error_),
                         cl.clCreateProgramWithSource(context_, 1, &user, nullptr, &error_)};
  cl_program headers = cl.clCreateProgramWithSource(context_, 1, &header, nullptr, &error_);
  const char* name = "twice.h";
  ASSERT_EQ(cl.clCompileProgram(parts[0], 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr), CL_SUCCESS);
  ASSERT_EQ(cl.clCompileProgram(parts[1], 0, nullptr, nullptr, 1, &headers, &name, nullptr, nullptr), CL_SUCCESS);
  cl_program program = cl.clLinkProgram(context_, 0, nullptr, nullptr, 2, parts, nullptr, nullptr, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  cl_kernel kernel = cl.clCreateKernel(program, "f", &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  cl_mem out = Buffer(4);
  Set(kernel, 0, out);
  Launch(kernel, 1);
  EXPECT_EQ(Read(out, 1)[0], 42);
  cl.clReleaseKernel(kernel);
  for (cl_program each : {program, parts[0], parts[1], headers}) cl.clReleaseProgram(each);
  cl.clReleaseMemObject(out);
}

TEST_F(OpenCl, ProgramsOfPartsOfADeviceKnowThem) {
  const cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
  cl_device_id parts[2] = {};
  ASSERT_EQ(cl.clCreateSubDevices(device_, equally, 2, parts, nullptr), CL_SUCCESS);
  cl_context context = cl.clCreateContext(nullptr, 2, parts, nullptr, nullptr, &error_);
  cl_program program = cl.clCreateProgramWithSource(context, 1, const_cast<const char**>(&kSource), nullptr, &error_);
  ASSERT_EQ(cl.clBuildProgram(program, 1, &parts[1], nullptr, nullptr, nullptr), CL_SUCCESS);
  cl_build_status status = CL_BUILD_NONE;
  cl.clGetProgramBuildInfo(program, parts[1], CL_PROGRAM_BUILD_STATUS, sizeof status, &status, nullptr);
  EXPECT_EQ(status, CL_BUILD_SUCCESS);
  cl_kernel add = cl.clCreateKernel(program, "add", &error_);
  std::size_t size = 0;
  cl.clGetKernelWorkGroupInfo(add, parts[1], CL_KERNEL_WORK_GROUP_SIZE, sizeof size, &size, nullptr);
  EXPECT_GT(size, 0U);
  cl_command_queue queue = cl.clCreateCommandQueue(context, parts[1], 0, &error_);
  std::vector<int> ones(16, 1), back(16);
  cl_mem buffer = cl.clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, 64, ones.data(), &error_);
  for (cl_device_id part : parts) EXPECT_EQ(cl.clReleaseDevice(part), CL_SUCCESS) << "the context keeps it";
  Set(add, 0, buffer), Set(add, 1, buffer), Set(add, 2, 5);
  EXPECT_EQ(Launch(add, 16, nullptr, queue), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 64, back.data(), 0, nullptr, nullptr), CL_SUCCESS);
  EXPECT_EQ(back, std::vector<int>(16, 6));
  cl.clReleaseMemObject(buffer);
  cl.clReleaseCommandQueue(queue);
  cl.clReleaseKernel(add);
  cl.clReleaseProgram(program);
  cl.clReleaseContext(context);
}

}  // namespace
}  // namespace weir::opencl::icd
