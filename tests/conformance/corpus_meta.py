"""Conversations over the meta commands, as corpus.py has them over the others."""

import base64
import itertools
import random

from corpus import AFTERWARDS, COUNTERS, K250, K251, KEYS, NUMBERS, PRESETS, TAIL, TIMES, misshapen, with_words

BEFOREHAND = {"missing": b"", "plain": b"set a 0 0 2\r\n17\r\n", "full": b"set a 5 100 3\r\nabc\r\n",
              "stale": b"set a 5 100 2\r\n17\r\nmd a I\r\n", "won": b"mg a N100\r\nmn\r\n"}
# Behind each mg stands an mn, which sends the answers: until then memcached's answer holds the item, and ma or incr make
# another one instead of changing it, without its marks and without blanks behind a shorter number.
LOOK = b"mg a s t f c v k\r\nmn\r\n" * 2
# Printable bytes that are no flag of any command, now or in newer releases.
UNKNOWN = [bytes([byte]) for byte in range(0x21, 0x7f) if bytes([byte]) not in b"bcfhklqstuvxCDEFIJLMNOPRSTWXZ"]
OPAQUES = [b"O", b"O1", b"Oabc", b"OO", b"O" + b"1" * 30, b"O" + b"1" * 31, b"O" + b"1" * 32, b"O" + b"1" * 33, b"O" + b"1" * 300,
           b"O\x01", b"O\xff", b"Oc123", b"Ot5", b"O\t"]


def encoded(key):
    return base64.b64encode(key)


# Keys in base64, and what is none.
BINARY = [encoded(key) for key in (b"a", b"ab", b"abc", b"\xff\xef\0", b" \r\n", b"x" * 186, b"x" * 187, b"y" * 185, b"\0")] + \
    [encoded(b"x" * 188), encoded(b"x" * 250), b"YQ", b"YQ=", b"YQ===", b"Y===", b"====", b"=", b"Y", b"YWJ", b"YWI=YWI=", b"!!!!", b"YQ==\t", b"YQ=a", b"Y Q==",
     b"-_-_", b"YR==", b"YWJjZA==x"]
FLAG_TAILS = [b"", b" q", b" k", b" k q O7"]


def flags_everywhere(lead, tails=FLAG_TAILS):
    """Flags that no command knows, flags twice, opaques, too many flags, keys in base64."""
    for flag in UNKNOWN:
        yield lead + b" " + flag + b"\r\n"
    for flag in (b"\x01", b"\x7f", b"\x80", b"\xff", b"\xc3\xa9", b"\t", b"\tk", b"noreply", b"b\0", b"-1", b"0"):
        yield lead + b" " + flag + b"\r\n"
        yield lead + b" k " + flag + b" O1\r\n"
    for flag in (b"k", b"c", b"q", b"O1", b"b", b"s", b"t", b"f", b"v", b"T0", b"I", b"C1", b"N0", b"u"):
        yield lead + b" " + flag + b" " + flag + b"\r\n"
        yield lead + b" " + flag + b" k O1 " + flag + b"\r\n"
    for opaque in OPAQUES:
        for tail in tails:
            yield lead + b" " + opaque + tail.replace(b" O7", b"") + b"\r\n"
        yield lead + b" q k " + opaque + b" c\r\n"
    many = [b"k", b"c", b"O1", b"P", b"L", b"s", b"t", b"f", b"v", b"q", b"u", b"I", b"N0", b"J1", b"D1", b"R1", b"F1", b"T0", b"C1"]
    for count in range(10, len(many) + 1):
        yield lead + b" " + b" ".join(many[:count]) + b"\r\n"
    for count in (15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 40):
        yield lead + b" " + b" ".join([b"k"] * count) + b"\r\n"
    for flag in (b"P", b"L", b"Pabc", b"L/x/y", b"P L", b"kx", b"c1", b"qq", b"q1", b"vv", b"s5", b"t5", b"fx", b"bx", b"Ix", b"u1"):
        yield lead + b" " + flag + b"\r\n"


def numbers_of(lead, flags, numbers=NUMBERS):
    for flag in flags:
        for number in [b"", *numbers]:
            yield lead + b" " + flag + number + b"\r\n"


