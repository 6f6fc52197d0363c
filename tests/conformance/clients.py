#!/usr/bin/python3
"""Do other people's clients get along with the server: python3-pymemcache, python3-pylibmc, memccapable, memcaslap?

    clients.py TARN [--minute] [-cache]

With --minute memcaslap works for a whole one. With -cache some are asked, of a store in memory.
"""

import re
import subprocess
import sys
import time

import pylibmc
import pymemcache
import pymemcache.exceptions
import serving
from serving import Connection, Tarn, await_that, expect

CASLAP_SECONDS = 60 if "--minute" in sys.argv else 3


def equal(found, wanted):
    expect(found == wanted, f"{found!r} instead of {wanted!r}")


def refused(exception, call, *arguments, **named):
    """Expect an exception, and return its text."""
    try:
        call(*arguments, **named)
    except exception as problem:
        return str(problem)
    raise serving.Failure(f"{call.__name__} was not refused")


def pymemcache_scripted(client):
    """A conversation over everything that pymemcache can say, but for the limits of memory and the end of the server."""
    version = client.version()
    expect(re.fullmatch(rb"1\.6\.18-tarn-\d+\.\d+\.\d+", version), f"the version is {version}")
    equal(client.flush_all(noreply=False), True)
    equal(client.get("a"), None)
    equal(client.set("a", "one", noreply=False), True)
    equal(client.get("a"), b"one")
    equal(client.set("a", "two", flags=77, noreply=True), True)
    equal(client.get("a"), b"two")
    equal(client.set_many({f"key{i}": f"value{i}" for i in range(300)}, noreply=False), [])
    equal(client.get_many([f"key{i}" for i in range(0, 400, 7)]),
          {f"key{i}": f"value{i}".encode() for i in range(0, 300, 7)})
    equal(client.add("a", "three", noreply=False), False)
    equal(client.add("b", "three", noreply=False), True)
    equal(client.replace("c", "four", noreply=False), False)
    equal(client.replace("b", "four", noreply=False), True)
    value, version = client.gets("b")
    equal(value, b"four")
    equal(client.cas("b", "five", version, noreply=False), True)
    equal(client.cas("b", "six", version, noreply=False), False)
    equal(client.cas("none", "six", version, noreply=False), None)
    equal(set(client.gets_many(["a", "b", "none"])), {"a", "b"})
    equal(client.append("none", "x", noreply=False), False)
    equal(client.append("b", " six", noreply=False), True)
    equal(client.prepend("b", "four ", noreply=False), True)
    equal(client.append("b", "!", noreply=True), True)
    equal(client.get("b"), b"four five six!")
    equal(client.delete("b", noreply=False), True)
    equal(client.delete("b", noreply=False), False)
    equal(client.delete_many(["key0", "key1", "none"], noreply=False), True)
    equal(client.get_many(["key0", "key1", "key2"]), {"key2": b"value2"})
    equal(client.touch("b", 10, noreply=False), False)
    equal(client.touch("a", 100, noreply=False), True)
    equal(client.get("a"), b"two")
    equal(client.touch("a", -1, noreply=False), True)
    equal(client.get("a"), None)
    pymemcache_counting(client)
    equal(client.set("large", b"x" * 1000000, noreply=False), True)
    equal(client.get("large"), b"x" * 1000000)
    text = refused(pymemcache.exceptions.MemcacheServerError, client.set, "large", b"x" * (1 << 20), noreply=False)
    expect("too large" in text, text)
    pymemcache_told(client)
    client.flush_all(noreply=False)
    equal(client.get_many(["key1", "large"]), {})
    client.quit()


def pymemcache_counting(client):
    equal(client.incr("number", 1, noreply=False), None)
    equal(client.set("number", "9", noreply=False), True)
    equal(client.incr("number", 1, noreply=False), 10)
    equal(client.decr("number", 1, noreply=False), 9)
    equal(client.get("number"), b"9 ")
    equal(client.incr("number", 2 ** 64 - 1, noreply=False), 8)
    equal(client.decr("number", 100, noreply=False), 0)
    equal(client.incr("number", 5, noreply=True), None)
    equal(client.incr("number", 1, noreply=False), 6)
    client.set("number", "nine", noreply=False)
    text = refused(pymemcache.exceptions.MemcacheClientError, client.incr, "number", 1, noreply=False)
    expect("non-numeric" in text, text)
    client.delete("number", noreply=False)


def pymemcache_told(client):
    stats = client.stats()
    expect(stats[b"curr_items"] in (299, 300), f"it counts {stats[b'curr_items']} items")  # one has expired
    expect(stats[b"cmd_set"] >= 306 and stats[b"get_hits"] > 40, "stats do not count")
    equal(stats[b"threads"], 2)
    equal(stats[b"version"], client.version())
    equal(client.stats("settings")[b"max-item-size"], b"1M")


