#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The emulated CUDA driver under programs that use the driver API, without Weir.

Every assertion is one that a busy host cannot violate: nothing is complete before the model's time, and
ground truth is what the device description says, to the nanosecond.
"""
import os
import re
import signal
import subprocess
import sys
import unittest

import emulated_opencl_e2e
import weir_e2e as e2e

DRIVERS = os.path.join(e2e.BUILD, "lib/weir/emulated/cuda")
LOOP = os.path.join(e2e.BUILD, "bin/cuda_loop")
MEMORY = os.path.join(e2e.BUILD, "bin/cuda_memory")
# Each kind of allocation of cuda_memory, and how many blocks one of it takes.
KINDS = {"plain": 1, "pitch": 1, "managed": 1, "array": 1, "array3d": 1, "mipmap": 1.25, "physical": 1, "mapped": 1,
         "retained": 1, "async": 1, "async_ptsz": 1, "pool": 1, "pool_ptsz": 1, "graph": 1, "recorded": 1}
IMAGE = os.path.join(e2e.BUILD, "lib/test/cuda_image.so")
SYMBOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../symbols/emulated_cuda.txt")
MODES = ("plain", "graph", "streams", "ptsz", "getproc")
MEMORY_MIB = 64
TICK_MS, TICKS = 1, 50
COSTS = "".join(f'[[kernel]]\nname = "{name}"\nfixed = "{cost}"\n'
                for name, cost in (("short_tick", "10 us"), ("tick", f"{TICK_MS} ms"), ("long_tick", "100 ms")))


def cards(arbitration):
    return (f'[[device]]\nname = "One"\nmemory = "{MEMORY_MIB} MiB"\narbitration = "{arbitration}"\nslice = "2 ms"\n'
            'link = { in = "1 GB/s", out = "2 GB/s", latency = "10 us" }\nunits = 16\n'
            f'[[device]]\nname = "Two"\nmemory = "1 GiB"\narbitration = "{arbitration}"\nslice = "2 ms"\n') + COSTS


# Before each small program: the API, and a context with a buffer of 1024 numbers.
PROGRAM = """
import ctypes, os, sys
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p, create_string_buffer
cuda = ctypes.CDLL("libcuda.so.1")
def right(error, what=""):
    if error != 0: sys.exit(f"{what}: error {error}")
def made(function, *more):
    handle = c_void_p()
    right(function(byref(handle), *more), function.__name__)
    return handle
