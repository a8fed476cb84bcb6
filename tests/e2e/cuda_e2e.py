# SPDX-License-Identifier: Apache-2.0
"""CUDA programs as tenants, on the emulated driver: caps and shares by ground truth, with kernels of three lengths, graphs,
several streams and several processes. The device is emulated, so its speed does not depend on the host's load."""
import os
import select
import signal
import subprocess
import sys
import time
import unittest

import emulated
import vulkan_e2e
import weir_e2e as e2e
from emulated_cuda_e2e import PROGRAM
from emulated_cuda_memory_e2e import KINDS, MEMORY

LOOP = os.path.join(e2e.BUILD, "bin/cuda_loop")
IMAGE = os.path.join(e2e.BUILD, "lib/test/cuda_image.so")
KERNELS = "".join(f'[[kernel]]\nname = "{name}"\nfixed = "{cost}"\n'
                  for name, cost in (("short_tick", "200 us"), ("tick", "5 ms"), ("long_tick", "100 ms"), ("cuMemcpyDtoD", "5 ms")))


# One stream captures, while another one, which does not wait for it, works.
CAPTURE = PROGRAM + """
stream, other = made(cuda.cuStreamCreate, 1), made(cuda.cuStreamCreate, 1)
right(cuda.cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture_v2")
for _ in range(40):
    right(launch("tick", other), "a launch beside the capture")
    right(launch("tick", stream), "a captured launch")
graph = c_void_p()
right(cuda.cuStreamEndCapture(stream, byref(graph)), "cuStreamEndCapture")
right(cuda.cuStreamSynchronize(other), "cuStreamSynchronize")
right(launch("tick", other), "a launch after the capture")
print("captured")
"""


# Work in a stream of another context than the current one.
ELSEWHERE = PROGRAM + """
other = made(cuda.cuCtxCreate_v2, 0, 0)
stream = made(cuda.cuStreamCreate, 1)
right(cuda.cuCtxSetCurrent(context))
for _ in range(40):
    right(cuda.cuMemcpyDtoDAsync_v2(buffer, c_ulonglong(buffer.value + 2048), c_size_t(2048), stream), "a copy")
    right(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize")
"""
# The same in a stream of a green context, of which the program never makes a current one.
GREEN = PROGRAM.replace("made(cuda.cuCtxCreate_v2, 0, 0)", "made(cuda.cuDevicePrimaryCtxRetain, 0); cuda.cuCtxSetCurrent(context)") + """
resource, green, stream = (c_uint * 64)(), None, None
right(cuda.cuDeviceGetDevResource(0, resource, 1), "cuDeviceGetDevResource")
green = made(cuda.cuGreenCtxCreate, made(cuda.cuDevResourceGenerateDesc, resource, 1), 0, 1)
stream = made(cuda.cuGreenCtxStreamCreate, green, 1, 0)
for _ in range(40):
    right(launch("tick", stream), "a launch")
    right(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize")
"""


# Two long kernels, then a wait, which is the program's last call, or the end of the context; that three times.
ENDS = ("wait", "copy", "destroy", "reset", "release")
ENDING = PROGRAM + """
end, device = sys.argv[1], 0
primary = end in ("reset", "release")
for _ in range(1 if end in ("wait", "copy") else 3):
    if end not in ("wait", "copy"):
        context = made(cuda.cuDevicePrimaryCtxRetain if primary else cuda.cuCtxCreate_v2, *(() if primary else (0,)), device)
        right(cuda.cuCtxSetCurrent(context))
        module = made(cuda.cuModuleLoad, os.environ["CUDA_LOOP_IMAGE"].encode())
        kernels = {"long_tick": made(cuda.cuModuleGetFunction, module, b"long_tick")}
        right(cuda.cuMemAlloc_v2(byref(buffer), c_size_t(4 * count)), "cuMemAlloc_v2")
    for _ in range(2): right(launch("long_tick"), "a launch")
    if end == "wait": right(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    if end == "copy": values()
    if end == "destroy": right(cuda.cuCtxDestroy_v2(context), "cuCtxDestroy_v2")
    if end == "reset": right(cuda.cuDevicePrimaryCtxReset_v2(0), "cuDevicePrimaryCtxReset_v2")
    if primary: right(cuda.cuDevicePrimaryCtxRelease_v2(0), "cuDevicePrimaryCtxRelease_v2")
os._exit(0)
"""


