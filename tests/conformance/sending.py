#!/usr/bin/python3
"""Is what is sent from where the drive has read it right, however it is taken, and is all of it given back?

    sending.py TARN

Values of 2 KiB and more are sent from the store's buffers (src/memcache/README.md). Each test asks a server with io_uring, if there is one, that
reads its drive directly, and one without that reads through the page cache; one that has not got all of its memory back does not
end with status 0.
"""

import contextlib
import random
import resource
import socket
import struct
import sys

import serving
from serving import Connection, Tarn, expect

SANITIZED = "-sanitized" in sys.argv  # its memory is the sanitizer's
KINDS = [("--engine=auto", "--direct=auto"), ("--engine=aio", "--direct=off")]
LENGTHS = [0, 1, 100, 1999, 2047, 2048, 2049, 4096, 9000, 16000, 16384, 40000, 65535, 65536, 70000, 131072, 140000, 262144, 500000, 1000000]


def with_each_server(*options):
    """Have a test called with one server of each kind, and a client of it."""
    def decorate(test):
        def run(tarn):
            for kind in KINDS:
                with serving.folder() as folder, Tarn(tarn, f"{folder}/store", *kind, *options) as process:
                    with Connection(process.address) as client:
                        test(process, client)
                    process.stop()
        run.__name__ = test.__name__
        return run
    return decorate


def value_of(number, length):
    return random.Random(number).randbytes(length)


def slow(address, room=4096):
    """A client whose socket takes little."""
    client = Connection.__new__(Connection)
    client.socket, client.unread = socket.socket(), b""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    client.socket.settimeout(serving.PATIENCE)
    client.socket.connect(address)
    return client


def vanish(client):
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


def store_all(client):
    for number, length in enumerate(LENGTHS):
        expect(client.set(b"k%d" % number, value_of(number, length)) == b"STORED", f"{length} bytes are not stored")


@with_each_server("--mode=device")
def all_lengths(process, client):
    """Alone, all in one get, and by pipelines of meta gets that are taken bit by bit."""
    rng = random.Random(5)
    store_all(client)
    wanted = [b"VALUE k%d 0 %d\r\n%s\r\n" % (number, length, value_of(number, length)) for number, length in enumerate(LENGTHS)]
    for number, text in enumerate(wanted):
        client.send(b"get k%d\r\n" % number)
        expect(client.bytes(len(text) + 5) == text + b"END\r\n", f"{LENGTHS[number]} bytes come back changed")
    client.send(b"get" + b"".join(b" k%d" % number for number in range(len(LENGTHS))) + b" none\r\n")
    expect(client.bytes(sum(map(len, wanted)) + 5) == b"".join(wanted) + b"END\r\n", "a get of all is answered wrongly")
    order = [rng.randrange(len(LENGTHS)) for _ in range(60)]
    with slow(process.address, 20000) as taker:
        taker.send(b"".join(b"mg k%d v k\r\n" % number for number in order))
        for number in order:
            text = b"VA %d kk%d\r\n%s\r\n" % (LENGTHS[number], number, value_of(number, LENGTHS[number]))
            found = b""
            while len(found) < len(text):
                found += taker.socket.recv(min(len(text) - len(found), rng.randrange(1, 30000)))
            expect(found == text, f"{LENGTHS[number]} bytes in a pipeline come back changed")


@with_each_server("--mode=async")
def what_is_not_written_yet(_, client):
    for number in range(200):
        value = value_of(number, 1500 + number * 37)
        client.send(b"set k 0 0 %d noreply\r\n%s\r\nget k\r\n" % (len(value), value))
        text = b"VALUE k 0 %d\r\n%s\r\nEND\r\n" % (len(value), value)
        expect(client.bytes(len(text)) == text, "what was just stored comes back changed")


@with_each_server("--mode=device", "--cache")
def values_that_go_while_they_are_sent(process, client):
    """Replaced, deleted, evicted, and their segments written again: each answer is one value from beginning to end."""
    for length in (5000, 60000, 900000):
        expect(client.set(b"k", b"a" * length) == b"STORED", "it does not store")
        with contextlib.ExitStack() as stack:
            takers = [stack.enter_context(slow(process.address)) for _ in range(8)]
            for taker in takers:
                taker.send(b"get k k k\r\n")
            for taker in takers:
                taker.receive()  # it has begun
            for number in range(100):
                expect(client.set(b"k", bytes([98 + number % 24]) * length) == b"STORED", "it does not store")
                expect(client.set(b"other%d" % number, b"-" * 1000000) == b"STORED", "a cache does not store")
            expect(client.ask(b"delete k\r\n") in (b"DELETED", b"NOT_FOUND"), "it does not delete")
            for taker in takers:
                while (line := taker.line()) != b"END":
                    expect(line == b"VALUE k 0 %d" % length, f"a taker is told {line[:80]}")
                    value = taker.bytes(length + 2)
                    expect(value == value[:1] * length + b"\r\n", "a value is of two versions")


@with_each_server("--mode=device", "--send-timeout=500ms")
def takers_that_vanish(process, client):
    """In the middle of a value, with a reset, or silently."""
    rng = random.Random(2)
    expect(client.set(b"k", b"x" * 700000) == b"STORED", "it does not store")
    expect(client.set(b"small", b"y" * 3000) == b"STORED", "it does not store")
    for number in range(60):
        taker = slow(process.address)
        taker.send(rng.choice([b"get k k\r\n", b"get " + b"small " * 200 + b"\r\n", b"mg k v\r\nmg small v\r\n" * 20]))
        for _ in range(rng.randrange(4)):
            taker.socket.recv(3000)
        if number % 3 == 0:
            taker.socket.close()
        else:
            vanish(taker)
        expect(client.get(b"small") == b"y" * 3000, "they hold others up")
    expect(client.get(b"k") == b"x" * 700000, "a value comes back changed")


@with_each_server("--mode=device", "--memory=128M", "--max-connections=1100", "--send-timeout=400ms")
def a_thousand_who_never_read(process, client):
    """What they are lent has a bound, others are served, and when they have gone all goes on as before."""
    expect(client.set(b"k", b"x" * 900000) == b"STORED", "it does not store")
    expect(client.set(b"polite", b"please" * 1000) == b"STORED", "it does not store")
    before = process.status_kilobytes("VmRSS")
    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(slow(process.address)).send(b"get k k k k\r\n")
        for _ in range(5):
            expect(client.get(b"polite") == b"please" * 1000, "they hold others up")
        grown = process.status_kilobytes("VmRSS") - before
        expect(SANITIZED or grown <= 80 << 10, f"its memory has grown by {grown} KiB")
    expect(client.get(b"k") == b"x" * 900000, "a value comes back changed")


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    serving.run([all_lengths, what_is_not_written_yet, values_that_go_while_they_are_sent, takers_that_vanish, a_thousand_who_never_read], sys.argv[1])
