#!/usr/bin/python3
"""Does `tarn check --repair` make a store whole, say what it has lost, and keep all else?

    repairs.py TARN
"""

import json
import random
import shutil
import subprocess
import sys
import time

import serving
from counters import statistics
from operations import command, contents
from serving import Connection, Tarn, await_that, expect
from verbs import Layout, damage, dumped, fails, fill, made, succeeds

LOST = 3  # the exit status


def filled(tarn, folder):
    """A store with the keys 0 to 29, each of which had another value before."""
    store = made(tarn, folder)
    with Tarn(tarn, store) as server, Connection(server.address) as client:
        for number in range(30):
            expect(client.set(b"key%d" % number, b"<older %d>" % number) == b"STORED", "it does not store")
        server.stop()
    fill(tarn, store, 30)
    return store


def repaired(tarn, store, status):
    """What a repair prints, when it ends as it shall and leaves a store that is sound."""
    found, output, errors = command(tarn, "check", store, "--repair")
    lines = output.decode().splitlines()
    expect(found == status, f"the repair ended with {found} instead of {status}: {lines} {errors}")
    expect(lines[-1].endswith("sound"), f"{lines}")
    succeeds(tarn, "check", store)
    return lines


def expect_all_but(tarn, store, *lost):
    """All keys have the values that they had, but for some that are not there."""
    found = {record["key"]: record["value"] for record in dumped(tarn, store)}
    numbers = [number for number in range(30) if number not in lost]
    expect(found == {f"key{number}": f"<value {number}>" for number in numbers}, f"{found}")


def every_kind_of_damage_is_repaired(tarn):
    with serving.folder() as folder:
        store = filled(tarn, folder)
        layout = Layout(contents(store))
        value = layout.data.index(b"<value 7>")
        written = max(offset for offset in layout.segments(1) if offset < value)
        places = {"superblock": 4096 + 300, "state": layout.state + 64, "header": written + 20,
                  "summary": written + layout.segment_bytes - 20,
                  "checkpoint": layout.newest_checkpoint() + layout.block + 50}
        for name, offset in places.items():
            shutil.copy(store, f"{folder}/copy")
            damage(f"{folder}/copy", offset)
            lines = repaired(tarn, f"{folder}/copy", 0)
            expect(not [line for line in lines if line.startswith("lost: ")], f"{name}: {lines}")
            expect(any("repairing" in line for line in lines), f"{name}: {lines}")
            expect(any("nothing was lost" in line for line in lines), f"{name}: {lines}")
            expect_all_but(tarn, f"{folder}/copy")
        for name, offset, said in (("value", value + 3, "lost: key7"), ("header", value - 4 - 24, "lost: key7"),
                                   ("key", value - 1, "lost: a key that cannot be told, of hash ")):
            shutil.copy(store, f"{folder}/copy")
            damage(f"{folder}/copy", offset)
            lines = repaired(tarn, f"{folder}/copy", LOST)
            expect(sum(line.startswith("lost: ") for line in lines) == 1, f"{name}: {lines}")
            expect(any(line.startswith(said) for line in lines), f"{name}: {lines}")
            expect(any("older values are not brought back" in line for line in lines), f"{name}: {lines}")
            expect_all_but(tarn, f"{folder}/copy", 7)
            fails(tarn, "get", f"{folder}/copy", "key7", because="no key")
            succeeds(tarn, "put", f"{folder}/copy", "key7", "<value 7>")
            expect_all_but(tarn, f"{folder}/copy")


def without_damage_nothing_is_written(tarn):
    with serving.folder() as folder:
        store = filled(tarn, folder)
        before = contents(store)
        text = succeeds(tarn, "check", store, "--repair").decode()
        expect(text.endswith("nothing was written\n") and "; sound\n" in text, text)
        report = json.loads(succeeds(tarn, "check", store, "--repair", "--json"))
        expect(report["sound"] and "repair" not in report and "after" not in report, f"{report}")
        expect(contents(store) == before, "a repair without damage writes")


