/* SPDX-License-Identifier: Apache-2.0
 * A CUDA program for tests: allocates device memory in blocks of one size, as its standard input says. Does not use
 * Weir's code, and no header of NVIDIA's. Each line of the input has one line of answer:
 *
 *   fill KIND       allocates blocks until one is refused; the number of blocks
 *   take KIND       allocates one block; the driver's error
 *   free            frees all blocks; 0
 *   info            free and total bytes by cuMemGetInfo, bytes by cuDeviceTotalMem
 *   new             makes a context and makes it current; 0
 *   destroy         destroys that context, with what it holds; 0
 *   attach, detach  one user of that context more or less; 0
 *   green           makes a green context and makes it current; 0
 *   end-green       destroys it and makes the primary context current; 0
 *   device N        makes a pool of device N that KIND pool uses; 0
 *   release, reset  releases or resets the device's primary context, and gets it again; 0
 *   fork            the child of a fork tries to allocate and ends; the child's error
 *
 *   cuda_memory MIB      MIB: size of a block
 *
 * KIND: plain, pitch, managed, array, array3d, mipmap (two levels, 1.25 blocks), physical, mapped (only the mapping
 * keeps the memory), retained (mapped, then named again by its address), async, async_ptsz, pool, pool_ptsz, graph (a
 * node of a graph that is launched), recorded (the same by a capture). Exits with 2 when a call fails whose error is no
 * answer. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void* handle;
typedef unsigned long long number;

struct array_size {
  size_t width, height;
  int format;
  unsigned channels;
};
struct array3d_size {
  size_t width, height, depth;
  int format;
  unsigned channels, flags;
};
/* CUmemAllocationProp and CUmemPoolProps begin with these four; the others are zero. */
struct properties {
  int type, handle_types, location_type, location;
  number others[16];
};
struct access {
  int location_type, location, flags;
};
/* CUDA_MEM_ALLOC_NODE_PARAMS. */
struct node {
  int type, handle_types, location_type, location;
  unsigned char others[72];
  const void* access;
  size_t access_count, bytes;
  number address;
};
struct resource { /* CUdevResource */
  int type;
  unsigned char others[512];
};

