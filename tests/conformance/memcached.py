#!/usr/bin/python3
"""Is everything answered byte for byte as Debian's memcached answers it, but for what is listed here?

    memcached.py TARN

Each conversation goes to both servers, on a connection of its own, and ends by closing it. Not compared,
with the reason:

- the version, and the numbers that `gets` tells: they are each server's own
- commands that the server does not know yet: append, prepend, incr, decr, gat, gats, the meta commands, and
  memcached's own housekeeping (lru, slabs, watch, ...)
- client flags above 32 bits, and times that do not fit 32 bits: memcached cuts them off, Tarn refuses the
  former and understands the latter
- a value that is too large: memcached removes what the key held before; here a refused write changes nothing
- times of a few seconds, which memcached rounds: there a flush_all in one second is one now
- the binary protocol, which a first byte of 0x80 announces
- a get with a key that is too long, behind other requests: memcached forgets the answers to those; and in
  a line longer than 16 KiB: here the answers to the keys before it are on their way
"""

import random
import re
import sys

import serving
from serving import Memcached, Tarn, converse, expect

K250 = b"k" * 250
K251 = b"k" * 251

# A blank line parts requests for the eye only: each entry is one conversation.
CORPUS = [
    b"\r\n", b"\n", b" \r\n", b"\t\r\n", b"\0\r\n", b"foo\r\n", b"foo bar\r\n", b"version", b"version\r", b"VERSION\r\n",
    b"get\r\n", b"get \r\n", b"get a\r\n", b"get a\n", b"GET a\r\n", b"get  a   b \r\n", b" get a\r\n", b"gets\r\n",
    b"gets a a\r\n", b"get noreply\r\n", b"getx a\r\n", b"get a\r\r\n", b"get a\tb\r\n",
    b"get " + K250 + b"\r\n", b"get " + K251 + b"\r\n", b"get a " + K251 + b" a\r\nversion\r\n",
    b"gets " + K251 + b"\r\n",
    b"get " + b"a " * 3000 + b"\r\n", b"get " + b"zzz " * 30000 + b"\r\n", b"get a" + b" " * 1500 + b"\r\n",
    b"set a 0 0 1\r\nx\r\n" + b"get " + b"a " * 20000 + b"\r\n", b"set a 0 0 1\r\nx\r\n" + b"get a b\r\n" * 300,
    b"set a 0 0 1\r\nx\r\nget a\r\n", b"set a 0 0 1\nx\r\nget a\r\n", b"set a 0 0 1\r\nx\nget a\r\n",
    b"set a 0 0 1\r\nxy\r\nget a\r\n", b"set a 0 0 3\r\nxyzabc\r\nget a\r\n", b"set a 0 0 1 noreply\r\nx\r\nget a\r\n",
    b"set a 0 0 1 foo\r\nx\r\nget a\r\n", b"set a 0 0\r\nx\r\n", b"set a 0 0 -1\r\nx\r\n", b"set a -1 0 1\r\nx\r\n",
    b"set a 4294967295 0 1\r\nx\r\nget a\r\n", b"set a 0 abc 1\r\nx\r\n", b"set a 0 -1 1\r\nx\r\nget a\r\n",
    b"set a 0 0 abc\r\nx\r\n", b"set a 0 0 1x\r\nx\r\n", b"set a 0 0  1\r\nx\r\nget a\r\n", b" set a 0 0 1\r\nx\r\n",
    b"set " + K250 + b" 0 0 1\r\nx\r\nget " + K250 + b"\r\n", b"set " + K251 + b" 0 0 1\r\nx\r\n",
    b"set " + K251 + b" 0 0 1 noreply\r\nx\r\nversion\r\n", b"set a 0 0 0\r\n\r\nget a\r\n",
    b"set a 0 0 2\r\n\r\n\r\nget a\r\n", b"set a 0 0 5\r\nabc\r\nversion\r\n\r\n", b"set a 0 0 1 noreply\r\nxyz\r\nversion\r\n",
    b"set a 0 x 1 noreply\r\nx\r\nversion\r\n", b"set a 0 0 1 noreply x\r\nx\r\n", b"set a 0 0 1 x noreply\r\nx\r\n",
    b"set a 0 0 1 1 1 1 1\r\nx\r\n", b"set a 0 0 01\r\nx\r\n", b"set a +1 0 1\r\nx\r\nget a\r\n", b"set a 0 +1 1\r\nx\r\n",
    b"set a 0x10 0 1\r\nx\r\n", b"set a 0 0 1\r\r\nx\r\n", b"set a b\0c 0 0 1\r\nx\r\n", b"set \x81\xff 0 0 1\r\nx\r\nget \x81\xff\r\n",
    b"set a\tb 0 0 1\r\nx\r\nget a\tb\r\n", b"set a 0 0 2147483646\r\nx\r\n",
    b"set a 0 0 2147483647\r\nx\r\n", b"set a 0 0 2147483648\r\nx\r\n", b"set a 0 0 99999999999999999999\r\nx\r\n",
    b"set a 0 2592000 1\r\nx\r\nget a\r\n", b"set a 0 2592001 1\r\nx\r\nget a\r\n", b"set a 0 1234567890 1\r\nx\r\nget a\r\n",
    b"set a 0 2147483647 1\r\nx\r\nget a\r\n", b"set a 0 9223372036854775808 1\r\nx\r\n", b"set\r\n", b"set a\r\n", b"se a 0 0 1\r\n",
    b"set a 0 0 1048516\r\n" + b"x" * 1048516 + b"\r\nget a\r\n", b"set a 0 0 1048517\r\n" + b"x" * 1048517 + b"\r\nversion\r\n",
    b"set a 5 0 1048512\r\n" + b"x" * 1048512 + b"\r\nget a\r\n", b"set a 5 0 1048513\r\n" + b"x" * 1048513 + b"\r\nversion\r\n",
    b"set a 0 0 9999999 noreply\r\nx\r\n", b"set a 0 0 500000\r\n" + b"y" * 500000 + b"\r\nget a\r\ngets a\r\n",
    b"add a 0 0 1\r\nx\r\nadd a 0 0 1\r\ny\r\nget a\r\n", b"replace zz 0 0 1\r\nx\r\nset zz 0 0 1\r\nx\r\nreplace zz 0 0 1\r\ny\r\nget zz\r\n",
    b"add a 0 0 1 noreply\r\nx\r\nadd a 0 0 1 noreply\r\ny\r\nget a\r\n", b"add a\r\n", b"replace\r\n",
    b"cas a 0 0 1 0\r\nx\r\n", b"set a 0 0 1\r\nx\r\ncas a 0 0 1 0\r\nx\r\n", b"cas a 0 0 1\r\nx\r\n", b"cas a 0 0 1 abc\r\nx\r\n",
    b"cas a 0 0 1 1 noreply\r\nx\r\nversion\r\n", b"cas a 0 0 1 1 x\r\nx\r\n", b"cas a 0 0 1 1 x y\r\nx\r\n",
    b"cas a 0 0 1 1 noreply x\r\nx\r\n", b"cas a 0 0 1 -1\r\nx\r\n", b"cas a 0 0 1 18446744073709551616\r\nx\r\n", b"cas\r\n",
    b"set a 0 0 1\r\nx\r\ndelete a\r\nget a\r\n", b"delete a\r\n", b"delete a 0\r\n", b"delete a 1\r\n", b"delete a 0 0\r\n",
    b"delete a noreply\r\nversion\r\n", b"delete a 0 noreply\r\nversion\r\n", b"delete a 1 noreply\r\nversion\r\n", b"delete\r\n",
    b"delete noreply\r\n", b"delete a noreply x\r\nversion\r\n", b"delete " + K251 + b"\r\n", b"delete " + K251 + b" 1\r\n", b"delete a b c d\r\n",
    b"set a 0 0 1\r\nx\r\ntouch a 0\r\ntouch a -1\r\nget a\r\ntouch a 1\r\n", b"touch\r\n", b"touch a\r\n", b"touch a abc\r\n",
    b"touch nokey 10\r\n", b"touch a 10 noreply\r\nversion\r\n", b"touch a 10 x\r\n", b"touch " + K251 + b" 1\r\n", b"touch a 1 2 3\r\n",
    b"touch a noreply\r\nversion\r\n", b"set a 7 0 3\r\nabc\r\ntouch a 100\r\nget a\r\n",
    b"flush_all\r\n", b"flush_all 0\r\n", b"flush_all noreply\r\nversion\r\n", b"flush_all 0 noreply\r\nversion\r\n", b"flush_all abc\r\n",
    b"flush_all -1\r\n", b"flush_all 0 0\r\n", b"flush_all 1 2 3\r\n", b"flush_all foo noreply\r\nversion\r\n", b"flush_all 0 foo\r\n",
    b"flush_all noreply 0\r\n", b"flush_all -1 noreply\r\n", b"set a 0 0 1\r\nx\r\nflush_all 1000\r\nget a\r\nflush_all 1000\r\n",
    b"version\r\n", b"version x\r\n", b"version noreply\r\n", b"quit\r\nversion\r\n", b"quit x\r\nversion\r\n", b"quitx\r\n",
    b"verbosity\r\n", b"verbosity 0\r\n", b"verbosity 0 noreply\r\nversion\r\n", b"verbosity foo\r\n", b"verbosity 1 2\r\n",
    b"verbosity 1 2 3\r\n", b"verbosity noreply\r\nversion\r\n", b"verbosity -1\r\n", b"verbosity x noreply\r\n", b"verbosity 4294967296\r\n",
    b"stats reset\r\n", b"stats reset x\r\n", b"stats foo\r\n", b"STATS\r\n", b"shutdown\r\n", b"shutdown graceful\r\n",
    b"a" * 2047, b"a" * 5000, b"a" * 100000, b"set " + b"a" * 3000 + b" 0 0 1", b"set a 0 0 10\r\nabc", b"set a 0 0 100000\r\n" + b"z" * 50000,
]