def a_repair_in_json(tarn):
    with serving.folder() as folder:
        store = filled(tarn, folder)
        data = contents(store)
        damage(store, data.index(b"<value 3>") + 2)
        damage(store, data.index(b"<value 4>") - 1)
        status, output, errors = command(tarn, "check", store, "--repair", "--json")
        expect(status == LOST, f"{status}: {errors}")
        report = json.loads(output)
        expect(not report["sound"] and report["faults"] == 2, f"{report}")
        repair = report["repair"]
        expect(sorted(lost.get("key", "") for lost in repair["lost"]) == ["", "key3"], f"{repair}")
        expect(all(len(lost["hash"]) == 32 for lost in repair["lost"]), f"{repair}")
        expect(repair["records_lost"] == 2 and repair["keys_unknown"] == 1 and repair["segments"] >= 1, f"{repair}")
        expect(report["after"]["sound"] and report["after"]["records"] == 28, f"{report}")
        expect_all_but(tarn, store, 3, 4)


def what_is_in_use_or_does_not_open_is_refused(tarn):
    with serving.folder() as folder:
        store = filled(tarn, folder)
        damage(store, contents(store).index(b"<value 7>") + 3)
        with Tarn(tarn, store) as server:
            fails(tarn, "check", store, "--repair", because="cannot check")
            server.stop()
        repaired(tarn, store, LOST)
        layout = Layout(contents(store))
        for slot in range(4):
            damage(store, layout.state + slot * layout.state_bytes + 64)
        before = contents(store)
        fails(tarn, "check", store, "--repair", because="cannot check")
        expect(contents(store) == before, "what does not open was written to")


def where_records_may_be_missing_it_is_said(tarn):
    """A summary, a record of it and the end of its group: nobody knows which key that was."""
    with serving.folder() as folder:
        store = filled(tarn, folder)
        layout = Layout(contents(store))
        value = layout.data.index(b"<value 7>")
        written = max(offset for offset in layout.segments(1) if offset < value)
        damage(store, value + 3)
        damage(store, layout.data.index(b"Grup", value))
        damage(store, written + layout.segment_bytes - 20)
        expect(b"records may be missing" in fails(tarn, "check", store, because=""), "a check does not say so")
        lines = repaired(tarn, store, LOST)
        expect(any("records may be missing" in line for line in lines), f"{lines}")
        found = {record["key"]: record["value"] for record in dumped(tarn, store)}
        expect(found.pop("key7") == "<older 7>", f"{found}")
        expect(len(found) == 29 and all("<value" in value for value in found.values()), f"{found}")


def segments_that_were_set_aside_are_used_again(tarn):
    with serving.folder() as folder:
        store = filled(tarn, folder)
        damage(store, contents(store).index(b"<value 7>") + 3)
        for bad in (1, 0):
            with Tarn(tarn, store, "--scrub=1G") as server, Connection(server.address) as client:
                def stat(name, client=client):
                    return int(statistics(client)[name])
                await_that(lambda stat=stat: stat("store_scrub_passes") > 0, "it does not scrub")
                await_that(lambda stat=stat, bad=bad: stat("store_segments_bad") == bad,
                           f"there are not {bad} segments set aside")
                server.stop()
            if bad > 0:
                repaired(tarn, store, LOST)


def a_killed_repair_is_made_again(tarn):
    with serving.folder() as folder:
        store = filled(tarn, folder)
        data = contents(store)
        for number in range(0, 30, 3):
            damage(store, data.index(b"<value %d>" % number) + (2 if number % 2 else -1))
        lost = list(range(0, 30, 3))
        for _ in range(12):
            shutil.copy(store, f"{folder}/copy")
            with subprocess.Popen([tarn, "check", f"{folder}/copy", "--repair"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL) as process:
                time.sleep(random.uniform(0, 0.05))
                process.kill()
                process.communicate()
            status, output, errors = command(tarn, "check", f"{folder}/copy", "--repair")
            expect(status in (0, LOST) and output.endswith(b"sound\n") or b"nothing to repair" in output,
                   f"{status}: {output} {errors}")
            expect_all_but(tarn, f"{folder}/copy", *lost)


if __name__ == "__main__":
    serving.run([every_kind_of_damage_is_repaired, without_damage_nothing_is_written, a_repair_in_json,
                 what_is_in_use_or_does_not_open_is_refused, where_records_may_be_missing_it_is_said,
                 segments_that_were_set_aside_are_used_again, a_killed_repair_is_made_again], sys.argv[1])
