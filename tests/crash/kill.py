#!/usr/bin/python3
"""Killed with -9 under load, does the server come back with all that it acknowledged, and nothing that it rejected?

    kill.py TARN [ROUNDS [SEED]]

Each round: a server on the store that the last round left, clients that write, delete, touch and read with all
their might, a kill at a random moment, sometimes another one while it recovers, and a look at every key.
"""

import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
import serving  # pylint: disable=wrong-import-position
from serving import Connection, Tarn, expect  # pylint: disable=wrong-import-position

CLIENTS = 6
KEYS = 40  # of each client
ROUNDS_OF_A_STORE = 5  # it keeps everything, and fills
SIZE = "512M"
VALUE_BYTES = [0, 10, 100, 1000, 5000, 20000]


class Client:
    """A connection with keys of its own, and what they hold (None is nothing). Requests of one connection are
    executed in order, so each answer is known beforehand, and one answer tells that all before it is done. What
    was asked for and not answered when the server died may have happened: `maybe` has it."""

    def __init__(self, number, seed):
        self.rng = random.Random(seed)
        self.holds = {b"%d/%d" % (number, key): None for key in range(KEYS)}
        self.maybe = {}
        self.writes = 0
        self.acknowledged = 0
        self.failure = None

    def begin(self, address):
        self.connection = Connection(address)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while True:
                self.converse()
        except OSError:
            pass  # the server was killed
        except serving.Failure as failure:
            self.failure = failure
        finally:
            self.connection.socket.close()

    def request(self, key):
        """A random request: its bytes, its answer (None for none), and what the key holds afterwards."""
        held = self.holds[key]
        kind = self.rng.choice(["set", "set", "set", "noreply", "add", "replace", "delete", "touch", "get"])
        if kind == "get":
            value = b"" if held is None else b"VALUE %s 0 %d\r\n%s\r\n" % (key, len(held), held)
            return b"get %s\r\n" % key, value + b"END\r\n", held
        if kind == "delete":
            return b"delete %s\r\n" % key, b"NOT_FOUND\r\n" if held is None else b"DELETED\r\n", None
        if kind == "touch":
            return b"touch %s 1000\r\n" % key, b"NOT_FOUND\r\n" if held is None else b"TOUCHED\r\n", held
        self.writes += 1
        value = b"%d:" % self.writes + b"x" * self.rng.choice(VALUE_BYTES)
        if kind == "noreply":
            return b"set %s 0 0 %d noreply\r\n%s\r\n" % (key, len(value), value), None, value
        said = b"%s %s 0 0 %d\r\n%s\r\n" % (kind.encode(), key, len(value), value)
        if (kind == "add" and held is not None) or (kind == "replace" and held is None):
            return said, b"NOT_STORED\r\n", held
        return said, b"STORED\r\n", value

    def converse(self):
        """Some requests at once, each to another key, then their answers; the last one always has an answer."""
        keys = self.rng.sample(list(self.holds), self.rng.choice([1, 1, 1, 4, 16]))
        requests = [(key, *self.request(key)) for key in keys]
        self.maybe = {key: holds for key, _, _, holds in requests}
        self.connection.send(b"".join(said for _, said, _, _ in requests) + b"verbosity 1\r\n")
        for key, _, answer, _ in requests:
            if answer is not None:
                self.hear(answer)
                self.settle(key)
        self.hear(b"OK\r\n")
        for key in list(self.maybe):
            self.settle(key)

    def hear(self, answer):
        found = self.connection.bytes(len(answer))
        if found.startswith(b"SERVER_E") and found != answer:
            found += self.connection.line()
        expect(found == answer, f"the answer is {found if len(found) < 80 else short(found)} instead of {short(answer)}")

    def settle(self, last):
        """The request for a key is done, and so are all before it."""
        for key in list(self.maybe):
            holds = self.maybe.pop(key)
            self.acknowledged += holds != self.holds[key]
            self.holds[key] = holds
            if key == last:
                return

    def check(self, connection):
        """After a restart. What is found is certain from now on."""
        for key, held in self.holds.items():
            found = connection.get(key)
            expect(found == held or (key in self.maybe and found == self.maybe[key]),
                   f"after the kill {key!r} is {short(found)}; it was {short(held)}, and perhaps "
                   f"{short(self.maybe.get(key, held))}")
            self.holds[key] = found
        self.maybe = {}


def short(value):
    return None if value is None else value if len(value) < 40 else value[:30] + b"...(%d)" % len(value)


def options(rng):
    return [f"--mode={rng.choice(['power', 'device'])}", f"--threads={rng.choice([1, 2, 3])}"]


def kill_while_it_starts(tarn, store, rng):
    process = serving.Process(tarn, "serve", f"--data={store}", f"--size={SIZE}", "--listen=127.0.0.1:0", *options(rng))
    time.sleep(rng.uniform(0, 0.1))
    process.signal(signal.SIGKILL)
    process.wait()


def one_round(tarn, store, clients, rng):
    with Tarn(tarn, store, *options(rng), size=SIZE) as server:
        with Connection(server.address) as connection:
            for client in clients:
                client.check(connection)
        for client in clients:
            client.begin(server.address)
        time.sleep(rng.uniform(0.02, 0.4))
        expect(server.process.poll() is None, f"it died before it was killed:\n{server.log()}")
        server.signal(signal.SIGKILL)
        server.wait()
    for client in clients:
        client.thread.join(serving.PATIENCE)
        expect(not client.thread.is_alive(), "a client waits for ever")
        if client.failure:
            raise client.failure


def kills_under_load(tarn, rounds, rng, folder):
    acknowledged = 0
    for number in range(rounds):
        if number % ROUNDS_OF_A_STORE == 0:
            if number > 0:
                os.unlink(store)
            store = f"{folder}/store{number}"
            clients = [Client(client, rng.randrange(1 << 32)) for client in range(CLIENTS)]
        if rng.random() < 0.3:
            kill_while_it_starts(tarn, store, rng)
        one_round(tarn, store, clients, rng)
        if (number + 1) % ROUNDS_OF_A_STORE == 0 or number + 1 == rounds:
            acknowledged += sum(client.acknowledged for client in clients)
    print(f"# {rounds} rounds, {acknowledged} writes acknowledged", flush=True)
    expect(acknowledged > rounds * 20, "so few writes tell nothing")


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 32)
    print(f"# seed {seed}", flush=True)
    with serving.folder() as folder:
        serving.run([kills_under_load], sys.argv[1], rounds, random.Random(seed), folder)


if __name__ == "__main__":
    main()
