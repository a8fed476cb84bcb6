/* SPDX-License-Identifier: Apache-2.0
 * A library like ANGLE (Chromium, Electron): EGL names of its own, and one that only ANGLE has. It presents through the
 * driver's EGL later, where it is caught. */
#define EXPORT __attribute__((visibility("default")))

EXPORT unsigned eglSwapBuffers(void* display, void* surface) {
  (void)display;
  (void)surface;
  return 77;
}
EXPORT void (*eglGetProcAddress(const char* name))(void) {
  (void)name;
  return 0;
}
EXPORT int ANGLEGetDisplayPlatform(void) { return 1; }