def binary_keys(command, tail=b"", value=b""):
    for key in BINARY:
        for flags in (b" b", b" b k", b" k b", b" k", b" b q k", b" b O1 k c", b" b v k"):
            yield command + b" " + key + tail + flags + b"\r\n" + value


def meta_get(seed):
    for line in misshapen([b"mg", b"a", b"v"]):
        for preset in (BEFOREHAND["missing"], BEFOREHAND["full"]):
            yield preset + line + b"mn\r\n"
    for key in KEYS:
        yield b"mg " + key + b" k v\r\nmn\r\n"
        yield b"set " + key + b" 0 0 1\r\nx\r\nmg " + key + b" k v\r\nmn\r\n"
    returning = [b"s", b"v", b"t", b"f", b"k", b"c", b"q", b"O1", b"u"]
    for preset in BEFOREHAND.values():
        yield preset + b"mg a\r\nmg a\r\nmn\r\n"
        for count in (1, 2):
            for flags in itertools.permutations(returning, count):
                yield preset + b"mg a " + b" ".join(flags) + b"\r\nmn\r\n"
    rng = random.Random(f"{seed} mg")
    for _ in range(200):
        flags = rng.sample(returning + [b"T%d" % rng.choice([10, 100, 1000]), b"N%d" % rng.choice([0, 50]), b"R%d" % rng.choice([10, 500])],
                           rng.randrange(3, 10))
        yield rng.choice(list(BEFOREHAND.values())) + b"mg a " + b" ".join(flags) + b"\r\n" + LOOK + b"mn\r\n"
    for line in flags_everywhere(b"mg a"):
        for preset in (BEFOREHAND["missing"], BEFOREHAND["full"]):
            yield preset + line + b"mn\r\n"
    for line in numbers_of(b"mg a t", (b"T", b"N", b"R"), [number for number in NUMBERS + TIMES if number.strip(b"+0\t\x0b\x0c") not in (b"1", b"7", b"1\t2")]):
        for preset in (BEFOREHAND["missing"], BEFOREHAND["full"], BEFOREHAND["plain"]):
            yield preset + line + LOOK
    for line in binary_keys(b"mg"):
        yield line + b"mn\r\n"
        yield b"set a 0 0 1\r\nx\r\n" + line + line + b"mn\r\n"
    yield b"set a 5 0 1\r\nx\r\nmg a v q k\r\nmg b v q k\r\nmg a q\r\nmg b q\r\nmg a k\r\nmg b k\r\nmg c q O1\r\nmn\r\nmg b\r\nmn\r\n"
    yield b"".join(b"set a%d 0 0 1\r\nx\r\n" % number for number in range(0, 60, 2)) + \
        b"".join(b"mg a%d v k q O%d\r\n" % (number, number) for number in range(60)) + b"mn\r\n" + \
        b"".join(b"md a%d q\r\n" % number for number in range(60)) + b"mn\r\n"
    for length in (0, 1000, 8000, 16000, 20000, 100000, 1000000):
        yield b"set a 5 0 %d\r\n" % length + b"y" * length + b"\r\nmg a v s\r\nmg a s\r\nmg a v k O1\r\nmg a v q\r\nmn\r\n"


def access():
    """What needs to know when a key was last asked for, and whether."""
    for flags in (b"h", b"l", b"h l", b"u h", b"l v k", b"h t c", b"u"):
        yield b"mg a " + flags + b"\r\nset a 0 100 1\r\nx\r\nmg a " + flags + b"\r\nmg a " + flags + b"\r\nget a\r\nmg a " + flags + b"\r\n"
        yield b"ms a 1 " + flags + b"\r\nx\r\nmd a " + flags + b"\r\nma a " + flags + b"\r\nma a N0 " + flags + b"\r\n"


