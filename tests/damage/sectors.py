#!/usr/bin/python3
"""When one sector of a store is damaged, is nothing of it hidden?

    sectors.py PROGRAM [COUNT [SEED]] [--keep=FOLDER] [--again=CASE]

PROGRAM is crash_load, of tests/crash/load.c. Stores on one file and on a stripe of two are made under load and killed with
-9, or closed in good order. Sector by sector, each of those that hold a superblock, a label, the state, a segment's header,
a block of a summary, its trailer or a part of a checkpoint is filled in a copy with zeros, with noise, and with what
stood there earlier; and the copy is looked at, as trial.py tells. Keys whose records lie in the sector may fail. All others
have what they had, as there is a second copy of all that the sector told, or what it told can be told from something
else; but for the header of a segment that was open when the store was killed, and has no other proof: then the store may
be refused. No answer differs without a word.

COUNT is how many sectors of each kind are tried in each store; 0: all.
"""

import struct
import sys
import tempfile

from image import CHECKPOINT, HEADER, PART_BYTES
from trial import MEMORY, Arguments, Store, Tally, again

COUNT = 2
READ = ["superblocks", "labels", "state", "headers", "open-headers"]  # by every opening: it must say that they are damaged
SECTOR = 512
SESSIONS = 3
STORES = [(ending, drives, cache) for ending in ("stop", "kill") for drives in (1, 2) for cache in (False, True)]


# Offsets of sectors, by what they hold: of the store, but for the labels'.

def superblocks(image):
    return [0, 4096]


def state(image):
    """The end of the freed stamps may be in a second sector."""
    return [slot + at for slot in image.slots() for at in range(0, 128 + 8 * image.count, SECTOR)]


def headers(image, is_open):
    """Of segments of records that have no summary, or of the others."""
    return [segment.offset for segment in image.live_segments() if segment.kind != CHECKPOINT and is_open == (not segment.summary)]


def summaries(image):
    """A sector in each block of each summary but for the trailer's."""
    return [block for segment in image.live_segments() if segment.summary
            for block in range(segment.summary, segment.offset + image.segment_bytes, image.block)]


def trailers(image):
    return [segment.offset + image.segment_bytes - SECTOR for segment in image.live_segments() if segment.summary]


def checkpoints(image):
    """Headers of a checkpoint's segments, and the beginning and a later sector of each of its parts."""
    found = []
    for segment in image.live_segments():
        if segment.kind == CHECKPOINT:
            first, end = segment.offset + image.block, segment.offset + image.segment_bytes
            parts = range(first, end, PART_BYTES)
            found += [segment.offset, *parts, *(part + SECTOR for part in parts)]
    return found


def sectors(store):
    """By kind, what is to be damaged: offsets in the store's files, and the same in the store, if it is there."""
    image = store.image
    found = {"superblocks": superblocks(image), "state": state(image), "headers": headers(image, False), "open-headers": headers(image, True),
             "summaries": summaries(image), "trailers": trailers(image), "checkpoints": checkpoints(image)}
    places = {kind: [(store.files.place(offset), offset) for offset in offsets] for kind, offsets in found.items()}
    if store.files.unit:
        places["labels"] = [(drive * store.files.bytes + at, None) for drive in range(len(store.files.paths)) for at in (0, 4096)]
    return places


def fillings(store, at, rng):
    """What a sector is filled with, by name."""
    now = store.data[at:at + SECTOR]
    before = [data[at:at + SECTOR] for data in reversed(store.earlier) if data[at:at + SECTOR] not in (now, bytes(SECTOR))]
    return {"zeros": bytes(SECTOR), "noise": rng.randbytes(SECTOR), **({"older": before[0]} if before else {})}


def trials_of_a_store(tally, store, count, rng):
    undamaged = tally.undamaged(store)
    for kind, places in sectors(store).items():
        for at, offset in rng.sample(places, min(count, len(places))) if count else places:
            for filling, data in fillings(store, at, rng).items():
                damaged = range(offset, offset + SECTOR) if offset is not None else range(0)
                tally.run(f"{kind} {filling}", store, dict(enumerate(data, at)), **undamaged,
                          excused=store.excused(damaged) | set(store.maybe),
                          touched=None if kind == "open-headers" else store.touched(damaged), read=kind in READ)


def main():
    arguments = Arguments(sys.argv[1:], COUNT)
    with tempfile.TemporaryDirectory(prefix="tarn-damage-", dir=MEMORY) as folder:
        if "again" in arguments.options:
            return again(arguments.program, arguments.options["again"], folder)
        tally = Tally(arguments.program, folder, arguments.options.get("keep"))
        rng = arguments.rng()
        for ending, drives, cache in STORES:
            store = Store(tally.program, folder, rng, ending, cache, drives, SESSIONS)
            trials_of_a_store(tally, store, arguments.count, rng)
    return tally.report("a damaged sector")


if __name__ == "__main__":
    sys.exit(main())
