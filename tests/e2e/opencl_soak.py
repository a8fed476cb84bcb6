# SPDX-License-Identifier: Apache-2.0
"""Ten minutes (--seconds N) of eight OpenCL tenants at once, by weight. Each writes its own pattern, computes on it and
checks all of it (tests/programs/opencl_loop.c), which shows that no tenant sees another's bytes. Each is restarted
when it ends, and one in eight is killed in the middle. The memory of the executors and of the daemon must not grow
in the second half, shares must be as promised, and nothing may remain at the end."""
import argparse
import os
import random
import signal
import subprocess
import sys
import time

import weir_e2e as e2e
from opencl_tenants import LOOP, executors_of

WEIGHTS = (10, 20, 30, 40, 50, 60, 70, 80)
# Shares are measured over the whole run, in which programs start, compile and end, so that no tenant computes all the
# time.
SHARES_WITHIN = 0.01
# Upper bound of a process's growth from its maximum in the first half to the end: allocators keep some memory.
GROWTH_MAX = 8 << 20
RUN_SECONDS = (8, 20)
KILLED_OF = 8


def resident_bytes(pid):
    """The process's own memory, without the arenas, whose size follows the clients' buffers."""
    fields = {}
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            name, _, value = line.partition(":")
            fields[name] = value
    return int(fields["RssAnon"].split()[0]) * 1024


def holds_an_arena(pid):
    try:
        with open(f"/proc/{pid}/maps") as maps:
            return "weir-opencl-arena" in maps.read()
    except FileNotFoundError:
        return False


class Tenant:
    def __init__(self, node, number, rng):
        self.node, self.name, self.random = node, f"t{number}", rng
        self.items = 1 << (12 + number % 4)  # so that both sizes and contents differ
        self.ended = self.killed = 0
        self.kill_at = None
        self.process = None
        node.create(self.name, weight=WEIGHTS[number])

    def start(self):
        seconds = self.random.uniform(*RUN_SECONDS)
        command = [LOOP, f"{seconds:.1f}", str(self.items), str(self.random.randint(500, 1500)), "8"]
        self.kill_at = time.monotonic() + seconds / 2 if self.random.randrange(KILLED_OF) == 0 else None
        self.process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={
            **os.environ, "OCL_ICD_VENDORS": os.path.join(e2e.BUILD, "lib/weir/icd"),
            "WEIR_OPENCL": os.path.join(self.node.run_dir, "opencl", self.name + ".sock")})

    def look(self, again):
        """Returns what is wrong, or None."""
        if self.process is None:
            return None
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self.process.send_signal(signal.SIGKILL)
            self.killed += 1
        elif self.process.poll() is None:
            return None
        out, err = self.process.communicate()
        fault = None
        if self.kill_at is None and (self.process.returncode != 0 or "wrong 0" not in out):
            fault = f"{self.name}: {self.process.returncode}: {out}{err}"
        self.ended += 1
        self.process = None
        if again:
            self.start()
        return fault


class Soak:
    def __init__(self, seed):
        rng = random.Random(seed)
        self.node = e2e.Node("--quiet").start()
        self.node.policy("proportional-share")
        self.tenants = [Tenant(self.node, i, rng) for i in range(len(WEIGHTS))]
        self.wrong = []
        self.most = ({}, {})  # the maximum of each process's bytes, in each half

    def watch_memory(self, half):
        pids = {"daemon": self.node.process.pid}
        for tenant in self.tenants:
            for pid in executors_of(self.node, tenant.name):
                pids[f"executor of {tenant.name}"] = pid
        for name, pid in pids.items():
            try:
                self.most[half][name] = max(self.most[half].get(name, 0), resident_bytes(pid))
            except FileNotFoundError:
                pass

    def run(self, seconds):
        for tenant in self.tenants:
            tenant.start()
        e2e.wait_for(lambda: all(t > 0 for t in self.node.gpu_ns().values()), "all compute")
        begin, before = time.monotonic(), self.node.gpu_ns()
        while time.monotonic() < begin + seconds and not self.wrong:
            self.wrong += [fault for t in self.tenants if (fault := t.look(again=True))]
            self.watch_memory(int(time.monotonic() > begin + seconds / 2))
            time.sleep(0.1)
        used = {n: t - before[n] for n, t in self.node.gpu_ns().items()}
        deadline = time.monotonic() + 60 + RUN_SECONDS[1]
        while any(t.process for t in self.tenants) and time.monotonic() < deadline:
            self.wrong += [fault for t in self.tenants if (fault := t.look(again=False))]
            time.sleep(0.1)
        self.judge(used)

    def judge(self, used):
        total, weights = sum(used.values()), sum(WEIGHTS)
        print(f"{'tenant':<8}{'share':>8}{'promised':>10}{'programs':>10}{'killed':>8}")
        for tenant, weight in zip(self.tenants, WEIGHTS):
            share, promised = used[tenant.name] / total, weight / weights
            print(f"{tenant.name:<8}{share:>8.4f}{promised:>10.4f}{tenant.ended:>10}{tenant.killed:>8}")
            if abs(share - promised) > SHARES_WITHIN:
                self.wrong.append(f"{tenant.name} has {share:.4f} of what was used, and was promised {promised:.4f}")
            if tenant.process:
                self.wrong.append(f"{tenant.name} still runs")
        for name, late in sorted(self.most[1].items()):
            early = self.most[0].get(name, 0)
            print(f"{name}: {early / 2**20:.1f} MiB at most in the first half, {late / 2**20:.1f} in the second")
            if late > early + GROWTH_MAX:
                self.wrong.append(f"{name} grew from {early} to {late} bytes")
        try:
            e2e.wait_for(lambda: not any(holds_an_arena(p) for t in self.tenants for p in executors_of(self.node, t.name)),
                         "the arenas of clients that have gone are gone")
        except AssertionError as left:
            self.wrong.append(str(left))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    arguments = parser.parse_args()
    print(f"opencl_soak.py --seed {arguments.seed} --seconds {arguments.seconds:g}", flush=True)
    soak = Soak(arguments.seed)
    try:
        soak.run(arguments.seconds)
    finally:
        e2e.end_all([t.process for t in soak.tenants if t.process])
        soak.node.close()
    for line in soak.wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if soak.wrong else 0)


if __name__ == "__main__":
    main()
