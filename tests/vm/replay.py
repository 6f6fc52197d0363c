#!/usr/bin/python3
"""In the machine: a store on a device whose writes are recorded, and every flush point of the record as a drive.

    replay.py TARN DEVICE LOG POINTS

DEVICE and LOG are block devices; what they hold is lost. A server runs on DEVICE with dm-log-writes over it. After each
write that the server acknowledges, the record gets a mark. Then the record is played back onto a file: at each point where
the drive had flushed (every k-th, so that there are no more than POINTS) the store must be sound and hold all that was
acknowledged until then, in its last version or a later one.

At last writes are dropped (dm-flakey): the server may answer an error, or what it stored, never anything else.
"""

import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
import serving  # pylint: disable=wrong-import-position
from serving import Connection, Tarn, expect  # pylint: disable=wrong-import-position

SECTOR = 512
STORE_SECTORS = 64 << 11  # 64 MiB
MAGIC = 0x6a736677736872
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
KEYS = 12
WRITES = 150


def make_device(name, table):
    subprocess.run(["dmsetup", "create", name, "--table", table], check=True)
    path = f"/dev/mapper/{name}"
    if not os.path.exists(path):  # nobody makes the nodes here
        subprocess.run(["dmsetup", "mknodes", name], check=True)
    return path


def value_of(number):
    return f"{number:08}-".encode() * (20 + number * 7 % 300)


def put(connection, key, value):
    connection.send(b"set key%d 0 0 %d\r\n%s\r\n" % (key, len(value), value))
    return connection.line()


def record(tarn, device, log):
    """Have a server write, with a mark after each acknowledgement."""
    path = make_device("recorded", f"0 {STORE_SECTORS} log-writes {device} {log}")
    subprocess.run([tarn, "format", f"file:{path}", "--force"], check=True, capture_output=True)
    subprocess.run(["dmsetup", "message", "recorded", "0", "mark", "formatted"], check=True)
    with Tarn(tarn, path, "--mode=power", "--scrub=0") as server, Connection(server.address) as connection:
        for number in range(WRITES):
            expect(put(connection, number % KEYS, value_of(number)) == b"STORED", "a write is refused")
            subprocess.run(["dmsetup", "message", "recorded", "0", "mark", f"write-{number}"], check=True)
        server.stop()
    subprocess.run(["dmsetup", "remove", "recorded"], check=True)


def entries(log):
    """What was recorded, in order: (flags, first sector, data or the text of a mark, sectors)."""
    with open(log, "rb") as file:
        magic, version, count, sector_bytes = struct.unpack("<QQQI", file.read(28))
        expect(magic == MAGIC and version == 1, "the log is none of dm-log-writes")
        file.seek(sector_bytes)
        for _ in range(count):
            head = file.read(sector_bytes)
            sector, sectors, flags, length = struct.unpack_from("<QQQQ", head)
            data = head[32:32 + length] if flags & MARK else b"" if flags & DISCARD else file.read(sectors * sector_bytes)
            yield flags, sector * sector_bytes, data, sectors * sector_bytes


def points(log):
    """How many points there are at which the drive had flushed, after the store was formatted."""
    count, formatted = 0, False
    for flags, _, data, _ in entries(log):
        formatted = formatted or (flags & MARK and data == b"formatted")
        count += bool(formatted and flags & (FLUSH | FUA))
    return count


def look(tarn, drive, acknowledged):
    """Is the store on the file sound, and is there what was acknowledged?"""
    check = subprocess.run([tarn, "check", f"file:{drive}"], capture_output=True, text=True, check=False)
    expect(check.returncode == 0, f"after write {acknowledged} the store is not sound:\n{check.stdout}{check.stderr}")
    keys = [f"key{key}" for key in range(KEYS)]
    lines = subprocess.run([tarn, "get", f"file:{drive}", *keys], capture_output=True, check=False).stdout.splitlines()
    held = dict(line.replace(b'"', b"").split(b"\t") for line in lines)
    for key in range(min(KEYS, acknowledged + 1)):
        found = held.get(b"key%d" % key, b"")
        last = acknowledged - (acknowledged - key) % KEYS
        possible = [value_of(last)] + ([value_of(last + KEYS)] if last + KEYS < WRITES else [])
        expect(found in possible, f"after write {acknowledged} was acknowledged, key{key} holds {found[:30]!r}")


