#!/usr/bin/python3
"""What do two hosts on one network do to each other over `tcp`, and what does the network do to them?

    hosts.py PEER [--netem | --sockets]

Hosts are network namespaces. --netem has the kernel lose, delay, reorder and double what they send, where it can.
--sockets measures how much several sockets carry where the kernel delays and loses.
Exit status 77: there are no namespaces to be had.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

import network
from network import PORT, Host, Peer, Relay, join
from serving import expect, run

HEARTBEAT_MS = 1000  # of what works: long enough that a busy machine is not taken for a dead one
NOTICED_MS = 3 * HEARTBEAT_MS + 20000  # the promise, and what a busy machine may add
LONG_MS = 20000

RIGHT = f"10.99.3.2:{PORT}"       # by the cable between both
ON_THE_WAY = f"10.99.1.1:{PORT}"  # by the relay


class Hosts:
    """Left and right: a cable between both, and one from each to this script, where the relay stands."""

    def __init__(self, program, folder):
        self.program = program
        self.left, self.right = Host(), None
        join("l", None, "10.99.1.1", self.left, "10.99.1.2")
        secret = f"{folder}/secret"
        with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(32).hex().encode())
        self.urls = {"plain": f"tcp:insecure,heartbeat={HEARTBEAT_MS}ms", "tls": f"tcp:secret={secret},heartbeat={HEARTBEAT_MS}ms",
                     "sockets": f"tcp:insecure,sockets=4,heartbeat={HEARTBEAT_MS}ms"}
        self.boot()
        self.relay = Relay("10.99.1.1", ("10.99.2.2", PORT))

    def boot(self):
        """Make the right host, or make it anew."""
        self.right = Host()
        join("r", None, "10.99.2.1", self.right, "10.99.2.2")
        join("d", self.left, "10.99.3.1", self.right, "10.99.3.2")

    def pull_plug(self):
        """The right host is gone, and has not said a word."""
        self.left.ip("link", "del", "d0")
        subprocess.run(["ip", "link", "del", "r0"], check=True)

    def end(self):
        self.relay.close()
        self.left.end()
        self.right.end()

    @contextlib.contextmanager
    def peers(self, kind, listen=f"0.0.0.0:{PORT}"):
        """A peer on each host; the right one listens. Both end in good order."""
        left, right = Peer(self.program, self.left, self.urls[kind]), Peer(self.program, self.right, self.urls[kind])
        try:
            right.ask(f"listen {listen}")
            yield left, right
            left.close()
            right.close()
        finally:
            left.kill()
            right.kill()


def meet(left, right, address=RIGHT):
    right.begin(f"accept {LONG_MS}")
    left.ask(f"connect {address} {LONG_MS}")
    right.end()


def part(left, right):
    left.ask("disconnect")
    right.ask("disconnect")


def work_again(left, right, address=RIGHT):
    """What has failed does not stay so."""
    part(left, right)
    meet(left, right, address)
    left.ask(f"work 3 {LONG_MS}")
    part(left, right)


def is_noticed(answer):
    expect(answer[0] <= NOTICED_MS, f"noticed after {answer[0]} ms, and should be after {3 * HEARTBEAT_MS}")


def hosts_work_together_whatever_a_packet_holds(hosts):
    for kind in hosts.urls:
        with hosts.peers(kind) as (left, right):
            for mtu in (300, 577, 1281, 1500, 9000, 65535):
                hosts.left.ip("link", "set", "d0", "mtu", str(mtu))
                hosts.right.ip("link", "set", "d1", "mtu", str(mtu))
                meet(left, right)
                left.ask(f"work 20 {LONG_MS}")
                right.ask(f"work 20 {LONG_MS}")
                part(left, right)
    hosts.left.ip("link", "set", "d0", "mtu", "1500")
    hosts.right.ip("link", "set", "d1", "mtu", "1500")


def they_do_so_over_ipv6(hosts):
    hosts.left.ip("-6", "addr", "replace", "fd98::1/64", "dev", "d0", "nodad")
    hosts.right.ip("-6", "addr", "replace", "fd98::2/64", "dev", "d1", "nodad")
    with hosts.peers("tls", f"[::]:{PORT}") as (left, right):
        meet(left, right, f"[fd98::2]:{PORT}")
        left.ask(f"work 20 {LONG_MS}")


def without_leave_nothing_reaches_beyond_a_host(hosts):
    hosts.urls["bare"] = "tcp:"
    bare = Peer(hosts.program, hosts.left, hosts.urls.pop("bare"))
    bare.ask(f"listen 0.0.0.0:{PORT}", "EPERM")
    bare.ask(f"connect {RIGHT} 1000", "EPERM")
    bare.close()


def who_is_not_there_is_not_waited_for(hosts):
    with hosts.peers("tls") as (left, right):
        left.ask(f"connect 10.99.3.2:{PORT + 1} {LONG_MS}", "ECONNREFUSED")
        took, _ = left.ask(f"connect 10.99.3.77:{PORT} 200", "ETIMEDOUT")
        expect(200 <= took <= 1000, f"it took {took} ms")
        hosts.relay.be(silent=True)  # it is met, and then nothing is heard
        left.ask(f"connect {ON_THE_WAY} 200", "ETIMEDOUT")
        hosts.relay.mend()
        meet(left, right, ON_THE_WAY)
        part(left, right)


def a_long_way_is_only_slow(hosts):
    for kind in hosts.urls:
        with hosts.peers(kind) as (left, right):
            hosts.relay.be(delay=0.02)
            meet(left, right, ON_THE_WAY)
            left.ask(f"work 2 {LONG_MS}")
            if kind == "plain":
                time.sleep(4 * HEARTBEAT_MS / 1000)  # an idle one is probed, and answers late
                left.ask(f"work 1 {LONG_MS}")
            part(left, right)
            hosts.relay.mend()


def a_cut_is_told_to_both(hosts):
    for kind in hosts.urls:
        with hosts.peers(kind) as (left, right):
            meet(left, right, ON_THE_WAY)
            left.begin(f"flood {LONG_MS}")
            right.begin(f"await {LONG_MS}")
            time.sleep(0.05)
            hosts.relay.cut()
            left.end("ECONNRESET")
            right.end("ECONNRESET")
            work_again(left, right, ON_THE_WAY)


def a_half_open_connection_is_noticed(hosts):
    with hosts.peers("plain") as (left, right):
        meet(left, right, ON_THE_WAY)
        hosts.relay.halve()
        left.ask(f"await {LONG_MS}", "ECONNRESET")
        is_noticed(right.ask(f"await {LONG_MS}", "ECONNRESET"))
        hosts.relay.mend()
        work_again(left, right, ON_THE_WAY)


def silence_is_noticed_by_both(hosts):
    for kind in hosts.urls:
        with hosts.peers(kind) as (left, right):
            meet(left, right, ON_THE_WAY)
            left.ask(f"work 3 {LONG_MS}")
            hosts.relay.be(silent=True)
            left.begin(f"flood {LONG_MS}")
            is_noticed(right.ask(f"await {LONG_MS}", "ECONNRESET"))
            is_noticed(left.end("ECONNRESET"))
            hosts.relay.mend()
            work_again(left, right, ON_THE_WAY)


def a_changed_bit_is_found(hosts):
    for kind in hosts.urls:
        with hosts.peers(kind) as (left, right):
            meet(left, right, ON_THE_WAY)
            hosts.relay.be(changing=True)
            left.begin(f"work 1 {LONG_MS}")
            right.ask(f"await {LONG_MS}", "EPROTO")
            left.end("ECONNRESET")
            hosts.relay.mend()
            work_again(left, right, ON_THE_WAY)


def a_frozen_peer_is_noticed_and_wakes_to_nothing(hosts):
    for kind in ("tls", "sockets"):
        with hosts.peers(kind) as (left, right):
            meet(left, right)
            right.begin(f"flood {LONG_MS}")
            time.sleep(0.05)
            right.signal(signal.SIGSTOP)
            is_noticed(left.ask(f"await {LONG_MS}", "ECONNRESET"))
            left.ask("fence")
            left.begin("renew 200")  # what it could write goes to others at once
            right.signal(signal.SIGCONT)
            left.end()
            right.end("ECONNRESET")
            work_again(left, right)


def a_host_that_boots_anew_is_another(hosts):
    with hosts.peers("tls") as (left, right):
        meet(left, right)
        left.begin(f"flood {LONG_MS}")
        time.sleep(0.05)
        hosts.pull_plug()
        right.kill()
        hosts.right.end()
        left.end("ECONNRESET")
        hosts.boot()
        right.start(hosts.right)
        right.ask(f"listen 0.0.0.0:{PORT}")
        work_again(left, right)


def a_pulled_cable_is_noticed(hosts):
    with hosts.peers("plain") as (left, right):
        meet(left, right)
        left.ask(f"work 3 {LONG_MS}")
        hosts.left.ip("link", "set", "d0", "down")
        right.begin(f"await {LONG_MS}")
        is_noticed(left.ask(f"await {LONG_MS}", "ECONNRESET"))
        is_noticed(right.end("ECONNRESET"))
        hosts.left.ip("link", "set", "d0", "up")
        work_again(left, right)


def a_bad_network_is_only_slow(hosts):
    """By the kernel's own emulation, in both directions. Packets that are lost one after the other make a silence of a second or more."""
    hosts.urls["patient"] = hosts.urls["tls"].replace(f"={HEARTBEAT_MS}ms", f"={LONG_MS}ms")
    for rules in ("loss 5%", "delay 50ms 5ms reorder 25% 50%", "duplicate 20% corrupt 1%"):
        for host, device in ((hosts.left, "d0"), (hosts.right, "d1")):
            subprocess.run(host.command("tc", "qdisc", "replace", "dev", device, "root", "netem", *rules.split()), check=True)
        with hosts.peers("patient") as (left, right):
            meet(left, right)
            left.ask(f"work 2 {3 * LONG_MS}")
            part(left, right)
        print(f"# {rules}", flush=True)


