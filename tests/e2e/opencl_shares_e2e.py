# SPDX-License-Identifier: Apache-2.0
"""Unmodified OpenCL programs share a device by weight, with each other and with OpenGL programs. The device is
emulated, so its speed does not depend on the host's load. Shares are compared with its ground truth, and so are the
daemon's books."""
import subprocess
import time

import emulated
import weir_e2e as e2e
from opencl_tenants import OpenClTenants, executors_of, loop

# A launch takes no time of the host's processors.
KERNELS = '[[kernel]]\nname = "churn"\nper_item = "30 ns"\ncomputed = false\n'
# For tests of shares: launches that are long compared with the time that a busy host needs to schedule a program. Two
# of them are on the device. They cannot be cut into pieces of 2 ms.
LONG = {"items": 1 << 20, "ahead": 8, "whole": True}  # 31 ms
LONGER = {**LONG, "items": 1 << 22}


class OpenClShares(emulated.WithEmulatedNode, OpenClTenants):
    description = emulated.CARD + emulated.LONG_FRAMES + KERNELS

    def truth_shares(self, pids, seconds):
        """Each process's part of the device time that these processes use over the next `seconds`. `pids`: by vGPU."""
        before = self.node.used_ns()
        time.sleep(seconds)
        after = self.node.used_ns()
        used = {v: after[pid] - before[pid] for v, pid in pids.items()}
        return {v: u / sum(used.values()) for v, u in used.items()}

    def executors(self, *vgpus):
        return {v: executors_of(self.node, v)[0] for v in vgpus}

    def test_shares_follow_weights(self):
        self.node.policy("proportional-share")
        for name, weight in (("heavy", 75), ("light", 25)):
            self.node.create(name, weight=weight)
            self.start(loop(600, **LONG), name)
        for name in ("heavy", "light"):
            self.wait_busy(name)
        time.sleep(1)  # start-up is over

        books = self.node.gpu_ns()
        shares = self.truth_shares(self.executors("heavy", "light"), 15)
        books = {n: t - books[n] for n, t in self.node.gpu_ns().items()}
        print({n: f"{s:.4f} (books {books[n] / sum(books.values()):.4f})" for n, s in shares.items()})
        self.assertAlmostEqual(shares["heavy"], 0.75, delta=0.01)
        self.assertAlmostEqual(books["heavy"] / sum(books.values()), 0.75, delta=0.01)

    def test_long_kernels_and_short_ones_share_fairly(self):
        self.node.policy("proportional-share")
        self.node.create("long")
        self.node.create("short")
        self.start(loop(600, **LONGER), "long")
        self.start(loop(600, **LONG), "short")
        for name in ("long", "short"):
            self.wait_busy(name)
        time.sleep(2)

        shares = self.truth_shares(self.executors("long", "short"), 10)
        print({n: f"{s:.4f}" for n, s in shares.items()})
        self.assertAlmostEqual(shares["short"], 0.5, delta=0.01)

    def test_beside_an_opengl_program(self):
        self.node.policy("proportional-share")
        self.node.create("game", weight=50)
        self.node.create("compute", weight=50)
        game = self.start(e2e.PHONG, "game")
        self.start(loop(600, **LONG), "compute")
        self.wait_frames("game")
        self.wait_busy("compute")
        time.sleep(1)

        books = self.node.gpu_ns()
        shares = self.truth_shares({"game": game.pid, **self.executors("compute")}, 12)
        books = {n: t - books[n] for n, t in self.node.gpu_ns().items()}
        print({n: f"{s:.4f} (books {books[n] / sum(books.values()):.4f})" for n, s in shares.items()})
        self.assertAlmostEqual(shares["game"], 0.5, delta=0.02)
        self.assertAlmostEqual(books["game"] / sum(books.values()), 0.5, delta=0.02)

    def tasks(self, vgpus, seconds):
        """The tasks per second of each vGPU, by the daemon's count."""
        before, start = {v: self.node.vgpu(v)["totals"]["tasks"] for v in vgpus}, time.monotonic()
        time.sleep(seconds)
        span = time.monotonic() - start
        return {v: (self.node.vgpu(v)["totals"]["tasks"] - n) / span for v, n in before.items()}

    def test_a_promise_in_tasks_a_second_is_kept(self):
        self.node.policy("sla-aware")
        tenants = {"promised": {"tasks_per_s": 50}, "marked": {"tasks_per_s": 20}, "other": {}}
        for name, promise in tenants.items():
            self.node.create(name, **promise)
            self.start(loop(600, items=1 << 10, rounds=200, ahead=4, mark=name == "marked"), name)
        for name in tenants:
            self.wait_busy(name)
        time.sleep(1.5)  # start-up is over

        batches = self.node.vgpu("marked")["totals"]["frames"]
        rates = self.tasks(tenants, 4)
        batches = (self.node.vgpu("marked")["totals"]["frames"] - batches) / 4
        print({n: f"{r:.1f} tasks/s" for n, r in rates.items()}, f"marked: {batches:.1f} batches/s")
        self.assertAlmostEqual(rates["promised"], 50, delta=2.5)
        self.assertAlmostEqual(rates["marked"], 20, delta=2, msg="four launches between two markers are one task")
        self.assertGreater(batches, 30, "they pass the gate in more than one batch")
        self.assertGreater(rates["other"], 100, "it has no promised rate")
        top = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "top", "--once", "--no-color"], capture_output=True,
                             text=True, timeout=10)
        self.assertIn("/50 tasks/s", top.stdout, top.stderr)
        status, body = self.node.call("PATCH", "/v1/vgpus/promised", {"fps": 30})
        self.assertEqual(status, 400, body)


if __name__ == "__main__":
    e2e.main()
