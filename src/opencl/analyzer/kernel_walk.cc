// SPDX-License-Identifier: Apache-2.0
#include "opencl/analyzer/kernel_walk.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>

#include <map>
#include <tuple>

#include "opencl/analyzer/access_class.h"
#include "opencl/analyzer/value_lowering.h"

namespace weir::opencl {
namespace {

using kernel::ExprOp;

// Address spaces of spir64
constexpr unsigned kPrivate = 0, kGlobal = 1, kConstantMemory = 2, kLocal = 3, kGeneric = 4;

unsigned SpaceOf(const llvm::Value* pointer) { return pointer->getType()->getPointerAddressSpace(); }

bool MayBeBuffer(const llvm::Type* type) {
  if (!type->isPointerTy()) return false;
  const unsigned space = type->getPointerAddressSpace();
  return space == kGlobal || space == kConstantMemory || space == kGeneric;
}

/// Images, samplers, pipes and queues are pointers to opaque structures.
bool IsOpaque(llvm::Type* type) {
  if (!type->isPointerTy()) return false;
  const auto* inner = llvm::dyn_cast<llvm::StructType>(type->getNonOpaquePointerElementType());
  return inner != nullptr && inner->isOpaque();
}

class KernelWalker {
 public:
  KernelWalker(llvm::Function& function, llvm::FunctionAnalysisManager& analyses)
      : function_(function),
        layout_(function.getParent()->getDataLayout()),
        dominators_(analyses.getResult<llvm::DominatorTreeAnalysis>(function)),
        post_dominators_(analyses.getResult<llvm::PostDominatorTreeAnalysis>(function)),
        loops_(analyses.getResult<llvm::LoopAnalysis>(function)),
        evolution_(analyses.getResult<llvm::ScalarEvolutionAnalysis>(function)),
        values_(function, loops_, evolution_) {}

  kernel::KernelAccess Walk() {
    access_.kernel = function_.getName().str().substr(0, kernel::kAccessTextMax);
    access_.verdict = kernel::AccessVerdict::kExact;
    TakeArguments();
    if (!refused_) TakeLoops();
    for (const llvm::BasicBlock& block : function_) {
      if (!dominators_.isReachableFromEntry(&block)) continue;
      for (const llvm::Instruction& instruction : block)
        if (!refused_) Take(instruction);
    }
    access_.exprs = values_.table().exprs();
    access_.asks = values_.asks();
    if (!refused_) Judge();
    if (refused_) {
      access_.loops = 0;
      access_.exprs.clear();
      access_.tests.clear();
      access_.contexts = {kernel::AccessContext{}};
      access_.accesses.clear();
    }
    return std::move(access_);
  }

 private:
  void Refuse(const std::string& why, const llvm::Instruction* at = nullptr) {
    if (refused_) return;
    refused_ = true;
    access_.verdict = kernel::AccessVerdict::kRefuse;
    access_.reason = why.substr(0, kernel::kAccessTextMax);
    access_.line = at != nullptr && at->getDebugLoc() ? at->getDebugLoc().getLine() : 0;
  }

  void TakeArguments() {
    if (function_.arg_size() > kernel::kKernelArgumentsMax) return Refuse("it has more than 128 arguments");
    for (const llvm::Argument& argument : function_.args()) {
      kernel::KernelArgument& taken = access_.arguments.emplace_back();
      taken.name = argument.getName().str().substr(0, 64);
      llvm::Type* type = argument.getType();
      if (IsOpaque(type)) return Refuse("it uses images, samplers or pipes ('" + taken.name + "')");
      if (argument.hasByValAttr()) type = argument.getParamByValType();
      if (type->isPointerTy() && !argument.hasByValAttr()) {
        const unsigned space = type->getPointerAddressSpace();
        taken.kind = space == kLocal ? kernel::ArgumentKind::kLocal : kernel::ArgumentKind::kBuffer;
      } else {
        const std::uint64_t bytes = layout_.getTypeAllocSize(type).getFixedSize();
        if (bytes > 4096) return Refuse("its argument '" + taken.name + "' is of more than 4096 bytes");
        taken.bytes = static_cast<std::uint32_t>(bytes);
      }
    }
  }

