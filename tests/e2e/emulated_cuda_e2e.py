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
IMAGE = os.path.join(e2e.BUILD, "lib/test/cuda_image.so")
SYMBOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../symbols/emulated_cuda.txt")
LINKED = os.path.join(e2e.BUILD, "bin/cuda_loop_linked")  # the same program, linked against the driver
MODES = ("plain", "graph", "graph,default", "streams", "ptsz", "graph,default,ptsz", "getproc", "ptsz,getproc")
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


class WithEmulator(unittest.TestCase):
    arbitration = "time-slice"

    def setUp(self):
        self.emulator = Emulator(self, cards(self.arbitration))

    def run_loop(self, *arguments, expected=0, program=LOOP, **environment):
        done = subprocess.run([program, *map(str, arguments)], env=self.emulator.environment(**environment),
                              capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done

    def run_program(self, program, *arguments, **environment):
        done = subprocess.run([sys.executable, "-c", PROGRAM + program, *arguments], env=self.emulator.environment(**environment),
                              capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


class Alone(WithEmulator):
    def ticks(self, mode, program=LOOP):
        """Runs TICKS launches, which follow one that is not timed."""
        before = self.emulator.truth()["busy_ns"]["compute"]
        done = self.run_loop(0, "tick", TICKS, mode, program=program)
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

    def test_a_program_that_is_linked_against_the_driver(self):
        for mode in ("plain", "graph", "streams", "ptsz"):
            with self.subTest(mode):
                self.ticks(mode, LINKED)

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
