#!/usr/bin/python3
"""Is a space one memory when its master, its memory servers and its clients are hosts of their own, and some are cut off for a while?

    space_hosts.py TARN

Hosts are network namespaces, each with a cable to one switch. Exit status 77: there are no namespaces, or no bridge
between them, to be had.
"""

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile

import network
from network import Host
from serving import PATIENCE, await_that, expect, run
from spaces import CHUNK, MEMORY, Part, read, secret_of, written
from verbs import fails, succeeds

NAMES = ("master", "one", "two", "here", "there")
HEARTBEAT = "heartbeat=1s"


class Machine(Host):
    """A host with an address, and `tarn` as a program there."""

    def __init__(self, tarn, folder, number):
        super().__init__()
        self.address, self.cable = f"10.99.5.{number}", f"h{number}"
        subprocess.run(["ip", "link", "add", self.cable, "type", "veth", "peer", "name", "e0", "netns", str(self.pid)], check=True)
        subprocess.run(["ip", "link", "set", self.cable, "master", "switch", "up"], check=True)
        self.ip("addr", "add", f"{self.address}/24", "dev", "e0")
        self.ip("link", "set", "e0", "up")
        self.tarn = f"{folder}/tarn-{number}"
        with open(os.open(self.tarn, os.O_CREAT | os.O_WRONLY, 0o700), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {" ".join(self.command(tarn))} "$@"\n')

    def plug(self, state):
        """Pull its cable out of the switch ("down"), or put it in ("up")."""
        subprocess.run(["ip", "link", "set", self.cable, state], check=True)


class Network:
    """Five machines, and a space of a master and two memory servers."""

    def __init__(self, tarn, folder):
        self.folder = folder
        self.machines = {name: Machine(tarn, folder, number) for number, name in enumerate(NAMES, 1)}
        self.parts = []
        fabric = f"tcp:secret={secret_of(folder, 'secret')},{HEARTBEAT}"
        self.urls = {name: f"tarn://{machine.address}:7000?{fabric}" for name, machine in self.machines.items()}
        self.url = self.urls["master"]

    def start(self):
        self.parts.append(Part(self.machines["master"].tarn, f"--space={self.folder}/metadata", f"--space-listen={self.url}"))
        for name in ("one", "two"):
            self.parts.append(Part(self.machines[name].tarn, "--memory-server", "--memory=64M", f"--join={self.url}",
                                   f"--space-listen={self.urls[name]}"))
        self.await_servers(2)

    def do(self, name, verb, *words):
        return succeeds(self.machines[name].tarn, "space", verb, self.url, *words)

    def refuses(self, name, verb, *words, because):
        return fails(self.machines[name].tarn, "space", verb, self.url, *words, because=because)

    def stat(self, *words):
        return json.loads(self.do("here", "stat", *words, "--json"))

    def await_servers(self, count):
        await_that(lambda: sum(server["there"] for server in self.stat()["servers"]) == count, f"there are not {count} servers")

    def holders(self, region):
        return next(row["holders"] for row in self.stat("graph")["regions"] if row["name"] == region)

    def put(self, name, region, seed):
        content = random.Random(seed).randbytes(24 * CHUNK)
        self.do(name, "put", f"graph/{region}", written(f"{self.folder}/{region}", content))
        return content

    def stop(self):
        for part in reversed(self.parts):
            part.stop()

    def end(self):
        for part in self.parts:
            if part.process.poll() is None:
                part.kill()
        for machine in self.machines.values():
            machine.end()


class Reader:
    """A client that has begun to get a region, and waits for somebody to take the bytes."""

    def __init__(self, net, name, region):
        self.process = subprocess.Popen([net.machines[name].tarn, "space", "get", net.url, f"graph/{region}"], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, bufsize=0, preexec_fn=network.die_with_parent)
        self.first = self.process.stdout.read(1)

    def finish(self):
        rest, errors = self.process.communicate(timeout=2 * PATIENCE)
        return self.process.returncode, self.first + rest, errors.decode()


def what_one_host_puts_another_gets(net):
    net.do("here", "create", "graph")
    content = net.put("here", "edges", 1)
    expect(net.do("there", "list") == b"graph\n" and net.do("there", "list", "graph") == b"edges\n", "it is not there")
    expect(net.do("there", "get", "graph/edges") == content, "get prints other bytes")
    net.do("there", "get", "graph/edges", f"{net.folder}/copy")
    expect(read(f"{net.folder}/copy") == content, "get writes other bytes")
    expect([server["free_bytes"] for server in net.stat()["servers"]] == [MEMORY - 12 * CHUNK] * 2, "it is not on both servers")


def a_memory_server_that_is_cut_off_comes_back_with_what_it_has(net):
    content = net.do("here", "get", "graph/edges")
    net.machines["two"].plug("down")
    net.await_servers(1)
    net.refuses("there", "get", "graph/edges", because="cannot be reached")
    expect(net.do("there", "list", "graph") == b"edges\n", "the master has forgotten it")
    net.machines["two"].plug("up")
    net.await_servers(2)
    expect(net.do("there", "get", "graph/edges") == content, "it is not as before")


def a_client_that_is_cut_off_goes_on_with_what_is_there(net):
    content = net.put("here", "vertices", 2)
    with contextlib.ExitStack() as stack:
        readers = {}
        for region in ("edges", "vertices"):
            readers[region] = Reader(net, "there", region)
            stack.callback(readers[region].process.kill)
            expect(net.holders(region) == 1, "it is not held")
        net.machines["there"].plug("down")
        await_that(lambda: net.holders("edges") + net.holders("vertices") == 0, "its lease does not end")
        net.do("here", "drop", "graph/edges")
        await_that(lambda: net.stat()["namespaces"][0]["spare_bytes"] == 24 * CHUNK, "its memory is still held for the client")
        other = net.put("here", "others", 3)  # where the edges were
        net.machines["there"].plug("up")
        status, found, errors = readers["edges"].finish()
        expect(status == 1 and "dropped meanwhile" in errors, f"{status}: {errors}")
        expect(read(f"{net.folder}/edges").startswith(found), "the client was given bytes of another region")
        status, found, errors = readers["vertices"].finish()
        expect(status == 0 and found == content, f"{status}: {errors}")
        expect(net.do("there", "get", "graph/others") == other, "the client has changed what is not its")


def all_end_in_good_order(net):
    net.stop()


def switch_on():
    """Make the switch, or say why there is none to be had."""
    made = subprocess.run(["ip", "link", "add", "switch", "type", "bridge"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        print(f"SKIP: no bridge between network namespaces can be had here: {made.stderr.strip()}")
        sys.exit(network.SKIPPED)
    subprocess.run(["ip", "link", "set", "switch", "up"], check=True)


def main():
    network.enter()
    switch_on()
    with tempfile.TemporaryDirectory(prefix="tarn-net-") as folder:
        net = Network(os.path.abspath(sys.argv[1]), folder)
        try:
            net.start()
            run([what_one_host_puts_another_gets, a_memory_server_that_is_cut_off_comes_back_with_what_it_has,
                 a_client_that_is_cut_off_goes_on_with_what_is_there, all_end_in_good_order], net)
        finally:
            net.end()


main()
