# SPDX-License-Identifier: Apache-2.0
"""What scripts/bench-cuda measures: programs on emulated cards, each row's on a card of its own, natively and in a
vGPU, and what part of its card each row's programs use by the emulator's ground truth."""
import contextlib
import dataclasses
import os
import re
import subprocess
import time
import types

import emulated
import opencl_tenants
import weir_e2e as e2e
from emulated_cuda_e2e import Emulator

LOOP = os.path.join(e2e.BUILD, "bin/cuda_loop")
IMAGE = os.path.join(e2e.BUILD, "lib/test/cuda_image.so")
ARBITRATIONS = {"fifo": "", "time-slice": 'slice = "2 ms"\nswitch_cost = "20 us"\n', "concurrent": ""}
CARD = '[[device]]\nname = "Card"\nmemory = "2 GiB"\narbitration = "{arbitration}"\n{more}'
FRAME_MS = 4
OPENCL_MS = 2


@dataclasses.dataclass(frozen=True)
class Kernel:
    name: str  # in cuda_image.c
    ns: int
    ahead: int  # launches between two waits, and nodes of a graph
    at_once: int  # rows that are measured at the same time: as many as leave the processors mostly idle


KERNELS = {"10us": Kernel("short_tick", 10_000, 100, 1), "1ms": Kernel("tick", 1_000_000, 16, 6),
           "500ms": Kernel("long_tick", 500_000_000, 2, 18)}
COSTS = "".join(f'[[kernel]]\nname = "{one.name}"\nfixed = "{one.ns // 1000} us"\n' for one in KERNELS.values())
# The other tenants' work takes time of the card only.
COSTS += (f'[[kernel]]\nname = "churn"\nper_item = "1 us"\ncomputed = false\n'
          f'[[program]]\nname = "*"\nframe = "{FRAME_MS} ms"\ndrawn = false\n')


@dataclasses.dataclass(frozen=True)
class Case:
    """The programs of a row, without a cap."""
    arbitration: str
    kernel: str
    kind: str  # plain or graph
    processes: int
    stream: str  # legacy, or the thread's

    @property
    def name(self):
        return f"{self.arbitration}, {self.kernel}, {self.kind}, {self.processes} pr., {self.stream}"

    @property
    def unit_s(self):
        """What passes the gate at once, at least."""
        kernel = KERNELS[self.kernel]
        return kernel.ns / 1e9 * (kernel.ahead if self.kind == "graph" else 1)

    def command(self):
        kernel = KERNELS[self.kernel]
        return [LOOP, "100000", kernel.name, str(kernel.ahead), mode_of(self.kind, self.stream)]


def mode_of(kind, stream):
    return ("graph,default" if kind == "graph" else "plain") + (",ptsz" if stream == "thread" else "")


def description_of(arbitrations):
    """A card for each of them."""
    return "".join(CARD.format(arbitration=one, more=ARBITRATIONS[one]) for one in arbitrations) + COSTS