/* Each function: name, the versions of its name, parameters. */
#define FUNCTIONS(F)                                                                    \
  F(cuInit, "", (unsigned))                                                             \
  F(cuDevicePrimaryCtxRetain, "", (handle*, int))                                       \
  F(cuDevicePrimaryCtxRelease, "_v2", (int))                                            \
  F(cuDevicePrimaryCtxReset, "_v2", (int))                                              \
  F(cuCtxSetCurrent, "", (handle))                                                      \
  F(cuCtxCreate, "_v2", (handle*, unsigned, int))                                       \
  F(cuCtxDestroy, "_v2", (handle))                                                      \
  F(cuDeviceTotalMem, "_v2", (size_t*, int))                                            \
  F(cuMemGetInfo, "_v2", (size_t*, size_t*))                                            \
  F(cuMemAlloc, "_v2", (number*, size_t))                                               \
  F(cuMemAllocPitch, "_v2", (number*, size_t*, size_t, size_t, unsigned))               \
  F(cuMemAllocManaged, "", (number*, size_t, unsigned))                                 \
  F(cuMemFree, "_v2", (number))                                                         \
  F(cuArrayCreate, "_v2", (handle*, const struct array_size*))                          \
  F(cuArray3DCreate, "_v2", (handle*, const struct array3d_size*))                      \
  F(cuArrayDestroy, "", (handle))                                                       \
  F(cuMipmappedArrayCreate, "", (handle*, const struct array3d_size*, unsigned))        \
  F(cuMipmappedArrayDestroy, "", (handle))                                              \
  F(cuMemCreate, "", (number*, size_t, const struct properties*, number))               \
  F(cuMemRelease, "", (number))                                                         \
  F(cuMemAddressReserve, "", (number*, size_t, size_t, number, number))                 \
  F(cuMemAddressFree, "", (number, size_t))                                             \
  F(cuMemMap, "", (number, size_t, size_t, number, number))                             \
  F(cuMemUnmap, "", (number, size_t))                                                   \
  F(cuMemSetAccess, "", (number, size_t, const struct access*, size_t))                 \
  F(cuMemRetainAllocationHandle, "", (number*, void*))                                  \
  F(cuMemsetD8, "_v2", (number, unsigned char, size_t))                                 \
  F(cuMemcpyDtoH, "_v2", (void*, number, size_t))                                       \
  F(cuDeviceGetDefaultMemPool, "", (handle*, int))                                      \
  F(cuMemPoolCreate, "", (handle*, const struct properties*))                           \
  F(cuMemAllocAsync, "", (number*, size_t, handle))                                     \
  F(cuMemFreeAsync, "", (number, handle))                                               \
  F(cuMemAllocAsync_ptsz, "", (number*, size_t, handle))                                \
  F(cuMemFreeAsync_ptsz, "", (number, handle))                                          \
  F(cuMemAllocFromPoolAsync, "", (number*, size_t, handle, handle))                     \
  F(cuMemAllocFromPoolAsync_ptsz, "", (number*, size_t, handle, handle))                \
  F(cuCtxAttach, "", (handle*, unsigned))                                               \
  F(cuCtxDetach, "", (handle))                                                          \
  F(cuDeviceGetDevResource, "", (int, struct resource*, int))                           \
  F(cuDevResourceGenerateDesc, "", (handle*, struct resource*, unsigned))               \
  F(cuGreenCtxCreate, "", (handle*, handle, int, unsigned))                             \
  F(cuGreenCtxDestroy, "", (handle))                                                    \
  F(cuCtxFromGreenCtx, "", (handle*, handle))                                           \
  F(cuStreamCreate, "", (handle*, unsigned))                                            \
  F(cuStreamDestroy, "_v2", (handle))                                                   \
  F(cuStreamBeginCapture, "_v2", (handle, int))                                         \
  F(cuStreamEndCapture, "", (handle, handle*))                                          \
  F(cuGraphCreate, "", (handle*, unsigned))                                             \
  F(cuGraphDestroy, "", (handle))                                                       \
  F(cuGraphAddMemAllocNode, "", (handle*, handle, const handle*, size_t, struct node*)) \
  F(cuGraphInstantiateWithFlags, "", (handle*, handle, number))                         \
  F(cuGraphExecDestroy, "", (handle))                                                   \
  F(cuGraphLaunch, "", (handle, handle))                                                \
  F(cuDeviceGraphMemTrim, "", (int))

#define DECLARE(name, version, parameters) static int(*name) parameters;
FUNCTIONS(DECLARE)
#undef DECLARE

static void check(int error, const char* what) {
  if (error == 0) return;
  fprintf(stderr, "cuda_memory: %s: error %d\n", what, error);
  exit(2);
}
#define CHECK(function, ...) check(function(__VA_ARGS__), #function)

static void find_functions(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) {
    fprintf(stderr, "cuda_memory: %s\n", dlerror());
    exit(2);
  }
