#!/usr/bin/python3
"""Does the process stay within --memory, to within 5 %, when all that asks for memory asks at once?

    memory.py TARN

New keys fill the index until it takes no more, and hot records give way to it; then many send values in halves, and ask
for large ones that they do not read.
"""

import contextlib
import sys

import serving
from counters import statistics
from serving import Connection, Tarn, expect

MEMORY = 112  # MiB
ALLOWED = MEMORY * 1024 * 105 // 100  # KiB
KEYS_AT_ONCE = 20000
KEYS_MAX = 12_000_000
CROWD = 120
LARGE = 700_000
BUSY, BUSY_KEYS = 64, 3000


def hot_bytes(client):
    return int(statistics(client).get("store_hot_bytes", 0))


def fill(client):
    """Store keys until one is refused. Returns how many there are, and the most bytes that hot records had."""
    hot = 0
    for first in range(0, KEYS_MAX, KEYS_AT_ONCE):
        lines = b"".join(b"ms n%d 1 q\r\nx\r\n" % number for number in range(first, first + KEYS_AT_ONCE))
        client.send(lines + b"mn\r\n")
        answer = client.line()
        if answer != b"MN":
            expect(answer == b"SERVER_ERROR out of memory storing object", f"a key is refused with {answer}")
            return first, hot
        hot = max(hot, hot_bytes(client))
    raise serving.Failure(f"{KEYS_MAX} keys were not too many")


def press(address, polite):
    """A crowd wants as much memory as it can have, again and again."""
    for _ in range(4):
        with contextlib.ExitStack() as stack:
            for number in range(CROWD):
                client = stack.enter_context(Connection(address))
                client.send(b"get large\r\n" * 20 if number % 2 else b"set half 0 0 %d\r\n" % LARGE + b"v" * (LARGE // 2))
            for number in range(1000):
                expect(polite.get(b"n%d" % number) == b"x", "they hold others up")


def all_at_once(tarn):
    """Whatever is the most: it is refused, and not taken."""
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=device", f"--memory={MEMORY}M", size="1536M") as process:
        with Connection(process.address) as client, Connection(process.address) as polite:
            expect(client.set(b"large", b"x" * LARGE) == b"STORED", "it does not store")
            keys, hot = fill(client)
            expect(keys > 1_000_000, f"{keys} keys fill it")
            expect(serving.CACHE or (left := hot_bytes(polite)) < hot, f"hot records had {hot} bytes, and did not give way: {left}")
            press(process.address, polite)
            peak = process.status_kilobytes("VmHWM")
        expect(peak <= ALLOWED, f"with {keys} keys it took {peak} KiB at its most, allowed are {ALLOWED}")
        process.stop()
    print(f"# {keys} keys: {peak} KiB at most, of {MEMORY << 10}")


def many_requests(tarn):
    """Requests that wait for the drive take stacks: they leave the index what it needs to grow."""
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--threads=1", "--memory=64M") as process:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Connection(process.address)) for _ in range(BUSY)]
            for number, client in enumerate(clients):
                lines = (b"ms c%d-%d 1 q\r\nx\r\n" % (number, key) for key in range(BUSY_KEYS))
                client.send(b"".join(lines) + b"mn\r\n")
            for client in clients:
                expect((answer := client.line()) == b"MN", f"a key is refused with {answer}")
        process.stop()


if __name__ == "__main__":
    serving.run([all_at_once, many_requests], sys.argv[1])
