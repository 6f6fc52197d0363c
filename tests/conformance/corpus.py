"""Conversations over memcached's commands: what a client may say, and what it should not.

Each is some bytes, said on a connection of its own that is closed at the end. They may contain marks:

    <cas1>    the first cas unique that the conversation has been told, <cas2> the second that differs, ...;
              <cas1-1> and <cas1+1> are one below and above it
    <now+60>  a point in time; <start-30> is half a minute before the servers were started

corpus_meta.py has those of the meta commands.
"""

import random

K250 = b"k" * 250
K251 = b"k" * 251

# Ends whatever value may be unfinished: memcached keeps answers back while it waits for one, and in the end drops them.
TAIL = b"\r\n" * 8
LONG_TAIL = b"\r\n" * 60

# What a key holds beforehand.
PRESETS = {"missing": b"", "text": b"set a 3 0 3\r\nabc\r\n", "number": b"set a 3 0 2\r\n17\r\n"}
AFTERWARDS = b"get a b\r\n"

# Words where a number is expected. Most of them are no number, or one that is too large.
NUMBERS = [b"0", b"1", b"7", b"-0", b"-1", b"+1", b"01", b"000000000000000000000001", b"0x1", b"1x", b"x", b"1.5", b"1e3", b"--1",
           b"+-1", b"-", b"+", b"1,", b"\t1", b"1\t2", b"\x0b1", b"1\x0c", b"2147483647", b"2147483648", b"4294967295",
           b"4294967296", b"9223372036854775807", b"9223372036854775808", b"18446744073709551615",
           b"18446744073709551616", b"99999999999999999999999", b"-2147483648", b"-2147483649",
           b"-9223372036854775808", b"-9223372036854775809", b"noreply", b"\xff", b"1\xff"]
BELOW = b"-9223372036854775809"  # memcached's decr takes it for a positive number
TIMES = [b"10", b"2592000", b"2592001", b"1234567890", b"<now+60>", b"<now-60>", b"<now+3000000>"]
KEYS = [K250, K251, b"k" * 300, b"a\tb", b"\x01", b"a\x7fb", b"\xc3\xa9", b"\xff", b"\0", b"a\0b", b"noreply", b"0", b"-1", b"a\rb"]

NOREPLY = [b"noreply", b"NOREPLY", b"norepl", b"noreplyy", b"no reply", b"noreply 0", b"0 noreply", b"noreply noreply", b"noreply\t",
           b"\tnoreply", b"noreply\0"]


def misshapen(words):
    """A request's line with words missing, doubled, misspelt, and ended in other ways."""
    line = b" ".join(words)
    for count in range(len(words)):
        yield b" ".join(words[:count]) + b"\r\n"
        yield b" ".join(words[:count]) + b" \r\n"
    for extra in (b"x", b"0", b"x y", b"1 2 3", b"a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g"):
        yield line + b" " + extra + b"\r\n"
    for noreply in NOREPLY:
        yield line + b" " + noreply + b"\r\n"
    for at in range(1, len(words)):
        yield b" ".join(words[:at] + [b"noreply"] + words[at:]) + b"\r\n"
        yield b" ".join(words[:at] + [b"noreply"] + words[at + 1:]) + b"\r\n"
    for written in (line.replace(b" ", b"  "), b" " + line, b"  " + line, line + b" ", line + b"  ", line.replace(b" ", b"\t"),
                    line.replace(b" ", b" \t "), b"\t" + line, line + b"\t", line + b"\0", line + b"\0x", line + b"\r"):
        yield written + b"\r\n"
    yield line + b"\n"
    yield line + b"\n\r"
    command = words[0]
    for name in (command.upper(), command.capitalize(), command[:-1], command + b"x", command + b"s", b"x" + command,
                 command + b"\0", command + b"\r"):
        yield b" ".join([name] + words[1:]) + b"\r\n"


def with_words(words, at, replacements):
    for replacement in replacements:
        yield b" ".join(words[:at] + [replacement] + words[at + 1:]) + b"\r\n"


