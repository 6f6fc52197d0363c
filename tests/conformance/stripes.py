#!/usr/bin/python3
"""One store on several drives: every verb, the server, and all that may be named wrongly.

    stripes.py TARN
"""

import json
import os
import sys

import serving
from operations import command, contents
from serving import Connection, Tarn, expect
from verbs import fails, succeeds

DRIVES = 3


def paths_in(folder, count=DRIVES):
    return [f"{folder}/drive{number}" for number in range(count)]


def every_verb_takes_a_list(tarn):
    with serving.folder() as folder:
        paths = paths_in(folder)
        store, turned = ",".join(paths), ",".join(reversed(paths))
        fails(tarn, "format", store, because="give a size (--size) to make it")
        expect(not any(map(os.path.exists, paths)), "format made files without being told their size")
        succeeds(tarn, "format", store, "--size=12M")
        expect([os.path.getsize(path) for path in paths] == [4 << 20] * DRIVES, "the files have other sizes")
        for number in range(40):
            succeeds(tarn, "put", f"file:{store}", f"key{number}", "x" * 3000 + str(number), "--mode=device")
        succeeds(tarn, "del", turned, "key7")
        expect(succeeds(tarn, "get", turned, "key39") == b"x" * 3000 + b"39", "another value")
        expect(len(succeeds(tarn, "scan", store).split()) == 39, "another number of keys")
        expect("sound" in succeeds(tarn, "check", turned).decode(), "it is not sound")
        before = [contents(path) for path in paths]
        facts = json.loads(succeeds(tarn, "stat", turned, "--json"))
        expect([drive["path"] for drive in facts["drives"]] == paths, f"{facts['drives']}")
        expect(facts["unit_bytes"] > 0 and not any(drive["failed"] for drive in facts["drives"]), f"{facts}")
        text = succeeds(tarn, "stat", store).decode()
        for word in ("stripe", "3 drives", *paths):
            expect(word in text, f"{word} is not in\n{text}")
        dump = succeeds(tarn, "dump", store)
        expect([contents(path) for path in paths] == before, "reading writes")
        fails(tarn, "format", store, because="--force")
        expect([contents(path) for path in paths] == before, "a store was overwritten")
        succeeds(tarn, "format", store, "--force")
        expect(succeeds(tarn, "scan", store) == b"", "the new store is not empty")
        succeeds(tarn, "load", store, said=dump)
        expect(sorted(succeeds(tarn, "dump", turned).splitlines()) == sorted(dump.splitlines()), "another dump")


def a_comma_of_a_name_is_escaped(tarn):
    with serving.folder() as folder:
        succeeds(tarn, "format", f"{folder}/a\\,b,{folder}/c", "--size=8M")
        expect(sorted(os.listdir(folder)) == ["a,b", "c"], f"{os.listdir(folder)}")
        succeeds(tarn, "put", f"{folder}/c,{folder}/a\\,b", "key", "value")
        os.rename(f"{folder}/c", f"{folder}/d,e")
        fails(tarn, "get", f"{folder}/d,e", "key", because="there is a file of just this name")
        fails(tarn, "get", f"{folder}/d\\,e", "key", because="it is one drive of a stripe")


def wrong_drives_are_refused(tarn):
    with serving.folder() as folder:
        paths = paths_in(folder)
        store = ",".join(paths)
        succeeds(tarn, "format", store, "--size=12M")
        succeeds(tarn, "format", f"{folder}/other0,{folder}/other1", "--size=8M")
        succeeds(tarn, "format", f"{folder}/single", "--size=4M")
        with open(f"{folder}/blank", "wb") as file:
            file.truncate(4 << 20)
        os.link(paths[0], f"{folder}/link")
        with open(f"{folder}/copy", "wb") as file:
            file.write(contents(paths[0]))
        before = [contents(path) for path in paths]
        for names, why in ((paths[:2], "missing is number 3"), (paths[:1], "name all its drives"),
                           ([*paths[:2], f"{folder}/other1"], "of another stripe"),
                           ([*paths[:2], f"{folder}/single"], "it is not of a stripe"),
                           ([*paths[:2], f"{folder}/blank"], "it is blank"), ([*paths[:2], f"{folder}/none"], "there is no such file"),
                           ([*paths[:2], paths[0]], "named twice"), ([*paths[:2], f"{folder}/link"], "named twice"),
                           ([*paths, f"{folder}/copy"], "one is a copy"), ([*paths, ""], "between two commas")):
            for words in (["get", ",".join(names), "key"], ["put", ",".join(names), "key", "value", "--size=12M"],
                          ["check", ",".join(names)]):
                fails(tarn, *words, because=why)
        process = serving.Process(tarn, "serve", f"--data={paths[0]},{folder}/none", "--listen=127.0.0.1:0")
        expect(process.wait() == 1, "a server runs on half a stripe")
        expect(not os.path.exists(f"{folder}/none"), "the file is made that was missing")
        os.truncate(paths[2], (4 << 20) - 65536)
        fails(tarn, "check", store, because="give it its size back")
        os.truncate(paths[2], 4 << 20)
        expect([contents(path) for path in paths[:2]] == before[:2], "refusing writes")


def drives_of(address):
    found = {}
    with Connection(address) as connection:
        connection.send(b"stats drives\r\n")
        while (line := connection.line()) != b"END":
            _, name, value = line.split(b" ", 2)
            found[name.decode()] = value.decode()
    return found


def a_killed_server_remembers(tarn):
    with serving.folder() as folder:
        paths = paths_in(folder, 2)
        for number in range(4):
            paths.reverse()
            with Tarn(tarn, ",".join(paths)) as server, Connection(server.address) as client:
                facts = drives_of(server.address)
                expect({facts["0:failed"], facts["1:failed"]} == {"no"} and facts["1:requests_failed"] == "0", f"{facts}")
                expect(sorted((facts["0:path"], facts["1:path"])) == sorted(f'"{path}"' for path in paths), f"{facts}")
                for old in range(number * 300):
                    expect(client.get(b"%d" % old) == b"%d" % old * 300, f"key {old} is not what it was")
                for new in range(number * 300, (number + 1) * 300):
                    expect(client.set(b"%d" % new, b"%d" % new * 300) == b"STORED", "it does not store")
                server.kill()


def damage_is_an_error(tarn):
    """What one drive has lost is never something else."""
    with serving.folder() as folder:
        paths = paths_in(folder, 2)
        with Tarn(tarn, ",".join(paths)) as server, Connection(server.address) as client:
            for number in range(100):
                expect(client.set(b"%d" % number, bytes([number + 1]) * 20000) == b"STORED", "it does not store")
            server.stop()
        with open(paths[1], "r+b") as file:
            data = file.read()
            for number in range(100):
                at = data.find(bytes([number + 1]) * 5000)
                if at >= 0:
                    file.seek(at + 100)
                    file.write(b"\0")
        damaged = 0
        for number in range(0, 100, 10):
            status, output, errors = command(tarn, "get", ",".join(paths), f"{number}")
            expect(status == 1 or output == bytes([number + 1]) * 20000, f"key {number} is something else")
            expect(status == 0 or "is damaged" in errors, errors)
            damaged += status
        expect(0 < damaged < 10, f"{damaged} of 10 are damaged")
        expect(command(tarn, "check", ",".join(paths))[0] == 1, "the checker finds nothing")


if __name__ == "__main__":
    serving.run([every_verb_takes_a_list, a_comma_of_a_name_is_escaped, wrong_drives_are_refused, a_killed_server_remembers,
                 damage_is_an_error], sys.argv[1])
