# SPDX-License-Identifier: Apache-2.0
"""What all service programs do alike: their help, their errors about options, and their end with a parent or on a
signal."""
import os
import re
import signal
import subprocess
import tempfile
import unittest

import weir_e2e as e2e

LIBRARY = ("weir-analyzer", "weir-dashboard", "weir-executor", "weir-gpu-account", "weir-gpu-memory", "weir-manager", "weir-member",
           "weir-module-host", "weir-modules", "weir-port", "weir-portal", "weir-relay")
PROGRAMS = {**{name: os.path.join(e2e.BUILD, "lib/weir", name) for name in LIBRARY},
            **{name: os.path.join(e2e.BUILD, "bin", name) for name in ("weir-emulated-gpu", "weir-engine-driver")}}


def ask(name, *arguments):
    return subprocess.run([PROGRAMS[name], *arguments], capture_output=True, text=True, timeout=e2e.PATIENCE,
                          stdin=subprocess.DEVNULL,
                          check=False)


class Usage(unittest.TestCase):
    def refused(self, name, why, *arguments):
        said = ask(name, *arguments)
        self.assertEqual((said.returncode, said.stdout), (2, ""), (name, arguments, said))
        self.assertEqual(said.stderr, f"{name}: {why}; see {name} --help\n")

    def test_help(self):
        for name in PROGRAMS:
            for option in ("--help", "-h"):
                said = ask(name, option)
                self.assertEqual((said.returncode, said.stderr), (0, ""), (name, said))
                self.assertTrue(said.stdout.startswith(f"Usage: {name}"), said.stdout)

    def test_every_option_of_the_help_is_known_and_takes_a_value_where_the_help_has_one(self):
        count = 0
        for name in PROGRAMS:
            for option, value in re.findall(r"^  (--[a-z-]+)(?: (\S+))?  ", ask(name, "--help").stdout, re.MULTILINE):
                count += 1
                if value:
                    self.refused(name, f"option '{option}' needs a value: {value}", option)
                else:
                    self.refused(name, f"option '{option}' takes no value, not 'x'", option + "=x")
        self.assertGreater(count, 100)

    def test_wrong_usage(self):
        for name in PROGRAMS:
            self.refused(name, "unknown option '--no-such'", "--no-such", "x")
            if name == "weir-emulated-gpu":
                self.refused(name, "unknown command 'stray': there are stats and check", "stray")
            else:
                self.refused(name, "unexpected argument 'stray'", "stray")

    def test_numbers(self):
        for name in ("weir-dashboard", "weir-emulated-gpu", "weir-gpu-account", "weir-gpu-memory", "weir-member", "weir-modules", "weir-portal",
                     "weir-relay"):
            self.refused(name, "--parent takes a whole number from 1 to 2147483647, not 'abc'", "--parent", "abc")
        for name in ("weir-dashboard", "weir-port", "weir-relay"):
            self.refused(name, "--ready-fd takes the number of an open descriptor, not '77'", "--ready-fd", "77")
        self.refused("weir-port", "--idle takes a number of seconds from 0 to 1000000000, not '2s'", "--idle", "2s")
        self.refused("weir-executor", "--partition takes auto, never or always, not 'paper'", "--partition", "paper")
        self.refused("weir-executor", "--copy-bandwidth takes a number from 0 to 1000000000, not 'fast'", "--copy-bandwidth=fast")
        self.refused("weir-manager", "--lost-after takes a number of seconds from 1 to 3600, not '0.5'", "--lost-after", "0.5")
        self.refused("weir-engine-driver", "--engine takes openstack or slurm, not 'x'", "--engine", "x")


class End(unittest.TestCase):
    """Programs that end with their parent, and a file that each has made when it is up (None: it makes none)."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-e2e-")
        self.addCleanup(folder.cleanup)

        def path(name):
            return os.path.join(folder.name, name)

        self.programs = {
            "weir-emulated-gpu": (["--devices", "one-small-card", "--socket", path("gpu.sock")], path("gpu.sock")),
            "weir-portal": (["--plain", "--listen", "127.0.0.1:0", "--executors", folder.name, "--port-file", path("port"),
                             "--quiet"], path("port")),
            "weir-member": (["--managers", "127.0.0.1:1", "--node-name", "n", "--identity", path("identity"), "--modules",
                             path("modules.sock"), "--quiet"], path("identity")),
            "weir-dashboard": (["--listen", "127.0.0.1:0", "--control", path("none"), "--token-file", path("token"), "--quiet"],
                               path("token")),
            "weir-gpu-account": (["--emulator", path("none.sock"), "--control", path("none"), "--device", "d"], None)}
        self.running = []
        self.addCleanup(e2e.end_all, self.running)

    def start(self, name, parent):
        arguments, made = self.programs[name]
        process = subprocess.Popen([PROGRAMS[name], *arguments, "--parent", str(parent)])
        self.running.append(process)
        return process, made

    def test_with_the_parent(self):
        for name in self.programs:
            parent = subprocess.Popen(["sleep", "1000"])
            self.running.append(parent)
            process, made = self.start(name, parent.pid)
            if made:
                e2e.wait_for(lambda made=made: os.path.exists(made), f"{name} is up")
            self.assertIsNone(process.poll(), name)
            parent.kill()
            parent.wait()
            self.assertEqual(process.wait(e2e.PATIENCE), 0, name)
            if made and os.path.exists(made):
                os.remove(made)

    def test_with_a_parent_that_has_ended_before(self):
        for name in self.programs:
            parent = subprocess.Popen(["true"])
            parent.wait()
            self.assertEqual(self.start(name, parent.pid)[0].wait(e2e.PATIENCE), 0, name)

    def test_on_a_signal(self):
        for name, (_, made) in self.programs.items():
            for number in (signal.SIGTERM, signal.SIGINT):
                if not made:
                    continue
                process, _ = self.start(name, os.getpid())
                e2e.wait_for(lambda made=made: os.path.exists(made), f"{name} is up")
                process.send_signal(number)
                self.assertEqual(process.wait(e2e.PATIENCE), 0, (name, number))
                if os.path.exists(made):
                    os.remove(made)


if __name__ == "__main__":
    unittest.main(verbosity=2)
