# SPDX-License-Identifier: Apache-2.0
"""Ten minutes (WEIR_SOAK_SECONDS) of tenants on elastic memory that is grown, shrunk, made scattered and back under
them, while programs, executors and daemons are killed. Each program checks its own bytes; afterwards nothing is left.

With WEIR_BUILD at a build of the preset asan (targets weir and weir-executor) daemon and executors run under the address
sanitizer, and what it finds is a failure; WEIR_PROGRAMS is then the build that has opencl_scenes and its client library.
"""
import os
import random
import signal
import subprocess
import sys
import time

import weir_e2e as e2e

PROGRAMS = os.environ.get("WEIR_PROGRAMS", e2e.BUILD)
SCENES = os.path.join(PROGRAMS, "bin/opencl_scenes")
SECONDS = float(os.environ.get("WEIR_SOAK_SECONDS", "600"))
os.environ.setdefault("LSAN_OPTIONS", "print_suppressions=0:suppressions=" +
                      os.path.join(os.path.dirname(os.path.abspath(__file__)), "driver_leaks.supp"))
SLOT = 64 << 20
SLOTS = 8
TENANTS = 6


class Soak:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.node = e2e.Node("--quiet").start()
        self.programs = {}
        self.ended = self.killed = self.bounds = self.deaths = 0
        self.wrong = []

    def call(self, method, path, body=None):
        status, reply = self.node.call(method, path, body)
        if status >= 500:
            self.wrong.append(f"{method} {path}: {status} {reply}")
        return status, reply

    def elastic(self):
        status, reply = self.call("PUT", "/v1/devices/embedded/memory", {
            "size_bytes": SLOTS * SLOT, "params": {"layout": self.random.choice(["contiguous", "scattered"]), "sold_max": 10}})
        if status != 200:
            self.wrong.append(f"elastic memory: {reply}")

    def program(self, name):
        high = self.random.choice([64, 128, 192, 256, 320])
        command = [SCENES, str(self.random.uniform(1, 8)), "16", str(high), str(self.random.randint(1, 6)), "1",
                   str(self.random.randint(0, 17)), "3"]
        self.programs[name] = (subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={
            **os.environ, "OCL_ICD_VENDORS": os.path.join(PROGRAMS, "lib/weir/icd"),
            "ASAN_OPTIONS": "verify_asan_link_order=0",
            "WEIR_OPENCL": os.path.join(self.node.run_dir, "opencl", name + ".sock")}), command, set())

    def reap(self):
        for name, (process, command, excused) in list(self.programs.items()):
            if process.poll() is None:
                continue
            out, err = process.communicate()
            del self.programs[name]
            self.ended += 1
            if process.returncode == 0 and "wrong 0" in out:
                continue
            # A program is excused if it or its device was killed, or if it may not have the memory that it needs; never
            # for wrong bytes.
            if process.returncode == 1 or not excused:
                self.wrong.append(f"{' '.join(command)}: {process.returncode}: {out}{err}")

    def excuse(self, name=None):
        for one, (_, _, excused) in self.programs.items():
            if name in (None, one):
                excused.add("killed")

    def step(self):
        names = [f"t{i}" for i in range(TENANTS)]
        name = self.random.choice(names)
        what = self.random.random()
        if what < 0.5 and name not in self.programs:
            self.program(name)
        elif what < 0.8:
            least = self.random.randint(0, 2)
            most = self.random.randint(max(least, 1), 6)
            self.excuse(name)  # the limit may be less than the program's whole need
            self.bounds += 1
            self.call("PATCH", f"/v1/vgpus/{name}", {"memory_min_bytes": least * SLOT, "memory_max_bytes": most * SLOT})
        elif what < 0.9 and name in self.programs:
            self.excuse(name)
            self.killed += 1
            self.programs[name][0].send_signal(signal.SIGKILL)
        elif what < 0.93:
            for process in self.node.vgpu(name)["processes"]:
                if process["program"] == "weir-executor":
                    self.excuse(name)
                    self.deaths += 1
                    try:
                        os.kill(process["pid"], signal.SIGKILL)
                    except ProcessLookupError:
                        pass
        elif what < 0.95:
            self.deaths += 1
            self.node.kill()
            time.sleep(self.random.random())
            self.node.start()
        elif what < 0.97:
            self.elastic()

    def run(self, seconds):
        self.elastic()
        for i in range(TENANTS):
            self.node.create(f"t{i}", memory_min_bytes=SLOT, memory_max_bytes=6 * SLOT)
        until = time.monotonic() + seconds
        most = 0
        while time.monotonic() < until and not self.wrong:
            self.step()
            self.reap()
            most = max(most, sum(v["memory"]["resident_slots"] for v in self.node.get("/v1/vgpus")["vgpus"]))
            time.sleep(self.random.uniform(0, 0.3))
        deadline = time.monotonic() + 300
        while self.programs and time.monotonic() < deadline:
            self.reap()
            time.sleep(0.1)
        if self.programs:
            self.wrong.append(f"still running: {[c for _, c, _ in self.programs.values()]}")
        e2e.wait_for(lambda: all(v["memory"]["made_bytes"] == 0 for v in self.node.get("/v1/vgpus")["vgpus"]),
                     "nothing is left")
        if "AddressSanitizer" in self.node.log_text() or "runtime error" in self.node.log_text():
            self.wrong.append(self.node.log_text()[-4000:])
        print(f"{self.ended} programs ended, {self.killed} killed, {self.deaths} executors and daemons killed, {self.bounds} bounds "
              f"changed, at most {most} of {SLOTS} slots in use", flush=True)


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().getrandbits(32)
    print(f"memory_soak.py {seed}: {SECONDS:g} s", flush=True)
    soak = Soak(seed)
    try:
        soak.run(SECONDS)
    finally:
        for process, _, _ in soak.programs.values():
            process.kill()
            process.communicate()
        soak.node.close()
    for line in soak.wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if soak.wrong else 0)


if __name__ == "__main__":
    main()