def emulate(hosts, rules):
    """Have the kernel do this to what either host sends by the cable, packet by packet."""
    for host, device in ((hosts.left, "d0"), (hosts.right, "d1")):
        host.ip("link", "set", "dev", device, "gso_max_segs", "1")
        subprocess.run(host.command("tc", "qdisc", "replace", "dev", device, "root", "netem", *rules.split()), check=True)


def sockets_carry(hosts):
    """MB/s by 1, 2, 4 and 8 sockets, in turn, so that all see the same machine."""
    for rules in ("delay 5ms loss 0.1%", "delay 5ms loss 1%", "delay 20ms loss 0.1%", "delay 20ms loss 1%", "delay 5ms loss 0%"):
        emulate(hosts, rules + " limit 20000")
        for turn in range(3):
            for sockets in (1, 2, 4, 8):
                hosts.urls["some"] = f"tcp:insecure,sockets={sockets},heartbeat=60s"
                with hosts.peers("some") as (left, right):
                    meet(left, right)
                    for verb in ("write", "read"):
                        took_ms, moved = left.ask(f"{verb} 4000")
                        print(f"# {rules}: turn {turn}, {sockets} sockets, {verb} {moved / took_ms / 1000:.2f} MB/s", flush=True)
                    part(left, right)


def main():
    network.enter()
    tests = [hosts_work_together_whatever_a_packet_holds, they_do_so_over_ipv6, without_leave_nothing_reaches_beyond_a_host,
             who_is_not_there_is_not_waited_for, a_long_way_is_only_slow, a_cut_is_told_to_both, a_half_open_connection_is_noticed,
             silence_is_noticed_by_both, a_changed_bit_is_found, a_frozen_peer_is_noticed_and_wakes_to_nothing,
             a_pulled_cable_is_noticed, a_host_that_boots_anew_is_another]
    if "--netem" in sys.argv:
        tests = [a_bad_network_is_only_slow]
    if "--sockets" in sys.argv:
        tests = [sockets_carry]
    with tempfile.TemporaryDirectory(prefix="tarn-net-") as folder:
        hosts = Hosts(os.path.abspath(sys.argv[1]), folder)
        try:
            run(tests, hosts)
        finally:
            hosts.end()


main()