WORDS = [b"a", b"b", b"c", K250, K251, b"0", b"1", b"5", b"10", b"-1", b"100", b"abc", b"noreply", b"", b"+3", b"7x", b"2592000", b"2147483647"]
COMMANDS = [b"get", b"gets", b"set", b"add", b"replace", b"cas", b"delete", b"touch", b"flush_all", b"version", b"verbosity", b"sets", b"Get"]
# Ends whatever value may be unfinished: memcached keeps answers back while it waits for one, and in the end drops them.
TAIL = b"\r\n" * 60
LENGTHS = {b"0": 0, b"1": 1, b"5": 5, b"10": 10, b"100": 100}


def random_request(rng):
    """A request that is likely to make sense, or a little less."""
    command = rng.choice(COMMANDS)
    if command in (b"set", b"add", b"replace", b"cas") and rng.random() < 0.7:
        length = rng.choice(list(LENGTHS))
        words = [rng.choice(WORDS[:3]), rng.choice([b"0", b"5"]), rng.choice([b"0", b"0", b"100", b"-1"]), length]
        words += [b"1"] if command == b"cas" else []
        words += [b"noreply"] if rng.random() < 0.2 else []
        value = bytes(rng.choice(b"xyz\r\n ") for _ in range(LENGTHS[length] + rng.choice([0, 0, 0, 0, 0, -1, 1])))
        return b" ".join([command, *words]) + b"\r\n" + value + b"\r\n"
    words = [rng.choice(WORDS) for _ in range(rng.randrange(5))]
    if command in (b"get", b"gets"):
        words = [word for word in words if word != K251]
    if command == b"flush_all":
        words = [word for word in words if word not in (b"1", b"5", b"10", b"+3")]
    return b" ".join([command, *words]) + rng.choice([b"\r\n", b"\r\n", b"\r\n", b"\n"])


