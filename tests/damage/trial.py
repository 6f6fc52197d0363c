"""Stores that were killed or stopped, damaged copies of them, and a judgement of what the copies answer."""

import json
import os
import random
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "crash"))
from image import PIECE, RECORDS, TOMBSTONE, Image  # pylint: disable=wrong-import-position
from load import Failure, Looker, work  # pylint: disable=wrong-import-position

STORE_BYTES = 4 << 20  # thirty segments, which are collected all the time
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
MISSING_WORDS = "acknowledged records are missing, so the store is not opened"  # else it cannot be opened in any way
WRITES_MAX = 4  # of a stream in flight

# What a trial may come to, and what no damage excuses.
OUTCOMES = SOUND, WARNED, EXCUSED, ERRORS, REFUSED = "sound", "warned", "excused", "errors", "refused"
FAULTS = OLDER, MISSING, REVIVED, INVENTED, SCAN, SPREAD, SILENT, UNSEEN, STUCK, DIED = (
    "older", "missing", "revived", "invented", "scan", "spread", "silent", "unseen", "stuck", "died")
PUT_NUMBER = 1  # of the value that a look stores


class Run:
    """Records of an open segment that lie one behind the other without a gap, and the group's end."""

    def __init__(self, records, end, acknowledged, begun_ns):
        self.begin, self.end = records[0].offset, end or records[-1].end()
        self.vouches = bool(end)  # else its write was cut off, or left no room for an end
        self.acknowledged = acknowledged  # its end tells that all before this place was
        self.begun_ns = begun_ns  # when the last of its writes began


