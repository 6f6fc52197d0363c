#!/usr/bin/python3
"""Are many requests in one packet carried out in their order, and answered in it, whatever they have to do with each other?

    pipelines.py TARN

The clients are those of tests/crash/oracle.py, which know every answer beforehand. Each says up to 300 requests at once, over so
few keys that most depend on one before them.
"""

import os
import random
import sys
import threading
import time

import serving
from serving import Connection, Tarn, expect

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "crash"))
import oracle  # pylint: disable=wrong-import-position

SANITIZED = "-sanitized" in sys.argv
ROUNDS = 5 if SANITIZED else 30
CONNECTIONS = 50


class Pipeliner(oracle.Client):
    """Small values: a pipeline fits one packet, and what is answered the buffers of the sockets."""
    counts = [64, 65, 100, 129, 300]
    value_bytes = [0, 1, 10, 50]
    value_bytes_max = 100
    mode = "device"

    def talk(self, address, rounds):
        try:
            with Connection(address) as self.connection:
                for _ in range(rounds):
                    self.converse()
                self.check(self.connection)
        except (serving.Failure, OSError) as failure:
            self.failure = failure


def all_at_once(function, arguments):
    threads = [threading.Thread(target=function, args=(argument,), daemon=True) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(serving.PATIENCE)
        expect(not thread.is_alive(), "it waits for ever")


def talks(address, clients, rounds):
    all_at_once(lambda client: client.talk(address, rounds), clients)
    failures = [client.failure for client in clients if client.failure]
    expect(not failures, f"{len(failures)} of {len(clients)} connections: {failures[:2]}")


def one_connection(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=device", "--threads=1", size="512M") as server:
        for keys in (1, 2, 5, 40):
            talks(server.address, [Pipeliner(keys, keys, keys=keys)], ROUNDS)
        server.stop()


def many_connections(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=device", "--threads=2", size="512M") as server:
        talks(server.address, [Pipeliner(number, number, keys=1 + number % 6) for number in range(CONNECTIONS)], max(ROUNDS // 10, 1))
        server.stop()


def opaques_come_in_order(tarn):
    """Of every kind of meta request, quiet ones between them."""
    rng = random.Random(2)
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=device") as server, Connection(server.address) as client:
        for _ in range(ROUNDS):
            said, wanted = b"", []
            for number in range(rng.choice([64, 200])):
                kind, quiet = rng.randrange(4), rng.random() < 0.3
                flags = b" O%d%b" % (number, b" q" if quiet else b"")
                said += [b"mg none%d" % number + flags + b"\r\n", b"ms k%d 1" % (number % 3) + flags + b"\r\n5\r\n", b"md none" + flags + b"\r\n",
                         b"ma k9 N0" + flags + b"\r\n"][kind]
                if not quiet or kind == 2:  # a quiet md tells its misses
                    wanted.append([b"EN O%d", b"HD O%d", b"NF O%d", b"HD O%d"][kind] % number)
            client.send(said + b"mn\r\n")
            found = [client.line() for _ in range(len(wanted) + 1)]
            expect(found == wanted + [b"MN"], f"answered {found[:20]} instead of {wanted[:20]}")
        server.stop()


def shared_counters(tarn):
    """Each connection sees numbers that rise, and all of them together each number once."""
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=device", "--threads=3") as server:
        with Connection(server.address) as client:
            expect(client.set(b"n", b"0") == b"STORED", "it does not store")
        found = {}

        def count(number):
            with Connection(server.address) as client:
                client.send(b"incr n 1\r\nget other\r\nma n v\r\n" * 64)
                found[number] = []
                for _ in range(64):
                    found[number] += [int(client.line())]
                    expect(client.line() == b"END" and client.line().startswith(b"VA "), "an answer is out of order")
                    found[number] += [int(client.line())]
        all_at_once(count, range(CONNECTIONS))
        expect(all(numbers == sorted(numbers) for numbers in found.values()), "a connection's numbers do not rise")
        numbers = sorted(number for numbers in found.values() for number in numbers)
        expect(numbers == list(range(1, 128 * CONNECTIONS + 1)), f"{len(numbers)} numbers, {len(set(numbers))} different ones, the last {numbers[-1:]}")
        server.stop()


def large_values(key, rng):
    """A conversation over values of many packets, and its answers."""
    said, wanted, held = [], [], b""
    for number in range(120):
        if number % 3 == 0:
            held = b"%d" % number + b"x" * rng.choice([1, 1000, 50000, 300000])
            said += [b"set %b 0 0 %d\r\n%b\r\n" % (key, len(held), held)]
            wanted += [b"STORED\r\n"]
        elif number % 3 == 1:
            held += b"!"
            said += [b"append %b 0 0 1\r\n!\r\n" % key]
            wanted += [b"STORED\r\n"]
        said += [b"get %b none %b\r\n" % (key, key), b"mg %b s v\r\n" % key]
        told = b"VALUE %b 0 %d\r\n%b\r\n" % (key, len(held), held)
        wanted += [told * 2 + b"END\r\n", b"VA %d s%d\r\n%b\r\n" % (len(held), len(held), held)]
    return b"".join(said), b"".join(wanted)


def slow_readers_of_large_values(tarn):
    """All is said long before it is answered, and its end told in the middle of that; nothing is left out."""
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=device", "--threads=2", size="512M") as server:
        failures = []

        def converse(number):
            said, wanted = large_values(b"%d" % number, random.Random(number))
            with Connection(server.address) as client:
                threading.Thread(target=serving.send_all, args=(client.socket, said), daemon=True).start()
                found = bytearray()
                try:
                    while data := client.socket.recv(1 << 16):
                        found += data
                        time.sleep(0.003)
                except OSError as problem:
                    failures.append(str(problem))
            if found != wanted:
                failures.append(f"{len(found)} of {len(wanted)} bytes are answered")
        for first in range(0, 2 if SANITIZED else 6, 2):
            all_at_once(converse, range(first, first + 2))
        expect(not failures, f"{failures}")
        server.stop()


if __name__ == "__main__":
    serving.run([one_connection, many_connections, opaques_come_in_order, shared_counters, slow_readers_of_large_values], sys.argv[1])
