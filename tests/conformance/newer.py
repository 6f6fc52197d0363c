#!/usr/bin/python3
"""Is what memcached learned after 1.6.18, Debian's, answered as its protocol.txt says?

    newer.py TARN

There is no such memcached here to compare with, so each conversation stands with its answer; c#1 is any cas unique, t~ any
number of seconds.
"""

import re
import sys

import answers
import serving
from memcached import Speaker, named
from serving import Tarn, expect

REFUSED = b"CLIENT_ERROR bad command line format\r\n"
KEPT = b"set a 5 100 2\r\n17\r\n"

CONVERSATIONS = {
    "a cas unique may be given": [
        (b"ms a 2 E777 c\r\nhi\r\nmg a c v\r\ngets a\r\n", b"HD c777\r\nVA 2 c777\r\nhi\r\nVALUE a 0 2 777\r\nhi\r\nEND\r\n"),
        (KEPT + b"ms a 2 E777 MR c\r\nhi\r\nms a 1 C777 E778 c\r\nx\r\nms a 1 C777 E779\r\nx\r\nmg a c\r\n", b"STORED\r\nHD c777\r\nHD c778\r\nEX\r\nHD c778\r\n"),
        (b"ms a 2 E18446744073709551615 c\r\nhi\r\nmg a c\r\ncas a 0 0 1 18446744073709551615\r\nx\r\n", b"HD c18446744073709551615\r\nHD c18446744073709551615\r\nSTORED\r\n"),
        (b"ms a 2 E777\r\nhi\r\nms a 1 MA E778 c\r\n!\r\nms a 1 MP E779 c\r\n!\r\nmg a c v\r\n", b"HD\r\nHD c778\r\nHD c779\r\nVA 4 c779\r\n!hi!\r\n"),
        (b"ms a 2 E777\r\nhi\r\ncas a 0 0 1 777\r\nx\r\ncas a 0 0 1 777\r\ny\r\n", b"HD\r\nSTORED\r\nEXISTS\r\n"),
        (KEPT + b"md a I E777\r\nmg a c v\r\n", b"STORED\r\nHD\r\nVA 2 c777 X W\r\n17\r\n"),
        (KEPT + b"ma a E777 c v\r\nmg a c\r\nma a c q\r\nmn\r\n", b"STORED\r\nVA 2 c777\r\n18\r\nHD c777\r\nMN\r\n"),
        (b"ma a N0 J5 E777 c v\r\nmg a c\r\n", b"VA 1 c777\r\n5\r\nHD c777\r\n"),
        (b"mg a N100 E777 c\r\nmg a c\r\n", b"HD c777 W\r\nHD c777 Z\r\n"),
        (KEPT + b"mg a E777 v\r\n", b"STORED\r\nVA 2\r\n17\r\n"),
        (b"ms a 2 E\r\nhi\r\nms a 2 Ex\r\nhi\r\nms a 2 E-1\r\nhi\r\nms a 2 E18446744073709551616\r\nhi\r\nget a\r\n",
         b"CLIENT_ERROR bad token in command line format\r\n" * 4 + b"END\r\n"),
        (b"mg a Ex\r\nmd a Ex\r\nma a Ex\r\nms a 2 E1 E2\r\nhi\r\n", b"CLIENT_ERROR bad token in command line format\r\n" * 2 + b"CLIENT_ERROR invalid or duplicate flag\r\n" +
         b"CLIENT_ERROR duplicate flag\r\n"),
        (b"ms a 2 E777 ME c\r\nhi\r\nms a 2 E778 ME\r\nho\r\nmg a c v\r\n", b"HD c777\r\nNS\r\nVA 2 c777\r\nhi\r\n"),
    ],
    "md may leave an item without its value": [
        (KEPT + b"md a x\r\nget a\r\nmg a v f s\r\n", b"STORED\r\nHD\r\nVALUE a 0 0\r\n\r\nEND\r\nVA 0 f0 s0\r\n\r\n"),
        (KEPT + b"md a x I T30\r\nmg a v f t\r\nmg a v\r\n", b"STORED\r\nHD\r\nVA 0 f0 t~ X W\r\n\r\nVA 0 Z X\r\n\r\n"),
        (b"md a x\r\nmd a x q\r\nmd a x k O1\r\nget a\r\n", b"NF\r\nNF\r\nNF ka O1\r\nEND\r\n"),
        (KEPT + b"md a x q\r\nmn\r\nget a\r\n", b"STORED\r\nMN\r\nVALUE a 0 0\r\n\r\nEND\r\n"),
        (KEPT + b"md a x C1\r\nget a\r\n", b"STORED\r\nEX\r\nVALUE a 5 2\r\n17\r\nEND\r\n"),
        (KEPT + b"md a x E777\r\nmg a c v\r\n", b"STORED\r\nHD\r\nVA 0 c777\r\n\r\n"),
    ],
    "ms may tell a size": [
        (b"ms a 2 s\r\nhi\r\nms a 3 s MA\r\nabc\r\nms a 1 MP s c\r\nx\r\nms a 2 k s O1\r\nhi\r\n", b"HD s2\r\nHD s5\r\nHD s6 c#1\r\nHD ka s2 O1\r\n"),
        (b"ms a 0 s q\r\n\r\nmn\r\n", b"MN\r\n"),
    ],
    "append and prepend may begin an item": [
        (b"ms a 2 MA N100\r\nhi\r\nms a 2 MA N200\r\nho\r\nmg a v t\r\n", b"HD\r\nHD\r\nVA 4 t~\r\nhiho\r\n"),
        (b"ms a 2 MP N0 F5\r\nhi\r\nms a 2 MP N0\r\nho\r\nmg a v t f\r\n", b"HD\r\nHD\r\nVA 4 t-1 f5\r\nhohi\r\n"),
        (b"ms a 2 MA\r\nhi\r\nms a 2 MP q\r\nhi\r\nmn\r\nget a\r\n", b"NS\r\nNS\r\nMN\r\nEND\r\n"),
    ],
    "data behind a refused line is no command": [
        (KEPT + b"set %b 0 0 9\r\nflush_all\r\nget a\r\n" % (b"k" * 251), b"STORED\r\n" + REFUSED + b"VALUE a 5 2\r\n17\r\nEND\r\n"),
        (KEPT + b"set b x 0 9 noreply\r\nflush_all\r\ncas a 0 0 9\r\nflush_all\r\nget a\r\n", b"STORED\r\n" + REFUSED + b"VALUE a 5 2\r\n17\r\nEND\r\n"),
        (KEPT + b"ms %b 9 q\r\nflush_all\r\nms b 9 Fx\r\nflush_all\r\nget a\r\n" % (b"k" * 251), b"STORED\r\n" + REFUSED * 2 + b"VALUE a 5 2\r\n17\r\nEND\r\n"),
    ],
    "lines that newer releases take apart otherwise": [
        (b"\r\n\nmn\nget\r\ngat 100\r\nincr a\r\nmg\r\nfoo\r\n", REFUSED * 7 + b"ERROR\r\n"),
        (b"set a 0 0 2 1 2 3 4 5\r\n17\r\ntouch a 100 1 2 3\r\nincr a 1 x y z\r\ndelete a 1 2 3\r\n", b"STORED\r\nTOUCHED\r\n18\r\nDELETED\r\n"),
        (b"ma a N0 q\r\nmn\r\nget a\r\nms b 2 s MR\r\nhi\r\n", b"MN\r\nVALUE a 0 1\r\n0\r\nEND\r\nNS s2\r\n"),
        (b"ms a 2 E777\r\nhi\r\nmd a x\r\nmg a c v\r\n", b"HD\r\nHD\r\nVA 0 c777\r\n\r\n"),
        (b"md a k k\r\nmd a z\r\nmd a Cx\r\nms a 1 MEX\r\nx\r\nms a 1 M\r\nx\r\n", b"CLIENT_ERROR duplicate flag\r\nCLIENT_ERROR invalid flag\r\n"
         b"CLIENT_ERROR bad token in command line format\r\nHD\r\nCLIENT_ERROR invalid mode for ms M token\r\n"),
    ],
    "client flags have 32 bits": [
        (b"set a 4294967296 0 2\r\nhi\r\nset a 4294967295 0 2\r\nhi\r\nget a\r\n", b"CLIENT_ERROR bad command line format\r\nSTORED\r\nVALUE a 4294967295 2\r\nhi\r\nEND\r\n"),
        (b"ms a 2 F4294967296\r\nhi\r\nms a 2 F4294967295\r\nhi\r\nmg a f\r\n", b"CLIENT_ERROR bad command line format\r\nHD\r\nHD f4294967295\r\n"),
    ],
}


def answered(speaker, conversations):
    apart = []
    for said, wanted in conversations:
        speaker.clean(True)
        found = serving.converse(speaker.address, said)
        pattern = re.escape(wanted).replace(b"\\#1", b"\\d+").replace(b"\\~", b"\\d+")
        if not re.fullmatch(pattern, found):
            apart.append(f"  said      {answers.short(said, 500)}\n  tarn      {answers.short(found)}\n  should be {answers.short(wanted)}")
    expect(not apart, f"{len(apart)} of {len(conversations)} conversations differ\n" + "\n".join(apart))


def main():
    with serving.folder() as folder, Tarn(sys.argv[1], f"{folder}/store", "--mode=device") as server:
        speaker = Speaker(server.address)
        serving.run([named(name, lambda conversations=conversations: answered(speaker, conversations)) for name, conversations in CONVERSATIONS.items()])


if __name__ == "__main__":
    main()
