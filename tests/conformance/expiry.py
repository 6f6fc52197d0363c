#!/usr/bin/python3
"""Does time pass for Tarn as it does for Debian's memcached: expiry by every command that sets it, and flushes to come?

    expiry.py TARN [--itself]

--itself compares memcached with another memcached. Each conversation has two halves with some seconds between them; all first halves are held, then all second ones. K is
a key of the conversation's own.
"""

import contextlib
import sys
import time

import answers
import serving
from memcached import STEADY, Speaker, named
from serving import Memcached, Tarn, expect

PAUSE = 3.3  # seconds: memcached's clock ticks once a second, so that 2 may be 1 and, nearly, 3
HELD_UP = 0.5  # seconds: on a busy machine a first half can take so long that what it sets expires within it
SET = b"set K 5 2 2\r\n17\r\n"
KEPT = b"set K 5 0 2\r\n17\r\n"
LATER = [b"get K\r\n", b"gets K\r\n", b"gat 0 K\r\nget K\r\n", b"add K 0 0 1\r\nx\r\nget K\r\n", b"replace K 0 0 1\r\nx\r\n", b"append K 0 0 1\r\nx\r\n", b"prepend K 0 0 1\r\nx\r\n",
         b"incr K 1\r\n", b"decr K 1\r\n", b"delete K\r\n", b"touch K 100\r\nget K\r\n", b"cas K 0 0 1 1\r\nx\r\n", b"set K 0 0 1\r\nx\r\nget K\r\n"]
LATER_META = [b"mg K v\r\n", b"mg K k O1\r\n", b"mg K T100\r\n", b"mg K N30 v\r\nmg K v\r\n", b"mg K R30\r\n", b"md K\r\n", b"md K I\r\n", b"ma K v\r\n", b"ma K N0 J5 v\r\n",
              b"ms K 1 MR\r\nx\r\n", b"ms K 1 ME\r\nx\r\n", b"ms K 1 MA\r\nx\r\n", b"ms K 1 C1\r\nx\r\n", b"me K\r\n"]
EXPIRING = [SET, b"add K 5 2 2\r\n17\r\n", b"set K 5 <soon> 2\r\n17\r\n", KEPT + b"replace K 5 2 2\r\n17\r\n", KEPT + b"touch K 2\r\n", KEPT + b"touch K 2 noreply\r\n",
            KEPT + b"gat 2 K\r\n", KEPT + b"gats 2 K\r\n", SET + b"append K 0 100 1\r\n1\r\n", SET + b"prepend K 0 0 1\r\n1\r\n", SET + b"incr K 1\r\n",
            SET + b"decr K 10\r\n", SET + b"get K\r\n", SET + b"add K 0 0 1\r\nx\r\n", KEPT + b"gets K\r\ncas K 5 2 2 <cas1>\r\n18\r\n", KEPT + b"touch K <soon>\r\n"]
EXPIRING_META = [b"ms K 2 T2\r\n17\r\n", b"ms K 2 ME T2\r\n17\r\n", KEPT + b"mg K T2\r\n", KEPT + b"md K I T2\r\n", SET + b"md K I\r\n", KEPT + b"ma K T2\r\n", b"ma K N2 J17\r\n",
                 b"mg K N2\r\n", SET + b"ma K\r\n", SET + b"mg K R100\r\n", SET + b"ms K 1 MA\r\n1\r\n", KEPT + b"ms K 2 MR T2\r\n18\r\n"]
LASTING = [KEPT, SET + b"touch K 0\r\n", SET + b"touch K 100\r\n", SET + b"gat 0 K\r\n", SET + b"gat 100 K\r\n", SET + KEPT, SET + b"delete K\r\n" + KEPT, b"set K 5 100 2\r\n17\r\n",
           b"set K 5 <later> 2\r\n17\r\n", SET + b"replace K 0 0 1\r\n1\r\n"]
LASTING_META = [SET + b"mg K T0\r\n", SET + b"mg K T100\r\n", SET + b"ms K 1\r\n1\r\n", SET + b"ma K T100\r\n", b"mg K N100\r\nms K 2\r\n17\r\n", KEPT + b"md K T2\r\n" + KEPT,
                SET + b"ma K N2 T0\r\n", KEPT + b"ms K 1 MA T2\r\n1\r\n", KEPT + b"ma K N2\r\n"]

