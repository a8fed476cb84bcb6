// SPDX-License-Identifier: Apache-2.0
#include "opencl/analyzer/value_lowering.h"

#include <llvm/ADT/StringSwitch.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

namespace weir::opencl {
namespace {

using kernel::ExprOp;

constexpr int kLoweringDepthMax = 200;

unsigned BitsOfType(const llvm::Type* type) {
  const unsigned bits = type->isIntegerTy() ? type->getIntegerBitWidth() : 64;
  return bits <= 64 ? bits : 64;
}

/// get_global_id and similar built-ins. `asks`: the property that differs in a part of a launch.
struct IdBuiltin {
  const char* name;
  ExprOp op;
  std::uint8_t asks;
  std::int64_t beyond;  // the result for a dimension that does not exist
};
constexpr IdBuiltin kIdBuiltins[]{
    {"get_global_id", ExprOp::kGlobalId, 0, 0},
    {"get_local_id", ExprOp::kLocalId, 0, 0},
    {"get_group_id", ExprOp::kGroupId, kernel::kAsksGroupId, 0},
    {"get_global_size", ExprOp::kGlobalSize, kernel::kAsksGlobalSize, 1},
    {"get_local_size", ExprOp::kLocalSize, 0, 1},
    {"get_enqueued_local_size", ExprOp::kLocalSize, 0, 1},
    {"get_num_groups", ExprOp::kNumGroups, kernel::kAsksNumGroups, 1},
    {"get_global_offset", ExprOp::kGlobalOffset, kernel::kAsksGlobalOffset, 0},
};

}  // namespace

Builtin BuiltinOf(const llvm::CallInst& call) {
  const llvm::Function* callee = call.getCalledFunction();
  if (callee == nullptr) return {};
  llvm::StringRef mangled = callee->getName();
  if (!mangled.consume_front("_Z")) return {.name = mangled};
  std::size_t length = 0;
  if (mangled.consumeInteger(10, length) || length > mangled.size()) return {};
  const llvm::StringRef parameters = mangled.substr(length);
  const char last = parameters.empty() ? 'v' : parameters.back();
  return {.name = mangled.take_front(length), .is_unsigned = llvm::StringRef("hjtm").contains(last)};
}

ValueLowering::ValueLowering(llvm::Function& function, llvm::LoopInfo& loops, llvm::ScalarEvolution& evolution)
    : loop_info_(loops), evolution_(evolution), layout_(function.getParent()->getDataLayout()) {
  for (const llvm::Loop* loop : loops.getLoopsInPreorder()) {
    if (order_.size() == kernel::kAccessLoopsMax) break;
    loop_index_[loop] = static_cast<std::uint16_t>(order_.size());
    order_.push_back(loop);
  }
}

std::optional<std::uint16_t> ValueLowering::LoopIndex(const llvm::Loop* loop) const {
  const auto found = loop_index_.find(loop);
  return found == loop_index_.end() ? std::nullopt : std::optional(found->second);
}

std::uint16_t ValueLowering::Of(const llvm::Value* value) {
  const unsigned bits = BitsOfType(value->getType());
  if (!value->getType()->isIntegerTy() || value->getType()->getIntegerBitWidth() > 64) return table_.Data(bits);
  if (const auto found = lowered_.find(value); found != lowered_.end()) return found->second;
  if (depth_ > kLoweringDepthMax) return table_.Data(bits);
  lowered_[value] = table_.Data(bits);  // the result for a value that depends on itself, except as a loop counter
  ++depth_;
  const std::uint16_t expr = Lower(value, bits);
  --depth_;
  lowered_[value] = expr;
  return expr;
}

std::uint16_t ValueLowering::Lower(const llvm::Value* value, unsigned bits) {
  if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value))
    return table_.Constant(constant->getSExtValue(), bits);
  if (const auto* argument = llvm::dyn_cast<llvm::Argument>(value)) {
    if (bits % 8 != 0) return table_.Data(bits);
    return table_.Argument(static_cast<std::uint16_t>(argument->getArgNo()), bits);
  }
  if (const auto* phi = llvm::dyn_cast<llvm::PHINode>(value)) return LowerPhi(*phi, bits);
  if (const auto* call = llvm::dyn_cast<llvm::CallInst>(value)) return LowerCall(*call, bits);
  if (const auto* instruction = llvm::dyn_cast<llvm::Instruction>(value)) return LowerOperator(*instruction, bits);
  return table_.Data(bits);
}

