"""Clients of a server that will be killed, which know what each of their keys holds, and what it may hold.

A client has keys of its own and one connection. The server executes the requests of a connection in order, so every
answer is known beforehand, and one answer tells that all requests before it are done. What was asked for and not
answered when the server died may have happened, as far as it got: `pending` has the states in their order.
"""

import random
import re
import threading
import time
from typing import Callable, NamedTuple, Optional

import serving
from serving import Connection, expect

KEYS = 40  # of each client
COLD_KEYS = 12  # of them, which are seldom asked for: the mode `async` must not lose what is old
ASYNC_NS = 1_250_000_000  # in the mode `async`, what was acknowledged earlier is there


class Held(NamedTuple):
    """What a key holds. The cas unique is known only after the server has told it."""
    value: bytes
    flags: int
    unique: Optional[int] = None


class Step(NamedTuple):
    """A request: its bytes, and what follows from what the key holds: the answer (None for none), and what it holds
    afterwards. A `#` in an answer is a number that only the server knows: the key's unique afterwards."""
    said: bytes
    outcome: Callable


def same(one, other):
    """Whether two states agree, as far as they are known."""
    if one is None or other is None:
        return one is other
    return one[:2] == other[:2] and (one.unique is None or other.unique is None or one.unique == other.unique)


class Worker:
    """Has a connection and a thread, and works until the server dies."""
    failure = None

    def begin(self, address, mode):
        self.mode = mode
        self.connection = Connection(address)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            self.work()
        except OSError:
            pass  # the server was killed
        except serving.Failure as failure:
            self.failure = failure
        finally:
            self.connection.socket.close()

    def join(self):
        self.thread.join(serving.PATIENCE)
        expect(not self.thread.is_alive(), f"a {type(self).__name__.lower()} waits for ever")
        if self.failure:
            raise self.failure


