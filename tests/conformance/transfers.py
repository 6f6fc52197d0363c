#!/usr/bin/python3
"""Do the streams of dump come from any store that can be scanned, also while others write to it, and go into any store?

    transfers.py TARN
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading

import serving
from dumps import dump, fill_oddly, in_order, loaded, stream
from remotes import serving_stores
from serving import Connection, expect
from stores import Server
from verbs import fails, is_misuse, made, succeeds


def value_of(line):
    return bytes.fromhex(line["value_hex"]) if "value_hex" in line else line["value"].encode()


def records_of(text):
    """What a stream has under each key, long values put together; those that are void are none."""
    found, long = {}, None
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines[:-1]:
        if "part" in line:
            expect(line["part"] == len(long["value"]), "a part is missing")
            long["value"] += value_of(line)
        elif "void" in line:
            found.pop(long["key"])
        else:
            record = {name: line.get(name, 0) for name in ("version", "expiry_ms", "flags", "note", "bytes")}
            key = next((name, line[name]) for name in line if "key" in name)
            record["key"] = (key[0].removeprefix("long_"), key[1])
            record["value"] = value_of(line) if "value" in line or "value_hex" in line else b""
            expect(record["key"] not in found, f"{key} is there twice")
            found[record["key"]] = long = record
    expect(lines[-1] == {"end": True, "records": len(found)}, f"{lines[-1]}, and {len(found)} records")
    expect(all(len(record["value"]) == record["bytes"] for record in found.values()), "a value is not whole")
    return found


def streams_go_from_any_store_into_any(tarn):
    with serving.folder() as folder:
        first = made(tarn, folder, "16M")
        fill_oddly(tarn, first)
        text = dump(tarn, first)
        records = records_of(text)
        stores = [f"{name}:depot,path={folder}/{name},size=16M" for name in ("tcp", "shm", "third")]
        with serving_stores(tarn, folder, *stores, "cache:cache,memory=64M,partitions=3") as (tcp, unix):
            for store in (f"{tcp}/tcp", f"{unix}/shm"):
                expect(loaded(tarn, store, text) == (len(records), 0, 0), "not all are loaded")
                expect(loaded(tarn, store, text, "--if=absent") == (0, len(records), 0), "they are not there")
                expect(records_of(dump(tarn, store)) == records, "another dump")
                expect(records_of(dump(tarn, store, "--values=hex")) == records, "another dump in digits")
            with subprocess.Popen([tarn, "dump", f"{tcp}/tcp"], stdout=subprocess.PIPE) as source:
                with open(f"{folder}/told", "wb") as told:
                    subprocess.run([tarn, "load", f"{unix}/third"], stdin=source.stdout, stdout=told, check=True)
            expect(records_of(dump(tarn, f"{tcp}/third")) == records, "another dump from server to server")
            expect(loaded(tarn, f"{tcp}/cache", text) == (len(records), 0, 0), "the cache does not take it")
            expect(succeeds(tarn, "get", f"{unix}/cache", "large") == b"\x80<>" * 100000, "the cache has it otherwise")
            expect(records_of(dump(tarn, f"{unix}/cache")) == records, "another dump of a cache")
            second = f"{folder}/second"
            expect(loaded(tarn, second, dump(tarn, f"{tcp}/tcp"), "--size=16M") == (len(records), 0, 0), "into a file")
            expect(in_order(dump(tarn, second)) == in_order(text), "another dump of the file")


class Writers:
    """Rewrite some keys until they are told to stop."""

    def __init__(self, address, *commands):
        self.address, self.commands, self.ends = address, commands, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with Connection(self.address) as client:
            while not self.ends.is_set():
                for command in self.commands:
                    client.ask(command)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def what_stays_is_told_once_while_others_write(tarn):
    def long(byte):
        return b"set long 0 0 1500000\r\n%s\r\n" % (byte * 1500000)
    with serving.folder() as folder:
        address = f"{folder}/socket"
        with Server(tarn, "--port=0", "--threads=2", "--max-item-size=2M", f"--kv-unix={address}",
                    f"--store=d:depot,path={folder}/d,size=256M") as server, \
                Connection(server.of("d")) as client:
            for number in range(20000):
                client.send(b"set stays%d %d 0 8 noreply\r\n%08d\r\n" % (number, number, number))
            expect(client.ask(long(b"a")) == b"STORED", "it does not store")
            changing = [b"set changes%d 0 0 1\r\n%d\r\n" % (number % 100, number % 10) for number in range(1000)] + \
                [b"delete changes%d\r\n" % number for number in range(0, 100, 2)] + [long(b"b"), long(b"a")]
            with Writers(server.of("d"), *changing):
                for _ in range(3):
                    records = records_of(dump(tarn, f"unix:{address}/d"))
                    for number in range(20000):
                        record = records.get(("key", f"stays{number}"))
                        expect(record is not None and record["value"] == b"%08d" % number and record["flags"] == number, f"{record}")
                    found = records[("key", "long")]["value"]
                    expect(found in (b"a" * 1500000, b"b" * 1500000), "a long value is of several")
            server.stop()


def what_hinders_is_said(tarn):
    chance = random.Random(5)
    records = [{"key": f"k{number}", "value_hex": chance.randbytes(20000).hex()} for number in range(2000)]
    with serving.folder() as folder:
        address = f"{folder}/socket"
        with Server(tarn, "--port=0", f"--kv-unix={address}", f"--store=d:depot,path={folder}/d,size=8M") as server:
            url = f"unix:{address}/d"
            fails(tarn, "load", url, said=stream(*records), because='the store is full, and "k')
            expect(succeeds(tarn, "get", url, "k3").hex() == records[3]["value_hex"], "what was loaded is gone")
            fails(tarn, "load", url, said=stream(*records[:3])[:-9], because="it is cut off")
            fails(tarn, "load", url, said=stream({"key": "long", "value": "x" * 5000000}), because="longer than")
            fails(tarn, "load", url, f"{folder}/none", because="there is no such file")
            fails(tarn, "load", url, folder, because="it is a folder")
            for option in ("--size=8M", "--mode=device"):
                is_misuse(tarn, "load", url, option)
            load = subprocess.Popen([tarn, "load", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            load.stdin.write(b"".join(json.dumps({"key": f"k{number % 50}", "value": "y"}).encode() + b"\n" for number in range(50000)))
            load.stdin.flush()  # it does not fit in a pipe: the store is open
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            _, complaint = load.communicate(stream(*[{"key": f"n{number}", "value": "x"} for number in range(1000)]))
            expect(load.returncode == 1 and b"was not stored: " in complaint, f"{load.returncode}: {complaint}")
        fails(tarn, "load", url, said=stream(), because="cannot open the store")
        fails(tarn, "dump", url, because="cannot open the store")
    if os.geteuid() != 0:
        return
    with serving.folder() as folder:
        os.chmod(folder, 0o755)
        with open(f"{folder}/secret", "wb") as file:
            file.write(stream())
        os.chmod(f"{folder}/secret", 0o600)
        user = serving.OrdinaryUser(tarn, folder)
        fails(*user.words(), user.program, "load", f"{folder}/store", f"{folder}/secret", because="its permissions do not allow it")



if __name__ == "__main__":
    serving.run([streams_go_from_any_store_into_any, what_stays_is_told_once_while_others_write, what_hinders_is_said], sys.argv[1])
