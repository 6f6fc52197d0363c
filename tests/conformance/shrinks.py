#!/usr/bin/python3
"""Does a running server give memory back at SIGHUP, and go on meanwhile?

    shrinks.py TARN
"""

import re
import signal
import sys
import threading

import serving
from counters import statistics
from serving import Connection, Tarn, expect

KEYS, KEPT = 60000, 10


def store(connection, numbers):
    for first in range(0, len(numbers), 1000):
        connection.send(b"".join(b"set key%d 0 0 %d\r\n%d\r\n" % (number, len(b"%d" % number), number) for number in numbers[first:first + 1000]))
        for _ in numbers[first:first + 1000]:
            expect(connection.line() == b"STORED", "it does not store")


def delete(connection, numbers):
    for first in range(0, len(numbers), 1000):
        connection.send(b"".join(b"delete key%d\r\n" % number for number in numbers[first:first + 1000]))
        for _ in numbers[first:first + 1000]:
            expect(connection.line() == b"DELETED", "it does not delete")


def index_of(connection):
    return int(statistics(connection)["store_index_bytes"])


def ask(server, times):
    """Ask for memory. Bytes before and after, as the log has them when it has said so often that it is done."""
    server.signal(signal.SIGHUP)
    pattern = r'event="the index is as small as its records let it be".*bytes_before=(\d+) bytes_after=(\d+)'
    serving.await_that(lambda: len(re.findall(pattern, server.log())) == times, f"it does not shrink:\n{server.log()}")
    return tuple(map(int, re.findall(pattern, server.log())[-1]))


def memory_comes_back(tarn):
    """Nine of ten keys go; those that stay are there at any moment, and what comes afterwards has its place."""
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=async", "--threads=2") as server, Connection(server.address) as client:
        kept, failures, done = range(0, KEYS, KEPT), [], threading.Event()
        store(client, range(KEYS))
        full = index_of(client)
        delete(client, [number for number in range(KEYS) if number % KEPT != 0])
        expect(index_of(client) == full, "it has shrunk by itself")

        def look():
            with Connection(server.address) as reader:
                while not done.is_set() or not failures:
                    failures.extend(number for number in kept[::7] if reader.get(b"key%d" % number) != b"%d" % number)
                    if done.is_set():
                        return
        readers = [threading.Thread(target=look) for _ in range(2)]
        for reader in readers:
            reader.start()
        before, after = ask(server, 1)
        expect(before == full and after * 4 < before and index_of(client) == after, f"{before} bytes, then {after}")
        expect(ask(server, 2) == (after, after), "there was more to give back")
        store(client, range(KEYS, 2 * KEYS))
        expect(index_of(client) > after, "it does not grow again")
        done.set()
        for reader in readers:
            reader.join()
        expect(not failures, f"missing meanwhile: {failures[:10]}")
        expect(all(client.get(b"key%d" % number) == b"%d" % number for number in kept), "something is lost")
        expect(client.get(b"key1") is None and client.get(b"key%d" % (2 * KEYS - 1)) == b"%d" % (2 * KEYS - 1), "another value")
        server.signal(signal.SIGHUP)
        server.stop()


if __name__ == "__main__":
    serving.run([memory_comes_back], sys.argv[1])
