#!/usr/bin/python3
"""Is everything answered byte for byte as Debian's memcached answers it, but for what is listed here?

    memcached.py TARN [--only=COMMAND,...] [--all] [--itself] [--seed=N] [-sanitized] [-cache]

Each conversation of corpus.py and corpus_meta.py is held with both servers, on a connection of its own that the client
closes for writing at the end, and the answers are compared; answers.py says what is made equal beforehand. --only takes
some commands, --all prints every conversation that differs rather than a few, --itself compares memcached with
another memcached, which finds whatever in the corpus depends on time or chance. --seed makes other random conversations. A sanitized server is slow, and is
asked every eighth conversation; one whose store is in memory every sixteenth, as most is the same code.
"""

import itertools
import random
import re
import socket
import sys
import time

import answers
import corpus
import corpus_meta
import serving
from differences import DIFFERENCES, KEY_FORMS
from newest import in_words_of_1_6_18
from serving import Connection, Memcached, Tarn, expect

SHOWN = 12  # conversations of a command that differ
CLEANED = [b"a", b"b", b"c", b"d", b"e", b"zz", b"ab", b"abc", b"abcdefgh", b"0", b"-1", b"noreply", corpus.K250, b"a\tb", b"\x01", b"\xff"]
# Keys that only a flush reaches.
NEEDS_FLUSH = re.compile(rb"flush_all| b\b|\0|[^\x20-\x7e\r\n]")
MARK = re.compile(rb"<cas(\d+)([-+]1)?>")
ASIDE = 8  # seconds without an answer
# Without threads that take a reference to an item now and then: incr pads a value with blanks only if it has the item alone.
STEADY = ("-m", "1024", "-o", "no_lru_maintainer,no_lru_crawler")


class Speaker:
    """One server, as the corpus speaks to it."""

    def __init__(self, address):
        self.address = address
        self.broom = Connection(address)

    def clean(self, thoroughly):
        said = b"flush_all\r\n" if thoroughly else b""
        self.broom.send(said + b"".join(b"delete %b noreply\r\n" % key for key in CLEANED) + b"version\r\n")
        while not self.broom.line().startswith(b"VERSION"):
            pass

    def converse(self, said):
        """Hold a conversation, and return everything that was answered, in normal form, and the clocks in it."""
        normal = answers.Normal()
        answer = b""
        steps = re.split(rb"(?m)^(?=[^\n]*<cas)", said)
        with Connection(self.address) as connection:
            connection.socket.settimeout(ASIDE)
            for step in steps[:-1]:
                connection.send(fill_in(step, normal) + b"version\r\n")
                try:
                    while not re.search(rb"VERSION [^\r]*\r\n$", connection.unread):
                        connection.receive()
                except ConnectionError:
                    return answers.Normal().answer(answer + connection.unread), []
                answer += re.sub(rb"VERSION [^\r]*\r\n$", b"", connection.unread)
                connection.unread = b""
                normal = answers.Normal()
                normal.answer(answer)
            answer += finish(connection, fill_in(steps[-1], normal))
        normal = answers.Normal()
        return normal.answer(answer), normal.clocks


def fill_in(said, normal):
    def unique(mark):
        at, offset = int(mark.group(1)) - 1, int(mark.group(2) or b"0")
        return b"%d" % (int(normal.uniques[at]) + offset if at < len(normal.uniques) else 0)
    return MARK.sub(unique, said)


def finish(connection, said):
    """Say the rest, and hear everything until the server has closed the connection."""
    if len(said) < 1 << 15:
        serving.send_all(connection.socket, said)
        sender = None
    else:
        sender = serving.threading.Thread(target=serving.send_all, args=(connection.socket, said), daemon=True)
        sender.start()
    answer = b""
    try:
        while data := connection.socket.recv(1 << 16):
            answer += data
    except ConnectionResetError:
        pass
    except socket.timeout:
        answer += b"(and then nothing for %d seconds)" % ASIDE
    if sender:
        sender.join(ASIDE)
    return answer