def replay(tarn, log, limit):
    """Play the record back, and look at every k-th point."""
    all_points = points(log)
    expect(all_points > WRITES // 2, f"only {all_points} flush points: that tells nothing")
    step = max(1, all_points // limit)
    formatted, acknowledged, seen, looked = False, -1, 0, 0
    with open("replayed", "wb+") as drive:
        drive.truncate(STORE_SECTORS * SECTOR)
        for flags, at, data, length in entries(log):
            if flags & MARK:
                formatted = formatted or data == b"formatted"
                if data.startswith(b"write-"):
                    acknowledged = int(data[6:])
                continue
            os.pwrite(drive.fileno(), bytes(length) if flags & DISCARD else data, at)
            if formatted and flags & (FLUSH | FUA):
                seen += 1
                if seen % step == 0:
                    look(tarn, "replayed", acknowledged)
                    looked += 1
    expect(acknowledged == WRITES - 1, "the record ends early")
    print(f"# {looked} of {all_points} flush points looked at", flush=True)
    expect(looked >= min(limit, 10), "too few points were looked at")


def drop(tarn, device):
    """Writes are dropped while the server runs, and it is asked for everything, then and after a restart."""
    good, dropping = (f"0 {STORE_SECTORS} flakey {device} 0 {how}" for how in ("3600 0", "0 3600 1 drop_writes"))
    path = make_device("flaky", good)
    subprocess.run([tarn, "format", f"file:{path}", "--force"], check=True, capture_output=True)
    wrong = refused = 0

    def become(table):
        subprocess.run(["dmsetup", "suspend", "flaky"], check=True)
        subprocess.run(["dmsetup", "load", "flaky", "--table", table], check=True)
        subprocess.run(["dmsetup", "resume", "flaky"], check=True)

    def ask(address, numbers):
        nonlocal refused, wrong
        with Connection(address) as connection:
            for number in numbers:
                connection.send(b"get key%d\r\n" % number)
                line = connection.line()
                if line.startswith(b"VALUE"):
                    value = connection.line()
                    wrong += value != value_of(number)
                    expect(connection.line() == b"END", "an answer without an end")
                else:
                    refused += 1
    with Tarn(tarn, path, "--mode=power", "--scrub=0") as server:
        with Connection(server.address) as connection:
            for number in range(20):
                expect(put(connection, number, value_of(number)) == b"STORED", "a write is refused")
            become(dropping)
            for number in range(20, 60):
                put(connection, number, value_of(number))
        ask(server.address, range(60))
        expect(refused > 0, "dropped writes were served: they were not dropped")
        server.kill()
    become(good)
    lost = refused
    refused = 0
    with Tarn(tarn, path, "--mode=power", "--scrub=0") as server:
        ask(server.address, range(20))
        expect(refused == 0, f"{refused} of what was there before is lost")
        ask(server.address, range(20, 60))
    print(f"# {lost} values could not be read while the server ran", flush=True)
    subprocess.run(["dmsetup", "remove", "flaky"], check=True)
    expect(wrong == 0, f"{wrong} values are wrong")


def main():
    tarn, device, log, limit = sys.argv[1:]

    def flush_points(_):
        record(tarn, device, log)
        replay(tarn, log, int(limit))

    def dropped_writes(_):
        drop(tarn, device)
    with serving.folder() as folder:
        os.chdir(folder)
        serving.run([flush_points, dropped_writes], folder)


if __name__ == "__main__":
    main()
