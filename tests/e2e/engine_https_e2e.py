# SPDX-License-Identifier: Apache-2.0
"""The driver for OpenStack and a server of HTTPS: whom it trusts, and that its token goes to nobody else."""
import http.server
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
import unittest

import weir_e2e as e2e

DRIVER = os.path.join(e2e.BUILD, "bin/weir-engine-driver")
TOKEN = "token-of-an-administrator"


class Placement(http.server.BaseHTTPRequestHandler):
    """Has no resource provider and lets nobody make one. Keeps what it is asked, and the tokens."""
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        self.server.asked.append((self.command, self.path, self.rfile.read(int(self.headers.get("Content-Length", 0)))))
        self.server.tokens.add(self.headers.get("X-Auth-Token"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, b'{"resource_providers": []}')

    def do_PUT(self):
        self.answer(204, b"")

    def do_POST(self):
        self.answer(403, b"{}")

    def log_message(self, *_):
        pass


class Https(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = e2e.Node("--quiet").start()
        cls.addClassCleanup(cls.node.close)
        cls.folder = tempfile.mkdtemp(prefix="weir-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.token = os.path.join(cls.folder, "token")
        with open(cls.token, "w") as file:
            file.write(TOKEN + "\n")

    def certificate(self, name):
        """A certificate of its own authority, for a host of this name."""
        paths = [os.path.join(self.folder, f"{name}.{kind}") for kind in ("crt", "key")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                        "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-out", paths[0], "-keyout", paths[1]],
                       check=True, capture_output=True)
        return paths

    def serve(self, certificate=None):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Placement)
        server.tokens, server.asked = set(), []
        server.handle_error = lambda *_: None  # a client that refuses the certificate
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def drive(self, url, *options):
        """The driver's first message, which says what became of its first request."""
        driver = subprocess.Popen([DRIVER, "--engine", "openstack", "--url", url, "--token-file", self.token, "--provider", "gpu1",
                                   "--socket", self.node.socket, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True)
        self.addCleanup(driver.stderr.close)
        self.addCleanup(driver.wait)
        self.addCleanup(driver.kill)
        return driver.stderr.readline()

    def url(self, server, host="localhost", scheme="https"):
        return f"{scheme}://{host}:{server.server_port}/placement"

    def test_a_server_whose_authority_is_named_gets_the_token(self):
        certificate = self.certificate("localhost")
        server = self.serve(certificate)
        said = self.drive(self.url(server), "--authorities", certificate[0])
        self.assertIn("asked OpenStack Placement for POST /resource_providers: HTTP 403", said)
        self.assertEqual(server.tokens, {TOKEN})
        self.assertIn(("PUT", "/placement/resource_classes/CUSTOM_VGPU_SHARE", b""), server.asked)
        posted = [json.loads(body) for method, path, body in server.asked if (method, path) == ("POST", "/placement/resource_providers")]
        self.assertTrue(posted and posted[0]["name"].startswith("gpu1"), server.asked)

    def test_a_server_of_an_unknown_authority_gets_nothing(self):
        server = self.serve(self.certificate("localhost"))
        self.assertIn("certificate", self.drive(self.url(server)))
        self.assertEqual(server.tokens, set())

    def test_a_server_of_another_name_gets_nothing(self):
        certificate = self.certificate("elsewhere")
        server = self.serve(certificate)
        self.assertIn("localhost", self.drive(self.url(server), "--authorities", certificate[0]))
        self.assertEqual(server.tokens, set())

    def test_a_server_without_encryption_is_named_as_such(self):
        server = self.serve()
        self.assertIn("asking https://localhost", self.drive(self.url(server)))
        self.assertEqual(server.tokens, set())

    def test_the_token_leaves_this_machine_encrypted_only(self):
        said = self.drive("http://placement.invalid:8778")
        self.assertIn("--plain", said)
        self.assertIn("without encryption", said)
        server = self.serve()
        self.drive(self.url(server, scheme="http"))  # this machine
        self.assertEqual(server.tokens, {TOKEN})


if __name__ == "__main__":
    unittest.main(verbosity=2)
