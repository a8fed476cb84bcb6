# SPDX-License-Identifier: Apache-2.0
"""Many processes of one vGPU on an emulated device keep the vGPU's cap, also those beyond its places."""
import json
import os
import resource
import subprocess

import emulated
import weir_e2e as e2e


class NodeWithFiles(emulated.EmulatedNode):
    """A daemon and an emulator that may have this many files open. Unlike them, programs don't run promptly: they are
    many."""

    def __init__(self, files, *arguments):
        super().__init__(*arguments)
        self.files = files

    def start(self):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.process = subprocess.Popen(
            [e2e.WEIR, "serve", "--run-dir", self.run_dir, "--state-dir", self.state_dir, *self.arguments],
            stderr=self.log, stdout=self.log,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (min(self.files, before[1]),) * 2))
        e2e.wait_for(self.answers, "the daemon answers")
        emulated.run_promptly(False)
        return self


class WithCrowd(emulated.WithEmulatedNode):
    """Many processes of one vGPU with a cap (tests/programs/gate_crowd.cc)."""
    prompt_if_permitted = True
    CAP = 0.2

    def make_node(self):
        return NodeWithFiles(self.files, self.description)

    def crowd(self, count, frame_us):
        """Starts `count` processes, and returns a function that asks what they have done."""
        self.node.policy("none")
        self.node.create("capped", cap=self.CAP)
        crowd = self.tenants.start(
            [os.path.join(e2e.BUILD, "bin/gate_crowd"), self.node.environment("capped")["WEIR_ATTACH"],
             os.path.join(self.node.run_dir, "emulator-0.sock"), str(count), str(frame_us)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.node.log, text=True)

        self.addCleanup(crowd.stdout.close)
        self.addCleanup(crowd.stdin.close)

        def done():
            crowd.stdin.write("\n")
            crowd.stdin.flush()
            return json.loads(crowd.stdout.readline())

        return done

    def attached(self):
        return len(self.node.vgpu("capped")["processes"])

    def keeps_its_cap(self, done, seconds, delta):
        """Whether the device is busy for the cap's part of the time, and no frame passes without the gate."""
        def now():  # the device's busy time: its list of clients is bounded
            truth = self.node.truth()
            return done(), truth["devices"][0]["busy_ns"]["compute"], self.node.gpu_ns()["capped"], truth["now_ns"] / 1e9

        # The debt of the first frames, whose cost nobody can predict, is repaid.
        first = sum(done()["frames"])
        e2e.wait_for(lambda: sum(done()["frames"]) >= first + 40, "frames")
        before = now()

        def check(after):
            span = after[3] - before[3]
            used = after[1] - before[1]
            frames = [b - a for a, b in zip(before[0]["frames"], after[0]["frames"])]
            print(f"{len(frames)} processes: {used / span / 1e9:.4f} of the device "
                  f"(books {(after[2] - before[2]) / span / 1e9:.4f}) in {span:.1f} s; {sum(frames)} frames of "
                  f"{sum(n > 0 for n in frames)} processes, at most {max(frames)}; {after[0]['unmanaged']} unmanaged")
            self.assertEqual(after[0]["unmanaged"], before[0]["unmanaged"])
            self.assertAlmostEqual(used / span / 1e9, self.CAP, delta=delta)

        emulated.settle(now, seconds, check)


class Crowds(WithCrowd):
    files = 8192

    def test_many_processes_of_a_vgpu_keep_its_cap(self):
        self.crowd_keeps_its_cap(250)

    def crowd_keeps_its_cap(self, count):
        done = self.crowd(count, 10_000)
        e2e.wait_for(lambda: self.attached() == count, "all are attached", pause=0.5)
        self.keeps_its_cap(done, 5, 0.02)


class LargeCrowd(Crowds):
    """With scripts/test --long only."""

    def test_many_processes_of_a_vgpu_keep_its_cap(self):
        self.crowd_keeps_its_cap(1000)


class CrowdsWithoutPlaces(WithCrowd):
    files = 256  # places for some 30 processes of one vGPU

    def test_processes_beyond_the_places_of_a_vgpu_do_not_escape_its_cap(self):
        done = self.crowd(80, 10_000)
        e2e.wait_for(lambda: any(e["kind"] == "full" for e in self.node.get("/v1/events?after=0&limit=1000")["events"]),
                     "an event says that processes wait")
        e2e.wait_for(lambda: "waits until it is admitted" in self.node.log_text(), "the programs say so")
        self.keeps_its_cap(done, 5, 0.02)
        self.assertLess(self.attached(), 60)
        self.assertEqual(done()["unmanaged"], 0)


if __name__ == "__main__":
    e2e.main()
