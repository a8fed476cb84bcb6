// SPDX-License-Identifier: Apache-2.0
#include "opencl/analyzer/lowering.h"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/LoopSimplify.h>

#include "opencl/analyzer/kernel_walk.h"
#include "opencl/analyzer/value_lowering.h"

namespace weir::opencl {
namespace {

/// Moves id queries to the kernel's entry, because their results never change. Inside a loop they would make its step
/// look variant.
struct HoistIds : llvm::PassInfoMixin<HoistIds> {
  static llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& /*analyses*/) {
    std::vector<llvm::CallInst*> asked;
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& instruction : block)
        if (auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
            call && call->arg_size() == 1 && llvm::isa<llvm::ConstantInt>(call->getArgOperand(0)) &&
            call->doesNotAccessMemory() && BuiltinOf(*call).name.startswith("get_"))
          asked.push_back(call);
    for (llvm::CallInst* call : asked) call->moveBefore(&*function.getEntryBlock().getFirstInsertionPt());
    return llvm::PreservedAnalyses::none();
  }
};

/// Inlines everything into the kernels, then runs mem2reg, CSE and canonicalisation. Loops are not rotated, so that the
/// test at a loop's head stays before its body.
void Optimise(llvm::Module& module, llvm::ModuleAnalysisManager& analyses) {
  for (llvm::Function& function : module) {
    function.removeFnAttr(llvm::Attribute::OptimizeNone);
    function.removeFnAttr(llvm::Attribute::NoInline);
    // A kernel may call another kernel
    if (!function.isDeclaration()) function.addFnAttr(llvm::Attribute::AlwaysInline);
  }
  llvm::FunctionPassManager hoist;
  hoist.addPass(HoistIds());
  llvm::FunctionPassManager each;
  each.addPass(llvm::SROAPass());
  each.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  each.addPass(llvm::SimplifyCFGPass());
  each.addPass(llvm::InstCombinePass());
  each.addPass(llvm::SROAPass());
  each.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  each.addPass(llvm::ADCEPass());
  each.addPass(llvm::LoopSimplifyPass());
  llvm::ModulePassManager all;
  all.addPass(llvm::AlwaysInlinerPass());
  all.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(hoist)));
  all.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(each)));
  all.run(module, analyses);
}

}  // namespace

Result<std::vector<kernel::KernelAccess>> LowerBitcode(std::span<const char> bitcode) {
  llvm::LLVMContext context;
  auto module = llvm::parseBitcodeFile({llvm::StringRef(bitcode.data(), bitcode.size()), "kernels"}, context);
  if (!module)
    return Fail(Errc::kInvalidArgument, "the compiler's output can't be read: " + llvm::toString(module.takeError()));
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager groups;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(groups);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, groups, modules);
  Optimise(**module, modules);
  std::vector<kernel::KernelAccess> kernels;
  for (llvm::Function& function : **module) {
    if (function.isDeclaration() || function.getCallingConv() != llvm::CallingConv::SPIR_KERNEL) continue;
    if (kernels.size() == kernel::kKernelsMax) return Fail(Errc::kInvalidArgument, "it has more than 256 kernels");
    kernels.push_back(WalkKernel(function, functions));
    WEIR_TRY_STATUS(kernel::CheckAccess(kernels.back()));
  }
  return kernels;
}

}  // namespace weir::opencl