// A phi of a loop header is the loop's counter, or a value of the previous iteration, which is unknown.
std::uint16_t ValueLowering::LowerPhi(const llvm::PHINode& phi, unsigned bits) {
  if (const llvm::Loop* loop = loop_info_.getLoopFor(phi.getParent()); loop && loop->getHeader() == phi.getParent()) {
    const auto* recurrence = llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution_.getSCEV(const_cast<llvm::PHINode*>(&phi)));
    return recurrence != nullptr ? Of(recurrence) : table_.Data(bits);
  }
  std::optional<std::uint16_t> any;
  for (const llvm::Value* incoming : phi.incoming_values()) {
    const std::uint16_t one = Of(incoming);
    any = any && *any != one ? table_.Choice(*any, one) : one;
  }
  return any.value_or(table_.Data(bits));
}

std::uint16_t ValueLowering::Shifted(const llvm::Instruction& instruction, unsigned bits) {
  const auto* by = llvm::dyn_cast<llvm::ConstantInt>(instruction.getOperand(1));
  if (by == nullptr || by->getZExtValue() >= bits || by->getZExtValue() > 60) return table_.Data(bits);
  const std::int64_t factor = std::int64_t{1} << by->getZExtValue();
  const std::uint16_t value = Of(instruction.getOperand(0));
  if (instruction.getOpcode() == llvm::Instruction::Shl)
    return table_.Binary(ExprOp::kMul, value, table_.Constant(factor, bits));
  if (instruction.getOpcode() == llvm::Instruction::LShr)
    return by->getZExtValue() + 1 >= bits ? table_.Data(bits)
                                          : table_.Binary(ExprOp::kUDiv, value, table_.Constant(factor, bits));
  // A right shift rounds down, but division rounds towards zero. (v - (v mod factor)) / factor is the same in both.
  if (by->getZExtValue() + 1 >= bits) return table_.Data(bits);
  const std::uint16_t cleared = table_.Binary(ExprOp::kAnd, value, table_.Constant(-factor, bits));
  return table_.Binary(ExprOp::kSDiv, cleared, table_.Constant(factor, bits));
}

std::uint16_t ValueLowering::LowerOperator(const llvm::Instruction& instruction, unsigned bits) {
  const auto binary = [&](ExprOp op) {
    return table_.Binary(op, Of(instruction.getOperand(0)), Of(instruction.getOperand(1)));
  };
  switch (instruction.getOpcode()) {
    case llvm::Instruction::Add: return binary(ExprOp::kAdd);
    case llvm::Instruction::Mul: return binary(ExprOp::kMul);
    case llvm::Instruction::Sub:
      return table_.Binary(ExprOp::kAdd, Of(instruction.getOperand(0)),
                           table_.Binary(ExprOp::kMul, Of(instruction.getOperand(1)), table_.Constant(-1, bits)));
    case llvm::Instruction::UDiv: return binary(ExprOp::kUDiv);
    case llvm::Instruction::SDiv: return binary(ExprOp::kSDiv);
    case llvm::Instruction::URem: return binary(ExprOp::kURem);
    case llvm::Instruction::SRem: return binary(ExprOp::kSRem);
    case llvm::Instruction::And: return binary(ExprOp::kAnd);
    case llvm::Instruction::Or: {
      const llvm::SCEV* scev = evolution_.getSCEV(const_cast<llvm::Instruction*>(&instruction));
      // An `or` of disjoint bits is an addition
      return llvm::isa<llvm::SCEVUnknown>(scev) ? table_.Data(bits) : Of(scev);
    }
    case llvm::Instruction::Shl:
    case llvm::Instruction::LShr:
    case llvm::Instruction::AShr: return Shifted(instruction, bits);
    case llvm::Instruction::Trunc:
    case llvm::Instruction::ZExt: return table_.Convert(ExprOp::kZExt, Of(instruction.getOperand(0)), bits);
    case llvm::Instruction::SExt: return table_.Convert(ExprOp::kSExt, Of(instruction.getOperand(0)), bits);
    case llvm::Instruction::Freeze: return Of(instruction.getOperand(0));
    case llvm::Instruction::Select: {
      const auto* compare = llvm::dyn_cast<llvm::ICmpInst>(instruction.getOperand(0));
      const std::uint16_t condition = compare != nullptr ? Comparison(*compare) : table_.Data(1);
      return table_.Select(condition, Of(instruction.getOperand(1)), Of(instruction.getOperand(2)));
    }
    case llvm::Instruction::ICmp: return Comparison(llvm::cast<llvm::ICmpInst>(instruction));
    case llvm::Instruction::ExtractElement: {
      const auto* index = llvm::dyn_cast<llvm::ConstantInt>(instruction.getOperand(1));
      const auto* argument = llvm::dyn_cast<llvm::Argument>(instruction.getOperand(0));
      if (index == nullptr || argument == nullptr || index->getZExtValue() > 15) return table_.Data(bits);
      return LowerField(argument, index->getZExtValue() * (bits / 8), bits);
    }
    case llvm::Instruction::Load: {
      const llvm::Value* pointer = instruction.getOperand(0);
      llvm::APInt offset(layout_.getIndexTypeSizeInBits(pointer->getType()), 0);
      const auto* base = llvm::dyn_cast<llvm::Argument>(
          pointer->stripAndAccumulateConstantOffsets(layout_, offset, /*AllowNonInbounds=*/true));
      if (base == nullptr || !base->hasByValAttr() || offset.isNegative() || !KeepsItsValue(*base))
        return table_.Data(bits);
      return LowerField(base, offset.getZExtValue(), bits);
    }
    default: return table_.Data(bits);
  }
}

