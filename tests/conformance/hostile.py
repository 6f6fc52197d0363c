#!/usr/bin/python3
"""Does the server keep its memory bounded, and answer others, whatever a client does?

    hostile.py TARN
"""

import contextlib
import random
import resource
import socket
import sys
import time

import serving
from serving import Connection, Tarn, converse, expect

SANITIZED = "-sanitized" in sys.argv  # its memory is the sanitizer's
CONNECTIONS = 400


@contextlib.contextmanager
def server(tarn, *options):
    """A server with one well-behaved client, which must be served whatever the others do."""
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=device", *options) as process:
        with Connection(process.address) as polite:
            expect(polite.set(b"polite", b"please") == b"STORED", "it does not store")
            yield process, polite
            expect(polite.get(b"polite") == b"please", "the well-behaved client is forgotten")
        process.stop()


@contextlib.contextmanager
def connections(address, count=CONNECTIONS):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Connection(address)) for _ in range(count)]


def expect_grown_at_most(process, before, kilobytes):
    grown = process.status_kilobytes("VmRSS") - before
    expect(SANITIZED or grown <= kilobytes, f"its memory has grown by {grown} KiB, allowed are {kilobytes}")


def random_bytes(tarn):
    rng = random.Random(1)
    with server(tarn) as (process, _):
        for _ in range(100):
            converse(process.address, rng.randbytes(rng.randrange(1, 20000)))
        words = [b"get ", b"set ", b"a ", b"0 ", b"1 ", b"noreply", b"\r\n", b"\n", b"\0", b"\xff", b" ", b"99999999999999999999 ",
                 b"k" * 251, b"delete ", b"cas ", b"touch ", b"stats ", b"verbosity "]
        for _ in range(200):
            converse(process.address, b"".join(rng.choice(words) for _ in range(rng.randrange(300))))


def half_requests(tarn):
    """Half a line or half a value costs what was sent, and a little more; for as long as one likes."""
    halves = [b"s", b"set a 0 0 ", b"get " + b"k" * 200, b"set a 0 0 1000\r\n" + b"v" * 500, b"set a 0 0 10\r\n0123456789\r",
              b"k" * 2000, b"get " + b"a " * 1000, b"set a 0 0 100000000\r\n" + b"x" * 1000]
    with server(tarn) as (process, polite):
        before = process.status_kilobytes("VmRSS")
        with connections(process.address) as clients:
            for number, client in enumerate(clients):
                client.send(halves[number % len(halves)])
            time.sleep(0.2)
            expect(polite.get(b"polite") == b"please", "halves hold others up")
            # sockets' buffers are the kernel's; here count the connections, what they sent and one round's work
            expect_grown_at_most(process, before, 16 << 10)


def half_large_values(tarn):
    """Values that never come have a budget: a quarter of the memory."""
    with server(tarn, "--memory=64M", "--threads=1") as (process, polite):
        with connections(process.address, 100) as clients:
            for client in clients:
                client.send(b"set a 0 0 1000000\r\n" + b"v" * 500000)
            time.sleep(0.5)
            expect(polite.set(b"small", b"value") == b"STORED", "small values have no room")
            refused = 0
            for client in clients:
                client.send(b"v" * 500000 + b"\r\n")
                refused += client.line() == b"SERVER_ERROR out of memory storing object"
            expect(0 < refused < 100, f"{refused} of 100 large values were refused")
            expect(SANITIZED or process.status_kilobytes("VmRSS") < 128 << 10, "its memory is not bounded")


def readers_that_never_read(tarn):
    """They are given up after a while, and hold a bounded buffer until then."""
    with server(tarn, "--send-timeout=500ms") as (process, polite):
        expect(polite.set(b"large", b"x" * 500000) == b"STORED", "it does not store")
        before = process.status_kilobytes("VmRSS")
        with connections(process.address, 50) as clients:
            for client in clients:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                with contextlib.suppress(OSError):
                    client.send(b"get large\r\n" * 50)
            for _ in range(20):
                expect(polite.get(b"polite") == b"please", "they hold others up")
            expect_grown_at_most(process, before, 64 << 10)
            end = time.monotonic() + serving.PATIENCE
            while polite.ask(b"stats\r\n") and count_connections(polite) > 1:
                expect(time.monotonic() < end, "they are never given up")
                time.sleep(0.1)


def count_connections(polite):
    count = None
    while (line := polite.line()) != b"END":
        if line.startswith(b"STAT curr_connections "):
            count = int(line.split()[2])
    return count


def floods(tarn):
    """Many requests at once, read slowly or not at all, from many connections."""
    with server(tarn) as (process, polite):
        before = process.status_kilobytes("VmRSS")
        for _ in range(3):
            answer = converse(process.address, b"get polite\r\n" * 20000)
            expect(answer == b"VALUE polite 0 6\r\nplease\r\nEND\r\n" * 20000, "a long pipeline is answered wrongly")
            answer = converse(process.address, b"version\r\n" * 50000)
            expect(answer.count(b"VERSION") == 50000, "a long pipeline is answered wrongly")
            converse(process.address, b"verbosity 1 noreply\r\n" * 50000)
        with connections(process.address) as clients:
            for client in clients:
                client.send(b"set a 0 0 1\r\nx\r\nget a\r\n" * 20)
            for client in clients:
                for _ in range(20):
                    expect(client.line() == b"STORED" and client.line() == b"VALUE a 0 1" and client.line() == b"x" and
                           client.line() == b"END", "an answer is missing")
        expect(polite.get(b"polite") == b"please", "they hold others up")
        expect_grown_at_most(process, before, 64 << 10)


def too_many_connections(tarn):
    with server(tarn, "--max-connections=20") as (process, _):
        with connections(process.address, 60) as clients:
            served = 0
            for client in clients:
                with contextlib.suppress(ConnectionError):
                    served += client.ask(b"version\r\n").startswith(b"VERSION")
            expect(served == 19, f"{served} served beside the first, of at most 20")
        end = time.monotonic() + serving.PATIENCE
        while not converse(process.address, b"version\r\n"):
            expect(time.monotonic() < end, "it does not take others when those are gone")


def clients_that_vanish(tarn):
    """In the middle of everything, with a reset."""
    with server(tarn) as (process, _):
        for said in (b"get polite\r\n" * 1000, b"set a 0 0 100000\r\n" + b"x" * 5000, b"get pol", b"stats\r\n" * 100):
            for _ in range(50):
                client = Connection(process.address)
                client.send(said)
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.socket.close()


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    serving.run([random_bytes, half_requests, half_large_values, readers_that_never_read, floods, too_many_connections,
                 clients_that_vanish], sys.argv[1])
