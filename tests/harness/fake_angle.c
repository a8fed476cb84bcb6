/* SPDX-License-Identifier: Apache-2.0
 * A library like ANGLE (Chromium, Electron): EGL and GL names of its own, and one that only ANGLE has. It presents
 * through the driver's EGL later, where it is caught. */
#define EXPORT __attribute__((visibility("default")))

EXPORT unsigned eglSwapBuffers(void* display, void* surface) {
  (void)display;
  (void)surface;
  return 77;
}
EXPORT unsigned eglMakeCurrent(void* display, void* draw, void* read, void* context) {
  (void)display, (void)draw, (void)read, (void)context;
  return 78;
}
EXPORT void glFlush(void) {}
EXPORT void (*eglGetProcAddress(const char* name))(void) {
  (void)name;
  return 0;
}
EXPORT int ANGLEGetDisplayPlatform(void) { return 1; }
