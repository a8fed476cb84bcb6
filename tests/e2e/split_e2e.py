# SPDX-License-Identifier: Apache-2.0
"""One kernel on several nodes: a matrix product that does not fit runs in part on one peer or two, over TCP, and its
bytes are those of a run that is not split. A peer is killed while it computes.

With "long" as its argument: with one peer that stays, and the peer is killed at 20 random moments.
"""
import os
import random
import signal
import subprocess
import sys
import time
import unittest

import weir_e2e as e2e
from distant import text_of
from products import Products

SLOT = 64 << 20
TOO_LARGE = ("4096", "3968", "96")  # 62 MiB of results, and 3 MiB that are read
ROUNDS = 3


def peer_node(test):
    """A node that runs parts, and the port of its portal."""
    node = e2e.Node("--listen-plain", "127.0.0.1:0", "--quiet").start()
    test.addCleanup(node.close)
    node.create("parts")
    path = os.path.join(node.run_dir, "portal-plain.port")
    return node, e2e.wait_for(lambda: text_of(path), "the peer's portal listens")


class TwoNodesOneKernel(Products, unittest.TestCase):
    PEERS = 1

    def setUp(self):
        peers = [peer_node(self) for _ in range(self.PEERS)]
        self.peers = [node for node, _ in peers]
        self.there, self.port = peers[0]
        named = [word for _, port in peers for word in ("--peer-plain", f"127.0.0.1:{port}=parts")]
        self.here = e2e.Node(*named, "--quiet").start()
        self.addCleanup(self.here.close)
        status, body = self.here.call("PUT", "/v1/devices/embedded/memory", {"size_bytes": 4 * SLOT, "params": {}})
        self.assertEqual(status, 200, body)
        self.here.create("small", memory_min_bytes=SLOT, memory_max_bytes=SLOT, partition="always")
        self.here.create("large", memory_min_bytes=SLOT, memory_max_bytes=2 * SLOT, partition="never")
        for i in range(self.PEERS):
            e2e.wait_for(lambda: os.path.exists(os.path.join(self.here.run_dir, f"peer-{i}.sock")), "the relay listens")
        self.programs = []
        self.addCleanup(e2e.end_all, self.programs)

    def computed_there(self, peer=None):
        return (peer or self.there).vgpu("parts")["totals"]["gpu_ns"]

    def kill_peer(self):
        """Kills its daemon, portal and executor at once, as if the machine had vanished."""
        self.there.kill()
        found = subprocess.run(["pgrep", "-f", f"weir-(portal|executor) .*{self.there.run_dir}"], capture_output=True,
                               text=True)
        for pid in found.stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    def test_both_compute_and_the_bytes_are_those_of_one(self):
        whole = self.sum_of(self.start("large", *TOO_LARGE))
        self.assertEqual(self.computed_there(), 0)
        self.assertEqual(self.sum_of(self.start("small", *TOO_LARGE)), whole)
        self.assertGreater(self.computed_there(), 0)
        self.assertGreater(self.here.vgpu("small")["totals"]["gpu_ns"], 0)

    def test_parts_of_a_dead_peer_are_repeated(self):
        whole = self.sum_of(self.start("large", *TOO_LARGE))
        process = self.start("small", *TOO_LARGE, str(ROUNDS))
        e2e.wait_for(lambda: self.computed_there() > 0, "the peer computes")
        self.kill_peer()
        self.assertEqual(self.sum_of(process), whole)
        self.assertIn("no parts on other nodes", self.here.log_text())
        self.assertEqual(self.sum_of(self.start("small", *TOO_LARGE)), whole)


class ThreeNodesOneKernel(TwoNodesOneKernel):
    PEERS = 2
    test_parts_of_a_dead_peer_are_repeated = None

    def test_both_compute_and_the_bytes_are_those_of_one(self):
        whole = self.sum_of(self.start("large", *TOO_LARGE))
        self.assertEqual([self.computed_there(peer) for peer in self.peers], [0, 0])
        self.assertEqual(self.sum_of(self.start("small", *TOO_LARGE)), whole)
        for peer in self.peers:
            self.assertGreater(self.computed_there(peer), 0)
        self.assertGreater(self.here.vgpu("small")["totals"]["gpu_ns"], 0)
        self.assertNotIn("no parts on other nodes", self.here.log_text())
        self.kill_peer()  # the other one continues
        before = self.computed_there(self.peers[1])
        self.assertEqual(self.sum_of(self.start("small", *TOO_LARGE)), whole)
        self.assertGreater(self.computed_there(self.peers[1]), before)


class Soak(TwoNodesOneKernel):
    test_both_compute_and_the_bytes_are_those_of_one = None
    test_parts_of_a_dead_peer_are_repeated = None

    def test_killed_at_20_random_moments(self):
        seed = random.randrange(1 << 32)
        print("seed", seed)
        draw = random.Random(seed)
        whole = self.sum_of(self.start("large", *TOO_LARGE))
        begun = time.monotonic()
        self.assertEqual(self.sum_of(self.start("small", *TOO_LARGE)), whole)
        alone = time.monotonic() - begun
        lost = 0
        for turn in range(20):
            before = self.here.log_text().count("no parts on other nodes")
            process = self.start("small", *TOO_LARGE)
            # One moment in each twentieth of a run.
            time.sleep(alone * (turn + draw.random()) / 20)
            self.kill_peer()
            self.assertEqual(self.sum_of(process), whole, f"turn {turn} of seed {seed}")
            lost += self.here.log_text().count("no parts on other nodes") > before
            self.there.arguments = ("--listen-plain", f"127.0.0.1:{self.port}", "--quiet")
            self.there.start()
            relay = lambda: self.sum_of(self.start("small", *TOO_LARGE)) and self.computed_there() > 0
            e2e.wait_for(relay, "the peer is used again")
        print(f"peer killed 20 times, {lost} times while it had a part; every result right")
        self.assertGreater(lost, 5)


if __name__ == "__main__":
    # Three nodes show what two of them do, and discovery_e2e that one peer is enough.
    TWO = "TwoNodesOneKernel."
    wanted = [TWO + "test_parts_of_a_dead_peer_are_repeated", "ThreeNodesOneKernel"]
    if sys.argv[1:] == ["long"]:
        wanted = [TWO + "test_both_compute_and_the_bytes_are_those_of_one", "Soak"]
    unittest.main(argv=[sys.argv[0], *wanted], verbosity=2)