  // Every exit that each iteration passes bounds the number of iterations.
  void TakeLoops() {
    access_.loops = static_cast<std::uint16_t>(values_.loops().size());
    for (std::uint16_t i = 0; i < access_.loops; ++i) {
      const llvm::Loop* loop = values_.loops()[i];
      llvm::SmallVector<llvm::BasicBlock*, 4> exits;
      loop->getExitingBlocks(exits);
      const llvm::BasicBlock* latch = loop->getLoopLatch();
      for (llvm::BasicBlock* exit : exits) {
        const auto* branch = llvm::dyn_cast<llvm::BranchInst>(exit->getTerminator());
        if (branch == nullptr || !branch->isConditional() || latch == nullptr || !dominators_.dominates(exit, latch))
          continue;
        if (!TakeTest(*loop, i, branch->getCondition(), loop->contains(branch->getSuccessor(0))))
          ends_early_.insert(loop);
      }
    }
  }

  /// Returns whether the loop ends only as the tests that were taken say.
  bool TakeTest(const llvm::Loop& loop, std::uint16_t index, llvm::Value* condition, bool stays_if) {
    using namespace llvm::PatternMatch;
    llvm::Value *first = nullptr, *second = nullptr;
    const bool both = stays_if ? match(condition, m_LogicalAnd(m_Value(first), m_Value(second)))
                               : match(condition, m_LogicalOr(m_Value(first), m_Value(second)));
    if (both) {
      const bool takes_first = TakeTest(loop, index, first, stays_if);
      return TakeTest(loop, index, second, stays_if) && takes_first;
    }
    const auto* compare = llvm::dyn_cast<llvm::ICmpInst>(condition);
    if (compare == nullptr || !compare->getOperand(0)->getType()->isIntegerTy()) return false;
    llvm::CmpInst::Predicate predicate =
        stays_if ? compare->getPredicate() : llvm::CmpInst::getInversePredicate(compare->getPredicate());
    const llvm::SCEV* left = evolution_.getSCEV(compare->getOperand(0));
    const llvm::SCEV* right = evolution_.getSCEV(compare->getOperand(1));
    const auto counts = [&](const llvm::SCEV* scev) {
      const auto* recurrence = llvm::dyn_cast<llvm::SCEVAddRecExpr>(scev);
      return recurrence != nullptr && recurrence->getLoop() == &loop && recurrence->isAffine();
    };
    if (!counts(left)) {
      std::swap(left, right);
      predicate = llvm::CmpInst::getSwappedPredicate(predicate);
    }
    if (!counts(left) || !evolution_.isLoopInvariant(right, &loop)) return false;
    kernel::LoopTest test{.loop = index, .test = ExprOp::kNe};
    switch (predicate) {
      case llvm::CmpInst::ICMP_NE: break;
      case llvm::CmpInst::ICMP_SGT: test.descending = true; [[fallthrough]];
      case llvm::CmpInst::ICMP_SLT: test.test = ExprOp::kSLt; break;
      case llvm::CmpInst::ICMP_SGE: test.descending = true; [[fallthrough]];
      case llvm::CmpInst::ICMP_SLE: test.test = ExprOp::kSLe; break;
      case llvm::CmpInst::ICMP_UGT: test.descending = true; [[fallthrough]];
      case llvm::CmpInst::ICMP_ULT: test.test = ExprOp::kULt; break;
      case llvm::CmpInst::ICMP_UGE: test.descending = true; [[fallthrough]];
      case llvm::CmpInst::ICMP_ULE: test.test = ExprOp::kULe; break;
      default: return false;
    }
    const auto* recurrence = llvm::cast<llvm::SCEVAddRecExpr>(left);
    test.start = values_.Of(recurrence->getStart());
    test.step = values_.Of(recurrence->getOperand(1));
    test.bound = values_.Of(right);
    if (access_.tests.size() == kernel::kAccessTestsMax) return false;
    access_.tests.push_back(test);
    return true;
  }

