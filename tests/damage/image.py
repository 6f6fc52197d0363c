"""Where things lie in the image of a store, found as docs/format.md tells, without any of the store's code."""

import ctypes
import os
import struct
import sys
from typing import NamedTuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
from verbs import Layout  # pylint: disable=wrong-import-position

XXHASH = ctypes.CDLL("libxxhash.so.0").XXH3_64bits_withSeed
XXHASH.restype = ctypes.c_uint64
XXHASH.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]

HEADER, TRAILER, RECORD, ENTRY, GROUP_END = 64, 64, 40, 48, 64
RECORDS, CHECKPOINT = 1, 3
VALUE, TOMBSTONE = 1, 2
PIECE = 0x40
PART_BYTES = 1 << 20


def xxh3(data, seed):
    return XXHASH(data, len(data), seed & (1 << 64) - 1)


class Record(NamedTuple):
    """A record that verifies. Offsets are the image's."""
    offset: int
    sequence: int
    kind: int  # VALUE or TOMBSTONE
    marks: int
    key: bytes
    value: bytes
    bytes: int

    def end(self):
        return self.offset + self.bytes


class Segment(NamedTuple):
    """A segment whose header, or else its summary, verifies and is newer than what was freed."""
    offset: int
    stamp: int
    kind: int  # RECORDS or CHECKPOINT
    place: int  # of a checkpoint's segment; of records the stream, 0 the collector's
    summary: int  # offset of the summary, 0 if there is none
    end: int  # of the records that the summary tells of


class Image(Layout):
    """A store's bytes."""

    def __init__(self, data):
        super().__init__(data)
        self.check_seed, = struct.unpack_from("<Q", self.data, 40)
        self.room = (self.first - self.state) // 2 // self.block * self.block  # of a pair of the state's slots

    def slots(self):
        """Offsets of the state's four slots, those of a pair one behind the other."""
        return [self.state + pair * self.room + place * self.state_bytes for pair in range(2) for place in range(2)]

    def newest_slot(self):
        good = []
        for offset in self.slots():
            slot = self.data[offset:offset + self.state_bytes]
            if slot[8:16] == b"TarnStat" and struct.unpack_from("<Q", slot)[0] == xxh3(slot[8:], self.check_seed):
                good.append((struct.unpack_from("<Q", slot, 16)[0], -offset))
        return -max(good)[1]

    def live_segments(self):
        freed = struct.unpack_from(f"<{self.count}Q", self.data, self.newest_slot() + 128)
        found = [self.segment(self.first + number * self.segment_bytes) for number in range(self.count)]
        return [segment for segment, stamp in zip(found, freed) if segment and segment.stamp > stamp]

    def segment(self, offset):
        header = self.data[offset:offset + HEADER]
        check, magic, stamp, _, _, kind, place = struct.unpack_from("<Q8sQQIII", header)
        if magic != b"TarnSegm" or check != xxh3(header[8:], self.check_seed):
            return None
        summary, end = self.summary(offset, stamp) if kind == RECORDS else (0, 0)
        return Segment(offset, stamp, kind, place, summary, end)

    def summary(self, segment, stamp):
        """Offsets of a whole summary of this stamp, and of the end of what it tells of; or zeros."""
        at = segment + self.segment_bytes - TRAILER
        trailer = self.data[at:at + TRAILER]
        check, magic, found, _, entries, end = struct.unpack_from("<Q8sQQII", trailer)
        length = -(-(entries * ENTRY + TRAILER) // self.block) * self.block
        if magic != b"TarnSumm" or found != stamp or length >= self.segment_bytes:
            return 0, 0
        first = segment + self.segment_bytes - length
        if check != xxh3(trailer[8:], xxh3(self.data[first:first + entries * ENTRY], self.check_seed)):
            return 0, 0
        return first, segment + end

    def records(self, segment):
        """The records of a segment, as a recovery looks for them: record behind record, else at the next block."""
        seed = xxh3(struct.pack("<Q", segment.stamp), self.check_seed)
        at = segment.offset + -(-HEADER // self.grain) * self.grain
        last = segment.end or segment.offset + self.segment_bytes
        while at + RECORD <= last:
            record = self.record(at, seed, last)
            if record:
                yield record
                at = -(-record.end() // self.grain) * self.grain
            else:
                at = (at // self.block + 1) * self.block

    def group_end(self, segment, record):
        """Where the end of a group ends that stands behind this record, and the place before which it tells that all was
        acknowledged; zeros: none does."""
        at = -(-record.end() // self.grain) * self.grain
        end = self.data[at:at + GROUP_END]
        seed = xxh3(struct.pack("<Q", segment.stamp), self.check_seed)
        good = end[8:12] == b"Grup" and struct.unpack_from("<Q", end)[0] == xxh3(end[8:], seed + at // self.grain)
        return (at + GROUP_END, segment.offset + struct.unpack_from("<I", end, 48)[0]) if good else (0, 0)

    def record(self, at, seed, last):
        header = self.data[at:at + RECORD]
        check, body_check, sequence, _, value_bytes, key_bytes, kind = struct.unpack_from("<IIQQIHB", header)
        if check != xxh3(header[4:], seed + at // self.grain) & 0xffffffff:
            return None
        front = (16 if kind & 0xf0 else 0) + key_bytes
        body = self.data[at + RECORD:at + RECORD + front + value_bytes]
        if at + RECORD + len(body) > last or len(body) < front + value_bytes:
            return None
        found = xxh3(body[front:], xxh3(body[:front], self.check_seed + sequence))
        if body_check != found & 0xffffffff:
            return None
        return Record(at, sequence, kind & 3, kind & 0xf0, body[front - key_bytes:front], body[front:], RECORD + len(body))
