# SPDX-License-Identifier: Apache-2.0
"""Unmodified OpenCL programs share the device by weight, on PoCL, with each other and with OpenGL programs. Shares are
checked against the kernel's own account of the driver's threads."""
import os
import subprocess
import time

import weir_e2e as e2e
from opencl_tenants import OpenClTenants, executors_of, loop


def pocl_seconds(pid):
    """CPU time of an executor's threads but for its own: they are the driver's workers."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/comm") as comm:
                if comm.read().strip() == "weir-session" or int(task) == pid:
                    continue
            with open(f"/proc/{pid}/task/{task}/schedstat") as stat:
                total += int(stat.read().split()[0]) / 1e9
        except FileNotFoundError:
            continue
    return total


class OpenClShares(OpenClTenants):
    def shares_by_kernel(self, vgpus, seconds):
        pids = {v: executors_of(self.node, v)[0] for v in vgpus}
        before = {v: pocl_seconds(p) for v, p in pids.items()}
        time.sleep(seconds)
        used = {v: pocl_seconds(p) - before[v] for v, p in pids.items()}
        return {v: u / sum(used.values()) for v, u in used.items()}

    def test_shares_follow_weights(self):
        self.node.policy("proportional-share")
        for name, weight in (("heavy", 75), ("light", 25)):
            self.node.create(name, weight=weight)
            self.start(loop(600), name)
        for name in ("heavy", "light"):
            self.wait_busy(name)
        time.sleep(1)  # start-up is over

        def weights_are_held():
            books = self.node.gpu_ns()
            shares = self.shares_by_kernel(("heavy", "light"), 15)
            books = {n: t - books[n] for n, t in self.node.gpu_ns().items()}
            print({n: f"{s:.4f} (books {books[n] / sum(books.values()):.4f})" for n, s in shares.items()})
            self.assertAlmostEqual(shares["heavy"], 0.75, delta=0.01)
            self.assertAlmostEqual(books["heavy"] / sum(books.values()), 0.75, delta=0.01)

        e2e.on_a_host_that_gives_time(self, weights_are_held)

    def test_long_kernels_and_short_ones_share_fairly(self):
        self.node.policy("proportional-share")
        self.node.create("long")
        self.node.create("short")
        # Two ahead: one that has nothing to do between its kernels wants less than half where waking up takes long.
        self.start(loop(600, items=1 << 20, rounds=20000, ahead=2), "long")
        self.start(loop(600, items=1 << 12, rounds=200, ahead=64), "short")
        for name in ("long", "short"):
            self.wait_busy(name)
        time.sleep(2)

        def each_has_half():
            shares = self.shares_by_kernel(("long", "short"), 10)
            print({n: f"{s:.4f}" for n, s in shares.items()})
            self.assertAlmostEqual(shares["short"], 0.5, delta=0.01)

        e2e.on_a_host_that_gives_time(self, each_has_half)

    def test_beside_an_opengl_program(self):
        self.node.policy("proportional-share")
        self.node.create("game", weight=50)
        self.node.create("compute", weight=50)
        self.start(e2e.PHONG, "game")
        self.start(loop(600), "compute")
        self.wait_frames("game")
        self.wait_busy("compute")
        time.sleep(1)

        def each_has_half():
            use = self.node.measure(12)
            print({n: f"{u:.3f}" for n, u in use.items()})
            self.assertAlmostEqual(use["game"] / sum(use.values()), 0.5, delta=0.02)

        e2e.on_a_host_that_gives_time(self, each_has_half)

    def tasks(self, vgpus, seconds):
        """Tasks a second that each has ended, by the daemon's count."""
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

        def promises_are_kept():
            batches = self.node.vgpu("marked")["totals"]["frames"]
            rates = self.tasks(tenants, 4)
            batches = (self.node.vgpu("marked")["totals"]["frames"] - batches) / 4
            print({n: f"{r:.1f} tasks/s" for n, r in rates.items()}, f"marked: {batches:.1f} batches/s")
            self.assertAlmostEqual(rates["promised"], 50, delta=2.5)
            self.assertAlmostEqual(rates["marked"], 20, delta=2, msg="four launches between two markers are one task")
            self.assertGreater(batches, 30, "they pass the gate in more than one batch")
            self.assertGreater(rates["other"], 100, "nobody promised it a rate")

        e2e.on_a_host_that_gives_time(self, promises_are_kept)
        top = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "top", "--once", "--no-color"], capture_output=True,
                             text=True, timeout=10)
        self.assertIn("/50 tasks/s", top.stdout, top.stderr)
        status, body = self.node.call("PATCH", "/v1/vgpus/promised", {"fps": 30})
        self.assertEqual(status, 400, body)


if __name__ == "__main__":
    e2e.main()
