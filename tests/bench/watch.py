# SPDX-License-Identifier: Apache-2.0
"""Frames of running vGPUs, as the daemon recorded them, and what they come to."""
import math
import time


class Watch:
    """Collects the frames of some vGPUs while a test runs. Times in seconds since it began."""

    def __init__(self, node, names):
        self.node = node
        self.began_ns = node.get("/v1/status")["now_ns"]
        self.next = {name: self.fetch(name, 0)["next"] for name in names}
        self.frames = {name: [] for name in names}
        self.lost = 0

    def fetch(self, name, after):
        return self.node.get(f"/v1/vgpus/{name}/frames?after={after}&limit=16384")

    def poll(self):
        for name in self.frames:
            reply = self.fetch(name, self.next[name])
            self.next[name] = reply["next"]
            self.lost += reply["lost"]
            columns = reply["columns"]
            self.frames[name] += [dict(zip(columns, row)) for row in reply["frames"]]

    def run(self, seconds, at=None):
        """`at`: {second: function}, each called once when its time has come."""
        pending = sorted((at or {}).items())
        end = time.monotonic() + seconds
        start = time.monotonic()
        while time.monotonic() < end:
            while pending and time.monotonic() - start >= pending[0][0]:
                pending.pop(0)[1]()
            self.poll()
            time.sleep(max(0.0, min(0.25, end - time.monotonic())))
        time.sleep(0.15)  # the daemon reads the gates' records twenty times a second
        self.poll()
        for name, frames in self.frames.items():
            self.frames[name] = [f for f in frames if 0 <= self.time_of(f) < seconds]
        return self

    def time_of(self, frame):
        return (frame["end_ns"] - self.began_ns) / 1e9

    def rates(self, name, span):
        """(second, frames/s) for each whole second."""
        counts = [0] * int(span)
        for frame in self.frames[name]:
            second = int(self.time_of(frame))
            if 0 <= second < len(counts):
                counts[second] += 1
        return [(i + 0.5, c) for i, c in enumerate(counts)]

    def latencies(self, name):
        """(second, ms): between the returns of two consecutive presents (VGRIS, section 3.2)."""
        return [(self.time_of(f), (f["end_ns"] - f["begin_ns"]) / 1e6) for f in self.frames[name]]


def summary(watch, name, seconds, interval_ms):
    """Frames of one vGPU against the interval it was promised (late: more than 1 ms beyond it)."""
    ms = sorted(latency for _, latency in watch.latencies(name))
    frames = watch.frames[name]
    if not ms:
        raise AssertionError(f"{name} showed no frame in {seconds} s")
    predicted = [f for f in frames if f["predicted_ns"] > 0 and f["interval_ns"] > 0]
    errors = [(f["end_ns"] - f["submit_ns"] - f["predicted_ns"]) / 1e6 for f in predicted]
    return {"frames": len(ms), "fps": len(ms) / seconds, "p50_ms": nearest_rank(ms, 0.5), "p99_ms": nearest_rank(ms, 0.99),
            "max_ms": ms[-1], "late": sum(m > interval_ms + 1 for m in ms) / len(ms),
            "late_10_percent": sum(m > interval_ms * 1.1 for m in ms) / len(ms),
            "gpu_use": sum(f["gpu_ns"] for f in frames) / 1e9 / seconds,
            "pace_ms": sum(f["pace_ns"] for f in frames) / 1e6 / len(ms),
            "mispredicted": sum(abs(e) > 2 for e in errors) / len(errors) if errors else None,
            "errors_ms": errors}


def nearest_rank(ordered, p):
    return ordered[max(math.ceil(p * len(ordered)), 1) - 1]


def fit_line(points):
    """y = a + b·x by least squares; (a, b, R²)."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    sxx = sum((x - mean_x) ** 2 for x, _ in points)
    sxy = sum((x - mean_x) * (y - mean_y) for x, y in points)
    syy = sum((y - mean_y) ** 2 for _, y in points)
    b = sxy / sxx
    return mean_y - b * mean_x, b, sxy * sxy / (sxx * syy) if syy else 1.0


def fit_power(points):
    """y = a·x^b; (a, b, R²), the last of the logarithms."""
    a, b, r2 = fit_line([(math.log(x), math.log(y)) for x, y in points])
    return math.exp(a), b, r2
