#!/usr/bin/python3
"""Does each verb on a store do what it says, refuse what it must, and say why?

    verbs.py TARN
"""

import json
import os
import struct
import subprocess
import sys
import time

import serving
from operations import command, contents
from serving import Tarn, expect


def succeeds(tarn, *words, said=b""):
    """What a command prints when it does what it was asked for."""
    status, output, errors = command(tarn, *words, said=said)
    expect(status == 0, f"{words} ended with {status}: {errors}")
    return output


def fails(tarn, *words, because, status=1, said=b""):
    """Expect a refusal that says why; what was printed before it."""
    found, output, errors = command(tarn, *words, said=said)
    expect(found == status, f"{words} ended with {found} instead of {status}: {errors}")
    expect(because in errors, f"{words} does not say {because!r}: {errors}")
    return output


def is_misuse(tarn, *words):
    status, output, errors = command(tarn, *words)
    expect(status == 2 and not output, f"{words} is no usage error: {status}")
    expect("usage: tarn " in errors, errors)


def dumped(tarn, store, *options):
    """The records of a store, after a look at the line that ends them."""
    *records, end = map(json.loads, succeeds(tarn, "dump", store, *options).splitlines())
    expect(end == {"end": True, "records": len(records)}, f"the dump ends with {end}")
    return records


def made(tarn, folder, size="4M"):
    store = f"{folder}/store"
    succeeds(tarn, "format", store, f"--size={size}")
    return store


def damage(path, offset, byte=None):
    """Change a byte, and return what it was."""
    with open(path, "r+b") as file:
        file.seek(offset)
        before = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([before ^ 0x20 if byte is None else byte]))
    return before


def fill(tarn, store, count):
    """Put some values in one session, so that none is moved: its bytes are there once."""
    with Tarn(tarn, store) as server, serving.Connection(server.address) as client:
        for number in range(count):
            expect(client.set(b"key%d" % number, b"<value %d>" % number) == b"STORED", "it does not store")
        server.stop()


class Layout:
    """Where things lie in a store: the offsets are those of docs/format.md."""

    def __init__(self, data):
        self.data = data
        self.state, self.state_bytes, self.first, self.segment_bytes, self.count, self.block, self.grain = \
            struct.unpack_from("<QQQQIII", self.data, 64)

    def segments(self, kind):
        """Offsets of the segments that were written, by their kind: 1 records, 3 checkpoint."""
        return [offset for number in range(self.count)
                for offset in [self.first + number * self.segment_bytes]
                if self.data[offset + 8:offset + 16] == b"TarnSegm" and self.data[offset + 36] == kind]

    def newest_checkpoint(self):
        """Offset of its first segment."""
        return max((offset for offset in self.segments(3) if struct.unpack_from("<I", self.data, offset + 40)[0] == 0),
                   key=lambda offset: struct.unpack_from("<Q", self.data, offset + 16)[0])


def format_makes_a_store(tarn):
    with serving.folder() as folder:
        store = f"{folder}/store"
        fails(tarn, "format", store, because="give a size (--size) to make it")
        expect(not os.path.exists(store), "format made a file without being told its size")
        expect(succeeds(tarn, "format", f"file:{store}", "--size=3M") == b"", "format prints something")
        expect(os.path.getsize(store) == 3 << 20, "the file has another size")
        expect("sound" in succeeds(tarn, "check", store).decode(), "a new store is not sound")
        expect(json.loads(succeeds(tarn, "stat", store, "--json"))["grain_bytes"] == 64, "the default grain")
        succeeds(tarn, "put", store, "a", "b")
        before = contents(store)
        fails(tarn, "format", store, because="--force")
        fails(tarn, "format", store, "--size=8M", because="there is a store")
        expect(contents(store) == before, "a store was overwritten")
        succeeds(tarn, "format", store, "--force", "--grain=512")
        facts = json.loads(succeeds(tarn, "stat", store, "--json"))
        expect(facts["grain_bytes"] == 512 and facts["records"] == 0, f"{facts}")
        fails(tarn, "get", store, "a", because="no key")
        fails(tarn, "format", f"{folder}/small", "--size=1M", because="cannot make a store")
        fails(tarn, "format", f"{folder}/none/store", "--size=4M", because="no")
        with Tarn(tarn, store) as server:
            fails(tarn, "format", store, "--force", because="cannot make a store")
            server.stop()
        for option in ("--grain=48", "--grain=16", "--grain=1024", "--grain=x", "--size=1", "--colour", "--json"):
            is_misuse(tarn, "format", store, option)
        is_misuse(tarn, "format")
        is_misuse(tarn, "format", store, "--", "--force")