/// Extracts `bits` bits of an argument that is a vector or a structure.
std::uint16_t ValueLowering::LowerField(const llvm::Value* from, std::uint64_t at, unsigned bits) {
  const auto* argument = llvm::cast<llvm::Argument>(from);
  llvm::Type* type = argument->hasByValAttr() ? argument->getParamByValType() : argument->getType();
  if (bits % 8 != 0 || at + bits / 8 > layout_.getTypeAllocSize(type).getFixedSize() || at > 60'000)
    return table_.Data(bits);
  return table_.Argument(static_cast<std::uint16_t>(argument->getArgNo()), bits, static_cast<std::uint16_t>(at));
}

bool ValueLowering::KeepsItsValue(const llvm::Argument& structure) {
  if (const auto found = keeps_.find(&structure); found != keeps_.end()) return found->second;
  bool keeps = true;
  std::vector<const llvm::Value*> pointers{&structure};
  while (keeps && !pointers.empty()) {
    const llvm::Value* pointer = pointers.back();
    pointers.pop_back();
    for (const llvm::Use& use : pointer->uses()) {
      const llvm::User* user = use.getUser();
      if (llvm::isa<llvm::GetElementPtrInst, llvm::BitCastInst, llvm::AddrSpaceCastInst>(user)) {
        pointers.push_back(user);
        continue;
      }
      const auto* copy = llvm::dyn_cast<llvm::MemTransferInst>(user);
      const bool reads = llvm::isa<llvm::LoadInst>(user) || (copy != nullptr && &use == &copy->getRawSourceUse());
      keeps = keeps && reads;
    }
  }
  return keeps_[&structure] = keeps;
}

std::uint16_t ValueLowering::LowerCall(const llvm::CallInst& call, unsigned bits) {
  const Builtin builtin = BuiltinOf(call);
  for (const IdBuiltin& one : kIdBuiltins) {
    if (builtin.name != one.name || call.arg_size() != 1) continue;
    asks_ |= one.asks;
    const auto* dimension = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(0));
    if (dimension == nullptr) return table_.Data(bits);
    const std::uint64_t d = dimension->getZExtValue();
    return d < 3 ? table_.Leaf(one.op, static_cast<std::uint16_t>(d), bits) : table_.Constant(one.beyond, bits);
  }
  if (builtin.name == "get_work_dim") return table_.Leaf(ExprOp::kWorkDim, 0, bits);
  if (builtin.name == "get_global_linear_id") asks_ |= kernel::kAsksLinearId;
  const auto of = [&](unsigned i) { return Of(call.getArgOperand(i)); };
  for (unsigned i = 0; i < call.arg_size(); ++i)
    if (call.getArgOperand(i)->getType() != call.getType()) return table_.Data(bits);
  const bool u = builtin.is_unsigned;
  const ExprOp least = u ? ExprOp::kUMin : ExprOp::kSMin, most = u ? ExprOp::kUMax : ExprOp::kSMax;
  if (call.arg_size() == 2 && builtin.name == "min") return table_.Binary(least, of(0), of(1));
  if (call.arg_size() == 2 && builtin.name == "max") return table_.Binary(most, of(0), of(1));
  const llvm::Intrinsic::ID intrinsic = call.getIntrinsicID();
  if (intrinsic == llvm::Intrinsic::smin) return table_.Binary(ExprOp::kSMin, of(0), of(1));
  if (intrinsic == llvm::Intrinsic::smax) return table_.Binary(ExprOp::kSMax, of(0), of(1));
  if (intrinsic == llvm::Intrinsic::umin) return table_.Binary(ExprOp::kUMin, of(0), of(1));
  if (intrinsic == llvm::Intrinsic::umax) return table_.Binary(ExprOp::kUMax, of(0), of(1));
  if (call.arg_size() == 3 && builtin.name == "clamp")
    return table_.Binary(least, table_.Binary(most, of(0), of(1)), of(2));
  return table_.Data(bits);
}

