"""What a memcached server answers: taken apart, made comparable, and laid beside another server's.

Two servers that agree still tell different numbers. This is the one place where they are made equal:

- cas uniques are numbered in the order in which the conversation first tells them: `#1`, `#2`, ... So two that were
  equal must still be equal, and two that differed must still differ. 0 stays 0: it is nobody's.
- seconds until expiry and since the last access (`t` and `l` of the meta commands) are compared apart, and may differ
  by two: each server has a clock of its own, and memcached's ticks once a second.
- the version is left out; so are the lines of `stats`, which statistics.py looks at, and the values in the answer to
  `me`, whose names are compared.
"""

import base64
import binascii
import difflib
import re

VALUE = re.compile(rb"VALUE ([^ ]+) (\d+) (\d+)( \d+)?\r\n")
META = re.compile(rb"(?:HD|VA|EX|NS|NF|EN|OK)(?: |\r\n)")
CLOCKS_APART = 2
COMPARED = 1000  # parts behind the first that differs; more take too long


def parts(answer):
    """An answer line by line; a line that announces a value, together with it."""
    at, found = 0, []
    while at < len(answer):
        end = answer.find(b"\r\n", at) + 2
        if end < 2:
            found.append(answer[at:])
            break
        line = answer[at:end]
        value = VALUE.fullmatch(line)
        announced = int(value.group(3)) if value else None
        if line.startswith(b"VA ") and line.split()[1].isdigit():
            announced = int(line.split()[1])
        if announced is not None and answer[end + announced:end + announced + 2] == b"\r\n":
            end += announced + 2
        found.append(answer[at:end])
        at = end
    return found


def first_line(part):
    end = part.find(b"\r\n")
    return (part, b"") if end < 0 else (part[:end + 2], part[end + 2:])


class Normal:
    """What one server answers in one conversation, in comparable form."""

    def __init__(self):
        self.uniques = []
        self.clocks = []

    def unique(self, number):
        if int(number) == 0:
            return b"0"
        if number not in self.uniques:
            self.uniques.append(number)
        return b"#%d" % (self.uniques.index(number) + 1)

    def token(self, token):
        if re.fullmatch(rb"c\d+", token):
            return b"c" + self.unique(token[1:])
        if re.fullmatch(rb"[tl]\d+", token):
            self.clocks.append(int(token[1:]))
            return token[:1] + b"~"
        return token

    def part(self, part):
        line, value = first_line(part)
        if line.startswith(b"VERSION "):
            return b"VERSION\r\n"
        if line.startswith(b"STAT "):
            return b""
        if line.startswith(b"ME "):
            return re.sub(rb"( [a-z]+=)[^ \r]*", rb"\1", line)
        if found := VALUE.fullmatch(line):
            if found.group(4):
                line = line[:found.start(4)] + b" " + self.unique(found.group(4).strip()) + b"\r\n"
        elif META.match(line):
            words = line[:-2].split(b" ")
            head = 2 if words[0] == b"VA" else 1
            line = b" ".join(words[:head] + [self.token(word) for word in words[head:]]) + b"\r\n"
        return line + value

    def answer(self, answer):
        return list(filter(None, (self.part(part) for part in parts(answer))))


def differences(found, wanted):
    """Where two answers in normal form part: pairs of bytes, what the one says and what the other says there."""
    begin = 0
    while begin < min(len(found), len(wanted)) and found[begin] == wanted[begin]:
        begin += 1
    found, wanted = found[begin:begin + COMPARED], wanted[begin:begin + COMPARED]
    matcher = difflib.SequenceMatcher(None, found, wanted, autojunk=False)
    return [(b"".join(found[a:b]), b"".join(wanted[c:d])) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def requested_keys(said):
    """The names of keys in meta requests, each with whether it is in base64."""
    return {(words[1], b"b" in words[2:]) for words in map(bytes.split, said.split(b"\n")) if len(words) > 1 and re.fullmatch(rb"m[gsdae]", words[0])}


def plain_key(part, requested):
    """A part with the key in it as itself, and the names in which it stood there."""
    names = set()

    def plain(found):
        lead, name = found.group(1), found.group(2)
        is_binary = found.group(3) is not None or (lead == b"ME " and (name, True) in requested)
        names.add((name, is_binary))
        try:
            return lead + (base64.b64decode(name, validate=True) if is_binary else name)
        except binascii.Error:
            return found.group()
    line, value = first_line(part)
    if META.match(line) or line.startswith(b"ME "):
        line = re.sub(rb"(^ME | k)([^ \r]+)( b\b)?", plain, line)
    return line + value, names


def one_form_of_keys(said, found, wanted):
    """`wanted` with keys in the form that they have in `found`, wherever that is the form of a request, and `wanted`
    has the same key in another."""
    requested = requested_keys(said)
    plain_found, plain_wanted = ([plain_key(part, requested) for part in parts] for parts in (found, wanted))
    wanted = list(wanted)
    matcher = difflib.SequenceMatcher(None, [text for text, _ in plain_found], [text for text, _ in plain_wanted], autojunk=False)
    for a, b, count in matcher.get_matching_blocks():
        for at in range(count):
            if plain_found[a + at][1] <= requested:
                wanted[b + at] = found[a + at]
    return wanted


def clocks_agree(found, wanted):
    return len(found) == len(wanted) and all(abs(a - b) <= CLOCKS_APART for a, b in zip(found, wanted))


def short(text, limit=300):
    """Bytes for a reader: keys of the greatest length as K, long runs by their count."""
    text = text.replace(b"k" * 250, b"<K250>")
    text = re.sub(rb"(\r\n){4,}", lambda run: b"<%d line ends>" % (len(run.group()) // 2), text)
    text = re.sub(rb"(.)\1{30,}", lambda run: b"<%d times %b>" % (len(run.group()), run.group(1)), text, flags=re.DOTALL)
    text = re.sub(rb"(ERROR\r\n){4,}", lambda run: b"<%d times ERROR>" % (len(run.group()) // 7), text)
    text = repr(text)[2:-1]
    return text if len(text) <= limit else text[:limit * 2 // 3] + " ... " + text[-limit // 3:]