class Files:
    """The files of a store: a stripe's units lie as docs/format.md tells."""

    def __init__(self, paths):
        self.paths = paths
        self.bytes = self.unit = 0

    def name(self):
        return ",".join(self.paths)

    def read(self):
        """All of them, one behind the other."""
        parts = []
        for path in self.paths:
            with open(path, "rb") as file:
                parts.append(file.read())
        self.bytes = len(parts[0])
        self.unit = struct.unpack_from("<Q", parts[0], 48)[0] if len(parts) > 1 else 0
        return b"".join(parts)

    def write(self, data):
        self.bytes = len(data) // len(self.paths)
        for number, path in enumerate(self.paths):
            with open(path, "wb") as file:
                file.write(data[number * self.bytes:(number + 1) * self.bytes])

    def remove(self):
        for path in self.paths:
            if os.path.exists(path):
                os.unlink(path)

    def place(self, offset):
        """Where a byte of the store lies in what read() returns."""
        if not self.unit:
            return offset
        unit, rest = divmod(offset, self.unit)
        return unit % len(self.paths) * self.bytes + (1 + unit // len(self.paths)) * self.unit + rest

    def whole(self, data):
        """The store's bytes, of what read() returned."""
        if not self.unit:
            return data
        units = (self.bytes // self.unit - 1) * len(self.paths)
        return b"".join(data[at:at + self.unit] for at in (self.place(unit * self.unit) for unit in range(units)))


class Store:
    """A store that was written to and killed, or stopped: its bytes, and what each key may hold. 0 is nothing."""

    def __init__(self, program, folder, rng, ending, cache=False, drives=1, sessions=1):
        self.cache, self.ending = cache, ending
        self.mode = rng.choice(["power", "device"])
        self.files = Files([os.path.join(folder, f"store{drive}") for drive in range(drives)])
        self.earlier = []  # what the files held when the sessions before the last had ended
        keys, acknowledged = {}, 0
        self.files.remove()
        for session in range(sessions):
            last = session == sessions - 1
            _, writes = work(program, self.files.name(), self.mode, rng, keys, ending if last else "stop", STORE_BYTES, cache)
            acknowledged += writes
            self.data = self.files.read()
            if not last:
                self.earlier.append(self.data)
        if acknowledged < 100:
            raise Failure("so few writes tell nothing")
        self.image = Image(self.files.whole(self.data))
        self.held = {number: key.held[-1][0] for number, key in keys.items()}
        self.maybe = {number: key.maybe for number, key in keys.items() if key.maybe is not None}
        self.segments = [segment for segment in self.image.live_segments() if segment.kind == RECORDS]
        self.records = {segment: list(self.image.records(segment)) for segment in self.segments}
        self.fronts = self.find_fronts()
        counting = self.find_newest(self.held)
        self.counting = {record.offset: key for key, record in counting.items()}
        self.pending = {record.offset: key for key, record in self.find_newest(self.maybe).items()
                        if key not in counting or record.sequence > counting[key].sequence}
        self.last = self.find_last(keys)

    def allowed(self):
        return {key: sorted({held, self.maybe.get(key, held)}) for key, held in self.held.items()}

    def find_newest(self, numbers):
        """By key, the newest record that holds this number. Behind those that hold what was acknowledged last may lie others,
        which are pending: of writes that were on their way. A damage may have both left out."""
        newest = {}
        for record in sum(self.records.values(), []):
            key = int.from_bytes(record.key, "little") if len(record.key) == 8 else None
            if key in numbers and holds(record, numbers[key]) and record.sequence >= newest.get(key, record).sequence:
                newest[key] = record
        return newest

    def find_last(self, keys):
        """For each stream whose last segment is open: its number, the runs there, the key, place and moment of
        acknowledgement of each record there that counts, and key and place of each that is pending."""
        found = []
        for stream in {segment.place for segment in self.segments}:
            last = max((segment for segment in self.segments if segment.place == stream), key=lambda segment: segment.stamp)
            if last.summary or not self.records[last]:
                continue
            acknowledged = [(key, record.offset, keys[key].held[-1][1]) for record in self.records[last]
                            for key in [self.counting.get(record.offset)] if key is not None]
            pending = [(key, record.offset) for record in self.records[last]
                       for key in [self.pending.get(record.offset)] if key is not None]
            found.append((stream, self.runs(last, keys), acknowledged, pending))
        return found

    def runs(self, segment, keys):
        runs, gathered = [], []
        for record in self.records[segment]:
            if gathered and record.offset - gathered[-1][0].end() >= self.image.grain:
                runs.append(gathered)
                gathered = []
            owner = keys.get(int.from_bytes(record.key, "little"))
            told = owner and record.value  # of several deletions of a key nothing tells which of them this is
            gathered.append((record, owner.begun.get(int.from_bytes(record.value[:8], "little"), 0) if told else 0))
        return [Run([record for record, _ in run], *self.image.group_end(segment, run[-1][0]), max(begun for _, begun in run))
                for run in runs + [gathered]]

    def excused(self, damaged):
        """The keys whose record nothing tells from one that was cut off, if these bytes are damaged: it lies in the last
        segment of its stream, in a damaged run, and no whole group was begun behind it after it was acknowledged.
        Of the collector's stream no such moments are known, but that no more than some groups are in flight.

        So it is with a pending record, unless a whole group behind it tells that it was acknowledged. It may have been, and
        its process killed before it could say so; then it has replaced what was acknowledged last, whose segment may have
        been collected and freed since. Without it the key has what is older than both."""
        found = set()
        for stream, runs, acknowledged, pending in self.last:
            whole = [run for run in runs if not any(run.begin <= offset < run.end for offset in damaged)]
            for key, offset, acknowledged_ns in acknowledged:
                behind = [run for run in whole if run.begin > offset and run.vouches]
                vouched = len(behind) > WRITES_MAX if stream == 0 else any(run.begun_ns > acknowledged_ns for run in behind)
                if not vouched and not any(run.begin <= offset < run.end for run in whole):
                    found.add(key)
            for key, offset in pending:
                if not any(run.acknowledged > offset or run.begin <= offset < run.end for run in whole):
                    found.add(key)
        return found

    def touched(self, damaged):
        """The keys whose values lie in this range; of damaged pieces all keys that have long values."""
        hit = [record for records in self.records.values() for record in records
               if record.offset < damaged.stop and damaged.start < record.end()]
        found = {self.counting[record.offset] for record in hit if record.offset in self.counting}
        if any(record.marks & PIECE for record in hit):
            found |= {key for offset, key in self.counting.items() if self.is_head(offset)}
        return found

    def find_fronts(self):
        """The key of the record in whose front, all before its value, a byte is, by the byte's place in the files."""
        return {self.files.place(at): record.key for record in sum(self.records.values(), [])
                for at in range(record.offset, record.end() - len(record.value))}

    def storable(self, damaged):
        """A key that can be stored if these bytes of the files are damaged: none is in the front of its records. A record
        whose header or key cannot be read may be any key's that has the same hash in the index, its own included, so that a
        put of the key fails (src/depot/README.md, "Scrubbing")."""
        unreadable = {int.from_bytes(self.fronts[place], "little") for place in damaged if place in self.fronts}
        return min(self.held.keys() - unreadable)

    def is_head(self, offset):
        return self.image.data[offset + 30] & 0x80


class Trial:
    """Looks at a damaged store, and what they come to: outcomes and faults, with a sentence for each fault.

    A case is what JSON can keep: `allowed`, what each key may hold; `cache`; `excused`, the keys of which anything may be
    there; `touched`, the keys that may fail, null if all may, and the store as a whole; `before`, what the keys held in
    the store without damage, null if it does not matter; `storable`, a key that can be stored; `said`, what was said of
    that store when it was opened; `read`, whether every opening reads what is damaged."""

    def __init__(self, looker, store, case):
        self.looker, self.store, self.case = looker, store, case
        self.cache = case["cache"]
        self.allowed = {int(key): set(numbers) for key, numbers in case["allowed"].items()}
        self.excused = set(case["excused"])
        self.before = case["before"] and {int(key): number for key, number in case["before"].items()}
        self.given_up = False  # what may be lost, by a repair
        self.found, self.sentences = {SOUND}, []

    def fault(self, kind, sentence):
        self.found.add(kind)
        self.sentences.append(f"{kind}: {sentence}")

    def run(self):
        """Check it, open it to read, to write, and to read once more."""
        before = self.look("check")
        looks = [self.look_and_judge(how) for how in ("read", "write", "read")]
        if any(MISSING_WORDS in line for line in looks[1].log if looks[1].refusal):
            self.run_refused()
        imperfect = self.found - {SOUND, WARNED, EXCUSED}
        if imperfect and not is_reported(before):
            self.fault(UNSEEN, "the check finds nothing")
        if self.case["read"] and is_reported(before) and not (looks[0].log and looks[1].log):
            self.fault(SILENT, "the check reports what was read and mended without a word")
        return self

    def run_refused(self):
        """A store that is refused is opened all the same when that is asked for, as often as it is; a key can be stored
        there, unless it may be the one of a damaged record; and a repair makes it one that is opened. Which keys it has lost
        nobody can tell: they are gone then, or have an older value, as the check has said."""
        self.before = None
        key = self.case["storable"]
        for how in ("read,damaged", "write,damaged", f"put={key},damaged", "read,damaged"):
            puts = how.startswith("put")
            if puts:
                self.allowed[key] = {PUT_NUMBER}
            seen = self.look_and_judge(how)
            if seen.refusal or seen.put or (puts and key in seen.errors):
                self.fault(STUCK, f"opened to {how} it says: {seen}")
        if not self.look("read").refusal:
            self.fault(SILENT, "opened once as it is, it is not refused any more")
        repaired = self.look("repair")
        self.given_up = True
        for how in ("read", "write"):
            if self.look_and_judge(how).refusal:
                self.fault(STUCK, f"after a repair, which says: {repaired}")

    def look(self, how):
        seen = self.looker.look(how + (",cache" if self.cache and how not in ("check", "repair") else ""), self.store)
        seen.log = [line for line in map(told, seen.log) if line not in self.case["said"]]
        return seen

    def look_and_judge(self, how):
        seen = self.look(how)
        if seen.log:
            self.found.add(WARNED)
        if seen.refusal:
            self.judge_refusal(how, seen)
        else:
            self.judge_answers(how, seen)
        return seen

    def judge_refusal(self, how, seen):
        self.found.add(REFUSED)
        if not seen.log:
            self.fault(SILENT, f"opened to {how} it is refused with {seen.refusal} and no word why")
        if self.case["touched"] is not None:
            self.fault(SPREAD, f"opened to {how} it is refused with {seen.refusal}: {' '.join(seen.log)}")

    def judge_answers(self, how, seen):
        if seen.errors or seen.scan or seen.close:
            self.found.add(ERRORS)
        for key, allowed in self.allowed.items():
            if key not in seen.errors:
                self.judge_key(how, key, seen.found.get(key, 0), allowed)
        for key in seen.found.keys() - self.allowed.keys():
            self.fault(INVENTED, f"opened to {how} key {key} is there, and was never stored")
        self.judge_scan(how, seen)
        if self.case["touched"] is not None:
            for key in seen.errors.keys() - set(self.case["touched"]) - self.excused:
                self.fault(SPREAD, f"opened to {how} key {key} fails with {seen.errors[key]}, and its record is whole")
        before, self.before = self.before, None if self.cache else self.before  # a cache that is opened to write may make room
        if before is not None and not (seen.log or seen.errors):
            for key, number in before.items():
                if seen.found.get(key, 0) != number and key not in self.excused:
                    self.fault(SILENT, f"opened to {how} key {key} differs from {number:#x}, and no word is said")

    def judge_key(self, how, key, number, allowed):
        if number in allowed or (number == 0 and self.cache) or self.given_up:
            self.allowed[key] = {number}  # what was shown is certain from now on
        elif key in self.excused:
            self.allowed[key] = {number}
            self.found.add(EXCUSED)
        else:
            kind = MISSING if number == 0 else REVIVED if allowed == {0} else OLDER
            self.fault(kind, f"opened to {how} key {key} holds {number:#x}, and could hold {', '.join(map(hex, allowed))}")

    def judge_scan(self, how, seen):
        for key, number in seen.visited.items():
            if number != seen.found.get(key) and key not in seen.errors:
                self.fault(SCAN, f"opened to {how} a scan shows {number:#x} for key {key}, a get {seen.found.get(key)}")
            elif key in seen.errors and number not in self.allowed.get(key, ()):
                self.fault(SCAN, f"opened to {how} a scan shows {number:#x} for key {key}, whose get fails")

    def failed(self):
        return bool(self.found & set(FAULTS))

    def outcome(self):
        """The worst that was found."""
        return max(self.found, key=(OUTCOMES + FAULTS).index)


def holds(record, number):
    if record.kind == TOMBSTONE or not number:
        return number == 0 and record.kind == TOMBSTONE
    return not record.value or record.value[:8] == number.to_bytes(8, "little")  # a head of pieces has no value


def told(line):
    """A line of the log, without what differs each time."""
    return re.sub(r'^\S+ | path="[^"]*"', "", line)


def is_reported(seen):
    return seen.faults > 0 or seen.check is not None


class Tally:
    """Makes trials and counts what they come to, by the kind of damage; keeps some cases to be looked at."""

    KEPT_MAX = 5  # of each kind

    def __init__(self, program, folder, keep):
        self.program, self.folder, self.keep = program, folder, keep
        self.looker = Looker(program)
        self.counts, self.failures = {}, {}
        if keep:
            os.makedirs(keep, exist_ok=True)

    def copy(self, store, data):
        """A copy of a store with other bytes."""
        copies = Files([os.path.join(self.folder, f"copy{number}") for number in range(len(store.files.paths))])
        copies.write(data)
        return copies.name()

    def undamaged(self, store):
        """What there is to be seen when nothing is damaged, and what the keys hold then."""
        looks = [self.looker.look(how + ",cache" * store.cache, self.copy(store, store.data)) for how in ("read", "write")]
        for seen in looks:
            if seen.refusal or seen.errors or seen.scan:
                raise Failure(f"without any damage it has {seen}")
        return {"said": sorted({told(line) for seen in looks for line in seen.log}),
                "before": {key: looks[0].found.get(key, 0) for key in store.held}}

    def run(self, kind, store, damage, **expected):
        """Try a copy of a store in which the bytes at some offsets, of all its files one behind the other, are others."""
        data = bytearray(store.data)
        for offset, value in damage.items():
            data[offset] = value
        case = {"kind": kind, "ending": store.ending, "mode": store.mode, "cache": store.cache,
                "allowed": store.allowed(), "files": len(store.files.paths), "touched": None, "before": None, "read": False,
                "storable": store.storable(damage),
                **{name: sorted(keys) if isinstance(keys, set) else keys for name, keys in expected.items()}}
        trial = Trial(self.looker, self.copy(store, data), case)
        try:
            trial.run()
        except Failure as failure:
            trial.fault(DIED, str(failure))
            self.looker = Looker(self.program)
        counts = self.counts.setdefault(kind, dict.fromkeys(("trials",) + OUTCOMES + FAULTS, 0))
        counts["trials"] += 1
        for found in trial.found & set(FAULTS) or {trial.outcome()}:
            counts[found] += 1
        if trial.failed():
            self.note(case, store, data, trial)

    def note(self, case, store, data, trial):
        kind = case["kind"]
        self.failures[kind] = number = self.failures.get(kind, 0) + 1
        if number > self.KEPT_MAX:
            return
        print(f"# {kind}, {store.ending}, {store.mode}{', stripe' * (case['files'] > 1)}{', cache' * store.cache}: "
              f"{trial.sentences[0]}", flush=True)
        if not self.keep:
            return
        changed = [offset for offset in range(len(data)) if data[offset] != store.data[offset]]
        case["damage"] = {offset: [store.data[offset], data[offset]] for offset in changed}
        case["sentences"] = trial.sentences
        name = os.path.join(self.keep, f"{kind}-{number}")
        Files([f"{name}.{file}" for file in range(case["files"])]).write(data)
        Files([f"{name}.{file}.undamaged" for file in range(case["files"])]).write(store.data)
        with open(name + ".json", "w", encoding="ascii") as file:
            json.dump(case, file, indent=1)

    def report(self, sentence):
        """Print the table and a line for each kind. @return the exit status"""
        names = ("trials",) + OUTCOMES + FAULTS
        print(f"# {'':20}" + "".join(f"{name:>9}" for name in names))
        for kind, counts in self.counts.items():
            print(f"# {kind:20}" + "".join(f"{counts[name]:9}" for name in names))
        for kind in self.counts:
            print("not ok" if kind in self.failures else "ok", f"- {sentence}: {kind}")
        self.looker.__exit__()
        return 1 if self.failures or not self.counts else 0


def again(program, path, folder):
    """Try a case that was kept once more. @return the exit status"""
    with open(path, encoding="ascii") as file:
        case = json.load(file)
    kept = Files([f"{path.removesuffix('.json')}.{number}" for number in range(case["files"])])
    copies = Files([os.path.join(folder, f"copy{number}") for number in range(case["files"])])
    copies.write(kept.read())
    with Looker(program) as looker:
        trial = Trial(looker, copies.name(), case).run()
    print("\n".join(f"# {sentence}" for sentence in trial.sentences) or f"# {trial.outcome()}")
    return 1 if trial.failed() else 0


class Arguments:
    """PROGRAM [COUNT [SEED]] and --NAME=VALUE."""

    def __init__(self, arguments, count):
        self.program, *words = [word for word in arguments if not word.startswith("--")]
        self.options = dict(word[2:].split("=", 1) for word in arguments if word.startswith("--"))
        self.count = int(words[0]) if words else count
        self.seed = int(words[1]) if len(words) > 1 else random.SystemRandom().randrange(1 << 32)

    def rng(self):
        print(f"# seed {self.seed}", flush=True)
        return random.Random(self.seed)