class Comparison:
    """Two servers, and what was found when they were compared."""

    def __init__(self, ours, theirs, tolerated, show_all):
        self.ours, self.theirs = Speaker(ours), Speaker(theirs)
        self.began = time.time()
        self.show_all = show_all
        self.tolerated = tolerated
        self.exercised = set()
        self.seen = set()

    def tolerates(self, said, found, wanted):
        for difference in self.tolerated:
            if difference is not KEY_FORMS and re.search(difference.said, said, re.DOTALL):
                self.exercised.add(difference.name)
                if re.fullmatch(difference.tarn, found, re.DOTALL) and re.fullmatch(difference.memcached, wanted, re.DOTALL):
                    self.seen.add(difference.name)
                    return True
        return False

    def without_key_forms(self, said, ours, theirs):
        if KEY_FORMS not in self.tolerated or not re.search(KEY_FORMS.said, said):
            return theirs
        self.exercised.add(KEY_FORMS.name)
        made_alike = answers.one_form_of_keys(said, ours, theirs)
        if made_alike != theirs:
            self.seen.add(KEY_FORMS.name)
        return made_alike

    def compare(self, said):
        """What differs in a conversation and should not: a text for the reader, or None."""
        clocks = {b"now": time.time(), b"start": self.began}
        said = re.sub(rb"<(now|start)([-+]\d+)>", lambda mark: b"%d" % (clocks[mark.group(1)] + int(mark.group(2))), said)
        found = []
        for server, told in ((self.ours, said), (self.theirs, in_words_of_1_6_18(said) if self.tolerated else said)):
            server.clean(NEEDS_FLUSH.search(said))
            found.append(server.converse(told))
        (ours, our_clocks), (theirs, their_clocks) = found
        theirs = self.without_key_forms(said, ours, theirs)
        apart = [(found, wanted) for found, wanted in answers.differences(ours, theirs) if not self.tolerates(said, found, wanted)]
        if not apart and (ours != theirs or answers.clocks_agree(our_clocks, their_clocks)):
            return None
        text = f"  said      {answers.short(said, 500)}"
        for found, wanted in apart[:4]:
            text += f"\n  tarn      {answers.short(found)}\n  memcached {answers.short(wanted)}"
        return text if apart else text + f"\n  tarn's seconds {our_clocks}\n  memcached's    {their_clocks}"

    def command(self, conversations):
        count = 0
        apart = []
        for said in conversations:
            count += 1
            text = self.compare(said)
            if text:
                apart.append(text)
        shown = apart if self.show_all else apart[:SHOWN]
        expect(not apart, f"{len(apart)} of {count} conversations differ\n" + "\n\n".join(shown))
        print(f"# {count} conversations", flush=True)


def named(name, function):
    """A test for serving.run."""
    function.__name__ = name
    return function


def comparisons(comparison, only, step, seed):
    everything = corpus.by_command(seed) | corpus_meta.by_command(seed)
    for command in only:
        expect(command in everything, f"there is no {command}; there are {', '.join(everything)}")
    for command, conversations in everything.items():
        if not only or command in only:
            yield named(command.replace("_", "-") + " as memcached",
                        lambda conversations=conversations: comparison.command(itertools.islice(conversations, 0, None, step)))


def no_difference_is_stale(comparison):
    unused = [difference.name for difference in comparison.tolerated if difference.name not in comparison.exercised]
    stale = [difference.name for difference in comparison.tolerated if difference.name in comparison.exercised - comparison.seen]
    expect(not unused and not stale, f"no conversation is about {unused}, and these are none any more: {stale}")


def cut_anywhere(address):
    """The network may cut a conversation anywhere: the answer is the same."""
    rng = random.Random(5)
    for plausible in (corpus.plausible, corpus_meta.plausible):
        said = b"".join(plausible(rng) for _ in range(60)) + corpus.LONG_TAIL + b"quit\r\n"
        whole = None
        for step in (len(said), 1, 2, 3, 7, 50):
            serving.converse(address, b"flush_all\r\n")
            with Connection(address) as connection:
                for at in range(0, len(said), step):
                    connection.send(said[at:at + step])
                answer = answers.Normal().answer(finish(connection, b""))
            whole = whole or answer
            expect(answer == whole, f"in pieces of {step}: {answers.differences(answer, whole)[:3]}")


def cut_once(address):
    """At every single place of some short conversations."""
    for said in (b"set a 5 0 3\r\nabc\r\nget a b\r\ngets a\r\nappend a 0 0 2 noreply\r\nde\r\nget a\r\ndelete a\r\n", b"set a 0 0 1\r\nxyz\r\nincr a 1\r\nfoo\r\n",
                 b"ms a 3 T100 F5 c\r\nabc\r\nmg a s v t\r\nma a\r\nmd a q\r\nmn\r\nms a x\r\nmg a k\r\n", b"cas a 0 0 2 5\r\n\r\n\r\ntouch a 0\r\ngat 0 a b\r\n"):
        whole = None
        for at in range(len(said) + 1):
            with Connection(address) as connection:
                connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.send(b"delete a noreply\r\n" + said[:at])
                time.sleep(0.001)
                answer = answers.Normal().answer(finish(connection, said[at:]))
            whole = whole or answer
            expect(answer == whole, f"cut at {at}: {answers.short(said)}: {answers.differences(answer, whole)[:3]}")


def main():
    options = [word for word in sys.argv[2:] if word.startswith("--")]
    only = [command for option in options if option.startswith("--only=") for command in option[7:].split(",")]
    seed = next((int(option[7:]) for option in options if option.startswith("--seed=")), 1)
    with serving.folder() as folder, Memcached(*STEADY) as memcached:
        ours = Memcached(*STEADY) if "--itself" in options else Tarn(sys.argv[1], f"{folder}/store", "--mode=device", size="512M")
        with ours:
            comparison = Comparison(ours.address, memcached.address, [] if "--itself" in options else [*DIFFERENCES, KEY_FORMS], "--all" in options)
            step = 16 if serving.CACHE or serving.TREE else 8 if "-sanitized" in sys.argv else 1
            tests = list(comparisons(comparison, only, step, seed))
            if not only and not serving.CACHE and not serving.TREE:
                tests += [named("cut anywhere", lambda: cut_anywhere(ours.address)), named("cut once", lambda: cut_once(ours.address))]
            if not only and step == 1:
                tests.append(named("no difference is stale", lambda: no_difference_is_stale(comparison)))
            serving.run(tests)


if __name__ == "__main__":
    main()
