"""Where Tarn answers otherwise than Debian's memcached 1.6.18, and why it may.

A difference that no conversation shows any more fails the test, like one that is not listed. departures.py has what Tarn
answers in these places, to the byte.
"""

from typing import NamedTuple


class Difference(NamedTuple):
    """Where a conversation has `said`, Tarn may answer `tarn` at a place at which memcached answers `memcached`."""
    name: str
    said: bytes
    tarn: bytes
    memcached: bytes
    why: str


STORAGE = rb"(?:set|add|replace|append|prepend|cas)"
NON_NUMERIC = rb"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
REFUSED = rb"CLIENT_ERROR bad command line format\r\n"
# What the rest of such a conversation comes to, when one server has understood its line and the other has refused it.
SIMPLE = rb"(?:(?:STORED|NOT_STORED|EXISTS|NOT_FOUND|TOUCHED|OK|END|HD[^\r]*|EN[^\r]*|NS[^\r]*|NF[^\r]*|EX[^\r]*|ERROR|" \
         rb"CLIENT_ERROR bad data chunk)\r\n|VALUE a [^\r]*\r\n\w*\r\n|VA [^\r]*\r\n\w*\r\n)*"
NUMBER = rb"(?:VA 2 [^\r]*\r\n%b\r\n)+"
NOT_IN_32_BITS = rb"(?:-2147483649|-9223372036854775808|2147483648|4294967295|4294967296|9223372036854775807)"

