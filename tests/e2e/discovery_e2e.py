# SPDX-License-Identifier: Apache-2.0
"""Nodes that run parts for each other find one another through a manager: a launch that does not fit runs in part on a
node that no command names, its bytes are those of a whole launch, and it continues when that node is killed."""
import json
import os
import signal
import subprocess
import unittest

import weir_e2e as e2e
from cluster_processes import Client, Manager, Processes, free_ports
from distant import scenes, text_of
from products import Products
from split_e2e import ROUNDS, SLOT, TOO_LARGE


class Discovery(Products, unittest.TestCase):
    lost_after = "5"

    def setUp(self):
        self.processes = Processes()
        self.addCleanup(self.processes.close)
        self.manager = Manager(self.processes, "manager", free_ports(1)[0], "--state", self.processes.path("state"),
                               "--lost-after", self.lost_after).start()
        self.client = Client([self.manager])
        self.tokens = self.processes.path("tokens")
        os.mkdir(self.tokens, 0o700)
        self.programs = []
        self.addCleanup(e2e.end_all, self.programs)

    def member(self, name, *arguments):
        return e2e.Node("--quiet", "--manager", self.manager.address, "--manager-token", self.processes.token,
                        "--node-name", name, *arguments)

    def weir(self, *arguments, code=0):
        done = subprocess.run([e2e.WEIR, *arguments], capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def offering(self, name, token=True):
        node = self.member(name, "--listen", "127.0.0.1:0", "--offer-parts", "parts")
        self.addCleanup(node.close)
        keys = os.path.join(node.state_dir, "keys")
        self.weir("keys", "init", "--dir", keys)
        if token:
            self.weir("keys", "token", "parts", "--dir", keys, "--out", os.path.join(self.tokens, name + ".token"))
        node.start()
        node.create("parts", memory_max_bytes=4 * SLOT)
        return node

    def asking(self):
        node = self.member("here", "--peers-token", self.tokens).start()
        self.addCleanup(node.close)
        status, body = node.call("PUT", "/v1/devices/embedded/memory", {"size_bytes": 4 * SLOT, "params": {}})
        self.assertEqual(status, 200, body)
        node.create("small", memory_min_bytes=SLOT, memory_max_bytes=SLOT, partition="always")
        node.create("large", memory_min_bytes=SLOT, memory_max_bytes=2 * SLOT, partition="never")
        return node

    def peers(self):
        return {node["node"]: node for node in self.here.get("/v1/peers")["nodes"]}

    def found(self, *names):
        """Waits until exactly those nodes are peers, each with a relay that listens."""
        peers = self.peers()
        return set(peers) == set(names) and all(os.path.exists(peer["socket"]) for peer in peers.values())

    def offer_of(self, name):
        nodes = {node["name"]: node for node in self.client.get("/v1/nodes")["nodes"]}
        return nodes.get(name, {}).get("parts")

    def kill(self, node):
        """Kills its daemon, portal, member and executors at once, as if the machine had vanished."""
        node.kill()
        found = subprocess.run(["pgrep", "-f", f"weir-(portal|executor|member) .*{node.run_dir}"], capture_output=True,
                               text=True)
        for pid in found.stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    def test_a_discovered_node_is_used_and_its_loss_is_noticed(self):
        self.here = self.asking()
        whole = self.sum_of(self.start("large", *TOO_LARGE))
        self.assertEqual(self.peers(), {})
        # Started before any other node: its executor is told of nodes that come later.
        self.assertEqual(self.sum_of(self.start("small", *TOO_LARGE)), whole)
        there = self.offering("there")
        e2e.wait_for(lambda: self.found("there"), "the node is found")
        offer = self.offer_of("there")
        self.assertEqual((offer["vgpu"], offer["plain"], offer["room_bytes"], offer["threads"]),
                         ("parts", False, 4 * SLOT, 0))
        shown = self.weir("nodes", "--manager", self.manager.address, "--token", self.processes.token)
        self.assertRegex(shown, r"(?m)^there .*parts +256 MiB +0$")

        self.assertEqual(self.sum_of(self.start("small", *TOO_LARGE)), whole)
        self.assertGreater(there.vgpu("parts")["totals"]["gpu_ns"], 0)
        self.assertNotIn("no parts on other nodes", self.here.log_text())

        program = self.start("small", *TOO_LARGE, str(ROUNDS))
        e2e.wait_for(lambda: self.offer_of("there")["threads"] > 0, "the node says that it is at work")
        self.kill(there)
        self.assertEqual(self.sum_of(program), whole)
        e2e.wait_for(lambda: self.found() and text_of(os.path.join(self.here.run_dir, "peers")) == "",
                     "the node is offered no more")

    def test_a_node_without_a_token_here_is_not_used(self):
        there = self.offering("there", token=False)
        self.here = self.asking()
        e2e.wait_for(lambda: "there" in self.peers(), "the node is offered")
        self.assertRegex(self.peers()["there"]["why_not"], "no token for it: .*there.token is not there")
        self.assertEqual(text_of(os.path.join(self.here.run_dir, "peers")), "")
        # A node that joins later, without restarting anything.
        self.weir("keys", "token", "parts", "--dir", os.path.join(there.state_dir, "keys"), "--out",
                  os.path.join(self.tokens, "there.token"))
        there.create("more")  # causes another report
        there.call("PATCH", "/v1/vgpus/parts", {"memory_max_bytes": 2 * SLOT})
        e2e.wait_for(lambda: self.found("there"), "the node is found")


class Targets(Discovery):
    lost_after = "30"  # no node counts as lost, however late a busy host lets it report
    test_a_discovered_node_is_used_and_its_loss_is_noticed = None
    test_a_node_without_a_token_here_is_not_used = None

    def test_a_program_moves_to_a_node_by_name_and_to_the_best(self):
        names = ("n1", "n2")
        nodes = {name: self.offering(name) for name in names}
        e2e.wait_for(lambda: all(self.offer_of(name) for name in names), "both nodes offer parts")
        run_dir = self.processes.path("tenant")
        port = text_of(os.path.join(nodes["n1"].run_dir, "portal.port"))
        program = subprocess.Popen(
            [e2e.WEIR, "run", "--run-dir", run_dir, "--node", f"127.0.0.1:{port}", "--token",
             os.path.join(self.tokens, "n1.token"), "--", *scenes(300)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.programs.append(program)
        computes = lambda name, more=0: nodes[name].vgpu("parts")["totals"]["gpu_ns"] > more
        e2e.wait_for(lambda: computes("n1"), "it computes")

        def move(*to, code=0, token=self.tokens):
            return self.weir("--run-dir", run_dir, "migrate", str(program.pid), "--token", token, "--manager",
                             self.manager.address, "--manager-token", self.processes.token, "--to", *to, code=code)

        self.assertRegex(move("n2"), "moved to n2: .*objects recreated")
        e2e.wait_for(lambda: computes("n2"), "it computes there")
        before = nodes["n1"].vgpu("parts")["totals"]["gpu_ns"]
        move("auto", "--room", "100G", code=3)
        move("nowhere", code=3)
        self.assertRegex(move("auto"), "moved to n1: ")  # to the other node
        e2e.wait_for(lambda: computes("n1", before), "it computes here again")
        program.terminate()  # it ends by itself, and checks everything
        out, err = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual((program.returncode, "wrong 0" in out), (0, True), out + err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
