# SPDX-License-Identifier: Apache-2.0
"""CUDA programs as tenants, on the emulated driver: caps and shares by ground truth, with kernels of three lengths, graphs,
several streams and several processes. The device is emulated, so its speed does not depend on the host's load."""
import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest

import emulated
import weir_e2e as e2e
from emulated_cuda_e2e import LINKED, PROGRAM
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


# How a program finds the driver's functions: by their names in a library that it opens, by cuGetProcAddress only, by
# its linker. The program, and what is added to the mode.
WAYS = {"opened": (LOOP, ""), "asked": (LOOP, ",getproc"), "linked": (LINKED, "")}


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

    def run_each_way(self, kernel, ahead, mode, items=1024):
        """By the way in which programs find the driver, what they say and leave behind in a vGPU of 64 MiB: (status,
        output without times, errors, device time by ground truth, charged time, passages)."""
        def busy_ns():
            return self.node.truth()["devices"][0]["busy_ns"]["compute"]

        seen = {}
        for way, (program, more) in WAYS.items():
            name = f"{way}-{kernel}-{mode}"
            self.node.create(name, memory_max_bytes=64 << 20)
            before = busy_ns()
            command = [e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", name, "--", program, "0", kernel,
                       str(ahead), mode + more, str(items)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=e2e.PATIENCE,
                                  env={**os.environ, "CUDA_LOOP_IMAGE": IMAGE})
            e2e.wait_for(lambda vgpu=name: not self.node.vgpu(vgpu)["processes"], "the program is gone")
            totals = self.node.vgpu(name)["totals"]
            said = re.sub(r"[\d.]+ (kernels/s|ms)", r"- \1", done.stdout)
            seen[way] = (done.returncode, said, done.stderr, busy_ns() - before, totals["gpu_ns"], totals["tasks"])
        print(kernel, mode, {way: one[3:] for way, one in seen.items()})
        return seen

    def test_programs_that_are_linked_open_the_driver_or_ask_for_addresses_behave_alike(self):
        self.stop_account()
        ahead, cost_ns = 60, 5_000_000
        for mode in ("plain", "ptsz", "graph"):
            with self.subTest(mode):
                seen = self.run_each_way("tick", ahead, mode)
                for way, (status, said, errors, used_ns, charged_ns, passages) in seen.items():
                    self.assertEqual((status, said, errors), (0, seen["opened"][1], ""), way)
                    self.assertEqual(used_ns, (ahead + 1) * cost_ns, way)
                    self.assertAlmostEqual(charged_ns, used_ns, delta=0.1 * used_ns, msg=way)
                    # Calls pass in batches that also depend on the time between them.
                    self.assertAlmostEqual(passages, seen["opened"][-1], delta=ahead / 2, msg=way)
                    self.assertGreater(passages, 1 if mode == "graph" else ahead / 3, way)

    def test_programs_that_find_the_driver_in_any_way_get_the_same_errors(self):
        for kernel, items, message in (("unknown", 1024, "error 500 (CUDA_ERROR_NOT_FOUND)"),
                                       ("tick", 32 << 20, "error 2 (CUDA_ERROR_OUT_OF_MEMORY)")):
            seen = self.run_each_way(kernel, 1, "plain", items)
            for way, one in seen.items():
                self.assertEqual(one[:3], seen["opened"][:3], way)
                self.assertEqual((one[0], message in one[2]), (2, True), one)

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
                self.assertAlmostEqual(use[name], 0.3, delta=0.02, msg=name)

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
        self.shares_settle(programs, {"game": 0.5, "compute": 0.5}, 0.02, 10)


