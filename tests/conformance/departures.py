#!/usr/bin/python3
"""Where Tarn answers otherwise than memcached on purpose, does it answer what is written down?

    departures.py TARN

differences.py has the reasons, and only patterns; here each conversation stands with its answer. #1 is any cas unique, ~
any number of seconds.
"""

import sys
import time

import serving
from memcached import Speaker, named
from newer import answered
from serving import Tarn, converse, expect

KEPT = b"set a 5 100 2\r\n17\r\n"
UNDECODED = b"CLIENT_ERROR error decoding key\r\n"
BAD_BASE64 = [b"YQ", b"YQ=", b"YQ===", b"YQ=a", b"YR==", b"YWJ=", b"YWI=YWI=", b"YQ==\t", b"!!!!", b"-_-_", b"====", b"Y"]


def forms_of_keys():
    """Whichever way the item came, k and me tell the key as the request has it."""
    for stored in (b"ms a 2 T100\r\n17\r\n", b"ms YQ== 2 b T100\r\n17\r\n"):
        yield stored + b"mg a k\r\nmg YQ== b k\r\nmg YQ== k b v\r\n", b"HD\r\nHD ka\r\nHD kYQ== b\r\nVA 2 kYQ== b\r\n17\r\n"
        yield stored + b"ms a 2 k\r\n18\r\nms YQ== 2 b k\r\n19\r\nmg a k v\r\n", b"HD\r\nHD ka\r\nHD kYQ== b\r\nVA 2 ka\r\n19\r\n"
        yield stored + b"ma a k\r\nma YQ== b k O1 v\r\nma a k\r\n", b"HD\r\nHD ka\r\nVA 2 kYQ== b O1\r\n19\r\nHD ka\r\n"
        yield stored + b"md YQ== b k I\r\nmd a k\r\nmd a k\r\nmd YQ== b k\r\n", b"HD\r\nHD kYQ== b\r\nHD ka\r\nNF ka\r\nNF kYQ== b\r\n"
        yield stored + b"me a\r\nme YQ== b\r\nme b\r\n", b"HD\r\nME a exp=~ la=0 cas=#1 fetch=no cls=1 size=62\r\nME YQ== exp=~ la=0 cas=#1 fetch=no cls=1 size=62\r\nEN\r\n"


def strict_base64():
    for key in BAD_BASE64:
        yield b"mg %b b\r\nms %b 1 b\r\nx\r\nmn\r\n" % (key, key), UNDECODED * 2 + b"MN\r\n"
        yield b"md %b b\r\nma %b b\r\nma %b N0 b\r\nmn\r\n" % (key, key, key), UNDECODED + b"CLIENT_ERROR invalid or duplicate flag\r\n" * 2 + b"MN\r\n"
        yield b"me %b b\r\nmn\r\n" % key, b"CLIENT_ERROR bad command line format\r\nMN\r\n"


CONVERSATIONS = {
    "the form of a key is that of the request": list(forms_of_keys()),
    "base64 is strict": list(strict_base64()),
    "nothing of accesses is kept": [
        (KEPT + b"mg a h l\r\nget a\r\nmg a v\r\nmg a h l v\r\ntouch a 100\r\nmg a h l t\r\n",
         b"STORED\r\nHD h0 l0\r\nVALUE a 5 2\r\n17\r\nEND\r\nVA 2\r\n17\r\nVA 2 h0 l0\r\n17\r\nTOUCHED\r\nHD h0 l0 t~\r\n"),
        (KEPT + b"get a\r\nme a\r\n", b"STORED\r\nVALUE a 5 2\r\n17\r\nEND\r\nME a exp=~ la=0 cas=#1 fetch=no cls=1 size=66\r\n"),
    ],
    "ma looks at the opaque before it counts": [
        (KEPT + b"ma a O%b\r\nma a O%b\r\nget a\r\n" % (b"o" * 32, b"o" * 31),
         b"STORED\r\nCLIENT_ERROR opaque token too long\r\nHD O%b\r\nVALUE a 5 2\r\n18\r\nEND\r\n" % (b"o" * 31)),
    ],
    "ma sets a time, however long the number gets": [(b"ms a 1 T100\r\n9\r\nma a T0\r\nmg a t v\r\n", b"HD\r\nHD\r\nVA 2 t-1\r\n10\r\n")],
    "statistics that do not exist": [
        (b"stats foo\r\nstats detail on\r\nstats detail off\r\nstats detail dump\r\nstats sizes\r\nlru tune\r\nslabs automove 1\r\nlru_crawler crawl 1\r\n",
         b"ERROR\r\nSERVER_ERROR prefixes of keys are not counted\r\nOK\r\nEND\r\nSTAT sizes_status disabled\r\nEND\r\nERROR\r\nERROR\r\n"
         b"CLIENT_ERROR lru crawler disabled\r\n"),
    ],
    "flags of other commands are left alone": [
        (b"ms a 2 x E7 s\r\n12\r\nmg a v x E9 c\r\nma a v x c E8\r\nmg a c\r\n", b"HD s2\r\nVA 2 c7\r\n12\r\nVA 2 c8\r\n13\r\nHD c8\r\n"),
    ],
    "a refused value changes nothing": [(b"set a 0 0 1\r\nx\r\nset a 0 0 1048577\r\n" + b"y" * 1048577 + b"\r\nget a\r\n",
                                         b"STORED\r\nSERVER_ERROR object too large for cache\r\nVALUE a 0 1\r\nx\r\nEND\r\n")],
    "a length that cannot be read closes": [
        (KEPT + line + b"\r\nflush_all\r\nmn\r\n", b"STORED\r\nCLIENT_ERROR bad command line format\r\n")
        for line in (b"set b", b"set b 0 0 x", b"set b 0 0 -1 noreply", b"set b 0 0 +9", b"set b 0 0 2147483646", b"ms b", b"ms b q")
    ],
    "the binary protocol is refused in its own words": [
        (b"\x80\x0b" + bytes(10) + b"\1\2\3\4" + bytes(8) + b"version\r\n", b"\x81\x0b" + bytes(5) + b"\x81" + bytes(3) + b"\x0f\1\2\3\4" + bytes(8) + b"Unknown command"),
    ],
    "a line without an end": [(b"gat 0 " + b"x" * 100000 + b"\r\nmn\r\n", b"CLIENT_ERROR bad command line format\r\nMN\r\n")],
}


def flushes_before_the_start(address, began):
    """Of moments that are past those before the server's start flush nothing, the others everything. It began between `began` and now."""
    since = int(time.time()) + 1
    while time.time() < since:
        time.sleep(0.1)
    kept = b"STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\n"
    for moment, wanted in ((1234567890, kept), (began - 1000, kept), (began - 30, kept), (time.time() + 1000, kept), (since, b"STORED\r\nOK\r\nEND\r\n")):
        found = converse(address, b"set a 0 0 1\r\nx\r\nflush_all %d\r\nget a\r\n" % moment)
        expect(found == wanted, f"a flush at {moment - began:.0f} s is answered {found}")
    converse(address, b"flush_all\r\n")


def main():
    began = time.time()
    with serving.folder() as folder, Tarn(sys.argv[1], f"{folder}/store", "--mode=device") as server:
        speaker = Speaker(server.address)
        serving.run([named(name, lambda conversations=conversations: answered(speaker, conversations)) for name, conversations in CONVERSATIONS.items()] +
                    [named("flushes before the start", lambda: flushes_before_the_start(server.address, began))])


if __name__ == "__main__":
    main()
