#!/usr/bin/python3
"""Killed with -9 under load, does the server come back with all that it acknowledged, and nothing that it rejected?

    kill.py TARN [ROUNDS [SEED]] [--modes=MODE,...] [--cache | --tree] [--drives=NUMBER | --data=DEVICE,...]

Each round: a server on the store that the last round left, clients that write, count, delete, touch, flush and read
with all their might, a kill at a random moment, sometimes another one while it recovers, and a look at every key.
With --cache the server is a cache: a value may be gone, but none that it held earlier may be back. With --tree the store
is an ordered one. With --drives it is a stripe of so many files, with --data it is on these devices, whose contents are
lost; several are named in another order each time.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
import serving  # pylint: disable=wrong-import-position
from oracle import KEYS, Client, Flusher  # pylint: disable=wrong-import-position
from serving import Connection, Tarn, expect  # pylint: disable=wrong-import-position

CLIENTS = 6
ROUNDS_OF_A_STORE = 5  # it keeps everything, and fills
SIZE = "512M"
CACHE_SIZE, CACHE_KEYS = "6M", 300  # of each client: it has to make room all the time


class Campaign:
    """What all rounds have in common."""

    def __init__(self, tarn, rng, options):
        self.tarn = tarn
        self.rng = rng
        self.cache = "--cache" in options
        modes = next((option.partition("=")[2] for option in options if option.startswith("--modes=")), "power,device,async")
        self.modes = modes.split(",")
        self.drives = next((int(option.partition("=")[2]) for option in options if option.startswith("--drives=")), 1)
        self.devices = next((option.partition("=")[2].split(",") for option in options if option.startswith("--data=")), [])
        self.size = CACHE_SIZE if self.cache else SIZE
        self.evictions = 0

    def options(self, mode):
        return [f"--mode={mode}", f"--threads={self.rng.choice([1, 2, 3])}"] + (["--cache"] if self.cache else [])

    def named(self, paths):
        """The store as a server is told of it."""
        return ",".join(self.rng.sample(paths, len(paths)))

    def kill_while_it_starts(self, store, mode):
        process = serving.Process(self.tarn, "serve", *serving.store_options(store, self.size), "--listen=127.0.0.1:0", *self.options(mode))
        time.sleep(self.rng.uniform(0, 0.1))
        process.signal(signal.SIGKILL)
        process.wait()

    def one_round(self, store, mode, clients, flusher):
        with Tarn(self.tarn, store, *self.options(mode), size=self.size) as server:
            with Connection(server.address) as connection:
                for client in clients:
                    client.check(connection)
            for client in [*clients, flusher]:
                client.begin(server.address, mode)
            time.sleep(self.rng.uniform(0.02, 0.4) if mode != "async" else self.rng.uniform(0.02, 2))
            expect(server.process.poll() is None, f"it died before it was killed:\n{server.log()}")
            if self.cache:
                self.count_evictions(server.address)
            server.signal(signal.SIGKILL)
            died_ns = time.monotonic_ns()
            server.wait()
        for client in [*clients, flusher]:
            client.end(died_ns)

    def count_evictions(self, address):
        with Connection(address) as connection:
            connection.send(b"stats\r\n")
            while (line := connection.line()) != b"END":
                if line.startswith(b"STAT evictions "):
                    self.evictions += int(line.split()[2])

    def rounds(self, rounds, folder):
        acknowledged = 0
        for number in range(rounds):
            if number % ROUNDS_OF_A_STORE == 0:
                if number > 0 and not self.devices:
                    for path in paths:
                        os.unlink(path)
                paths = self.devices or [f"{folder}/store{number}-{drive}" for drive in range(self.drives)]
                if self.devices:
                    subprocess.run([self.tarn, "format", f"file:{self.named(paths)}", "--force"], check=True, capture_output=True)
                clients = [Client(client, self.rng.randrange(1 << 32), self.cache, CACHE_KEYS if self.cache else KEYS) for client in range(CLIENTS)]
                flusher = Flusher(clients, self.rng.randrange(1 << 32))
            mode = self.rng.choice(self.modes)
            if self.rng.random() < 0.3:
                self.kill_while_it_starts(self.named(paths), mode)
            self.one_round(self.named(paths), mode, clients, flusher)
            if (number + 1) % ROUNDS_OF_A_STORE == 0 or number + 1 == rounds:
                acknowledged += sum(client.acknowledged for client in clients)
        print(f"# {rounds} rounds, {acknowledged} writes acknowledged", flush=True)
        expect(acknowledged > rounds * 20, "so few writes tell nothing")
        if self.cache:
            print(f"# {self.evictions} values had to make room", flush=True)
            expect(self.evictions > 0 or rounds < 12, "a cache that never makes room tells nothing")


def main():
    words = [word for word in sys.argv[2:] if not word.startswith("--")]
    rounds = int(words[0]) if words else 50
    seed = int(words[1]) if len(words) > 1 else random.SystemRandom().randrange(1 << 32)
    print(f"# seed {seed}", flush=True)

    def kills_under_load(folder):
        Campaign(sys.argv[1], random.Random(seed), [word for word in sys.argv[2:] if word.startswith("--")]).rounds(rounds, folder)
    with serving.folder() as folder:
        serving.run([kills_under_load], folder)


if __name__ == "__main__":
    main()