DIFFERENCES = [
    Difference("what is wrong with md", rb"(?m)^md [^\n]", rb"(?:CLIENT_ERROR (?:invalid flag|duplicate flag|bad token in command line format|bad command line format|error decoding key|"
               rb"invalid numeric (?:initial|delta) value)\r\n)+", rb"(?:CLIENT_ERROR invalid or duplicate flag\r\n)+", "newer releases say what"),
    Difference("a quiet ma of what is not there", rb"(?m)^ma [^\n]*\bq\b", rb"", rb"(?:HD[^\r]*\r\n|VA \d+[^\r]*\r\n\d+\r\n)+", "newer releases say nothing"),
    Difference("the letter of M", rb"(?m)^m[sa] [^\n]* M(?: |\r|[^\s]{2})", rb"(?:CLIENT_ERROR invalid mode for m[sa] M token\r\n)?" + SIMPLE,
               rb"(?:CLIENT_ERROR (?:incorrect length for M token|invalid or duplicate flag)\r\n)?" + SIMPLE, "newer releases look at the first one alone"),
    Difference("shutdown that is not enabled", rb"(?m)^shutdown", rb"SERVER_ERROR: shutdown not enabled\r\n", rb"ERROR: shutdown not enabled\r\n", "as newer releases say it"),
    Difference("times beyond 32 bits", rb"(?m)^" + STORAGE + rb" \S+ \d+ " + NOT_IN_32_BITS + rb" ", rb"(?:" + REFUSED + rb")?" + SIMPLE, SIMPLE,
               "memcached cuts them off, so that a time in 2038 is in the past; Tarn's times have 64 bits"),
    Difference("touch beyond 32 bits", rb"(?m)^touch a " + NOT_IN_32_BITS, rb"(?:CLIENT_ERROR invalid exptime argument\r\n)?" + SIMPLE, SIMPLE,
               "as the times above"),
    Difference("gat beyond 32 bits", rb"(?m)^gats? " + NOT_IN_32_BITS, rb"(?:CLIENT_ERROR invalid exptime argument\r\n)?.*", rb"(?:VALUE|END).*|",
               "as the times above"),
    Difference("flush_all beyond 32 bits", rb"(?m)^flush_all " + NOT_IN_32_BITS, rb"(?:CLIENT_ERROR invalid exptime argument\r\n)?" + SIMPLE, SIMPLE,
               "as the times above"),
    Difference("client flags of ms above 32 bits", rb"(?m)^ms [^\n]* F(?:-?\d{19,}|4294967296)", rb"(?:" + REFUSED + rb")?" + SIMPLE, SIMPLE, "as those of set"),
    Difference("times of meta commands beyond 32 bits", rb"(?m)^m[gsda] [^\n]* [TNR]" + NOT_IN_32_BITS,
               rb"(?:CLIENT_ERROR (?:bad token in command line format|invalid or duplicate flag)\r\n)?" + SIMPLE,
               SIMPLE + rb"(?:" + NON_NUMERIC + rb")?", "as the times above"),
    Difference("numbers below -2^63", rb"-9223372036854775809", rb"(?:CLIENT_ERROR [^\r]*\r\n)?" + SIMPLE, rb"(?:CLIENT_ERROR [^\r]*\r\n|\d+\r\n)?" + SIMPLE,
               "memcached takes them for the positive number that is as far from 2^64"),
    Difference("x is known", rb"(?m)^m[gsda] a [^\n]*\bx\r", SIMPLE + rb"(?:" + NON_NUMERIC + rb")?", rb"CLIENT_ERROR invalid (?:or duplicate )?flag\r\n" + SIMPLE,
               "newer releases know it with md, and leave alone with each command what the others know; newer.py has what it means"),
    Difference("the values behind such an x", rb"(?m)^ms a 2 x\r", rb"VALUE a 0 2\r\nxy\r\n", rb"(?:VALUE a 5 3\r\nabc\r\n)?", "what was stored then"),
    Difference("ms tells a size", rb"(?m)^ms a 2 s", rb"HD s2\r\n", rb"HD\r\n", "newer releases do; newer.py has more"),
    Difference("strict base64", rb"(?m)^m[gsdae] (?:YWI=YWI=|YQ==\t|YQ=a|YR==) [^\n]*\bb\b",
               rb"(?:CLIENT_ERROR (?:error decoding key|invalid or duplicate flag|bad command line format)\r\n)*" + SIMPLE, SIMPLE,
               "memcached skips what is no base64, goes on behind the padding and drops its bits, so that one key has many names; Tarn takes RFC 4648 alone"),
    Difference("ma looks at the opaque first", rb"(?m)^ma a [^\n]*\bO\S{32}", rb"CLIENT_ERROR opaque token too long\r\n|" + NUMBER % b"17",
               NON_NUMERIC + rb"|" + NUMBER % b"18",
               "memcached counts, and then finds that the opaque is too long to be answered"),
    Difference("a new time with a longer number", rb"^set a 0 0 1\r\n9\r\nma a T500\r", rb"(?:VA 2 s2 t~ [^\r]*\r\n10\r\n)+", rb"(?:VA 2 s2 t-1 [^\r]*\r\n10\r\n)+",
               "where a number gets longer memcached's ma makes another item, and gives the new time to the old one"),
    Difference("nothing of accesses is kept", rb"(?m)^mg a [^\n]*\bh\b", rb"(?:(?:HD|VA 1)[^\r]* ?h0[^\r]*\r\n(?:x\r\n)?)+", rb"(?:(?:HD|VA 1)[^\r]* ?h1[^\r]*\r\n(?:x\r\n)?)+",
               "a get of Tarn's writes nothing: h is always 0, as are l and what me says of la"),
    Difference("statistics of prefixes", rb"(?m)^stats detail on\b", rb"SERVER_ERROR prefixes of keys are not counted\r\n", rb"OK\r\n",
               "Tarn counts by no prefixes of keys"),
    Difference("a flush in the minute before the start", rb"(?m)^flush_all 1[789]\d{8}\b", rb"VALUE a 3 3\r\nabc\r\n", rb"",
               "a moment before the server's start flushes nothing; memcached believes that it was started 62 seconds earlier"),
    Difference("answers before a key that is too long", rb"(?m)(?:^STORED|.)\n[^\n]*(?:get|gets|gat 0|gats 0) [^\n]*k{251}", rb"(?:STORED\r\n)*", rb"",
               "memcached 1.6.18 forgets the answers to requests before it in the same packet"),
    Difference("what a refused value leaves", rb"set a 0 0 1\r\nx\r\nset a 0 0 1048517", rb"VALUE a 0 1\r\nx\r\n", rb"",
               "memcached removes what the key held; with Tarn a write that was refused is a write that did not happen"),
    Difference("when a value that is too large is refused", rb"(?m)^" + STORAGE + rb" a 5 0 (?:21474836\d\d|1048577)|^ms a (?:2147483645|1048577)",
               rb"(?:STORED\r\n)?(?:VALUE a [^\r]*\r\nabc\r\nEND\r\n)?SERVER_ERROR object too large for cache\r\n", rb"",
               "Tarn refuses at once; memcached when it has swallowed the value, and drops the answers until then if it never comes"),
]

# Makes alike, rather than tolerates: Comparison.compare() does it with answers.one_form_of_keys().
KEY_FORMS = Difference("the form of a key", rb"(?m)^m[gsdae] [^\n]*\bb\b", b"", b"",
                       "k and me tell a key in the form of the request; memcached in the one in which the item was stored, of which Tarn keeps nothing")