def storage_lines(command):
    words = [command, b"a", b"5", b"0", b"2"] + ([b"<cas1>"] if command == b"cas" else [])
    yield from misshapen(words)
    yield from with_words(words, 1, KEYS)
    yield from with_words(words, 2, NUMBERS)
    yield from with_words(words, 3, NUMBERS + TIMES)
    yield from with_words(words, 4, NUMBERS + [b"3", b"2147483644", b"2147483645", b"2147483646", b"1048577"])
    if command == b"cas":
        yield from with_words(words, 5, NUMBERS + [b"<cas1-1>", b"<cas1+1>"])


def storage(command):
    """set, add, replace, append, prepend, cas."""
    learn = b"gets a\r\n" if command == b"cas" else b""
    for line in storage_lines(command):
        for preset in (PRESETS["missing"], PRESETS["text"]):
            if preset or b"<cas" not in line:
                yield preset + (learn if preset else b"") + line + b"xy\r\n" + TAIL + AFTERWARDS
    line = b"%b a 5 0 3%b" % (command, b" <cas1>" if command == b"cas" else b"")
    for noreply in (b"", b" noreply"):
        for value in (b"xyz\r\n", b"xyz\n", b"xyz\r", b"xyz", b"xy\r\n", b"x\r\n", b"\r\n", b"", b"xyzz\r\n", b"xyzzz\r\n", b"xyz \r\n",
                      b"\r\n\r\r\n", b"\n\n\n\r\n", b"\0\0\0\r\n", b"xyz\r\r\n", b"xyz\0\n", b"get\r\n", b"xyz\r\nget a\r\n"):
            yield PRESETS["text"] + learn + line + noreply + b"\r\n" + value + TAIL + AFTERWARDS
        for length in (0, 1, 2, 3, 100, 1000, 2046, 2047, 2048, 2049, 4096, 16383, 16384, 16385, 65536, 500000):
            long = b"%b a 5 0 %d%b" % (command, length, b" <cas1>" if command == b"cas" else b"")
            yield PRESETS["text"] + learn + long + noreply + b"\r\n" + b"v" * length + b"\r\n" + AFTERWARDS
            if length > 0:
                yield PRESETS["text"] + learn + long + noreply + b"\r\n" + b"v" * (length - 1) + b"\r\n" + TAIL + AFTERWARDS
    for repeat in (2, 3):
        yield (line + b"\r\nxyz\r\n").replace(b"<cas1>", b"1") * repeat + TAIL + AFTERWARDS


def sizes():
    """Around the largest item: key, value and what memcached counts with them are at most a mebibyte."""
    for key, flags, most in ((b"a", b"0", 1048516), (b"a", b"5", 1048512), (b"abcdefgh", b"0", 1048509)):
        for length in (most - 1, most):
            line = b"set %b %b 0 %d\r\n" % (key, flags, length)
            yield line + b"x" * length + b"\r\nget " + key + b"\r\ndelete " + key + b"\r\n"
        for command in (b"set", b"add", b"replace", b"append"):
            line = b"%b %b %b 0 %d\r\n" % (command, key, flags, most + 1)
            yield line + b"x" * (most + 1) + b"\r\nversion\r\n"
            yield line.replace(b"\r", b" noreply\r") + b"x" * (most + 1) + b"\r\nversion\r\n"
    almost = b"set a 0 0 1048510\r\n" + b"x" * 1048510 + b"\r\n"
    for command in (b"append", b"prepend"):
        for length in (1, 6, 7, 100):
            yield almost + b"%b a 0 0 %d\r\n" % (command, length) + b"y" * length + b"\r\nget a\r\ndelete a\r\n"
            yield almost + b"%b a 0 0 %d noreply\r\n" % (command, length) + b"y" * length + b"\r\nget a\r\ndelete a\r\n"
    yield b"set a 0 0 1\r\nx\r\nset a 0 0 1048517\r\n" + b"x" * 1048517 + b"\r\nget a\r\n"


def cas_flows():
    """What changes a cas unique and what does not."""
    begin = b"set a 5 0 2\r\n17\r\ngets a\r\n"
    yield begin + b"cas a 6 0 1 <cas1>\r\nx\r\ngets a\r\ncas a 7 0 1 <cas1>\r\ny\r\ncas a 8 0 1 <cas2>\r\nz\r\ngets a\r\n"
    yield begin + b"cas b 6 0 1 <cas1>\r\nx\r\nget b\r\n"
    yield begin + b"cas a 6 0 1 <cas1> noreply\r\nx\r\ncas a 6 0 1 <cas1> noreply\r\ny\r\ngets a\r\n"
    changes = [b"set a 5 0 1\r\nx\r\n", b"set a 5 0 1 noreply\r\nx\r\n", b"add a 0 0 1\r\nx\r\n", b"replace a 0 0 1\r\nx\r\n",
               b"append a 0 0 1\r\nx\r\n", b"append a 0 0 0\r\n\r\n", b"prepend a 0 0 1\r\nx\r\n", b"incr a 1\r\n", b"incr a 0\r\n", b"decr a 1\r\n",
               b"decr a 100 noreply\r\n", b"touch a 100\r\n", b"touch a 0\r\n", b"gat 100 a\r\n", b"gats 100 a\r\n", b"get a\r\n", b"gets a\r\n",
               b"delete a\r\n", b"delete a\r\nset a 5 0 2\r\n17\r\n", b"delete b\r\n", b"set b 0 0 1\r\nx\r\n", b"incr b 1\r\n",
               b"set a 0 0 x\r\n", b"set a 0 0 1\r\nxyz\r\n", b"touch a -1\r\n", b"touch a -1\r\nadd a 0 0 1\r\nx\r\n",
               b"cas a 0 0 1 <cas1>\r\nx\r\n", b"cas a 0 0 1 <cas1+1>\r\nx\r\n", b"cas a 0 0 1 <cas1>\r\nxyz\r\n", b"incr a x\r\n"]
    for change in changes:
        yield begin + change + b"gets a\r\ncas a 9 0 3 <cas1>\r\nnew\r\ngets a\r\n"
    for first in changes:
        for second in (b"gets a\r\n" + change for change in changes[:12]):
            yield begin + first + second + b"gets a b\r\ngets a b\r\n"
    yield b"".join(b"set %c 0 0 1\r\nx\r\n" % key for key in b"abcde") + b"gets a b c d e\r\ngets e d c b a a\r\ncas c 0 0 1 <cas3>\r\ny\r\n" \
        b"cas d 0 0 1 <cas3>\r\ny\r\ngets a b c d e\r\n"


def retrieval(command):
    """get, gets, gat, gats."""
    begin = b"set a 5 0 3\r\nabc\r\nset b 0 0 0\r\n\r\nset c 4294967295 0 5\r\n\r\n \0x\r\n"
    lead = [command, b"0"] if command in (b"gat", b"gats") else [command]
    for line in misshapen(lead + [b"a"]):
        yield begin + line + TAIL
        yield line + TAIL
    for line in with_words(lead + [b"a", b"b"], len(lead), KEYS):
        yield begin + line
        yield line
    for count in (2, 3, 7, 22, 23, 24, 25, 26, 47, 48, 100, 255, 256, 257, 330, 331, 332, 333, 334, 335, 500, 1000):
        for keys in ([b"a"], [b"zz"], [b"a", b"zz", b"b", b"c"], [b"zz", b"a"]):
            yield begin + b" ".join(lead + (keys * count)[:count]) + b"\r\nversion\r\n"
    for before in (b"", b"a ", b"zz ", b"a b c "):
        yield begin + b" ".join(lead) + b" " + before + K250 + b" a\r\n"
    yield begin + b" ".join(lead) + b" " + b"  a " * 20 + b"\r\n"
    for length in (2045, 2046, 2047, 2048, 2049, 2050, 4096) + ((16384, 30000) if len(lead) == 1 else ()):
        yield begin + b" ".join(lead) + b" a" + b" " * length + b"\r\nversion\r\n"
    yield begin + (b" ".join(lead) + b" a b\r\n") * 300
    if len(lead) > 1:
        for line in with_words(lead + [b"a", b"b", b"zz"], 1, NUMBERS + TIMES):
            yield begin + line + b"get a b\r\n"
            yield line


def large_values():
    for command in (b"get", b"gets", b"gat 0", b"gats 0"):
        for length in (1000, 8000, 16000, 20000, 100000, 1000000):
            yield b"set a 0 0 %d\r\n" % length + b"y" * length + b"\r\n%b a\r\n%b b a b a\r\n" % (command, command)


def arithmetic(command, seed):
    """incr, decr."""
    base = [command, b"a", b"5"]
    numbers = [number for number in NUMBERS if command == b"incr" or number != BELOW]
    for line in misshapen(base):
        for preset in PRESETS.values():
            yield preset + line + TAIL + AFTERWARDS
    for preset in PRESETS.values():
        for line in (*with_words(base, 1, KEYS), *with_words(base, 2, numbers)):
            yield preset + line + TAIL + AFTERWARDS
    for value in COUNTERS:
        for delta in (b"0", b"1", b"9", b"10", b"99", b"4294967296", b"9223372036854775808", b"18446744073709551615"):
            say = b"%b a %b\r\n" % (command, delta)
            yield b"set a 3 0 %d\r\n%b\r\n" % (len(value), value) + say + b"get a\r\n" + say + b"get a\r\n"
    rng = random.Random(f"{seed} {command}")
    for _ in range(60):
        value = b"%d" % rng.getrandbits(rng.choice([4, 8, 16, 32, 63, 64]))
        said = b"set a 0 0 %d\r\n%b\r\n" % (len(value), value)
        for _ in range(12):
            said += b"%b a %d%b\r\n" % (rng.choice([b"incr", b"decr", command]), rng.getrandbits(rng.choice([1, 4, 8, 32, 63, 64])),
                                        rng.choice([b"", b"", b" noreply"]))
            said += rng.choice([b"", b"get a\r\n", b"append a 0 0 1\r\n%d\r\n" % rng.randrange(10), b"touch a 100\r\n"])
        yield said + b"get a\r\n"


# Not one of blanks alone: memcached reads on behind it, in whatever its memory holds. (It does so behind a number of 2^63
# and more, too, and calls it none if it finds a minus sign there: no value in the corpus leaves one so far behind.)
COUNTERS = [b"0", b"1", b"9", b"10", b"99", b"100", b"007", b"00000000000000000000", b"000000000000000000001",
            b"0000000000000000000000000000000000000000009", b"5  ", b" 5", b"  5  ", b"-5", b"-0", b"+5", b"5x", b"x5", b"5 6", b"", b"5\t", b"\t5",
            b"5\n", b"5\0", b"\x0b5", b"5.0", b"0x10", b"1e3", b"9223372036854775807", b"9223372036854775808", b"18446744073709551614",
            b"18446744073709551615", b"18446744073709551616", b"99999999999999999999", b"184467440737095516150", b"1" * 25, b"1" + b" " * 30,
            b"1" + b" " * 500, b"\xb2", b"9" * 19, b"9" * 20]


def deletes():
    for line in misshapen([b"delete", b"a"]):
        for preset in PRESETS.values():
            yield preset + line + TAIL + AFTERWARDS
    for line in with_words([b"delete", b"a"], 1, KEYS):
        yield PRESETS["text"] + line + AFTERWARDS
    for word in NUMBERS:
        for noreply in (b"", b" noreply", b" x"):
            yield PRESETS["text"] + b"delete a " + word + noreply + b"\r\n" + AFTERWARDS


def touches():
    base = [b"touch", b"a", b"100"]
    for line in misshapen(base):
        for preset in PRESETS.values():
            yield preset + line + TAIL + AFTERWARDS
    for line in (*with_words(base, 1, KEYS), *with_words(base, 2, NUMBERS + TIMES)):
        for preset in (PRESETS["missing"], PRESETS["text"]):
            yield preset + line + AFTERWARDS


def flushes():
    for line in misshapen([b"flush_all", b"0"]):
        yield PRESETS["text"] + line + TAIL + AFTERWARDS
    for line in with_words([b"flush_all", b"0"], 1, [word for word in NUMBERS if word.strip(b"+0\t\x0b\x0c") not in (b"1", b"1\t2", b"7")]):
        yield PRESETS["text"] + line + AFTERWARDS
        yield PRESETS["text"] + line.replace(b"\r", b" noreply\r") + AFTERWARDS
    for delay in (b"1000", b"2592000", b"2592001", b"<now+1000>", b"<now+3000000>", b"<start-30>", b"<now-60>", b"1234567890"):
        yield PRESETS["text"] + b"flush_all " + delay + b"\r\n" + AFTERWARDS + b"flush_all\r\n" + AFTERWARDS
        yield PRESETS["text"] + b"flush_all " + delay + b" noreply\r\n" + AFTERWARDS + b"set a 0 0 1\r\nx\r\n" + AFTERWARDS
    yield b"set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\ngets a b\r\nflush_all\r\ngets a b\r\nset a 0 0 1\r\nx\r\ngets a b\r\n"
    for after in (b"add a 0 0 1\r\ny\r\n", b"replace a 0 0 1\r\ny\r\n", b"append a 0 0 1\r\ny\r\n", b"prepend a 0 0 1\r\ny\r\n", b"incr a 1\r\n", b"decr a 1\r\n",
                  b"delete a\r\n", b"touch a 0\r\n", b"touch a 100\r\n", b"gat 0 a\r\n", b"gats 0 a\r\n", b"cas a 0 0 1 <cas1>\r\ny\r\n"):
        yield b"set a 0 0 1\r\n5\r\ngets a\r\nflush_all\r\n" + after + b"get a\r\n" + after + b"get a\r\n"
    yield b"set a 0 0 1\r\nx\r\nflush_all\r\nflush_all\r\nget a\r\nset a 0 0 1\r\nx\r\nflush_all 0\r\nget a\r\n"


def housekeeping():
    for words in ([b"version"], [b"verbosity", b"1"], [b"quit"], [b"stats"], [b"stats", b"reset"], [b"mn"]):
        for line in misshapen(words):
            yield line + b"get a\r\n"
    for line in with_words([b"verbosity", b"1"], 1, [word for word in NUMBERS if word not in (b"7", b"2147483647")]):
        yield line
        yield line.replace(b"\r", b" noreply\r") + b"version\r\n"
    for words in (b"foo", b"settings x", b"detail", b"detail x", b"detail on", b"detail off", b"detail off x", b"cachedump", b"cachedump 1", b"items x",
                  b"slabs", b"items", b"sizes", b"conns", b"settings", b"RESET", b"noreply", b"reset noreply"):
        yield b"stats " + words + b"\r\nversion\r\n"
    yield b"quit\r\nversion\r\n"
    yield b"quit noreply\r\nversion\r\n"
    yield b"set a 0 0 1\r\nx\r\nquit\r\nget a\r\n"
    yield b"set a 0 0 100\r\nx\r\nquit\r\n"
    for words in (b"", b" graceful", b" x", b" graceful x"):
        yield b"shutdown" + words + b"\r\nversion\r\n"


# What a line may be, and what is none.
LINES = [
    b"", b"\r\n", b"\n", b"\r", b" \r\n", b"\t\r\n", b"\0\r\n", b"\0", b"\r\r\n", b"\r\n\r\n", b"\n\n", b"\n\r\n", b"  \n", b"foo\r\n", b"foo bar\r\n",
    b"version", b"version\r", b"VERSION\r\n", b"version\n", b"version\r\r\n", b"\rversion\r\n", b"a\r\n", b"ab\r\n", b"m\r\n", b"mm\r\n", b"mx a\r\n",
    b"mg\0a\r\n", b"MG a\r\n", b"Mn\r\n", b"mnn\r\n", b"mn", b"mn\n", b"mn x y\r\n", b"mn mn\r\n", b"mn q\r\n",
    b"getx a\r\n", b"get\0 a\r\n", b"\xffget a\r\n", b"get a\r\nget", b"get a\r\nset a 0 0 1\r\n", b"set a 0 0 1\r\nx", b"set a 0 0 1\r\nx\r",
    b"HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"POST / HTTP/1.0\r\n\r\nset a 0 0 1\r\nx\r\n", b"EHLO x\r\n", b"*1\r\n$4\r\nPING\r\n",
    b"a" * 2047, b"a" * 5000, b"a" * 100000, b"set " + b"a" * 3000 + b" 0 0 1", b"set a 0 0 10\r\nabc",
    b"set a 0 0 100000\r\n" + b"z" * 50000, b"x" * 1024 + b"\r\nversion\r\n", b"x" * 2046 + b"\r\nversion\r\n",
    b"incr " + b"a" * 3000 + b" 1", b"mg " + b"a" * 3000, b"ms " + b"a" * 3000 + b" 2", b" " * 3000, b"get" + b" " * 2045, b"gat 0 " + b"a " * 3000,
    b"get " + b"zzz " * 30000 + b"\r\n", b"gets " + b"zzz " * 30000 + b"\r\n", b"set a 0 0 1\r\nx\r\nget " + b"a " * 20000 + b"\r\n",
    b" " * 90 + b"get " + b"zzz " * 3000 + b"\r\n", b" " * 110 + b"get " + b"zzz " * 3000 + b"\r\n", b"GET " + b"zzz " * 3000 + b"\r\n",
]


def lines():
    yield from LINES
    for command in (b"get", b"set", b"incr", b"touch", b"mg", b"foo"):
        for length in (2040, 2046, 2047, 2048):
            yield command + b" " + b"x" * (length - len(command) - 1) + b"\r\nversion\r\n"


SHORT_KEYS = [b"a", b"b", b"c", b"d"]


def plausible(rng):
    """A request that makes sense, or a little less."""
    key = rng.choice(SHORT_KEYS)
    noreply = rng.choice([b"", b"", b"", b" noreply"])
    kind = rng.randrange(20)
    if kind < 7:
        command = rng.choice([b"set", b"set", b"add", b"replace", b"append", b"prepend", b"cas"])
        value = rng.choice([b"%d" % rng.getrandbits(rng.choice([4, 10, 64])), bytes(rng.choice(b"xyz\r\n ") for _ in range(rng.randrange(12)))])
        value += b"x" if value.isspace() else b""  # what COUNTERS says of blanks
        length = len(value) + rng.choice([0] * 12 + [-1, 1])
        unique = b" %d" % rng.getrandbits(4) if command == b"cas" else b""
        return b"%b %b %d %b %d%b%b\r\n%b\r\n" % (command, key, rng.choice([0, 5, 4294967295]), rng.choice([b"0", b"0", b"100", b"-1"]),
                                              max(length, 0), unique, noreply, value)
    if kind < 10:
        return rng.choice([b"get ", b"gets ", b"gat 0 ", b"gats 100 ", b"gat -1 "]) + b" ".join(rng.choices(SHORT_KEYS, k=rng.randrange(1, 6))) + b"\r\n"
    if kind < 14:
        return b"%b %b %d%b\r\n" % (rng.choice([b"incr", b"decr"]), key, rng.getrandbits(rng.choice([1, 4, 64])), noreply)
    if kind < 16:
        return b"delete %b%b\r\n" % (key, noreply)
    if kind < 18:
        return b"touch %b %b%b\r\n" % (key, rng.choice([b"0", b"100", b"-1"]), noreply)
    if kind < 19:
        return rng.choice([b"flush_all\r\n", b"flush_all 0 noreply\r\n", b"version\r\n", b"verbosity 0\r\n", b"mn\r\n", b"foo\r\n"])
    return b" ".join([rng.choice(COMMANDS)] + rng.choices(ODD_WORDS, k=rng.randrange(5))) + rng.choice([b"\r\n", b"\r\n", b"\n"])


COMMANDS = [b"get", b"gets", b"gat", b"gats", b"set", b"add", b"replace", b"append", b"prepend", b"cas", b"delete", b"incr", b"decr", b"touch",
            b"version", b"verbosity", b"sets", b"Get"]
ODD_WORDS = [b"a", b"b", b"c", K250, b"0", b"1", b"5", b"10", b"-1", b"100", b"abc", b"noreply", b"", b"+3", b"7x"]


def mixed(seed):
    rng = random.Random(f"{seed} mixed")
    for _ in range(500):
        yield b"".join(plausible(rng) for _ in range(rng.randrange(1, 25))) + LONG_TAIL + b"gets a b c d\r\n"


def by_command(seed):
    """All conversations, under the command that they are about; the seed is that of the random ones."""
    corpus = {command.decode(): storage(command) for command in (b"set", b"add", b"replace", b"append", b"prepend", b"cas")}
    corpus |= {command.decode(): retrieval(command) for command in (b"get", b"gets", b"gat", b"gats")}
    corpus |= {"incr": arithmetic(b"incr", seed), "decr": arithmetic(b"decr", seed), "delete": deletes(), "touch": touches(), "flush_all": flushes(),
               "housekeeping": housekeeping(), "lines": lines(), "sizes": sizes(), "cas-flows": cas_flows(), "large-values": large_values(),
               "mixed": mixed(seed)}
    return corpus
