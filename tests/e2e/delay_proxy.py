# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that delays every byte by the same time in each direction, and keeps their order. It does not limit
bandwidth. As a program: delay_proxy.py LISTEN_PORT TARGET_HOST:PORT ROUND_TRIP_MS."""
import socket
import sys
import threading
import time


class DelayProxy:
    def __init__(self, target, round_trip_s, port=0):
        self.target, self.delay = target, round_trip_s / 2
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.connections = 0
        self.stopped = False
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.stopped:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target)
            except OSError:
                continue
            self.connections += 1
            self.sockets += [near, far]
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, to in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(source, to), daemon=True).start()

    def carry(self, source, to):
        """Reads data and sends it after the delay, with two threads, so that neither waits for the other."""
        queue, ready = [], threading.Condition()

        def deliver():
            while True:
                with ready:
                    while not queue:
                        ready.wait()
                    due, data = queue.pop(0)
                pause = due - time.monotonic()
                if pause > 0:
                    time.sleep(pause)
                try:
                    if not data:
                        return to.shutdown(socket.SHUT_WR)
                    to.sendall(data)
                except OSError:
                    return None

        threading.Thread(target=deliver, daemon=True).start()
        data = b"x"
        while data:
            try:
                data = source.recv(1 << 20)
            except OSError:
                data = b""
            with ready:
                queue.append((time.monotonic() + self.delay, data))
                ready.notify()

    def cut(self):
        """Ends all connections at once, like a pulled cable that both ends notice."""
        for one in self.sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.sockets.clear()

    def close(self):
        self.stopped = True
        self.listener.close()
        self.cut()


if __name__ == "__main__":
    host, _, number = sys.argv[2].rpartition(":")
    proxy = DelayProxy((host, int(number)), float(sys.argv[3]) / 1000, int(sys.argv[1]))
    threading.Event().wait()
