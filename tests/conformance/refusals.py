#!/usr/bin/python3
"""A server that has no room, or no more connections or descriptors: does every client hear of it at once, and does the
log say when that begins and when it has ended, in one line each?

    refusals.py TARN
"""

import re
import subprocess
import sys

import serving
from serving import Connection, Tarn, await_that, expect

CAP_SYS_RESOURCE = 24
REFUSED = b"ERROR Too many open connections"


def lines_of(server, event):
    return [line for line in server.log().splitlines() if f'event="{event}"' in line]


def began(server, event):
    """The one line that says when it began: it may be read a moment after the refusal."""
    server.await_line(f'event="{event}"')
    lines = lines_of(server, event)
    expect(len(lines) == 1, f"it begins {len(lines)} times:\n{server.log()}")
    return lines[0]


def expect_remedy(line):
    expect("level=warn" in line and re.search(r' remedy="[^"]+"', line), line)


def welcome(address):
    """A new client, and whether it is served; it hears one or the other."""
    client = Connection(address)
    try:
        answer = client.ask(b"version\r\n")
    except (ConnectionError, BrokenPipeError):
        return client, False  # it had said something before it was refused, and so could not hear the reason
    expect(answer == REFUSED or answer.startswith(b"VERSION"), f"it is told {answer!r}")
    return client, answer != REFUSED


def a_full_store_says_so_once(tarn):
    with serving.ordinary_user(tarn) as (user, folder):
        words = user.words()
        with Tarn(user.program, f"{folder}/store", size="8M", words=words) as server, Connection(server.address) as client:
            value, refused = b"x" * 100000, 0
            for number in range(2000):
                answer = client.set(b"%d" % number, value)
                refused += answer != b"STORED"
                expect(answer in (b"STORED", b"SERVER_ERROR out of memory storing object"), answer)
            for _ in range(100):
                client.send(b"".join(b"set new 0 0 100000\r\n%s\r\n" % value for _ in range(10)))
                for _ in range(10):
                    expect(client.line() == b"SERVER_ERROR out of memory storing object", "it is not full")
                    refused += 1
            expect_remedy(began(server, "new data is refused: the store is full"))
            expect(not lines_of(server, "new data is taken again"), "it ends while it lasts")
            expect(client.ask(b"flush_all\r\n") == b"OK", "it does not flush")

            def ended():
                answer = client.set(b"new", b"y")
                expect(answer == b"STORED", answer)
                return lines_of(server, "new data is taken again")
            await_that(ended, "its end is not told", 0.1)
            expect(f" refused={refused} " in lines_of(server, "new data is taken again")[0], f"{refused}:\n{server.log()}")
            expect(len(lines_of(server, "new data is refused: the store is full")) == 1, "it begins twice")
            server.stop()


def who_is_too_many_is_told(tarn):
    with serving.ordinary_user(tarn) as (user, folder):
        with Tarn(user.program, f"{folder}/store", "--max-connections=10", words=user.words()) as server:
            clients = [Connection(server.address) for _ in range(30)]
            for client in clients[:10]:
                expect(client.ask(b"version\r\n").startswith(b"VERSION"), "it does not serve")
            for client in clients[10:]:
                expect(client.line() == REFUSED, "it is not told")
                expect(client.socket.recv(1) == b"", "the connection stays open")
            line = began(server, "connections are refused")
            expect("--max-connections" in line, line)
            expect_remedy(line)
            for client in clients:
                client.socket.close()
            expect_end(server, 20)
            server.stop()


def expect_end(server, refused):
    """Connections come until one finds that it is over. Those that are refused until then count, too."""
    more = 0

    def ended():
        nonlocal more
        client, is_served = welcome(server.address)
        more += not is_served
        client.socket.close()
        return lines_of(server, "connections are accepted again")
    await_that(ended, "its end is not told", 0.1)
    expect(f" refused={refused + more} " in lines_of(server, "connections are accepted again")[0],
           f"{refused} and {more}:\n{server.log()}")
    expect(len(lines_of(server, "connections are refused")) == 1, f"it begins twice:\n{server.log()}")