def meta_set():
    for line in misshapen([b"ms", b"a", b"2"]):
        for preset in (BEFOREHAND["missing"], BEFOREHAND["full"]):
            yield preset + line + b"xy\r\n" + TAIL + AFTERWARDS
    for key in KEYS:
        for flags in (b"", b" k", b" q", b" b"):
            yield b"ms " + key + b" 2" + flags + b"\r\nxy\r\n" + TAIL + b"mg " + key + b" v\r\nmn\r\n"
    for line in with_words([b"ms", b"a", b"2"], 2, NUMBERS + [b"3", b"S2", b"2147483645", b"2147483646", b"1048577"]):
        yield BEFOREHAND["full"] + line + b"xy\r\n" + TAIL + AFTERWARDS
        yield BEFOREHAND["full"] + line.replace(b"\r", b" q k\r") + b"xy\r\n" + TAIL + AFTERWARDS
    for line in flags_everywhere(b"ms a 2"):
        for preset in (BEFOREHAND["missing"], BEFOREHAND["full"]):
            yield preset + line + b"19\r\n" + TAIL + LOOK
    for line in numbers_of(b"ms a 2 k", (b"T", b"F", b"C", b"N", b"R", b"J", b"D"), NUMBERS + TIMES):
        for preset in (BEFOREHAND["missing"], BEFOREHAND["full"]):
            if not line.startswith((b"ms a 2 k T", b"ms a 2 k R")) or line.strip(b"+0\t\x0b\x0c\r\nms a2kTR") not in (b"1", b"7", b"1\t"):
                yield preset + line + b"xy\r\n" + TAIL + LOOK
    for line in binary_keys(b"ms", b" 2", b"xy\r\n"):
        yield line + TAIL + LOOK
        yield line + line + TAIL + LOOK + b"mg " + line.split()[1] + b" b v k\r\n"
    for mode in [b"", *(b"%c" % byte for byte in range(0x21, 0x7f)), b"SS", b"AP", b"\xff", b"0", b"E1"]:
        for preset in (BEFOREHAND["missing"], BEFOREHAND["full"]):
            yield preset + b"ms a 2 M" + mode + b" k\r\n42\r\n" + TAIL + LOOK
    for mode, preset in itertools.product([b"", b" MS", b" MA", b" MP", b" MR", b" ME"], BEFOREHAND.values()):
        for flags in (b"", b" q", b" k c O1", b" c", b" F9 T200", b" F9", b" T200", b" T-1", b" I", b" I c T50", b" C0", b" C1", b" C18446744073709551615", b" C18446744073709551615 I", b" q C1", b" C0 I c",
                      b" f v t"):
            yield preset + b"ms a 2" + mode + flags + b"\r\n42\r\nmn\r\n" + LOOK
        if preset:
            learn = preset + b"gets a\r\n"
            for flags in (b"C<cas1>", b"C<cas1> c", b"C<cas1-1>", b"C<cas1+1>", b"C<cas1> I", b"C<cas1-1> I", b"C<cas1-1> I c T50 F8", b"C<cas1+1> I", b"C<cas1> q", b"C<cas1-1> q"):
                yield learn + b"ms a 2" + mode + b" " + flags + b"\r\n42\r\nmn\r\n" + LOOK + b"gets a\r\n"
    for flags in (b"", b" q", b" k O1", b" MA", b" MP q"):
        for value in (b"xyz\r\n", b"xyz\n", b"xyz\r", b"xyz", b"xy\r\n", b"x\r\n", b"\r\n", b"", b"xyzz\r\n", b"\r\n\r\r\n", b"xyz \r\n", b"mn\r\n", b"xyz\r\nmg a\r\n"):
            yield BEFOREHAND["full"] + b"ms a 3" + flags + b"\r\n" + value + TAIL + b"mn\r\n" + LOOK
        for length in (0, 1, 2046, 2048, 16384, 500000, 1048516, 1048517):
            yield b"ms a %d" % length + flags + b"\r\n" + b"v" * length + b"\r\nmn\r\nmg a v s\r\nmd a\r\n"
        for length in (1048512, 1048513):
            yield b"ms a %d F5" % length + flags + b"\r\n" + b"v" * length + b"\r\nmn\r\nmg a v s\r\nmd a\r\n"
    yield b"ms a 2 q\r\nxy\r\nms b 2 q\r\nxy\r\nms a 2 ME q k\r\nzz\r\nms c 2 MR q O1\r\nzz\r\nms c 2 C5 q O2\r\nzz\r\nmn\r\nget a b c\r\n"