  std::uint16_t ContextWith(std::uint16_t parent, std::uint16_t condition, bool holds) {
    const auto key = std::make_tuple(parent, condition, holds);
    if (const auto found = joined_.find(key); found != joined_.end()) return found->second;
    if (access_.contexts.size() == kernel::kAccessContextsMax) {
      any_unsure_ = true;
      return parent;
    }
    access_.contexts.push_back({.parent = parent, .condition = condition, .holds = holds});
    return joined_[key] = static_cast<std::uint16_t>(access_.contexts.size() - 1);
  }

  std::uint16_t ContextWith(std::uint16_t parent, llvm::Value* condition, bool holds) {
    using namespace llvm::PatternMatch;
    llvm::Value *first = nullptr, *second = nullptr;
    if (match(condition, m_Not(m_Value(first)))) return ContextWith(parent, first, !holds);
    const bool both = holds ? match(condition, m_LogicalAnd(m_Value(first), m_Value(second)))
                            : match(condition, m_LogicalOr(m_Value(first), m_Value(second)));
    if (both) return ContextWith(ContextWith(parent, first, holds), second, holds);
    const auto* compare = llvm::dyn_cast<llvm::ICmpInst>(condition);
    return ContextWith(parent, compare != nullptr ? values_.Comparison(*compare) : values_.table().Data(1), holds);
  }

  struct Place {
    std::uint16_t context = 0;
    bool sure = true;  // the access happens whenever the conditions of the context hold
  };

  /// The conditions of a block: the branches above it of which only one side leads to it.
  Place PlaceOf(const llvm::BasicBlock* block) {
    if (const auto found = places_.find(block); found != places_.end()) return found->second;
    Place place;
    if (const auto* node = dominators_.getNode(block); node->getIDom() != nullptr) {
      const llvm::BasicBlock* above = node->getIDom()->getBlock();
      place = PlaceOf(above);
      // The dominator's place contains the conditions above it. The branch at its end adds the last one.
      const auto* branch = llvm::dyn_cast<llvm::BranchInst>(above->getTerminator());
      // A block that both sides reach, such as one after a loop, has no condition.
      const bool either_way = post_dominators_.dominates(block, above);
      if (!either_way && branch != nullptr && branch->isConditional() &&
          branch->getSuccessor(0) != branch->getSuccessor(1)) {
        for (const bool side : {true, false}) {
          const llvm::BasicBlockEdge edge(above, branch->getSuccessor(side ? 0 : 1));
          if (!dominators_.dominates(edge, block)) continue;
          place.context = ContextWith(place.context, branch->getCondition(), side);
          return places_[block] = place;
        }
      }
      place.sure = place.sure && either_way;
    }
    return places_[block] = place;
  }

  /// Whether every loop around the block has exactly one exit, whose test is understood as a whole.
  bool RoundsAreSure(const llvm::BasicBlock* block) const {
    for (const llvm::Loop* loop = loops_.getLoopFor(block); loop != nullptr; loop = loop->getParentLoop()) {
      const auto index = values_.LoopIndex(loop);
      if (!index || loop->getExitingBlock() == nullptr || TestsOf(*index) != 1 || ends_early_.contains(loop))
        return false;
    }
    return true;
  }

  std::size_t TestsOf(std::uint16_t loop) const {
    return static_cast<std::size_t>(
        std::count_if(access_.tests.begin(), access_.tests.end(), [&](const auto& one) { return one.loop == loop; }));
  }

