# SPDX-License-Identifier: Apache-2.0
"""A cluster of real processes on this machine: managers with a file, members, nodes with fake modules, a node with real ones. With
--long: managers with etcd."""
import os
import signal
import subprocess
import sys
import time
import unittest

from cluster_processes import BUILD, MODULE, Client, ClusterNode, Etcd, Manager, Processes, free_ports
from weir_e2e import PATIENCE, WEIR, Node, wait_for

FAULTY = os.path.join(BUILD, "lib/test/faulty_module.so")


class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.processes = Processes()
        self.addCleanup(self.processes.close)

    def cluster(self, *names, **options):
        """One manager that stores its state in a file, and nodes."""
        self.manager = Manager(self.processes, "manager", free_ports(1)[0], "--state", self.processes.path("new/state"),
                               "--lost-after", "1.5").start()
        self.client = Client([self.manager])
        self.nodes = [ClusterNode(self.processes, name, [self.manager], **options).start() for name in names]
        self.wait_for_nodes(names)
        self.client.register()

    def wait_for_nodes(self, names, seconds=PATIENCE):
        wait_for(lambda: {n["name"] for n in self.client.get("/v1/nodes")["nodes"] if n["state"] == "up"} == set(names),
                 f"nodes {names}", seconds=seconds)

    def weir(self, *arguments):
        return subprocess.run([WEIR, *arguments], capture_output=True, text=True, timeout=PATIENCE)


class OneManager(ClusterTest):
    def test_runs_end_and_their_results_are_returned(self):
        self.cluster("n1", "n2", served=True)
        for i in range(12):
            self.client.submit(f"r{i}", "echo", f"said {i}")
        blob = self.client.put_blob(b"some input")
        self.client.submit("out", "upper", input=blob)
        self.client.submit("bad", "fail", "it did not like it")
        for i in range(12):
            self.assertEqual(self.client.wait(f"r{i}")["text"], f"said {i}")
        self.assertEqual(self.client.get("/v1/blobs/" + self.client.wait("out")["output"]), b"SOME INPUT")
        failed = self.client.wait("bad")
        self.assertEqual(failed["state"], "failed")
        self.assertEqual(failed["error"]["message"], "it did not like it")
        # The output that users see.
        flags = ["--manager", self.manager.address, "--token", self.processes.token]
        nodes = self.weir("nodes", *flags)
        self.assertEqual((nodes.returncode, nodes.stderr), (0, ""))
        self.assertIn("fake0", nodes.stdout)
        self.assertIn("13 done, 1 failed", self.weir("cluster", "status", *flags).stdout)
        explained = self.weir("explain", "r3", *flags)
        self.assertIn("run r3: done", explained.stdout)
        # both are alike; the first one gives the name
        self.assertRegex(explained.stdout, r"(?m)^n[12]\s+fake0\s+2\s+idle")
        self.assertEqual(self.weir("explain", "none", *flags).returncode, 3)
        self.assertEqual(self.weir("nodes", *flags[:2]).returncode, 6)
        # Once its deletion is acknowledged, the run is gone, also at the node.
        self.assertEqual(self.client.ask("DELETE", "/v1/runs/r0")[0], 200)
        self.assertEqual(self.client.ask("GET", "/v1/runs/r0")[0], 404)
        # Runs go to an idle device first.
        for name in ("long1", "long2"):
            self.client.submit(name, "sleep", "1")
        self.assertEqual({self.client.wait(name)["node"] for name in ("long1", "long2")}, {"n1", "n2"})

    def test_runs_of_a_killed_node_end_on_another(self):
        self.cluster("n1", "n2", concurrent=2)
        for i in range(4):
            self.client.submit(f"r{i}", "sleep", f"0.{5 + i}")
        of = wait_for(lambda: [i for i in range(4) if self.client.get(f"/v1/runs/r{i}").get("node") == "n1"], "n1 has runs")
        self.nodes[0].kill()
        for i in range(4):
            run = self.client.wait(f"r{i}")
            self.assertEqual((run["state"], run["node"]), ("done", "n2"))
            self.assertEqual(run["attempt"], 2 if i in of else 1)
        # The node returns and runs modules again.
        self.nodes[0].start()
        self.wait_for_nodes(["n1", "n2"])

    def test_a_restarted_manager_has_lost_nothing(self):
        self.cluster("n1")
        self.client.submit("before", "echo", "1")
        self.client.wait("before")
        for i in range(6):
            self.client.submit(f"r{i}", "sleep", "0.4")
        self.manager.kill()
        self.manager.start()
        self.assertEqual(self.client.get("/v1/runs/before")["text"], "1")
        for i in range(6):
            run = self.client.wait(f"r{i}")
            self.assertEqual((run["state"], run["attempt"]), ("done", 1))
        with open(self.processes.path("executed")) as log:
            executed = log.read().split("\n")[:-1]
        self.assertEqual(len(executed), 7, "nothing ran twice: the node was asked what it had")

    def test_requests_without_access_are_refused(self):
        self.cluster("n1")
        status, reply = Client([self.manager], token="wrong" * 5).ask("GET", "/v1/runs")
        self.assertEqual((status, reply["error"]["code"]), (403, "permission-denied"))
        twin = ClusterNode(self.processes, "n1", [self.manager], run_dir="twin").start()
        wait_for(lambda: "another node named n1 is here" in self.processes.log("n1"), "the twin is refused")
        self.assertEqual(len(self.client.get("/v1/nodes")["nodes"]), 1)
        twin.kill()
        state = self.processes.path("new/state")  # of the manager that runs
        for arguments, code, words in (
                (["--state", state, "--listen", "127.0.0.1:0"], 5, "another manager has"),
                (["--listen", "0.0.0.0:0"], 6, "give --token FILE, or --plain"),
                (["--etcd", "nowhere"], 2, "not HOST:PORT"),
                (["--placement", "best"], 3, "interference-aware"),
                (["--colour"], 2, "--colour"),
                (["--etcd", "127.0.0.1:1", "--state", state], 2, "excludes")):
            done = self.weir("manager", "--store", self.processes.path("b"), *arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)
        self.assertEqual(self.weir("serve", "--node-name", "x").returncode, 2)
        self.assertEqual(self.weir("nodes", "--manager", "127.0.0.1:1").returncode, 8)
        self.assertEqual(self.weir("cluster", "status", "--colour").returncode, 2)


