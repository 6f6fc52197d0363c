#!/usr/bin/python3
"""Does a running server tell where the time of its requests goes, and does `tarn top` show it?

    stages.py TARN
"""

import contextlib
import re
import socket
import sys
import threading

import serving
from counters import statistics
from operations import command
from serving import Connection, Memcached, Tarn, await_that, expect
from verbs import fails, is_misuse, succeeds

STAGES = ["stage_queue", "stage_room", "stage_lock", "stage_index", "stage_read", "stage_verify", "stage_append", "stage_commit", "stage_write", "stage_flush",
          "op_get", "op_put", "op_update", "op_touch", "op_delete", "op_batch"]
TIMES = ["p50_us", "p90_us", "p99_us", "p999_us", "max_us"]
KEYS = 50


def told(connection):
    found = statistics(connection, b" stages")
    wanted = ["measure_interval"] + [f"{stage}_{what}" for stage in STAGES for what in ["count", "sum_us"] + TIMES]
    expect(list(found) == wanted, f"stats stages tells {list(found)}")
    expect(all(re.fullmatch(r"\d+\.\d{3}", value) for name, value in found.items() if name.endswith("_us")), f"no microseconds: {found}")
    return {name: float(value) for name, value in found.items()}


def counts(found):
    return {stage: int(found[f"{stage}_count"]) for stage in STAGES}


def say(connection, text, answers):
    connection.send(text)
    for _ in range(answers):
        connection.line()


def all_are_measured(tarn):
    """Each request counts in the stages that it passes; times rise with their share; `stats reset` forgets."""
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--measure=1", "--threads=2", "--hot=off") as server, \
            Connection(server.address) as first, Connection(server.address) as second:
        for number, connection in enumerate((first, second)):
            say(connection, b"".join(b"set %d.%d 0 0 5\r\nvalue\r\n" % (number, key) for key in range(KEYS)), KEYS)
            say(connection, b"".join(b"mg %d.%d v\r\n" % (number, key) for key in range(KEYS)), 2 * KEYS)
        say(first, b"mg absent v\r\nincr absent 1\r\ntouch 0.1 0\r\ndelete 0.1\r\ndelete absent\r\n", 5)
        found = told(first)
        counted, requests = counts(found), 4 * KEYS + 5
        writes = 2 * KEYS + 4
        wanted = {"stage_queue": requests, "stage_index": requests, "stage_lock": writes, "stage_room": writes - 1, "op_put": 2 * KEYS, "op_get": 2 * KEYS + 1,
                  "op_update": 1, "op_touch": 1, "op_delete": 2, "stage_append": 2 * KEYS + 2, "stage_commit": 2 * KEYS + 2}
        wrong = {name: (counted[name], count) for name, count in wanted.items() if counted[name] != count}
        expect(not wrong, f"counted, and should be: {wrong}")
        expect(counted["stage_read"] >= 2 * KEYS + 2 and counted["stage_verify"] == counted["stage_read"], f"{counted}")
        expect(0 < counted["stage_write"] <= 2 * KEYS + 2, f"{counted}")
        for stage in (stage for stage in STAGES if counted[stage] > 0):
            times = [found[f"{stage}_{what}"] for what in TIMES]
            expect(times == sorted(times) and times[-1] > 0 and found[f"{stage}_sum_us"] >= times[-1], f"{stage} took {times}")
        parts = sum(found[f"stage_{stage}_sum_us"] for stage in ("room", "lock", "index", "read", "verify", "append", "commit"))
        whole = sum(found[f"op_{kind}_sum_us"] for kind in ("get", "put", "update", "touch", "delete"))
        expect(0 < parts <= whole, f"stages of {parts} us in operations of {whole}")
        expect(first.ask(b"stats reset\r\n") == b"RESET", "it does not reset")
        expect(not any(counts(told(second)).values()), "it has not forgotten")
        say(second, b"mg 0.0 v\r\n", 2)
        expect(counts(told(first))["op_get"] == 1, "it does not count any more")
        server.stop()