  void Touch(const llvm::Instruction& at, const llvm::Value* pointer, bool write, std::uint16_t bytes,
             std::uint16_t further) {
    const unsigned space = SpaceOf(pointer);
    if (space == kLocal || space == kPrivate) return;
    const llvm::SCEV* scev = evolution_.getSCEV(const_cast<llvm::Value*>(pointer));
    const auto* base = llvm::dyn_cast<llvm::SCEVUnknown>(evolution_.getPointerBase(scev));
    const auto* argument = base != nullptr ? llvm::dyn_cast<llvm::Argument>(base->getValue()) : nullptr;
    kernel::ExprTable& table = values_.table();
    if (argument != nullptr && !argument->hasByValAttr()) {
      const std::uint16_t offset = values_.Of(evolution_.removePointerBase(scev));
      return Add(at, *argument, write, table.Binary(ExprOp::kAdd, offset, further), bytes);
    }
    llvm::SmallVector<const llvm::Value*, 4> objects;
    llvm::getUnderlyingObjects(pointer, objects, &loops_, 12);
    for (const llvm::Value* object : objects) {
      if (llvm::isa<llvm::AllocaInst>(object)) continue;
      if (const auto* global = llvm::dyn_cast<llvm::GlobalVariable>(object)) {
        const bool is_constant = global->getAddressSpace() == kConstantMemory || global->isConstant();
        if (global->getAddressSpace() == kLocal || (!write && is_constant)) continue;
        return Refuse("it uses memory of the program's, '" + global->getName().str() + "'", &at);
      }
      const auto* one = llvm::dyn_cast<llvm::Argument>(object);
      if (one == nullptr) return Refuse("it follows a pointer that it read from memory, or computed", &at);
      if (one->hasByValAttr() || SpaceOf(one) == kLocal) continue;
      if (write) return Refuse("which buffer it writes is chosen at run time", &at);
      Add(at, *one, write, table.Data(), bytes);
    }
  }

  void Add(const llvm::Instruction& at, const llvm::Argument& argument, bool write, std::uint16_t offset,
           std::uint16_t bytes) {
    const Place place = PlaceOf(at.getParent());
    kernel::MemoryAccess one{.argument = static_cast<std::uint16_t>(argument.getArgNo()),
                             .write = write,
                             .may = !place.sure || any_unsure_ || !RoundsAreSure(at.getParent()) ||
                                    UsesEndedLoop(at.getParent(), offset) ||
                                    ConditionUsesEndedLoop(at.getParent(), place.context),
                             .context = place.context,
                             .offset = offset,
                             .bytes = bytes,
                             .line = at.getDebugLoc() ? at.getDebugLoc().getLine() : 0};
    for (const kernel::MemoryAccess& before : access_.accesses) {
      kernel::MemoryAccess same = before;
      same.line = one.line;
      if (same == one) return;
    }
    if (access_.accesses.size() == kernel::kAccessesMax)
      return Refuse("it accesses buffers in more than 128 places", &at);
    access_.accesses.push_back(one);
  }

  /// Whether an index in this block uses the counter of a loop that has ended: the counter then has one value, and not
  /// all of them.
  bool UsesEndedLoop(const llvm::BasicBlock* block, std::uint16_t offset) {
    const std::vector<std::uint16_t> used = LoopsIn(values_.table().exprs(), offset);
    return std::any_of(used.begin(), used.end(),
                       [&](std::uint16_t loop) { return !values_.loops()[loop]->contains(block); });
  }

  bool ConditionUsesEndedLoop(const llvm::BasicBlock* block, std::uint16_t context) {
    for (; context != 0; context = access_.contexts[context].parent)
      if (UsesEndedLoop(block, access_.contexts[context].condition)) return true;
    return false;
  }