class WithEtcd(ClusterTest):
    def test_another_manager_takes_over(self):
        etcd = Etcd(self.processes).start_all()
        managers = [Manager(self.processes, f"m{i}", port, "--etcd", etcd.addresses, "--lost-after", "3").start()
                    for i, port in enumerate(free_ports(2))]
        self.client = client = Client(managers)
        self.nodes = [ClusterNode(self.processes, name, managers).start() for name in ("n1", "n2")]
        self.wait_for_nodes(["n1", "n2"])
        client.register()
        for i in range(40):
            client.submit(f"r{i}", "sleep", f"0.{i % 10}")
            if i == 10:
                leads = next(m for m in managers if client.once(m.address, "GET", "/v1/cluster")[1]["leads"])
                leads.kill()
                fell, began = leads, time.monotonic()
            if i == 11:
                print(f"a submission was taken {time.monotonic() - began:.2f} s after the leading manager was killed",
                      file=sys.stderr)
            if i == 25:
                fell.start()
                etcd.kill(etcd.leader())
        results = [client.wait(f"r{i}", 60) for i in range(40)]
        self.assertEqual({run["state"] for run in results}, {"done"})
        self.assertEqual([run["text"] for run in results], [f"0.{i % 10}" for i in range(40)])


class RealModules(ClusterTest):
    def node_with_modules(self):
        """A manager, and a node whose module service is a real one. The options of `weir module` for that manager."""
        manager = Manager(self.processes, "manager", free_ports(1)[0], "--state", self.processes.path("state")).start()
        self.node = Node("--quiet", "--modules", "kernels", "--manager", manager.address, "--node-name", "n1",
                         "--manager-token", self.processes.token).start()
        self.addCleanup(self.node.close)
        self.node.create("kernels")
        self.client = Client([manager])
        self.wait_for_nodes(["n1"])
        return ["--manager", manager.address, "--token", self.processes.token]

    def started_by_the_daemon(self):
        """PID and command line of each process that the node's daemon has started."""
        parent = str(self.node.process.pid)
        listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", parent], capture_output=True, text=True).stdout
        return {int(pid): args for pid, args in (line.split(None, 1) for line in listed.splitlines())}

    def service(self):
        """PID of the node's module service, None while there is none."""
        return next((pid for pid, args in self.started_by_the_daemon().items() if "weir-modules" in args.split()[0]), None)

    def test_a_run_ends_although_the_module_service_is_killed(self):
        """The module service and the member are one process. The next one gets the node's runs from the manager."""
        flags = self.node_with_modules()
        self.assertEqual(self.weir("module", "register", "naps", FAULTY, *flags).returncode, 0)
        self.client.submit("nap", "nap", "3000", module="naps")
        wait_for(lambda: self.client.get("/v1/runs/nap")["state"] == "running", "the run is placed")
        first = self.service()
        self.assertIn("--managers", self.started_by_the_daemon()[first])
        self.assertEqual([args for args in self.started_by_the_daemon().values() if "weir-member" in args], [])
        os.kill(first, signal.SIGKILL)
        run = self.client.wait("nap", 60)
        self.assertEqual((run["state"], run["attempt"]), ("done", 1))
        self.assertNotIn(self.service(), (None, first))
        self.assertEqual(self.client.ask("DELETE", "/v1/runs/nap")[0], 200)

    def test_a_module_that_a_node_has_checked_runs_in_its_vgpu(self):
        """All parts are real: the node checks the module, its image is transferred, and its runs execute as the tenant
        of a vGPU."""
        flags = self.node_with_modules()
        registered = self.weir("module", "register", "sort", MODULE, *flags)
        self.assertEqual(registered.returncode, 0, registered.stderr)
        self.assertIn("sorting-network", registered.stdout)
        refused = self.weir("module", "register", "none", WEIR, *flags)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        done = subprocess.run([WEIR, "module", "run", "sort", "sorting-network", "--args", "n=1024", *flags],
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("done in", done.stdout)
        # Data that a run keeps on the device is there for the next run, from whichever client it comes.
        counts = self.weir("module", "register", "counts", FAULTY, *flags)
        self.assertEqual(counts.returncode, 0, counts.stderr)
        for times in ("1", "2", "3"):
            self.client.submit(f"count{times}", "count", module="counts")
            self.assertEqual(self.client.wait(f"count{times}", 60)["text"], times)
            self.client.ask("DELETE", f"/v1/runs/count{times}")
        wrong = self.weir("module", "run", "sort", "no-such-kernel", *flags)
        self.assertEqual(wrong.returncode, 3, wrong.stderr)
        self.assertEqual(self.client.get("/v1/runs")["runs"], [], "acknowledged")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--long":
        del sys.argv[1]
        del OneManager, RealModules
    else:
        del WithEtcd
    unittest.main(verbosity=2)
