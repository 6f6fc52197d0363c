#!/usr/bin/python3
"""Stores that earlier releases have left, opened for ever.

    golden.py PROGRAM            the test
    golden.py PROGRAM --make     write version-1.img.xz and version-1.jsonl anew: only before the release of a format

version-N.img.xz is a store of format N, whose server was killed while it was in use; version-N.jsonl is what
`tarn dump` says is in it. Format 0, the walking skeleton's, is refused with the sentence that says what to do.
"""

import json
import lzma
import os
import shutil
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "conformance"))

import serving  # pylint: disable=wrong-import-position
from serving import Connection, Tarn, expect  # pylint: disable=wrong-import-position

FAR = 4102444800  # 2100-01-01


def path_of(name):
    return os.path.join(FOLDER, name)


def unpack(name, folder):
    """A store of its own, with its holes."""
    path = os.path.join(folder, name)
    with lzma.open(path_of(name + ".xz")) as packed, open(path, "wb") as file:
        shutil.copyfileobj(packed, file)
    return path


def tarn(program, *words):
    result = subprocess.run((program, *words), capture_output=True, check=False, timeout=serving.PATIENCE)
    return result.returncode, result.stdout, result.stderr.decode(errors="replace")


def dump_of(program, path):
    """The records, without the line that ends them: dumps of the release that made the store had none."""
    status, output, errors = tarn(program, "dump", path)
    expect(status == 0, f"it is not dumped: {errors}")
    *records, end = output.splitlines()
    expect(json.loads(end) == {"end": True, "records": len(records)}, f"the dump ends with {end!r}")
    return sorted(records)


def version_1_is_read_and_written(program):
    with serving.folder() as folder:
        path = unpack("version-1.img", folder)
        with open(path_of("version-1.jsonl"), "rb") as file:
            wanted = sorted(file.read().splitlines())
        expect(tarn(program, "check", path)[0] == 0, "it is not sound")
        expect(dump_of(program, path) == wanted, "before any write the dump differs")
        with Tarn(program, path) as server, Connection(server.address) as client:
            expect(client.set(b"new", b"1") == b"STORED", "it takes nothing")
            expect(client.get(b"key7") == b"value 7 " * 7, "a value differs")
            server.kill()
        expect(tarn(program, "check", path)[0] == 0, "it is not sound after a kill")
        expect(tarn(program, "del", path, "new")[0] == 0, "what was new is not there")
        expect(dump_of(program, path) == wanted, "after all that the dump differs")


def version_1_is_dumped_and_loaded(program):
    """What it holds comes into a new store, from its own old dump, too, which ends without saying so."""
    with serving.folder() as folder, open(path_of("version-1.jsonl"), "rb") as file:
        old, new = file.read(), os.path.join(folder, "new")
        status, _, errors = tarn(program, "load", new, path_of("version-1.jsonl"), "--size=4M", "--partial")
        expect(status == 0, f"it is not loaded: {errors}")
        expect(dump_of(program, new) == sorted(old.splitlines()), "what was loaded is something else")


def version_0_is_refused(program):
    with serving.folder() as folder:
        path = unpack("version-0.img", folder)
        with open(path, "rb") as file:
            before = file.read()
        for words in (["get", path, "a"], ["put", path, "a", "b"], ["stat", path], ["check", path],
                      ["format", path]):
            status, _, errors = tarn(program, *words)
            expect(status == 1, f"{words[0]} ends with {status}: {errors}")
        expect("it was made in format 0" in tarn(program, "get", path, "a")[2], "the refusal does not say why")
        with open(path, "rb") as file:
            expect(file.read() == before, "it was written to")


def make(program):
    with serving.folder() as folder:
        path = os.path.join(folder, "store")
        with Tarn(program, path, size="2M") as server, Connection(server.address) as client:
            for i in range(40):
                expect(client.set(b"key%d" % i, b"value %d " % i * i) == b"STORED", "not stored")
            server.stop()
        tarn(program, "del", path, "key3")
        tarn(program, "put", path, "a key\nwith a line", "from the command")
        with Tarn(program, path) as server, Connection(server.address) as client:
            for i in range(10, 20):
                expect(client.ask(b"set key%d %d %d 3\r\nnew\r\n" % (i, i, FAR)) == b"STORED", "not stored")
            expect(client.ask(b"touch key20 %d\r\n" % FAR) == b"TOUCHED", "not touched")
            expect(client.ask(b"delete key4\r\n") == b"DELETED", "not deleted")
            expect(client.set(b"large", b"<>" * 20000) == b"STORED", "not stored")
            server.kill()
        with open(path, "rb") as file, lzma.open(path_of("version-1.img.xz"), "wb", preset=9) as packed:
            shutil.copyfileobj(file, packed)
        with open(path_of("version-1.jsonl"), "wb") as file:
            file.write(b"".join(line + b"\n" for line in dump_of(program, path)))
        with open(path_of("version-1.jsonl"), encoding="utf-8") as file:
            print(f"{sum(1 for line in file if json.loads(line))} records")


if __name__ == "__main__":
    if sys.argv[2:] == ["--make"]:
        make(sys.argv[1])
    else:
        serving.run([version_1_is_read_and_written, version_1_is_dumped_and_loaded, version_0_is_refused], sys.argv[1])
