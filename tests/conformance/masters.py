#!/usr/bin/python3
"""Does a space with several masters go on, whatever becomes of the one that leads? On a real ZooKeeper ensemble.

    masters.py TARN WORKER

WORKER is space_worker.c, which uses the space all the time.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import serving
from fabric import free_port
from serving import await_that, expect
from spaces import Part
from verbs import succeeds
from zookeeper import JAR, TOGETHER, Ensemble

MASTERS = 2
SERVERS = 2


class Worker:
    """space_worker.c."""

    def __init__(self, program, fabric, addresses):
        self.process = subprocess.Popen([*TOGETHER, program, fabric, addresses], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.rounds, self.last = 0, ""

    def look(self):
        for line in self.process.stdout:
            self.last = line.rstrip("\n")
            if self.last.startswith("round "):
                self.rounds = int(self.last[6:]) + 1
        expect(self.process.poll() is None, f"the worker has ended: {self.last}")
        return self.rounds

    def await_more(self, count):
        """Wait until so many rounds are over that begin from now on."""
        last = self.look() + count + 1
        begin = time.monotonic()
        await_that(lambda: self.look() >= last, "the worker does not go on")
        return time.monotonic() - begin

    def end(self):
        self.look()
        self.process.stdin.close()
        os.set_blocking(self.process.stdout.fileno(), True)
        lines = self.process.stdout.read().splitlines()
        expect(self.process.wait(serving.PATIENCE) == 0 and lines[-1].startswith("done "), f"the worker fails: {lines[-1:]}")
        print(f"# rounds, reads, longest read in ms: {lines[-1][5:]}", flush=True)


class Space:
    """Masters, memory servers, and a worker."""

    def __init__(self, tarn, worker, ensemble, folder, is_shm):
        self.tarn, self.cluster = tarn, ensemble.url()
        places = [f"{folder}/{i}.sock" if is_shm else f"127.0.0.1:{free_port()}" for i in range(MASTERS + SERVERS)]
        self.scheme = "unix:" if is_shm else "tarn://"
        self.places, self.addresses = places, ",".join(places[:MASTERS])
        self.url = self.scheme + self.addresses
        self.masters = [self.start_master(i) for i in range(MASTERS)]
        self.servers = [Part(tarn, "--memory-server", "--memory=64M", f"--join={self.url}", f"--space-listen={self.scheme}{place}")
                        for place in places[MASTERS:]]
        self.await_servers()
        self.worker = Worker(worker, "shm:" if is_shm else "tcp:", self.addresses)

    def start_master(self, place):
        return Part(self.tarn, f"--space={self.cluster}", f"--space-listen={self.scheme}{self.places[place]}")

    def leader(self):
        """The place of the master that leads: the one whose last words are that."""
        def leads(master):
            return [line for line in master.log().splitlines() if "master leads" in line or "for too long to lead" in line
                    or "ends its term" in line or "another one leads" in line]
        led = [i for i, master in enumerate(self.masters) if master.process.poll() is None and "master leads" in (leads(master) or [""])[-1]]
        return led[0] if len(led) == 1 else None

    def await_leader(self):
        await_that(lambda: self.leader() is not None, "no master leads")
        return self.leader()

    def await_servers(self):
        def there():
            stat = json.loads(succeeds(self.tarn, "space", "stat", self.url, "--json"))
            return sum(server["there"] for server in stat["servers"])
        await_that(lambda: there() == SERVERS, "the memory servers are not there")

    def end(self):
        self.worker.end()
        for part in [*self.servers, *self.masters]:
            part.stop()

    def kill(self):
        self.worker.process.kill()
        self.worker.process.wait()
        for part in [*self.servers, *self.masters]:
            part.kill()


@contextlib.contextmanager
def space_of(tarn, worker, ensemble, folder, is_shm):
    space = Space(tarn, worker, ensemble, folder, is_shm)
    try:
        space.worker.await_more(3)
        yield space
        space.await_servers()
        space.end()
    finally:
        space.kill()


def tell(what, seconds):
    print(f"# {what}: three rounds in {seconds:.1f} s", flush=True)


def a_standby_takes_over(ensemble, tarn, worker):
    with serving.folder() as folder:
        for is_shm in (True, False):
            with space_of(tarn, worker, ensemble, folder, is_shm) as space:
                for number in (signal.SIGTERM, signal.SIGKILL):
                    place = space.await_leader()
                    space.masters[place].signal(number)
                    space.masters[place].wait()
                    tell(f"the leader gets {number.name}", space.worker.await_more(3))
                    space.masters[place] = space.start_master(place)


def a_master_that_stood_still_changes_nothing(ensemble, tarn, worker):
    with serving.folder() as folder:
        for is_shm in (True, False):
            with space_of(tarn, worker, ensemble, folder, is_shm) as space:
                place = space.await_leader()
                space.masters[place].signal(signal.SIGSTOP)
                tell("the leader is stopped", space.worker.await_more(3))
                space.masters[place].signal(signal.SIGCONT)
                space.masters[place].await_line("for too long to lead|ends its term")
                tell("and goes on", space.worker.await_more(3))
                expect(space.await_leader() != place, "it leads again, though another one does")


def the_ensemble_may_lose_servers(ensemble, tarn, worker):
    with serving.folder() as folder, space_of(tarn, worker, ensemble, folder, False) as space:
        ensemble.kill(ensemble.leader())
        await_that(lambda: "leader" in ensemble.modes(), "the ensemble has no leader any more")
        tell("the ensemble's leader is killed", space.worker.await_more(3))
        ensemble.start()
        expect(ensemble.is_complete(), "the killed server does not come back")
        ensemble.kill()
        ensemble.start()
        expect(ensemble.is_complete(), "the ensemble does not come back")
        tell("all its servers are killed", space.worker.await_more(3))


def main():
    if not os.path.exists(JAR) or shutil.which("java") is None:
        print("no ZooKeeper here: install default-jre-headless and libzookeeper-java")
        sys.exit(77)
    with serving.folder() as folder, Ensemble(folder) as ensemble:
        serving.run([a_standby_takes_over, a_master_that_stood_still_changes_nothing, the_ensemble_may_lose_servers], ensemble, *sys.argv[1:])


if __name__ == "__main__":
    main()
