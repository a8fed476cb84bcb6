# SPDX-License-Identifier: Apache-2.0
"""Asks a manager from its own machine, while that is cut off, whether it leads and whether it confirms anything.

  cut_off_probe.py ADDRESS NAME SECONDS

Prints one JSON object: "led_until" (the last time at which it said that it leads) and "confirmed" (the runs NAME-0,
NAME-1 … that it confirmed, each with the time of the answer). Times are of the machine's monotonic clock, like the
caller's.
"""
import http.client
import json
import sys
import threading
import time

from cluster_processes import Client


class At:
    def __init__(self, address):
        self.address = address


def hand_in(client, name, until, confirmed):
    count = 0
    while time.monotonic() < until:
        run = f"{name}-{count}"
        count += 1
        try:
            status, _ = client.once(client.managers[0], "PUT", "/v1/runs/" + run, {"module": "fake", "kernel": "echo", "arguments": run})
        except (OSError, http.client.HTTPException):
            continue
        if status == 202:
            confirmed.append({"run": run, "at": time.monotonic()})
        time.sleep(0.05)


def main():
    address, name, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    client = Client([At(address)], timeout=25)
    until = time.monotonic() + seconds
    confirmed, led_until = [], None
    threads = [threading.Thread(target=hand_in, args=(client, f"{name}-{i}", until, confirmed), daemon=True) for i in range(2)]
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        try:
            if client.once(address, "GET", "/v1/cluster", timeout=2)[1].get("leads"):
                led_until = time.monotonic()
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.02)
    for thread in threads:
        thread.join(25)
    print(json.dumps({"led_until": led_until, "confirmed": confirmed}))


if __name__ == "__main__":
    main()