def meta_delete():
    for line in misshapen([b"md", b"a", b"k"]):
        for preset in (BEFOREHAND["missing"], BEFOREHAND["full"]):
            yield preset + line + AFTERWARDS
    for key in KEYS:
        for flags in (b"", b" k", b" q", b" b"):
            yield b"set " + key + b" 0 0 1\r\nx\r\nmd " + key + flags + b"\r\nmn\r\nget " + key + b"\r\n"
    for line in flags_everywhere(b"md a"):
        for preset in (BEFOREHAND["missing"], BEFOREHAND["full"]):
            yield preset + line + LOOK
    for line in numbers_of(b"md a I k", (b"T", b"C"), NUMBERS + TIMES):
        if not line.startswith(b"md a I k T") or line[10:].strip(b"+0\t\x0b\x0c\r\n") not in (b"1", b"7", b"1\t2"):
            yield BEFOREHAND["full"] + line + LOOK
    for line in binary_keys(b"md"):
        yield b"set a 0 0 1\r\nx\r\n" + line + b"mn\r\nget a\r\n"
        yield b"ms " + line.split()[1] + b" 1 b\r\nx\r\n" + TAIL + line + line + b"mn\r\n"
    for preset in BEFOREHAND.values():
        for flags in (b"", b"q", b"k", b"O1 k", b"q k O1", b"c t v s f", b"I", b"I T50", b"T50", b"I T0", b"I T-1", b"I q", b"I q k", b"C0", b"C1", b"C18446744073709551615 I", b"C18446744073709551615 q",
                      b"F9", b"I F9 T50", b"N50", b"R50", b"MA"):
            yield preset + b"md a " + flags + b"\r\nmn\r\n" + LOOK + b"md a " + flags + b"\r\nmn\r\n" + LOOK
        if preset:
            for flags in (b"C<cas1>", b"C<cas1> I T30", b"C<cas1-1>", b"C<cas1+1> I", b"C<cas1> q", b"C<cas1+1> q k"):
                yield preset + b"gets a\r\nmd a " + flags + b"\r\nmn\r\n" + LOOK
    yield b"set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nmd a q\r\nmd b q\r\nmd c q\r\nmd c q k\r\nmd d\r\nmn\r\nget a b\r\n"


def no_longer(flags):
    """Flags of ma that set no time if the number may get longer: memcached loses the time then."""
    return [b"MD", *(flag for flag in flags if flag[:1] != b"M")] if any(flag[:1] == b"T" for flag in flags) else flags


