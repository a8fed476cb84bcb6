# SPDX-License-Identifier: Apache-2.0
"""Shared by the end-to-end tests: a real daemon in its own folder, a real X server, real programs as tenants.

No sleep replaces a condition: wait_for() polls one with a deadline. Measurements of a share run for a given time,
because a share is defined over a time span.
"""
import atexit
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.environ.get("WEIR_BUILD", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/dev"))
WEIR = os.path.join(BUILD, "bin/weir")
PRELOAD = os.path.join(BUILD, "lib/weir/libweir-gl-preload.so")
# The folder of the Vulkan layer's manifest.
LAYER = os.path.join(BUILD, "lib/weir/share")
DATA_DIRS = os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"


# No test asserts that something is fast: what is waited for may take this long on a machine that does other work too.
PATIENCE = 300


def wait_for(condition, what, seconds=PATIENCE, pause=0.02, most=0.06):
    """What `condition` gives once that is true. The longer the wait, the longer the pauses, up to `most`, because each
    question takes processor time from what is waited for. Who measures the wait gives a `most` of 0."""
    began = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(max(pause, min(waited / 20, most)))


def commands_of(completions, words=()):
    """All commands, as a shell is told. `completions` gives what may follow some words."""
    found = {words}
    for line in completions(*words).splitlines():
        name, _, summary = line.partition("\t")
        if summary and re.fullmatch("[a-z]+", name):  # choices and names have no summary
            found |= {(name,)} if name == "help" else commands_of(completions, (*words, name))  # after it come all others again
    return found


def processor_ticks():
    """(the processor time that all threads here have used, the processor time that the host of this virtual machine has
    withheld)."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, interrupts, soft, stolen = [int(n) for n in stat.readline().split()[1:9]]
    return user + nice + system + interrupts + soft, stolen


def last_lines(file, count=10, most_bytes=4096):
    """Of a file that another process may still write to."""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), most_bytes, max(0, size - most_bytes)).decode(errors="replace").splitlines()[-count:]


def end_all(processes):
    """Kills those that still run, and closes their output files."""
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


class UnixHttp(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("weir", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


class Node:
    """A daemon that a test starts, stops and kills."""

    def __init__(self, *arguments):
        self.folder = tempfile.mkdtemp(prefix="weir-e2e-")
        self.run_dir = os.path.join(self.folder, "run")
        self.state_dir = os.path.join(self.folder, "state")
        self.socket = os.path.join(self.run_dir, "control.sock")
        self.arguments = arguments
        self.process = None
        self.log = open(os.path.join(self.folder, "daemon.log"), "ab")

    def start(self):
        self.process = subprocess.Popen(
            [WEIR, "serve", "--run-dir", self.run_dir, "--state-dir", self.state_dir, *self.arguments],
            stderr=self.log, stdout=self.log)
        wait_for(self.answers, "the daemon answers")
        return self

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon ended with {self.process.returncode}: {self.log_text()}")
        try:
            return self.get("/v1/status")["pid"] == self.process.pid
        except (OSError, http.client.HTTPException):
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log_text(self):
        with open(os.path.join(self.folder, "daemon.log"), errors="replace") as log:
            return log.read()

    def call(self, method, path, body=None):
        connection = UnixHttp(self.socket)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            reply = connection.getresponse()
            text = reply.read().decode()
            kind = reply.getheader("content-type", "")
            return reply.status, json.loads(text) if "json" in kind else text
        finally:
            connection.close()

    def get(self, path):
        status, body = self.call("GET", path)
        if status != 200:
            raise AssertionError(f"GET {path}: {status} {body}")
        return body

    def create(self, name, **settings):
        status, body = self.call("POST", "/v1/vgpus", {"name": name, **settings})
        if status != 201:
            raise AssertionError(f"creating {name}: {status} {body}")
        return body

    def policy(self, name, device="", **params):
        device = device or self.get("/v1/devices")["devices"][0]["name"]
        status, body = self.call("PUT", f"/v1/devices/{device}/policy", {"policy": name, "params": params})
        if status != 200:
            raise AssertionError(f"policy {name}: {status} {body}")

    def report(self):
        """What a reader of a failed test wants to know of the daemon."""
        status = self.process.poll() if self.process else "never started"
        lines = ["the daemon " + ("runs" if status is None else f"ended with {status}; its last lines:")]
        lines += ["    " + line for line in self.log_text().splitlines()[-10:]]
        if status is None:
            for vgpu in self.get("/v1/vgpus")["vgpus"]:
                lines.append("vGPU " + json.dumps({key: vgpu[key] for key in (
                    "name", "device", "state", "settings", "cap_now", "totals", "processes")}))
            for event in self.get("/v1/events?limit=1000")["events"][-20:]:
                lines.append("event " + json.dumps(event))
        return lines

    def vgpu(self, name):
        return self.get(f"/v1/vgpus/{name}")

    def gpu_ns(self):
        return {v["name"]: v["totals"]["gpu_ns"] for v in self.get("/v1/vgpus")["vgpus"]}

    def measure(self, seconds):
        """GPU time per second of each vGPU over the next `seconds`, by the daemon's books."""
        before, start = self.gpu_ns(), time.monotonic()
        time.sleep(seconds)
        after, span = self.gpu_ns(), time.monotonic() - start
        return {name: (after[name] - before[name]) / span / 1e9 for name in after if name in before}

    def environment(self, name):
        """The environment of the vGPU's programs, with the variables that its device needs."""
        return {"LD_PRELOAD": PRELOAD, "WEIR_VULKAN_LAYER": "1", "XDG_DATA_DIRS": f"{DATA_DIRS}:{LAYER}",
                "WEIR_ATTACH": os.path.join(self.run_dir, "vgpu", name + ".sock"),
                **dict(entry.split("=", 1) for entry in self.vgpu(name)["environment"])}


def doctor(node, program, seen, environment):
    """The exit status and the report of `weir doctor` for a program. The trial ends, as by Ctrl-C, once `seen` holds for the
    vGPU that it makes: programs that draw as fast as they can keep the processors busy for as long as it takes."""
    others = {vgpu["name"] for vgpu in node.get("/v1/vgpus")["vgpus"]}
    process = subprocess.Popen([WEIR, "--run-dir", node.run_dir, "doctor", "--json", "--seconds", str(PATIENCE), "--", *program],
                               stdout=subprocess.PIPE, text=True, env=environment)

    def over():
        vgpus = node.get("/v1/vgpus")["vgpus"]
        return process.poll() is not None or any(seen(vgpu) for vgpu in vgpus if vgpu["name"] not in others)

    try:
        wait_for(over, "the trial shows it")
    finally:
        process.send_signal(signal.SIGINT)  # it ends its program
        out, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, json.loads(out)


class Display:
    """An X server without a screen; Mesa renders on the CPU."""

    def __init__(self):
        read, write = os.pipe()
        self.process = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x1024x24", "-nolisten", "tcp", "-noreset"],
            pass_fds=[write], stderr=subprocess.DEVNULL)
        os.close(write)
        with os.fdopen(read) as answer:
            number = answer.readline().strip()
        if not number:
            raise AssertionError("Xvfb did not start")
        self.name = ":" + number
        self.environment = {"DISPLAY": self.name, "LIBGL_ALWAYS_SOFTWARE": "1", "vblank_mode": "0"}

    def close(self):
        # The server misses a signal that comes just before it sleeps, until it wakes, which may take ten minutes.
        for end in (self.process.terminate, self.process.terminate, self.process.kill):
            end()
            try:
                return self.process.wait(3)
            except subprocess.TimeoutExpired:
                continue