class Cuda(emulated.WithEmulatedNode):
    prompt_if_permitted = True
    description = emulated.CARD + emulated.LONG_FRAMES + KERNELS

    def run_in(self, vgpu, kernel, mode="plain", ahead=8, seconds=600):
        os.environ["CUDA_LOOP_IMAGE"] = IMAGE
        return self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", vgpu, "--", LOOP, str(seconds),
                                   kernel, str(ahead), mode], {})

    def wait_busy(self, *vgpus):
        for vgpu in vgpus:
            e2e.wait_for(lambda name=vgpu: self.node.vgpu(name)["totals"]["gpu_ns"] > 0, f"{vgpu} computes")

    def shares_settle(self, programs, wanted, delta, seconds=8):
        """Of the device time that these programs use, each has its wanted part."""
        def check(use):
            shares = {name: one / sum(use.values()) for name, one in use.items()}
            print({name: f"{share:.4f}" for name, share in shares.items()}, f"of {sum(use.values()):.4f}")
            for name, share in wanted.items():
                self.assertAlmostEqual(shares[name], share, delta=delta, msg=name)

        self.settled(programs, seconds, check)

    def test_a_program_computes_the_same_and_is_measured(self):
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--name", "a", "--", LOOP, "1", "tick", "4"],
                              capture_output=True, text=True, timeout=e2e.PATIENCE,
                              env={**os.environ, "CUDA_LOOP_IMAGE": IMAGE})
        self.assertEqual((done.returncode, "wrong 0" in done.stdout), (0, True), done.stdout + done.stderr)
        self.assertIn("(emulated)", done.stdout)

    def test_a_capture_is_not_disturbed_by_work_of_another_stream(self):
        # While a stream captures in the global mode, the driver ends the capture at a question about any event.
        self.node.create("a")
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--", sys.executable, "-c", CAPTURE],
                              capture_output=True, text=True, timeout=e2e.PATIENCE,
                              env={**os.environ, "CUDA_LOOP_IMAGE": IMAGE})
        self.assertEqual((done.returncode, done.stdout), (0, "captured\n"), done.stderr)
        self.assertGreater(self.node.vgpu("a")["totals"]["gpu_ns"], 20 * 5_000_000, "the other stream's work is measured")

    def stop_account(self):
        """What programs report is charged as it is, because the device's account is not read any more."""
        daemon = self.node.process.pid
        with open(f"/proc/{daemon}/task/{daemon}/children") as file:
            children = [int(pid) for pid in file.read().split()]
        for pid in children:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read().split(b"\0")[0].endswith(b"weir-gpu-account"):
                    os.kill(pid, signal.SIGSTOP)
                    self.addCleanup(os.kill, pid, signal.SIGCONT)
                    return
        self.fail("the daemon has no weir-gpu-account")

    def test_work_in_streams_of_other_contexts_is_charged(self):
        self.stop_account()
        for name, program in (("elsewhere", ELSEWHERE), ("green", GREEN)):
            with self.subTest(name):
                self.node.create(name)
                done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", name, "--", sys.executable, "-c",
                                       program], capture_output=True, text=True, timeout=e2e.PATIENCE,
                                      env={**os.environ, "CUDA_LOOP_IMAGE": IMAGE})
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                charged_ms = self.node.vgpu(name)["totals"]["gpu_ns"] / 1e6
                self.assertTrue(150 < charged_ms < 260, f"{charged_ms} ms of 200")

    def test_the_last_work_is_charged_and_contexts_that_end_take_their_events_with_them(self):
        self.stop_account()
        for name in ENDS:
            with self.subTest(name):
                self.node.create(name)
                done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", name, "--", sys.executable, "-c",
                                       ENDING, name], capture_output=True, text=True, timeout=e2e.PATIENCE,
                                      env={**os.environ, "CUDA_LOOP_IMAGE": IMAGE, "WEIR_EMULATED_CUDA_STRICT": "1"})
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                charged_ms = self.node.vgpu(name)["totals"]["gpu_ns"] / 1e6
                lives = 1 if name in ("wait", "copy") else 3
                self.assertTrue(190 * lives < charged_ms < 230 * lives, f"{charged_ms} ms of {200 * lives}")

    def test_caps_hold(self):
        self.node.policy("cap")
        caps = {"graph": 0.25, "streams": 0.1, "getproc": 0.3, "ptsz": 0.2}
        kernels = {"graph": "short_tick", "streams": "short_tick", "getproc": "tick", "ptsz": "tick"}
        programs = {}
        for mode, cap in caps.items():
            self.node.create(mode, cap=cap)
            programs[mode] = self.run_in(mode, kernels[mode], mode)
        self.wait_busy(*caps)
        time.sleep(2)  # start-up is over

        def check(use):
            print({name: f"{one:.4f}" for name, one in use.items()})
            for name, cap in caps.items():
                self.assertAlmostEqual(use[name], cap, delta=0.02, msg=name)

        self.settled(programs, 8, check)

    def test_a_cap_holds_for_long_kernels_and_for_several_processes(self):
        self.node.policy("cap")
        self.node.create("long", cap=0.3)
        self.node.create("many", cap=0.3)
        programs = {"long": self.run_in("long", "long_tick", ahead=2),
                    "many": [self.run_in("many", "tick") for _ in range(4)]}
        self.wait_busy("long", "many")
        time.sleep(2)

        def check(use):
            print({name: f"{one:.4f}" for name, one in use.items()})
            for name in programs:
                self.assertAlmostEqual(use[name], 0.3, delta=0.03, msg=name)

        self.settled(programs, 10, check)

    def test_shares_follow_weights(self):
        self.node.policy("proportional-share")
        self.node.create("heavy", weight=75)
        self.node.create("light", weight=25)
        programs = {"heavy": self.run_in("heavy", "tick"), "light": self.run_in("light", "short_tick")}
        self.wait_busy(*programs)
        time.sleep(1)
        self.shares_settle(programs, {"heavy": 0.75, "light": 0.25}, 0.02)

    def test_long_kernels_and_short_ones_share_fairly(self):
        self.node.policy("proportional-share")
        self.node.create("long")
        self.node.create("short")
        programs = {"long": self.run_in("long", "long_tick"), "short": self.run_in("short", "tick")}
        self.wait_busy(*programs)
        time.sleep(1)
        self.shares_settle(programs, {"long": 0.5, "short": 0.5}, 0.02, 10)

    def test_beside_an_opengl_program(self):
        self.node.policy("proportional-share")
        self.node.create("game")
        self.node.create("compute")
        programs = {"game": self.start(e2e.PHONG, "game"), "compute": self.run_in("compute", "tick")}
        self.wait_frames("game")
        self.wait_busy("compute")
        time.sleep(1)
        self.shares_settle(programs, {"game": 0.5, "compute": 0.5}, 0.03, 10)

    def test_a_program_that_is_killed_leaves_nothing(self):
        self.node.policy("cap")
        self.node.create("a", cap=0.5)
        for _ in range(5):
            program = self.run_in("a", "tick")
            e2e.wait_for(lambda: self.node.vgpu("a")["processes"], "the program is attached")
            self.tenants.stop(program)
            e2e.wait_for(lambda: not self.node.vgpu("a")["processes"], "the program is gone")
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--", LOOP, "0.5", "tick"],
                              capture_output=True, text=True, timeout=e2e.PATIENCE,
                              env={**os.environ, "CUDA_LOOP_IMAGE": IMAGE})
        self.assertEqual((done.returncode, "wrong 0" in done.stdout), (0, True), done.stdout + done.stderr)


