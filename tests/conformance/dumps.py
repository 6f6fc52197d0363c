#!/usr/bin/python3
"""Does what `tarn dump` prints come into another store as it was, and is every other stream refused, with a reason?

    dumps.py TARN
"""

import base64
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time

import serving
from operations import command, contents
from serving import Connection, Tarn, expect
from verbs import damage, dumped, fails, is_misuse, made, succeeds

FAR = 4102444800  # 2100-01-01


def stream(*records, end=None):
    """The lines of some records and of the end, which tells another number if it is told to."""
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    lines.append(json.dumps({"end": True, "records": len(records) if end is None else end}).encode())
    return b"".join(line + b"\n" for line in lines)


def loaded(tarn, store, said, *options):
    """What is counted when all is well."""
    words = succeeds(tarn, "load", store, *options, said=said).decode().split()
    expect(words[1::2] == ["loaded,", "kept,", "expired"], f"{words}")
    return tuple(map(int, words[::2]))


def dump(tarn, store, *options):
    return succeeds(tarn, "dump", store, *options)


def in_order(dump_output):
    return sorted(dump_output.splitlines())


def fill_oddly(tarn, store):
    """Records of every kind: bytes of all sorts, flags, expiries, versions, notes, empty values and large ones."""
    chance = random.Random(7)
    with Tarn(tarn, store) as server, Connection(server.address) as client:
        for number in range(300):
            value = chance.randbytes(chance.choice((0, 1, 7, 300, 5000)))
            expiry = chance.choice((0, FAR + number))
            request = b"set key%d %d %d %d\r\n%s\r\n" % (number, chance.getrandbits(32), expiry, len(value), value)
            expect(client.ask(request) == b"STORED", "it does not store")
        for number in range(20):
            expect(client.ask(b"ms choice%d 5 E%d\r\n<%03d>\r\n" % (number, (1 << 64) - 1 - number, number)) == b"HD", "ms")
        expect(client.ask(b"md choice3 I\r\n") == b"HD", "it does not invalidate")
        expect(client.ask(b"md choice4 I\r\n") == b"HD", "it does not invalidate")
        expect(client.ask(b"mg choice4\r\n").startswith(b"HD X W"), "the first does not win")
        for number in range(30):
            key = base64.b64encode(chance.randbytes(chance.randrange(1, 150)))
            expect(client.ask(b"ms %s 6 b\r\n\"\\\n\0\xc3\xa9\r\n" % key) == b"HD", "a key of any bytes")
        expect(client.set(b"large", b"\x80<>" * 100000) == b"STORED", "it does not store")
        server.stop()
    succeeds(tarn, "put", store, "a key\nwith \"a line\" and ümlaut 😀", "value\twith\x7f\r\n")
    succeeds(tarn, "put", store, b"\xff\xfe not UTF-8", said=b"\xff\0\n")
    succeeds(tarn, "put", store, "k" * 60000, "a long key")


def dump_and_load_and_dump_agree(tarn):
    with serving.folder() as folder:
        first = made(tarn, folder, "16M")
        fill_oddly(tarn, first)
        text = dump(tarn, first)
        records = dumped(tarn, first)
        expect(sum("note" in record for record in records) >= 2, "there are no notes in it")
        expect(sum(record["version"] > 1 << 63 for record in records) >= 18, "there are no large versions in it")
        for options in ([], ["--values=hex"]):
            for number, mode in enumerate(("power", "device", "async")):
                second = f"{folder}/second{number}{len(options)}"
                counts = loaded(tarn, second, dump(tarn, first, *options), "--size=16M", f"--mode={mode}")
                expect(counts == (len(records), 0, 0), f"{counts}")
                expect(in_order(dump(tarn, second)) == in_order(text), f"{mode} {options}: another dump")
                succeeds(tarn, "check", second)
        with open(f"{folder}/stream", "wb") as file:
            file.write(text)
        again = succeeds(tarn, "load", f"file:{folder}/third", f"{folder}/stream", "--size=16M")
        expect(again == b"%d loaded, 0 kept, 0 expired\n" % len(records), f"{again}")
        expect(in_order(dump(tarn, f"{folder}/third")) == in_order(text), "another dump")
        with Tarn(tarn, f"{folder}/third") as server, Connection(server.address) as client:
            expect(client.ask(b"mg choice3 s k c\r\n").startswith(b"HD s5 kchoice3 c"), "the server does not find it")
            server.stop()