_displays = {}


def shared_display():
    """The X server of all tests of this process. A program's windows vanish with the program, so each test finds it empty.
    Tests whose programs run promptly (emulated.run_promptly) have one that does so too."""
    policy = os.sched_getscheduler(0)
    if policy not in _displays or _displays[policy].process.poll() is not None:
        _displays[policy] = Display()
        atexit.register(_displays[policy].close)
    return _displays[policy]


def worker_seconds(pid):
    """CPU time of the renderer's worker threads, from the kernel and not from the daemon's books."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/comm") as comm:
                if not comm.read().startswith("llvmpipe-"):
                    continue
            with open(f"/proc/{pid}/task/{task}/schedstat") as stat:
                total += int(stat.read().split()[0]) / 1e9
        except FileNotFoundError:
            continue
    return total


class Tenants:
    """Programs that run until the test ends, each in its own process group."""

    def __init__(self, display):
        self.display = display
        self.processes = []
        self.errors = {}  # by pid, what a program writes to its standard error, unless the test reads that itself

    def start(self, command, environment=None, **options):
        errors = None if "stderr" in options else tempfile.TemporaryFile()
        process = subprocess.Popen(
            command, env={**os.environ, **self.display.environment, **(environment or {})},
            stdout=options.pop("stdout", subprocess.DEVNULL), stderr=options.pop("stderr", errors),
            start_new_session=True, **options)
        self.processes.append(process)
        if errors:
            self.errors[process.pid] = errors
        return process

    def report(self):
        """What a reader of a failed test wants to know of the programs."""
        lines = []
        for process in self.processes:
            status = process.poll()
            lines.append(f"{process.pid} {' '.join(process.args)[:200]}: "
                         + ("runs" if status is None else f"ended with {status}"))
            if process.pid in self.errors:
                lines += ["    " + line for line in last_lines(self.errors[process.pid])]
        return lines

    def stop(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        self.processes.remove(process)

    def close(self):
        for process in list(self.processes):
            self.stop(process)
        for errors in self.errors.values():
            errors.close()


# Three programs that keep the device busy, with frames of different lengths; one of them uses EGL.
PHONG = ["glmark2", "-b", "shading:shading=phong:duration=600", "-s", "800x600"]
BUMP = ["glmark2", "-b", "bump:duration=600", "-s", "800x600"]
TEXTURE = ["glmark2-es2", "-b", "texture:duration=600", "-s", "800x600"]
# A program that draws some 50 frames a second: for tests that need one, and not all of the processors.
WINDOWS = os.path.join(BUILD, "bin/weir_windows")
DRAWS = [WINDOWS, "--frames", "0", "--interval-ms", "20"]


class WithNode(unittest.TestCase):
    serve_arguments = ()

    def setUp(self):
        self.node = self.make_node().start()
        self.addCleanup(self.node.close)
        self.display = shared_display()
        self.tenants = Tenants(self.display)
        self.addCleanup(self.tenants.close)
        self.addCleanup(self.explain_a_failure)

    def explain_a_failure(self):
        """Runs before anything is ended. A failure that a busy machine shows once in fifty runs must explain itself."""
        result = self._outcome.result
        if all(test is not self for test, _ in result.failures + result.errors):
            return
        print(f"\n-- {self.id()} has failed; its programs and its daemon:", file=sys.stderr)
        for part in (self.tenants, self.node):
            try:
                print(*part.report(), sep="\n", file=sys.stderr)
            except Exception as why:  # a daemon that the test has stopped or damaged
                print(f"({why})", file=sys.stderr)

    def make_node(self):
        return Node(*self.serve_arguments)

    def start(self, command, vgpu):
        return self.tenants.start(command, self.node.environment(vgpu))

    def wait_frames(self, vgpu, more=20, seconds=PATIENCE):
        first = self.node.vgpu(vgpu)["totals"]["frames"]
        wait_for(lambda: self.node.vgpu(vgpu)["totals"]["frames"] >= first + more, f"frames of {vgpu}", seconds=seconds)


def main():
    for program in ("Xvfb", "glmark2", "glmark2-es2", "glxgears"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing; scripts/install-deps --test brings it")
    unittest.main(verbosity=2)