# With servers of their own: said before the pause, and after it. Nothing is read soon after `flush_all 2`: memcached flushes at the tick before the second that was asked
# for, which can be the next moment.
FLUSHES = [
    (KEPT + b"flush_all 2\r\n", b"get K\r\n" + KEPT + b"get K\r\n"),
    (KEPT + b"flush_all 100\r\nget K\r\n", b"get K\r\n"),
    (b"flush_all 2\r\n" + KEPT, b"get K\r\nadd K 0 0 1\r\nx\r\nget K\r\n"),
    (b"flush_all 100\r\n" + KEPT + b"get K\r\n", b"get K\r\n"),
    (KEPT + b"flush_all 2\r\nflush_all 100\r\n", b"get K\r\n"),
    (b"flush_all 100\r\nflush_all\r\n" + KEPT, b"get K\r\n"),
    (KEPT + b"flush_all 2 noreply\r\n", b"incr K 1\r\ngets K\r\ntouch K 5\r\n"),
    (b"flush_all 2\r\nflush_all\r\n" + KEPT + b"get K\r\n", b"get K\r\n"),
    (b"flush_all <soon>\r\n" + KEPT, b"get K\r\n"),
]


def conversations(firsts, seconds):
    for first in firsts:
        for second in seconds:
            yield first, second


class Pair:
    """A Tarn and a memcached, and conversations of which the first half is behind them."""

    def __init__(self, ours, theirs):
        self.speakers = Speaker(ours), Speaker(theirs)
        self.halves = []
        self.key_count = 0

    def begin(self, first, second):
        """Hold the first half of a conversation, with a new key, until neither server was held up in it."""
        while True:
            start = time.monotonic()
            said = first
            for place, time_said in ((b"<soon>", 2), (b"<later>", 100)):
                said = said.replace(place, b"%d" % (int(time.time()) + time_said))
            self.key_count += 1
            key = b" key%d" % self.key_count
            said = said.replace(b" K", key)
            begun = [speaker.converse(said)[0] for speaker in self.speakers]
            if time.monotonic() - start < HELD_UP:
                break
        self.halves.append((said, second.replace(b" K", key), begun))

    def end(self):
        apart = []
        for first, second, begun in self.halves:
            ours, theirs = ([*begin, *speaker.converse(second)[0]] for begin, speaker in zip(begun, self.speakers))
            for found, wanted in answers.differences(ours, theirs):
                apart.append(f"  said      {answers.short(first)} ... {answers.short(second)}\n"
                             f"  tarn      {answers.short(found)}\n  memcached {answers.short(wanted)}")
        expect(not apart, f"{len(apart)} of {len(self.halves)} conversations differ\n" + "\n\n".join(apart[:12]))
        print(f"# {len(self.halves)} conversations", flush=True)


def main():
    with contextlib.ExitStack() as stack:
        def pair():
            folder = stack.enter_context(serving.folder())
            theirs = [Memcached(*STEADY[2:], "-m", "64", "-t", "1") for _ in range(2 if "--itself" in sys.argv else 1)]
            ours = theirs.pop() if "--itself" in sys.argv else Tarn(sys.argv[1], f"{folder}/store", "--mode=device", "--threads=1")
            return Pair(stack.enter_context(ours).address, stack.enter_context(theirs[0]).address)
        groups = {"expiry as memcached": conversations(EXPIRING, LATER), "expiry by meta commands as memcached": conversations(EXPIRING_META, LATER_META + LATER[:1]),
                  "expiry as the meta commands see it": conversations(EXPIRING, LATER_META), "no expiry as memcached": conversations(LASTING, LATER[:3]),
                  "no expiry by meta commands as memcached": conversations(LASTING_META, LATER_META[:2] + LATER[:1])}
        pairs = {name: pair() for name in groups}
        flushes = [pair() for _ in FLUSHES]
        for name, group in groups.items():
            for first, second in group:
                pairs[name].begin(first, second)
        for server, (first, second) in zip(flushes, FLUSHES):
            server.begin(first, second)
        time.sleep(PAUSE)
        serving.run([named(name, lambda pair=pair: pair.end()) for name, pair in pairs.items()] +
                    [named(f"flushes to come as memcached, {number}", lambda pair=pair: pair.end()) for number, pair in enumerate(flushes, 1)])


if __name__ == "__main__":
    main()