  void Take(const llvm::Instruction& instruction) {
    if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
      if ((load->isVolatile() || load->isAtomic()) && MayBeBuffer(load->getPointerOperand()->getType()))
        return Refuse("it synchronises with other work-groups: a volatile or atomic access", &instruction);
      return Touch(instruction, load->getPointerOperand(), false, SizeOf(load->getType()), Zero());
    }
    if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
      if ((store->isVolatile() || store->isAtomic()) && MayBeBuffer(store->getPointerOperand()->getType()))
        return Refuse("it synchronises with other work-groups: a volatile or atomic access", &instruction);
      if (MayBeBuffer(store->getValueOperand()->getType()))
        return Refuse("it stores a pointer to memory", &instruction);
      return Touch(instruction, store->getPointerOperand(), true, SizeOf(store->getValueOperand()->getType()), Zero());
    }
    if (llvm::isa<llvm::AtomicRMWInst>(instruction) || llvm::isa<llvm::AtomicCmpXchgInst>(instruction)) {
      if (SpaceOf(instruction.getOperand(0)) != kLocal) Refuse("it uses atomics on a buffer", &instruction);
      return;
    }
    if (const auto* cast = llvm::dyn_cast<llvm::PtrToIntInst>(&instruction); cast && MayBeBuffer(cast->getSrcTy()))
      return Refuse("it makes a number of a buffer's address", &instruction);
    if (const auto* compare = llvm::dyn_cast<llvm::ICmpInst>(&instruction)) return TakeComparison(*compare);
    if (const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction)) TakeCall(*call);
  }

  // The position in one buffer relative to a position in another says nothing about where the buffers lie.
  void TakeComparison(const llvm::ICmpInst& compare) {
    if (!MayBeBuffer(compare.getOperand(0)->getType())) return;
    const llvm::SCEV* bases[2];
    for (const unsigned i : {0U, 1U}) {
      if (llvm::isa<llvm::ConstantPointerNull>(compare.getOperand(i))) return;
      bases[i] = evolution_.getPointerBase(evolution_.getSCEV(compare.getOperand(i)));
    }
    if (bases[0] != bases[1]) Refuse("it compares addresses of two buffers", &compare);
  }

  std::uint16_t Zero() { return values_.table().Constant(0); }
  std::uint16_t SizeOf(llvm::Type* type) {
    return values_.table().Constant(static_cast<std::int64_t>(layout_.getTypeStoreSize(type).getFixedSize()));
  }

  void TakeCall(const llvm::CallInst& call) {
    if (const auto* move = llvm::dyn_cast<llvm::MemIntrinsic>(&call)) {
      const std::uint16_t bytes = values_.table().Convert(ExprOp::kZExt, values_.Of(move->getLength()), 64);
      Touch(call, move->getRawDest(), true, bytes, Zero());
      if (const auto* transfer = llvm::dyn_cast<llvm::MemTransferInst>(move))
        Touch(call, transfer->getRawSource(), false, bytes, Zero());
      return;
    }
    if (llvm::isa<llvm::IntrinsicInst>(call)) return;
    const Builtin builtin = BuiltinOf(call);
    const std::string name = builtin.name.str();
    if (name == "printf") return Refuse("it prints, and the order would be another", &call);
    if (name.starts_with("vload") || name.starts_with("vstore")) return TakeVector(call, name);
    if (name.starts_with("async_work_group_")) return TakeGroupCopy(call, name);
    const bool atomic = name.starts_with("atom");
    for (const llvm::Value* argument : call.args()) {
      if (IsOpaque(argument->getType()) && name != "wait_group_events")
        return Refuse("it uses images, samplers, pipes or events ('" + name + "')", &call);
      // Events have a generic address but lie in private memory.
      if (!MayBeBuffer(argument->getType()) || name == "prefetch" || name == "wait_group_events") continue;
      return Refuse(atomic ? "it uses atomics on a buffer ('" + name + "')"
                           : "it passes a buffer to '" + name + "', which isn't understood",
                    &call);
    }
    constexpr llvm::StringRef kHarmless[]{"barrier",         "work_group_barrier",
                                          "mem_fence",       "read_mem_fence",
                                          "write_mem_fence", "wait_group_events",
                                          "prefetch",        "sincos",
                                          "fract",           "modf",
                                          "frexp",           "remquo",
                                          "lgamma_r"};
    const bool harmless = std::find(std::begin(kHarmless), std::end(kHarmless), builtin.name) != std::end(kHarmless);
    if (harmless || atomic || call.doesNotAccessMemory()) return;
    if (builtin.name.startswith("work_group_")) return;
    Refuse(name.empty() ? "it calls through a pointer" : "it calls '" + name + "', which isn't understood", &call);
  }

  // vloadN(offset, p) and vstoreN(data, offset, p) access p + offset * N. The half variants do too, except that
  // vloada_half3 uses a stride of four.
  void TakeVector(const llvm::CallInst& call, const std::string& name) {
    const bool write = name.starts_with("vstore");
    const unsigned at = write ? 1 : 0;
    if (call.arg_size() < at + 2) return Refuse("it calls '" + name + "', which isn't understood", &call);
    const llvm::Value *index = call.getArgOperand(at), *pointer = call.getArgOperand(at + 1);
    llvm::Type* type = write ? call.getArgOperand(0)->getType() : call.getType();
    std::int64_t lanes = 1;
    if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) lanes = vector->getNumElements();
    const bool half = name.find("half") != std::string::npos;
    const std::int64_t element =
        half ? 2 : static_cast<std::int64_t>(layout_.getTypeStoreSize(type->getScalarType()).getFixedSize());
    const std::int64_t apart = lanes == 3 && name.find("a_half") != std::string::npos ? 4 : lanes;
    kernel::ExprTable& table = values_.table();
    const std::uint16_t further = table.Binary(ExprOp::kMul, values_.Of(index), table.Constant(apart * element));
    Touch(call, pointer, write, table.Constant(lanes * element), further);
  }

  // async_work_group_copy(to, from, elements, event) is executed once for the group, with equal arguments in all
  // work-items.
  void TakeGroupCopy(const llvm::CallInst& call, const std::string& name) {
    if (name != "async_work_group_copy" || call.arg_size() != 4 || !call.getArgOperand(2)->getType()->isIntegerTy())
      return Refuse("it calls '" + name + "', which isn't understood", &call);
    kernel::ExprTable& table = values_.table();
    for (const unsigned i : {0U, 1U}) {
      const llvm::Value* pointer = call.getArgOperand(i);
      if (!MayBeBuffer(pointer->getType())) continue;
      llvm::Type* element = pointer->getType()->getNonOpaquePointerElementType();
      const auto size = static_cast<std::int64_t>(layout_.getTypeAllocSize(element).getFixedSize());
      const std::uint16_t bytes = table.Binary(ExprOp::kMul, values_.Of(call.getArgOperand(2)), table.Constant(size));
      Touch(call, pointer, i == 0, bytes, Zero());
    }
  }

  void Judge() {
    const AccessClasses classes(access_);
    for (kernel::MemoryAccess& one : access_.accesses) {
      const std::string& name = access_.arguments[one.argument].name;
      const AccessClass where = std::max(classes.Of(one.offset), classes.Of(one.bytes));
      const bool unsure = classes.OfContext(one.context) == AccessClass::kData;
      one.may = one.may || unsure;
      const auto lessen = [&](kernel::AccessVerdict to, const std::string& why) {
        if (to <= access_.verdict) return;
        access_.verdict = to;
        access_.reason = why;
        access_.line = one.line;
      };
      if (one.write && where == AccessClass::kData)
        lessen(kernel::AccessVerdict::kRefuse, "where it writes in '" + name + "' depends on data");
      else if (one.write && where == AccessClass::kUniform && !classes.ContextMentionsIds(one.context))
        lessen(kernel::AccessVerdict::kRefuse, "all work-items write the same bytes of '" + name + "'");
      else if (where == AccessClass::kData)
        lessen(kernel::AccessVerdict::kReplicate, "where it reads in '" + name + "' depends on data");
      else if (one.write && one.may)
        lessen(kernel::AccessVerdict::kGuarded, "whether it writes in '" + name + "' depends on data");
      else if (where == AccessClass::kBounded)
        lessen(kernel::AccessVerdict::kGuarded, "only bounds are known of where it " +
                                                    std::string(one.write ? "writes" : "reads") + " in '" + name + "'");
    }
    refused_ = access_.verdict == kernel::AccessVerdict::kRefuse;
  }

  llvm::Function& function_;
  const llvm::DataLayout& layout_;
  llvm::DominatorTree& dominators_;
  llvm::PostDominatorTree& post_dominators_;
  llvm::LoopInfo& loops_;
  llvm::ScalarEvolution& evolution_;
  ValueLowering values_;
  kernel::KernelAccess access_;
  // The contexts made so far, by parent, condition and its value.
  std::map<std::tuple<std::uint16_t, std::uint16_t, bool>, std::uint16_t> joined_;
  llvm::DenseMap<const llvm::BasicBlock*, Place> places_;
  llvm::SmallPtrSet<const llvm::Loop*, 8> ends_early_;  // loops with an exit that is not understood as a whole
  // `any_unsure_`: a condition was dropped, because there are too many contexts.
  bool refused_ = false, any_unsure_ = false;
};

}  // namespace

kernel::KernelAccess WalkKernel(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
  return KernelWalker(function, analyses).Walk();
}

}  // namespace weir::opencl
