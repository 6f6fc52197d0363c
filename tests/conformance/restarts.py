#!/usr/bin/python3
"""Does everything that a client was told survive the server's end, a good one and a kill: flags, uniques, expiry, flushes?

    restarts.py TARN
"""

import signal
import sys
import time

import serving
from counters import statistics
from serving import Connection, Tarn, converse, expect

ENDINGS = {"ended": signal.SIGTERM, "killed": signal.SIGKILL}


class Life:
    """A store and the servers that serve it one after the other."""

    def __init__(self, tarn, folder, ending):
        self.tarn, self.store, self.ending = tarn, f"{folder}/store", ending
        self.server = None

    def __enter__(self):
        self.begin()
        return self

    def __exit__(self, *_):
        self.server.__exit__()

    def begin(self):
        self.server = Tarn(self.tarn, self.store, "--mode=power", "--threads=2")

    def end(self):
        if self.ending == signal.SIGTERM:
            self.server.stop()
        else:
            self.server.signal(signal.SIGKILL)
            self.server.wait()

    def again(self):
        self.end()
        self.begin()

    def hear(self, said, *answers):
        found = converse(self.server.address, said)
        expect(found in answers, f"{said!r} is answered {found!r} instead of {answers[0]!r}")


def each_ending(test):
    def both(tarn):
        for name, ending in ENDINGS.items():
            with serving.folder() as folder, Life(tarn, folder, ending) as life:
                try:
                    test(life)
                except serving.Failure as failure:
                    raise serving.Failure(f"when {name}: {failure}") from failure
    both.__name__ = test.__name__
    return both


@each_ending
def flags_and_uniques(life):
    values = [b"", b"x", b"\r\n", b"y" * 1000, b"z" * 500000]
    said = b"".join(b"set key%d %d 0 %d\r\n%s\r\n" % (i, 4294967295 - i, len(value), value) for i, value in enumerate(values))
    life.hear(said, b"STORED\r\n" * len(values))
    look = b"gets " + b" ".join(b"key%d" % i for i in range(len(values))) + b"\r\n"
    told = converse(life.server.address, look)
    expect(told.count(b"VALUE") == len(values), "they are not all there")
    for _ in range(2):
        life.again()
        life.hear(look, told)
    unique = told.split(b"\r\n")[0].split(b" ")[4]
    life.hear(b"touch key0 1000\r\n", b"TOUCHED\r\n")
    life.again()
    life.hear(look, told)
    life.hear(b"cas key0 1 0 3 %s\r\nnew\r\ncas key0 1 0 3 %s\r\nold\r\nget key0\r\n" % (unique, unique), b"STORED\r\nEXISTS\r\nVALUE key0 1 3\r\nnew\r\nEND\r\n")
    life.again()
    life.hear(b"cas key0 1 0 3 %s\r\nold\r\nget key0\r\n" % unique, b"EXISTS\r\nVALUE key0 1 3\r\nnew\r\nEND\r\n")


@each_ending
def no_unique_is_told_twice(life):
    seen = set()
    for _ in range(4):
        for _ in range(20):
            answer = converse(life.server.address, b"set a 0 0 1\r\nx\r\ngets a\r\ndelete a\r\n")
            unique = int(answer.split(b"\r\n")[1].split(b" ")[4])
            expect(unique not in seen, f"the unique {unique} is told for two values")
            seen.add(unique)
        life.again()


@each_ending
def expiry(life):
    life.hear(b"set long 0 1000 1\r\nx\r\nset short 0 2 1\r\nx\r\nset never 0 0 1\r\nx\r\nset past 0 -1 1\r\nx\r\nset touched 0 2 1\r\nx\r\ntouch touched 1000\r\n"
              b"set cut 0 1000 1\r\nx\r\ntouch cut 2\r\nset gone 0 1000 1\r\nx\r\ntouch gone -1\r\n",
              b"STORED\r\n" * 5 + b"TOUCHED\r\n" + b"STORED\r\nTOUCHED\r\n" * 2)
    life.again()
    life.hear(b"get long never past touched gone\r\n", b"".join(b"VALUE %s 0 1\r\nx\r\n" % key for key in (b"long", b"never", b"touched")) + b"END\r\n")
    life.end()
    time.sleep(2.1)  # what is too old by now expires while nobody serves it
    life.begin()
    life.hear(b"get long short never past touched cut gone\r\n", b"".join(b"VALUE %s 0 1\r\nx\r\n" % key for key in (b"long", b"never", b"touched")) + b"END\r\n")
    life.hear(b"add short 0 0 1\r\ny\r\nreplace cut 0 0 1\r\ny\r\n", b"STORED\r\nNOT_STORED\r\n")


@each_ending
def flushes(life):
    life.hear(b"set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nflush_all\r\nset b 0 0 1\r\ny\r\nget a b\r\n", b"STORED\r\nSTORED\r\nOK\r\nSTORED\r\nVALUE b 0 1\r\ny\r\nEND\r\n")
    for _ in range(2):
        life.again()
        life.hear(b"get a b\r\n", b"VALUE b 0 1\r\ny\r\nEND\r\n")
    life.hear(b"flush_all noreply\r\nget a b\r\n", b"END\r\n")
    life.again()
    life.hear(b"get a b\r\n", b"END\r\n")