def grow_makes_a_store_larger(tarn):
    with serving.folder() as folder:
        store, other = f"{folder}/store", f"{folder}/other"
        succeeds(tarn, "format", store, "--size=3M")
        succeeds(tarn, "put", store, "a", "b")
        before = contents(store)
        expect("fit" in succeeds(tarn, "grow", store).decode(), "it has grown by itself")
        fails(tarn, "grow", store, "--size=2M", because="larger")
        fails(tarn, "grow", store, "--size=1T", because="larger")
        expect(contents(store) == before, "what was refused has changed the store")
        expect("has grown" in succeeds(tarn, "grow", store, "--size=8M").decode(), "it has not grown")
        expect(os.path.getsize(store) == 8 << 20, "the file has another size")
        expect("sound" in succeeds(tarn, "check", store).decode(), "a larger store is not sound")
        expect(succeeds(tarn, "get", store, "a") == b"b", "a value is lost")
        expect(json.loads(succeeds(tarn, "stat", store, "--json"))["capacity_bytes"] > 5 << 20, "it takes no more")
        os.truncate(store, 10 << 20)
        expect("has grown" in succeeds(tarn, "grow", store).decode(), "the longer file was not taken")
        with open(other, "wb") as file:
            file.write(bytes(1 << 20))
        fails(tarn, "grow", other, "--size=8M", because="larger")
        expect(os.path.getsize(other) == 1 << 20, "what is no store has become longer")
        fails(tarn, "grow", f"{folder}/none", "--size=8M", because="larger")
        is_misuse(tarn, "grow")
        is_misuse(tarn, "grow", store, "--force")


def format_overwrites_nothing_untold(tarn):
    with serving.folder() as folder:
        path = f"{folder}/file"
        for data, why in ((b"something" * 500000, "not blank"), (bytes((4 << 20) - 1) + b"\1", "something follows")):
            with open(path, "wb") as file:
                file.write(data)
            fails(tarn, "format", path, because=why)
            expect(contents(path) == data, "what was there is overwritten")
        with open(path, "wb") as file:
            file.truncate(4 << 20)
        succeeds(tarn, "format", path)
        succeeds(tarn, "put", path, "a", "b")
        whole = contents(path)
        for copies in ((0,), (4096,), (0, 4096)):
            with open(path, "wb") as file:
                file.write(whole)
            for offset in copies:
                damage(path, offset + 100)
            before = contents(path)
            fails(tarn, "format", path, because="--force")
            expect(contents(path) == before, "a damaged store was overwritten")
        succeeds(tarn, "format", path, "--force")
        expect(succeeds(tarn, "scan", path) == b"", "the new store is not empty")


