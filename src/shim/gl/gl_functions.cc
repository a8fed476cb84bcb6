// SPDX-License-Identifier: Apache-2.0
#include "shim/gl/gl_functions.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

namespace weir::shim {
namespace {

constexpr GlFunctions::GlEnum kGlRenderer = 0x1F01;
constexpr GlFunctions::GlEnum kGlVersion = 0x1F02;
constexpr GlFunctions::GlEnum kGlExtensions = 0x1F03;

const char* Text(const GlFunctions& gl, GlFunctions::GlEnum what) {
  const unsigned char* text = gl.get_string != nullptr ? gl.get_string(what) : nullptr;
  return text != nullptr ? reinterpret_cast<const char*>(text) : "";
}

/// GetProcAddress also returns functions that the context lacks. Extensions are queried only where GL_EXTENSIONS is
/// valid: in GLES, and in desktop GL before 3.0.
bool TimestampsAreThere(const GlFunctions& gl) {
  const GlVersion version = ParseGlVersion(Text(gl, kGlVersion));
  if (version.major == 0) return true;  // no usable context
  if (!version.es && version.AtLeast(3, 0)) return version.AtLeast(3, 3);
  return std::strstr(Text(gl, kGlExtensions), version.es ? "GL_EXT_disjoint_timer_query" : "GL_ARB_timer_query") !=
         nullptr;
}

void* FromLibraries(const char* name) {
  static constexpr const char* kLibraries[] = {"libGL.so.1", "libOpenGL.so.0", "libGLESv2.so.2"};
  for (const char* library : kLibraries) {
    void* handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    void* found = ::dlsym(handle, name);
    ::dlclose(handle);  // releases only this reference; the program keeps the library
    if (found != nullptr) return found;
  }
  return nullptr;
}

template <typename F>
void Find(F& function, weir_gl_get_proc get_proc, const char* name) {
  if (function != nullptr) return;
  void* found = get_proc != nullptr ? reinterpret_cast<void*>(get_proc(name)) : nullptr;
  if (found == nullptr) found = FromLibraries(name);
  std::memcpy(&function, &found, sizeof function);
}

}  // namespace

std::string GlFunctions::Renderer() const { return Text(*this, kGlRenderer); }

bool GlFunctions::HasFences() const {
  if (fence_sync == nullptr || is_sync == nullptr || client_wait_sync == nullptr || delete_sync == nullptr)
    return false;
  // Called once a frame, so the last answer of this thread is cached. Another context may have its version's text at
  // the address of a destroyed context's text, so the texts are compared. A text that does not fit is parsed each time.
  struct Known {
    char text[128];
    bool fences;
  };
  static thread_local Known known{};
  const char* text = Text(*this, kGlVersion);
  if (std::strncmp(text, known.text, sizeof known.text) == 0 && known.text[0] != 0) return known.fences;
  const GlVersion version = ParseGlVersion(text);
  const bool fences = version.es ? version.AtLeast(3, 0) : version.AtLeast(3, 2);
  if (const std::size_t length = std::strlen(text); length < sizeof known.text) {
    std::memcpy(known.text, text, length + 1);
    known.fences = fences;
  }
  return fences;
}

GlFunctions::GlSync GlFunctions::InsertFence() const {
  constexpr GlEnum kGlSyncGpuCommandsComplete = 0x9117;
  return fence_sync(kGlSyncGpuCommandsComplete, 0);
}

bool GlFunctions::AwaitFence(GlSync fence) const {
  constexpr unsigned kGlSyncFlushCommandsBit = 1;
  constexpr std::uint64_t kFenceWaitNs = 100'000'000;
  constexpr GlEnum kGlAlreadySignaled = 0x911A;
  constexpr GlEnum kGlConditionSatisfied = 0x911C;
  if (fence == nullptr || is_sync(fence) == 0) return false;
  const GlEnum status = client_wait_sync(fence, kGlSyncFlushCommandsBit, kFenceWaitNs);
  delete_sync(fence);
  return status == kGlAlreadySignaled || status == kGlConditionSatisfied;
}

GlVersion ParseGlVersion(const char* text) {
  // "4.5 (Compatibility Profile) Mesa 22.3.6", "OpenGL ES 3.2 Mesa 22.3.6", "OpenGL ES-CM 1.1 …"
  GlVersion version;
  static constexpr char kEs[] = "OpenGL ES";
  version.es = std::strncmp(text, kEs, sizeof kEs - 1) == 0;
  const char* number = std::strpbrk(text, "0123456789");
  if (number == nullptr || std::sscanf(number, "%3d.%3d", &version.major, &version.minor) != 2) return {};
  return version;
}

GlFunctions LookUpGl(weir_gl_get_proc get_proc) {
  GlFunctions gl;
  Find(gl.get_string, get_proc, "glGetString");
  Find(gl.finish, get_proc, "glFinish");
  Find(gl.flush, get_proc, "glFlush");
  Find(gl.fence_sync, get_proc, "glFenceSync");
  Find(gl.is_sync, get_proc, "glIsSync");
  Find(gl.client_wait_sync, get_proc, "glClientWaitSync");
  Find(gl.delete_sync, get_proc, "glDeleteSync");
  if (!TimestampsAreThere(gl)) return gl;
  Find(gl.gen_queries, get_proc, "glGenQueries");
  Find(gl.gen_queries, get_proc, "glGenQueriesEXT");
  Find(gl.query_counter, get_proc, "glQueryCounter");
  Find(gl.query_counter, get_proc, "glQueryCounterEXT");
  Find(gl.get_query_iv, get_proc, "glGetQueryObjectiv");
  Find(gl.get_query_iv, get_proc, "glGetQueryObjectivEXT");
  Find(gl.get_query_ui64, get_proc, "glGetQueryObjectui64v");
  Find(gl.get_query_ui64, get_proc, "glGetQueryObjectui64vEXT");
  return gl;
}

bool IsEmulatedRenderer(const std::string& renderer) { return renderer.ends_with("(emulated)"); }

}  // namespace weir::shim
