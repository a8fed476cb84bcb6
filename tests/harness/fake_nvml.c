// SPDX-License-Identifier: Apache-2.0
// Replaces libnvidia-ml on machines without a GPU: one GPU whose memory is given by the file $FAKE_NVML as "TOTAL USED"
// in bytes. "lost": the GPU has fallen off the bus. No file: the driver is not loaded.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSuccess = 0, kInvalidArgument = 2, kNotFound = 6, kDriverNotLoaded = 9, kGpuIsLost = 15 };
struct memory {
  unsigned long long total, free, used;
};
static int gpu;  // target of all handles

static FILE* Open(void) {
  const char* path = getenv("FAKE_NVML");
  return path == NULL ? NULL : fopen(path, "re");
}

int nvmlInit_v2(void) {
  FILE* file = Open();
  if (file == NULL) return kDriverNotLoaded;
  fclose(file);
  return kSuccess;
}
int nvmlShutdown(void) { return kSuccess; }

const char* nvmlErrorString(int code) {
  switch (code) {
    case kSuccess: return "Success";
    case kInvalidArgument: return "Invalid Argument";
    case kNotFound: return "Not Found";
    case kDriverNotLoaded: return "Driver Not Loaded";
    case kGpuIsLost: return "GPU is lost";
    default: return NULL;
  }
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index != 0) return kInvalidArgument;
  *device = &gpu;
  return kSuccess;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (strcmp(uuid, "GPU-0f0f0f0f-1111-2222-3333-444444444444") != 0) return kNotFound;
  *device = &gpu;
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  if (strcmp(address, "00000000:65:00.0") != 0) return kNotFound;
  *device = &gpu;
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(void* device, struct memory* memory) {
  if (device != &gpu) return kInvalidArgument;
  FILE* file = Open();
  if (file == NULL) return kGpuIsLost;
  const int read = fscanf(file, "%llu %llu", &memory->total, &memory->used);
  fclose(file);
  if (read != 2) return kGpuIsLost;
  memory->free = memory->total - memory->used;
  return kSuccess;
}
