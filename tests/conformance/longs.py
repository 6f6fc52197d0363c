#!/usr/bin/python3
"""Do values of any length go through the command in constant memory, and come out of a dump as they were?

    longs.py TARN
"""

import hashlib
import json
import os
import random
import subprocess
import sys

import serving
from dumps import dump, loaded
from operations import command, contents
from serving import Connection, Tarn, expect
from verbs import damage, dumped, fails, made, succeeds

LONG = 90 << 20  # bytes of the longest value
MEMORY = 64 << 20  # that a command may take for it


def write_noise(path, length):
    """A file that nothing shortens, and what it is recognized by."""
    chance = random.Random(length)
    told = hashlib.sha256()
    with open(path, "wb") as file:
        for at in range(0, length, 1 << 20):
            part = chance.randbytes(min(1 << 20, length - at))
            told.update(part)
            file.write(part)
    return told.digest()


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest() if hasattr(hashlib, "file_digest") \
            else hashlib.sha256(file.read()).digest()


def runs(tarn, *words, said=subprocess.DEVNULL, to=subprocess.DEVNULL):
    """@return how many bytes of memory it has taken"""
    env = {name: value for name, value in os.environ.items() if name != "MALLOC_PERTURB_"}  # it touches all memory
    with subprocess.Popen([tarn, *words], stdin=said, stdout=to, stderr=subprocess.PIPE, env=env) as process:
        complaint = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    expect(process.returncode == 0, f"{words} ended with {process.returncode}: {complaint}")
    return usage.ru_maxrss << 10


