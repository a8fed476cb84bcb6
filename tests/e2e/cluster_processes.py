# SPDX-License-Identifier: Apache-2.0
"""Managers, members, nodes and etcd as processes that a test starts and kills. Shared by cluster_e2e and bench-cluster."""
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

from weir_e2e import BUILD, PATIENCE, WEIR, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
MODULE = os.path.join(BUILD, "lib/weir/modules/sorting_network.so")
MEMBER = os.path.join(BUILD, "lib/weir/weir-member")
TOKEN = "0123456789abcdef0123456789abcdef"


def free_ports(count):
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Processes:
    """All processes that were started; they are ended together."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="weir-cluster-")
        self.all = []
        self.token = self.path("token")
        with open(os.open(self.token, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(TOKEN + "\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, name, command, **options):
        log = open(self.path(name + ".log"), "ab")
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **options)
        log.close()
        self.all.append(process)
        return process

    def log(self, name):
        with open(self.path(name + ".log"), errors="replace") as log:
            return log.read()

    @staticmethod
    def kill(process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self):
        for process in self.all:
            self.kill(process)
        shutil.rmtree(self.folder, ignore_errors=True)


class Manager:
    def __init__(self, processes, name, port, *state, token=True, keys=None, prefix=(), host="127.0.0.1"):
        self.processes, self.name, self.address = processes, name, f"{host}:{port}"
        self.command = [*prefix, WEIR, "manager", "--listen", self.address, "--store", processes.path("blobs"), *state]
        if keys:
            self.command += ["--keys", keys]
        elif token:
            self.command += ["--token", processes.token]
        self.process = None

    def start(self):
        self.process = self.processes.start(self.name, self.command)
        return self

    def kill(self):
        self.processes.kill(self.process)


class ClusterNode:
    """A node with fake modules. Its member process is started by a daemon (`served`), or on its own."""

    def __init__(self, processes, name, managers, run_dir=None, served=False, concurrent=4, prefix=(), token=None):
        self.processes, self.name, self.prefix = processes, name, prefix
        self.managers = ",".join(manager.address for manager in managers)
        self.run_dir = processes.path(run_dir or name)
        os.makedirs(self.run_dir, exist_ok=True)
        self.served, self.concurrent = served, concurrent
        self.token = token or processes.token
        self.running = []

    def start(self):
        executed, run = self.processes.path("executed"), self.run_dir
        self.running = [self.processes.start(self.name, [
            sys.executable, os.path.join(HERE, "fake_modules.py"), run + "/modules.sock", executed, str(self.concurrent)])]
        if self.served:
            command = [WEIR, "serve", "--run-dir", run, "--state-dir", run + "/state", "--manager", self.managers,
                       "--node-name", self.name, "--manager-token", self.token]
        else:
            command = [MEMBER, "--managers", self.managers, "--node-name", self.name, "--modules", run + "/modules.sock",
                       "--identity", run + "/member.identity", "--token", self.token]
        self.running.append(self.processes.start(self.name, [*self.prefix, *command]))
        return self

    def kill(self):
        for process in self.running:
            self.processes.kill(process)


class Etcd:
    """Three etcd members with etcd's default times: on loopback, or each at a host of its own and started with a
    command prefix."""

    def __init__(self, processes, hosts=None, prefixes=((), (), ())):
        self.processes, self.prefixes = processes, prefixes
        ports = free_ports(6) if hosts is None else [2379, 2380] * 3
        addresses = [f"{host}:{ports[2 * i + k]}" for i, host in enumerate(hosts or ["127.0.0.1"] * 3) for k in range(2)]
        self.clients, self.peers = addresses[::2], addresses[1::2]
        self.running = [None] * 3
        self.addresses = ",".join(self.clients)

    def start(self, which):
        initial = ",".join(f"e{i}=http://{address}" for i, address in enumerate(self.peers))
        client, peer = "http://" + self.clients[which], "http://" + self.peers[which]
        self.running[which] = self.processes.start(f"etcd{which}", [
            *self.prefixes[which], "etcd", "--name", f"e{which}", "--data-dir", self.processes.path(f"etcd{which}"), "--listen-client-urls", client,
            "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", initial, "--initial-cluster-state", "new", "--heartbeat-interval", "50",
            "--election-timeout", "500", "--logger", "zap", "--log-level", "error"])

    def start_all(self):
        for which in range(3):
            self.start(which)
        wait_for(lambda: self.leader() is not None, "etcd elects a leader")
        return self

    def status(self, which):
        connection = http.client.HTTPConnection(self.clients[which], timeout=1)
        try:
            connection.request("POST", "/v3/maintenance/status", "{}")
            return json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return {}
        finally:
            connection.close()

    def leader(self):
        for which, process in enumerate(self.running):
            if process is None or process.poll() is not None:
                continue
            status = self.status(which)
            leader = status.get("leader", "0")
            if leader != "0" and leader == status.get("header", {}).get("member_id"):
                return which
        return None

    def kill(self, which):
        self.processes.kill(self.running[which])


def tls_context(token, folder):
    """Of a client with this token, which is the authority's certificate, the client's and its key."""
    with open(token) as file:
        text = file.read()
    parts = [text[begin:] for begin in [at.start() for at in re.finditer("-----BEGIN CERT", text)]]
    own = os.path.join(folder, os.path.basename(token) + ".own")
    with open(os.open(own, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(parts[1])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=parts[0][:parts[0].index("-----END CERTIFICATE-----") + 26])
    context.load_cert_chain(own)
    return context


def leader_by(manager):
    """The leading manager according to this one; None: it does not answer."""
    try:
        return Client([manager]).once(manager.address, "GET", "/v1/runs")[1].get("leader")
    except (OSError, http.client.HTTPException, AttributeError):
        return None


class Client:
    """A client of the leading manager. Repeats a request until a manager answers: every request may be repeated."""

    def __init__(self, managers, token=TOKEN, timeout=5):
        self.managers = [manager.address for manager in managers]
        self.token, self.timeout = token, timeout

    @staticmethod
    def connection(address, timeout):
        return http.client.HTTPConnection(address, timeout=timeout)

    def once(self, address, method, path, body=None, timeout=None):
        connection = self.connection(address, timeout or self.timeout)
        try:
            data = json.dumps(body) if isinstance(body, dict) else body
            connection.request(method, path, data, {"authorization": "Bearer " + self.token} if self.token else {})
            reply = connection.getresponse()
            text = reply.read()
            return reply.status, json.loads(text) if "json" in reply.getheader("content-type", "") else text
        finally:
            connection.close()

    def ask(self, method, path, body=None, within=PATIENCE):
        deadline = time.monotonic() + within
        while True:
            for address in list(self.managers):
                try:
                    status, reply = self.once(address, method, path, body)
                except (OSError, http.client.HTTPException):
                    status, reply = 503, "no manager answers"
                if status != 503:
                    return status, reply
                self.managers = self.managers[1:] + self.managers[:1]
            if time.monotonic() > deadline:
                raise AssertionError(f"{method} {path}: no manager that leads within {within} s: {reply}")
            time.sleep(0.05)

    def get(self, path, **options):
        status, reply = self.ask("GET", path, **options)
        if status != 200:
            raise AssertionError(f"GET {path}: {status} {reply}")
        return reply

    def put_blob(self, data):
        name = hashlib.sha256(data).hexdigest()
        status, reply = self.ask("PUT", "/v1/blobs/" + name, data)
        if status not in (200, 201):
            raise AssertionError(f"blob: {status} {reply}")
        return name

    def register(self):
        """Registers a real module; the fake nodes accept any."""
        with open(MODULE, "rb") as module:
            blob = self.put_blob(module.read())
        status, reply = self.ask("PUT", "/v1/modules/fake", {"blob": blob})
        if status != 200:
            raise AssertionError(f"module: {status} {reply}")

    def submit(self, run, kernel, arguments="", **more):
        status, reply = self.ask("PUT", "/v1/runs/" + run,
                                 {"module": "fake", "kernel": kernel, "arguments": arguments, **more})
        if status != 202:
            raise AssertionError(f"run {run}: {status} {reply}")
        return reply

    def wait(self, run, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while True:
            reply = self.get(f"/v1/runs/{run}?wait_ms={min(2000, int(500 * self.timeout))}")
            if reply["state"] in ("done", "failed"):
                return reply
            if time.monotonic() > deadline:
                raise AssertionError(f"run {run} has not ended within {seconds} s: {reply}")


class TlsClient(Client):
    """The same with a token of TLS."""

    def __init__(self, managers, token, folder):
        super().__init__(managers, token=None)
        self.context = tls_context(token, folder)

    def connection(self, address, timeout):
        connection = http.client.HTTPConnection(address, timeout=timeout)
        host, port = address.rsplit(":", 1)
        connection.sock = self.context.wrap_socket(socket.create_connection((host, int(port)), timeout))
        if connection.sock.recv(1) != b"W":  # the manager's word that it has accepted the token
            raise OSError("refused")
        return connection