std::uint16_t ValueLowering::Comparison(const llvm::ICmpInst& condition) {
  const llvm::Type* type = condition.getOperand(0)->getType();
  if (!type->isIntegerTy() || type->getIntegerBitWidth() > 64) return table_.Data(1);
  std::uint16_t a = Of(condition.getOperand(0)), b = Of(condition.getOperand(1));
  llvm::CmpInst::Predicate predicate = condition.getPredicate();
  if (llvm::ICmpInst::isGT(predicate) || llvm::ICmpInst::isGE(predicate)) {
    predicate = llvm::CmpInst::getSwappedPredicate(predicate);
    std::swap(a, b);
  }
  switch (predicate) {
    case llvm::CmpInst::ICMP_EQ: return table_.Add({ExprOp::kEq, table_.BitsOf(a), a, b});
    case llvm::CmpInst::ICMP_NE: return table_.Add({ExprOp::kNe, table_.BitsOf(a), a, b});
    case llvm::CmpInst::ICMP_SLT: return table_.Add({ExprOp::kSLt, table_.BitsOf(a), a, b});
    case llvm::CmpInst::ICMP_SLE: return table_.Add({ExprOp::kSLe, table_.BitsOf(a), a, b});
    case llvm::CmpInst::ICMP_ULT: return table_.Add({ExprOp::kULt, table_.BitsOf(a), a, b});
    case llvm::CmpInst::ICMP_ULE: return table_.Add({ExprOp::kULe, table_.BitsOf(a), a, b});
    default: return table_.Data(1);
  }
}

template <typename Nary>
std::uint16_t ValueLowering::Folded(ExprOp op, const Nary* scev) {
  std::uint16_t expr = Of(scev->getOperand(0));
  for (unsigned i = 1; i < scev->getNumOperands(); ++i) expr = table_.Binary(op, expr, Of(scev->getOperand(i)));
  return expr;
}

std::uint16_t ValueLowering::Of(const llvm::SCEV* scev) {
  const unsigned bits = scev->getSCEVType() == llvm::scCouldNotCompute ? 64 : BitsOfType(scev->getType());
  if (depth_ > kLoweringDepthMax) return table_.Data(bits);
  ++depth_;
  std::uint16_t expr = 0;
  switch (scev->getSCEVType()) {
    case llvm::scConstant:
      expr = table_.Constant(llvm::cast<llvm::SCEVConstant>(scev)->getAPInt().getSExtValue(), bits);
      break;
    case llvm::scTruncate:
    case llvm::scZeroExtend:
      expr = table_.Convert(ExprOp::kZExt, Of(llvm::cast<llvm::SCEVCastExpr>(scev)->getOperand()), bits);
      break;
    case llvm::scSignExtend:
      expr = table_.Convert(ExprOp::kSExt, Of(llvm::cast<llvm::SCEVCastExpr>(scev)->getOperand()), bits);
      break;
    case llvm::scAddExpr: expr = Folded(ExprOp::kAdd, llvm::cast<llvm::SCEVAddExpr>(scev)); break;
    case llvm::scMulExpr: expr = Folded(ExprOp::kMul, llvm::cast<llvm::SCEVMulExpr>(scev)); break;
    case llvm::scUMaxExpr: expr = Folded(ExprOp::kUMax, llvm::cast<llvm::SCEVUMaxExpr>(scev)); break;
    case llvm::scSMaxExpr: expr = Folded(ExprOp::kSMax, llvm::cast<llvm::SCEVSMaxExpr>(scev)); break;
    case llvm::scUMinExpr: expr = Folded(ExprOp::kUMin, llvm::cast<llvm::SCEVUMinExpr>(scev)); break;
    case llvm::scSMinExpr: expr = Folded(ExprOp::kSMin, llvm::cast<llvm::SCEVSMinExpr>(scev)); break;
    case llvm::scUDivExpr: {
      const auto* division = llvm::cast<llvm::SCEVUDivExpr>(scev);
      expr = table_.Binary(ExprOp::kUDiv, Of(division->getLHS()), Of(division->getRHS()));
      break;
    }
    case llvm::scAddRecExpr: {
      const auto* recurrence = llvm::cast<llvm::SCEVAddRecExpr>(scev);
      const auto loop = LoopIndex(recurrence->getLoop());
      if (!recurrence->isAffine() || !loop || recurrence->getType()->isPointerTy()) {
        expr = table_.Data(bits);
        break;
      }
      std::uint16_t round = table_.Leaf(ExprOp::kLoop, *loop, 64);
      round = table_.Convert(ExprOp::kZExt, round, bits);
      expr = table_.Binary(ExprOp::kAdd, Of(recurrence->getStart()),
                           table_.Binary(ExprOp::kMul, round, Of(recurrence->getOperand(1))));
      break;
    }
    case llvm::scUnknown: expr = Of(llvm::cast<llvm::SCEVUnknown>(scev)->getValue()); break;
    default: expr = table_.Data(bits); break;
  }
  --depth_;
  return expr;
}

}  // namespace weir::opencl