class Kills(emulated.WithEmulatedNode):
    """Programs of one vGPU that are killed at random moments: while they start, allocate, launch, wait at the gate or
    wait for the device."""
    prompt_if_permitted = True
    description = emulated.CARD + KERNELS
    kills, at_once = 10, 4
    CAP, LIMIT_MIB, BLOCK_MIB = 0.5, 128, 4
    # Of its cap, which a vGPU may use at once (docs/policies/cap.md).
    BURST_SECONDS = {"cap": 1, "proportional-share": 0.1}
    LONGEST_SECONDS = 0.2  # a graph that has begun within the cap

    def setUp(self):
        super().setUp()
        os.environ["CUDA_LOOP_IMAGE"] = IMAGE
        seed = int(os.environ.get("WEIR_SEED", random.randrange(1 << 30)))
        self.random = random.Random(seed)
        self.policy = self.random.choice(sorted(self.BURST_SECONDS))
        print(f"WEIR_SEED={seed}: {self.kills} kills under {self.policy}")
        self.node.policy(self.policy)
        self.node.create("a", cap=self.CAP, memory_max_bytes=self.LIMIT_MIB << 20)

    def run_in(self, *command, **options):
        return self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--", *command], {},
                                  **options)

    def start_a_loop(self):
        kernel, ahead = self.random.choice((("short_tick", 64), ("tick", 8), ("long_tick", 2)))
        program, more = self.random.choice(sorted(WAYS.values()))
        mode = self.random.choice(("plain", "ptsz", "streams", "graph", "graph,default", "graph,default,ptsz"))
        return self.run_in(program, "600", kernel, str(self.random.randint(1, ahead)), mode + more,
                           str(self.random.choice((1024, 1 << 20))))

    def start_one_that_holds_memory(self):
        program = self.run_in(MEMORY, str(self.BLOCK_MIB), stdin=subprocess.PIPE, text=True)
        self.addCleanup(program.stdin.close)
        kinds = self.random.choices(list(KINDS), k=3)
        program.stdin.write("".join(f"take {kind}\n" for kind in kinds))
        program.stdin.flush()
        return program

    def kill_them(self):
        """Starts and kills programs. Returns how much of the device they have used."""
        alive, first = [], self.node.truth()
        for killed in range(self.kills):
            while len(alive) < min(self.at_once, self.kills - killed):
                alive.append(self.start_one_that_holds_memory() if self.random.random() < 0.3 else self.start_a_loop())
            time.sleep(self.random.uniform(0, 0.4))
            victim = alive.pop(self.random.randrange(len(alive)))
            self.assertIsNone(victim.poll(), f"{victim.args} ended by itself")
            self.tenants.stop(victim)
        last = self.node.truth()
        busy_ns = [truth["devices"][0]["busy_ns"]["compute"] for truth in (first, last)]
        seconds = (last["now_ns"] - first["now_ns"]) / 1e9
        used = (busy_ns[1] - busy_ns[0]) / 1e9
        print(f"{self.kills} killed in {seconds:.2f} s; they used {used:.3f} s of the device, {used / seconds:.4f}")
        self.assertLessEqual(used, self.CAP * (seconds + self.BURST_SECONDS[self.policy]) + self.LONGEST_SECONDS)
        return used

    def test_programs_that_are_killed_leave_no_memory_no_lock_and_no_charge(self):
        used = self.kill_them()
        e2e.wait_for(lambda: not self.node.vgpu("a")["processes"], "the programs are gone")
        card = lambda: self.node.truth()["devices"][0]
        e2e.wait_for(lambda: card()["memory_used_bytes"] == 0 and not card()["clients"], "their memory is free")
        e2e.wait_for(lambda: self.node.vgpu("a")["use"]["program_memory_bytes"] == 0, "no memory is in the books")
        charged = lambda: self.node.vgpu("a")["totals"]["gpu_ns"] / 1e9
        e2e.wait_for(lambda: abs(charged() - used) < 0.01 * used + 0.005, f"{used} s are charged")
        program = self.run_in(MEMORY, str(self.BLOCK_MIB), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertEqual(program.communicate("fill plain\nfree\n", e2e.PATIENCE)[0].split(),
                         [str(self.LIMIT_MIB // self.BLOCK_MIB), "0"])
        done = self.run_in(LOOP, "0", "tick", "8", stdout=subprocess.PIPE, text=True)
        self.assertIn("wrong 0", done.communicate(timeout=e2e.PATIENCE)[0])
        program = self.run_in(LOOP, "600", "tick", "8")
        e2e.wait_for(lambda: self.node.used_ns().get(program.pid), "it computes")

        def check(use):
            print(f"a program afterwards: {use['a']:.4f}")
            self.assertAlmostEqual(use["a"], self.CAP, delta=0.02)

        self.settled({"a": program}, 4, check)


# With "long" as the argument: 100 kills.
if __name__ == "__main__":
    if sys.argv[1:] == ["long"]:
        Kills.kills = 100
        sys.argv[1:] = ["Kills"]
    unittest.main()