#define FIND(name, version, parameters) \
  if ((*(void**)& name = dlsym(driver, #name version)) == NULL) check(-1, #name);
  FUNCTIONS(FIND)
#undef FIND
}

static const struct properties on_device = {.type = 1, .location_type = 1};
static const struct access read_write = {.location_type = 1, .flags = 3};
static size_t bytes;
static handle pool;

struct block {
  const char* kind;
  number address, name;
  handle array, graph, executable;
};
static struct block blocks[65536];
static size_t count;

static int is(const char* a, const char* b) { return strcmp(a, b) == 0; }

/* Whether the end of the memory can be written and read. */
static void use(number address) {
  unsigned char last = 0;
  CHECK(cuMemsetD8, address + bytes - 16, 7, 16);
  CHECK(cuMemcpyDtoH, &last, address + bytes - 1, 1);
  check(last == 7 ? 0 : -1, "the memory keeps what was written");
}

static void map(struct block* block) {
  CHECK(cuMemAddressReserve, &block->address, bytes, 0, 0, 0);
  CHECK(cuMemMap, block->address, bytes, 0, block->name, 0);
  CHECK(cuMemSetAccess, block->address, bytes, &read_write, 1);
  CHECK(cuMemRelease, block->name);
  use(block->address);
}

/* The graph's node is not freed by the graph, so its memory stays when the launch is over. */
static int launch(struct block* block) {
  if (is(block->kind, "graph")) {
    struct node node = {.type = 1, .location_type = 1, .bytes = bytes};
    handle added = NULL;
    CHECK(cuGraphCreate, &block->graph, 0);
    CHECK(cuGraphAddMemAllocNode, &added, block->graph, NULL, 0, &node);
    block->address = node.address;
  } else {
    handle stream = NULL;
    CHECK(cuStreamCreate, &stream, 1);
    CHECK(cuStreamBeginCapture, stream, 2);
    CHECK(cuMemAllocAsync, &block->address, bytes, stream);
    CHECK(cuStreamEndCapture, stream, &block->graph);
    CHECK(cuStreamDestroy, stream);
  }
  CHECK(cuGraphInstantiateWithFlags, &block->executable, block->graph, 0);
  const int error = cuGraphLaunch(block->executable, NULL);
  if (error == 0) {
    use(block->address);
  } else {
    CHECK(cuGraphExecDestroy, block->executable);
    CHECK(cuGraphDestroy, block->graph);
  }
  return error;
}

static int take(const char* kind) {
  if (count == sizeof blocks / sizeof *blocks) return -1;
  struct block block = {.kind = kind};
  const size_t row = 64, texel = 16; /* four floats */
  const struct array_size size = {bytes / texel / row, row, 0x20, 4};
  const struct array3d_size size3d = {size.width, row / 4, 4, 0x20, 4, 0}, flat = {size.width, row, 0, 0x20, 4, 0};
  size_t pitch = 0;
  int error = -1;
  if (is(kind, "plain")) error = cuMemAlloc(&block.address, bytes);
  if (is(kind, "pitch")) error = cuMemAllocPitch(&block.address, &pitch, 1000, bytes / 1024, 4);
  if (is(kind, "managed")) error = cuMemAllocManaged(&block.address, bytes, 1);
  if (is(kind, "array")) error = cuArrayCreate(&block.array, &size);
  if (is(kind, "array3d")) error = cuArray3DCreate(&block.array, &size3d);
  if (is(kind, "mipmap")) error = cuMipmappedArrayCreate(&block.array, &flat, 2);
  if (is(kind, "async")) error = cuMemAllocAsync(&block.address, bytes, NULL);
  if (is(kind, "async_ptsz")) error = cuMemAllocAsync_ptsz(&block.address, bytes, NULL);
  if (is(kind, "pool")) error = cuMemAllocFromPoolAsync(&block.address, bytes, pool, NULL);
  if (is(kind, "pool_ptsz")) error = cuMemAllocFromPoolAsync_ptsz(&block.address, bytes, pool, NULL);
  if (is(kind, "physical") || is(kind, "mapped") || is(kind, "retained"))
    error = cuMemCreate(&block.name, bytes, &on_device, 0);
  if (is(kind, "graph") || is(kind, "recorded")) error = launch(&block);
  if (error != 0) return error;
  if (is(kind, "mapped") || is(kind, "retained")) map(&block);
  if (is(kind, "retained")) {
    CHECK(cuMemRetainAllocationHandle, &block.name, (void*)(size_t)block.address);
    CHECK(cuMemUnmap, block.address, bytes);
    CHECK(cuMemAddressFree, block.address, bytes);
  }
  blocks[count++] = block;
  return 0;
}

static void give_back(const struct block* block) {
  const char* kind = block->kind;
  if (is(kind, "mipmap")) {
    CHECK(cuMipmappedArrayDestroy, block->array);
  } else if (block->array != NULL) {
    CHECK(cuArrayDestroy, block->array);
  } else if (block->graph != NULL) {
    CHECK(cuMemFree, block->address);
    CHECK(cuGraphExecDestroy, block->executable);
    CHECK(cuGraphDestroy, block->graph);
    CHECK(cuDeviceGraphMemTrim, 0);
  } else if (is(kind, "physical") || is(kind, "retained")) {
    CHECK(cuMemRelease, block->name);
  } else if (is(kind, "mapped")) {
    CHECK(cuMemUnmap, block->address, bytes);
    CHECK(cuMemAddressFree, block->address, bytes);
  } else if (is(kind, "async") || is(kind, "pool")) {
    CHECK(cuMemFreeAsync, block->address, NULL);
  } else if (is(kind, "async_ptsz")) {
    CHECK(cuMemFreeAsync_ptsz, block->address, NULL);
  } else { /* also pool_ptsz */
    CHECK(cuMemFree, block->address);
  }
}

static const char* kept(const char* kind) {
  char* copy = malloc(strlen(kind) + 1);
  if (copy == NULL) exit(2);
  return strcpy(copy, kind);
}

/* What contexts held has ended. Memory of pools lasts. */
static void forget_all_but_pools(void) {
  size_t left = 0;
  for (size_t i = 0; i < count; ++i)
    if (strncmp(blocks[i].kind, "async", 5) == 0 || strncmp(blocks[i].kind, "pool", 4) == 0) blocks[left++] = blocks[i];
  count = left;
}

static handle primary, context, green;

/* Lines about contexts. Returns 0 if the line is none of them. */
static int answer_context(const char* what) {
  if (is(what, "new")) {
    CHECK(cuCtxCreate, &context, 0, 0);
  } else if (is(what, "destroy")) {
    CHECK(cuCtxDestroy, context);
    CHECK(cuCtxSetCurrent, primary);
    forget_all_but_pools();
  } else if (is(what, "attach")) {
    CHECK(cuCtxAttach, &context, 0);
  } else if (is(what, "detach")) {
    CHECK(cuCtxDetach, context);
  } else if (is(what, "release")) {
    CHECK(cuDevicePrimaryCtxRelease, 0);
    CHECK(cuDevicePrimaryCtxRetain, &primary, 0);
    CHECK(cuCtxSetCurrent, primary);
    forget_all_but_pools();
  } else if (is(what, "reset")) {
    CHECK(cuDevicePrimaryCtxReset, 0);
    CHECK(cuCtxSetCurrent, primary);
    forget_all_but_pools();
  } else if (is(what, "green")) {
    struct resource all = {0};
    handle description = NULL, current = NULL;
    CHECK(cuDeviceGetDevResource, 0, &all, 1);
    CHECK(cuDevResourceGenerateDesc, &description, &all, 1);
    CHECK(cuGreenCtxCreate, &green, description, 0, 1);
    CHECK(cuCtxFromGreenCtx, &current, green);
    CHECK(cuCtxSetCurrent, current);
  } else if (is(what, "end-green")) {
    CHECK(cuCtxSetCurrent, primary);
    CHECK(cuGreenCtxDestroy, green);
  } else {
    return 0;
  }
  printf("0\n");
  return 1;
}

int main(int argc, char** argv) {
  char line[128], what[64], kind[64];
  if (argc != 2) return 2;
  bytes = strtoul(argv[1], NULL, 10) << 20;
  find_functions();
  CHECK(cuInit, 0);
  CHECK(cuDevicePrimaryCtxRetain, &primary, 0);
  CHECK(cuCtxSetCurrent, primary);
  CHECK(cuMemPoolCreate, &pool, &on_device);
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin) != NULL) {
    const int words = sscanf(line, "%63s %63s", what, kind);
    int error = 0;
    if (is(what, "fill") && words == 2) {
      const size_t before = count;
      const char* name = kept(kind);
      while ((error = take(name)) == 0) {
      }
      check(error == 2 ? 0 : error, "the refused allocation");
      printf("%zu\n", count - before);
    } else if (is(what, "take") && words == 2) {
      printf("%d\n", take(kept(kind)));
    } else if (is(what, "free")) {
      while (count > 0) give_back(&blocks[--count]);
      printf("0\n");
    } else if (is(what, "info")) {
      size_t available = 0, total = 0, card = 0;
      CHECK(cuMemGetInfo, &available, &total);
      CHECK(cuDeviceTotalMem, &card, 0);
      printf("%zu %zu %zu\n", available, total, card);
    } else if (is(what, "device") && words == 2) {
      struct properties there = on_device;
      there.location = atoi(kind);
      CHECK(cuMemPoolCreate, &pool, &there);
      printf("0\n");
    } else if (is(what, "fork")) {
      int status = 0;
      const pid_t child = fork();
      if (child == 0) _exit(take("plain"));
      check(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? 0 : -1, "fork");
      printf("%d\n", WEXITSTATUS(status));
    } else if (!answer_context(what)) {
      fprintf(stderr, "cuda_memory: unknown line: %s", line);
      return 2;
    }
  }
  return 0;
}