def meta_arithmetic(seed):
    for line in misshapen([b"ma", b"a", b"v"]):
        for preset in PRESETS.values():
            yield preset + line + AFTERWARDS
    for key in KEYS:
        for flags in (b"", b" k v", b" q", b" b"):
            yield b"set " + key + b" 0 0 1\r\n5\r\nma " + key + flags + b"\r\nmn\r\nget " + key + b"\r\n"
    for line in flags_everywhere(b"ma a"):
        for preset in PRESETS.values():
            yield preset + line + LOOK
    numbers = [number for number in NUMBERS + TIMES]
    for line in (*numbers_of(b"ma a v", (b"D", b"C", b"D18446744073709551615 C"), numbers), *numbers_of(b"ma a N0 v", (b"J", b"D"), numbers)):
        for preset in PRESETS.values():
            yield preset + line + LOOK
    for line in numbers_of(b"ma a t v", (b"N", b"T"), [number for number in numbers if number.strip(b"+0\t\x0b\x0c") not in (b"1", b"7", b"1\t2")]):
        for preset in PRESETS.values():
            yield preset + line + LOOK
    for mode in [b"", *(b"%c" % byte for byte in range(0x21, 0x7f)), b"II", b"+1", b"\xff"]:
        yield PRESETS["number"] + b"ma a v M" + mode + b" D5\r\n" + AFTERWARDS
    for line in binary_keys(b"ma"):
        yield b"set a 0 0 1\r\n5\r\n" + line + b"mn\r\nget a\r\n"
        yield b"ms " + line.split()[1] + b" 1 b\r\n5\r\n" + TAIL + line + line.replace(b" b", b" N0 J5 b", 1) + b"mn\r\n"
    for value in COUNTERS:
        for flags in (b"v", b"MD v", b"D0 v", b"D18446744073709551615 v", b"MD D18446744073709551615 v", b"D10 q", b"MD D10 c t"):
            yield b"set a 3 0 %d\r\n%b\r\n" % (len(value), value) + (b"ma a " + flags + b"\r\nget a\r\n") * 2
    for preset in [*BEFOREHAND.values(), b"set a 5 100 2\r\n17\r\n", PRESETS["text"]]:
        for flags in (b"", b"v", b"q", b"q v", b"k", b"v k O1 t c", b"c", b"t", b"N0", b"N0 J5", b"N50 J5 t v", b"N50 T200 t v", b"T200 t v", b"t T200", b"N0 q", b"N-1 v", b"T-1 v", b"J5",
                      b"N0 D5 v", b"N0 J18446744073709551615 v", b"C0 v", b"C1", b"C1 q", b"C18446744073709551615 N0", b"s f v", b"I", b"F5 v", b"h", b"MI", b"MD v", b"M+ D9 v", b"M- D9 v k"):
            yield preset + b"ma a " + flags + b"\r\nmn\r\n" + LOOK + b"ma a " + flags + b"\r\nmn\r\n" + AFTERWARDS
        if preset:
            for flags in (b"C<cas1> v c", b"C<cas1-1> v", b"C<cas1+1> q k", b"C<cas1> q", b"C<cas1> N0 T50 t"):
                yield preset + b"gets a\r\nma a " + flags + b"\r\nmn\r\n" + LOOK
    yield b"set a 0 0 1\r\n9\r\nma a T500\r\n" + LOOK
    rng = random.Random(f"{seed} ma")
    for _ in range(150):
        flags = rng.sample([b"v", b"t", b"c", b"k", b"O1", b"q", b"N100", b"J%d" % rng.getrandbits(64), b"D%d" % rng.getrandbits(rng.choice([4, 64])), b"T500",
                            b"M" + rng.choice([b"I", b"D", b"+", b"-"])], rng.randrange(2, 9))
        flags = no_longer(flags)
        yield rng.choice([*BEFOREHAND.values(), PRESETS["text"]]) + (b"ma a " + b" ".join(flags) + b"\r\n") * 2 + LOOK + b"mn\r\n"


def meta_debug():
    for line in misshapen([b"me", b"a"]):
        for preset in (BEFOREHAND["missing"], BEFOREHAND["full"]):
            yield preset + line + b"mn\r\n"
    for key in KEYS:
        yield b"me " + key + b"\r\nmn\r\n"
    for preset in BEFOREHAND.values():
        for flags in (b"", b" k", b" b", b" q", b" v k O1"):
            yield preset + b"me a" + flags + b"\r\nmn\r\n"
    yield b"set a 0 0 1\r\nx\r\nme YQ== b\r\nme YQ==\r\nme YQ== q b\r\n"
    yield b"ms /+8= 1 b\r\nx\r\nme /+8= b\r\nme !!! b\r\nme " + K250 + b" b\r\nme " + K251 + b" b\r\n"
    yield b"me YR== b\r\nme YQ== b\r\nms YQ== 1 b\r\nx\r\nme a\r\nme YQ== b\r\nms a 1\r\nx\r\nme YQ== b\r\n"


