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
    prompt_if_permitted = True
    description = emulated.CARD + emulated.LONG_FRAMES + KERNELS

    def shares_settle(self, wanted, delta, seconds, pids=None, books=False):
        """Of the device time that these vGPUs use, each has its wanted part. `pids`: of the process on the device, where that
        is no executor. `books`: by the daemon's books too."""
        pids = {v: (pids or {}).get(v) or executors_of(self.node, v)[0] for v in wanted}
        booked_before = self.node.gpu_ns()

        def check(use):
            total = self.node.gpu_ns()
            booked = {v: total[v] - booked_before[v] for v in wanted}
            shares = {v: u / sum(use.values()) for v, u in use.items()}
            by_books = {v: b / sum(booked.values()) for v, b in booked.items()}
            print({v: f"{s:.4f} (books {by_books[v]:.4f})" for v, s in shares.items()})
            for vgpu, share in wanted.items():
                self.assertAlmostEqual(shares[vgpu], share, delta=delta, msg=vgpu)
                if books:
                    self.assertAlmostEqual(by_books[vgpu], share, delta=delta, msg=f"{vgpu}, by the books")

        self.settled(pids, seconds, check)

    def test_shares_follow_weights(self):
        self.node.policy("proportional-share")
        for name, weight in (("heavy", 75), ("light", 25)):
            self.node.create(name, weight=weight)
            self.start(loop(600, **LONG), name)
        for name in ("heavy", "light"):
            self.wait_busy(name)
        time.sleep(1)  # start-up is over

        self.shares_settle({"heavy": 0.75, "light": 0.25}, 0.01, 10, books=True)

    def test_long_kernels_and_short_ones_share_fairly(self):
        self.node.policy("proportional-share")
        self.node.create("long")
        self.node.create("short")
        self.start(loop(600, **LONGER), "long")
        self.start(loop(600, **LONG), "short")
        for name in ("long", "short"):
            self.wait_busy(name)
        time.sleep(2)

        self.shares_settle({"long": 0.5, "short": 0.5}, 0.01, 10)

    def test_beside_an_opengl_program(self):
        self.node.policy("proportional-share")
        self.node.create("game", weight=50)
        self.node.create("compute", weight=50)
        game = self.start(e2e.PHONG, "game")
        self.start(loop(600, **LONG), "compute")
        self.wait_frames("game")
        self.wait_busy("compute")
        time.sleep(1)

        self.shares_settle({"game": 0.5, "compute": 0.5}, 0.02, 10, pids={"game": game.pid}, books=True)

    def test_a_promise_in_tasks_a_second_is_kept(self):
        self.node.policy("sla-aware")
        tenants = {"promised": {"tasks_per_s": 50}, "marked": {"tasks_per_s": 20}, "other": {}}
        for name, promise in tenants.items():
            self.node.create(name, **promise)
            self.start(loop(600, items=1 << 10, rounds=200, ahead=4, mark=name == "marked"), name)
        for name in tenants:
            self.wait_busy(name)
        time.sleep(1.5)  # start-up is over

        def counts():
            return {v: self.node.vgpu(v)["totals"] for v in tenants}

        before, start = counts(), time.monotonic()

        def rates():
            after, span = counts(), time.monotonic() - start
            return {kind: {v: (after[v][kind] - before[v][kind]) / span for v in tenants} for kind in ("tasks", "frames")}

        def check(rates):
            tasks, batches = rates["tasks"], rates["frames"]["marked"]
            print({n: f"{r:.1f} tasks/s" for n, r in tasks.items()}, f"marked: {batches:.1f} batches/s")
            self.assertAlmostEqual(tasks["promised"], 50, delta=2.5)
            self.assertAlmostEqual(tasks["marked"], 20, delta=2, msg="four launches between two markers are one task")
            self.assertGreater(batches, 1.5 * tasks["marked"], "they pass the gate in more than one batch")
            paced = {v: self.node.vgpu(v)["window"]["pace_share"] for v in tenants}
            self.assertEqual(paced["other"], 0, "it has no promise of a rate")
            self.assertGreater(min(paced["promised"], paced["marked"]), 0)

        emulated.settle(rates, 4, check)
        top = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "top", "--once", "--no-color"], capture_output=True,
                             text=True, timeout=e2e.PATIENCE)
        self.assertIn("/50 tasks/s", top.stdout, top.stderr)
        status, body = self.node.call("PATCH", "/v1/vgpus/promised", {"fps": 30})
        self.assertEqual(status, 400, body)


class LongKernels(emulated.WithEmulatedNode, OpenClTenants):
    """One program launches kernels of 2 ms and waits for each pair, the other kernels of half a second that cannot be cut into
    smaller ones, on a device that does not preempt. Between two pairs the first one is idle for less than a millisecond."""
    prompt_if_permitted = True
    description = emulated.CARD.replace('arbitration = "time-slice"', 'arbitration = "fifo"') + KERNELS.replace("30 ns", "1 us")

    def test_the_short_kernels_keep_their_share(self):
        self.node.create("short", weight=75)
        self.node.create("long", weight=25)
        self.start(loop(600, items=2000, rounds=1, ahead=2, whole=True), "short")
        self.start(loop(600, items=500_000, rounds=1, ahead=2, whole=True), "long")
        for name in ("short", "long"):
            self.wait_busy(name)
        for policy, wanted in (("proportional-share", 0.75), ("round-robin", 0.5)):
            self.node.policy(policy)

            def check(use, wanted=wanted, policy=policy):
                share = use["short"] / (use["short"] + use["long"])
                print(f"{policy}: {share:.4f}, use {use['short'] + use['long']:.3f}")
                self.assertAlmostEqual(share, wanted, delta=0.05)  # a long kernel is 3 % of the time

            self.settled({name: executors_of(self.node, name)[0] for name in ("short", "long")}, 15, check)


if __name__ == "__main__":
    e2e.main()
