// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/facts.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace weir::opencl::icd {
namespace {

/// Extensions that affect only kernels: they add no entry point, object or flag.
constexpr std::array<std::string_view, 20> kTravelling{
    "cl_amd_fp64",
    "cl_khr_3d_image_writes",
    "cl_khr_byte_addressable_store",
    "cl_khr_expect_assume",
    "cl_khr_extended_bit_ops",
    "cl_khr_fp16",
    "cl_khr_fp64",
    "cl_khr_global_int32_base_atomics",
    "cl_khr_global_int32_extended_atomics",
    "cl_khr_int64_base_atomics",
    "cl_khr_int64_extended_atomics",
    "cl_khr_integer_dot_product",
    "cl_khr_local_int32_base_atomics",
    "cl_khr_local_int32_extended_atomics",
    "cl_khr_select_fprounding_mode",
    "cl_khr_work_group_uniform_arithmetic",
    "cl_nv_compiler_options",
    "cl_nv_pragma_unroll",
    "cl_ext_float_atomics",
    "cl_amd_media_ops",
};

/// Beginnings of the names of features that are not reported to programs.
constexpr std::array<std::string_view, 5> kFeaturesThatStay{
    "__opencl_c_device_enqueue", "__opencl_c_pipes", "__opencl_c_subgroups", "__opencl_c_ext_", "__opencl_c_integer_",
};

/// The entries of a list of cl_name_version that `keep` accepts.
template <typename P>
std::string FilteredVersions(std::string_view list, P keep) {
  std::string kept;
  for (std::size_t at = 0; at + sizeof(cl_name_version) <= list.size(); at += sizeof(cl_name_version)) {
    cl_name_version entry;
    std::memcpy(&entry, list.data() + at, sizeof entry);
    const std::string_view name(entry.name, ::strnlen(entry.name, sizeof entry.name));
    if (keep(name)) kept.append(list.substr(at, sizeof entry));
  }
  return kept;
}

std::string Version(std::uint32_t major, std::uint32_t minor, std::string_view name) {
  cl_name_version entry{};
  entry.version = CL_MAKE_VERSION(major, minor, 0);
  std::memcpy(entry.name, name.data(), std::min(name.size(), sizeof entry.name - 1));
  return {reinterpret_cast<const char*>(&entry), sizeof entry};
}

/// Includes the terminating zero.
std::string Text(std::string_view text) { return std::string(text) + '\0'; }

/// Sets defaults for queries that OpenCL 3.0 requires and older drivers do not know.
void AddDefaults(FactTable& facts) {
  const auto otherwise = [&facts]<typename T>(cl_uint name, T value) {
    if (facts.Find(name) == nullptr) facts.SetValue(name, value);
  };
  const cl_bool no = CL_FALSE;
  otherwise(CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, no);
  otherwise(CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT, no);
  otherwise(CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT, no);
  otherwise(CL_DEVICE_PREFERRED_INTEROP_USER_SYNC, static_cast<cl_bool>(CL_TRUE));
  otherwise(CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, std::size_t{1});
  otherwise(CL_DEVICE_PRINTF_BUFFER_SIZE, std::size_t{1} << 20);
  otherwise(CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE, std::size_t{0});
  otherwise(CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE, std::size_t{0});
  for (const cl_uint name : {CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS, CL_DEVICE_IMAGE_PITCH_ALIGNMENT,
                             CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT, CL_DEVICE_PREFERRED_PLATFORM_ATOMIC_ALIGNMENT,
                             CL_DEVICE_PREFERRED_GLOBAL_ATOMIC_ALIGNMENT, CL_DEVICE_PREFERRED_LOCAL_ATOMIC_ALIGNMENT})
    otherwise(name, cl_uint{0});
  otherwise(CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES,
            cl_device_atomic_capabilities{CL_DEVICE_ATOMIC_ORDER_RELAXED | CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP});
  otherwise(CL_DEVICE_ATOMIC_FENCE_CAPABILITIES,
            cl_device_atomic_capabilities{CL_DEVICE_ATOMIC_ORDER_RELAXED | CL_DEVICE_ATOMIC_ORDER_ACQ_REL |
                                          CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP});
  if (facts.Find(CL_DEVICE_OPENCL_C_ALL_VERSIONS) == nullptr)
    facts.Set(CL_DEVICE_OPENCL_C_ALL_VERSIONS,
              Version(1, 0, "OpenCL C") + Version(1, 1, "OpenCL C") + Version(1, 2, "OpenCL C"));
}

/// Reports unsupported features as absent, as the specification defines it.
void MaskFeatures(FactTable& facts) {
  facts.SetValue(CL_DEVICE_SVM_CAPABILITIES, cl_device_svm_capabilities{0});
  facts.SetValue(CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES, cl_device_device_enqueue_capabilities{0});
  facts.SetValue(CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES, cl_command_queue_properties{0});
  facts.SetValue(CL_DEVICE_PIPE_SUPPORT, static_cast<cl_bool>(CL_FALSE));
  facts.SetValue(CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS, static_cast<cl_bool>(CL_FALSE));
  for (const cl_uint name :
       {CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE, CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE, CL_DEVICE_MAX_ON_DEVICE_QUEUES,
        CL_DEVICE_MAX_ON_DEVICE_EVENTS, CL_DEVICE_MAX_PIPE_ARGS, CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS,
        CL_DEVICE_PIPE_MAX_PACKET_SIZE, CL_DEVICE_MAX_NUM_SUB_GROUPS})
    facts.SetValue(name, cl_uint{0});
  for (const cl_uint name :
       {CL_DEVICE_IL_VERSION, CL_DEVICE_BUILT_IN_KERNELS, CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED})
    facts.Set(name, Text(""));
  facts.Set(CL_DEVICE_ILS_WITH_VERSION, "");
  facts.Set(CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION, "");
  facts.SetValue(CL_DEVICE_EXECUTION_CAPABILITIES, cl_device_exec_capabilities{CL_EXEC_KERNEL});
}

}  // namespace