def pymemcache_over_tcp(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--threads=2") as server:
        pymemcache_scripted(pymemcache.Client(server.address, timeout=serving.PATIENCE))
        server.stop()


def pymemcache_over_a_unix_socket(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--threads=2", f"--unix={folder}/socket") as server:
        pymemcache_scripted(pymemcache.Client(f"unix:{folder}/socket", timeout=serving.PATIENCE))
        server.stop()


def pylibmc_scripted(address):
    """A conversation over everything that pylibmc, and libmemcached under it, can say in text."""
    milliseconds = serving.PATIENCE * 1000
    client = pylibmc.Client([address], behaviors={"cas": True, "connect_timeout": milliseconds, "send_timeout": milliseconds * 1000,
                                                  "receive_timeout": milliseconds * 1000})
    equal(client.flush_all(), True)
    equal(client.get("a"), None)
    equal(client.set("a", "text"), True)
    equal(client.get("a"), "text")
    for value in (b"bytes", 17, True, {"a": [1, 2]}, "ä\n\r\0", b"", 10 ** 30):
        equal(client.set("a", value), True)
        equal(client.get("a"), value)
    equal(client.set("long", "x" * 50000, min_compress_len=1000), True)
    equal(client.get("long"), "x" * 50000)
    equal(client.add("a", 1), False)
    equal(client.add("b", 1), True)
    equal(client.replace("none", 1), False)
    equal(client.replace("b", "two"), True)
    equal(client.append("b", " three"), True)
    equal(client.prepend("b", "one "), True)
    equal(client.get("b"), "one two three")
    equal(client.append("none", "x"), False)
    value, unique = client.gets("b")
    equal(value, "one two three")
    equal(client.cas("b", "four", unique), True)
    equal(client.cas("b", "five", unique), False)
    equal(client.get("b"), "four")
    refused(pylibmc.NotFound, client.cas, "none", "five", unique)
    equal(client.set_multi({f"{i}": i for i in range(500)}, key_prefix="many"), [])
    equal(client.get_multi([f"{i}" for i in range(0, 700, 3)], key_prefix="many"), {f"{i}": i for i in range(0, 500, 3)})
    equal(client.add_multi({"many1": 0, "new": 1}), ["many1"])
    equal(client.delete_multi(["many1", "many2"]), True)
    equal(client.delete_multi(["many1", "many3"]), False)
    equal(client.get_multi(["many1", "many2", "many3", "many4"]), {"many4": 4})
    equal(client.set("n", 41), True)
    equal(client.incr("n"), 42)
    equal(client.incr("n", 58), 100)
    equal(client.decr("n", 1), 99)
    equal(client.get("n"), 99)
    refused(pylibmc.NotFound, client.incr, "none")
    client.incr_multi(["n", "many4"], delta=5)
    equal(client.get_multi(["n", "many4"]), {"n": 104, "many4": 9})
    equal(client.touch("n", 100), True)
    equal(client.touch("none", 100), False)
    equal(client.set("short", 1, time=1), True)
    equal(client.delete("n"), True)
    equal(client.delete("n"), False)
    refused(pylibmc.Error, client.set, "large", b"x" * (1 << 20))
    equal(client.get("b"), "four")
    [(name, stats)] = client.get_stats()
    expect(int(stats["cmd_set"]) > 500 and "pid" in stats, f"stats of {name} do not count: {stats}")
    await_that(lambda: client.get("short") is None, "a second is very long", 0.05)
    client.disconnect_all()


def pylibmc_over_tcp(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--threads=2", "--mode=device") as server:
        pylibmc_scripted("%s:%d" % server.address)
        server.stop()


def pylibmc_over_a_unix_socket(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--threads=2", "--mode=device", f"--unix={folder}/socket"):
        pylibmc_scripted(f"{folder}/socket")


def memccapable_finds_a_delete_amiss(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=device") as server:
        host, port = server.address
        result = subprocess.run(["memccapable", "-a", "-v", "-t", "5", "-h", host, "-p", str(port)],
                                capture_output=True, text=True, timeout=2 * serving.PATIENCE, check=False)
        said = result.stdout + result.stderr
        # it wants `delete KEY WORD` to be refused, which memcached itself carries out since it reads lines anew
        expect(said.count("[FAIL]") == 2 and not re.search(r"ascii delete( noreply)? +\[pass\]", said), said)
        expect(said.count("[pass]") >= 25, f"so few tests: {said}")
        server.stop()


def expiry_is_in_seconds(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store") as server:
        client = pymemcache.Client(server.address, timeout=serving.PATIENCE)
        client.set("short", "v", expire=1, noreply=False)
        client.set("long", "v", expire=1000, noreply=False)
        client.set("absolute", "v", expire=int(time.time()) + 1000, noreply=False)
        client.set("past", "v", expire=int(time.time()) - 1000, noreply=False)
        equal(client.get("past"), None)
        await_that(lambda: client.get("short") is None, "a second is very long", 0.05)
        equal(set(client.get_many(["long", "absolute"])), {"long", "absolute"})
        server.stop()


def memcaslap_runs_without_an_error(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=device", size="2G" if CASLAP_SECONDS > 9 else "512M") as server:
        host, port = server.address
        result = subprocess.run(["memcaslap", "-s", f"{host}:{port}", "-t", f"{CASLAP_SECONDS}s", "-T", "1", "-c", "16", "-X", "500",
                                 "-v", "0.2"], capture_output=True, text=True, timeout=serving.PATIENCE + CASLAP_SECONDS, check=False)
        output = result.stdout + result.stderr
        expect(result.returncode == 0, output)
        counts = {name: int(count) for name, count in re.findall(r"^(\w+): (\d+)$", output, re.MULTILINE)}
        expect(counts["cmd_set"] > 0 and counts["cmd_get"] > 0, output)
        for name in ("get_misses", "verify_misses", "verify_failed", "packet_disorder", "packet_drop"):
            equal(counts.get(name, 0), 0)
        expect("rror" not in output, output)
        with Connection(server.address) as connection:
            expect(connection.ask(b"version\r\n").startswith(b"VERSION"), "it does not answer any more")
        print(f"# {counts['cmd_set']} set, {counts['cmd_get']} fetched in {CASLAP_SECONDS} s", flush=True)
        server.stop()


if __name__ == "__main__":
    SOME = [pymemcache_over_tcp, pylibmc_over_tcp, memccapable_finds_a_delete_amiss]
    serving.run(SOME if serving.CACHE else SOME + [pymemcache_over_a_unix_socket, pylibmc_over_a_unix_socket, expiry_is_in_seconds,
                                                   memcaslap_runs_without_an_error], sys.argv[1])