class Client(Worker):
    counts = [1, 1, 1, 4, 16]  # requests at once
    value_bytes = [0, 10, 100, 1000, 5000, 20000]
    value_bytes_max = 60000  # of what is appended to

    def __init__(self, number, seed, cache=False, keys=KEYS):
        self.rng = random.Random(seed)
        self.cache = cache
        self.if_evicted = {}  # what the requests under way leave where a cache has made room of what was there
        self.history = {b"%d/%d" % (number, key): [(None, 0)] for key in range(keys)}
        self.keys = list(self.history)
        self.weights = [0.01] * COLD_KEYS + [1] * (keys - COLD_KEYS) if keys > COLD_KEYS else [1] * keys
        self.pending = []
        self.writes = 0
        self.acknowledged = 0
        self.turn = threading.Lock()  # held while requests are under way; a flush takes those of all clients,
        self.must_wait = threading.Event()  # and asks for them

    def holds(self, key):
        return self.history[key][-1][0]

    def end(self, died_ns):
        """The server is dead. What was acknowledged shortly before may be lost in the mode `async`."""
        self.join()
        if self.mode != "async":
            self.history = {key: history[-1:] for key, history in self.history.items()}
        for key, history in self.history.items():
            sure = [entry for entry in history if entry[1] <= died_ns - ASYNC_NS]
            self.history[key] = sure[-1:] + history[len(sure):]

    def work(self):
        while True:
            while self.must_wait.is_set():
                time.sleep(0.001)
            with self.turn:
                self.converse()

    def value(self):
        self.writes += 1
        return b"%d:" % self.writes + b"x" * self.rng.choice(self.value_bytes)

    def converse(self):
        """Some requests at once, then their answers; the last one always has an answer."""
        count = self.rng.choice(self.counts)
        keys = self.rng.choices(self.keys, self.weights, k=count)
        if self.cache:
            keys = list(dict.fromkeys(keys))  # each once: a state under way may be gone before the next request
        states = {key: self.holds(key) for key in keys}
        steps, self.if_evicted = [], {}
        for key in keys:
            step = self.rng.choice(KINDS)(self, key, states[key])
            answer, states[key] = step.outcome(states[key])
            outcomes = [(answer, states[key])] + ([step.outcome(None)] if self.cache else [])
            steps.append((key, step, outcomes))
            self.pending.append((key, states[key]))
            self.if_evicted[key] = outcomes[-1][1]
        last, answer = self.rng.choice([(b"mn\r\n", b"MN\r\n"), (b"verbosity 1\r\n", b"OK\r\n")])
        self.connection.send(b"".join(step.said for _, step, _ in steps) + last)
        for done, (key, step, outcomes) in enumerate(steps, 1):
            if outcomes[0][0] is not None:
                self.pending[len(self.pending) - len(steps) + done - 1] = (key, self.hear(step.said, outcomes))
                self.settle(len(steps) - done)
        self.hear(last, [(answer, None)])
        self.settle(0)

    def hear(self, said, outcomes):
        """Expect one of some answers. @return what the key holds, with its unique if that was told"""
        line = self.connection.line() + b"\r\n"
        found = []
        for answer, held in outcomes:
            first, rest = split_line(answer)
            match = re.fullmatch(re.escape(first).replace(b"\\#", rb"(\d+)"), line)
            if match:
                found.append((rest, held._replace(unique=int(match.group(1))) if match.groups() and held else held))
        rest = self.connection.bytes(len(found[0][0])) if found else b""
        found = [held for wanted, held in found if wanted == rest]
        expect(found, f"the answer to {short(said)} is {short(line + rest)} instead of {', or '.join(str(short(answer)) for answer, _ in outcomes)}")
        return found[0]

    def settle(self, left):
        """All requests but so many are done."""
        now_ns = time.monotonic_ns()
        while len(self.pending) > left:
            key, held = self.pending.pop(0)
            self.acknowledged += not same(held, self.holds(key))
            self.history[key].append((held, now_ns))
            if self.mode != "async":
                del self.history[key][:-1]

    def flushed(self):
        """Everything is gone, and that was acknowledged."""
        for history in self.history.values():
            history.append((None, time.monotonic_ns()))

    def may_be_flushed(self):
        self.pending = [(key, None) for key in self.history]

    def check(self, connection):
        """After a restart. What is found is certain from now on."""
        possible = {key: [held for held, _ in history] for key, history in self.history.items()}
        for key, held in self.pending:
            possible[key] += [held, self.if_evicted.get(key, held)]
        for key, states in possible.items():
            found = look(connection, key)
            allowed = any(same(found, state) for state in states) or (self.cache and found is None)
            expect(allowed, f"after the kill in mode {getattr(self, 'mode', 'none')} {key!r} is {told(found)}; it could be "
                            f"{', or '.join(map(told, states))}")
            self.history[key] = [(found, 0)]
        self.pending = []


def split_line(answer):
    end = answer.index(b"\r\n") + 2
    return answer[:end], answer[end:]


def look(connection, key):
    line = connection.ask(b"gets " + key + b"\r\n")
    if line == b"END":
        return None
    words = line.split(b" ")
    expect(words[:2] == [b"VALUE", key] and len(words) == 5, f"gets answered {line!r}")
    value = connection.bytes(int(words[3]))
    expect(connection.bytes(7) == b"\r\nEND\r\n", "a value does not end as it should")
    return Held(value, int(words[2]), int(words[4]))


def told(held):
    return "nothing" if held is None else f"{short(held.value)} with flags {held.flags}, unique {held.unique}"


def short(text):
    return text if len(text) < 90 else text[:80] + b"...(%d)" % len(text)


