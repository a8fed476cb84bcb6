# SPDX-License-Identifier: Apache-2.0
"""Shared by tests of OpenCL on another machine: a node with portals, and programs that use it."""
import os
import shutil
import subprocess
import tempfile
import unittest

import weir_e2e as e2e

SCENES = os.path.join(e2e.BUILD, "bin/opencl_scenes")
KINDS = os.path.join(e2e.BUILD, "bin/opencl_kinds")
LOOP = os.path.join(e2e.BUILD, "bin/opencl_loop")


def scenes(seconds=600, low=16, high=48):
    return [SCENES, str(seconds), str(low), str(high), "4", "1", "0", "4"]


def text_of(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def has_threads(pid):
    """Whether a process has threads that are not zombies."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] not in "ZX":
                    return True
    except (FileNotFoundError, ProcessLookupError):  # the process or thread has ended meanwhile
        return os.path.exists(f"/proc/{pid}")
    return False


class Distant(unittest.TestCase):
    """A node with a plain and a TLS portal, and a tenant's machine, which has its own run folder."""

    def make_node(self):
        return e2e.Node("--listen", "127.0.0.1:0", "--listen-plain", "127.0.0.1:0")

    def setUp(self):
        self.node = self.make_node()
        self.addCleanup(self.node.close)
        self.here = tempfile.mkdtemp(prefix="weir-e2e-")
        self.addCleanup(shutil.rmtree, self.here, ignore_errors=True)
        self.weir("keys", "init", "--dir", self.keys())
        self.node.start()
        self.processes = []
        self.addCleanup(e2e.end_all, self.processes)

    def keys(self):
        return os.path.join(self.node.state_dir, "keys")

    def weir(self, *arguments, code=0):
        done = subprocess.run([e2e.WEIR, *arguments], capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def token(self, vgpu, keys=None, *more):
        path = os.path.join(self.here, vgpu + ".token")
        self.weir("keys", "token", vgpu, "--dir", keys or self.keys(), "--out", path, "--force", *more)
        return path

    def port(self, plain=False):
        path = os.path.join(self.node.run_dir, "portal-plain.port" if plain else "portal.port")
        return int(e2e.wait_for(lambda: text_of(path), "the portal listens"))

    def start(self, command, token=None, vgpu=None, port=None):
        to = ["--token", token] if token else ["--plain", "--vgpu", vgpu]
        process = subprocess.Popen(
            [e2e.WEIR, "run", "--run-dir", os.path.join(self.here, "run"), "--node",
             f"127.0.0.1:{port or self.port(plain=not token)}", *to, "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def ended(self, process, seconds=e2e.PATIENCE):
        out, err = process.communicate(timeout=seconds)
        return process.returncode, out, err

    def over(self, process):
        """Ends a program that a signal brings to its end: it checks all of its results first."""
        process.terminate()
        self.right(process)

    def right(self, process):
        code, out, err = self.ended(process)
        self.assertEqual((code, "wrong 0" in out), (0, True), out + err + self.node.log_text())

    def busy(self, vgpu, more_ns=0):
        e2e.wait_for(lambda: self.node.vgpu(vgpu)["totals"]["gpu_ns"] > more_ns, f"{vgpu} computes")

    def goes_on(self, *vgpus):
        """Waits until each of them has computed more than now."""
        before = self.node.gpu_ns()
        for vgpu in vgpus:
            self.busy(vgpu, before[vgpu])

    def helper(self, name):
        """The pids of this test's relays or portals."""
        found = subprocess.run(["pgrep", "-f", f"{name} .*({self.here}|{self.node.run_dir})"], capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]

    def await_end(self, pids):
        """Waits until all their threads have ended, because only then are all their sockets closed: a process that
        exits closes its connections before its listener, which still accepts a connection between the two."""
        e2e.wait_for(lambda: not any(map(has_threads, pids)), f"the processes {pids} have ended")


class TwoNodes(Distant):
    """Adds another node as a destination. Both have the vGPU 'game'."""

    def make_other(self):
        return e2e.Node("--listen-plain", "127.0.0.1:0", "--quiet")

    def setUp(self):
        super().setUp()
        self.other = self.make_other().start()
        self.addCleanup(self.other.close)
        self.node.create("game")
        self.other.create("game")

    def ports(self):
        path = os.path.join(self.other.run_dir, "portal-plain.port")
        e2e.wait_for(lambda: text_of(path), "the other portal listens")
        return self.port(plain=True), int(text_of(path))

    def try_to_move(self, process, port, *more):
        return subprocess.run(
            [e2e.WEIR, *more, "--run-dir", os.path.join(self.here, "run"), "migrate", str(process.pid), "--to",
             f"127.0.0.1:{port}", "--plain", "--vgpu", "game"], capture_output=True, text=True, timeout=150)

    def move(self, process, port):
        done = self.try_to_move(process, port)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout
