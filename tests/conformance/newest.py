"""What must be said to memcached 1.6.18 to have it answer as its newest release answers something else.

Newer releases take lines of commands apart in another way, and never take the data behind a refused line for commands.
Here a conversation is read by their rules, and written so that 1.6.18 comes to the same: a line that they refuse becomes
LINE_REFUSED, which 1.6.18 refuses with the same words, and its data is left out; words that they do not look at are left
out, too. Where the length of data cannot be read newer releases go on with whatever follows; Tarn closes the connection,
so that nothing more is said.
"""

import re

LINE_REFUSED = b"touch " + b"k" * 251 + b" 0"
LENGTH = re.compile(rb"\d+|-0+")
NUMBER = re.compile(rb"[\t\v\f\r]*[-+]?\d+(?:[\t\v\f\r].*)?", re.DOTALL)
STORAGE = (b"set", b"add", b"replace", b"append", b"prepend", b"cas")
# How many words each has at least, and how many it looks at.
WORDS = {b"get": (2, None), b"gets": (2, None), b"gat": (3, None), b"gats": (3, None), b"delete": (2, 2), b"incr": (3, 3), b"decr": (3, 3), b"touch": (3, 3),
         b"flush_all": (1, 2), b"verbosity": (2, 2), b"mg": (2, None), b"md": (2, None), b"ma": (2, None), b"me": (2, None)}
QUIET = (b"delete", b"incr", b"decr", b"touch", b"flush_all", b"verbosity")


def is_number(word, least, most):
    """Whether strtol and its kin take it."""
    if re.fullmatch(rb"<\w+[-+]?\d*>[\t\r]?", word):
        return True
    return bool(NUMBER.fullmatch(word)) and least <= int(re.search(rb"[-+]?\d+", word).group()) <= most


def length_of(word):
    """The length of data, or None where it cannot be read."""
    return int(word) if LENGTH.fullmatch(word) and int(word) <= 2 ** 31 - 3 else None


def storage(words):
    """What is said instead of a line with data behind it, the length of that, and whether it is said; None: no length is known."""
    is_meta, is_cas = words[0] == b"ms", words[0] == b"cas"
    at = 2 if is_meta else 4
    length = length_of(words[at]) if len(words) > at else None
    if length is None:
        return None
    if is_meta:
        return (LINE_REFUSED, length, False) if len(words[1]) > 250 else (None, length, len(words) <= 19)
    noreply = [b"noreply"] if words[-1] == b"noreply" else []
    valid = len(words[1]) <= 250 and is_number(words[2], 0, 2 ** 32 - 1) and is_number(words[3], -2 ** 63, 2 ** 63 - 1) and \
        (not is_cas or (len(words) > 5 and is_number(words[5], 0, 2 ** 64 - 1)))
    looked_at = words[:6 if is_cas else 5] if valid else [LINE_REFUSED]
    return b" ".join(looked_at + noreply), length, valid


def other(words):
    """What is said instead of a line without data; None: itself."""
    least, most = WORDS.get(words[0], (0, None)) if words else (0, None)
    if len(words) < least:
        return LINE_REFUSED
    if words and words[0] == b"ma" and b"q" in words[2:] and b"c" in words[2:] and len(words) <= 19:
        # newer releases say nothing even of what they make, so that its cas unique is not among those that are told
        return b" ".join(words[:2] + [word for word in words[2:] if word != b"c"])
    if words and words[0] in QUIET and words[-1] == b"noreply" and len(words) > 1:
        kept = words[:most]
        return b" ".join(kept if words[0] == b"flush_all" and len(words) == 2 else kept + [b"noreply"])
    if not most or len(words) <= most:
        return None
    kept = words[:most]
    if words[0] != b"delete" and kept[-1] == b"noreply":
        kept[-1] = b"x"  # it was not the last word, and is no number
    return b" ".join(kept)


def in_words_of_1_6_18(said):
    told, at = [], 0
    while (end := said.find(b"\n", at) + 1) > 0:
        raw, at = said[at:end], end
        line = raw[:-1].removesuffix(b"\r").split(b"\0")[0]
        words = [word for word in line.split(b" ") if word]
        instead, length, keeps = None, None, True
        if len(raw) < 4:
            instead = LINE_REFUSED
        elif words and words[0] in STORAGE + (b"ms",):
            found = storage(words)
            if found is None:
                told.append(LINE_REFUSED + b"\r\n")
                return b"".join(told)
            instead, length, keeps = found
        else:
            instead = other(words)
        told.append(raw if instead is None else instead + b"\r\n")
        if length is not None:
            told.append(said[at:at + length + 2] if keeps else b"")
            at = min(len(said), at + length + 2)
    return b"".join(told) + said[at:]
