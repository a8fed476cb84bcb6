# SPDX-License-Identifier: Apache-2.0
"""The actions of a hostile process, by role. Prints a line for each action that is done, and ends when its input ends.

  silent COUNT PLACE...       COUNT connections to each place, a socket's path or tcp:PORT, without data: prints how many
                              were made to each place; then opens more
  noise SEED ROUNDS PLACE...  random bytes to each place, a socket's path or tcp:PORT
  attach COUNT SOCKET HEX     COUNT connections that send HEX and stay open: prints how many were welcomed
  hello SOCKET TYPE HEX [SECONDS]
                              one connection that sends HEX: prints the answer's bytes, or "closed", or "silence" after
                              SECONDS (100)
  kill                        for each line "PID": kills that process
  region SOCKET HEX           attaches with HEX and overwrites the vGPU's region without end: prints "begun", and at the
                              end how often it wrote
"""
import collections
import errno
import mmap
import os
import random
import resource
import select
import signal
import socket
import struct
import sys

KINDS = {"packet": socket.SOCK_SEQPACKET, "stream": socket.SOCK_STREAM}


def say(*words):
    print(*words, flush=True)


def connect(path, kinds=(socket.SOCK_SEQPACKET, socket.SOCK_STREAM), blocking=False):
    """A connection of the socket's kind; None: it was refused, or the queue is full."""
    for kind in kinds:
        there = socket.socket(socket.AF_UNIX, kind)
        there.setblocking(blocking)
        try:
            there.connect(path)
            return there
        except OSError as error:
            there.close()
            if error.errno != errno.EPROTOTYPE:
                return None
    return None


def connect_silently(place):
    """A connection that is made, or on its way; None: it was refused, or the queue is full."""
    if not place.startswith("tcp:"):
        return connect(place)
    there = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    there.setblocking(False)
    if there.connect_ex(("127.0.0.1", int(place[4:]))) in (0, errno.EINPROGRESS):
        return there
    there.close()
    return None


def is_made(there):
    try:
        there.getpeername()
        return True
    except OSError:
        return False


def silent(count, *places):
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    kept = []  # (a connection, its place)
    # Alternates between the places, so that one place's limits don't protect the next one.
    for _ in range(int(count)):
        for place in places:
            there = connect_silently(place)
            if there is not None:
                kept.append((there, place))
    made = collections.Counter(place for there, place in kept if is_made(there))
    say(*(made[place] for place in places))
    # Several hundred new connections a second replace the oldest, so that connections which were refused try again.
    most = int(count) * len(places)
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        for place in places:
            for _ in range(5):
                there = connect_silently(place)
                if there is not None:
                    kept.append((there, place))
        for old, _ in kept[:-most]:
            old.close()
        del kept[:-most]


def noise(seed, rounds, *places):
    draw = random.Random(int(seed))
    sent = 0
    for _ in range(int(rounds)):
        for place in places:
            if place.startswith("tcp:"):
                try:
                    there = socket.create_connection(("127.0.0.1", int(place[4:])), timeout=5)
                except OSError:
                    continue
            else:
                there = connect(place)
            if there is None:
                continue
            there.setblocking(False)
            for _ in range(draw.randrange(1, 4)):
                said = draw.randbytes(draw.choice((1, 2, 8, 16, 63, 512, 513, 4096, 70_000)))
                # Some begin like a known protocol.
                said = draw.choice((b"", b"", b"WAT1\1\0", b"\x19\0\0\0\1\0\0\0", b"GET / HTTP/1.1\r\n", b"WPF1\1\0\0\0", b"leave\n", b"where\n")) + said
                try:
                    there.send(said)
                    sent += 1
                except OSError:
                    break
            there.close()
    say(sent)
    sys.stdin.read()


WELCOME = bytes((2, 0))  # the type of a message, after the magic and the version (proto/attach_messages.h)


def attach(count, path, message):
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    kept, welcomed = [], 0
    for _ in range(int(count)):
        there = connect(path)
        if there is None:
            break
        kept.append(there)
        try:
            there.send(bytes.fromhex(message))
        except OSError:
            continue
        if select.select([there], [], [], 0.2)[0]:
            try:
                welcomed += there.recv(4096)[6:8] == WELCOME
            except OSError:
                pass
    say(welcomed)
    sys.stdin.read()


def hello(path, kind, message, seconds="100"):
    there = connect(path, (KINDS[kind],), blocking=True)
    if there is None:
        return say("refused")
    there.settimeout(float(seconds))
    try:
        there.send(bytes.fromhex(message))
    except BrokenPipeError:
        pass  # it was answered before it sent anything
    try:
        said = there.recv(65536)
        say(said.hex() or "closed")
    except TimeoutError:
        say("silence")
    except OSError:
        say("closed")
    sys.stdin.read()


def kill():
    for line in sys.stdin:
        try:
            os.kill(int(line), signal.SIGKILL)
            say("killed")
        except OSError as error:
            say(error)


# Places in a vGPU's region (src/proto/gate_layout.h).
MODE, HEARTBEAT, LIMIT, ALLOWANCE = 64, 72, 92, 192
OPEN_GATE = 0
DAYS_AHEAD = 1 << 60


def region(path, message):
    there = connect(path, blocking=True)
    there.send(bytes.fromhex(message))
    welcome, descriptors, _, _ = socket.recv_fds(there, 512, 3)
    if welcome[6:8] != WELCOME or len(descriptors) != 3:
        return say("refused")
    words = mmap.mmap(descriptors[0], os.fstat(descriptors[0]).st_size)
    say("begun")
    writes = 0
    while not select.select([sys.stdin], [], [], 0.001)[0]:
        struct.pack_into("<I", words, MODE, OPEN_GATE)
        struct.pack_into("<I", words, LIMIT, 0)
        struct.pack_into("<q", words, HEARTBEAT, (0, DAYS_AHEAD)[writes % 2])
        # A great allowance, and refunds that are small enough to be believed.
        before = struct.unpack_from("<q", words, ALLOWANCE)[0]
        struct.pack_into("<q", words, ALLOWANCE, (DAYS_AHEAD, before + 10_000_000)[writes % 8 > 0])
        writes += 1
    say(writes)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