def few_descriptors_hang_nobody(tarn):
    with serving.ordinary_user(tarn) as (user, folder):
        words = user.words(nofile=64)
        with Tarn(user.program, f"{folder}/store", "--threads=2", words=words) as server:
            warned = lines_of(server, "the limit of open files allows fewer connections than --max-connections")
            expect(len(warned) == 1 and " limit=64 " in warned[0] and "ulimit -n" in warned[0], server.log())
            met = [welcome(server.address) for _ in range(100)]
            served = [client for client, is_served in met if is_served]
            expect(10 < len(served) < 64, f"{len(served)} of {len(met)} are served")
            for number, client in enumerate(served):
                expect(client.set(b"%d" % number, b"x") == b"STORED", "it does not store")
            line = began(server, "connections are refused")
            expect("too many files are open" in line and "ulimit -n" in line, line)
            expect_remedy(line)
            for client, _ in met:
                client.socket.close()
            expect_end(server, len(met) - len(served))
            server.stop()


def may_raise_limits():
    """Root may, but where it was taken from him, as in containers."""
    with open("/proc/self/status", encoding="ascii") as file:
        return int(re.search(r"^CapEff:\s*(\w+)", file.read(), re.MULTILINE).group(1), 16) >> CAP_SYS_RESOURCE & 1


def calls_that_are_too_many(tarn):
    """The same where Tarn's own protocol is spoken."""
    with serving.ordinary_user(tarn) as (user, folder):
        url = f"unix:{folder}/kv/default"
        options = ["--max-connections=2", "--threads=1", f"--kv-unix={folder}/kv"]
        with Tarn(user.program, f"{folder}/store", *options, words=user.words()) as server, Connection(server.address) as client:
            holders = [subprocess.Popen([*user.words(), user.program, "put", url, f"key{number}"], stdin=subprocess.PIPE)
                       for number in range(2)]

            def all_are_there():
                client.send(b"stats calls\r\n")
                lines = []
                while (line := client.line()) != b"END":
                    lines.append(line)
                return b"STAT 0:connections 2" in lines
            await_that(all_are_there, "they do not connect")

            def is_refused():
                get = subprocess.run([*user.words(), user.program, "get", url, "key0"], capture_output=True, check=False,
                                     timeout=serving.PATIENCE)
                expect(get.returncode == 0 or b"as many connections as may be" in get.stderr, f"get says {get.stderr!r}")
                return get.returncode != 0
            expect(is_refused() and is_refused() and is_refused(), "there are too many")
            line = began(server, "connections for calls are refused")
            expect("level=warn" in line, line)
            for holder in holders:
                holder.communicate(b"value", serving.PATIENCE)
                expect(holder.returncode == 0, "who was there is not served")
            refused = 3

            def ended():
                nonlocal refused
                refused += is_refused()
                return lines_of(server, "connections for calls are taken again")
            await_that(ended, "its end is not told", 0.1)
            expect(f" refused={refused} " in lines_of(server, "connections for calls are taken again")[0], server.log())
            expect(len(lines_of(server, "connections for calls are refused")) == 1, "it begins twice")
            server.stop()


def more_connections_than_descriptors(tarn):
    event = "the limit of open files allows fewer connections than --max-connections"
    with serving.ordinary_user(tarn) as (user, folder):
        words = user.words(nofile=1024)
        with Tarn(user.program, f"{folder}/store", "-c", "5000", words=words) as server:
            warned = lines_of(server, event)
            expect(len(warned) == 1 and " max_connections=5000 " in warned[0], server.log())
            expect_remedy(warned[0])
            server.stop()
        with Tarn(user.program, f"{folder}/store", "-c", "100", words=words) as server:
            expect(not lines_of(server, event), server.log())
            server.stop()
    if may_raise_limits():
        with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "-c", "5000", words=("prlimit", "--nofile=1024", "--")) as server:
            expect(not lines_of(server, event), server.log())
            server.stop()


if __name__ == "__main__":
    serving.run([a_full_store_says_so_once, who_is_too_many_is_told, few_descriptors_hang_nobody,
                 calls_that_are_too_many, more_connections_than_descriptors], sys.argv[1])
