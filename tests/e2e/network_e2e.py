# SPDX-License-Identifier: Apache-2.0
"""OpenCL on another machine's device: real programs behind a relay and a portal, over TLS, over a long way, refused, cut
off and killed. Both machines are this one; what is between them is TCP."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import weir_e2e as e2e
from delay_proxy import DelayProxy

SCENES = os.path.join(e2e.BUILD, "bin/opencl_scenes")
LOOP = os.path.join(e2e.BUILD, "bin/opencl_loop")


def scenes(seconds, low=16, high=48):
    return [SCENES, str(seconds), str(low), str(high), "4", "1", "0", "4"]


def text_of(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


class Distant(unittest.TestCase):
    """A node with a portal each way, and a tenant's machine: a run folder of its own."""

    def setUp(self):
        self.node = e2e.Node("--listen", "127.0.0.1:0", "--listen-plain", "127.0.0.1:0")
        self.addCleanup(self.node.close)
        self.here = tempfile.mkdtemp(prefix="weir-e2e-")
        self.addCleanup(shutil.rmtree, self.here, ignore_errors=True)
        self.weir("keys", "init", "--dir", self.keys())
        self.node.start()
        self.processes = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def keys(self):
        return os.path.join(self.node.state_dir, "keys")

    def weir(self, *arguments, code=0):
        done = subprocess.run([e2e.WEIR, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def token(self, vgpu, keys=None, *more):
        path = os.path.join(self.here, vgpu + ".token")
        self.weir("keys", "token", vgpu, "--dir", keys or self.keys(), "--out", path, *more)
        return path

    def port(self, plain=False):
        path = os.path.join(self.node.run_dir, "portal-plain.port" if plain else "portal.port")
        return int(e2e.wait_for(lambda: text_of(path), 20, "the portal listens"))

    def start(self, command, token=None, vgpu=None, port=None):
        to = ["--token", token] if token else ["--plain", "--vgpu", vgpu]
        process = subprocess.Popen(
            [e2e.WEIR, "run", "--run-dir", os.path.join(self.here, "run"), "--node",
             f"127.0.0.1:{port or self.port(plain=not token)}", *to, "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def ended(self, process, seconds=120):
        out, err = process.communicate(timeout=seconds)
        return process.returncode, out, err

    def right(self, process):
        code, out, err = self.ended(process)
        self.assertEqual((code, "wrong 0" in out), (0, True), out + err + self.node.log_text())

    def busy(self, vgpu, more_ns=0):
        e2e.wait_for(lambda: self.node.vgpu(vgpu)["totals"]["gpu_ns"] > more_ns, 60, f"{vgpu} computes")

    def helper(self, name):
        """Pids of relays or portals of this test."""
        found = subprocess.run(["pgrep", "-f", f"{name} .*({self.here}|{self.node.run_dir})"], capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]


class Programs(Distant):
    def test_unmodified_programs_compute_there_what_they_compute_here(self):
        self.node.create("game")
        token = self.token("game")
        code, out, err = self.ended(self.start(["clinfo", "-l"], token))
        self.assertEqual((code, "Platform #0: Weir" in out), (0, True), out + err)
        code, out, err = self.ended(self.start(["clblast_test_xaxpy"], token))
        self.assertEqual(code, 0, out + err)
        self.assertEqual(out.count("   0 test(s) failed"), 4, out)
        self.right(self.start(scenes(2), token))
        self.assertGreater(self.node.vgpu("game")["totals"]["gpu_ns"], 0, "it passed the node's gate")

    def test_two_of_them_share_as_promised_to_each(self):
        for name in ("a", "b"):
            self.node.create(name)
        programs = [self.start(scenes(3), self.token(name)) for name in ("a", "b")]
        for program in programs:
            self.right(program)

    def test_a_long_way_changes_no_byte(self):
        self.node.create("game")
        proxy = DelayProxy(("127.0.0.1", self.port(plain=True)), 0.02)
        self.addCleanup(proxy.close)
        self.right(self.start(scenes(3), vgpu="game", port=proxy.port))
        self.assertGreater(proxy.connections, 0)


class Refusals(Distant):
    def refused(self, process, *words):
        code, out, err = self.ended(process)
        self.assertNotEqual(code, 0, out + err)
        for word in words:
            self.assertIn(word, err)

    def test_each_is_told_why_in_words_before_its_program_starts(self):
        self.node.create("game")
        mine = self.token("game")
        self.refused(self.start(["clinfo", "-l"], self.token("nobody")), "no vGPU 'nobody'")
        other_keys = os.path.join(self.here, "other-keys")
        self.weir("keys", "init", "--dir", other_keys)
        self.refused(self.start(["clinfo", "-l"], self.token("game2", other_keys)), "is not the one in the token")
        self.refused(self.start(["clinfo", "-l"], vgpu="game", port=self.port()), "a port with TLS, for --token?")
        self.refused(self.start(["clinfo", "-l"], mine, port=self.port(plain=True)), "a port without TLS, for --plain?")
        self.refused(self.start(["clinfo", "-l"], vgpu="../../control"), "names no vGPU")
        self.assertEqual(self.ended(self.start(["clinfo", "-l"], mine))[0], 0)
        self.weir("keys", "revoke", "game", "--dir", self.keys())
        self.refused(self.start(["clinfo", "-l"], mine), "revoked")

    def test_strangers_change_nothing_for_those_who_are_known(self):
        self.node.create("game")
        program = self.start(scenes(4), self.token("game"))
        self.busy("game")
        strangers = []
        for plain in (False, True):
            for said in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(5000), b"\0" * 16, b"\x16\x03\x01\x02\x00"):
                stranger = socket.create_connection(("127.0.0.1", self.port(plain)))
                stranger.sendall(said)
                strangers.append(stranger)
        for _ in range(200):  # a scanner
            socket.create_connection(("127.0.0.1", self.port())).close()
        self.right(program)
        for stranger in strangers:
            stranger.close()
        self.assertEqual(self.ended(self.start(["clinfo", "-l"], self.token("game")))[0], 0)
        self.assertNotIn("the portal has ended", self.node.log_text())


class Failures(Distant):
    def test_when_the_way_is_cut_the_program_ends_with_an_error_and_the_next_one_works(self):
        self.node.create("game")
        token = self.token("game")
        for name in ("weir-relay", "weir-portal"):
            before = self.node.vgpu("game")["totals"]["gpu_ns"]
            program = self.start([LOOP, "60", "65536", "200", "4"], token)
            self.busy("game", before)
            for pid in self.helper(name):
                os.kill(pid, signal.SIGKILL)
            code, out, err = self.ended(program)
            self.assertNotEqual(code, 0, out + err)
            e2e.wait_for(lambda: self.ended(self.start(["clinfo", "-l"], token))[0] == 0, 30, "the portal is back")

    def test_a_tenant_that_vanishes_leaves_nothing(self):
        self.node.create("game")
        proxy = DelayProxy(("127.0.0.1", self.port(plain=True)), 0)
        self.addCleanup(proxy.close)
        program = self.start(scenes(60), vgpu="game", port=proxy.port)
        self.busy("game")
        proxy.cut()
        self.assertNotEqual(self.ended(program)[0], 0)
        e2e.wait_for(lambda: "has left 'game'" in self.node.log_text(), 20, "the portal has noticed")

    def test_the_daemons_death_costs_a_distant_program_nothing(self):
        self.node.create("game")
        token = self.token("game")
        program = self.start(scenes(6), token)
        self.busy("game")
        self.node.kill()
        self.assertIsNone(program.poll())
        self.node.start()
        self.right(program)
        self.assertEqual(self.ended(self.start(["clinfo", "-l"], token))[0], 0)

    def test_a_relay_ends_with_its_program(self):
        self.node.create("game")
        self.assertEqual(self.ended(self.start(["clinfo", "-l"], vgpu="game"))[0], 0)
        e2e.wait_for(lambda: not self.helper("weir-relay"), 20, "the relay has ended")
        self.assertEqual([f for f in os.listdir(os.path.join(self.here, "run")) if f.startswith("relay")], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
