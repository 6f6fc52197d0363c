#!/usr/bin/python3
"""When bits of a store flip, is every answer the last acknowledged value or an error, and does a check find them?

    flips.py PROGRAM [COUNT [SEED]] [--kinds=KIND,...] [--keep=FOLDER] [--again=CASE]

PROGRAM is crash_load, of tests/crash/load.c. Stores are made under load and killed with -9, or stopped; of each so many
copies are damaged, each by 1 to 16 flipped bits in places of one KIND, and looked at: checked, opened to be read, to be
written, and to be read again. Each key must have the value that was acknowledged last, or that was on its way when the
store died, or must fail with an error; never an older value, never one that was deleted, never nothing unless that was
acknowledged. A cache may have lost anything. A store may be refused as a whole, if it says why. Whatever is not answered
perfectly the check has to report. Excused is only what nothing can tell from a write that the kill has cut off: the
record that was acknowledged last in its stream, as nothing behind it was begun later, and a record whose client was
killed before it could tell of the acknowledgement (excused() of trial.py).

COUNT is how many trials there are of each kind. With --keep the first failing cases of each kind are kept in a folder:
the damaged image, the image before, and what is expected of it; --again=FOLDER/KIND-N.json tries such a case once more.
"""

import sys
import tempfile

from image import CHECKPOINT, ENTRY, HEADER, RECORD, RECORDS, TRAILER
from trial import MEMORY, Arguments, Store, Tally, again

COUNT = 20
TRIALS_OF_A_STORE = 25


# Each kind of damage: the ranges of bytes in which bits may flip.

def tail(store):
    """All from the first to the last record of an open segment: the records, and the zeros between them."""
    return [(records[0].offset, records[-1].end()) for records in open_segments(store)]


def tail_headers(store):
    """Headers of the records in open segments that were acknowledged and count."""
    return [(record.offset, record.offset + RECORD) for record in acknowledged_in_tail(store)]


def tail_bodies(store):
    """Keys and values of such records."""
    return [(record.offset + RECORD, record.end()) for record in acknowledged_in_tail(store)]


def closed(store):
    """All records of segments that have a summary."""
    return [(segment.offset + HEADER, segment.end) for segment in live(store, RECORDS) if segment.summary and segment.end > segment.offset + HEADER]


def summaries(store):
    """Entries and trailers of summaries."""
    end = store.image.segment_bytes
    return [part for segment in live(store, RECORDS) if segment.summary
            for part in ((segment.summary, segment.offset + end - TRAILER - ENTRY), (segment.offset + end - TRAILER, segment.offset + end))]


def headers(store):
    """Headers of live segments."""
    return [(segment.offset, segment.offset + HEADER) for segment in live(store)]


def checkpoints(store):
    """All of the segments of checkpoints."""
    return [(segment.offset, segment.offset + store.image.segment_bytes) for segment in live(store, CHECKPOINT)]


def state(store):
    """The state's slots."""
    return [(slot, slot + 128 + 8 * store.image.count) for slot in store.image.slots()]


def anywhere(store):
    return [(0, len(store.image.data))]


KINDS = {"tail": ("kill", tail), "tail-headers": ("kill", tail_headers), "tail-bodies": ("kill", tail_bodies),
         "closed": ("kill", closed), "summaries": ("kill", summaries), "headers": ("kill", headers),
         "state": ("kill", state), "anywhere": ("kill", anywhere), "stopped-closed": ("stop", closed),
         "stopped-summaries": ("stop", summaries), "stopped-headers": ("stop", headers),
         "stopped-state": ("stop", state), "stopped-checkpoints": ("stop", checkpoints), "stopped-anywhere": ("stop", anywhere)}


def live(store, kind=None):
    return [segment for segment in store.image.live_segments() if kind in (None, segment.kind)]


def open_segments(store):
    """The records of each segment that has no summary."""
    return [records for segment, records in store.records.items() if records and not segment.summary]


def acknowledged_in_tail(store):
    return [record for records in open_segments(store) for record in records if record.offset in store.counting]


def flip(store, ranges, rng):
    """Flip 1 to 16 bits in up to three of the ranges. Returns the changed bytes by offset."""
    changed = {}
    chosen = rng.sample(ranges, min(rng.choice([1, 1, 2, 3]), len(ranges)))
    for _ in range(rng.choice([1, 1, 2, 4, 8, 16])):
        begin, end = rng.choice(chosen)
        at = rng.randrange(begin, end)
        changed[at] = changed.get(at, store.image.data[at]) ^ 1 << rng.randrange(8)
    return changed


def trials_of_a_store(tally, store, kinds, count, rng):
    said = tally.undamaged(store)["said"]
    for kind in kinds:
        ranges = KINDS[kind][1](store)
        for _ in range(count if ranges else 0):
            damage = flip(store, ranges, rng)
            tally.run(kind, store, damage, said=said, excused=store.excused(damage))


def all_trials(tally, kinds, count, rng):
    """A third of them are of caches."""
    for done in range(0, count, TRIALS_OF_A_STORE):
        of_store = min(TRIALS_OF_A_STORE, count - done)
        for ending in ("kill", "stop"):
            of_ending = [kind for kind in kinds if KINDS[kind][0] == ending]
            for cache, trials in ((False, of_store - of_store // 3), (True, of_store // 3)):
                if of_ending and trials:
                    trials_of_a_store(tally, Store(tally.program, tally.folder, rng, ending, cache), of_ending, trials, rng)


def main():
    arguments = Arguments(sys.argv[1:], COUNT)
    kinds = arguments.options["kinds"].split(",") if "kinds" in arguments.options else list(KINDS)
    with tempfile.TemporaryDirectory(prefix="tarn-damage-", dir=MEMORY) as folder:
        if "again" in arguments.options:
            return again(arguments.program, arguments.options["again"], folder)
        tally = Tally(arguments.program, folder, arguments.options.get("keep"))
        all_trials(tally, kinds, arguments.count, arguments.rng())
    return tally.report("bits that flip")


if __name__ == "__main__":
    sys.exit(main())