@each_ending
def flushes_to_come(life):
    """One that is due while a later server serves, and one that is due while none does."""
    life.hear(b"set a 0 0 1\r\nx\r\nflush_all 2\r\nget a\r\n", b"STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\n")
    began = time.monotonic()
    life.again()
    before = converse(life.server.address, b"get a\r\nset b 0 0 1\r\nx\r\n")
    if time.monotonic() > began + 2:  # the server's start took so long: b may have been stored behind the flush
        converse(life.server.address, b"delete b\r\n")
    else:
        expect(before == b"VALUE a 0 1\r\nx\r\nEND\r\nSTORED\r\n", f"it is flushed at once: {before}")
    time.sleep(max(0, began + 2.1 - time.monotonic()))
    life.hear(b"get a b\r\nset c 0 0 1\r\nx\r\nflush_all 1\r\n", b"END\r\nSTORED\r\nOK\r\n")
    life.end()
    time.sleep(1.1)
    life.begin()
    life.hear(b"get a b c\r\nset c 0 0 1\r\ny\r\n", b"END\r\nSTORED\r\n")
    life.again()
    life.hear(b"get a b c\r\n", b"VALUE c 0 1\r\ny\r\nEND\r\n")
    life.hear(b"flush_all 1000\r\n", b"OK\r\n")
    life.again()
    life.hear(b"get c\r\nflush_all\r\nget c\r\n", b"VALUE c 0 1\r\ny\r\nEND\r\nOK\r\nEND\r\n")


@each_ending
def counters_and_joined_values(life):
    life.hear(b"set n 7 0 2\r\n99\r\nincr n 1\r\ndecr n 90\r\nset s 8 0 1\r\nb\r\nappend s 0 0 1\r\nc\r\nprepend s 0 0 1\r\na\r\n",
              b"STORED\r\n100\r\n10\r\n" + b"STORED\r\n" * 3)
    for count in range(3):
        life.again()
        life.hear(b"get n s\r\nincr n 1\r\n", b"VALUE n 7 3\r\n%d \r\nVALUE s 8 3\r\nabc\r\nEND\r\n%d\r\n" % (10 + count, 11 + count))


@each_ending
def what_meta_commands_mark(life):
    """An invalid value is still one, with its winner; a given unique is still given."""
    life.hear(b"ms a 1 F5 T1000 c E12345\r\nx\r\nmd a I T500 E12346\r\nmg a v f c\r\nms b 1\r\ny\r\nmd b I\r\nmn\r\n",
              b"HD c12345\r\nHD\r\nVA 1 f5 c12346 X W\r\nx\r\nHD\r\nHD\r\nMN\r\n")
    life.hear(b"ms /wABDQo= 3 b k F9\r\nbin\r\n", b"HD k/wABDQo= b\r\n")
    life.again()
    life.hear(b"mg a v f c\r\nmg b v\r\nmg b v\r\nmg /wABDQo= b k f v\r\n",
              *(b"VA 1 f5 c12346 %s\r\nx\r\nVA 1 X W\r\ny\r\nVA 1 Z X\r\ny\r\nVA 3 k/wABDQo= b f9\r\nbin\r\n" % won for won in (b"Z X", b"X W")))
    life.again()
    life.hear(b"ms a 1 C12346\r\nz\r\nmg a v\r\n", b"HD\r\nVA 1\r\nz\r\n")


@each_ending
def everything_at_once(life):
    """Many connections, and an end in the middle of what they do: nothing acknowledged is lost."""
    connections = [Connection(life.server.address) for _ in range(20)]
    for count, connection in enumerate(connections):
        connection.send(b"".join(b"set %d/%d %d 0 4\r\n%04d\r\n" % (count, key, key, key) for key in range(100)) + b"touch %d/0 1000\r\ndelete %d/1\r\n" % (count, count))
    for connection in connections:
        for _ in range(100):
            expect(connection.line() == b"STORED", "it does not store")
        expect(connection.line() == b"TOUCHED" and connection.line() == b"DELETED", "it does not change")
        connection.socket.close()
    life.again()
    for count in range(20):
        life.hear(b"get " + b" ".join(b"%d/%d" % (count, key) for key in range(100)) + b"\r\n",
                  b"".join(b"VALUE %d/%d %d 4\r\n%04d\r\n" % (count, key, key, key) for key in range(100) if key != 1) + b"END\r\n")


def hot_records_come_back(tarn):
    """With --hot-warm what was asked for is in memory again before anybody asks, after a good end; after a kill nothing is."""
    def count(name):
        return int(statistics(client)[f"store_hot_{name}"])

    with serving.folder() as folder:
        for signal_number, back in ((signal.SIGTERM, 50), (signal.SIGKILL, 0)):
            with Tarn(tarn, f"{folder}/store{back}", "--hot-warm=1G") as server, Connection(server.address) as client:
                for key in range(100):
                    expect(client.set(b"%d" % key, b"x" * 100) == b"STORED", "it does not store")
                for key in [*range(50)] * 3:
                    expect(client.get(b"%d" % key) == b"x" * 100, "a value is wrong")
                server.signal(signal_number)
                server.wait()
            with Tarn(tarn, f"{folder}/store{back}", "--hot-warm=1G") as server, Connection(server.address) as client:
                server.await_line(r'event="hot records were read back".* end="all"')
                expect(count("warmed") == count("records") == back, f"{count('warmed')} are read back, {count('records')} are there")
                for key in range(100):
                    expect(client.get(b"%d" % key) == b"x" * 100, "a value is wrong")
                expect((count("hits"), count("misses")) == (back, 100 - back), f"{count('hits')} are found in memory")


if __name__ == "__main__":
    serving.run([flags_and_uniques, no_unique_is_told_twice, expiry, flushes, flushes_to_come, counters_and_joined_values, what_meta_commands_mark,
                 everything_at_once, hot_records_come_back], sys.argv[1])