bool Travels(std::string_view extension) {
  return std::find(kTravelling.begin(), kTravelling.end(), extension) != kTravelling.end();
}

std::string TravellingExtensions(std::string_view all) {
  std::string kept;
  while (!all.empty()) {
    const std::size_t end = std::min(all.find(' '), all.size());
    if (Travels(all.substr(0, end))) kept.append(kept.empty() ? "" : " ").append(all.substr(0, end));
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return kept;
}

FactTable::FactTable(std::vector<proto::cl::Fact> facts) : facts_(std::move(facts)) {
  std::stable_sort(facts_.begin(), facts_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

const std::string* FactTable::Find(cl_uint name) const {
  const auto at = std::lower_bound(facts_.begin(), facts_.end(), name,
                                   [](const proto::cl::Fact& fact, cl_uint wanted) { return fact.name < wanted; });
  return at != facts_.end() && at->name == name ? &at->value : nullptr;
}

void FactTable::Set(cl_uint name, std::string value) {
  const auto at = std::lower_bound(facts_.begin(), facts_.end(), name,
                                   [](const proto::cl::Fact& fact, cl_uint wanted) { return fact.name < wanted; });
  if (at != facts_.end() && at->name == name)
    at->value = std::move(value);
  else
    facts_.insert(at, proto::cl::Fact{.name = name, .value = std::move(value)});
}

std::string_view FactTable::Text(cl_uint name) const {
  const std::string* value = Find(name);
  if (value == nullptr) return {};
  return std::string_view(*value).substr(0, value->find('\0'));
}

FactTable OurFacts(FactTable facts, const FactRules& rules) {
  AddDefaults(facts);
  MaskFeatures(facts);
  facts.Set(CL_DEVICE_VERSION, Text(kDeviceVersion));
  facts.SetValue(CL_DEVICE_NUMERIC_VERSION, cl_version{CL_MAKE_VERSION(3, 0, 0)});
  facts.Set(CL_DEVICE_EXTENSIONS, Text(TravellingExtensions(facts.Text(CL_DEVICE_EXTENSIONS))));

  std::string versions;
  if (const std::string* known = facts.Find(CL_DEVICE_EXTENSIONS_WITH_VERSION); known != nullptr) {
    versions = FilteredVersions(*known, Travels);
  } else {
    std::string_view names = facts.Text(CL_DEVICE_EXTENSIONS);
    while (!names.empty()) {
      const std::size_t end = std::min(names.find(' '), names.size());
      versions += Version(1, 0, names.substr(0, end));
      names.remove_prefix(std::min(end + 1, names.size()));
    }
  }
  facts.Set(CL_DEVICE_EXTENSIONS_WITH_VERSION, std::move(versions));
  const std::string* features = facts.Find(CL_DEVICE_OPENCL_C_FEATURES);
  facts.Set(CL_DEVICE_OPENCL_C_FEATURES,
            features == nullptr ? std::string() : FilteredVersions(*features, [](std::string_view name) {
              return std::none_of(kFeaturesThatStay.begin(), kFeaturesThatStay.end(),
                                  [name](std::string_view stays) { return name.starts_with(stays); });
            }));

  for (const cl_uint name : {CL_DEVICE_GLOBAL_MEM_SIZE, CL_DEVICE_MAX_MEM_ALLOC_SIZE})
    facts.SetValue(name, std::min(facts.Get<cl_ulong>(name, rules.memory_bytes), cl_ulong{rules.memory_bytes}));
  auto type = facts.Get<cl_device_type>(CL_DEVICE_TYPE, CL_DEVICE_TYPE_CPU);
  if (rules.as_gpu && (type & CL_DEVICE_TYPE_CPU) != 0)
    type = (type & ~cl_device_type{CL_DEVICE_TYPE_CPU}) | CL_DEVICE_TYPE_GPU;
  facts.SetValue(CL_DEVICE_TYPE, type);
  return facts;
}

}  // namespace weir::opencl::icd
