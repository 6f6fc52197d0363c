#!/usr/bin/python3
"""Do the statistics count what memcached's count, and have they the form that programs read?

    counters.py TARN

Both servers hold the same conversations, and by what each counter grows is compared. Not compared: what memcached
counts differently from one release to the next (cmd_meta), bytes (a cas unique has as many digits as it likes), what
belongs to slabs and LRU lists, which Tarn has not, and the number of items where some have expired or were flushed,
which either server counts until it meets them. Nor a delete with surplus words, which newer releases carry out.
"""

import re
import sys
import time

import serving
from memcached import STEADY, named
from serving import Connection, Memcached, Tarn, await_that, converse, expect

COUNTED = ["cmd_get", "cmd_set", "cmd_flush", "cmd_touch", "get_hits", "get_misses", "delete_misses", "delete_hits",
           "incr_misses", "incr_hits", "decr_misses", "decr_hits", "cas_misses", "cas_hits", "cas_badval", "touch_hits", "touch_misses", "curr_items",
           "total_connections", "store_too_large"]
# memcached removes what has expired when it first meets it, and counts that once; here it is there until it is collected,
# and each get that meets it counts. What was flushed is out of the index at once, and no get meets it.
PRESENT = ["pid", "uptime", "time", "version", "pointer_size", "rusage_user", "rusage_system", "max_connections", "curr_connections", "rejected_connections",
           "total_items", "bytes", "bytes_read", "bytes_written", "limit_maxbytes", "accepting_conns", "listen_disabled_num", "threads", "conn_yields", "cmd_meta",
           "evictions", "get_expired", "get_flushed"]
NUMBER = ["pid", "uptime", "time", "curr_connections", "total_items", "bytes", "bytes_read", "bytes_written", "threads", "evictions"]
KEPT = b"set a 0 0 2\r\n17\r\n"
CONVERSATIONS = {
    "get": [b"get a\r\n", KEPT + b"get a\r\nget a b a\r\n", KEPT + b"gets a b c\r\n", b"get a\x01\r\n", b"get " + b"k" * 251 + b"\r\n"],
    "set": [KEPT, KEPT * 3, b"set a 0 0 2 noreply\r\n17\r\n", b"set a 0 0 2\r\n171717\r\n", b"set a 0 0 x\r\n", b"add a 0 0 1\r\nx\r\nadd a 0 0 1\r\ny\r\n",
            b"replace a 0 0 1\r\nx\r\n" + KEPT + b"replace a 0 0 1\r\nx\r\n", b"append a 0 0 1\r\nx\r\n" + KEPT + b"append a 0 0 1\r\nx\r\nprepend a 0 0 1\r\nx\r\n"],
    "cas": [b"cas a 0 0 1 1\r\nx\r\n", KEPT + b"cas a 0 0 1 1\r\nx\r\n", b"cas a 0 0 1 1 noreply\r\nx\r\n"],
    "delete": [b"delete a\r\n", KEPT + b"delete a\r\ndelete a\r\n", KEPT + b"delete a noreply\r\n"],
    "arithmetic": [b"incr a 1\r\ndecr a 1\r\n", KEPT + b"incr a 1\r\ndecr a 1\r\ndecr a 1\r\n", KEPT + b"incr a x\r\n", b"set a 0 0 1\r\nx\r\nincr a 1\r\ndecr a 1\r\n"],
    "touch": [b"touch a 0\r\n", KEPT + b"touch a 0\r\ntouch a 100\r\n", KEPT + b"gat 0 a b\r\n", KEPT + b"gats 0 a a\r\n", KEPT + b"touch a x\r\n"],
    "expired": [KEPT + b"touch a -1\r\nget a\r\nget a\r\n", b"set a 0 -1 1\r\nx\r\nget a\r\n", b"set a 0 -1 1\r\nx\r\nincr a 1\r\ntouch a 0\r\ndelete a\r\n"],
    "flush_all": [b"flush_all\r\n", b"flush_all 0\r\nflush_all noreply\r\n", KEPT + b"flush_all\r\nget a\r\nget a\r\n"],
    "meta": [b"mn\r\n", b"mg a v\r\n", KEPT + b"mg a v\r\nmg a\r\nmg a T0\r\nmg b T0\r\n", b"mg a N0\r\nmg a N0\r\n", b"ms a 2\r\n17\r\n", b"ms a 2 MR\r\n17\r\n", b"ms a 2 C1\r\n17\r\n",
             KEPT + b"ms a 2 C1\r\n17\r\n", KEPT + b"md a\r\nmd a\r\n", KEPT + b"md a I\r\nmd a C1\r\n", b"ma a\r\nma a MD\r\n", KEPT + b"ma a\r\nma a MD\r\n", b"ma a N0\r\nma a N0\r\n", b"me a\r\n",
             KEPT + b"me a\r\n", b"mg a !\r\n"],
    "reset": [KEPT + b"get a\r\nget b\r\nstats reset\r\nget a\r\n"],
}


