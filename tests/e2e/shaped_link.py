# SPDX-License-Identifier: Apache-2.0
"""Another network namespace on this machine, and a link of a given rate to it: models two machines' network. Needs
root."""
import subprocess
import sys

SPACE, NEAR, FAR = "weir-far", "10.77.7.1", "10.77.7.2"
INSIDE = ["ip", "netns", "exec", SPACE]  # the command prefix that runs a command there


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}; it needs root, and Debian's iproute2")


class ShapedLink:
    """A link from NEAR, here, to FAR, there; `rate` in tc's syntax, in each direction."""

    def __init__(self, rate):
        subprocess.run(["ip", "netns", "del", SPACE], capture_output=True)
        # this end exists for a moment longer than the other
        subprocess.run(["ip", "link", "del", "weir-near0"], capture_output=True)
        run("ip", "netns", "add", SPACE)
        run("ip", "link", "add", "weir-near0", "type", "veth", "peer", "name", "weir-far0", "netns", SPACE)
        run("ip", "addr", "add", f"{NEAR}/24", "dev", "weir-near0")
        run("ip", "link", "set", "weir-near0", "up")
        run(*INSIDE, "ip", "addr", "add", f"{FAR}/24", "dev", "weir-far0")
        run(*INSIDE, "ip", "link", "set", "weir-far0", "up")
        run(*INSIDE, "ip", "link", "set", "lo", "up")
        shape = ["root", "tbf", "rate", rate, "burst", "256kb", "latency", "20ms"]
        run("tc", "qdisc", "add", "dev", "weir-near0", *shape)
        run(*INSIDE, "tc", "qdisc", "add", "dev", "weir-far0", *shape)

    def close(self):
        subprocess.run(["ip", "netns", "del", SPACE], capture_output=True)


def carried_bytes():
    """Since the link is there, both ways, by its own count."""
    total = 0
    for way in ("rx_bytes", "tx_bytes"):
        with open(f"/sys/class/net/weir-near0/statistics/{way}") as file:
            total += int(file.read())
    return total
