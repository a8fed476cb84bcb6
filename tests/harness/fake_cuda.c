/* SPDX-License-Identifier: Apache-2.0
 * A CUDA driver that does nothing, for measuring what Weir's library adds to a call. */
typedef void* handle;

int cuCtxGetCurrent(handle* context) {
  static int only;
  *context = &only;
  return 0;
}
/* One that Weir passes on by a jump. */
int cuCtxGetDevice(int* device) {
  *device = 0;
  return 0;
}
int cuDeviceGetName(char* name, int room, int device) {
  (void)device;
  if (room > 0) name[0] = '\0';
  return 0;
}
int cuEventCreate(handle* event, unsigned flags) {
  static int only;
  (void)flags;
  *event = &only;
  return 0;
}
int cuEventRecord(handle event, handle stream) {
  (void)event, (void)stream;
  return 0;
}
int cuEventQuery(handle event) {
  (void)event;
  return 0;
}
int cuEventElapsedTime(float* ms, handle from, handle to) {
  (void)from, (void)to;
  *ms = 0;
  return 0;
}
int cuLaunchKernel(handle kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared_bytes, handle stream, void** parameters, void** extra) {
  (void)kernel, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
  (void)shared_bytes, (void)stream, (void)parameters, (void)extra;
  return 0;
}
int cuStreamQuery(handle stream) {
  (void)stream;
  return 0;
}
