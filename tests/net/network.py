"""Hosts as network namespaces joined by veth pairs, peers in them, and a relay that stands on the way."""

import ctypes
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
from serving import PATIENCE, await_that, expect  # pylint: disable=wrong-import-position

PORT = 4711
SKIPPED = 77


def enter():
    """Begin this script anew in a network namespace of its own, or say why there is none to be had."""
    if os.environ.get("TARN_NET_INSIDE"):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    way = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    trial = subprocess.run([*way, "sh", "-c", "ip link add v0 type veth peer name v1 && ip link del v0"], capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        print(f"SKIP: no network namespaces and veth pairs can be had here: {trial.stderr.strip()}")
        sys.exit(SKIPPED)
    os.environ["TARN_NET_INSIDE"] = "1"
    os.execvp(way[0], [*way, sys.executable, *sys.argv])


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Host:
    """A network namespace. It lives as long as a process in it does."""

    def __init__(self):
        own = os.readlink("/proc/self/ns/net")
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"], preexec_fn=die_with_parent)
        self.pid = self.holder.pid
        await_that(lambda: os.readlink(f"/proc/{self.pid}/ns/net") != own, "there is no namespace", 0.001)
        self.ip("link", "set", "lo", "up")

    def command(self, *words):
        return ["nsenter", "-t", str(self.pid), "-n", *words]

    def ip(self, *words):
        subprocess.run(self.command("ip", *words), check=True)

    def end(self):
        self.holder.kill()
        self.holder.wait()


def join(name, one, address, other, other_address, mtu=1500):
    """A cable between two hosts, of which `None` is this script's own; its ends have one name."""
    def end_of(host):
        return ["netns", str(host.pid)] if host else []
    subprocess.run(["ip", "link", "add", f"{name}0", *end_of(one), "type", "veth", "peer", "name", f"{name}1", *end_of(other)], check=True)
    for host, number, own in ((one, 0, address), (other, 1, other_address)):
        run = host.ip if host else lambda *words: subprocess.run(["ip", *words], check=True)
        device = f"{name}{number}"
        run("addr", "add", f"{own}/24", "dev", device)
        run("link", "set", device, "mtu", str(mtu), "up")


class Peer:
    """The program `peer` on a host."""

    def __init__(self, program, host, url):
        self.words = (program, url)
        self.begun = self.process = None
        self.start(host)

    def start(self, host):
        self.process = subprocess.Popen(host.command(*self.words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def begin(self, line):
        """Have it do something; end() tells what that came to."""
        self.begun = line
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self, *wanted):
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        expect(ready, f"{self.begun}: no answer")
        words = self.process.stdout.readline().split()
        expect(len(words) == 3, f"{self.begun}: it has died")
        expect(words[0] in (wanted or ("0",)), f"{self.begun}: {words[0]} after {words[1]} ms, not {' or '.join(wanted or ('0',))}")
        return int(words[1]), int(words[2])

    def ask(self, line, *wanted):
        """@return milliseconds and the number of the answer"""
        self.begin(line)
        return self.end(*wanted)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        """End it in good order: nothing has leaked."""
        self.process.stdin.close()
        status = self.process.wait(PATIENCE)
        expect(status == 0, f"exit status {status}")


class Relay:
    """Passes on what two peers say through this script, by any number of sockets, until it is told to do otherwise."""

    def __init__(self, address, target):
        self.target = target
        self.listener = socket.create_server((address, PORT))
        self.lock = threading.Lock()
        self.partners = {}  # each end's other end; those of the first peer come first
        self.first = set()  # the first peer's ends
        self.queue = []  # (when, to which end, bytes)
        self.delay = 0
        self.silent = False   # nothing is passed on any more
        self.changing = False  # a bit of the next piece from the first peer
        self.wake, self.alarm = socket.socketpair()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            with self.lock:
                sources = [self.listener, self.wake, *([] if self.silent else self.partners)]
                due = self.queue[0][0] - time.monotonic() if self.queue and not self.silent else None
            try:
                ready, _, _ = select.select(sources, [], [], None if due is None else max(due, 0))
            except (OSError, ValueError):  # one of them was closed meanwhile
                continue
            if self.wake in ready and not self.wake.recv(1):
                return
            with self.lock:
                self.serve(ready)

    def serve(self, ready):
        if self.listener in ready:
            end, other = self.listener.accept()[0], socket.create_connection(self.target)
            self.partners.update({end: other, other: end})
            self.first.add(end)
        for end in [end for end in self.partners if end in ready]:
            if end in self.partners:
                self.take(end)
        while self.queue and not self.silent and self.queue[0][0] <= time.monotonic():
            _, end, data = self.queue.pop(0)
            try:
                if end in self.partners:
                    end.sendall(data)
            except OSError:
                self.drop(end, self.partners[end])

    def take(self, end):
        try:
            data = bytearray(end.recv(1 << 16))
        except OSError:
            data = b""
        if not data:
            self.drop(end, self.partners[end])
            return
        if self.changing and end in self.first:
            data[len(data) // 2] ^= 1
            self.changing = False
        self.queue.append((time.monotonic() + self.delay, self.partners[end], data))

    def drop(self, *ends):
        """Close ends at once (RST)."""
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()
            self.partners.pop(end, None)
            self.first.discard(end)
        if not self.partners:
            self.queue = []

    def do(self, function):
        """Change something between two pieces."""
        with self.lock:
            function()
        self.alarm.send(b".")

    def be(self, **how):
        self.do(lambda: self.__dict__.update(how))

    def cut(self):
        """Of the socket that came last the relay knows nothing any more."""
        self.do(lambda: self.drop(*list(self.partners)[-2:]))

    def halve(self):
        """The first peer's ends are closed, of which the second is never told."""
        self.do(lambda: (self.__dict__.update(silent=True), self.drop(*self.first)))

    def mend(self):
        """Forget the old connection; the next is passed on."""
        self.do(lambda: (self.drop(*self.partners), self.__dict__.update(silent=False, delay=0, changing=False)))

    def close(self):
        self.alarm.close()
        self.thread.join()
        self.drop(*self.partners)
        self.listener.close()
        self.wake.close()