class Flusher(Worker):
    """Flushes everything now and then, while nothing else is under way: then it is known what every key may hold."""

    def __init__(self, clients, seed):
        self.clients = clients
        self.rng = random.Random(seed)

    def begin(self, address, mode):
        self.ended = threading.Event()
        super().begin(address, mode)

    def work(self):
        while not self.ended.wait(self.rng.uniform(0.05, 1)):
            self.flush()

    def flush(self):
        for client in self.clients:
            client.must_wait.set()
        for client in self.clients:
            client.turn.acquire()
        try:
            if any(client.pending for client in self.clients):
                raise ConnectionError("the server was killed; what they asked for is not known")
            for client in self.clients:
                client.may_be_flushed()
            answer = self.connection.ask(self.rng.choice([b"flush_all\r\n", b"flush_all 0\r\n", b"flush_all noreply\r\nverbosity 1\r\n"]))
            expect(answer == b"OK", f"flush_all answered {answer!r}")
            for client in self.clients:
                client.flushed()
                client.pending = []
        finally:
            for client in self.clients:
                client.must_wait.clear()
                client.turn.release()

    def end(self, _):
        self.ended.set()
        self.join()


# The kinds of requests. Each is chosen by what the key is thought to hold, and knows what follows from whatever it does.

def told_value(key, held, unique=b""):
    return b"END\r\n" if held is None else b"VALUE %s %d %d%s\r\n%s\r\nEND\r\n" % (key, held.flags, len(held.value), unique, held.value)


def get(_client, key, _held):
    return Step(b"get %s\r\n" % key, lambda held: (told_value(key, held), held))


def gets(_client, key, _held):
    return Step(b"gets %s\r\n" % key, lambda held: (told_value(key, held, b" #"), held))


def gat(client, key, _held):
    return Step(b"gat %d %s\r\n" % (client.rng.choice([0, 1000]), key), lambda held: (told_value(key, held), held))


def gats(client, key, _held):
    return Step(b"gats %d %s\r\n" % (client.rng.choice([0, 1000]), key), lambda held: (told_value(key, held, b" #"), held))


def silently(client, harmless=False):
    """Whether to ask for no answer. A cache may have lost the value, so that only the answer tells what was done."""
    return (harmless or not client.cache) and client.rng.random() < 0.2


def store(client, key, _held, command=None):
    command = command or client.rng.choice([b"set", b"set", b"set", b"add", b"replace"])
    new = Held(client.value() if client.rng.random() < 0.7 else b"%d" % client.rng.getrandbits(64), client.rng.choice([0, 0, 5, 2 ** 32 - 1]))
    noreply = silently(client, command == b"set")
    said = b"%s %s %d %d %d%s\r\n%s\r\n" % (command, key, new.flags, client.rng.choice([0, 0, 1000]), len(new.value), b" noreply" if noreply else b"", new.value)

    def outcome(held):
        stored = command == b"set" or (command == b"add") == (held is None)
        return None if noreply else b"STORED\r\n" if stored else b"NOT_STORED\r\n", new if stored else held
    return Step(said, outcome)


def joined(held, value, behind):
    return Held(held.value + value if behind else value + held.value, held.flags)


def append(client, key, held):
    if held is not None and len(held.value) > client.value_bytes_max:
        return store(client, key, held, b"set")
    behind, value, noreply = client.rng.random() < 0.5, b"<%d>" % client.rng.randrange(1000), silently(client)
    said = b"%s %s 0 0 %d%s\r\n%s\r\n" % (b"append" if behind else b"prepend", key, len(value), b" noreply" if noreply else b"", value)

    def outcome(held):
        answer = b"NOT_STORED\r\n" if held is None else b"STORED\r\n"
        return None if noreply else answer, held and joined(held, value, behind)
    return Step(said, outcome)


def cas(client, key, held):
    if held is not None and held.unique is None:
        return gets(client, key, held)
    unique = held.unique if held is not None and client.rng.random() < 0.8 else 1
    new = Held(client.value(), client.rng.choice([0, 9]))

    def outcome(held):
        if held is None:
            return b"NOT_FOUND\r\n", None
        return (b"STORED\r\n", new) if held.unique == unique else (b"EXISTS\r\n", held)
    return Step(b"cas %s %d 0 %d %d\r\n%s\r\n" % (key, new.flags, len(new.value), unique, new.value), outcome)


