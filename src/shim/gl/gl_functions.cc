// SPDX-License-Identifier: Apache-2.0
#include "shim/gl/gl_functions.h"

#include <dlfcn.h>

#include <cstring>

namespace weir::shim {
namespace {

constexpr GlFunctions::GlEnum kGlRenderer = 0x1F01;

void* FromLibraries(const char* name) {
  static constexpr const char* kLibraries[] = {"libGL.so.1", "libOpenGL.so.0", "libGLESv2.so.2"};
  for (const char* library : kLibraries) {
    void* handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    void* found = ::dlsym(handle, name);
    ::dlclose(handle);  // only our reference: the program keeps the library
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

std::string GlFunctions::Renderer() const {
  const unsigned char* text = get_string != nullptr ? get_string(kGlRenderer) : nullptr;
  return text != nullptr ? reinterpret_cast<const char*>(text) : "";
}

GlFunctions LookUpGl(weir_gl_get_proc get_proc) {
  GlFunctions gl;
  Find(gl.get_string, get_proc, "glGetString");
  Find(gl.finish, get_proc, "glFinish");
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

bool IsSoftwareRenderer(const std::string& renderer) {
  for (const char* name : {"llvmpipe", "softpipe", "SwiftShader"})
    if (renderer.find(name) != std::string::npos) return true;
  return false;
}

}  // namespace weir::shim
