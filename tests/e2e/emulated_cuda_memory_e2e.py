#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of the emulated CUDA driver, without Weir: what each kind of allocation takes, and what CUDA refuses."""
import os
import subprocess

import weir_e2e as e2e
from emulated_cuda_e2e import MEMORY_MIB, WithEmulator

MEMORY = os.path.join(e2e.BUILD, "bin/cuda_memory")
# Each kind of allocation of cuda_memory, and how many blocks one of it takes.
KINDS = {"plain": 1, "pitch": 1, "managed": 1, "array": 1, "array3d": 1, "mipmap": 1.25, "physical": 1, "mapped": 1,
         "retained": 1, "async": 1, "async_ptsz": 1, "pool": 1, "pool_ptsz": 1, "graph": 1, "recorded": 1}

# The parameters of a graph's node that allocates, for run_program.
NODE = '''
class Node(ctypes.Structure):
    _fields_ = [(name, c_int) for name in "type types where device".split()] + [("more", ctypes.c_ubyte * 72), ("access", c_void_p),
                ("count", c_size_t), ("bytes", c_size_t), ("address", c_ulonglong)]
'''


class Memory(WithEmulator):
    def test_a_device_that_is_full_refuses_memory(self):
        items = (MEMORY_MIB << 20) // 4
        done = self.run_loop(0, "tick", 1, "plain", items + 1, expected=2)
        self.assertIn("cuMemAlloc: error 2 (CUDA_ERROR_OUT_OF_MEMORY)", done.stderr)
        self.run_loop(0, "tick", 1, "plain", items)
        said = self.run_program("""
free, total, more = c_size_t(), c_size_t(), c_ulonglong()
right(cuda.cuMemGetInfo_v2(byref(free), byref(total)))
print(total.value, total.value - free.value, cuda.cuMemAlloc_v2(byref(more), free),
      cuda.cuMemAlloc_v2(byref(more), c_size_t(1)), cuda.cuMemcpyDtoD_v2(more, buffer, c_size_t(total.value)))
""")
        self.assertEqual(said.split(), [str(MEMORY_MIB << 20), "4096", "0", "2", "1"])
        self.assertEqual(self.emulator.truth()["memory_used_bytes"], 0)

    def memory(self, *lines):
        """The answers of cuda_memory, with blocks of 4 MiB."""
        done = subprocess.run([MEMORY, "4"], env=self.emulator.environment(), capture_output=True, text=True,
                              input="".join(line + "\n" for line in lines), timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.splitlines()

    def test_each_kind_of_allocation_takes_room_and_gives_it_back(self):
        blocks = MEMORY_MIB // 4
        for kind, size in KINDS.items():
            with self.subTest(kind):
                most = int(blocks / size)
                left = MEMORY_MIB - int(most * size * 4)
                said = self.memory(f"fill {kind}", "info", "free", f"fill {kind}", "free", "fill plain")
                self.assertEqual(said, [str(most), f"{left << 20} {MEMORY_MIB << 20} {MEMORY_MIB << 20}", "0", str(most), "0",
                                        str(blocks)])
                self.assertEqual(self.emulator.truth()["memory_used_bytes"], 0)

    def test_memory_that_ends_with_its_context(self):
        blocks = str(MEMORY_MIB // 4)
        for kind in KINDS:
            if kind in ("mipmap", "retained"):
                continue
            with self.subTest(kind):
                ends = kind in ("plain", "pitch", "managed", "array", "array3d")
                after = blocks if ends else "0"
                self.assertEqual(self.memory("new", f"fill {kind}", "destroy", "fill plain"), ["0", blocks, "0", after])
                self.assertEqual(self.memory(f"fill {kind}", "release", "fill plain"), [blocks, "0", after])
                after = blocks if ends or kind in ("graph", "recorded") else "0"
                self.assertEqual(self.memory(f"fill {kind}", "reset", "fill plain"), [blocks, "0", after])

    def test_virtual_memory_is_refused_what_cuda_refuses(self):
        said = self.run_program("""
class Properties(ctypes.Structure): _fields_ = [(name, c_int) for name in "type types where device".split()] + [("more", c_int * 32)]
class Access(ctypes.Structure): _fields_ = [(name, c_int) for name in "where device flags".split()]
MIB = 1 << 20
size, address, handle, other = c_size_t(2 * MIB), c_ulonglong(), c_ulonglong(), c_ulonglong()
zero, here = c_ulonglong(0), Properties(1, 0, 1, 0)
granularity = c_size_t()
right(cuda.cuMemGetAllocationGranularity(byref(granularity), byref(here), 0))
create = lambda size, properties: cuda.cuMemCreate(byref(handle), c_size_t(size), byref(properties), zero)
print(granularity.value, create(MIB, here), create(2 * MIB, Properties(1, 0, 2, 0)), create(2 * MIB, Properties(1, 0, 1, 2)))
right(create(2 * MIB, here))
right(cuda.cuMemAddressReserve(byref(address), c_size_t(4 * MIB), c_size_t(0), zero, zero))
map_at = lambda offset: cuda.cuMemMap(c_ulonglong(address.value + offset), size, c_size_t(0), handle, zero)
unmap = lambda offset: cuda.cuMemUnmap(c_ulonglong(address.value + offset), size)
write = lambda: cuda.cuMemsetD8_v2(address, 1, size)
print(unmap(0), map_at(4 * MIB), map_at(0), map_at(0), map_at(2 * MIB), write())
allow = Access(1, 0, 3)
right(cuda.cuMemSetAccess(address, size, byref(allow), c_size_t(1)))
print(write(), cuda.cuMemsetD8_v2(address, 1, c_size_t(4 * MIB)), cuda.cuMemFree_v2(address))
right(cuda.cuMemRelease(handle))
print(cuda.cuMemRelease(handle), map_at(0), cuda.cuMemAddressFree(address, c_size_t(4 * MIB)))
right(cuda.cuMemRetainAllocationHandle(byref(other), c_void_p(address.value + 5)))
print(other.value == handle.value, unmap(0), unmap(2 * MIB), cuda.cuMemRelease(other))
print(cuda.cuMemRetainAllocationHandle(byref(other), c_void_p(address.value)), cuda.cuMemAddressFree(address, c_size_t(4 * MIB)))
""")
        self.assertEqual(said.splitlines(), [f"{2 << 20} 1 801 101", "1 1 0 1 0 1", "0 1 1", "1 1 1", "True 0 0 0", "1 0"])
        self.assertEqual(self.emulator.truth()["memory_used_bytes"], 0)

    def test_pools_and_other_memory_are_refused_what_cuda_refuses(self):
        said = self.run_program("""
class Properties(ctypes.Structure): _fields_ = [(name, c_int) for name in "type types where device".split()] + [("more", c_int * 32)]
class Extent(ctypes.Structure): _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", c_uint)]
pointer, pitch, size, array = c_ulonglong(), c_size_t(), c_size_t(4096), c_void_p()
default, pool, there = made(cuda.cuDeviceGetDefaultMemPool, 0), made(cuda.cuMemPoolCreate, byref(Properties(1, 0, 1, 0))), c_void_p()
right(cuda.cuMemPoolCreate(byref(there), byref(Properties(1, 0, 1, 1))))
take = lambda pool: cuda.cuMemAllocFromPoolAsync(byref(pointer), size, pool, None)
print(made(cuda.cuDeviceGetDefaultMemPool, 0).value == default.value, take(default), take(pool), take(there), take(c_void_p(5)))
print(cuda.cuMemPoolDestroy(default), cuda.cuMemPoolDestroy(pool), take(pool), cuda.cuMemFreeAsync(pointer, None),
      cuda.cuMemFreeAsync(pointer, None), cuda.cuMemAllocAsync(byref(pointer), c_size_t(0), None))
print(cuda.cuMemAllocManaged(byref(pointer), size, 3), cuda.cuMemAllocPitch_v2(byref(pointer), byref(pitch), c_size_t(9), c_size_t(9), 3))
right(cuda.cuMemAllocPitch_v2(byref(pointer), byref(pitch), c_size_t(513), c_size_t(2), 4))
print(pitch.value, cuda.cuMemsetD8_v2(pointer, 1, c_size_t(2048)), cuda.cuMemsetD8_v2(pointer, 1, c_size_t(2049)))
create = lambda *extent: cuda.cuArrayCreate_v2(byref(array), byref(Extent(*extent)))
print(create(0, 1, 32, 1), create(8, 8, 99, 1), create(8, 8, 32, 1), cuda.cuMemFree_v2(c_ulonglong(array.value)),
      cuda.cuMemsetD8_v2(c_ulonglong(array.value), 1, c_size_t(1)), cuda.cuArrayDestroy(array), cuda.cuArrayDestroy(array))
stream = made(cuda.cuStreamCreate, 1)
right(cuda.cuStreamBeginCapture_v2(stream, 0))
print(cuda.cuMemAllocAsync(byref(pointer), size, stream))
""")
        self.assertEqual(said.splitlines(), ["True 0 0 0 1", "1 0 1 0 1 1", "1 1", "1024 0 1", "1 1 0 1 1 0 1", "0"])

    def test_graphs_keep_memory_until_it_is_trimmed(self):
        said = self.run_program(NODE + """MIB = 1 << 20
def reserved(attribute=2):
    value = c_ulonglong()
    right(cuda.cuDeviceGetGraphMemAttribute(0, attribute, byref(value)))
    return value.value // MIB
def graph(*sizes, free=True):
    graph, node, at = made(cuda.cuGraphCreate, 0), c_void_p(), []
    for mib in sizes:
        new = Node(1, 0, 1, 0, bytes=mib * MIB)
        right(cuda.cuGraphAddMemAllocNode(byref(node), graph, None, c_size_t(0), byref(new)))
        at.append(new.address)
        if free: right(cuda.cuGraphAddMemFreeNode(byref(node), graph, None, c_size_t(0), c_ulonglong(new.address)))
    return made(cuda.cuGraphInstantiateWithFlags, graph, c_ulonglong(0)), at
run = lambda one, stream=None: cuda.cuGraphLaunch(one[0], stream)
streams = [made(cuda.cuStreamCreate, 1) for _ in range(2)]
one, two, held = graph(8), graph(8, 6), graph(8, free=False)
print(reserved(), two[1][0] == two[1][1], one[1] == two[1])
print(run(one, streams[0]), reserved(), run(one, streams[0]), run(two, streams[0]), reserved())
for stream in streams: right(launch("long_tick", stream))
print(run(one, streams[0]), run(two, streams[1]), reserved())  # both under way
right(cuda.cuDeviceGraphMemTrim(0))
print(reserved(), cuda.cuCtxSynchronize(), cuda.cuDeviceGraphMemTrim(0), reserved(), reserved(3))
print(run(held), run(held), reserved(), cuda.cuDeviceGraphMemTrim(0), reserved(), cuda.cuMemsetD8_v2(c_ulonglong(held[1][0]), 1, c_size_t(8 * MIB)))
print(cuda.cuMemFree_v2(c_ulonglong(held[1][0])), run(held), cuda.cuMemFreeAsync(c_ulonglong(held[1][0]), None), reserved())
right(cuda.cuCtxSynchronize())
print(cuda.cuDeviceGraphMemTrim(0), reserved(), run(held), run(graph(60)), reserved(), run(graph(54)), reserved())
""")
        self.assertEqual(said.splitlines(), ["0 True False", "0 8 0 0 8", "0 0 16", "16 0 0 0 16", "0 1 8 0 8 0", "0 0 0 8",
                                             "0 0 0 2 8 0 62"])
        self.assertEqual(self.emulator.truth()["memory_used_bytes"], 0)

    def test_memory_of_a_graph_where_those_of_other_graphs_were(self):
        said = self.run_program(NODE + """def graph(count, size):
    graph, node, at = made(cuda.cuGraphCreate, 0), c_void_p(), []
    for _ in range(count):
        new = Node(1, 0, 1, 0, bytes=size)
        right(cuda.cuGraphAddMemAllocNode(byref(node), graph, None, c_size_t(0), byref(new)))
        at.append(new.address)
    return graph, at
small, ended = graph(1000, 4000)
right(cuda.cuGraphDestroy(small))
large, [at] = graph(1, 100_000)
executable = made(cuda.cuGraphInstantiateWithFlags, large, c_ulonglong(0))
right(cuda.cuGraphLaunch(executable, None))
again = [one for one in ended if at < one < at + 100_000]
print(len(again) > 0, {cuda.cuMemsetD8_v2(c_ulonglong(one), 1, c_size_t(at + 100_000 - one)) for one in again})
""")
        self.assertEqual(said, "True {0}\n")

    def test_pools_of_another_device_and_of_the_host(self):
        said = self.run_program("""
class Properties(ctypes.Structure): _fields_ = [(name, c_int) for name in "type types where device".split()] + [("more", c_int * 32)]
pointer, size, free, total, where = c_ulonglong(), c_size_t(8 << 20), c_size_t(), c_size_t(), c_int()
def used():
    right(cuda.cuMemGetInfo_v2(byref(free), byref(total)))
    return (total.value - free.value) >> 20
def take(function, *more):
    right(function(byref(pointer), size, *more, None), "an allocation")
    right(cuda.cuPointerGetAttribute(byref(where), 9, pointer), "cuPointerGetAttribute")
    return where.value
there, host = made(cuda.cuMemPoolCreate, byref(Properties(1, 0, 1, 1))), made(cuda.cuMemPoolCreate, byref(Properties(1, 0, 2, 0)))
here, default = made(cuda.cuMemPoolCreate, byref(Properties(1, 0, 1, 0))), made(cuda.cuDeviceGetDefaultMemPool, 0)
print(take(cuda.cuMemAllocFromPoolAsync, there), take(cuda.cuMemAllocFromPoolAsync, host), used())
print(cuda.cuDeviceSetMemPool(0, there), cuda.cuDeviceSetMemPool(0, here), made(cuda.cuDeviceGetMemPool, 0).value == here.value)
print(take(cuda.cuMemAllocAsync), used(), cuda.cuMemPoolDestroy(here),
      made(cuda.cuDeviceGetMemPool, 0).value == default.value)
right(cuda.cuDevicePrimaryCtxRetain(byref(c_void_p()), 1))
right(cuda.cuDevicePrimaryCtxReset_v2(1))
print(used())
""")
        self.assertEqual(said.splitlines(), ["1 -1 0", "1 0 True", "0 8 0 True", "8"])

    def test_contexts_end_with_their_last_user(self):
        blocks = str(MEMORY_MIB // 4)
        said = self.memory("new", "fill plain", "attach", "detach", "fill plain", "detach", "fill plain")
        self.assertEqual(said, ["0", blocks, "0", "0", "0", "0", blocks])
        # What a green context allocates is the primary context's.
        said = self.memory("green", "fill plain", "end-green", "fill plain", "free", "green", "release", "fill plain")
        self.assertEqual(said, ["0", blocks, "0", "0", "0", "0", "0", blocks])


if __name__ == "__main__":
    e2e.main()
