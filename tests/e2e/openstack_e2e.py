# SPDX-License-Identifier: Apache-2.0
"""A real OpenStack Placement grants the shares of a node's device. What the node sells can be granted within a second;
selling less stops new grants and evicts no consumer; a consumer's vGPU is created and removed with its allocation,
also across restarts of all parts."""
import http.client
import json
import os
import subprocess
import tempfile
import unittest
import uuid

import engines_e2e as engines
import weir_e2e as e2e

CLASS = "CUSTOM_VGPU_SHARE"
GAME = ["glmark2", "-b", "shading:shading=phong:duration=600", "-s", "400x300"]


class Placement:
    """One process with SQLite and without Keystone: the token 'admin' gives a client administrator rights."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-placement-")
        self.started = engines.Started(self.folder.name)
        self.port = engines.free_port()
        with open(os.path.join(self.folder.name, "placement.conf"), "w") as conf:
            conf.write(f"""[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:///{self.folder.name}/placement.sqlite
sync_on_startup = true
""")
        open(os.path.join(self.folder.name, "policy.yaml"), "w").close()
        self.process = None
        self.start()

    def start(self):
        self.process = self.started.start(
            "placement", ["/usr/bin/placement-api", "--host", "127.0.0.1", "--port", str(self.port)],
            {"OS_PLACEMENT_CONFIG_DIR": self.folder.name})
        e2e.wait_for(self.answers, "Placement answers")

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"Placement ended: {self.started.text('placement')}")
        try:
            return self.call("GET", "/")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def stop(self):
        self.started.stop(self.process)

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=e2e.PATIENCE)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None,
                               {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39",
                                "Content-Type": "application/json"})
            reply = connection.getresponse()
            text = reply.read().decode()
            return reply.status, json.loads(text) if text else None
        finally:
            connection.close()

    def provider(self, name):
        found = self.call("GET", f"/resource_providers?name={name}")[1]["resource_providers"]
        return found[0] if found else None

    def inventory(self, name):
        provider = self.provider(name)
        return provider and self.call("GET", f"/resource_providers/{provider['uuid']}/inventories")[1]["inventories"].get(CLASS)

    def sellable(self, name):
        inventory = self.inventory(name)
        return inventory and int(inventory["total"] * inventory["allocation_ratio"])

    def take(self, name, shares=1):
        """Returns the consumer's id, or None if the allocation is refused."""
        consumer = str(uuid.uuid4())
        status, body = self.call("PUT", f"/allocations/{consumer}", {
            "allocations": {self.provider(name)["uuid"]: {"resources": {CLASS: shares}}},
            "project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"})
        if status == 204:
            return consumer
        if status != 409 or "exceed the capacity" not in json.dumps(body):
            raise AssertionError(f"an allocation: {status} {body}")
        return None

    def give_back(self, consumer):
        status, body = self.call("DELETE", f"/allocations/{consumer}")
        if status != 204:
            raise AssertionError(f"giving back: {status} {body}")

    def consumers(self, name):
        return set(self.call("GET", f"/resource_providers/{self.provider(name)['uuid']}/allocations")[1]["allocations"])

    def close(self):
        self.started.close()
        self.folder.cleanup()


class OpenStack(e2e.WithNode):
    GPU = "n1_embedded"

    def setUp(self):
        super().setUp()
        self.placement = Placement()
        self.addCleanup(self.placement.close)
        status, _ = self.placement.call("POST", "/resource_providers", {"name": "n1"})  # as nova-compute does
        self.assertEqual(status, 200)
        self.programs = engines.Started(self.node.folder)
        self.addCleanup(self.programs.close)

    def weir(self, *arguments):
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, *arguments], capture_output=True, text=True,
                              timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def drive(self, *arguments):
        return self.programs.start("driver", [
            engines.DRIVER, "--engine", "openstack", "--url", f"http://127.0.0.1:{self.placement.port}", "--token", "admin",
            "--provider", "n1", "--socket", self.node.socket, *arguments])

    def vgpus(self):
        return {v["name"]: v for v in self.node.get("/v1/vgpus")["vgpus"]}

    def sells(self, shares, what):
        return engines.took(lambda: self.placement.sellable(self.GPU) == shares, what)

    def test_the_conformance_suite(self):
        engines.conformance(self, "RealPlacement", {"WEIR_TEST_PLACEMENT": f"http://127.0.0.1:{self.placement.port}"})

    def test_exactly_what_a_node_sells_is_granted(self):
        self.weir("oversell", "strict")
        self.drive()
        self.sells(8, "the device is published and sold")
        gpu = self.placement.provider(self.GPU)
        self.assertEqual(gpu["parent_provider_uuid"], self.placement.provider("n1")["uuid"])
        traits = self.placement.call("GET", f"/resource_providers/{gpu['uuid']}/traits")[1]["traits"]
        self.assertEqual(traits, ["CUSTOM_WEIR_SHARED"])
        self.assertEqual(self.placement.inventory(self.GPU)["total"], 8)

        consumers = [self.placement.take(self.GPU) for _ in range(8)]
        self.assertNotIn(None, consumers)
        self.assertIsNone(self.placement.take(self.GPU), "nothing is sold twice")
        seconds = engines.took(lambda: len(self.vgpus()) == 8, "each has its vGPU")
        engines.figure(f"openstack: vGPUs of eight consumers after {seconds:.2f} s")
        self.assertEqual(set(self.vgpus()), {"os-" + c for c in consumers})
        self.assertEqual({v["settings"]["cap"] for v in self.vgpus().values()}, {0.125})

        # The node sells more: the device one and a half times.
        self.weir("oversell", "static", "--ratio", "1.5")
        seconds = self.sells(12, "overselling raises what is sold")
        engines.figure(f"openstack: overselling raised what Placement grants after {seconds:.2f} s")
        more = [self.placement.take(self.GPU) for _ in range(4)]
        self.assertNotIn(None, more)
        self.assertIsNone(self.placement.take(self.GPU))
        e2e.wait_for(lambda: len(self.vgpus()) == 12, "these have theirs")

        # Another vGPU on the node uses what was returned: nothing more can be granted, and no consumer is evicted.
        for consumer in more[2:]:
            self.placement.give_back(consumer)
        seconds = engines.took(lambda: len(self.vgpus()) == 10, "their vGPUs go with them")
        engines.figure(f"openstack: vGPUs of consumers that left were removed after {seconds:.2f} s")
        self.weir("vgpu", "create", "local", "--cap", "25%")
        seconds = self.sells(10, "what was bought elsewhere isn't sold")
        engines.figure(f"openstack: lowering reached Placement after {seconds:.2f} s")
        self.assertIsNone(self.placement.take(self.GPU))
        left = set(consumers + more[:2])
        self.assertEqual(self.placement.consumers(self.GPU), left)
        self.assertEqual({name for name in self.vgpus() if name.startswith("os-")}, {"os-" + c for c in left})
        self.weir("vgpu", "rm", "local")
        self.sells(12, "and can be sold again")
        self.assertIsNotNone(self.placement.take(self.GPU))

    def test_overselling_while_it_is_calm(self):
        self.weir("oversell", "on", "--param", "low_line=0.9")
        self.drive()
        self.sells(8, "the device is sold once")
        consumers = [self.placement.take(self.GPU) for _ in range(8)]
        self.assertNotIn(None, consumers)
        e2e.wait_for(lambda: len(self.vgpus()) == 8, "each has its vGPU")
        self.tenants.start(GAME, self.node.environment("os-" + consumers[0]))
        self.wait_frames("os-" + consumers[0])
        e2e.wait_for(lambda: self.placement.sellable(self.GPU) > 8, "gOver sells more")
        more = self.placement.take(self.GPU)
        self.assertIsNotNone(more)
        sold = e2e.wait_for(lambda: self.vgpus().get("os-" + more), "and it is made")
        self.assertEqual(sold["sale"], "oversold")

    def test_drivers_daemons_and_placement_can_be_restarted(self):
        self.weir("oversell", "strict")
        driver = self.drive()
        self.sells(8, "the device is sold")
        first = self.placement.take(self.GPU, 2)
        e2e.wait_for(lambda: "os-" + first in self.vgpus(), "its vGPU is there")
        made = self.vgpus()["os-" + first]["id"]
        self.programs.stop(driver)
        second = self.placement.take(self.GPU, 3)
        driver = self.drive()
        e2e.wait_for(lambda: "os-" + second in self.vgpus(), "what was granted meanwhile is made")
        self.assertEqual(self.vgpus()["os-" + first]["id"], made, "and what was there is left")

        self.node.kill()
        e2e.wait_for(lambda: self.placement.sellable(self.GPU) == 0, "a node that is gone sells nothing")
        self.assertEqual(self.placement.consumers(self.GPU), {first, second})
        self.node.start()
        self.sells(8, "and sells again when it is back")

        self.placement.stop()
        e2e.wait_for(lambda: "127.0.0.1" in self.programs.text("driver"), "it says who is away")
        self.placement.start()
        self.placement.give_back(first)
        e2e.wait_for(lambda: set(self.vgpus()) == {"os-" + second}, "and goes on")

        # When a consumer is deleted while its program runs, its vGPU keeps the least cap and is removed at the
        # program's end.
        game = self.tenants.start(GAME, self.node.environment("os-" + second))
        self.wait_frames("os-" + second)
        self.placement.give_back(second)
        e2e.wait_for(lambda: self.vgpus()["os-" + second]["settings"]["cap"] == 0.01, "it is squeezed")
        self.tenants.stop(game)
        e2e.wait_for(lambda: not self.vgpus(), "and removed")
        self.assertIn("programs are still attached", self.programs.text("driver"))

    def test_for_scripts(self):
        self.weir("oversell", "strict")
        common = [engines.DRIVER, "--engine", "openstack", "--provider", "n1", "--socket", self.node.socket, "--once"]
        url = f"http://127.0.0.1:{self.placement.port}"
        done = subprocess.run([*common, "--url", url, "--token", "admin", "--shares", "4"], capture_output=True, text=True,
                              timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.placement.sellable(self.GPU), 4)
        for arguments, status, says in ((["--url", "ftp://a", "--token", "x"], 2, "it begins with neither https:// nor http://"),
                                        (["--url", url, "--token", "x", "--device", "y"], 3, "no device named 'y'")):
            done = subprocess.run([*common, *arguments], capture_output=True, text=True, timeout=e2e.PATIENCE)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    engines.install()
    engines.need("/usr/bin/placement-api", engines.DRIVER)
    e2e.main()
