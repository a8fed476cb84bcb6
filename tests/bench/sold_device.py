# SPDX-License-Identifier: Apache-2.0
"""The device that scripts/bench-oversubscription sells: how programs use it, and how their use is measured without the daemon's books."""
import os
import shutil
import subprocess

import emulated
import weir_e2e as e2e

LOOP = os.path.join(e2e.BUILD, "bin/opencl_loop")
ALL_CPUS = os.sched_getaffinity(0)


def tasks_of(pid):
    try:
        return [int(task) for task in os.listdir(f"/proc/{pid}/task")]
    except FileNotFoundError:
        return []


def affinity_of(task):
    try:
        return os.sched_getaffinity(task)
    except ProcessLookupError:
        return set()


class OneCpu:
    """A processor as the device. The programs' own work, the X server and the daemon have the others."""

    CPU = min(ALL_CPUS)
    OTHERS = ALL_CPUS - {CPU}
    label, measured_by = "embedded", "the kernel's clocks of the threads that worked on it"
    described = f"one of {len(ALL_CPUS)} CPUs"
    lacks = None if OTHERS else "one CPU is to be the device and another one to run the programs: two are needed"

    def __init__(self):
        self.per_second, self.seen = None, set()

    def start(self, policy):
        os.environ.update(LP_NUM_THREADS="1", POCL_MAX_PTHREAD_COUNT="1")
        return e2e.Node("--quiet", "--policy", policy, "--device-cpus", str(self.CPU)).start()

    def keep_off(self, pid):
        os.sched_setaffinity(pid, self.OTHERS)

    def keep_programs_off(self, node):
        """What programs do themselves is kept off the device's CPU. Not before they have used it: workers are pinned to
        it within what their program may use."""
        for vgpu in node.get("/v1/vgpus")["vgpus"]:
            for process in vgpu["processes"] if vgpu["totals"]["gpu_ns"] > 0 else ():
                if process["id"] not in self.seen:
                    self.seen.add(process["id"])  # and a second later, when it has used it for sure
                    continue
                for task in tasks_of(process["pid"]):
                    if affinity_of(task) == ALL_CPUS:
                        os.sched_setaffinity(task, self.OTHERS)

    def kernel(self, ms):
        """The task loop with kernels of so long: rounds of one work-item, which nothing can cut."""
        if self.per_second is None:
            native = {**os.environ, "OCL_ICD_VENDORS": "/etc/OpenCL/vendors"}
            done = subprocess.run([LOOP, "1.5", "1", "20000000"], env=native, capture_output=True, text=True, check=True)
            self.per_second = 20_000_000 * float(done.stdout.split("ready")[1].split()[0])
        return [LOOP, "100000", "1", str(max(int(self.per_second * ms / 1000), 1))], {}

    def scene(self, name, size):
        return ["glmark2", "-b", f"{name}:duration=3600", "-s", size], {}

    def used_s(self, node, vgpu):
        """Of the device, by a vGPU's processes."""
        total = 0
        for pid in [p["pid"] for p in node.vgpu(vgpu)["processes"]]:
            for task in tasks_of(pid):
                try:
                    if affinity_of(task) != {self.CPU}:
                        continue
                    with open(f"/proc/{pid}/task/{task}/schedstat") as stat:
                        total += int(stat.read().split()[0]) / 1e9
                except FileNotFoundError:
                    continue
        return total

    def busy_s(self, node):
        """Seconds since boot that any process used the processor; without the time that a virtual machine's host took."""
        with open("/proc/stat") as stat:
            for line in stat:
                fields = line.split()
                if fields[0] == f"cpu{self.CPU}":
                    user, nice, system, _, _, irq, softirq = (int(x) for x in fields[1:8])
                    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
        raise AssertionError("no such CPU in /proc/stat")

    def used_each(self, node, vgpus):
        return {}

    def use_of(self, sample):
        """Of a second of `sell`: what programs used, by the daemon's books."""
        return sum(v["gpu"] for v in sample["vgpus"].values())


class EmulatedCard:
    """The device of a description. Frames and kernels cost what it says; a glmark2 scene is a program with a name of its own there."""

    label, measured_by, lacks = "emulated", "the emulator's ground truth", None

    def __init__(self, device):
        self.path, self.pids = emulated.path_of(device), {}
        if not os.path.exists(self.path):
            self.lacks = f"there is no description {self.path}"
        self.described = f"emulated ({os.path.basename(self.path)})"

    def start(self, policy):
        return e2e.Node("--quiet", "--policy", policy, "--device", "emulated:" + self.path).start()

    def keep_off(self, pid):
        pass

    def keep_programs_off(self, node):
        pass

    def kernel(self, ms):
        """Its description gives each work-item a millisecond. With get_global_size in the kernel launches cannot be cut. So
        many are enqueued before each finish that the device has work while the program waits for a processor."""
        return [LOOP, "100000", str(ms), "1", str(max(20 // ms, 1)), "0", "0", "1"], {}

    def scene(self, name, size):
        # Mesa 22.3 without drawing crashes in the scene desktop. What a frame costs is the description's.
        drawn = "shading:shading=phong" if name == "desktop" else name
        return ([f"glmark2-{name}", "-b", f"{drawn}:duration=3600", "-s", size], {"executable": shutil.which("glmark2")})

    def truth(self, node):
        return emulated.truth_at(os.path.join(node.run_dir, "emulator-0.sock"))

    def used_each(self, node, vgpus):
        """Of the device, by the processes that each vGPU has now."""
        used = emulated.used_ns_in(self.truth(node))
        return {v["name"]: {p["pid"]: used.get(p["pid"], 0) / 1e9 for p in v["processes"]} for v in vgpus}

    def used_s(self, node, vgpu):
        pids = self.pids.setdefault(vgpu, set())
        pids |= {p["pid"] for p in node.vgpu(vgpu)["processes"]}  # the daemon may forget a process that a busy host stops for long
        used = emulated.used_ns_in(self.truth(node))
        return sum(used.get(pid, 0) for pid in pids) / 1e9

    def busy_s(self, node):
        return self.truth(node)["devices"][0]["busy_ns"]["compute"] / 1e9

    def use_of(self, sample):
        return sample["busy"]