def statistics(connection, which=b""):
    connection.send(b"stats" + which + b"\r\n")
    found = {}
    while (line := connection.line()) != b"END":
        expect(re.fullmatch(rb"STAT [^ ]+ [^\r]*", line), f"stats{which.decode()} has a line {line!r}")
        name, value = line.decode().split(" ", 2)[1:]
        found[name] = value
    return found


def grown(server, said):
    """By what each counter grows in a conversation, and the look at the counters that it costs."""
    with Connection(server.address) as connection:
        for key in (b"a", b"b"):
            connection.ask(b"delete " + key + b"\r\n")
        before = statistics(connection)
        converse(server.address, said)
        after = statistics(connection)
    return {name: int(after[name]) - int(before[name]) if b"reset" not in said or name == "curr_items" else int(after[name])
            for name in COUNTED if name in after}


def counted_alike(ours, theirs, conversations):
    apart = []
    for said in conversations:
        found, wanted = grown(ours, said), grown(theirs, said)
        text = [f"{name} {found[name]}, memcached's {wanted[name]}" for name in wanted
                if name in found and found[name] != wanted[name] and not (name == "curr_items" and re.search(rb"-1|flush", said))]
        if text:
            apart.append(f"  {said!r}: " + "; ".join(text))
    expect(not apart, f"{len(apart)} of {len(conversations)} conversations count differently\n" + "\n".join(apart))


def names_and_forms(ours, theirs):
    with Connection(ours.address) as connection:
        found = statistics(connection)
        missing = [name for name in COUNTED + PRESENT if name not in found]
        expect(not missing, f"stats tells nothing of {', '.join(missing)}")
        expect(all(found[name].isdigit() for name in NUMBER), f"no numbers: {[(name, found[name]) for name in NUMBER]}")
        expect(re.fullmatch(r"\d+\.\d{6}", found["rusage_user"]), f"rusage_user is {found['rusage_user']}")
    for which in (b" settings", b" items", b" slabs", b" sizes", b" conns"):
        with Connection(ours.address) as connection:
            expect(statistics(connection, which) or which in (b" items", b" slabs", b" sizes"), f"stats{which.decode()} is empty")
    with Connection(ours.address) as our, Connection(theirs.address) as their:
        found, wanted = statistics(our, b" settings"), statistics(their, b" settings")
        for name in ("maxconns", "item_size_max", "cas_enabled", "evictions", "num_threads", "flush_enabled", "binding_protocol"):
            expect(name in found, f"stats settings tells nothing of {name}")
        for name in ("cas_enabled", "item_size_max", "flush_enabled"):
            expect(found[name] == wanted[name], f"{name} is {found[name]}, memcached's {wanted[name]}")


def connections_are_listed(tarn):
    """Who asks is among them, at work; others are not, and gone when they are gone."""
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", "--mode=device", "--threads=2", f"--unix={folder}/socket") as server, \
            Connection(server.address) as asking, Connection(f"{folder}/socket") as over_unix:
        expect(over_unix.ask(b"mn\r\n") == b"MN", "it does not serve over a Unix socket")
        with Connection(server.address) as idle:
            expect(idle.ask(b"mn\r\n") == b"MN", "it does not answer")
            names = [":".join(map(str, connection.socket.getsockname())) for connection in (asking, idle)]
            end = time.monotonic() + serving.PATIENCE
            found = listed(asking)
            while len([known for known in found.values() if known["state"] == "conn_read"]) < 2:  # a moment behind the answer
                expect(time.monotonic() < end, f"those who say nothing are not idle: {found}")
                found = listed(asking)
        states = {connection["addr"]: connection["state"] for connection in found.values()}
        expect(states.get(f"tcp:{names[0]}") == "conn_parse_cmd" and states.get(f"tcp:{names[1]}") == "conn_read", f"{names} are not among {states}")
        expect(sum(address.startswith("unix") and state != "conn_listening" for address, state in states.items()) == 1, f"no Unix socket among {states}")
        expect(sum(state == "conn_listening" for state in states.values()) == 2, f"two listeners are not among {states}")
        times = [connection["secs_since_last_cmd"] for connection in found.values() if connection["state"] != "conn_listening"]
        expect(len(times) == 3 and all(re.fullmatch(r"[0-9]|[1-5][0-9]", text) for text in times), f"seconds since the last command: {times}")
        await_that(lambda: all(connection["addr"] != f"tcp:{names[1]}" for connection in listed(asking).values()), "a connection that is gone is still listed")
        server.stop()


def listed(connection):
    """The connections of `stats conns`, by number, and what is told of each."""
    found = {}
    for name, value in statistics(connection, b" conns").items():
        number, what = name.split(":")
        found.setdefault(number, {})[what] = value
    return found


def main():
    with serving.folder() as folder, Tarn(sys.argv[1], f"{folder}/store", "--mode=device") as ours, Memcached(*STEADY) as theirs:
        serving.run([named(f"{name} counted as memcached", lambda conversations=conversations: counted_alike(ours, theirs, conversations))
                     for name, conversations in CONVERSATIONS.items()] + [named("names and forms", lambda: names_and_forms(ours, theirs)),
                      named("connections are listed", lambda: connections_are_listed(sys.argv[1]))])


if __name__ == "__main__":
    main()
