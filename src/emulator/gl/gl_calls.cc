// SPDX-License-Identifier: Apache-2.0
// Flush, finish, fences, timer queries and names. Mesa's functions are called as well, for the picture; the times that
// a program sees are the model's.
#define GL_GLEXT_PROTOTYPES 1
#include <GL/gl.h>
#include <GL/glext.h>

#include <limits>
#include <type_traits>

#include "emulator/gl/vendor.h"
#include "platform/clock.h"

namespace weir::emulator::gl {
namespace {

// The buffers bound for query results and for readbacks. While one is bound, the pointer of a call is an offset into
// it.
thread_local GLuint query_buffer = 0;
thread_local GLuint pack_buffer = 0;

/// With a measured cost, Mesa must have drawn everything before the cost is known.
void Compute() {
  if (TheDriver().measured() && TheDriver().Drawn()) Mesa<"glFinish", void (*)()>()();
}

const GLubyte* GetString(GLenum name) noexcept {
  const GLubyte* mesa = Mesa<"glGetString", decltype(&::glGetString)>()(name);
  const char* ours = name == GL_RENDERER ? TheDriver().renderer() : nullptr;
  return mesa != nullptr && ours != nullptr ? reinterpret_cast<const GLubyte*>(ours) : mesa;
}

/// Reports a reset once the emulated device is lost. Mesa's software contexts are never reset. The status is "unknown",
/// because it is not known which program caused the reset.
template <Name N>
GLenum ResetStatus() noexcept {
  const GLenum mesa = Mesa<N, GLenum (*)()>()();
  return TheDriver().lost() ? GL_UNKNOWN_CONTEXT_RESET : mesa;
}

void Flush() noexcept {
  Mesa<"glFlush", void (*)()>()();
  TheDriver().Flush();
}

void Finish() noexcept {
  if (!TheDriver().measured()) TheDriver().Flush();
  Mesa<"glFinish", void (*)()>()();
  TheDriver().Finish();
}

template <Name N>
void ReadPixels(GLint x, GLint y, GLsizei width, GLsizei height, GLenum format, GLenum type, void* pixels) noexcept {
  Mesa<N, decltype(&::glReadPixels)>()(x, y, width, height, format, type, pixels);
  if (pack_buffer == 0) TheDriver().Finish();
}

/// A function that returns when everything that was drawn before is complete.
template <Name N, typename F>
struct Readback;
template <Name N, typename R, typename... A>
struct Readback<N, R(A...)> {
  static R Call(A... arguments) noexcept {
    Compute();
    TheDriver().Finish();
    return Mesa<N, R (*)(A...)>()(arguments...);
  }
};

/// With a pack buffer bound, the picture goes there and nothing waits.
template <Name N>
void GetTexImage(GLenum target, GLint level, GLenum format, GLenum type, void* pixels) noexcept {
  Mesa<N, decltype(&::glGetTexImage)>()(target, level, format, type, pixels);
  if (pack_buffer == 0) TheDriver().Finish();
}

template <Name N>
void* MapBuffer(GLenum target, GLenum access) noexcept {
  if (access == GL_READ_ONLY) {  // many programs map with GL_READ_WRITE to write, which need not wait
    Compute();
    TheDriver().Finish();
  }
  return Mesa<N, decltype(&::glMapBuffer)>()(target, access);
}

template <Name N>
void* MapBufferRange(GLenum target, GLintptr offset, GLsizeiptr length, GLbitfield access) noexcept {
  constexpr GLbitfield kNoReadback = GL_MAP_WRITE_BIT | GL_MAP_UNSYNCHRONIZED_BIT | GL_MAP_PERSISTENT_BIT;
  if ((access & (GL_MAP_READ_BIT | kNoReadback)) == GL_MAP_READ_BIT) {
    Compute();
    TheDriver().Finish();
  }
  return Mesa<N, decltype(&::glMapBufferRange)>()(target, offset, length, access);
}

template <Name N>
void BindBuffer(GLenum target, GLuint buffer) noexcept {
  if (target == GL_QUERY_BUFFER) query_buffer = buffer;
  if (target == GL_PIXEL_PACK_BUFFER) pack_buffer = buffer;
  Mesa<N, decltype(&::glBindBuffer)>()(target, buffer);
}

// Fences

GLsync FenceSync(GLenum condition, GLbitfield flags) noexcept {
  Compute();
  GLsync fence = Mesa<"glFenceSync", decltype(&::glFenceSync)>()(condition, flags);
  TheDriver().Fence(fence);
  return fence;
}

void DeleteSync(GLsync fence) noexcept {
  TheDriver().ForgetFence(fence);
  Mesa<"glDeleteSync", decltype(&::glDeleteSync)>()(fence);
}

GLenum ClientWaitSync(GLsync fence, GLbitfield flags, GLuint64 timeout) noexcept {
  if ((flags & GL_SYNC_FLUSH_COMMANDS_BIT) != 0) TheDriver().Flush();
  const bool was_signaled = TheDriver().Signaled(fence);
  const std::int64_t from_ns = platform::NowNs();
  const GLenum mesa = Mesa<"glClientWaitSync", decltype(&::glClientWaitSync)>()(fence, flags, timeout);
  if (mesa != GL_ALREADY_SIGNALED && mesa != GL_CONDITION_SATISFIED) return mesa;
  if (was_signaled) return mesa;
  const auto passed = static_cast<GLuint64>(platform::NowNs() - from_ns);
  return TheDriver().WaitFence(fence, timeout > passed ? timeout - passed : 0) ? GL_CONDITION_SATISFIED
                                                                               : GL_TIMEOUT_EXPIRED;
}

void GetSynciv(GLsync fence, GLenum name, GLsizei count, GLsizei* length, GLint* values) noexcept {
  Mesa<"glGetSynciv", decltype(&::glGetSynciv)>()(fence, name, count, length, values);
  if (name == GL_SYNC_STATUS && count > 0 && values != nullptr && *values == GL_SIGNALED &&
      !TheDriver().Signaled(fence))
    *values = GL_UNSIGNALED;
}

// Timer queries. glWaitSync is not hooked: commands of a context run in order anyway.

template <Name N>
void BeginQuery(GLenum target, GLuint query) noexcept {
  if (target == GL_TIME_ELAPSED) {
    Compute();
    TheDriver().BeginElapsed({CurrentContext(), query});
  }
  Mesa<N, decltype(&::glBeginQuery)>()(target, query);
}

template <Name N>
void EndQuery(GLenum target) noexcept {
  if (target == GL_TIME_ELAPSED) {
    Compute();
    TheDriver().EndElapsed(CurrentContext());
  }
  Mesa<N, decltype(&::glEndQuery)>()(target);
}

template <Name N>
void QueryCounter(GLuint query, GLenum target) noexcept {
  if (target == GL_TIMESTAMP) {
    Compute();
    TheDriver().Counter({CurrentContext(), query});
  }
  Mesa<N, decltype(&::glQueryCounter)>()(query, target);
}

template <Name N>
void DeleteQueries(GLsizei count, const GLuint* queries) noexcept {
  for (GLsizei i = 0; queries != nullptr && i < count; ++i) TheDriver().ForgetQuery({CurrentContext(), queries[i]});
  Mesa<N, decltype(&::glDeleteQueries)>()(count, queries);
}

/// A result that T cannot hold becomes the largest value of T.
template <Name N, typename T>
void GetQueryObject(GLuint query, GLenum name, T* value) noexcept {
  Mesa<N, void (*)(GLuint, GLenum, T*)>()(query, name, value);
  if (value == nullptr || query_buffer != 0) return;
  const bool result = name == GL_QUERY_RESULT || name == GL_QUERY_RESULT_NO_WAIT;
  if (!result && name != GL_QUERY_RESULT_AVAILABLE) return;
  std::uint64_t ns = 0;
  const Driver::Answer answer = TheDriver().Result({CurrentContext(), query}, name == GL_QUERY_RESULT, ns);
  if (answer == Driver::Answer::kNotOurs) {
    // Another kind of query, for example a count of samples. Its result needs all earlier work, but a program that
    // shows its frames does not wait here, because in the middle of a frame that work may be complete.
    if (name == GL_QUERY_RESULT && !TheDriver().Swaps()) TheDriver().Finish();
    return;
  }
  if (result && answer == Driver::Answer::kKnown)
    *value = static_cast<T>(std::min<std::uint64_t>(ns, static_cast<std::uint64_t>(std::numeric_limits<T>::max())));
  else if (!result && answer == Driver::Answer::kPending)
    *value = GL_FALSE;
}

template <Name N>
void GetInteger64v(GLenum name, GLint64* value) noexcept {
  Mesa<N, void (*)(GLenum, GLint64*)>()(name, value);
  if (name == GL_TIMESTAMP && value != nullptr && TheDriver().active()) *value = platform::NowNs();
}

#define WEIR_HOOK(name, ours) MakeHook<name>(&ours)
#define WEIR_HOOK_AS(name, ours) MakeHook<name>(&ours<name>)
#define WEIR_HOOK_TYPE(name, ours, type) MakeHook<name>(&ours<name, type>)

}  // namespace

std::span<const Hook> GlHooks() {
  static const Hook kHooks[] = {
      WEIR_HOOK("glGetString", GetString),
      WEIR_HOOK_AS("glGetGraphicsResetStatus", ResetStatus),
      WEIR_HOOK_AS("glGetGraphicsResetStatusARB", ResetStatus),
      WEIR_HOOK_AS("glGetGraphicsResetStatusEXT", ResetStatus),
      WEIR_HOOK_AS("glGetGraphicsResetStatusKHR", ResetStatus),
      WEIR_HOOK("glFlush", Flush),
      WEIR_HOOK("glFinish", Finish),
      WEIR_HOOK_AS("glReadPixels", ReadPixels),
      WEIR_HOOK_AS("glGetTexImage", GetTexImage),
      MakeHook<"glGetBufferSubData">(&Readback<"glGetBufferSubData", decltype(::glGetBufferSubData)>::Call),
      MakeHook<"glGetNamedBufferSubData">(
          &Readback<"glGetNamedBufferSubData", decltype(::glGetNamedBufferSubData)>::Call),
      WEIR_HOOK_AS("glMapBuffer", MapBuffer),
      WEIR_HOOK_AS("glMapBufferARB", MapBuffer),
      WEIR_HOOK_AS("glMapBufferOES", MapBuffer),
      WEIR_HOOK_AS("glMapNamedBuffer", MapBuffer),
      WEIR_HOOK_AS("glMapBufferRange", MapBufferRange),
      WEIR_HOOK_AS("glMapBufferRangeEXT", MapBufferRange),
      WEIR_HOOK_AS("glMapNamedBufferRange", MapBufferRange),
      WEIR_HOOK_AS("glBindBuffer", BindBuffer),
      WEIR_HOOK_AS("glBindBufferARB", BindBuffer),
      WEIR_HOOK("glFenceSync", FenceSync),
      WEIR_HOOK("glDeleteSync", DeleteSync),
      WEIR_HOOK("glClientWaitSync", ClientWaitSync),
      WEIR_HOOK("glGetSynciv", GetSynciv),
      WEIR_HOOK_AS("glBeginQuery", BeginQuery),
      WEIR_HOOK_AS("glBeginQueryARB", BeginQuery),
      WEIR_HOOK_AS("glBeginQueryEXT", BeginQuery),
      WEIR_HOOK_AS("glEndQuery", EndQuery),
      WEIR_HOOK_AS("glEndQueryARB", EndQuery),
      WEIR_HOOK_AS("glEndQueryEXT", EndQuery),
      WEIR_HOOK_AS("glQueryCounter", QueryCounter),
      WEIR_HOOK_AS("glQueryCounterEXT", QueryCounter),
      WEIR_HOOK_AS("glDeleteQueries", DeleteQueries),
      WEIR_HOOK_AS("glDeleteQueriesARB", DeleteQueries),
      WEIR_HOOK_AS("glDeleteQueriesEXT", DeleteQueries),
      WEIR_HOOK_TYPE("glGetQueryObjectiv", GetQueryObject, GLint),
      WEIR_HOOK_TYPE("glGetQueryObjectivARB", GetQueryObject, GLint),
      WEIR_HOOK_TYPE("glGetQueryObjectivEXT", GetQueryObject, GLint),
      WEIR_HOOK_TYPE("glGetQueryObjectuiv", GetQueryObject, GLuint),
      WEIR_HOOK_TYPE("glGetQueryObjectuivARB", GetQueryObject, GLuint),
      WEIR_HOOK_TYPE("glGetQueryObjectuivEXT", GetQueryObject, GLuint),
      WEIR_HOOK_TYPE("glGetQueryObjecti64v", GetQueryObject, GLint64),
      WEIR_HOOK_TYPE("glGetQueryObjecti64vEXT", GetQueryObject, GLint64),
      WEIR_HOOK_TYPE("glGetQueryObjectui64v", GetQueryObject, GLuint64),
      WEIR_HOOK_TYPE("glGetQueryObjectui64vEXT", GetQueryObject, GLuint64),
      WEIR_HOOK_AS("glGetInteger64v", GetInteger64v),
      WEIR_HOOK_AS("glGetInteger64vEXT", GetInteger64v),
      WEIR_HOOK_AS("glGetInteger64vAPPLE", GetInteger64v),
  };
  return kHooks;
}

#undef WEIR_HOOK
#undef WEIR_HOOK_AS
#undef WEIR_HOOK_TYPE

}  // namespace weir::emulator::gl