def notes_mean_what_they_meant(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        with Tarn(tarn, store) as server, Connection(server.address) as client:
            for key in (b"fresh", b"stale", b"won"):
                expect(client.ask(b"ms %s 1 E100\r\nx\r\n" % key) == b"HD", "it does not store")
            expect(client.ask(b"md stale I\r\n") == b"HD" and client.ask(b"md won I\r\n") == b"HD", "md")
            expect(client.ask(b"mg won\r\n") == b"HD X W", "the first does not win")
            server.stop()
        loaded(tarn, f"{folder}/second", dump(tarn, store), "--size=4M")
        with Tarn(tarn, f"{folder}/second") as server, Connection(server.address) as client:
            answers = [client.ask(b"mg %s\r\n" % key) for key in (b"fresh", b"stale", b"won")]
            expect(answers == [b"HD", b"HD X W", b"HD Z X"], f"{answers}")
            expect(client.ask(b"cas fresh 0 0 1 99\r\ny\r\n") == b"EXISTS", "the version is not kept")
            expect(client.ask(b"cas fresh 0 0 1 100\r\ny\r\n") == b"STORED", "the version is not kept")
            server.stop()


def what_is_there_is_kept_or_not(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        succeeds(tarn, "put", store, "a", "old")
        said = stream({"key": "a", "value": "new"}, {"key": "b", "value": "new", "flags": 9})
        expect(loaded(tarn, store, said, "--if=absent") == (1, 1, 0), "counts")
        expect(succeeds(tarn, "get", store, "a") == b"old" and succeeds(tarn, "get", store, "b") == b"new", "--if=absent")
        expect(loaded(tarn, store, said, "--if=any") == (2, 0, 0), "counts")
        expect(succeeds(tarn, "get", store, "a") == b"new", "it is not replaced")
        record = {record["key"]: record for record in dumped(tarn, store)}["b"]
        expect(record["flags"] == 9 and record["version"] > 0 and record["expiry_ms"] == 0, f"{record}")


def the_last_of_a_key_counts(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder, "8M")
        records = [{"key": f"k{number % 3}", "value": f"v{number}"} for number in range(3000)]
        expect(loaded(tarn, store, stream(*records)) == (3000, 0, 0), "counts")
        found = {record["key"]: record["value"] for record in dumped(tarn, store)}
        expect(found == {"k0": "v2997", "k1": "v2998", "k2": "v2999"}, f"{found}")
        other = f"{folder}/other"
        expect(loaded(tarn, other, stream(*records), "--size=8M", "--if=absent") == (3, 2997, 0), "counts")
        found = {record["key"]: record["value"] for record in dumped(tarn, other)}
        expect(found == {"k0": "v0", "k1": "v1", "k2": "v2"}, f"{found}")


def what_has_expired_is_left_out(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        soon = int(time.time() * 1000) + 3600000
        said = stream({"key": "gone", "value": "x", "expiry_ms": 1}, {"key": "soon", "value": "x", "expiry_ms": soon},
                      {"key": "just", "value": "x", "expiry_ms": int(time.time() * 1000) - 10},
                      {"key": "late", "value": "x", "expiry_ms": 18446744073709})
        expect(loaded(tarn, store, said) == (2, 0, 2), "counts")
        records = {record["key"]: record["expiry_ms"] for record in dumped(tarn, store)}
        expect(set(records) == {"soon", "late"} and soon <= records["soon"] < soon + 10, f"{records}")
        expect(loaded(tarn, store, dump(tarn, store)) == (2, 0, 0), "counts")
        expect({record["key"]: record["expiry_ms"] for record in dumped(tarn, store)} == records, "an expiry has moved")


def streams_are_joined_and_picked(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        first = stream({"key": "a", "value": "1"}, {"key": "b", "value": "1"})
        second = stream({"key": "b", "value": "2"})
        expect(loaded(tarn, store, first + second) == (3, 0, 0), "two streams are not one")
        expect(succeeds(tarn, "get", store, "b") == b"2", "the later one does not count")
        fails(tarn, "load", store, said=first + second[:second.index(b"\n") + 1], because="cut off")
        picked = first.splitlines(keepends=True)[1:]
        fails(tarn, "load", store, said=b"".join(picked), because="ends with 2 records, and 1 came")
        expect(loaded(tarn, store, b"".join(picked), "--partial") == (1, 0, 0), "a part")
        expect(loaded(tarn, store, picked[0], "--partial") == (1, 0, 0), "a part without an end")
        expect(loaded(tarn, store, b"", "--partial") == (0, 0, 0), "a part without anything")
        expect(loaded(tarn, store, stream()) == (0, 0, 0), "an empty stream")


def every_cut_is_noticed(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        for number in range(2):
            succeeds(tarn, "put", store, f"k{number}", said=b"v\xff" if number else b"")
        text = dump(tarn, store)
        for cut in range(len(text) - 1):
            if cut % 5 and b"\n" not in text[max(cut - 2, 0):cut + 2]:
                continue  # some within each line, and all about its end
            output = fails(tarn, "load", store, said=text[:cut], because="cut off")
            whole = text[:cut].count(b"\n") + (text[cut:cut + 1] == b"\n")
            expect(output == b"%d loaded, 0 kept, 0 expired\n" % whole, f"{cut}: {output}")
        expect(loaded(tarn, store, text[:-1]) == (2, 0, 0), "a stream without its last line end")
        expect(in_order(dump(tarn, store)) == in_order(text), "it was changed")


def malformed_lines_are_named(tarn):
    good = {"key": "good", "value": "x"}
    with serving.folder() as folder:
        store = made(tarn, folder)
        for line, because in ((b"", "no JSON"), (b"nonsense", "no JSON"), (b"[1]", "no JSON object"),
                              (b"{}", "neither key"), (b'{"key":"a"}', "--values=none"),
                              (b'{"key":"a","value":"\xff"}', "value_hex"), (b'{"key":"","value":""}', "65,535"),
                              (b'{"key":"a","value":"b","bytes":2}', "as many bytes"),
                              (b'{"key":"a","value":"b","note":4}', "note"), (b"[" * 100000, "no JSON"),
                              (b'{"key":"%s","value":""}' % (b"k" * 65536), "65,535"),
                              (b"\0" * 1000, "no JSON"), (b'{"key":"a","value":"b"}\r{"key"', "no JSON")):
            output = fails(tarn, "load", store, said=stream(good, line, {"key": "behind", "value": "x"}), because="line 2: ")
            expect(output == b"1 loaded, 0 kept, 0 expired\n", f"{line[:50]}: {output}")
            errors = command(tarn, "load", store, said=stream(good, line))[2]
            expect(because in errors and "stays" in errors and len(errors) < 500, f"{line[:50]}: {errors}")
            expect([record["key"] for record in dumped(tarn, store)] == ["good"], "what comes behind it was loaded")
        crlf = stream(good).replace(b"\n", b"\r\n")
        expect(loaded(tarn, store, crlf) == (1, 0, 0), "lines that end as on Windows")
        fails(tarn, "load", store, said=dump(tarn, store, "--values=none"), because="--values=none")


def what_is_too_long_is_refused(tarn):
    with serving.folder() as folder:
        large, small = f"{folder}/large", f"{folder}/small"
        succeeds(tarn, "format", large, "--size=64M")
        succeeds(tarn, "format", small, "--size=3M")
        succeeds(tarn, "put", large, "a", said=b"x" * 4000000)
        fails(tarn, "load", small, said=dump(tarn, large), because="line 1: ")
        too_long = {"key": "a", "value": "x" * 2100000}
        fails(tarn, "load", f"{folder}/medium", "--size=4M", said=stream(too_long), because="load it into a larger one")
        expect(dumped(tarn, small) == [], "something is there")
        succeeds(tarn, "put", large, "a", said=b"x" * 130000) # in one piece there, in several here
        expect(loaded(tarn, small, dump(tarn, large)) == (1, 0, 0), "counts")
        expect(succeeds(tarn, "get", small, "a") == b"x" * 130000, "another value")
        # A line without an end, much longer than any memory that there is for it.
        reader = subprocess.Popen([tarn, "load", small], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, preexec_fn=few_bytes if "-sanitized" not in sys.argv else None)
        written = 0
        try:
            while written < 1 << 30:
                written += os.write(reader.stdin.fileno(), b'{"key":"' + b"x" * (1 << 20))
        except BrokenPipeError:
            pass
        reader.stdin.close()
        output, errors = reader.stdout.read(), reader.stderr.read()
        expect(reader.wait(serving.PATIENCE) == 1 and b"line 1: it is longer than" in errors, f"{errors}")
        expect(written < 64 << 20 and output == b"0 loaded, 0 kept, 0 expired\n", f"{written} bytes were taken")


def few_bytes():
    resource.setrlimit(resource.RLIMIT_DATA, (512 << 20, 512 << 20))


def a_full_store_says_so(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder, "4M")
        said = stream(*({"key": f"key{number}", "value": "x" * 3000} for number in range(3000)))
        output = fails(tarn, "load", store, said=said, because="the store is full")
        count = int(output.split()[0])
        expect(500 < count < 1500, f"{count} were loaded")
        errors = command(tarn, "load", store, said=said)[2]
        expect("load into a larger store" in errors and "stays" in errors and "line " in errors, errors)
        expect(len(dumped(tarn, store)) >= count, "what was loaded is not there")
        succeeds(tarn, "check", store)
        succeeds(tarn, "del", store, "key0")
        expect(loaded(tarn, f"{folder}/large", said, "--size=32M") == (3000, 0, 0), "counts")


def a_damaged_store_is_saved_in_part(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        loaded(tarn, store, stream(*({"key": f"k{number}", "value": f"<value {number}>"} for number in range(9))))
        damage(store, contents(store).index(b"<value 7>") + 3)
        text = fails(tarn, "dump", store, because="tarn check")
        expect(json.loads(text.splitlines()[-1]) == {"end": True, "records": 8, "damaged": True}, f"{text}")
        output = fails(tarn, "load", f"{folder}/new", "--size=4M", said=text, because="damaged records, which are missing")
        expect(output == b"8 loaded, 0 kept, 0 expired\n", f"{output}")
        expect(len(dumped(tarn, f"{folder}/new")) == 8, "they are not there")


def ask_for_dump(server, pattern, times):
    """Ask, and wait until the log has said so often what has come of it."""
    server.signal(signal.SIGUSR1)
    serving.await_that(lambda: len(re.findall(pattern, server.log())) == times, f"no {pattern}:\n{server.log()}")


def a_running_server_is_dumped(tarn):
    """Of one moment: two keys that one client counts up, one after the other, differ by one at most."""
    with serving.folder() as folder:
        path, done = f"{folder}/copy.jsonl", threading.Event()
        with Tarn(tarn, f"{folder}/store", f"--dump={path}") as server:
            def count():
                with Connection(server.address) as client:
                    for number in range(1, 1 << 30):
                        for key in (b"a", b"b"):
                            request = b"set %s 0 0 %d\r\n%d\r\n" % (key, len(b"%d" % number), number)
                            expect(client.ask(request) == b"STORED", "it does not store")
                        if done.is_set():
                            return
            with Connection(server.address) as client:
                for number in range(2000):
                    expect(client.ask(b"set key%d 5 0 100\r\n%0100d\r\n" % (number, number)) == b"STORED", "it does not store")
            writer = threading.Thread(target=count)
            writer.start()
            for times in range(1, 5):
                ask_for_dump(server, 'event="dump written"', times)
                with open(path, "rb") as file:
                    lines = [json.loads(line) for line in file]
                records = {line["key"]: line["value"] for line in lines[:-1]}
                expect(lines[-1] == {"end": True, "records": len(lines) - 1}, f"{lines[-1]}")
                expect(int(records.get("a", 0)) - int(records.get("b", 0)) in (0, 1), f"{records.get('a')}, {records.get('b')}")
                expect(all(records[f"key{number}"] == f"{number:0100}" for number in range(2000)), "other values")
            expect(os.stat(path).st_mode & 0o777 == 0o600, "others may read it")
            done.set()
            writer.join()
            server.stop()
        expect(sorted(os.listdir(folder)) == ["copy.jsonl", "store"], f"{os.listdir(folder)}")
        expect(loaded(tarn, f"{folder}/new", open(path, "rb").read(), "--size=16M")[0] >= 2000, "it does not come back")


def only_a_plain_file_takes_a_dump(tarn):
    with serving.folder() as folder:
        store = f"{folder}/store"
        os.mkdir(f"{folder}/folder")
        os.symlink(store, f"{folder}/link")
        os.symlink(store, f"{folder}/x.new")
        for target in (store, f"{folder}/folder", f"{folder}/link", f"{folder}/x", f"{folder}/none/copy", "/dev/null"):
            with Tarn(tarn, store, f"--dump={target}") as server:
                ask_for_dump(server, 'event="a dump failed".*why="[^"]+', 1)
                with Connection(server.address) as client:
                    expect(client.ask(b"set k 0 0 1\r\nv\r\n") == b"STORED", "it does not go on")
                server.stop()
        with Tarn(tarn, store) as server:
            ask_for_dump(server, "name a file with --dump", 1)
            server.stop()
        succeeds(tarn, "check", store)


def refusals(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        fails(tarn, "load", store, f"{folder}/none", because="no such file: name a file")
        fails(tarn, "load", store, folder, because="it is a folder")
        fails(tarn, "load", f"{folder}/new", f"{folder}/none", "--size=4M", because="cannot read")
        expect(not os.path.exists(f"{folder}/new"), "a store was made for a stream that is not there")
        fails(tarn, "load", f"{folder}/new", because="cannot open the store")
        for flags, remedy in ((os.O_RDONLY, b"it is a folder: name"), (os.O_WRONLY | os.O_CREAT, b"name a file, or give")):
            given = os.open(folder if flags == os.O_RDONLY else f"{folder}/output", flags, 0o600)
            result = subprocess.run([tarn, "load", store], stdin=given, capture_output=True, check=False)
            os.close(given)
            expect(result.returncode == 1 and remedy in result.stderr, f"{result}")
        with Tarn(tarn, store) as server:
            fails(tarn, "load", store, said=stream(), because="cannot open the store")
            server.stop()
        is_misuse(tarn, "load")
        is_misuse(tarn, "load", store, "a", "b")
        is_misuse(tarn, "load", store, "--if=present")
        is_misuse(tarn, "load", store, "--mode=fast")
        with open("/dev/full", "wb") as full:
            result = subprocess.run([tarn, "load", store], input=stream(), stdout=full, stderr=subprocess.DEVNULL, check=False)
            expect(result.returncode == 1, "it does not notice that its output is lost")


if __name__ == "__main__":
    serving.run([dump_and_load_and_dump_agree, notes_mean_what_they_meant, what_is_there_is_kept_or_not,
                 the_last_of_a_key_counts, what_has_expired_is_left_out, streams_are_joined_and_picked,
                 every_cut_is_noticed, malformed_lines_are_named, what_is_too_long_is_refused, a_full_store_says_so,
                 a_damaged_store_is_saved_in_part, a_running_server_is_dumped, only_a_plain_file_takes_a_dump, refusals],
                sys.argv[1])
