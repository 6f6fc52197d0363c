#!/usr/bin/python3
"""Do other people's clients get along with the server: python3-pymemcache, memcaslap?

    clients.py TARN
"""

import re
import subprocess
import sys
import time

import pymemcache
import pymemcache.exceptions
import serving
from serving import Connection, Tarn, expect


def equal(found, wanted):
    expect(found == wanted, f"{found!r} instead of {wanted!r}")


def scripted(client):
    """A conversation over everything that the server can do today."""
    expect(client.version().count(b".") == 2, "a version has three numbers")
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
    equal(client.delete("b", noreply=False), True)
    equal(client.delete("b", noreply=False), False)
    equal(client.touch("b", 10, noreply=False), False)
    equal(client.touch("a", 100, noreply=False), True)
    equal(client.get("a"), b"two")
    equal(client.touch("a", -1, noreply=False), True)
    equal(client.get("a"), None)
    equal(client.set("large", b"x" * 1000000, noreply=False), True)
    equal(client.get("large"), b"x" * 1000000)
    try:
        client.set("large", b"x" * (1 << 20), noreply=False)
        expect(False, "a value of 1 MiB was taken")
    except pymemcache.exceptions.MemcacheServerError as refusal:
        expect("too large" in str(refusal), str(refusal))
    stats = client.stats()
    equal(stats[b"curr_items"], 302)  # the one that has expired is still counted, as in memcached
    expect(stats[b"cmd_set"] >= 306 and stats[b"get_hits"] > 40, "stats do not count")
    equal(stats[b"threads"], 2)
    equal(client.stats("settings")[b"item-size-max"], b"1M")
    client.flush_all(noreply=False)
    equal(client.get_many(["key1", "large"]), {})
    client.quit()


def pymemcache_over_tcp(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--threads=2") as server:
        scripted(pymemcache.Client(server.address, timeout=serving.PATIENCE))
        server.stop()


def pymemcache_over_a_unix_socket(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--threads=2", f"--unix={folder}/socket") as server:
        scripted(pymemcache.Client(f"unix:{folder}/socket", timeout=serving.PATIENCE))
        server.stop()


def expiry_is_in_seconds(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store") as server:
        client = pymemcache.Client(server.address, timeout=serving.PATIENCE)
        client.set("short", "v", expire=1, noreply=False)
        client.set("long", "v", expire=1000, noreply=False)
        client.set("absolute", "v", expire=int(time.time()) + 1000, noreply=False)
        client.set("past", "v", expire=int(time.time()) - 1000, noreply=False)
        equal(client.get("past"), None)
        end = time.monotonic() + serving.PATIENCE
        while client.get("short") is not None:
            expect(time.monotonic() < end, "a second is very long")
            time.sleep(0.05)
        equal(set(client.get_many(["long", "absolute"])), {"long", "absolute"})
        server.stop()


def memcaslap_runs_without_an_error(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=device", size="512M") as server:
        host, port = server.address
        result = subprocess.run(["memcaslap", "-s", f"{host}:{port}", "-t", "3s", "-T", "1", "-c", "16", "-X", "500"],
                                capture_output=True, text=True, timeout=serving.PATIENCE, check=False)
        output = result.stdout + result.stderr
        expect(result.returncode == 0, output)
        counts = {name: int(count) for name, count in re.findall(r"^(\w+): (\d+)$", output, re.MULTILINE)}
        expect(counts["cmd_set"] > 0 and counts["cmd_get"] > 0, output)
        for name in ("get_misses", "verify_misses", "verify_failed", "packet_disorder", "packet_drop"):
            equal(counts.get(name, 0), 0)
        expect("rror" not in output, output)
        with Connection(server.address) as connection:
            expect(connection.ask(b"version\r\n").startswith(b"VERSION"), "it does not answer any more")
        server.stop()


if __name__ == "__main__":
    serving.run([pymemcache_over_tcp, pymemcache_over_a_unix_socket, expiry_is_in_seconds,
                 memcaslap_runs_without_an_error], sys.argv[1])