def mapped_bytes(store):
    """What of a store counts as a command's memory: where files are memory already, the whole is mapped and read in place."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", store], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    return os.path.getsize(store) if kind == "tmpfs" else 0


def a_long_value_takes_little_memory(tarn):
    taken = {}
    with serving.folder() as folder:
        store, noise, found = made(tarn, folder, "256M"), f"{folder}/noise", f"{folder}/found"
        told = write_noise(noise, LONG)
        with open(noise, "rb") as file:
            taken["put"] = runs(tarn, "put", store, "from a file", said=file)
        with subprocess.Popen(["cat", noise], stdout=subprocess.PIPE) as pipe:
            taken["put from a pipe"] = runs(tarn, "put", store, "from a pipe", said=pipe.stdout)
        for key in ("from a file", "from a pipe"):
            with open(found, "wb") as file:
                taken["get"] = runs(tarn, "get", store, key, to=file)
            expect(digest_of(found) == told, f"{key}: other bytes")
        succeeds(tarn, "check", store)
        succeeds(tarn, "del", store, "from a pipe")
        stream, second = f"{folder}/stream", f"{folder}/second"
        with open(stream, "wb") as file:
            taken["dump"] = runs(tarn, "dump", store, to=file)
        taken["load"] = runs(tarn, "load", second, stream, "--size=256M")
        with open(found, "wb") as file:
            runs(tarn, "get", second, "from a file", to=file)
        expect(digest_of(found) == told, "other bytes after a dump")
        succeeds(tarn, "check", second)
        for verb, most in taken.items():
            expect("-sanitized" in sys.argv or most < MEMORY + mapped_bytes(store), f"{verb} has taken {most} bytes")


def all_lengths_come_back(tarn):
    chance = random.Random(1)
    with serving.folder() as folder:
        store, second = made(tarn, folder, "32M"), f"{folder}/second"
        lengths = [0, 1, 32767, 32768, 32769, 100000, 1000000, 3000001]
        values = {f"k{length}": chance.randbytes(length) for length in lengths}
        values["text"] = ("ä" * 700001).encode()
        for key, value in values.items():
            succeeds(tarn, "put", store, key, said=value)
        for options in ([], ["--values=hex"]):
            text = dump(tarn, store, *options)
            expect(json.loads(text.splitlines()[-1])["records"] == len(values), "the end tells another number")
            expect(loaded(tarn, second, text, "--size=32M") == (len(values), 0, 0), "counts")
            for key, value in values.items():
                expect(succeeds(tarn, "get", second, key) == value, f"{key} is another value")
            os.remove(second)
        records = dumped(tarn, store, "--values=none")
        expect({record["key"]: record["bytes"] for record in records} == {k: len(v) for k, v in values.items()}, "bytes")
        several = fails(tarn, "get", store, "k1", "k3000001", because="get it alone")
        expect(several.startswith(b"k1\t"), f"{several[:50]}")
        expect(set(succeeds(tarn, "scan", store, "--values").split(b"\n")) >= {b"k3000001"}, "a scan does not have it")
        expect(loaded(tarn, store, dump(tarn, store), "--if=absent") == (0, len(values), 0), "--if=absent")


def what_is_cut_off_is_not_there(tarn):
    with serving.folder() as folder:
        store, second = made(tarn, folder, "16M"), f"{folder}/second"
        succeeds(tarn, "put", store, "a", said=b"x" * 2000000)
        lines = dump(tarn, store).splitlines(keepends=True)
        expect(len(lines) > 10, "it has few parts")
        for count in (1, 2, 30, len(lines) - 2):
            fails(tarn, "load", second, "--size=16M", said=b"".join(lines[:count]), because="line 1: its value is not whole")
            expect(dumped(tarn, second) == [], "something is there")
        fails(tarn, "load", second, said=b"".join(lines[:3] + lines[4:]), because="line 4: it is not the next part")
        fails(tarn, "load", second, said=b"".join(lines[1:]), because="that has not begun")
        fails(tarn, "load", second, said=b"".join(lines[:3] + lines[-1:]), because="line 1: its value is not whole")
        fails(tarn, "put", second, "b", "--if=present", said=b"x" * 2000000, because="no key")
        fails(tarn, "put", second, "b", said=b"x" * 20000000, because="longer than this store takes")
        expect(dumped(tarn, second) == [], "something is there")
        succeeds(tarn, "check", second)


def a_damaged_part_makes_it_void(tarn):
    chance = random.Random(2)
    with serving.folder() as folder:
        store, value = made(tarn, folder, "16M"), chance.randbytes(2000000)
        succeeds(tarn, "put", store, "long", said=value)
        succeeds(tarn, "put", store, "short", said=b"x")
        damage(store, contents(store).index(value[1500000:1500020]))
        text = fails(tarn, "dump", store, because="tarn check")
        expect(json.loads(text.splitlines()[-1]) == {"end": True, "records": 1, "damaged": True}, f"{text[-200:]}")
        expect(b'{"void":true}' in text.splitlines(), "it is not said to be void")
        output = fails(tarn, "load", f"{folder}/new", "--size=16M", said=text, because="damaged records, which are missing")
        expect(output == b"1 loaded, 0 kept, 0 expired\n", f"{output}")
        fails(tarn, "get", store, "long", because="damaged")


def the_server_leaves_them_alone(tarn):
    """It does not hand out what is too long for it, and does not fall over it."""
    with serving.folder() as folder:
        store = made(tarn, folder, "32M")
        succeeds(tarn, "put", store, "long", said=b"7" * 3000000)
        with Tarn(tarn, store) as server, Connection(server.address) as client:
            for request in (b"get long\r\n", b"gat 100 long\r\n", b"mg long v\r\n", b"mg long v T100\r\n"):
                expect(client.ask(request).startswith(b"SERVER_ERROR"), f"{request}")
            expect(client.ask(b"append long 0 0 1\r\nx\r\n") == b"NOT_STORED", "append")
            expect(client.ask(b"incr long 1\r\n").startswith(b"CLIENT_ERROR"), "incr")
            expect(client.ask(b"touch long 100\r\n") == b"TOUCHED", "touch")
            expect(client.ask(b"md long I T100\r\n") == b"HD", "md")
            expect(client.ask(b"add long 0 0 1\r\nx\r\n") == b"NOT_STORED", "add")
            server.stop()
        expect(succeeds(tarn, "get", store, "long") == b"7" * 3000000, "it was changed")
        with Tarn(tarn, store) as server, Connection(server.address) as client:
            expect(client.ask(b"set long 0 0 1\r\nx\r\n") == b"STORED", "set")
            server.stop()
        expect(succeeds(tarn, "get", store, "long") == b"x", "it is another")
        succeeds(tarn, "check", store)


if __name__ == "__main__":
    serving.run([a_long_value_takes_little_memory, all_lengths_come_back, what_is_cut_off_is_not_there,
                 a_damaged_part_makes_it_void, the_server_leaves_them_alone], sys.argv[1])
