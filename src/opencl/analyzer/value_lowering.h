// SPDX-License-Identifier: Apache-2.0
// Translates LLVM's integer values and ScalarEvolution's expressions to the expressions of kernel/access.h.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>

#include <optional>

#include "kernel/expr_table.h"

namespace weir::opencl {

/// The demangled name of a built-in, and whether its last parameter is unsigned.
struct Builtin {
  llvm::StringRef name{};
  bool is_unsigned = false;
};
Builtin BuiltinOf(const llvm::CallInst& call);

class ValueLowering {
 public:
  ValueLowering(llvm::Function& function, llvm::LoopInfo& loops, llvm::ScalarEvolution& evolution);

  /// The expression of an integer; anything else is data.
  std::uint16_t Of(const llvm::Value* value);
  std::uint16_t Of(const llvm::SCEV* scev);
  /// The comparison of integers that is equivalent to `condition` or to its negation; otherwise data.
  std::uint16_t Comparison(const llvm::ICmpInst& condition);
  [[nodiscard]] std::optional<std::uint16_t> LoopIndex(const llvm::Loop* loop) const;
  [[nodiscard]] const std::vector<const llvm::Loop*>& loops() const { return order_; }
  kernel::ExprTable& table() { return table_; }
  [[nodiscard]] std::uint8_t asks() const { return asks_; }

 private:
  std::uint16_t Lower(const llvm::Value* value, unsigned bits);
  std::uint16_t LowerOperator(const llvm::Instruction& instruction, unsigned bits);
  std::uint16_t LowerPhi(const llvm::PHINode& phi, unsigned bits);
  std::uint16_t LowerCall(const llvm::CallInst& call, unsigned bits);
  std::uint16_t LowerField(const llvm::Value* from, std::uint64_t at, unsigned bits);
  /// Whether the kernel only loads from this structure, which it has as a copy of its own.
  [[nodiscard]] bool KeepsItsValue(const llvm::Argument& structure);
  std::uint16_t Shifted(const llvm::Instruction& instruction, unsigned bits);
  template <typename Nary>
  std::uint16_t Folded(kernel::ExprOp op, const Nary* scev);

  llvm::LoopInfo& loop_info_;
  llvm::ScalarEvolution& evolution_;
  const llvm::DataLayout& layout_;
  kernel::ExprTable table_;
  llvm::DenseMap<const llvm::Value*, std::uint16_t> lowered_;
  llvm::DenseMap<const llvm::Loop*, std::uint16_t> loop_index_;
  llvm::DenseMap<const llvm::Argument*, bool> keeps_;  // answers of KeepsItsValue
  std::vector<const llvm::Loop*> order_;               // outer loops first
  std::uint8_t asks_ = 0;
  int depth_ = 0;
};

}  // namespace weir::opencl
