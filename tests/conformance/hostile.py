#!/usr/bin/python3
"""Does the server keep its memory bounded, and answer others, whatever a client does?

    hostile.py TARN

A connection at work has some 130 KiB. How many may be at work at once is bounded: by a quarter of --memory, and each scheduler may
have 16. Others wait for their turn. One in the middle of a request is at work for 20 ms at most; after that, and between two
requests, it has a few hundred bytes, and what has come.
"""

import contextlib
import itertools
import random
import resource
import socket
import sys
import time

import serving
from serving import Connection, Tarn, await_that, converse, expect

SANITIZED = "-sanitized" in sys.argv  # its memory is the sanitizer's
CONNECTIONS = 400
MEMORY = 256 if SANITIZED else 64  # MiB; a sanitizer has larger stacks
AMPLE_MEMORY = 256  # MiB: enough for all who are answered at a time
AT_WORK = ((MEMORY // 4) + 16) << 10  # KiB over an idle server

WORDS = [b"get ", b"set ", b"a ", b"0 ", b"1 ", b"noreply", b"\r\n", b"\n", b"\0", b"\xff", b" ", b"99999999999999999999 ", b"k" * 251, b"delete ",
         b"cas ", b"touch ", b"stats ", b"verbosity ", b"incr ", b"decr ", b"append ", b"prepend ", b"gat ", b"gats ", b"add ", b"replace "]
META_WORDS = [b"mg ", b"ms ", b"md ", b"ma ", b"me ", b"mn", b"a ", b"YQ== ", b"==== ", b"2 ", b"S2 ", b"\r\n", b"\r\n", b"xy\r\n", b"b ", b"q ", b"k ", b"v ", b"c ", b"t ",
              b"O1 ", b"O" + b"o" * 40 + b" ", b"C1 ", b"C99999999999999999999 ", b"E7 ", b"I ", b"T30 ", b"T-1 ", b"N30 ", b"R30 ", b"MA ", b"MX ", b"D5 ", b"J7 ", b"F9 ",
              b"x ", b"\xff ", b"\0", b"k" * 251 + b" ", b"y" * 400 + b" b "]


@contextlib.contextmanager
def server(tarn, *options):
    """A server with one well-behaved client, which must be served whatever the others do."""
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=device", f"--memory={MEMORY}M", *options) as process:
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
        for words in (WORDS, META_WORDS):
            for _ in range(150):
                converse(process.address, b"".join(rng.choice(words) for _ in range(rng.randrange(300))))


# The beginning of a request, the rest of it, and its answer.
HALVES = [
    (b"s", b"et a 0 0 1\r\nx\r\n", b"STORED\r\n"), (b"set a 0 0 ", b"1\r\nx\r\n", b"STORED\r\n"),
    (b"ms a 1000 k O1\r\n" + b"v" * 500, b"v" * 500 + b"\r\n", b"HD ka O1\r\n"), (b"mg bm9uZQ== b k", b" v\r\nmn\r\n", b"EN kbm9uZQ== b\r\nMN\r\n"),
    (b"append none 0 0 500\r\nx", b"x" * 499 + b"\r\n", b"NOT_STORED\r\n"), (b"get " + b"k" * 200, b"\r\n", b"END\r\n"),
    (b"set a 0 0 1000\r\n" + b"v" * 500, b"v" * 500 + b"\r\n", b"STORED\r\n"), (b"set a 0 0 10\r\n0123456789\r", b"\n", b"STORED\r\n"),
    (b"k" * 2000, b"\r\n", b"ERROR\r\n"), (b"get " + b"z " * 1000, b"\r\n", b"END\r\n"),
    (b"set a 0 0 100000000\r\n" + b"x" * 1000, b"", b"SERVER_ERROR object too large for cache\r\n"),
]


def half_requests(tarn):
    """Half a line or half a value costs what was sent, and a little more, for as long as one likes; whatever the memory, all
    are answered when the rest comes."""
    for memory in (MEMORY, 1024):
        with server(tarn, f"--memory={memory}M") as (process, polite), connections(process.address) as clients:
            allowed = AT_WORK if memory == MEMORY else CONNECTIONS * 144 + (16 << 10)
            before = process.status_kilobytes("VmRSS")
            conversations = list(zip(clients, itertools.cycle(HALVES)))
            for client, (half, _, _) in conversations:
                client.send(half)
            expect(polite.get(b"polite") == b"please", "halves hold others up")
            time.sleep(0.2)
            expect_grown_at_most(process, before, allowed)
            for client, (_, rest, _) in conversations:
                client.send(rest)
            for client, (half, _, wanted) in conversations:
                found = client.bytes(len(wanted))
                expect(found == wanted, f"{half[:40]} and the rest are answered {found}")
            expect_grown_at_most(process, before, allowed)


def more_at_work_than_may_be(tarn):
    """They wait for their turn: nobody is refused, nobody forgotten."""
    with server(tarn, "--threads=1") as (process, polite), connections(process.address) as clients:
        before = process.status_kilobytes("VmRSS")
        for rounds in range(3):
            for number, client in enumerate(clients):
                client.send(b"get polite\r\n" * 20 + b"set %d 0 0 3000\r\n" % number + b"v" * 1500)
            for client in clients:
                answer = client.bytes(31 * 20)
                expect(answer == b"VALUE polite 0 6\r\nplease\r\nEND\r\n" * 20, f"in round {rounds} one is answered {answer[:80]}")
            expect(polite.get(b"polite") == b"please", "they hold others up")
            for client in clients:
                client.send(b"v" * 1500 + b"\r\nmn\r\n")
            for client in clients:
                answer = client.bytes(12)
                expect(answer == b"STORED\r\nMN\r\n", f"in round {rounds} the rest is answered {answer}")
        expect_grown_at_most(process, before, AT_WORK)


def half_large_values(tarn):
    """Values that never come have a budget: a quarter of the memory."""
    with server(tarn, "--threads=1") as (process, polite):
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


@contextlib.contextmanager
def deaf(address, count):
    """Connections with more answers to come than all buffers on the way hold, who read none of them."""
    with connections(address, count) as clients:
        for client in clients:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with contextlib.suppress(OSError):
                client.send(b"get large\r\n" * 200)
        yield


def readers_that_never_read(tarn):
    """They are given up after a while, and hold a bounded buffer until then."""
    with server(tarn, "--send-timeout=500ms", f"--memory={AMPLE_MEMORY}M") as (process, polite):
        expect(polite.set(b"large", b"x" * 200000) == b"STORED", "it does not store")
        before = process.status_kilobytes("VmRSS")
        with deaf(process.address, 50):
            for _ in range(20):
                expect(polite.get(b"polite") == b"please", "they hold others up")
            expect_grown_at_most(process, before, AT_WORK)
            await_that_it_is_alone(polite, "they are never given up")


def readers_who_hold_all_memory(tarn):
    """Some of them are refused what others hold, and all are given up or through; then there is memory again."""
    with server(tarn, "--send-timeout=500ms") as (process, polite):
        value = b"x" * 200000
        expect(polite.set(b"large", value) == b"STORED", "it does not store")
        with deaf(process.address, 150):
            expect(polite.get(b"polite") == b"please", "they hold others up")
            await_that(lambda: count_at_work(polite) <= 1, "they are neither given up nor through", 0.05)
            expect(polite.get(b"large") == value, "others are not served after them")


def count_at_work(polite):
    polite.send(b"stats conns\r\n")
    return sum(line.endswith(b":state conn_parse_cmd") for line in iter(polite.line, b"END"))


def count_connections(polite):
    count = None
    polite.send(b"stats\r\n")
    while (line := polite.line()) != b"END":
        if line.startswith(b"STAT curr_connections "):
            count = int(line.split()[2])
    return count


def await_that_it_is_alone(polite, text):
    await_that(lambda: count_connections(polite) <= 1, text, 0.05)


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
        expect_grown_at_most(process, before, AT_WORK)


def too_many_connections(tarn):
    with server(tarn, "--max-connections=20") as (process, _):
        with connections(process.address, 60) as clients:
            served = 0
            for client in clients:
                with contextlib.suppress(ConnectionError):
                    served += client.ask(b"version\r\n").startswith(b"VERSION")
            expect(served == 19, f"{served} served beside the first, of at most 20")
        await_that(lambda: converse(process.address, b"version\r\n"), "it does not take others when those are gone")


def clients_that_vanish(tarn):
    """In the middle of everything, with a reset."""
    with server(tarn) as (process, _):
        for said in (b"get polite\r\n" * 1000, b"set a 0 0 100000\r\n" + b"x" * 5000, b"get pol", b"stats\r\n" * 100):
            for _ in range(50):
                client = Connection(process.address)
                client.send(said)
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.socket.close()


def slow_senders(tarn):
    """A byte now and then: each request is answered in the end, and nobody waits for them."""
    said = b"set slow 3 0 5\r\nabcde\r\nget slow\r\nincr polite 1\r\nmn\r\n"
    with server(tarn) as (process, polite):
        with connections(process.address, 50) as clients:
            for byte in said:
                for client in clients:
                    client.send(bytes([byte]))
                began = time.monotonic()
                expect(polite.get(b"polite") == b"please", "they hold others up")
                expect(SANITIZED or time.monotonic() - began < 1, "they hold others up")
            for client in clients:
                expect([client.line() for _ in range(4)] == [b"STORED", b"VALUE slow 3 5", b"abcde", b"END"], "a slow client is answered wrongly")


def lines_without_an_end(tarn):
    """A line of more than 2,048 bytes ends the connection, but for those of lists of keys: they may be as long as they like, and
    cost no memory. A key that is too long is refused once, and the rest of its line skipped."""
    with server(tarn) as (process, polite):
        before = process.status_kilobytes("VmRSS")
        for beginning in (b"", b"set ", b"mg ", b"ms a ", b"delete ", b"\0", b"\xff", b" " * 2000):
            answer = converse(process.address, beginning + b"x" * 100000)
            expect(answer == b"", f"{beginning!r} and no end is answered {answer[:80]!r}")
        for beginning in (b"get ", b"gets ", b"gat 0 ", b"gats 0 ", b"get polite "):
            with Connection(process.address) as client:
                client.send(beginning + b"x" * 100000)
                expect(client.line() == b"CLIENT_ERROR bad command line format", f"{beginning!r} and no end is not refused")
                client.send(b"x" * 100000 + b" a b\r\nmn\r\n")
                answer = client.line()
                expect(answer == b"MN", f"behind {beginning!r} and a long key comes {answer!r}")
        for _ in range(5):
            answer = converse(process.address, b"get " + b"polite " * 30000 + b"\r\nget polite\r\n")
            expect(answer.count(b"please") == 30001 and answer.endswith(b"END\r\n"), "a long get is answered wrongly")
        with connections(process.address) as clients:
            for client in clients:
                with contextlib.suppress(OSError):
                    client.send(b"x" * 100000)
            expect(polite.get(b"polite") == b"please", "they hold others up")
            for client in clients:
                expect(closed(client), "a line without an end does not end the connection")
        expect_grown_at_most(process, before, AT_WORK)


def closed(client):
    try:
        return client.socket.recv(1) == b""
    except ConnectionResetError:
        return True


def idle_connections(tarn):
    """Thousands of connections that say nothing cost next to nothing, and go when they go."""
    count = min(3000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 - 100)
    with server(tarn, f"--max-connections={count + 100}") as (process, polite):
        before = process.status_kilobytes("VmRSS")
        with connections(process.address, count) as clients:
            expect(clients[-1].ask(b"version\r\n").startswith(b"VERSION"), "the last is not served")
            expect_grown_at_most(process, before, count * 4)
            used = sum(map(float, processor_seconds(process)))
            time.sleep(1)
            expect(SANITIZED or sum(map(float, processor_seconds(process))) - used < 0.2, "idle connections keep it busy")
            for client in clients[::10]:
                expect(client.get(b"polite") == b"please", "one of many is not served")
        await_that_it_is_alone(polite, "connections that are gone are still counted")


def processor_seconds(process):
    with open(f"/proc/{process.process.pid}/stat", encoding="ascii") as file:
        return [int(ticks) / 100 for ticks in file.read().rpartition(")")[2].split()[11:13]]


def values_that_never_come(tarn):
    """What is announced costs nothing before it comes; what is too large, nothing ever."""
    with server(tarn, "--threads=1") as (process, polite):
        before = process.status_kilobytes("VmRSS")
        with connections(process.address, 300) as clients:
            for number, client in enumerate(clients):
                client.send([b"set a 0 0 1000000\r\n", b"set a 0 0 2147483000\r\nx", b"append polite 0 0 900000\r\nx", b"cas polite 0 0 900000 1\r\n"][number % 4])
            time.sleep(0.3)
            expect(polite.set(b"small", b"value") == b"STORED", "small values have no room")
            expect_grown_at_most(process, before, AT_WORK)
            for client in clients[1::4]:
                expect(client.line() == b"SERVER_ERROR object too large for cache", "a value that is too large is not refused at once")
                client.send(b"y" * 100000)
            expect(polite.get(b"polite") == b"please", "they hold others up")
            expect_grown_at_most(process, before, AT_WORK)


def deaf_to_meta_commands(tarn):
    """Answers that nobody reads, to thousands of pipelined requests of each kind: the server stops reading, and answers others."""
    flood = (b"mg large v k c t f s O123\r\n" + b"ma counter N0 v\r\n" + b"ms a 2 k c\r\nxy\r\n" + b"gets large\r\n" + b"gat 0 large\r\n" + b"incr counter 1\r\n") * 500
    with server(tarn, "--send-timeout=500ms") as (process, polite):
        expect(polite.set(b"large", b"x" * 50000) == b"STORED", "it does not store")
        before = process.status_kilobytes("VmRSS")
        with connections(process.address, 30) as clients:
            for client in clients:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.socket.setblocking(False)
                with contextlib.suppress(OSError):
                    client.socket.send(flood)
            for _ in range(50):
                expect(polite.get(b"polite") == b"please", "they hold others up")
            expect_grown_at_most(process, before, AT_WORK)
            await_that_it_is_alone(polite, "they are never given up")


def resets_in_the_middle(tarn):
    """Of values and answers; what was half said is not stored."""
    rng = random.Random(3)
    with server(tarn) as (process, polite):
        before = process.status_kilobytes("VmRSS")
        said = b"set half 0 0 20000\r\n" + b"h" * 20000 + b"\r\n"
        for count in range(300):
            client = Connection(process.address)
            lead = rng.choice([b"", b"get polite\r\n" * 50, b"mg polite v\r\n" * 50])
            client.send(lead + said[:rng.randrange(1, len(said) - 2)])
            if count % 3 == 0:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.socket.close()
        expect(polite.get(b"half") is None, "half a value was stored")
        expect_grown_at_most(process, before, AT_WORK)


def many_that_come_and_go(tarn):
    with server(tarn) as (process, polite):
        for _ in range(3):
            for _ in range(500):
                Connection(process.address).socket.close()
            expect(polite.get(b"polite") == b"please", "they hold others up")
        before = process.status_kilobytes("VmRSS")
        for _ in range(2000):
            Connection(process.address).socket.close()
        expect_grown_at_most(process, before, 4 << 10)


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    serving.run([random_bytes, half_requests, more_at_work_than_may_be, half_large_values, readers_that_never_read, readers_who_hold_all_memory, floods, too_many_connections,
                 clients_that_vanish, slow_senders, lines_without_an_end, idle_connections, values_that_never_come, deaf_to_meta_commands,
                 resets_in_the_middle, many_that_come_and_go], sys.argv[1])
