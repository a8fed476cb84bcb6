// SPDX-License-Identifier: Apache-2.0
// A module in this process: opened, and its table read once and checked.
#pragma once

#include <weir/module.h>

#include <memory>
#include <string>
#include <string_view>

#include "modules/module_frames.h"

namespace weir::modules {

class LoadedModule {
 public:
  /// `image` has been checked for its name and by CheckModuleImage. Opening runs the module's own constructors.
  /// kInvalidArgument; kVersionMismatch: of another version of the ABI, or for an API that is not served.
  static Result<std::unique_ptr<LoadedModule>> Open(const std::string& name, std::string_view image);

  [[nodiscard]] const weir_module& table() const { return *table_; }
  [[nodiscard]] const TableFrame& lines() const { return lines_; }
  /// None: it has no such kernel.
  [[nodiscard]] const weir_kernel* Kernel(std::string_view name) const;

 private:
  explicit LoadedModule(const weir_module* table) : table_(table) {}
  [[nodiscard]] const weir_kernel* KernelAt(std::size_t index) const;
  Status ReadTable();

  const weir_module* table_;
  TableFrame lines_;
};

}  // namespace weir::modules
