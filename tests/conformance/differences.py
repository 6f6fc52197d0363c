"""Where Tarn answers otherwise than Debian's memcached 1.6.18, and why it may.

A difference that no conversation shows any more fails the test, like one that is not listed.
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
REFUSED = rb"CLIENT_ERROR bad command line format\r\n"
# What the rest of such a conversation comes to, when one server has understood its line and the other has refused it.
SIMPLE = rb"(?:(?:STORED|NOT_STORED|EXISTS|NOT_FOUND|TOUCHED|OK|END|HD[^\r]*|EN[^\r]*|NS[^\r]*|NF[^\r]*|EX[^\r]*|ERROR|" \
         rb"CLIENT_ERROR bad data chunk)\r\n|VALUE a [^\r]*\r\n\w*\r\n|VA [^\r]*\r\n\w*\r\n)*"
NOT_IN_32_BITS = rb"(?:-2147483649|-9223372036854775808|2147483648|4294967295|4294967296|9223372036854775807)"

DIFFERENCES = [
    Difference("client flags above 32 bits", rb"(?m)^" + STORAGE + rb" \S+ (?:-?\d{19,}|4294967296) ", rb"(?:" + REFUSED + rb")?" + SIMPLE, SIMPLE,
               "1.6.18 cuts them off; newer releases refuse them, and so does Tarn"),
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
               rb"(?:CLIENT_ERROR (?:bad token in command line format|invalid or duplicate flag)\r\n)?" + SIMPLE, SIMPLE, "as the times above"),
    Difference("numbers below -2^63", rb"-9223372036854775809", rb"(?:CLIENT_ERROR [^\r]*\r\n)?" + SIMPLE, rb"(?:CLIENT_ERROR [^\r]*\r\n|\d+\r\n)?" + SIMPLE,
               "memcached takes them for the positive number that is as far from 2^64"),
    Difference("md knows x", rb"(?m)^md a k x\r", SIMPLE, rb"CLIENT_ERROR invalid or duplicate flag\r\n" + SIMPLE, "newer releases do; newer.py has what it means"),
    Difference("lengths beyond 32 bits", rb"(?m)^(?:" + STORAGE + rb" \S+ \d+ \d+|ms a) (?:4294967296|9223372036854775807|-2147483649|-9223372036854775808)\b",
               REFUSED, rb"CLIENT_ERROR bad data chunk\r\n|", "memcached cuts them off, and takes some other number of bytes for the value"),
    Difference("answers before a key that is too long", rb"(?m)(?:^STORED|.)\n[^\n]*(?:get|gets|gat 0|gats 0) [^\n]*k{251}", rb"(?:STORED\r\n)*", rb"",
               "memcached 1.6.18 forgets the answers to requests before it in the same packet"),
    Difference("what a refused value leaves", rb"set a 0 0 1\r\nx\r\nset a 0 0 1048517", rb"VALUE a 0 1\r\nx\r\n", rb"",
               "memcached removes what the key held; with Tarn a write that was refused is a write that did not happen"),
    Difference("when a value that is too large is refused", rb"(?m)^" + STORAGE + rb" a 5 0 (?:21474836\d\d|1048577)|^ms a (?:2147483645|1048577)",
               rb"(?:STORED\r\n)?(?:VALUE a [^\r]*\r\nabc\r\nEND\r\n)?SERVER_ERROR object too large for cache\r\n", rb"",
               "Tarn refuses at once; memcached when it has swallowed the value, and drops the answers until then if it never comes"),
]
