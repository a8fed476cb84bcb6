// SPDX-License-Identifier: Apache-2.0
// The functions that give a GPU work. Each records that something was drawn and calls Mesa's function. If a function is
// missing from this list, its work is submitted with the next listed function, at the latest at the end of the frame.
#define GL_GLEXT_PROTOTYPES 1
#include <GL/gl.h>
#include <GL/glext.h>

#include "emulator/gl/vendor.h"

namespace weir::emulator::gl {
namespace {

template <Name N, typename F>
struct Draw;
template <Name N, typename R, typename... A>
struct Draw<N, R(A...)> {
  static R Call(A... arguments) noexcept {
    TheDriver().Drew();
    return Mesa<N, R (*)(A...)>()(arguments...);
  }
};

#define WEIR_DRAW_AS(name, type) MakeHook<name>(&Draw<name, decltype(::type)>::Call)
#define WEIR_DRAW(function) WEIR_DRAW_AS(#function, function)

}  // namespace

std::span<const Hook> DrawHooks() {
  static const Hook kHooks[] = {
      WEIR_DRAW(glBegin),
      WEIR_DRAW(glBitmap),
      WEIR_DRAW(glBlitFramebuffer),
      WEIR_DRAW(glCallList),
      WEIR_DRAW(glCallLists),
      WEIR_DRAW(glClear),
      WEIR_DRAW(glClearBufferfi),
      WEIR_DRAW(glClearBufferfv),
      WEIR_DRAW(glClearBufferiv),
      WEIR_DRAW(glClearBufferuiv),
      WEIR_DRAW(glCopyPixels),
      WEIR_DRAW(glDispatchCompute),
      WEIR_DRAW(glDispatchComputeIndirect),
      WEIR_DRAW(glDrawArrays),
      WEIR_DRAW(glDrawArraysIndirect),
      WEIR_DRAW(glDrawArraysInstanced),
      WEIR_DRAW(glDrawArraysInstancedBaseInstance),
      WEIR_DRAW(glDrawElements),
      WEIR_DRAW(glDrawElementsBaseVertex),
      WEIR_DRAW(glDrawElementsIndirect),
      WEIR_DRAW(glDrawElementsInstanced),
      WEIR_DRAW(glDrawElementsInstancedBaseInstance),
      WEIR_DRAW(glDrawElementsInstancedBaseVertex),
      WEIR_DRAW(glDrawElementsInstancedBaseVertexBaseInstance),
      WEIR_DRAW(glDrawPixels),
      WEIR_DRAW(glDrawRangeElements),
      WEIR_DRAW(glDrawRangeElementsBaseVertex),
      WEIR_DRAW(glDrawTransformFeedback),
      WEIR_DRAW(glDrawTransformFeedbackInstanced),
      WEIR_DRAW(glEvalMesh1),
      WEIR_DRAW(glEvalMesh2),
      WEIR_DRAW(glMultiDrawArrays),
      WEIR_DRAW(glMultiDrawArraysIndirect),
      WEIR_DRAW(glMultiDrawElements),
      WEIR_DRAW(glMultiDrawElementsBaseVertex),
      WEIR_DRAW(glMultiDrawElementsIndirect),
      WEIR_DRAW(glRectd),
      WEIR_DRAW(glRectf),
      WEIR_DRAW(glRecti),
      WEIR_DRAW_AS("glDrawArraysEXT", glDrawArrays),
      WEIR_DRAW_AS("glDrawArraysInstancedARB", glDrawArraysInstanced),
      WEIR_DRAW_AS("glDrawArraysInstancedEXT", glDrawArraysInstanced),
      WEIR_DRAW_AS("glDrawElementsInstancedARB", glDrawElementsInstanced),
      WEIR_DRAW_AS("glDrawElementsInstancedEXT", glDrawElementsInstanced),
      WEIR_DRAW_AS("glDrawRangeElementsEXT", glDrawRangeElements),
      WEIR_DRAW_AS("glMultiDrawArraysEXT", glMultiDrawArrays),
  };
  return kHooks;
}

#undef WEIR_DRAW
#undef WEIR_DRAW_AS

}  // namespace weir::emulator::gl
