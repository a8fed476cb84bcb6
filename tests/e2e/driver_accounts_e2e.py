# SPDX-License-Identifier: Apache-2.0
"""Drivers' accounts in the formats of NVML and of DRM's fdinfo: what the daemon charges from them."""
import os
import signal
import subprocess
import tempfile
import time
import unittest

import emulated
import weir_e2e as e2e

DRIVERS = os.path.join(e2e.BUILD, "lib/weir/emulated")
NVML = os.path.join(DRIVERS, "nvml/libnvidia-ml.so.1")
ACCOUNT = os.path.join(e2e.BUILD, "lib/weir/weir-gpu-account")


class Nvml(e2e.WithNode):
    """An emulated card that is presented to Weir as NVIDIA's, which Weir therefore reads through NVML only."""

    def make_node(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-e2e-")
        self.addCleanup(folder.cleanup)
        description = os.path.join(folder.name, "card.toml")
        with open(description, "w") as file:
            file.write(emulated.CARD + emulated.FRAMES)
        self.socket = os.path.join(folder.name, "gpu.sock")
        emulator = subprocess.Popen([emulated.EMULATOR, "--devices", description, "--socket", self.socket])
        self.addCleanup(e2e.end_all, [emulator])
        e2e.wait_for(lambda: os.path.exists(self.socket), "the emulator listens")
        os.environ["WEIR_EMULATOR_SOCKET"] = self.socket
        self.addCleanup(os.environ.pop, "WEIR_EMULATOR_SOCKET")
        return e2e.Node("--device", "nvidia:0", "--nvml-library", NVML)

    def start(self, command, vgpu):
        return self.tenants.start(command, {
            **self.node.environment(vgpu), "LD_LIBRARY_PATH": DRIVERS, "__GLX_VENDOR_LIBRARY_NAME": "weiremulated",
            "__EGL_VENDOR_LIBRARY_FILENAMES": os.path.join(DRIVERS, "weiremulated.json")})

    def test_charges_follow_percentages_to_half_a_point(self):
        device = self.node.get("/v1/devices")["devices"][0]
        self.assertEqual((device["name"], device["kind"], device["model"]), ("gpu0", "gpu", "Card (emulated)"))
        self.node.policy("none")
        programs = {}
        for name, command, settings in (("always", e2e.PHONG, {}), ("short", e2e.BUMP, {}), ("rare", e2e.TEXTURE, {"cap": 0.1}),
                                        ("other", e2e.TEXTURE, {"cap": 0.1})):
            self.node.create(name, **settings)
            programs[name] = self.start(command, name)
        for name in programs:
            self.wait_frames(name)
        # It is never stopped: NVML reports no period in which nothing is used, so the one after a pause counts as longer.
        del programs["other"]
        # NVML reports a period of 1/6 s after its end, and the daemon reads it later, a busy host later still: use and
        # charges are compared while the programs are stopped, and both stand still.
        last = self.at_rest(programs)

        def from_rest_to_rest():
            nonlocal last
            first = last
            began_ns = emulated.truth_at(self.socket)["now_ns"]
            self.send(signal.SIGCONT, programs)
            time.sleep(10)
            span_ns = emulated.truth_at(self.socket)["now_ns"] - began_ns
            last = self.at_rest(programs)
            return span_ns, {name: [last[name][i] - first[name][i] for i in (0, 1)] for name in programs}

        def whole_percents(measured):
            span_ns, figures = measured
            for name, (truth, charged) in figures.items():
                print(f"{name}: {truth / 1e9:.3f} s used, {charged / 1e9:.3f} s charged: "
                      f"{(charged - truth) / span_ns:+.2%} of the device")
            for name, (truth, charged) in figures.items():
                self.assertGreater(truth, 0.05 * span_ns, name)
                self.assertLess(abs(charged - truth), 0.005 * span_ns, name)

        # A reader that a busy host stops for more than a second misses a period. A wrong charge stays wrong.
        emulated.settle(from_rest_to_rest, 0, whole_percents)

    @staticmethod
    def send(number, programs):
        for program in programs.values():
            os.killpg(program.pid, number)

    def at_rest(self, programs):
        """Stops the programs. What each has used and what it was charged, once both stand still for longer than a period."""
        self.send(signal.SIGSTOP, programs)

        def figures():
            truth, books = emulated.used_ns_in(emulated.truth_at(self.socket)), self.node.gpu_ns()
            return {name: (truth[program.pid], books[name]) for name, program in programs.items()}

        def still():
            before = figures()
            time.sleep(1.5)
            return figures() == before and before

        return e2e.wait_for(still, "nothing is used or charged any more")


class Fdinfo(e2e.WithNode):
    """The test writes files in the format of /proc: a vGPU is charged by them, whatever its process reports."""

    def say(self, pid, busy_ns):
        os.makedirs(os.path.join(self.proc, str(pid), "fdinfo"), exist_ok=True)
        path = os.path.join(self.proc, str(pid), "fdinfo", "9")
        with open(path + ".new", "w") as file:
            file.write(f"pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t5\ndrm-pdev:\t0000:03:00.0\n"
                       f"drm-engine-gfx:\t{busy_ns} ns\n")
        os.rename(path + ".new", path)

    def charged(self):
        return self.node.gpu_ns()["a"]

    def test_a_vgpu_is_charged_what_fdinfo_says(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-e2e-")
        self.addCleanup(folder.cleanup)
        self.proc = folder.name
        self.node.create("a")
        program = self.start(["glxgears"], "a")
        self.wait_frames("a")
        os.makedirs(os.path.join(self.proc, str(program.pid), "fd"))
        os.symlink("/dev/dri/renderD128", os.path.join(self.proc, str(program.pid), "fd", "9"))
        self.say(program.pid, 7_000_000_000)
        account = subprocess.Popen([ACCOUNT, "--drm", "0000:03:00.0", "--proc", self.proc, "--control", self.node.socket,
                                    "--device", "embedded"])
        self.addCleanup(e2e.end_all, [account])
        # The total stands still after a reading of the account; between two readings it includes the program's own
        # figure, which the next reading corrects.
        def stands_still():
            first = self.charged()
            self.wait_frames("a", 200)
            return abs(self.charged() - first) < 100_000_000
        e2e.wait_for(stands_still, "the charges follow the account")
        first = self.charged()
        self.say(program.pid, 7_400_000_000)
        e2e.wait_for(lambda: abs(self.charged() - first - 400_000_000) < 100_000_000, "0.4 s are charged")
        said = subprocess.run([ACCOUNT, "--drm", "0000:03:00.0", "--proc", self.proc], capture_output=True, text=True,
                              timeout=e2e.PATIENCE)
        self.assertEqual(said.stdout, f"pid {program.pid} client 5 used 7400.000 ms\n")

    def test_a_missing_gpu_is_refused(self):
        said = subprocess.run([e2e.WEIR, "serve", "--run-dir", os.path.join(self.node.folder, "other"), "--device", "drm:none"],
                              capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("--device drm:none: no GPU 'none' with a DRM driver", said.stderr)


if __name__ == "__main__":
    e2e.main()