def some_are_measured(tarn):
    """One in 32, unless told otherwise, while they go on."""
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--threads=2") as server, Connection(server.address) as watcher:
        expect(told(watcher)["measure_interval"] == 32, "the interval is not 32")
        over = threading.Event()

        def ask():
            with Connection(server.address) as connection:
                while not over.is_set():
                    say(connection, b"mg a v\r\n" * 64, 64)
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            before = 0
            for _ in range(3):
                await_that(lambda: counts(told(watcher))["op_get"] > before + 100, "it does not count while requests go on")
                before = counts(told(watcher))["op_get"]
        finally:
            over.set()
            for thread in threads:
                thread.join()
        share = int(statistics(watcher)["cmd_get"]) / counts(told(watcher))["op_get"]
        expect(20 < share < 52, f"one in {share:.1f} was measured")
        server.stop()


@contextlib.contextmanager
def impostor(answer):
    """A server that says the same whatever it is asked; its address."""
    def serve():
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                while connection.recv(1 << 16):
                    connection.sendall(answer)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield "127.0.0.1:%d" % listener.getsockname()[1]
        thread.join()


def shown(tarn, address, *options):
    """The screens of `tarn top`: of each the words of its lines."""
    output = succeeds(tarn, "top", address, "--interval=200ms", *options).decode()
    expect("\033" not in output, "it clears what is no terminal")
    return [[line.split() for line in (address + screen).splitlines()] for screen in output.split(address)[1:]]


def top_shows_it(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--measure=1", f"--unix={folder}/socket") as server:
        address, over = "%s:%d" % server.address, threading.Event()

        def ask():
            with Connection(server.address) as connection:
                while not over.is_set():
                    say(connection, b"mg a v\r\n", 1)
        thread = threading.Thread(target=ask)
        thread.start()
        try:
            screens = shown(tarn, address, "--count=2")
        finally:
            over.set()
            thread.join()
        expect(len(screens) == 2, f"{len(screens)} screens instead of 2")
        for screen in screens:
            rows = {words[0]: words for words in screen if words}
            expect(all(stage.split("_")[1] in rows for stage in STAGES), f"stages are missing: {screen}")
            gets, counted = float(rows["get"][1]), float(rows["a"][2])
            expect(gets > 10 and 0.5 < gets / counted < 2 and float(rows["put"][1]) == 0, f"{gets} gets a second, {counted} by the counter")
            expect(float(rows["get"][6]) >= float(rows["get"][2]) > 0, f"times of gets: {rows['get']}")
        for address in (f"memcache://{address}", f"unix:{folder}/socket"):
            succeeds(tarn, "top", address, "--interval=10ms", "--count=1")
        server.stop()


def top_refuses(tarn):
    for words in (["nowhere"], ["a:1", "b:2"], ["127.0.0.1:0"], ["--interval=0s"], ["unix:"]):
        is_misuse(tarn, "top", *words)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        fails(tarn, "top", "127.0.0.1:%d" % free.getsockname()[1], because="cannot reach")
    for answer, because in ((b"ERROR\r\n", "does not tell statistics"), (b"STAT " + b"x" * 100000, "has no end"),
                            (b"hello\r\nyou\r\n", "does not tell statistics")):
        with impostor(answer) as address:
            fails(tarn, "top", address, "--interval=10ms", because=because)
    with impostor(b"STAT version \033[2Jx\r\nSTAT uptime -1\r\nSTAT threads nan\r\nSTAT cmd_get 1e999\r\nSTAT stage_get_count\r\nEND\r\n") as address:
        output = succeeds(tarn, "top", address, "--interval=10ms", "--count=2")
        expect(b"\033" not in output and b"inf" not in output and b"nan" not in output, f"it believes a stranger: {output}")


def top_of_memcached(tarn):
    with Memcached() as server:
        status, output, errors = command(tarn, "top", "%s:%d" % server.address, "--interval=10ms", "--count=1")
        expect(status == 0 and b"does not tell where" in output, f"{status}: {output} {errors}")


if __name__ == "__main__":
    serving.run([all_are_measured, some_are_measured, top_shows_it, top_refuses, top_of_memcached], sys.argv[1])
