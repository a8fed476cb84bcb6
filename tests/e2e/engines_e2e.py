# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of real external engines: a driver beside a node, and the suite that every engine must pass.

The engines come from Debian's packages (scripts/install-deps --engines). They are started here, in the test's own
folder, on the loopback. No service of the machine is touched.
"""
import os
import shutil
import socket
import subprocess
import sys
import time

import weir_e2e as e2e

DRIVER = os.path.join(e2e.BUILD, "bin/weir-engine-driver")
DRIVERS_TEST = os.path.join(e2e.BUILD, "bin/weir_drivers_test")
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def install():
    """Installs the missing packages, as scripts/test does for other packages; reports a failure to do so."""
    done = subprocess.run([os.path.join(ROOT, "scripts/install-deps"), "--engines"], text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"scripts/install-deps --engines: {done.stdout}{done.stderr}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Started:
    """Processes in groups of their own, which end with the test."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []

    def start(self, name, argv, environment=None):
        log = open(os.path.join(self.folder, name + ".log"), "ab")
        process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
                                   env={**os.environ, **(environment or {})})
        log.close()
        self.processes.append(process)
        return process

    def text(self, name):
        with open(os.path.join(self.folder, name + ".log"), errors="replace") as log:
            return log.read()

    def stop(self, process):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(e2e.PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()

    def close(self):
        for process in reversed(self.processes):
            self.stop(process)


def took(condition, what):
    """Seconds until the condition holds."""
    began = time.monotonic()
    e2e.wait_for(condition, what, most=0)
    return time.monotonic() - began


def figure(text):
    """Prints a measured figure for docs/perf/engines.md. Nothing is asserted about it."""
    print(f"FIGURE {text}", file=sys.stderr, flush=True)


def conformance(test, engine, environment):
    """Runs the suite of src/drivers/conformance_test.cc against the running engine."""
    done = subprocess.run([DRIVERS_TEST, f"--gtest_filter=Engines/Conformance.*/{engine}"], text=True, capture_output=True,
                          env={**os.environ, **environment}, timeout=300)
    test.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    test.assertIn("[  PASSED  ] 4 tests", done.stdout)
    test.assertNotIn("SKIPPED", done.stdout)


def need(*programs):
    for program in programs:
        if shutil.which(program) is None and not os.path.exists(program):
            sys.exit(f"{program} is missing; scripts/install-deps --engines brings it")
