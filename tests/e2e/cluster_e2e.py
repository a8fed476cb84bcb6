# SPDX-License-Identifier: Apache-2.0
"""A cluster of real processes on this machine: managers with a file, members, nodes with fake modules, a node with real ones. With
--long: managers with etcd."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from cluster_processes import BUILD, MODULE, Client, ClusterNode, Etcd, Manager, Processes, TlsClient, free_ports
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
                (["--keys", self.processes.path("none")], 3, "'weir keys init' makes them"),
                (["--keys", self.processes.path("none"), "--plain"], 2, "give --keys, --token or --plain"),
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


class Tls(ClusterTest):
    """A manager that admits holders of its tokens, by their roles."""

    def setUp(self):
        super().setUp()
        self.keys = self.processes.path("keys")
        self.ok("keys", "init", "--name", "cluster", "--dir", self.keys)
        self.manager = Manager(self.processes, "manager", free_ports(1)[0], "--state", self.processes.path("new/state"),
                               "--lost-after", "3", keys=self.keys).start()

    def ok(self, *arguments):
        done = self.weir(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, *arguments):
        done = self.weir(*arguments)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr

    def token(self, name, role):
        path = self.processes.path(f"{name}.{role}")
        said = self.ok("keys", "token", name, "--role", role, "--dir", self.keys, "--out", path)
        self.assertIn(f"gives access to the manager as {role} '{name}'", said)
        return path

    def client_as(self, name, role):
        return TlsClient([self.manager], self.token(name, role), self.processes.folder)

    def audited(self):
        with open(os.path.join(self.keys, "audit.jsonl")) as log:
            return [json.loads(line) for line in log]

    def test_each_role_does_its_part_and_no_more(self):
        self.client = chief = self.client_as("chief", "operator")
        nodes = [ClusterNode(self.processes, name, [self.manager], token=self.token(name, "node")).start()
                 for name in ("n1", "n2")]
        self.wait_for_nodes(["n1", "n2"])
        chief.register()
        lab, other = self.client_as("lab", "tenant"), self.client_as("other", "tenant")
        blob = lab.put_blob(b"some input")
        lab.submit("mine", "upper", input=blob)
        self.assertEqual(lab.get("/v1/blobs/" + lab.wait("mine")["output"]), b"SOME INPUT")
        # A tenant sees its runs only, and takes no other's ID.
        self.assertEqual([run["id"] for run in lab.get("/v1/runs")["runs"]], ["mine"])
        self.assertEqual(other.get("/v1/runs")["runs"], [])
        for method, path in (("GET", "/v1/runs/mine"), ("DELETE", "/v1/runs/mine"), ("GET", "/v1/runs/mine/explain")):
            self.assertEqual(other.ask(method, path)[0], 404, path)
        self.assertEqual(other.ask("PUT", "/v1/runs/mine", {"module": "fake", "kernel": "echo", "arguments": "x"})[0], 409)
        self.assertEqual([run["tenant"] for run in chief.get("/v1/runs")["runs"]], ["lab"])
        # No role does another's part.
        for client, method, path in ((lab, "PUT", "/v1/modules/m"), (lab, "GET", "/metrics"), (lab, "POST", "/v1/members/n1/hello"),
                                     (chief, "POST", "/v1/members/n1/hello")):
            status, reply = client.ask(method, path, {} if method != "GET" else None)
            self.assertEqual((status, reply["error"]["code"]), (403, "permission-denied"), path)
        ClusterNode(self.processes, "n3", [self.manager], token=nodes[0].token).start()
        wait_for(lambda: "the token is that of node 'n1', not of 'n3'" in self.processes.log("n3"), "the false node is refused")
        # The manager's log has the changes and the refusals, each with the holder of the token.
        log = [(e["role"], e["name"], e["method"], e["path"], e["status"]) for e in self.audited()]
        self.assertIn(("tenant", "lab", "PUT", "/v1/runs/mine", 202), log)
        self.assertIn(("tenant", "other", "DELETE", "/v1/runs/mine", 404), log)
        self.assertIn(("tenant", "lab", "PUT", "/v1/modules/m", 403), log)
        self.assertIn(("node", "n1", "POST", "/v1/members/n1/hello", 200), log)
        self.assertFalse([e for e in log if e[3].endswith(("/work", "/results"))])
        # Runs keep their tenants when the manager is restarted.
        self.manager.kill()
        self.manager.start()
        self.assertEqual([run["id"] for run in lab.get("/v1/runs")["runs"]], ["mine"])
        self.assertEqual(other.ask("GET", "/v1/runs/mine")[0], 404)

    def test_the_commands_use_tokens(self):
        chief = ["--manager", self.manager.address, "--token", self.token("chief", "operator")]
        self.assertIn("leads", wait_for(lambda: self.weir("cluster", "status", *chief).stdout, "the manager leads"))
        lab = ["--manager", self.manager.address, "--token", self.token("lab", "tenant")]
        self.ok("nodes", *lab)
        self.assertIn("tenant 'lab' may not ask for DELETE /v1/modules/m", self.refused("module", "rm", "m", *lab))
        self.assertIn("is it a port without TLS?", self.refused("nodes", *chief[:1], self.plain_port(), *chief[2:]))
        self.assertTrue(self.refused("nodes", "--manager", self.manager.address, "--token", self.processes.token))
        wait_for(lambda: "sent an HTTP request instead of TLS" in self.processes.log("manager"), "the log says so")
        listed = self.ok("keys", "list", "--dir", self.keys)
        self.assertRegex(listed, r"operator:chief .*good")
        self.ok("keys", "revoke", "operator:chief", "--dir", self.keys)
        self.assertIn("it was revoked", self.refused("nodes", *chief))
        self.ok("nodes", *lab)

    def plain_port(self):
        plain = Manager(self.processes, "plain", free_ports(1)[0], "--state", self.processes.path("plain/state")).start()
        wait_for(lambda: "serves" in self.processes.log("plain"), "the other manager serves")
        return plain.address

    def test_without_a_word_about_access_a_reachable_manager_uses_tls(self):
        port, state = free_ports(1)[0], self.processes.path("home")
        self.processes.start("default", [WEIR, "manager", "--listen", f"0.0.0.0:{port}", "--lost-after", "3"],
                             env={**os.environ, "WEIR_STATE_DIR": state})
        said = wait_for(lambda: "serves" in self.processes.log("default") and self.processes.log("default"), "it serves")
        keys = os.path.join(state, "manager-keys")
        self.assertIn(f"'weir keys token NAME --role operator|tenant|node --dir {keys}' makes tokens", said)
        self.assertIn(", with TLS", said)
        token = self.processes.path("t")
        self.ok("keys", "token", "me", "--role", "operator", "--dir", keys, "--out", token)
        self.ok("nodes", "--manager", f"127.0.0.1:{port}", "--token", token)


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
        results = [client.wait(f"r{i}") for i in range(40)]
        self.assertEqual({run["state"] for run in results}, {"done"})
        self.assertEqual([run["text"] for run in results], [f"0.{i % 10}" for i in range(40)])

    def test_a_leader_that_was_replaced_notices_it_without_a_write(self):
        etcd = Etcd(self.processes).start_all()
        manager = Manager(self.processes, "m", free_ports(1)[0], "--etcd", etcd.addresses).start()
        self.client = client = Client([manager])

        wait_for(lambda: "serves" in self.processes.log("m"), "the manager serves")

        def fence():
            return client.once(manager.address, "GET", "/v1/cluster")[1].get("fence")
        before = wait_for(fence, "the manager leads")
        subprocess.run(["etcdctl", "--endpoints", etcd.addresses, "put", "weir/leader", f"127.0.0.1:{free_ports(1)[0]}"],
                       env={**os.environ, "ETCDCTL_API": "3"}, check=True, capture_output=True, timeout=PATIENCE)
        # Nobody listens at the other leader's address, so that the manager takes the lead again.
        wait_for(lambda: (fence() or before) > before, "the manager follows and leads again")
        self.assertIn("leads no more: the lead is over: 127.0.0.1:", self.processes.log("m"))

    def test_with_tls_a_password_and_a_token_that_expires(self):
        folder = self.processes.folder

        def openssl(*arguments):
            subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=PATIENCE)
        for name, more in (("ca", []), ("server", ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "subjectAltName=IP:127.0.0.1"]),
                           ("client", ["-CA", "ca.pem", "-CAkey", "ca.key"])):
            openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    f"/CN=etcd-{name}", "-keyout", f"{name}.key", "-out", f"{name}.pem", *more)
        at = {name: os.path.join(folder, name) for name in ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")}
        client, peer = (f"127.0.0.1:{port}" for port in free_ports(2))
        self.processes.start("etcd", [
            "etcd", "--name", "e", "--data-dir", self.processes.path("etcd"), "--listen-client-urls", "https://" + client,
            "--advertise-client-urls", "https://" + client, "--listen-peer-urls", "http://" + peer,
            "--initial-advertise-peer-urls", "http://" + peer, "--initial-cluster", "e=http://" + peer, "--cert-file",
            at["server.pem"], "--key-file", at["server.key"], "--trusted-ca-file", at["ca.pem"], "--client-cert-auth",
            "--auth-token-ttl", "2", "--log-level", "error"])

        def etcdctl(*arguments):
            return subprocess.run(["etcdctl", "--endpoints", client, "--cacert", at["ca.pem"], "--cert", at["client.pem"], "--key",
                                   at["client.key"], *arguments], env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True,
                                  text=True, timeout=PATIENCE)
        wait_for(lambda: etcdctl("get", "x").returncode == 0, "etcd answers")
        for arguments in (("user", "add", "root:r"), ("user", "add", "weir:pass"), ("user", "grant-role", "root", "root"),
                          ("role", "add", "weir"), ("role", "grant-permission", "weir", "--prefix=true", "readwrite", "weir/"),
                          ("user", "grant-role", "weir", "weir"), ("auth", "enable")):
            done = etcdctl(*arguments)
            self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
        password = self.processes.path("password")
        with open(os.open(password, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write("pass\n")
        tls = ["--etcd-ca", at["ca.pem"], "--etcd-cert", at["client.pem"], "--etcd-key", at["client.key"]]
        plain = Manager(self.processes, "plain", free_ports(1)[0], "--etcd", client).start()
        manager = Manager(self.processes, "manager", free_ports(1)[0], "--etcd", client, *tls, "--etcd-user", "weir",
                          "--etcd-password", password).start()
        self.client = Client([manager])
        self.nodes = [ClusterNode(self.processes, "n1", [manager]).start()]
        self.wait_for_nodes(["n1"])
        self.client.register()
        for i in range(5):  # over the life of two tokens
            self.client.submit(f"r{i}", "echo", f"said {i}")
            self.assertEqual(self.client.wait(f"r{i}")["text"], f"said {i}")
            time.sleep(1)
        self.assertEqual(Client([plain]).once(plain.address, "GET", "/v1/cluster")[1]["leads"], False)
        self.assertEqual(etcdctl("--user", "weir:pass", "get", "--prefix", "weir/record/run/", "--keys-only").stdout.split(),
                         [f"weir/record/run/r{i}" for i in range(5)])


class RealModules(ClusterTest):
    def node_with_modules(self):
        """A manager, and a node whose module service is a real one. The options of `weir module` for that manager."""
        self.manager = Manager(self.processes, "manager", free_ports(1)[0], "--state", self.processes.path("state"))
        self.manager.start()
        self.node = Node("--quiet", "--modules", "kernels", "--manager", self.manager.address, "--node-name", "n1",
                         "--manager-token", self.processes.token).start()
        self.addCleanup(self.node.close)
        self.node.create("kernels")
        self.client = Client([self.manager])
        self.wait_for_nodes(["n1"])
        return ["--manager", self.manager.address, "--token", self.processes.token]

    def started_by_the_daemon(self):
        """PID and command line of each process that the node's daemon has started."""
        parent = str(self.node.process.pid)
        listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", parent], capture_output=True, text=True).stdout
        return {int(pid): args for pid, args in (line.split(None, 1) for line in listed.splitlines())}

    def programs(self):
        """Names of the manager's and the daemon's programs, and of those of all processes that they started."""
        started, names = {}, {}
        for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
            try:
                with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cmdline") as cmdline:
                    state, parent = stat.read().rpartition(") ")[2].split()[:2]
                    names[pid] = os.path.basename(cmdline.read().split("\0")[0])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if state != "Z":
                started.setdefault(int(parent), []).append(pid)
        found = [self.manager.process.pid, self.node.process.pid]
        for pid in found:  # also those that are added
            found += started.get(pid, [])
        return sorted(names[pid] for pid in found)

    def service(self):
        """PID of the node's module service, None while there is none."""
        return next((pid for pid, args in self.started_by_the_daemon().items() if "weir-modules" in args.split()[0]), None)

    def test_a_run_ends_although_the_module_service_is_killed(self):
        """The module service and the member are one process. The next one gets the node's runs from the manager."""
        flags = self.node_with_modules()
        self.assertEqual(self.weir("module", "register", "naps", FAULTY, *flags).returncode, 0)
        self.client.submit("nap", "nap", "3000", module="naps")
        wait_for(lambda: self.client.get("/v1/runs/nap")["state"] == "running", "the run is placed")
        # Beside the node's daemon a run has four processes, not one for each of its parts.
        processes = ["weir", "weir-executor", "weir-manager", "weir-module-host", "weir-modules"]
        wait_for(lambda: self.programs() == processes, "the module's inspection has ended")
        first = self.service()
        self.assertIn("--managers", self.started_by_the_daemon()[first])
        self.assertEqual([args for args in self.started_by_the_daemon().values() if "weir-member" in args], [])
        os.kill(first, signal.SIGKILL)
        run = self.client.wait("nap")
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
        here = self.weir("--run-dir", self.node.run_dir, "module", "list")
        self.assertEqual(here.stdout, "no module is registered on this node; --manager asks the managers of a cluster\n")
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
            self.assertEqual(self.client.wait(f"count{times}")["text"], times)
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