def put_has_conditions(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        fails(tarn, "put", store, "a", "0", "--if=present", because="no key")
        succeeds(tarn, "put", store, "a", "1", "--if=absent")
        fails(tarn, "put", store, "a", "2", "--if=absent", because="already")
        expect(succeeds(tarn, "get", store, "a") == b"1", "what was rejected is there")
        succeeds(tarn, "put", store, "a", "3", "--if=present")
        for mode in ("power", "device", "async"):
            succeeds(tarn, "put", store, mode, mode, f"--mode={mode}")
            expect(succeeds(tarn, "get", store, mode) == mode.encode(), f"{mode} does not store")
        succeeds(tarn, "put", store, "brief", "x", "--expire=1ms")
        succeeds(tarn, "put", store, "long", "x", "--expire=400d")
        time.sleep(0.1)
        fails(tarn, "get", store, "brief", because="no key")
        records = {record["key"]: record for record in dumped(tarn, store)}
        days = (records["long"]["expiry_ms"] / 1000 - time.time()) / 86400
        expect(399 < days <= 400.01 and records["a"]["expiry_ms"] == 0, f"{records}")
        succeeds(tarn, "put", store, "--", "--if", "a key like an option")
        expect(succeeds(tarn, "get", store, "--", "--if") == b"a key like an option", "it was not stored")
        for option in ("--if=maybe", "--mode=fast", "--expire=5", "--expire=x"):
            is_misuse(tarn, "put", store, "a", "b", option)
        is_misuse(tarn, "put", "http://localhost/", "a", "b")
        is_misuse(tarn, "put", "file:", "a", "b")


def get_prints_several(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        values = {f"key {number}": f"value {number}" for number in range(40)}
        for key, value in values.items():
            succeeds(tarn, "put", store, key, value)
        succeeds(tarn, "put", store, "odd\tkey", said=b'"\0\n')
        succeeds(tarn, "put", store, "empty", said=b"")
        lines = succeeds(tarn, "get", store, *values).decode().splitlines()
        expect(lines == [f"{key}\t{value}" for key, value in values.items()], f"{lines}")
        output = succeeds(tarn, "get", store, "odd\tkey", "empty", "odd\tkey").decode()
        odd = '"odd\\tkey"\t"\\"\\x00\\n"\n'
        expect(output == odd + 'empty\t""\n' + odd, output)
        output = fails(tarn, "get", store, "key 1", "missing", "key 2", because="no key")
        expect(output == b"key 1\tvalue 1\nkey 2\tvalue 2\n", f"{output}")
        expect(succeeds(tarn, "get", store, "empty") == b"", "an empty value is not empty")
        is_misuse(tarn, "get", store)
        is_misuse(tarn, "get", store, "a", "")
        is_misuse(tarn, "get", store, "--all", "a")


def scan_prints_keys(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        expect(succeeds(tarn, "scan", store) == b"", "there are keys in an empty store")
        keys = [f"user:{number}" for number in range(30)] + ["other", 'quo"ted', "line\nend", "ümlaut"]
        for key in keys:
            succeeds(tarn, "put", store, key, f"<{key}>", "--mode=async")
        quoted = {'quo"ted': '"quo\\"ted"', "line\nend": '"line\\nend"'}
        lines = succeeds(tarn, "scan", f"file:{store}").decode().splitlines()
        expect(sorted(lines) == sorted(quoted.get(key, key) for key in keys), f"{lines}")
        lines = succeeds(tarn, "scan", store, "--prefix=user:2").decode().splitlines()
        expect(sorted(lines) == sorted(key for key in keys if key.startswith("user:2")), f"{lines}")
        expect(len(succeeds(tarn, "scan", store, "--limit=7").splitlines()) == 7, "the limit is none")
        expect(succeeds(tarn, "scan", store, "--prefix=ot", "--values") == b"other\t<other>\n", "values")
        with open("/dev/full", "wb") as full:
            for words in (["scan", store], ["dump", store], ["stat", store], ["check", store], ["get", store, "other"]):
                status = subprocess.run([tarn, *words], stdout=full, stderr=subprocess.DEVNULL, check=False).returncode
                expect(status == 1, f"{words[0]} does not notice that its output is lost: {status}")
        fails(tarn, "scan", f"{folder}/none", because="cannot open")
        is_misuse(tarn, "scan")
        is_misuse(tarn, "scan", store, "--limit=x")


def dump_prints_json(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        with Tarn(tarn, store) as server, serving.Connection(server.address) as client:
            expect(client.ask(b"set flagged 77 0 2\r\n\xff\x00\r\n") == b"STORED", "it does not store")
            server.stop()
        succeeds(tarn, "put", store, 'te"xt', "grüße\n")
        succeeds(tarn, "put", store, b"\xffkey", "")
        succeeds(tarn, "put", store, "zero", said=b"a\0b")

        def by_key(*options):
            return {record.get("key", record.get("key_hex")): record for record in dumped(tarn, store, *options)}

        records = by_key()
        expect(set(records) == {"flagged", 'te"xt', b"\xffkey".hex(), "zero"}, f"{records}")
        expect(records["zero"]["value_hex"] == "610062", f"{records}")
        expect(records["flagged"]["flags"] == 77 and records["flagged"]["value_hex"] == "ff00", f"{records}")
        expect(records['te"xt']["value"] == "grüße\n" and records['te"xt']["bytes"] == 8, f"{records}")
        expect(records[b"\xffkey".hex()]["value"] == "" and "key" not in records[b"\xffkey".hex()], f"{records}")
        expect(all(record["version"] > 0 and record["expiry_ms"] == 0 for record in records.values()), f"{records}")
        expect(by_key("--values=hex")['te"xt']["value_hex"] == "grüße\n".encode().hex(), "--values=hex")
        expect("value" not in "".join(name for record in by_key("--values=none").values() for name in record), "none")
        fails(tarn, "dump", f"{folder}/none", because="cannot open")
        is_misuse(tarn, "dump", store, "--values=all")
        is_misuse(tarn, "dump", store, "second")


def stat_tells(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        for number in range(50):
            succeeds(tarn, "put", store, f"{number}", "x" * 100, "--mode=device")
        before = contents(store)
        facts = json.loads(succeeds(tarn, "stat", store, "--json", "--segments"))
        expect(facts["records"] == 50 and 0 < facts["live_bytes"] < facts["capacity_bytes"], f"{facts}")
        expect(len(facts["segments"]) == facts["segment_count"] and len(facts["identity"]) == 32, f"{facts}")
        expect(sum(segment["live_bytes"] for segment in facts["segments"]) == facts["live_bytes"], f"{facts}")
        expect(facts["segments_free"] == sum(segment["state"] == "free" for segment in facts["segments"]), f"{facts}")
        kept = [segment for segment in facts["segments"] if segment["state"] not in ("free", "checkpoint")]
        expect(sum(facts["segments_by_live_share"]) == len(kept) == sum(part["segments"] for part in facts["segments_by_age"]),
               f"{facts}")
        expect(len(facts["segments_by_live_share"]) == len(facts["segments_by_age"]) == 10, f"{facts}")
        for writer, name in (("users", "user"), ("collector", "collector")):
            written = [segment["used_bytes"] for segment in kept if segment["writer"] == writer]
            expect(facts[f"{name}_segments"] == len(written) > 0, f"{facts}")
            expect(facts[f"{name}_segments_bytes"] == sum(written), f"{facts}")
        expect(facts["user_segments"] + facts["collector_segments"] == len(kept), f"{facts}")
        live = facts["live_bytes"] / len(kept) / facts["segment_bytes"]
        expect(abs(facts["live_share"] - live) < 0.001, f"{facts['live_share']} instead of {live}")
        ages = [part for part in facts["segments_by_age"] if part["segments"]]
        sessions = [segment["session"] for segment in kept]
        expect(ages[-1]["sessions_back"] == max(sessions) - min(sessions), f"{ages}")
        expect(all(one["stamps_back"] < other["stamps_back"] for one, other in zip(ages, ages[1:])), f"{ages}")
        expect("segments" not in json.loads(succeeds(tarn, "stat", store, "--json")), "segments without being asked")
        text = succeeds(tarn, "stat", store, "--segments").decode()
        for word in ("identity", facts["identity"], "capacity", "records      50", "closed", "free", "live share", "stamps back",
                     "by the collector"):
            expect(word in text, f"{word} is not in\n{text}")
        expect(contents(store) == before, "stat writes")
        damage(store, 0)  # one of the superblocks: the other tells the same
        expect(json.loads(succeeds(tarn, "stat", store, "--json"))["identity"] == facts["identity"], "another store")
        fails(tarn, "stat", f"{folder}/none", because="cannot open")
        is_misuse(tarn, "stat", store, "--limit=1")


def check_finds_every_kind_of_damage(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        fill(tarn, store, 30)
        layout = Layout(contents(store))
        text = succeeds(tarn, "check", store).decode()
        expect("30 records" in text and text.endswith("sound\n"), text)
        report = json.loads(succeeds(tarn, "check", store, "--json"))
        expect(report["sound"] and report["faults"] == 0 and report["records"] == 30 and report["told"] == [], f"{report}")
        written = layout.segments(1)[0]
        places = {1: 4096 + 300, 3: layout.state + 64, 4: written + 20, 6: written + layout.segment_bytes - 20,
                  7: layout.data.index(b"<value 7>") + 3, 12: layout.newest_checkpoint() + layout.block + 50}
        for invariant, offset in places.items():
            byte = damage(store, offset)
            before = contents(store)
            status, output, errors = command(tarn, "check", store)
            expect(status == 1, f"the damage at {offset} is not found: {output} {errors}")
            expect(f"invariant {invariant}: ".encode() in output, f"{offset}: {output}")
            status, output, _ = command(tarn, "check", store, "--json")
            report = json.loads(output)
            expect(status == 1 and not report["sound"] and report["faults"] >= 1, f"{report}")
            expect(invariant in [fault["invariant"] for fault in report["told"]], f"{report}")
            expect(contents(store) == before, "check writes")
            damage(store, offset, byte)
        succeeds(tarn, "check", store)


def check_counts_and_refuses(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder)
        fill(tarn, store, 12)
        data = contents(store)
        for number in range(12):
            damage(store, data.index(b"<value %d>" % number) + 2)
        output = fails(tarn, "check", store, "--limit=3", because="").decode().splitlines()
        expect(sum(line.startswith("invariant 7") for line in output) == 3, f"{output}")
        expect(output[3] == "and 9 more" and output[4].endswith("12 faults"), f"{output}")
        report = json.loads(fails(tarn, "check", store, "--limit=3", "--json", because=""))
        expect(report["faults"] == 12 and len(report["told"]) == 3, f"{report}")
        fails(tarn, "get", store, "key3", because="damaged")
        fails(tarn, "get", store, "key3", "key4", because="damaged")
        fails(tarn, "dump", store, because="tarn check")
        fails(tarn, "scan", store, because="tarn check")
        fails(tarn, "check", f"{folder}/none", because="cannot check")
        with open(f"{folder}/other", "wb") as file:
            file.write(b"something" * 500000)
        fails(tarn, "check", f"{folder}/other", because="cannot check")
        report = json.loads(fails(tarn, "check", f"{folder}/other", "--json", because="cannot check"))
        expect(not report["sound"] and report["error"], f"{report}")
        with Tarn(tarn, store) as server:
            fails(tarn, "check", store, because="cannot check")
            server.stop()
        is_misuse(tarn, "check")
        is_misuse(tarn, "check", store, "--limit=-1")


def killed_stores_are_sound(tarn):
    with serving.folder() as folder:
        store = made(tarn, folder, "64M")
        with Tarn(tarn, store) as server, serving.Connection(server.address) as client:
            for number in range(200):
                expect(client.set(b"%d" % (number % 60), b"x" * number * 50) == b"STORED", "it does not store")
            server.kill()
        text = succeeds(tarn, "check", store).decode()
        expect("60 records" in text and text.endswith("sound\n"), text)
        with Tarn(tarn, store) as server:
            server.stop()
        text = succeeds(tarn, "check", store).decode()
        expect("60 records" in text and "(0 without" not in text and text.endswith("sound\n"), text)


if __name__ == "__main__":
    serving.run([format_makes_a_store, grow_makes_a_store_larger, format_overwrites_nothing_untold, put_has_conditions, get_prints_several,
                 scan_prints_keys, dump_prints_json, stat_tells, check_finds_every_kind_of_damage,
                 check_counts_and_refuses, killed_stores_are_sound], sys.argv[1])
