// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/facts.h"

#include <gtest/gtest.h>

#include "opencl/icd/entry_points.h"
#include "opencl/icd/kernel.h"

namespace weir::opencl::icd {
namespace {

std::string Versions(std::initializer_list<std::string_view> names) {
  std::string list;
  for (const std::string_view name : names) {
    cl_name_version entry{};
    std::memcpy(entry.name, name.data(), name.size());
    list.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  return list;
}

FactTable Drivers() {
  FactTable facts;
  facts.Set(CL_DEVICE_EXTENSIONS,
            std::string("cl_khr_fp64 cl_khr_spir cl_khr_il_program cl_khr_gl_sharing cl_khr_subgroups "
                        "cl_khr_byte_addressable_store cl_khr_command_buffer") +
                '\0');
  facts.Set(CL_DEVICE_EXTENSIONS_WITH_VERSION, Versions({"cl_khr_fp64", "cl_khr_spir"}));
  facts.Set(CL_DEVICE_OPENCL_C_FEATURES, Versions({"__opencl_c_images", "__opencl_c_subgroups", "__opencl_c_pipes"}));
  facts.SetValue(CL_DEVICE_SVM_CAPABILITIES, cl_device_svm_capabilities{7});
  facts.SetValue(CL_DEVICE_EXECUTION_CAPABILITIES, cl_device_exec_capabilities{3});
  facts.SetValue(CL_DEVICE_TYPE, cl_device_type{CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_DEFAULT});
  facts.SetValue(CL_DEVICE_GLOBAL_MEM_SIZE, cl_ulong{1} << 40);
  facts.SetValue(CL_DEVICE_MAX_MEM_ALLOC_SIZE, cl_ulong{1} << 20);
  return facts;
}

TEST(OurFacts, ReportOnlyForwardedFeatures) {
  const FactTable facts = OurFacts(Drivers(), {.memory_bytes = 1 << 30});
  EXPECT_EQ(facts.Text(CL_DEVICE_EXTENSIONS), "cl_khr_fp64 cl_khr_byte_addressable_store");
  EXPECT_EQ(*facts.Find(CL_DEVICE_EXTENSIONS_WITH_VERSION), Versions({"cl_khr_fp64"}));
  EXPECT_EQ(*facts.Find(CL_DEVICE_OPENCL_C_FEATURES), Versions({"__opencl_c_images"}));
  EXPECT_EQ(facts.Text(CL_DEVICE_VERSION), kDeviceVersion);
  EXPECT_EQ(facts.Get<cl_device_svm_capabilities>(CL_DEVICE_SVM_CAPABILITIES), 0U);
  EXPECT_EQ(facts.Get<cl_device_exec_capabilities>(CL_DEVICE_EXECUTION_CAPABILITIES), CL_EXEC_KERNEL);
}

TEST(OurFacts, ReportNoMoreMemoryThanTheVgpuHas) {
  const FactTable facts = OurFacts(Drivers(), {.memory_bytes = 1 << 30});
  EXPECT_EQ(facts.Get<cl_ulong>(CL_DEVICE_GLOBAL_MEM_SIZE), 1U << 30);
  EXPECT_EQ(facts.Get<cl_ulong>(CL_DEVICE_MAX_MEM_ALLOC_SIZE), 1U << 20);
}

TEST(OurFacts, ReportACpuAsAGpuOnRequest) {
  const auto type = [](bool as_gpu) {
    return OurFacts(Drivers(), {.memory_bytes = 1, .as_gpu = as_gpu}).Get<cl_device_type>(CL_DEVICE_TYPE);
  };
  EXPECT_EQ(type(false), cl_device_type{CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_DEFAULT});
  EXPECT_EQ(type(true), cl_device_type{CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT});
}

TEST(OurFacts, AnswerQueriesUnknownToOldDrivers) {
  const FactTable facts = OurFacts({}, {});
  for (const cl_uint name : {CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES,
                             CL_DEVICE_OPENCL_C_ALL_VERSIONS, CL_DEVICE_PIPE_SUPPORT, CL_DEVICE_ILS_WITH_VERSION})
    EXPECT_NE(facts.Find(name), nullptr) << std::hex << name;
}

TEST(ArgType, FollowsTheDriversAnswer) {
  const auto of = [](std::string type, cl_uint address) {
    const ArgType found = ArgTypeOf({.name = "", .type = std::move(type), .address = address});
    return std::pair(found.what, found.bytes);
  };
  using Class = ArgType::Class;
  EXPECT_EQ(of("float*", CL_KERNEL_ARG_ADDRESS_GLOBAL), std::pair(Class::kBuffer, std::size_t{0}));
  EXPECT_EQ(of("float4*", CL_KERNEL_ARG_ADDRESS_CONSTANT), std::pair(Class::kBuffer, std::size_t{0}));
  EXPECT_EQ(of("int*", CL_KERNEL_ARG_ADDRESS_LOCAL), std::pair(Class::kLocal, std::size_t{0}));
  EXPECT_EQ(of("image2d_t", CL_KERNEL_ARG_ADDRESS_GLOBAL), std::pair(Class::kImage, std::size_t{0}));
  EXPECT_EQ(of("sampler_t", CL_KERNEL_ARG_ADDRESS_PRIVATE), std::pair(Class::kSampler, std::size_t{0}));
  EXPECT_EQ(of("float3", CL_KERNEL_ARG_ADDRESS_PRIVATE), std::pair(Class::kData, std::size_t{16}));
  EXPECT_EQ(of("uchar16", CL_KERNEL_ARG_ADDRESS_PRIVATE), std::pair(Class::kData, std::size_t{16}));
  EXPECT_EQ(of("struct params", CL_KERNEL_ARG_ADDRESS_PRIVATE), std::pair(Class::kData, std::size_t{0}));
}

TEST(ArgType, IsAnObjectOnlyByItsExactNameOrAQualifier) {
  using Class = ArgType::Class;
  for (const char* type : {"image_params_t", "image2d_t2", "pipeline_t", "pipe_t"})
    EXPECT_EQ(ArgTypeOf({.type = type, .address = CL_KERNEL_ARG_ADDRESS_PRIVATE}).what, Class::kData) << type;
  wire::ArgFacts facts{.type = "my_image", .address = CL_KERNEL_ARG_ADDRESS_GLOBAL};
  facts.access = CL_KERNEL_ARG_ACCESS_WRITE_ONLY;
  EXPECT_EQ(ArgTypeOf(facts).what, Class::kImage);
  facts.type = "int";
  facts.type_qualifier = CL_KERNEL_ARG_TYPE_PIPE;
  EXPECT_EQ(ArgTypeOf(facts).what, Class::kNeverThere);
  EXPECT_EQ(ArgTypeOf({.type = "pipe int", .address = CL_KERNEL_ARG_ADDRESS_GLOBAL}).what, Class::kNeverThere);
}

TEST(Dispatch, HasNoEmptySlot) {
  static_assert(sizeof(cl_icd_dispatch) % sizeof(void*) == 0);
  void* slots[sizeof(cl_icd_dispatch) / sizeof(void*)];
  std::memcpy(slots, &kDispatch, sizeof slots);
  for (std::size_t i = 0; i < std::size(slots); ++i) EXPECT_NE(slots[i], nullptr) << i;
}

TEST(Dispatch, FailsAsTheSpecificationSaysWhereAFeatureIsAbsent) {
  cl_int error = CL_SUCCESS;
  EXPECT_EQ(kDispatch.clCreateProgramWithIL(nullptr, nullptr, 0, &error), nullptr);
  EXPECT_EQ(error, CL_INVALID_OPERATION);
  EXPECT_EQ(kDispatch.clSVMAlloc(nullptr, 0, 1, 0), nullptr);
  EXPECT_EQ(kDispatch.clEnqueueSVMFree(nullptr, 0, nullptr, nullptr, nullptr, 0, nullptr, nullptr),
            CL_INVALID_OPERATION);
}

}  // namespace
}  // namespace weir::opencl::icd