class Programs:
    """Cards, and programs on them."""

    def __init__(self, stack):
        self.stack = stack

    def start(self, device, command):
        """A CUDA program on that card."""
        program = subprocess.Popen(self.through(device, command), env=self.environment(device), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.stack.callback(self.end, program)
        return program

    @staticmethod
    def end(program):
        if program.poll() is None:
            program.kill()
        program.communicate()


class Natively(Programs):
    """Without Weir: an emulator, and programs with its driver."""

    def __init__(self, stack, arbitrations):
        super().__init__(stack)
        test = types.SimpleNamespace(addCleanup=stack.callback)
        self.emulator = Emulator(test, description_of(arbitrations))

    def truth(self):
        return emulated.truth_at(self.emulator.socket)

    def through(self, _, command):
        return command

    def environment(self, device):
        return self.emulator.environment(WEIR_EMULATED_DEVICE=str(device))

    def let_end(self):
        pass


class InVgpus(Programs):
    """Each card has one vGPU with that cap, unless `shared`: then there are none yet."""

    def __init__(self, stack, arbitrations, cap=1.0, policy="cap", shared=False):
        super().__init__(stack)
        self.node = emulated.EmulatedNode(description_of(arbitrations), "--quiet").start()
        stack.callback(self.node.close)
        self.names = [device["name"] for device in self.node.get("/v1/devices")["devices"]]
        for i, device in enumerate(self.names):
            self.node.policy(policy, device)
            if not shared:
                self.node.create(f"row{i}", device=device, cap=cap)

    def truth(self):
        return self.node.truth()

    def through(self, device, command):
        vgpu = f"row{device}" if isinstance(device, int) else device
        return [e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", vgpu, "--", *command]

    def environment(self, _):
        return {**os.environ, "CUDA_LOOP_IMAGE": IMAGE}

    def let_end(self):
        """Without a cap, programs with long kernels end soon."""
        for i in range(len(self.names)):
            status, body = self.node.call("PATCH", f"/v1/vgpus/row{i}", {"cap": 1})
            if status != 200:
                raise AssertionError(f"no cap for row{i}: {status} {body}")


def busy_ns(truth):
    return [device["busy_ns"]["compute"] for device in truth["devices"]]


def kernels_said(program):
    """How many kernels a program has launched, which it must have computed rightly."""
    said = program.communicate(timeout=e2e.PATIENCE)[0]
    found = re.search(r"(\d+) kernels in", said)
    if program.returncode != 0 or "wrong 0" not in said or not found:
        raise AssertionError(f"a program ended with {program.returncode}: {said}")
    return int(found[1]) + 1  # one goes before those that it times


def measure(cases, cap, seconds, settle, policy="cap"):
    """For each case, the part of its card that its programs use, natively if there is no cap. Without `settle` it
    counts from their start, since what they use at once then is a debt that they pay later. The kernels that the
    programs say to have computed must be what the card was busy with, to the nanosecond."""
    with contextlib.ExitStack() as stack:
        arbitrations = [case.arbitration for case in cases]
        cards = Natively(stack, arbitrations) if cap is None else InVgpus(stack, arbitrations, cap, policy)
        programs, first = [], []
        for i, case in enumerate(cases):
            first.append((time.monotonic_ns(), 0))
            programs.append([cards.start(i, case.command()) for _ in range(case.processes)])
        e2e.wait_for(lambda: all(busy_ns(cards.truth())), "the programs compute")
        if settle is not None:
            time.sleep(settle)
            truth = cards.truth()
            first = [(truth["now_ns"], busy) for busy in busy_ns(truth)]
        time.sleep(seconds)
        truth = cards.truth()
        parts = [(busy - before) / (truth["now_ns"] - began) for busy, (began, before) in zip(busy_ns(truth), first)]
        cards.let_end()
        for program in [one for row in programs for one in row]:
            program.terminate()
        counts = [sum(kernels_said(program) for program in row) for row in programs]
        for case, count, busy in zip(cases, counts, busy_ns(cards.truth())):
            if count * KERNELS[case.kernel].ns != busy:
                raise AssertionError(f"{case.name}: {count} kernels were computed, and the card was busy for {busy} ns")
        return parts


def loop_rate(cards, seconds, kind):
    """Kernels a second of a loop of kernels of 10 us, by its own clock."""
    kernel = KERNELS["10us"]
    program = cards.start(0, [LOOP, str(seconds), kernel.name, str(kernel.ahead), mode_of(kind, "legacy")])
    said = program.communicate(timeout=e2e.PATIENCE)[0]
    if program.returncode != 0 or "wrong 0" not in said:
        raise AssertionError(f"a loop ended with {program.returncode}: {said}")
    return float(re.search(r"([\d.]+) kernels/s", said)[1])


class Tenants:
    """Tenants of several APIs, which share cards by their weights. A row is (arbitration, {API: weight})."""

    COMMANDS = {"gl": e2e.PHONG, "opencl": opencl_tenants.loop(100000, OPENCL_MS * 1000, 1, 4, whole=True)}

    def __init__(self, stack, rows, kernel):
        self.rows = rows
        self.cards = InVgpus(stack, [arbitration for arbitration, _ in rows], policy="proportional-share", shared=True)
        self.node = self.cards.node
        self.tenants = e2e.Tenants(e2e.shared_display())
        stack.callback(self.tenants.close)
        one = KERNELS[kernel]
        self.programs = {}
        for i, (_, weights) in enumerate(rows):
            for api, weight in weights.items():
                name = f"{api}{i}"
                self.node.create(name, device=self.cards.names[i], weight=weight)
                if api == "cuda":
                    command = [LOOP, "100000", one.name, str(one.ahead), "plain"]
                    self.programs[name] = self.cards.start(name, command)
                else:
                    self.programs[name] = self.tenants.start(self.COMMANDS[api], self.environment(name))
        for name in self.programs:
            e2e.wait_for(lambda vgpu=name: self.node.vgpu(vgpu)["totals"]["gpu_ns"] > 0, f"{name} computes")

    def environment(self, name):
        return {**self.node.environment(name), "OCL_ICD_VENDORS": os.path.join(e2e.BUILD, "lib/weir/icd"),
                "WEIR_OPENCL": os.path.join(self.node.run_dir, "opencl", name + ".sock")}

    def pids(self, name):
        if name.startswith("opencl"):
            return opencl_tenants.executors_of(self.node, name)
        return [self.programs[name].pid]

    def parts(self, seconds):
        """For each row, what part of its card each API's tenant uses."""
        pids = {name: self.pids(name) for name in self.programs}
        first = self.cards.truth()
        time.sleep(seconds)
        last = self.cards.truth()
        span = last["now_ns"] - first["now_ns"]
        rows = []
        for i, (_, weights) in enumerate(self.rows):
            before, after = emulated.used_ns_in(first, i), emulated.used_ns_in(last, i)
            rows.append({api: sum(after.get(pid, 0) - before.get(pid, 0) for pid in pids[f"{api}{i}"]) / span
                         for api in weights})
        return rows
