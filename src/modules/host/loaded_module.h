// SPDX-License-Identifier: Apache-2.0
// A module that is open in this process; its table is read and checked once.
#pragma once

#include <weir/module.h>

#include <memory>
#include <string>
#include <string_view>

#include "modules/module_frames.h"

namespace weir::modules {

class LoadedModule {
 public:
  /// `image` must have passed the check of its blob name and CheckModuleImage. Opening runs the module's constructors.
  /// kInvalidArgument; kVersionMismatch: another version of the ABI, or an unsupported API.
  static Result<std::unique_ptr<LoadedModule>> Open(const std::string& name, std::string_view image);

  [[nodiscard]] const weir_module& table() const { return *table_; }
  [[nodiscard]] const TableFrame& lines() const { return lines_; }
  /// Null: the module has no such kernel.
  [[nodiscard]] const weir_kernel* Kernel(std::string_view name) const;

 private:
  explicit LoadedModule(const weir_module* table) : table_(table) {}
  [[nodiscard]] const weir_kernel* KernelAt(std::size_t index) const;
  Status ReadTable();

  const weir_module* table_;
  TableFrame lines_;
};

}  // namespace weir::modules
