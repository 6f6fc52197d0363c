#!/usr/bin/python3
"""Does the server start for an ordinary user, whatever io_uring is refused, and say once why and what would help?

    rings.py TARN
"""

import re
import sys

import serving
from operations import command
from serving import Connection, Tarn, expect

MEBIBYTE = 1 << 20


def complaints(server):
    return [line for line in server.log().splitlines() if "level=warn" in line or "level=error" in line]


def expect_one_complaint(server):
    told = complaints(server)
    expect(len(told) == 1, f"{len(told)} complaints:\n" + "\n".join(told))
    expect(re.search(r' reason="[^"]+" error="[^"]+".* remedy="[^"]+"', told[0]), told[0])


def expect_it_serves(server):
    """By so many connections that every thread has some."""
    clients = [Connection(server.address) for _ in range(70)]
    for number, client in enumerate(clients):
        expect(client.set(b"%d" % number, b"<%d>" % number) == b"STORED", "it does not store")
    for number, client in enumerate(clients):
        expect(client.get(b"%d" % (len(clients) - 1 - number)) == b"<%d>" % (len(clients) - 1 - number), "it does not get")
        client.socket.close()


def many_threads_under_debians_limit(tarn):
    with serving.ordinary_user(tarn) as (user, folder):
        words = user.words(memlock=8 * MEBIBYTE)
        with Tarn(user.program, f"{folder}/store", "--threads=32", words=words) as server:
            expect_it_serves(server)
            expect_one_complaint(server)
            expect("threads=32" in server.log(), "it has fewer threads")
            server.stop()


def a_second_server_of_the_same_user(tarn):
    with serving.ordinary_user(tarn) as (user, folder):
        words = user.words(memlock=8 * MEBIBYTE)
        with Tarn(user.program, f"{folder}/one", "--threads=16", words=words) as one, \
                Tarn(user.program, f"{folder}/two", "--threads=16", words=words) as two:
            for server in (one, two):
                expect_it_serves(server)
                expect_one_complaint(server)
            one.stop()
            two.stop()


def next_to_no_locked_memory(tarn):
    for kibibytes in (64, 0):
        with serving.ordinary_user(tarn) as (user, folder):
            words = user.words(memlock=kibibytes << 10)
            with Tarn(user.program, f"{folder}/store", "--threads=2", words=words) as server:
                expect_it_serves(server)
                expect_one_complaint(server)
                server.stop()


def few_descriptors(tarn):
    """Too few for all threads: it ends, and says how many there may be, not that it lacks memory."""
    with serving.ordinary_user(tarn) as (user, folder):
        status, _, errors = command(*user.words(nofile=24), user.program, "serve", f"--data={folder}/store",
                                            "--size=64M", "--listen=127.0.0.1:0", "--threads=16")
        expect(status == 1 and "open files" in errors and "ulimit -n" in errors, errors)


if __name__ == "__main__":
    serving.run([many_threads_under_debians_limit, a_second_server_of_the_same_user, next_to_no_locked_memory,
                 few_descriptors], sys.argv[1])