def normal(answer):
    answer = re.sub(rb"VERSION [0-9.]+\r\n", b"VERSION\r\n", answer)
    return re.sub(rb"(VALUE \S+ \d+ \d+) \d+\r\n", rb"\1 #\r\n", answer)


def difference(found, wanted):
    """Where two answers part, with the lines around it."""
    found, wanted = found.split(b"\r\n"), wanted.split(b"\r\n")
    at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), min(len(found), len(wanted)))
    return f"\n  tarn      {short(found[max(0, at - 2):at + 3])}\n  memcached {short(wanted[max(0, at - 2):at + 3])}"


def short(text):
    text = repr(text).replace("k" * 250, "K")
    return text if len(text) < 1500 else text[:1000] + "..." + text[-400:]


def compare(tarn, memcached, said):
    for server in (tarn, memcached):
        converse(server.address, b"flush_all\r\n")
        # memcached counts time in seconds, and what is stored in the second of a flush may be flushed
        converse(server.address, b"delete a\r\ndelete b\r\ndelete c\r\ndelete zz\r\ndelete " + K250 + b"\r\n")
    found, wanted = normal(converse(tarn.address, said)), normal(converse(memcached.address, said))
    expect(found == wanted, short(said) + difference(found, wanted))


def the_corpus(tarn, memcached):
    for said in CORPUS:
        compare(tarn, memcached, said)


def random_conversations(tarn, memcached):
    rng = random.Random(4)
    for _ in range(400):
        compare(tarn, memcached, b"".join(random_request(rng) for _ in range(rng.randrange(1, 25))) + TAIL)


def cut_anywhere(tarn, _):
    """The network may cut a conversation anywhere: the answer is the same."""
    rng = random.Random(5)
    said = b"".join(random_request(rng) for _ in range(60)) + b"quit\r\n"
    whole = None
    for step in (len(said), 1, 2, 7, 50):
        converse(tarn.address, b"flush_all\r\n")
        with serving.Connection(tarn.address) as connection:
            answer = b""
            for at in range(0, len(said), step):
                connection.send(said[at:at + step])
            while data := connection.socket.recv(1 << 16):
                answer += data
        whole = whole or normal(answer)
        expect(normal(answer) == whole, f"in pieces of {step}: {short(answer)} instead of {short(whole)}")


def main():
    with serving.folder() as folder, Tarn(sys.argv[1], f"{folder}/store", "--mode=device") as tarn, \
            Memcached("-m", "64") as memcached:
        serving.run([the_corpus, random_conversations, cut_anywhere], tarn, memcached)


if __name__ == "__main__":
    main()