def stale_flows():
    """Invalidation, recaching and vivifying: who wins, who is told that another has, and what ends it."""
    changes = [b"ms a 1\r\nx\r\n", b"ms a 1 q\r\nx\r\n", b"set a 0 0 1\r\nx\r\n", b"add a 0 0 1\r\nx\r\n", b"replace a 0 0 1\r\nx\r\n", b"append a 0 0 1\r\n1\r\n", b"prepend a 0 0 1\r\n1\r\n",
               b"incr a 1\r\n", b"ma a\r\n", b"touch a 300\r\n", b"gat 300 a\r\n", b"get a\r\n", b"mg a T300\r\nmn\r\n", b"md a\r\n", b"delete a\r\n", b"md a I\r\n", b"md a I T40\r\n",
               b"mg a R1000\r\nmn\r\n", b"mg a R10\r\nmn\r\n", b"mg a N60\r\nmn\r\n", b"ms a 1 C18446744073709551615\r\nx\r\n", b"ms a 1 C1 I\r\nx\r\n", b"ms a 1 MA\r\n1\r\n", b"ms a 1 ME\r\nx\r\n",
               b"gets a\r\ncas a 0 0 1 <cas1>\r\nx\r\n", b"mg a c\r\nmn\r\nms a 1 C<cas1>\r\nx\r\nmn\r\n", b"mg a c\r\nmn\r\nms a 1 C<cas1-1> I\r\nx\r\nmn\r\n", b"mg a c\r\nmn\r\nms a 1 C<cas1-1> I T20\r\nx\r\nmn\r\n",
               b"mg a c\r\nmn\r\nmd a C<cas1> I\r\nmn\r\n", b"mg a\r\nmn\r\nmd a I\r\n", b"mg a u\r\nmn\r\n", b"ma a N0 T70\r\n", b"me a\r\n"]
    beginnings = [b"set a 5 100 2\r\n17\r\nmd a I\r\n", b"set a 5 100 2\r\n17\r\nmd a I T30\r\nmg a\r\nmn\r\n", b"set a 5 100 2\r\n17\r\nmg a R200\r\nmn\r\n", b"mg a N100\r\nmn\r\n", b"set a 5 0 2\r\n17\r\n",
                  b"ms a 2 T100\r\n17\r\nmg a c\r\nmn\r\nms a 2 C<cas1-1> I\r\n18\r\nmn\r\n"]
    for beginning in beginnings:
        for change in changes:
            if b"<cas" not in beginning or b"<cas" not in change:
                yield beginning + change + LOOK + b"gets a\r\nmd a\r\n"
    for beginning in beginnings[:4]:
        for first, second in itertools.product(changes[:24], repeat=2):
            yield beginning + first + second + LOOK


def plausible(rng):
    """A meta request that makes sense, or a little less."""
    key = rng.choice([b"a", b"b", b"c", b"YQ=="])
    binary = [b"b"] if key == b"YQ==" and rng.random() < 0.9 else []
    common = rng.sample([b"k", b"q", b"O%d" % rng.randrange(100), b"c"], rng.randrange(4))
    kind = rng.randrange(12)
    if kind < 4:
        flags = rng.sample([b"v", b"s", b"t", b"f", b"N100", b"R%d" % rng.choice([5, 1000]), b"T200"], rng.randrange(5))
        lead, value = b"mg " + key, b"mn\r\n"
    elif kind < 7:
        text = rng.choice([b"%d" % rng.getrandbits(20), b"x" * rng.randrange(10)])
        flags = rng.sample([b"T100", b"F%d" % rng.getrandbits(32), b"I", b"C%d" % rng.choice([1, 2**64 - 1]), b"M%c" % rng.choice(b"SSAPREX")], rng.randrange(3))
        lead, value = b"ms %b %d" % (key, len(text) + rng.choice([0] * 15 + [1])), text + b"\r\n"
    elif kind < 9:
        flags = rng.sample([b"I", b"T50", b"C1"], rng.choice([0, 0, 1, 2]))
        lead, value = b"md " + key, b""
    elif kind < 11:
        flags = rng.sample([b"v", b"t", b"N100", b"J%d" % rng.getrandbits(30), b"D%d" % rng.getrandbits(10), b"M%c" % rng.choice(b"ID+-"), b"T300"], rng.randrange(5))
        flags = no_longer(flags)
        lead, value = b"ma " + key, b""
    else:
        return rng.choice([b"mn\r\n", b"me a\r\n", b"get a b c\r\n", b"set a 0 0 1\r\n5\r\n", b"incr a 1\r\n", b"delete b\r\n", b"append a 0 0 1\r\n1\r\n", b"touch a 100\r\n"])
    flags = flags + binary + common
    rng.shuffle(flags)
    return b" ".join([lead, *flags]) + b"\r\n" + value


def mixed(seed):
    rng = random.Random(f"{seed} meta")
    for _ in range(700):
        yield b"".join(plausible(rng) for _ in range(rng.randrange(1, 30))) + b"\r\n" * 20 + LOOK + b"mg b t c v\r\nmn\r\n"


def by_command(seed):
    return {"mn": [b"mn\r\n" * count for count in (1, 2, 1000)], "mg": meta_get(seed), "access": access(), "ms": meta_set(), "md": meta_delete(),
            "ma": meta_arithmetic(seed), "me": meta_debug(), "stale-flows": stale_flows(), "meta-mixed": mixed(seed)}