def counted(held, delta, up):
    """What incr and decr make of a value: the number, and what is held; or None. A shorter number is filled up with
    blanks."""
    text = re.match(rb"(\d+)(?: |$)", held.value)  # what stands behind a blank does not count
    if not text or int(text.group(1)) >= 2 ** 64:
        return None
    number = (int(text.group(1)) + delta) % 2 ** 64 if up else max(int(text.group(1)) - delta, 0)
    return number, Held((b"%d" % number).ljust(len(held.value)), held.flags)


NON_NUMERIC = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"


def count(client, key, _held):
    up, delta, noreply = client.rng.random() < 0.6, client.rng.getrandbits(client.rng.choice([1, 8, 63])), silently(client)

    def outcome(held):
        done = held and counted(held, delta, up)
        answer = b"NOT_FOUND\r\n" if held is None else b"%d\r\n" % done[0] if done else NON_NUMERIC
        return None if noreply else answer, done[1] if done else held
    return Step(b"%s %s %d%s\r\n" % (b"incr" if up else b"decr", key, delta, b" noreply" if noreply else b""), outcome)


def delete(client, key, _held):
    noreply = silently(client, True)
    return Step(b"delete %s%s\r\n" % (key, b" noreply" if noreply else b""),
                lambda held: (None if noreply else b"NOT_FOUND\r\n" if held is None else b"DELETED\r\n", None))


def touch(client, key, _held):
    time_said = client.rng.choice([0, 1000, 1000, -1])
    return Step(b"touch %s %d\r\n" % (key, time_said),
                lambda held: (b"NOT_FOUND\r\n" if held is None else b"TOUCHED\r\n", None if time_said < 0 else held))


def meta_set(client, key, held):
    mode, quiet = client.rng.choice([b"S", b"S", b"S", b"E", b"R", b"A", b"P"]), silently(client)
    if mode in b"AP" and held is not None and len(held.value) > client.value_bytes_max:
        mode = b"S"
    new = Held(client.value() if mode not in b"AP" else b"<%d>" % client.rng.randrange(1000), client.rng.choice([0, 3]))
    said = b"ms %s %d M%s F%d T%d%s\r\n%s\r\n" % (key, len(new.value), mode, new.flags, client.rng.choice([0, 1000]), b" q" if quiet else b" c", new.value)

    def outcome(held):
        if mode != b"S" and (mode == b"E") != (held is None):
            return b"NS\r\n" if quiet else b"NS c0\r\n", held
        return None if quiet else b"HD c#\r\n", joined(held, new.value, mode == b"A") if mode in b"AP" else new
    return Step(said, outcome)


def meta_delete(client, key, _held):
    quiet, invalidate = silently(client), client.rng.random() < 0.3  # a quiet md tells its misses
    said = b"md %s%s%s\r\n" % (key, b" q" if quiet else b"", b" I" if invalidate else b"")

    def outcome(held):
        if held is None:
            return b"NF\r\n", None
        return None if quiet else b"HD\r\n", held._replace(unique=None) if invalidate else None
    return Step(said, outcome)


def meta_count(client, key, _held):
    up, delta, first = client.rng.random() < 0.6, client.rng.getrandbits(client.rng.choice([1, 8, 63])), client.rng.getrandbits(40)

    def outcome(held):
        done = (first, Held(b"%d" % first, 0)) if held is None else counted(held, delta, up)
        if done is None:
            return NON_NUMERIC, held
        text = b"%d" % done[0]
        return b"VA %d c#\r\n%s\r\n" % (len(text), text), done[1]
    return Step(b"ma %s N0 J%d D%d M%s v c\r\n" % (key, first, delta, b"I" if up else b"D"), outcome)


def meta_unique(client, key, _held):
    """A unique of the client's own choice."""
    new = Held(client.value(), 0, 2 ** 63 + client.rng.getrandbits(60))
    return Step(b"ms %s %d E%d\r\n%s\r\n" % (key, len(new.value), new.unique, new.value), lambda held: (b"HD\r\n", new))


KINDS = [get, gets, gets, store, store, store, store, cas, cas, delete, touch, append, append, count, count, gat, gats, meta_set, meta_set, meta_delete,
         meta_count, meta_unique]
