# SPDX-License-Identifier: Apache-2.0
"""Serves a node's modules API (docs/cluster.md) with kernels that need no device, so that clusters can be tested alone.

  fake_modules.py SOCKET LOG [CONCURRENT]

Kernels: `echo` returns its arguments as text; `sleep` does so after that many seconds; `fail` fails with its arguments;
`upper` returns its input in capital letters as output. Each execution appends "RUN KERNEL ARGUMENTS" to LOG when it
ends, in one write.
"""
import hashlib
import http.server
import json
import os
import socketserver
import sys
import threading
import time
from urllib.parse import parse_qs, urlparse


class Node:
    def __init__(self, log, concurrent):
        self.lock = threading.Condition()
        self.log, self.concurrent = log, concurrent
        self.blobs, self.runs, self.bodies = {}, {}, {}

    def execute(self, name, body):
        began = time.monotonic()
        kernel, arguments = body["kernel"], body.get("arguments", "")
        if kernel == "sleep":
            time.sleep(float(arguments.split()[0]))
        with self.lock:
            if name not in self.runs:
                return  # removed
            end = {"state": "done", "text": arguments, "seconds": time.monotonic() - began, "ran_beside": 0}
            if kernel == "fail":
                end = {**end, "state": "failed", "error": {"code": "internal", "message": arguments}}
            if kernel == "upper":
                out = self.blobs[body["input"]].upper()
                end["output"] = hashlib.sha256(out).hexdigest()
                self.blobs[end["output"]] = out
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(log, f"{name} {kernel} {arguments}\n".encode())
            os.close(log)
            self.runs[name].update(end)
            self.lock.notify_all()

    def submit(self, name, body):
        if name in self.runs:
            return (202, self.runs[name]) if self.bodies[name] == body else (409, error("already-exists", "another body"))
        for blob in (body.get("blob"), body.get("input")):
            if blob and blob not in self.blobs:
                return 404, error("not-found", f"blob {blob} is not in the store")
        self.bodies[name] = body
        self.runs[name] = {"id": name, "module": body["module"], "kernel": body["kernel"], "state": "running",
                           "attempt": 1, "device": "fake0"}
        threading.Thread(target=self.execute, args=(name, body), daemon=True).start()
        return 202, self.runs[name]


def error(code, message):
    return {"error": {"code": code, "message": message}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/octet-stream" if isinstance(body, bytes) else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_any(self):
        node, url = self.server.node, urlparse(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        _, _, kind, *rest = url.path.split("/")
        name = rest[0] if rest else None
        with node.lock:
            if kind == "devices":
                device = {"name": "fake0", "memory_bytes": 1 << 30, "concurrent_max": node.concurrent}
                return self.answer(200, {"devices": [device]})
            if kind == "blobs":
                if self.command == "PUT":
                    node.blobs[hashlib.sha256(body).hexdigest()] = body
                    return self.answer(201, {"blob": name})
                return self.answer(200, node.blobs[name]) if name in node.blobs else self.answer(404, error("not-found", name))
            if kind == "modules":
                if self.command == "DELETE":
                    return self.answer(200, {"removed": name})
                blob = json.loads(body)["blob"]
                if blob not in node.blobs:
                    return self.answer(404, error("not-found", f"blob {blob} is not in the store"))
                kernels = [{"name": kernel, "summary": "a fake"} for kernel in ("echo", "sleep", "fail", "upper")]
                return self.answer(200, {"module": name, "blob": blob, "kernels": kernels})
            if name is None:
                return self.answer(200, {"runs": list(node.runs.values())})
            if self.command == "PUT":
                return self.answer(*node.submit(name, json.loads(body)))
            if name not in node.runs:
                return self.answer(404, error("not-found", f"no run {name}"))
            if self.command == "DELETE":
                del node.runs[name], node.bodies[name]
                return self.answer(200, {"removed": name})
            wait = int(parse_qs(url.query).get("wait_ms", ["0"])[0]) / 1e3
            node.lock.wait_for(lambda: node.runs.get(name, {}).get("state") != "running", wait)
            return self.answer(200, node.runs[name])

    do_GET = do_PUT = do_DELETE = handle_any


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    path, log = sys.argv[1:3]
    if os.path.exists(path):
        os.unlink(path)
    server = Server(path, Handler)
    server.node = Node(log, int(sys.argv[3]) if len(sys.argv) > 3 else 4)
    server.serve_forever()


main()