class Memory(emulated.WithEmulatedNode):
    """What CUDA programs hold of the card's memory, by their own answers, the daemon's and the emulator's."""
    CARD_MIB, LIMIT_MIB, BLOCK_MIB = 2048, 64, 4
    BLOCKS = LIMIT_MIB // BLOCK_MIB

    def program(self, vgpu, block_mib=BLOCK_MIB, before=()):
        program = self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", vgpu, "--", *before, MEMORY,
                                      str(block_mib)], {}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stdin.close)
        return program

    def ask(self, program, line):
        program.stdin.write(line + "\n")
        program.stdin.flush()
        answer = program.stdout.readline()
        self.assertTrue(answer, "\n".join([f"{line}: the program has ended", *self.tenants.report()]))
        return answer.strip()

    def number(self, program, line):
        return int(self.ask(program, line))

    def limited(self, name="a", mib=LIMIT_MIB):
        self.node.create(name, memory_max_bytes=mib << 20)
        return self.program(name)

    def card_mib(self):
        return self.node.truth()["devices"][0]["memory_used_bytes"] >> 20

    def shown(self, vgpu):
        return self.node.vgpu(vgpu)["use"]["program_memory_bytes"] >> 20

    def test_each_kind_of_allocation_gets_exactly_the_limit_and_freeing_makes_room(self):
        self.node.create("a", memory_max_bytes=self.LIMIT_MIB << 20)
        for kind, size in KINDS.items():
            with self.subTest(kind):
                self.tenants.close()  # what another kind has left
                e2e.wait_for(lambda: self.shown("a") == 0, "it has ended")
                program = self.program("a")
                blocks = int(self.BLOCKS / size)
                for _ in range(2):
                    self.assertEqual(self.number(program, f"fill {kind}"), blocks)
                    self.assertEqual(self.card_mib(), int(blocks * size * self.BLOCK_MIB))
                    self.assertEqual(self.shown("a"), int(blocks * size * self.BLOCK_MIB))
                    self.assertEqual(self.ask(program, "free"), "0")
                    self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))

    def test_kinds_share_one_limit(self):
        program = self.limited()
        for kind in list(KINDS)[:self.BLOCKS]:
            if kind != "mipmap":
                self.assertEqual(self.number(program, f"take {kind}"), 0, kind)
        left = self.BLOCKS - len(KINDS) + 1
        self.assertEqual(self.number(program, "fill plain"), left)
        for kind in KINDS:
            self.assertEqual(self.number(program, f"take {kind}"), 2, kind)

    def test_a_context_that_ends_gives_back_what_it_held(self):
        program = self.limited()
        for kind in ("plain", "pitch", "managed", "array", "array3d"):
            with self.subTest(kind):
                self.assertEqual(self.ask(program, "new"), "0")
                self.assertEqual(self.number(program, f"fill {kind}"), self.BLOCKS)
                self.assertEqual(self.ask(program, "destroy"), "0")
                self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))
                self.assertEqual(self.number(program, f"fill {kind}"), self.BLOCKS)
                self.assertEqual(self.ask(program, "release"), "0")
                self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        self.assertEqual(self.ask(program, "reset"), "0")
        self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))

    def test_memory_of_pools_lasts_until_it_is_freed(self):
        program = self.limited()
        for kind in ("async", "pool"):
            for end in ("reset", "release"):
                with self.subTest(f"{kind}, {end}"):
                    self.assertEqual(self.number(program, f"fill {kind}"), self.BLOCKS)
                    self.assertEqual(self.ask(program, end), "0")
                    self.assertEqual((self.card_mib(), self.shown("a")), (self.LIMIT_MIB, self.LIMIT_MIB))
                    self.assertEqual(self.number(program, "take plain"), 2)
                    self.assertEqual(self.ask(program, "free"), "0")
                    self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))

    def test_a_context_ends_with_its_last_user(self):
        program = self.limited()
        self.assertEqual([self.ask(program, line) for line in ("new", "fill plain", "attach", "detach", "take plain", "detach")],
                         ["0", str(self.BLOCKS), "0", "0", "2", "0"])
        self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))

    def test_memory_of_a_green_context_is_its_primary_contexts(self):
        program = self.limited()
        self.assertEqual(self.ask(program, "green"), "0")
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        self.assertEqual(self.ask(program, "end-green"), "0")
        self.assertEqual((self.card_mib(), self.shown("a")), (self.LIMIT_MIB, self.LIMIT_MIB))
        self.assertEqual([self.ask(program, line) for line in ("free", "green", "fill plain", "release")],
                         ["0", "0", str(self.BLOCKS), "0"])
        self.assertEqual(self.shown("a"), self.LIMIT_MIB, "the green context keeps the primary one")

    def test_processes_that_allocate_at_once_reach_the_limit_together_and_never_exceed_it(self):
        self.node.create("a", memory_max_bytes=self.LIMIT_MIB << 20)
        programs = [self.program("a", 2) for _ in range(4)]
        for program in programs:
            self.ask(program, "info")  # it is attached
        for kind in ("plain", "physical", "async"):
            with self.subTest(kind):
                for program in programs:
                    program.stdin.write(f"fill {kind}\n")
                for program in programs:
                    program.stdin.flush()
                most = 0
                while not all(select.select([program.stdout], [], [], 0)[0] for program in programs):
                    most = max(most, self.card_mib())
                blocks = [int(program.stdout.readline()) for program in programs]
                print(kind, blocks, f"at most {most} MiB seen")
                self.assertEqual(sum(blocks), self.LIMIT_MIB // 2)
                self.assertEqual(self.card_mib(), self.LIMIT_MIB)
                self.assertLessEqual(most, self.LIMIT_MIB)
                self.assertEqual(self.shown("a"), self.LIMIT_MIB)
                for program in programs:
                    self.assertEqual(self.ask(program, "free"), "0")
                self.assertEqual(self.shown("a"), 0)

    def test_a_killed_program_leaves_nothing_behind(self):
        first = self.limited()
        second = self.program("a")
        for kind in ("plain", "mapped", "async"):
            with self.subTest(kind):
                self.assertEqual(self.number(first, f"fill {kind}"), self.BLOCKS)
                self.assertEqual(self.number(second, "take plain"), 2)
                self.tenants.stop(first)
                e2e.wait_for(lambda: self.shown("a") == 0 and self.card_mib() == 0, "its memory is free")
                self.assertEqual(self.number(second, f"fill {kind}"), self.BLOCKS)
                self.assertEqual(self.ask(second, "free"), "0")
                first = self.program("a")

    def test_programs_are_shown_the_vgpus_memory(self):
        program = self.limited()
        mib = lambda: [int(one) >> 20 for one in self.ask(program, "info").split()]
        self.assertEqual(mib(), [self.LIMIT_MIB] * 3)
        self.assertEqual(self.number(program, "take async"), 0)
        other = self.program("a")
        self.assertEqual(self.number(other, "take physical"), 0)
        self.assertEqual(mib(), [self.LIMIT_MIB - 2 * self.BLOCK_MIB, self.LIMIT_MIB, self.LIMIT_MIB])
        self.assertEqual(self.number(other, "fill plain"), self.BLOCKS - 2)
        self.assertEqual(mib(), [0, self.LIMIT_MIB, self.LIMIT_MIB])

    def test_the_limit_changes_live(self):
        program = self.limited()
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        def limit(mib):
            status, body = self.node.call("PATCH", "/v1/vgpus/a", {"memory_max_bytes": mib << 20})
            self.assertEqual(status, 200, body)
        limit(2 * self.LIMIT_MIB)
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        limit(self.LIMIT_MIB)
        self.assertEqual(self.number(program, "take plain"), 2)
        self.assertEqual(self.shown("a"), 2 * self.LIMIT_MIB, "nothing is taken away")
        self.assertEqual(self.ask(program, "free"), "0")
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)

    def test_refusals_are_counted_and_vgpus_are_apart(self):
        program = self.limited()
        other = self.limited("b")
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        self.assertEqual(self.number(other, "fill plain"), self.BLOCKS)
        self.assertEqual(self.number(other, "take async"), 2)
        self.assertEqual(self.ask(program, "fork"), "2", "the child asks the same vGPU")
        wanted = ['weir_vgpu_memory_refused_total{vgpu="a",device="emulated0"} 2\n',
                  'weir_vgpu_memory_refused_total{vgpu="b",device="emulated0"} 2\n',
                  f'weir_vgpu_program_memory_bytes{{vgpu="a",device="emulated0"}} {self.LIMIT_MIB << 20}\n']
        def metrics():
            return self.node.call("GET", "/metrics")[1]
        e2e.wait_for(lambda: all(line in metrics() for line in wanted), "the metrics show it")
        said = [event["text"] for event in self.node.get("/v1/events")["events"] if event["kind"] == "no-memory"]
        self.assertRegex(said[0], r"^no memory for \d allocations? or commands? of its programs; its limit is 64 MiB$")
        shown = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "vgpu", "show", "a"], capture_output=True, text=True,
                               timeout=e2e.PATIENCE).stdout
        self.assertIn("programs hold 64M themselves", shown)
        self.assertEqual(self.ask(program, "free"), "0")
        self.assertNotEqual(self.ask(program, "fork"), "0", "a child without an exec has no driver")
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS, "what the child claimed is free")

    def test_memory_of_opencl_programs_counts_for_cuda_programs(self):
        program = self.limited()
        self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--",
                            os.path.join(e2e.BUILD, "bin/opencl_loop"), "600", str(4 << 20), "1", "1", "5"], {})
        objects = lambda: self.node.vgpu("a")["use"]["memory_bytes"]
        e2e.wait_for(lambda: objects() > 8 << 20, "the OpenCL program has made its buffers")
        free = lambda: int(self.ask(program, "info").split()[0])
        e2e.wait_for(lambda: free() == (self.LIMIT_MIB << 20) - objects(), "CUDA programs see them")
        left = ((self.LIMIT_MIB << 20) - objects()) // (self.BLOCK_MIB << 20)
        self.assertEqual(self.number(program, "fill plain"), left)
        self.assertLess(left, self.BLOCKS)

    def test_memory_of_vulkan_programs_counts_for_cuda_programs(self):
        program = self.limited()
        other = self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--",
                                    os.path.join(e2e.BUILD, "bin/vulkan_memory"), str(self.BLOCK_MIB)], vulkan_e2e.lavapipe(),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(other.stdout.close)
        self.addCleanup(other.stdin.close)
        self.assertEqual(self.number(other, "take"), 0)
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS - 1)
        self.assertEqual(self.number(other, "take"), vulkan_e2e.OUT_OF_DEVICE_MEMORY)
        self.assertEqual(self.ask(program, "free"), "0")
        self.assertEqual(self.number(other, "fill"), self.BLOCKS - 1)

    def test_memory_of_cuda_programs_counts_for_opencl_programs(self):
        program = self.limited()
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        def opencl():
            return subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--",
                                   os.path.join(e2e.BUILD, "bin/opencl_loop"), "0", str(4 << 20), "1", "1", "5"],
                                  capture_output=True, text=True, timeout=e2e.PATIENCE)
        refused = opencl()
        self.assertNotEqual(refused.returncode, 0, refused.stdout + refused.stderr)
        devices = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--", "clinfo"],
                                 capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertRegex(devices.stdout, f"Global memory size +{self.LIMIT_MIB << 20} ", "the device is there, and has no room")
        self.assertEqual(self.ask(program, "free"), "0")
        e2e.wait_for(lambda: opencl().returncode == 0, "it has room again")

    def test_a_daemon_that_comes_back_knows_what_is_held(self):
        program = self.limited()
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        self.node.kill()
        self.assertEqual(self.number(program, "take plain"), 2, "the last limit holds while no daemon is there")
        self.node.start()
        e2e.wait_for(lambda: self.number(program, "take plain") == 2 and self.node.vgpu("a")["processes"], "it is attached again")
        self.assertEqual(self.shown("a"), self.LIMIT_MIB)
        other = self.program("a")
        self.assertEqual(self.number(other, "take plain"), 2)

    def test_without_a_limit_the_card_is_the_limit(self):
        self.node.create("a")
        program = self.program("a", 64)
        self.assertEqual([int(one) >> 20 for one in self.ask(program, "info").split()], [self.CARD_MIB] * 3)
        for kind in KINDS:
            with self.subTest(kind):
                self.assertEqual(self.number(program, f"fill {kind}"), int(self.CARD_MIB // 64 / KINDS[kind]))
                self.assertEqual(self.ask(program, "free"), "0")
                self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))


