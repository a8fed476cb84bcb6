#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir serve --device emulated:FILE: what it shows and refuses, and the effects of the daemon's or emulator's death."""
import os
import signal
import subprocess
import unittest

import emulated
import weir_e2e as e2e


def emulators_of(node):
    """The pids of a node's emulators, from their command lines."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/weir-emulated-gpu") and os.path.join(node.run_dir, "emulator-0.sock").encode() in words:
            found.append(int(pid))
    return found


class EmulatedNode(emulated.WithEmulatedNode):
    description = '[[device]]\nname = "Small"\nmemory = "1 GiB"\n[[device]]\nname = "Large"\nmemory = "4 GiB"\n' + emulated.FRAMES

    def weir(self, *arguments):
        return subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, *arguments], capture_output=True, text=True,
                              timeout=e2e.PATIENCE)

    def test_devices_are_listed_as_emulated(self):
        devices = self.node.get("/v1/devices")["devices"]
        self.assertEqual([(d["name"], d["kind"], d["model"]) for d in devices],
                         [("emulated0", "emulated", "Small (emulated)"), ("emulated1", "emulated", "Large (emulated)")])
        self.assertEqual(len({d["uuid"] for d in devices}), 2)
        self.assertRegex(self.weir("devices").stdout, r"emulated1 +emulated +Large \(emulated\)")

    def test_a_program_runs_on_the_device_that_it_is_given(self):
        self.node.create("game", device="emulated1")
        program = self.start(e2e.BUMP, "game")
        self.wait_frames("game")
        self.assertEqual(self.node.vgpu("game")["processes"][0]["renderer"], "Large (emulated)")
        self.assertEqual((list(self.node.used_ns(0)), list(self.node.used_ns(1))), ([], [program.pid]))

    def test_weir_run_leads_a_program_to_an_emulated_device(self):
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--device", "emulated0", "--", "glxinfo", "-B"],
                              capture_output=True, text=True, timeout=e2e.PATIENCE,
                              env={**os.environ, **self.display.environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Small (emulated)", done.stdout)

    def test_programs_keep_the_device_when_the_daemon_is_killed(self):
        self.node.create("game")
        program = self.start(e2e.BUMP, "game")
        self.wait_frames("game")
        first = emulators_of(self.node)
        self.assertEqual(len(first), 1)
        self.node.kill()
        before = self.node.used_ns()[program.pid]
        e2e.wait_for(lambda: self.node.used_ns()[program.pid] > before, "it draws without a daemon")
        self.node.start()
        e2e.wait_for(lambda: self.node.vgpu("game")["processes"], "it is attached again")
        e2e.wait_for(lambda: "still has clients" in self.node.log_text(), "the new emulator says why it waits")
        # A new program shares the device with the one that was there before.
        self.node.create("other")
        other = self.start(e2e.TEXTURE, "other")
        self.wait_frames("other")
        self.assertLessEqual({program.pid, other.pid}, set(self.node.used_ns()))
        # After both have ended, the new daemon's emulator takes over.
        for one in (program, other):
            self.tenants.stop(one)
        e2e.wait_for(lambda: len(emulators_of(self.node)) == 1 and emulators_of(self.node) != first, "the first one ends")
        self.start(e2e.BUMP, "game")
        self.wait_frames("game")

    def test_a_killed_emulator_is_started_again(self):
        self.node.create("game")
        [first] = emulators_of(self.node)
        os.kill(first, signal.SIGKILL)
        e2e.wait_for(lambda: emulators_of(self.node) not in ([], [first]), "another one runs")
        self.start(e2e.BUMP, "game")
        self.wait_frames("game")

    def test_the_emulator_ends_with_its_daemon(self):
        self.assertEqual(len(emulators_of(self.node)), 1)
        self.node.process.terminate()
        self.node.process.wait(e2e.PATIENCE)
        e2e.wait_for(lambda: not emulators_of(self.node), "it ends")


class Refused(unittest.TestCase):
    def serve(self, device):
        node = e2e.Node()
        self.addCleanup(node.close)
        return subprocess.run([e2e.WEIR, "serve", "--run-dir", node.run_dir, "--state-dir", node.state_dir, "--device", device],
                              capture_output=True, text=True, timeout=e2e.PATIENCE)

    def test_a_malformed_description_with_its_place(self):
        node = e2e.Node()
        self.addCleanup(node.close)
        path = os.path.join(node.folder, "bad.toml")
        with open(path, "w") as file:
            file.write('[[device]]\nmemory = "8 GB"\n')
        done = self.serve("emulated:" + path)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"{path}:2:10: 'memory' is not a size", done.stderr)

    def test_an_unknown_description_with_the_choices(self):
        done = self.serve("emulated:nothing")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no device description 'nothing'", done.stderr)
        self.assertIn("emulated:FILE", self.serve("card").stderr)


if __name__ == "__main__":
    e2e.main()
