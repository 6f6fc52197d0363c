#!/usr/bin/python3
"""Does a cluster of several masters keep its promises on a real ZooKeeper ensemble, whatever dies?

    zookeeper.py SUITES MEMBER

SUITES is cluster_suites.c, MEMBER is cluster_member.c. The ensemble is three servers in folders of their own, on ports of
this machine alone; each is ended by its number.
"""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

import serving
from serving import Failure, await_that, expect

JAR = "/usr/share/java/zookeeper.jar"
SERVERS = 3
TOGETHER = ("setpriv", "--pdeathsig", "KILL")  # a process that does not outlive this one


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Ensemble:
    """Three servers. Those that have run before go on with what they have stored. @param syncs  whether they wait for their disks"""

    def __init__(self, folder, syncs=False):
        self.folder = folder
        self.syncs = "yes" if syncs else "no"
        self.processes = [None] * SERVERS
        self.ports = []
        self.cases = 0

    def __enter__(self):
        for _ in range(5):  # another process may take a port before a server does
            self.configure()
            self.start()
            if self.is_complete():
                return self
            self.kill()
        raise Failure("the ensemble does not begin:\n" + self.log())

    def __exit__(self, *_):
        self.kill()

    def configure(self):
        ports = free_ports(3 * SERVERS)
        self.ports = ports[:SERVERS]
        peers = [f"server.{i + 1}=127.0.0.1:{ports[SERVERS + i]}:{ports[2 * SERVERS + i]}" for i in range(SERVERS)]
        for i in range(SERVERS):
            path = f"{self.folder}/{i}"
            shutil.rmtree(path, ignore_errors=True)
            os.mkdir(path)
            with open(f"{path}/myid", "w", encoding="ascii") as file:
                file.write(f"{i + 1}\n")
            # sessions of 1 to 60 seconds; servers that are slow because the machine is are waited for
            with open(f"{path}/settings", "w", encoding="ascii") as file:
                file.write("\n".join(["tickTime=500", "maxSessionTimeout=60000", "initLimit=120", "syncLimit=20", f"dataDir={path}", f"clientPort={self.ports[i]}",
                                      "clientPortAddress=127.0.0.1", "admin.enableServer=false", "maxClientCnxns=0",
                                      "4lw.commands.whitelist=srvr", *peers]) + "\n")

    def start(self):
        """Start the servers that do not run."""
        for i, process in enumerate(self.processes):
            if process is None:
                with open(f"{self.folder}/{i}/log", "a", encoding="utf-8") as log:
                    self.processes[i] = subprocess.Popen(
                        [*TOGETHER, "java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dzookeeper.forceSync={self.syncs}",
                         "-cp", JAR, "org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{self.folder}/{i}/settings"],
                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self, *numbers):
        """Kill some servers, or all, at any point of what they do."""
        for i in numbers or range(SERVERS):
            if self.processes[i] is not None:
                self.processes[i].kill()
                self.processes[i].wait()
                self.processes[i] = None

    def modes(self):
        """What each server is: leader, follower, or nothing."""
        found = []
        for port in self.ports:
            try:
                with socket.create_connection(("127.0.0.1", port), serving.PATIENCE) as asked:
                    asked.sendall(b"srvr")
                    lines = asked.makefile("rb").read().decode().splitlines()
            except OSError:
                lines = []
            found.append(next((line[6:] for line in lines if line.startswith("Mode: ")), ""))
        return found

    def is_complete(self):
        """Wait until all serve. False: one has ended."""
        end = time.monotonic() + serving.PATIENCE
        while sorted(self.modes()) != ["follower"] * (SERVERS - 1) + ["leader"]:
            if time.monotonic() > end or any(process is None or process.poll() is not None for process in self.processes):
                return False
            time.sleep(0.1)
        return True

    def leader(self):
        return self.modes().index("leader")

    def log(self):
        lines = []
        for i in range(SERVERS):
            with open(f"{self.folder}/{i}/log", encoding="utf-8", errors="replace") as file:
                lines += file.read().splitlines()[-20:]
        return "\n".join(lines)

    def hosts(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def url(self):
        """Of a cluster that was not there before."""
        self.cases += 1
        return f"zookeeper:{self.hosts()}/case/{self.cases}"


class Member:
    """cluster_member.c, a line and an answer at a time."""

    def __init__(self, program, url, name, session_ms=10000):
        self.url, self.name, self.session_ms = url, name, session_ms
        self.bytes = b""
        self.process = subprocess.Popen([*TOGETHER, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None and self.process.poll() is None:
                self.process.stdin.close()
                expect(self.process.wait(serving.PATIENCE) == 0, f"{self.name} does not end well")
        finally:
            self.process.kill()  # one that is stopped, too
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()

    def tell(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, line="the line before"):
        end = time.monotonic() + serving.PATIENCE
        while b"\n" not in self.bytes:
            ready = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]
            expect(ready, f"{self.name} does not answer: {line}")
            more = os.read(self.process.stdout.fileno(), 65536)
            expect(more, f"{self.name} has ended at: {line}")
            self.bytes += more
        first, self.bytes = self.bytes.split(b"\n", 1)
        return first.decode()

    def ask(self, line):
        self.tell(line)
        return self.answer(line)

    def must(self, line, expected="ok"):
        found = self.ask(line)
        expect(found == expected, f"{self.name}: {line}: {found} instead of {expected}")

    def join(self, expected="ok"):
        self.must(f"join {self.url} {self.name} at-{self.name} {self.session_ms}", expected)
        return self

    def lead(self):
        self.tell("lead 60000")
        return self.led()

    def led(self):
        """@return the epoch, and when it was there"""
        words = self.answer("lead").split(" ")
        expect(words[0] == "epoch", f"{self.name} does not lead: {words}")
        return int(words[1]), int(words[2])

    def value(self, path):
        words = self.ask(f"get {path}").split(" ")
        expect(words[0] == "value", f"{path}: {words}")
        return words[1], int(words[2])

    def await_members(self, *names):
        """Wait until there are these, in their order; the one with a star leads."""
        expected = "members " + " ".join(f"{name.rstrip('*')}=at-{name}" for name in names)
        self.await_server()
        while (found := self.ask("members")) != expected:
            expect(self.ask("watch 60000") == "ok", f"{self.name} sees {found} instead of {expected}, and no change")

    def await_server(self):
        """Wait until it reaches a server; a call alone waits for the length of a session."""
        await_that(lambda: self.ask("get /none") == "none", f"{self.name} reaches no server")


def the_suites_pass(ensemble, suites, _):
    """cluster_suites.c: what every back end does."""
    done = subprocess.run([*TOGETHER, suites, ensemble.hosts()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=2 * serving.PATIENCE)
    expect(done.returncode == 0, done.stdout.decode(errors="replace"))


def members_come_and_go(ensemble, _, member):
    """All see it, however a member goes; its name is free when its session has ended, and not before."""
    url = ensemble.url()
    with Member(member, url, "one") as one, Member(member, url, "two", 6000) as two, Member(member, url, "two", 6000) as other:
        one.join().await_members("one")
        two.join()
        one.await_members("one", "two")
        two.lead()
        one.await_members("one", "two*")
        two.await_members("one", "two*")
        other.join("error EEXIST")
        two.must("leave")
        one.await_members("one")
        two.join()
        one.await_members("one", "two")
        two.process.kill()
        other.join()
        one.await_members("one", "two")
        other.must("leave")
        one.await_members("one")


def the_ensemble_may_lose_its_leader(ensemble, _, member):
    """Every change that was acknowledged is there, and none twice, though the leader is killed in the midst of them."""
    url = ensemble.url()
    with Member(member, url, "one") as one, Member(member, url, "two") as two:
        epoch, _ = one.join().lead()
        two.join()
        one.tell(f"pound {epoch}")
        last = -1
        for killed in (True, False):
            await_that(lambda: two.ask("get /pound/a").startswith("value"), "nothing is stored")
            last = two.value("/pound/a")[1]
            await_that(lambda: two.value("/pound/a")[1] >= last + 50, f"nothing is stored after {last}")  # pylint: disable=cell-var-from-loop
            if killed:
                ensemble.kill(ensemble.leader())
                await_that(lambda: "leader" in ensemble.modes(), "the ensemble has no leader any more")
                two.await_server()
        words = one.ask("stop").split(" ")
        expect(words[0] == "pounded", f"{words}")
        made, unknown = int(words[1]), int(words[2])
        (a, a_version), (b, b_version) = one.value("/pound/a"), one.value("/pound/b")
        expect(a == b and a_version == b_version, f"a multi was made in part: {a} {a_version}, {b} {b_version}")
        expect(made <= a_version + 1 <= made + unknown, f"{made} changes were acknowledged, {unknown} may be made, and {a_version + 1} are")
        ensemble.start()
        expect(ensemble.is_complete(), "the killed server does not come back")


def a_member_that_is_cut_off_changes_nothing(ensemble, _, member):
    """It is stopped for longer than its session, while it leads, and goes on: it knows of itself that its time is over."""
    url = ensemble.url()
    with Member(member, url, "one") as one, Member(member, url, "two") as two, Member(member, url, "three") as three:
        old, _ = one.join().lead()
        two.join()
        three.join()
        two.must(f"put {old} /owner one")
        two.tell("lead 60000")
        three.must("lead 100", "error ETIMEDOUT")
        one.tell(f"act {old}")
        await_that(lambda: three.ask("get /acting").startswith("value"), "it does not act")
        one.process.send_signal(signal.SIGSTOP)
        epoch, led_at = two.led()
        expect(epoch > old, f"epoch {epoch} begins after {old}")
        two.must(f"put {epoch} /owner two")
        three.await_members("three", "two*")
        one.process.send_signal(signal.SIGCONT)
        words = one.answer("act").split(" ")
        expect(words[0] == "acted" and int(words[1]) < led_at, f"it acts when another leads, since {led_at}: {words}")
        for line in (f"put {old} /owner one", "get /owner", "members", "watch 60000", "lead 60000"):
            one.must(line, "error ESTALE")
        three.must(f"put {old} /owner one", "error EPERM")
        one.must("leave")
        one.join()
        one.must(f"put {old} /owner one", "error EPERM")
        expect(one.value("/owner") == ("two", 1), "a member that was cut off has changed something")
        # a member that has given up is not waited for, one that leaves neither
        one.tell("lead 60000")
        await_that(lambda: three.ask("members") == "members one=at-one three=at-three two=at-two*", "it is no member")
        two.must("leave")
        expect(one.led()[0] > epoch, "an epoch is there twice")


def all_servers_may_stop(ensemble, _, member):
    """Calls fail meanwhile, and members fence themselves; afterwards all is as it was, with the same sessions."""
    url = ensemble.url()
    with Member(member, url, "one") as one, Member(member, url, "two") as two:
        epoch, _ = one.join().lead()
        two.join()
        one.must(f"put {epoch} /a before")
        ensemble.kill()
        one.tell(f"put {epoch} /a never")
        two.must("members", "error ENOTCONN")
        expect(one.answer("put") == "error ENOTCONN", "a change is acknowledged that no server has seen")
        ensemble.start()
        expect(ensemble.is_complete(), "the ensemble does not come back")
        two.await_members("one*", "two")
        one.await_server()
        one.must(f"put {epoch} /a after")
        expect(two.value("/a") == ("after", 1), "it has changed otherwise")


def main():
    if not os.path.exists(JAR) or shutil.which("java") is None:
        print("no ZooKeeper here: install default-jre-headless and libzookeeper-java")
        sys.exit(77)
    with serving.folder() as folder, Ensemble(folder) as ensemble:
        serving.run([the_suites_pass, members_come_and_go, the_ensemble_may_lose_its_leader, a_member_that_is_cut_off_changes_nothing,
                     all_servers_may_stop], ensemble, *sys.argv[1:])


if __name__ == "__main__":
    main()