class SeveralCards(emulated.WithEmulatedNode):
    """A program that sees another card than its vGPU's."""
    description = emulated.CARD + emulated.CARD + emulated.FRAMES
    LIMIT_MIB, BLOCK_MIB, BLOCKS = Memory.LIMIT_MIB, Memory.BLOCK_MIB, Memory.BLOCKS
    program, ask, number, shown = Memory.program, Memory.ask, Memory.number, Memory.shown

    def test_pools_of_several_cards_count_together(self):
        self.node.create("a", memory_max_bytes=self.LIMIT_MIB << 20)
        program = self.program("a", before=("env", "-u", "WEIR_EMULATED_DEVICE"))
        for device in "01":
            self.ask(program, f"device {device}")
            self.assertEqual(self.number(program, "take pool"), 0)
        self.assertEqual([device["memory_used_bytes"] >> 20 for device in self.node.truth()["devices"][:2]], [self.BLOCK_MIB] * 2)
        self.assertEqual(self.shown("a"), 2 * self.BLOCK_MIB)
        self.assertEqual(self.ask(program, "reset"), "0")
        self.assertEqual(self.number(program, "fill pool"), self.BLOCKS - 2)
        self.assertEqual(self.ask(program, "free"), "0")
        self.assertEqual(self.shown("a"), 0)


if __name__ == "__main__":
    unittest.main()