right(cuda.cuInit(0), "cuInit")
context = made(cuda.cuCtxCreate_v2, 0, 0)
module = made(cuda.cuModuleLoad, os.environ["CUDA_LOOP_IMAGE"].encode())
kernels = {name: made(cuda.cuModuleGetFunction, module, name.encode()) for name in ("short_tick", "tick", "long_tick")}
count = 1024
buffer = c_ulonglong()
right(cuda.cuMemAlloc_v2(byref(buffer), c_size_t(4 * count)), "cuMemAlloc_v2")
def zero():
    right(cuda.cuMemsetD32_v2(buffer, 0, c_size_t(count)), "cuMemsetD32_v2")
    right(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
zero()
def launch(name, stream=None, function=cuda.cuLaunchKernel):
    n = c_uint(count)
    parameters = (c_void_p * 2)(ctypes.addressof(buffer), ctypes.addressof(n))
    return function(kernels[name], 4, 1, 1, 256, 1, 1, 0, stream, parameters, None)
def values():
    read = (c_uint * count)()
    right(cuda.cuMemcpyDtoH_v2(read, buffer, c_size_t(4 * count)), "cuMemcpyDtoH_v2")
    return set(read)
"""


class Emulator(emulated_opencl_e2e.Emulator):
    def environment(self, **more):
        return {**super().environment(), "LD_LIBRARY_PATH": DRIVERS, "CUDA_LOOP_IMAGE": IMAGE, **more}


class Alone(unittest.TestCase):
    arbitration = "time-slice"

    def setUp(self):
        self.emulator = Emulator(self, cards(self.arbitration))

    def run_loop(self, *arguments, expected=0, **environment):
        done = subprocess.run([LOOP, *map(str, arguments)], env=self.emulator.environment(**environment),
                              capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done

    def run_program(self, program, *arguments, **environment):
        done = subprocess.run([sys.executable, "-c", PROGRAM + program, *arguments], env=self.emulator.environment(**environment),
                              capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def ticks(self, mode):
        """Runs TICKS launches, which follow one that is not timed."""
        before = self.emulator.truth()["busy_ns"]["compute"]
        done = self.run_loop(0, "tick", TICKS, mode)
        self.assertIn("wrong 0", done.stdout)
        self.assertIn("ready on One (emulated)\n", done.stdout)
        self.assertEqual(self.emulator.truth()["busy_ns"]["compute"] - before, (TICKS + 1) * TICK_MS * 1_000_000)
        said = re.search(r"(\d+) kernels in ([\d.]+) ms by events", done.stdout)
        self.assertEqual(int(said[1]), TICKS)
        self.assertGreaterEqual(float(said[2]), TICKS * TICK_MS)

    def test_times_and_results_are_the_models_in_each_mode(self):
        for mode in MODES:
            with self.subTest(mode):
                self.ticks(mode)

    def test_events_measure_the_devices_time(self):
        """Between the end of the launches that keep the device busy, and the end of TICKS launches behind them. If the host
        pauses until the first ones have ended, the device is idle in between: then twice as many go before."""
        said = self.run_program("""
begin, end, stream, ms = made(cuda.cuEventCreate, 0), made(cuda.cuEventCreate, 0), made(cuda.cuStreamCreate, 1), c_float()
TICKS, NOT_READY = int(sys.argv[1]), 600
def ticks():
    for _ in range(TICKS): right(launch("tick", stream), "a launch")
right(cuda.cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture_v2")
ticks()
graph, ready = c_void_p(), c_void_p()
right(cuda.cuStreamEndCapture(stream, byref(graph)), "cuStreamEndCapture")
right(cuda.cuGraphInstantiateWithFlags(byref(ready), graph, c_ulonglong(0)), "cuGraphInstantiateWithFlags")
for work in ticks, lambda: right(cuda.cuGraphLaunch(ready, stream), "cuGraphLaunch"):
    before, early = 1, False
    while not early:
        for _ in range(before): right(launch("long_tick", stream), "a launch before")
        right(cuda.cuEventRecord(begin, stream), "cuEventRecord")
        work()
        right(cuda.cuEventRecord(end, stream), "cuEventRecord")
        early = cuda.cuEventQuery(begin) == NOT_READY
        right(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize")
        before *= 2
    right(cuda.cuEventElapsedTime(byref(ms), begin, end), "cuEventElapsedTime")
    print(ms.value)
""", str(TICKS))
        for mode, elapsed in zip(("plain", "graph"), said.split(), strict=True):
            with self.subTest(mode):
                self.assertAlmostEqual(float(elapsed), TICKS * TICK_MS, delta=0.001)

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
                after = "0" if kind in ("physical", "mapped") else blocks
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

    def test_contexts_end_with_their_last_user(self):
        blocks = str(MEMORY_MIB // 4)
        said = self.memory("new", "fill plain", "attach", "detach", "fill plain", "detach", "fill plain")
        self.assertEqual(said, ["0", blocks, "0", "0", "0", "0", blocks])
        # What a green context allocates is the primary context's.
        said = self.memory("green", "fill plain", "end-green", "fill plain", "free", "green", "release", "fill plain")
        self.assertEqual(said, ["0", blocks, "0", "0", "0", "0", "0", blocks])

    def test_graphs_keep_memory_until_it_is_trimmed(self):
        said = self.run_program("""
class Node(ctypes.Structure):
    _fields_ = [(name, c_int) for name in "type types where device".split()] + [("more", ctypes.c_ubyte * 72), ("access", c_void_p),
                ("count", c_size_t), ("bytes", c_size_t), ("address", c_ulonglong)]
MIB = 1 << 20
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

    def test_streams_of_other_contexts(self):
        said = self.run_program("""
other = made(cuda.cuCtxCreate_v2, 0, 0)
stream, owner, now = made(cuda.cuStreamCreate, 1), c_void_p(), c_void_p()
event = made(cuda.cuEventCreate, 0)
right(cuda.cuCtxSetCurrent(context))
right(cuda.cuStreamGetCtx(stream, byref(owner)))
right(cuda.cuCtxGetCurrent(byref(now)))
read = (c_uint * count)()
print(owner.value == other.value, now.value == context.value, launch("tick", stream),
      cuda.cuMemcpyDtoHAsync_v2(read, buffer, c_size_t(4 * count), stream), cuda.cuStreamSynchronize(stream))
print(cuda.cuEventRecord(event, stream), cuda.cuEventRecord(event, None))
right(cuda.cuStreamGetCtx(None, byref(owner)))
print(owner.value == context.value)
""")
        self.assertEqual(said.splitlines(), ["True True 400 0 0", "0 400", "True"])

    def test_a_copy_takes_the_links_time(self):
        self.run_loop(0, "tick", 1, "plain", 1 << 20)
        busy = self.emulator.truth()["busy_ns"]
        size = 4 << 20
        self.assertEqual((busy["copy-in"], busy["copy-out"]), (size + 10_000, size // 2 + 10_000))

    def test_devices_are_those_of_the_description(self):
        said = self.run_program("""
number, value, size = c_int(), c_int(), c_size_t()
right(cuda.cuDeviceGetCount(byref(number)))
for device in range(number.value):
    name, address, uuid = (create_string_buffer(64) for _ in range(3))
    right(cuda.cuDeviceGetName(name, 64, device))
    right(cuda.cuDeviceGetPCIBusId(address, 64, device))
    right(cuda.cuDeviceGetUuid_v2(uuid, device))
    right(cuda.cuDeviceGetAttribute(byref(value), 16, device))
    right(cuda.cuDeviceTotalMem_v2(byref(size), device))
    print(name.value.decode(), address.value.decode(), uuid.raw[:16].hex(), value.value, size.value, sep=",")
right(cuda.cuDriverGetVersion(byref(value)))
print(value.value, cuda.cuDeviceGet(byref(value), 2))
""")
        self.assertEqual(said.splitlines(), [
            f"One (emulated),0000:01:00.0,00000000000040008000000000000001,16,{MEMORY_MIB << 20}",
            f"Two (emulated),0000:02:00.0,00000000000040008000000000000002,1,{1 << 30}", "12080 101"])
        for device in ("1", "0000:02:00.0"):
            self.assertIn("ready on Two (emulated)", self.run_loop(0, "tick", WEIR_EMULATED_DEVICE=device).stdout)

    def test_a_program_without_an_emulator_finds_no_device_and_gets_the_reason(self):
        done = subprocess.run([LOOP, "0", "tick"], capture_output=True, text=True, timeout=e2e.PATIENCE,
                              env={**emulated_opencl_e2e.without_emulator(), "LD_LIBRARY_PATH": DRIVERS})
        self.assertEqual(done.returncode, 2)
        self.assertIn("no emulated GPU: WEIR_EMULATOR_SOCKET", done.stderr)
        self.assertIn("cuInit: error 100 (CUDA_ERROR_NO_DEVICE)", done.stderr)
        self.assertIn("has no device '7'", self.run_loop(0, "tick", expected=2, WEIR_EMULATED_DEVICE="7").stderr)

    def test_functions_by_address_are_those_by_name(self):
        with open(SYMBOLS) as file:
            names = [line.strip() for line in file if not line.startswith("#")]
        said = self.run_program("""
def by_name(name): return ctypes.cast(getattr(cuda, name), c_void_p).value
def ask(name, version, flags):
    function, status = c_void_p(), c_int()
    right(cuda.cuGetProcAddress_v2(name.encode(), byref(function), version, c_ulonglong(flags), byref(status)))
    return function.value, status.value
names = os.environ["NAMES"].split()
for name in names:
    base = name.removesuffix("_ptsz").removesuffix("_ptds")
    flags = 2 if name != base else 0
    base = base.removesuffix("_v2")
    if flags == 0 and base + "_v2" in names: name = base + "_v2"
    assert ask(base, 12080, flags) == (by_name(name), 0), name
assert ask("cuNothing", 12080, 0) == (None, 1)
assert ask("cuMemAlloc", 2000, 0) == (None, 1)
assert ask("cuMemAlloc", 12080, 2) == (by_name("cuMemAlloc_v2"), 0)
print(len(names))
""", NAMES=" ".join(names))
        self.assertEqual(int(said), len(names))

    def test_streams_wait_for_each_other_as_cuda_says(self):
        said = self.run_program("""
blocking, free, other = made(cuda.cuStreamCreate, 0), made(cuda.cuStreamCreate, 1), made(cuda.cuStreamCreate, 1)
for function in (cuda.cuLaunchKernel, cuda.cuLaunchKernel_ptsz):
    right(launch("long_tick", blocking))
    right(launch("short_tick", None, function))
    wait = cuda.cuStreamSynchronize if function is cuda.cuLaunchKernel else cuda.cuStreamSynchronize_ptsz
    right(wait(None))
    print(cuda.cuStreamQuery(blocking))
    right(cuda.cuCtxSynchronize())
right(launch("long_tick"))
print(cuda.cuStreamQuery(blocking), cuda.cuStreamQuery(free))
event = made(cuda.cuEventCreate, 0)
right(cuda.cuEventRecord(event, c_void_p(1)))
right(cuda.cuStreamWaitEvent(free, event, 0))
right(launch("short_tick", other))
print(cuda.cuEventQuery(event), cuda.cuStreamQuery(free))
right(launch("tick", free))
right(cuda.cuStreamSynchronize(free))
print(cuda.cuEventQuery(event), cuda.cuStreamQuery(blocking))
print(values())
""").split()
        # The legacy stream has waited for the blocking one. Of what has not been waited for, a host that pauses for
        # 100 ms finds the end.
        self.assertEqual(said[0], "0")
        self.assertIn(said[1], ("0", "600"))
        for answer, expected in zip(said[2:6], ("600", "0", "600", "600")):
            self.assertIn(answer, ("0", expected))
        self.assertEqual(said[6:], ["0", "0", "{7}"])

    def test_a_capture_that_a_query_breaks(self):
        said = self.run_program("""
import threading
stream, event = made(cuda.cuStreamCreate, 1), made(cuda.cuEventCreate, 0)
right(cuda.cuEventRecord(event, None))
right(cuda.cuEventSynchronize(event))
mode, status, graph = c_int(2), c_int(), c_void_p()
def capture(*queries):
    right(cuda.cuStreamBeginCapture_v2(stream, 0))
    right(launch("tick", stream))
    out = [query() for query in queries]
    right(cuda.cuStreamIsCapturing(stream, byref(status)))
    return [*out, status.value, cuda.cuStreamEndCapture(stream, byref(graph)), graph.value is None]
def relaxed():
    right(cuda.cuThreadExchangeStreamCaptureMode(byref(mode)))
    error = cuda.cuEventQuery(event)
    right(cuda.cuThreadExchangeStreamCaptureMode(byref(mode)))
    return error
def elsewhere():
    out = []
    thread = threading.Thread(target=lambda: out.append(cuda.cuCtxSetCurrent(context) or cuda.cuEventQuery(event)))
    thread.start()
    thread.join()
    return out[0]
print(capture())
print(capture(relaxed))
print(capture(lambda: cuda.cuEventQuery(event)))
print(capture(lambda: cuda.cuEventSynchronize(event)))
print(capture(elsewhere))
print(capture(lambda: cuda.cuStreamSynchronize(stream)))
print(values(), "nothing has run")
print(capture())
work = made(cuda.cuGraphInstantiateWithFlags, graph, c_ulonglong(0))
right(cuda.cuGraphDestroy(graph))
for _ in range(3): right(cuda.cuGraphLaunch(work, stream))
right(cuda.cuStreamSynchronize(stream))
print(values(), "in three launches")
""").splitlines()
        self.assertEqual(said, ["[1, 0, False]", "[0, 1, 0, False]", "[900, 2, 901, True]", "[900, 2, 901, True]",
                                "[900, 2, 901, True]", "[900, 2, 901, True]", "{0} nothing has run", "[1, 0, False]",
                                "{3} in three launches"])

    def test_a_child_without_an_exec_gets_errors_and_its_parent_computes_on(self):
        said = self.run_program("""
right(launch("long_tick"))
child = os.fork()
if child == 0:
    print("child", launch("tick"), cuda.cuCtxSynchronize(), cuda.cuInit(0), flush=True)
    os._exit(0)
os.waitpid(child, 0)
right(launch("tick"))
right(cuda.cuCtxSynchronize())
print(values())
""")
        self.assertEqual(said.splitlines(), ["child 3 3 3", "{2}"])

    def test_threads_of_a_program_share_a_stream(self):
        said = self.run_program("""
import threading
errors = []
def work(per_thread):
    errors.append(cuda.cuCtxSetCurrent(context))
    for _ in range(200):
        errors.append(launch("short_tick"))
        wait = cuda.cuStreamSynchronize_ptsz if per_thread else cuda.cuStreamSynchronize
        if _ % 20 == 0: errors.append(wait(None))
threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(set(errors), values())
""")
        self.assertEqual(said, "{0} {1200}\n")

    def test_two_programs_share_a_device(self):
        programs = [subprocess.Popen([LOOP, "1", "tick", "4"], env=self.emulator.environment(), text=True,
                                     stdout=subprocess.PIPE) for _ in range(2)]
        launches = 0
        for program in programs:
            out = program.communicate(timeout=e2e.PATIENCE)[0]
            self.assertEqual((program.returncode, "wrong 0" in out), (0, True), out)
            launches += 1 + int(re.search(r"(\d+) kernels in", out)[1])
        self.assertEqual(self.emulator.truth()["busy_ns"]["compute"], launches * TICK_MS * 1_000_000)

    def test_a_killed_program_gives_everything_back(self):
        program = subprocess.Popen([LOOP, "600", "long_tick", "8", "plain", str(4 << 20)],
                                   env=self.emulator.environment(), stdout=subprocess.DEVNULL)
        self.addCleanup(program.kill)
        e2e.wait_for(lambda: self.emulator.truth()["busy_ns"]["compute"] > 0, "it computes")
        self.assertEqual(self.emulator.truth()["memory_used_bytes"], 16 << 20)
        program.kill()
        program.wait()
        e2e.wait_for(lambda: self.emulator.truth()["memory_used_bytes"] == 0, "its memory is free")
        self.assertEqual(self.emulator.truth()["clients"], [])

    def test_a_program_survives_its_emulator(self):
        program = subprocess.Popen([LOOP, "3", "tick", "64"], env=self.emulator.environment(), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(program.kill)
        e2e.wait_for(lambda: self.emulator.truth()["busy_ns"]["compute"] > 0, "it computes")
        self.emulator.process.send_signal(signal.SIGKILL)
        out, err = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual((program.returncode, "wrong 0" in out), (0, True), out + err)
        self.assertEqual(err.count("weir: the emulated GPU is gone"), 1, err)


class InOrder(unittest.TestCase):
    """A device that runs commands in order of their submission, and devices that fail."""

    def emulate(self, *faults):
        self.emulator = Emulator(self, cards("fifo") + "".join("[[fault]]\n" + fault for fault in faults))

    def run_loop(self, *arguments, device=0):
        return subprocess.run([LOOP, *map(str, arguments)], capture_output=True, text=True, timeout=e2e.PATIENCE,
                              env=self.emulator.environment(WEIR_EMULATED_DEVICE=str(device)))

    def test_results_and_ground_truth(self):
        self.emulate()
        done = self.run_loop(0.2, "short_tick", 100)
        self.assertEqual((done.returncode, "wrong 0" in done.stdout), (0, True), done.stdout + done.stderr)
        launches = 1 + int(re.search(r"(\d+) kernels in", done.stdout)[1])
        self.assertEqual(self.emulator.truth()["busy_ns"]["compute"], launches * 10_000)

    def test_a_lost_device_fails_all_later_calls(self):
        self.emulate('kind = "lost"\nafter = 20\n')
        done = self.run_loop(60, "tick", 4)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("error 999 (CUDA_ERROR_UNKNOWN)", done.stderr)
        self.assertEqual(done.stderr.count("weir: the emulated GPU is lost"), 1, done.stderr)
        self.assertIn("cuDevicePrimaryCtxRetain: error 999", self.run_loop(0, "tick").stderr)
        self.assertEqual(self.run_loop(0, "tick", device=1).returncode, 0, "the other device is not affected")

    def test_calls_wait_while_the_device_hangs(self):
        self.emulate('kind = "hang"\nafter = 20\nfor = "1 s"\n')
        done = self.run_loop(0.2, "tick", 32)
        self.assertEqual((done.returncode, "wrong 0" in done.stdout), (0, True), done.stdout + done.stderr)

    def test_one_allocation_fails(self):
        self.emulate('kind = "no-memory"\nafter = 0\ncount = 1\n')
        self.assertIn("cuMemAlloc: error 2", self.run_loop(0, "tick").stderr)
        self.assertEqual(self.run_loop(0, "tick").returncode, 0)


if __name__ == "__main__":
    e2e.main()
