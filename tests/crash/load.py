#!/usr/bin/python3
"""Killed with -9 under load, does a store come back with all that it acknowledged, and nothing half-written?

    load.py PROGRAM [ROUNDS [SEED]]

PROGRAM is crash_load, of load.c beside this file. Each round it works on the store that the last round left, is
killed at a random moment after its first word, or sometimes ends in good order or is killed while it opens; then
another one looks at every key. A store in the modes `power` and `device` has lost nothing that it acknowledged; one in
the mode `async` nothing that it acknowledged more than a second before its death.
"""

import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

EVENT = struct.Struct("<QQQII")
ROUNDS_OF_A_STORE = 10
ASYNC_NS = 1_250_000_000  # what was acknowledged earlier is there
PATIENCE = 60
STORE_BYTES = 8 << 20  # little, so that it is collected all the time
ENDINGS = ["kill", "kill", "kill", "kill", "stop", "early"]


class Failure(Exception):
    """The store has broken its word; the text is for the reader."""


class Seen:
    """What one look at a store has told, as load.c lists it. An error is the name of an errno value, or None."""

    def __init__(self):
        self.refusal = self.scan = self.close = self.check = self.put = self.repair = None
        self.faults = 0
        self.found = {}  # numbers of values by key
        self.errors = {}  # of gets
        self.visited = {}
        self.log = []

    def hear(self, line):
        first, _, rest = line.partition(" ")
        if first == "log":
            self.log.append(rest)
        elif first == "visit":
            key, number = map(int, rest.split())
            self.visited[key] = number
        elif first in ("check", "repair"):
            error, faults = rest.split()
            setattr(self, first, error if error != "0" else None)
            self.faults = int(faults)
        elif first in ("open", "scan", "close", "put"):
            setattr(self, "refusal" if first == "open" else first, rest if rest != "0" else None)
        elif rest.isdigit():
            self.found[int(first)] = int(rest)
        else:
            self.errors[int(first)] = rest

    def __str__(self):
        return (f"open {self.refusal}, gets {self.errors}, scan {self.scan}, close {self.close}, put {self.put}, "
                f"check {self.check}, repair {self.repair}, {self.faults}\n" + "\n".join(self.log))


class Looker:
    """A process that looks at stores, one after the other."""

    def __init__(self, program):
        self.process = subprocess.Popen([program, "look"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(PATIENCE)

    def look(self, how, store):
        self.process.stdin.write(f"{how} {store}\n")
        self.process.stdin.flush()
        seen = Seen()
        for line in self.process.stdout:
            if line == "end\n":
                return seen
            seen.hear(line.rstrip("\n"))
        raise Failure(f"the look ended with {self.process.wait(PATIENCE)}: {seen}")


class Key:
    """What a key holds, number by number, each with the moment when it was acknowledged, what it may hold, and when the
    writes of each number began."""

    def __init__(self):
        self.held = [(0, 0)]
        self.begun = {}
        self.maybe = None


def read_all(pipe, chunks, begun):
    while chunk := pipe.read1(1 << 16):
        chunks.append(chunk)
        begun.set()
    begun.set()


def work(program, store, mode, rng, keys, ending, size=STORE_BYTES, cache=False):
    """Let the program work and end it. Returns when, and how many writes it had acknowledged."""
    seed = rng.randrange(1, 1 << 32)
    with subprocess.Popen([program, "run", store, mode, str(seed), str(size)] + ["cache"] * cache,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        chunks, errors = [], []
        begun = threading.Event()
        readers = [threading.Thread(target=read_all, args=(process.stdout, chunks, begun)),
                   threading.Thread(target=read_all, args=(process.stderr, errors, threading.Event()))]
        for reader in readers:
            reader.start()
        if ending != "early":
            begun.wait(PATIENCE)
        time.sleep(rng.uniform(0, 0.05) if ending == "early" else rng.uniform(0.05, 0.6) if mode != "async"
                   else rng.uniform(0.05, 2))
        process.send_signal(signal.SIGTERM if ending == "stop" else signal.SIGKILL)
        end_ns = time.monotonic_ns()
        status = process.wait(PATIENCE)
        for reader in readers:
            reader.join()
    said = b"".join(errors).decode(errors="replace")
    if status != (0 if ending == "stop" else -signal.SIGKILL):
        raise Failure(f"it ended with {status} after {ending}:\n{said}")
    return end_ns, hear(b"".join(chunks), keys, cache)


def hear(told, keys, cache):
    acknowledged = 0
    for at in range(0, len(told) - EVENT.size + 1, EVENT.size):
        time_ns, number, value, is_acknowledged, writes = EVENT.unpack_from(told, at)
        key = keys.setdefault(number, Key())
        if not writes:
            if value != key.held[-1][0] and not (cache and value == 0):
                raise Failure(f"key {number} held {value:#x} and not {key.held[-1][0]:#x} while nobody had died")
        elif is_acknowledged:
            key.held.append((value, time_ns))
            key.maybe = None
            acknowledged += 1
        else:
            key.maybe = value
            key.begun[value] = time_ns
    return acknowledged


def look(program, store, mode, ending, end_ns, keys):
    """See what is there, as a program that starts again does. What is found is certain from now on."""
    with Looker(program) as looker:
        seen = looker.look(f"write,make={STORE_BYTES}", store)
    if seen.refusal or seen.errors or seen.scan or seen.close:
        raise Failure(f"the look met errors: {seen}")
    found = seen.found
    for number, value in seen.visited.items():
        if value != found.get(number):
            raise Failure(f"a scan shows {value:#x} for key {number}, a get {found.get(number)}")
    for number in found.keys() - keys.keys():
        raise Failure(f"key {number} was never stored")
    lossy = mode == "async" and ending != "stop"
    for number, key in keys.items():
        possible = {key.held[-1][0]}
        if lossy:
            late = [value for value, time_ns in key.held if time_ns > end_ns - ASYNC_NS]
            sure = [value for value, time_ns in key.held if time_ns <= end_ns - ASYNC_NS]
            possible = set(late + sure[-1:])
        if key.maybe is not None:
            possible.add(key.maybe)
        value = found.get(number, 0)
        if value not in possible:
            raise Failure(f"after {ending} in mode {mode} key {number} holds {value:#x}, and could hold "
                          f"{', '.join(map(hex, possible))}")
        key.held = [(value, 0)]
        key.begun.clear()
        key.maybe = None


def rounds_of_kills(program, rounds, rng, folder):
    acknowledged = worked = 0
    store, keys = None, {}
    for count in range(rounds):
        if count % ROUNDS_OF_A_STORE == 0:
            if store:
                os.unlink(store)
            store, keys = f"{folder}/store{count}", {}
        mode = rng.choice(["power", "power", "device", "async"])
        ending = rng.choice(ENDINGS)
        end_ns, writes = work(program, store, mode, rng, keys, ending)
        if not os.path.exists(store):
            continue  # it was killed before it had made it
        look(program, store, mode, ending, end_ns, keys)
        acknowledged += writes
        worked += ending != "early"
    print(f"# {rounds} rounds, {acknowledged} writes acknowledged", flush=True)
    if acknowledged < 5 * worked:
        raise Failure("so few writes tell nothing")


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 32)
    print(f"# seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="tarn-crash-") as folder:
        try:
            rounds_of_kills(sys.argv[1], rounds, random.Random(seed), folder)
        except Failure as failure:
            print(f"# {failure}")
            print("not ok - a killed store has what it acknowledged")
            return 1
    print("ok - a killed store has what it acknowledged")
    return 0


if __name__ == "__main__":
    sys.exit(main())
