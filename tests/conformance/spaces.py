#!/usr/bin/python3
"""Does a space of several processes keep what it is given, say why it does not, and end when it is told?

    spaces.py TARN
"""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading

import serving
from fabric import free_port
from operations import command
from serving import Connection, Process, await_that, expect
from service import Manager
from stores import Server
from verbs import fails, is_misuse, succeeds

CHUNK = 1 << 20
MEMORY = 64 << 20  # of each memory server: the least that --memory takes


class Part(Process):
    """A process of a space, ready."""

    def __init__(self, tarn, *options):
        super().__init__(tarn, "serve", "--chunk=1M", *options)
        try:
            self.await_line('event="serving" ')
        except serving.Failure:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()

    def stop(self):
        self.signal(signal.SIGTERM)
        expect(self.wait() == 0, f"it does not end well:\n{self.log()}")


class Space:
    """A master and its memory servers."""

    def __init__(self, tarn, folder, name, fabric, *options, count=2):
        self.tarn = tarn
        self.count = count
        self.metadata = f"{folder}/{name}"
        self.options = options
        self.urls = [f"{self.place(folder, name, fabric, i)}" for i in range(1 + count)]
        self.master, self.servers = None, []

    def start(self):
        self.master = self.start_master()
        self.servers.extend(self.start_server(i) for i in range(self.count))
        self.await_servers(self.count)

    @staticmethod
    def place(folder, name, fabric, number):
        return f"unix:{folder}/{name}{number}.sock" if fabric is None else f"tarn://127.0.0.1:{free_port()}?{fabric}"

    @property
    def url(self):
        return self.urls[0]

    def start_master(self):
        return Part(self.tarn, f"--space={self.metadata}", f"--space-listen={self.url}", *self.options)

    def server_options(self, place):
        return ("--memory-server", "--memory=64M", f"--join={self.url}", f"--space-listen={self.urls[1 + place]}", *self.options)

    def start_server(self, place, *options):
        return Part(self.tarn, *self.server_options(place), *options)

    def parts(self):
        return [*self.servers, *([] if self.master is None else [self.master])]

    def do(self, verb, *words, **more):
        return succeeds(self.tarn, "space", verb, self.url, *words, **more)

    def refuses(self, verb, *words, **more):
        return fails(self.tarn, "space", verb, self.url, *words, **more)

    def stat(self, *words):
        return json.loads(self.do("stat", *words, "--json"))

    def name_of(self, place):
        """The name of a memory server, which it makes of its address."""
        at = self.urls[1 + place].split("?")[0].split("//")[-1]
        return next(server["name"] for server in self.stat()["servers"] if at.removeprefix("unix:") == server["address"])

    def await_servers(self, count):
        await_that(lambda: sum(server["there"] for server in self.stat()["servers"]) == count, f"there are not {count} servers")

    def stop(self):
        for part in self.parts():
            part.signal(signal.SIGTERM)
        for part in self.parts():
            expect(part.wait() == 0, f"it does not end well:\n{part.log()}")


@contextlib.contextmanager
def space_of(tarn, folder, name, fabric=None, options=(), count=2):
    space = Space(tarn, folder, name, fabric, *options, count=count)
    try:
        space.start()
        yield space
        space.stop()
    finally:
        for part in space.parts():
            if part.process.poll() is None:
                part.kill()


def written(path, content):
    with open(path, "wb") as file:
        file.write(content)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def secret_of(folder, name, content=b"the quick brown fox jumps\n"):
    path = written(f"{folder}/{name}", content)
    os.chmod(path, 0o600)
    return path


def fabrics(folder):
    return {"shm": None, "tcp": "tcp:", "tls": f"tcp:secret={secret_of(folder, 'fabric-secret')}"}


def put_and_get(space, folder, content):
    path = written(f"{folder}/content", content)
    space.do("create", "graph")
    space.refuses("create", "graph", because="already is a namespace graph")
    space.do("put", "graph/edges", path)
    expect(space.do("get", "graph/edges") == content, "get prints other bytes")
    space.do("get", "graph/edges", f"{folder}/copy")
    expect(read(f"{folder}/copy") == content, "get writes other bytes")


def what_was_put_is_got(tarn):
    content = random.Random(1).randbytes(5 * CHUNK + 3)
    with serving.folder() as folder:
        for name, fabric in fabrics(folder).items():
            with space_of(tarn, folder, name, fabric) as space:
                put_and_get(space, folder, content)
                space.refuses("put", "graph/edges", f"{folder}/content", because="say --force")
                written(f"{folder}/other", content[::-1])
                space.do("put", "graph/edges", f"{folder}/other", "--force")
                expect(space.do("get", "graph/edges") == content[::-1], "the old bytes are still there")


def metrics_of(space):
    """The numbers for Prometheus by name and labels, in the form of its text format, version 0.0.4: the lines of a family stand together."""
    numbers, types, family = {}, {}, None
    for line in space.do("stat", "--metrics").decode().splitlines():
        if line.startswith("# HELP "):
            expect(re.fullmatch(r"# HELP tarn_space_[a-z_]+ [A-Z].*\.", line), line)
        elif line.startswith("# TYPE "):
            family, kind = re.fullmatch(r"# TYPE tarn_space_([a-z_]+) (counter|gauge)", line).groups()
            expect(family not in types and (kind == "counter") == family.endswith("_total"), line)
            types[family] = kind
        else:
            key, value = re.fullmatch(r'tarn_space_([a-z_]+(?:\{(?:server|namespace)="[\w.-]+"\})?) (\d+)', line).groups()
            expect(key.split("{")[0] == family and key not in numbers, line)
            numbers[key] = int(value)
    return numbers


def it_is_told_what_there_is(tarn):
    with serving.folder() as folder, space_of(tarn, folder, "space") as space:
        put_and_get(space, folder, bytes(6 * CHUNK))
        space.do("create", "empty")
        expect(space.do("list") == b"graph\nempty\n", "the namespaces are others")
        expect(space.do("list", "graph") == b"edges\n", "the regions are others")
        expect(space.do("list", "empty") == b"", "there is a region")
        stat = space.stat("graph")
        expect([server["bytes"] for server in stat["servers"]] == [MEMORY, MEMORY], f"{stat}")
        expect([server["free_bytes"] for server in stat["servers"]] == [MEMORY - 3 * CHUNK] * 2, f"{stat}")
        expect([(server["used_bytes"], server["draining"]) for server in stat["servers"]] == [(3 * CHUNK, False)] * 2, f"{stat}")
        expect(stat["regions"] == [{"number": 1, "name": "edges", "address": 0, "bytes": 6 * CHUNK, "class": "bulk", "holders": 0,
                                    "copies": 1}], f"{stat}")
        expect([space["name"] for space in stat["namespaces"]] == ["graph", "empty"], f"{stat}")
        lines = space.do("stat", "graph").decode().splitlines()
        expect(any("2 of 2 memory servers" in line for line in lines), f"{lines}")
        expect(all(len(line) <= 80 for line in lines if "unix" not in line and folder not in line), f"{lines}")
        expect(stat["master"]["regions"] == 1 and stat["master"]["servers"] == 2, f"{stat}")
        metrics = metrics_of(space)
        names = sorted({re.search('server="(.*)"', key)[1] for key in metrics if "{server=" in key})
        expect(names == sorted(server["name"] for server in stat["servers"]), f"{names}")
        expect([metrics[f'server_free_bytes{{server="{name}"}}'] for name in names] == [MEMORY - 3 * CHUNK] * 2, f"{metrics}")
        expect(metrics['namespace_region_bytes{namespace="graph"}'] == 6 * CHUNK and metrics["free_bytes"] == 2 * MEMORY - 6 * CHUNK,
               f"{metrics}")
        expect(metrics['namespace_regions{namespace="empty"}'] == 0 and metrics["secrets_refused_total"] == 0, f"{metrics}")
        space.do("drop", "graph/edges")
        space.refuses("get", "graph/edges", because="no region edges")
        await_that(lambda: space.stat()["namespaces"][0]["spare_bytes"] == 6 * CHUNK, "the memory is not spare")
        space.do("drop", "graph")
        await_that(lambda: all(server["free_bytes"] == MEMORY for server in space.stat()["servers"]), "the memory is not free")
        space.refuses("list", "graph", because="no namespace graph")
        space.refuses("put", "empty/big", written(f"{folder}/big", bytes(2 * MEMORY + 1)), because="too little left")
        expect(space.do("list", "empty") == b"", "a part of it is there")


def secrets_are_asked_for(tarn):
    with serving.folder() as folder, space_of(tarn, folder, "space") as space:
        ours, wrong = secret_of(folder, "ours"), secret_of(folder, "wrong", b"x")
        content = written(f"{folder}/content", b"hush")
        space.do("create", "mine", f"--secret-file={ours}")
        space.do("put", "mine/secret", content, f"--secret-file={ours}")
        expect(space.do("get", "mine/secret", f"--secret-file={ours}") == b"hush", "it is not got")
        for verb, words in {"get": ["mine/secret"], "put": ["mine/other", content], "drop": ["mine"], "list": ["mine"]}.items():
            space.refuses(verb, *words, because="has a secret")
            space.refuses(verb, *words, f"--secret-file={wrong}", because="another secret")
        expect(space.do("list") == b"mine\n", "the name is no secret")
        os.chmod(wrong, 0o640)
        space.refuses("list", "mine", f"--secret-file={wrong}", because="chmod 600")
        space.refuses("list", "mine", f"--secret-file={folder}/none", because="No such file")


def strangers_contribute_nothing(tarn):
    with serving.folder() as folder:
        ours, wrong = secret_of(folder, "ours"), secret_of(folder, "wrong", b"x")
        with space_of(tarn, folder, "space", options=[f"--servers-secret-file={ours}"]) as space:
            for options in ([], [f"--servers-secret-file={wrong}"]):
                with Part(tarn, "--memory-server", "--memory=64M", f"--join={space.url}",
                          f"--space-listen=unix:{folder}/stranger", *options) as stranger:
                    stranger.await_line("is not with its master")
                    expect(len(space.stat()["servers"]) == 2, "a stranger was taken")
                    stranger.stop()


def free_pair():
    """A free port with a free one behind it, below those that the kernel gives to any socket."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as one, socket.socket() as other, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 1))
            return port


def one_process_is_enough(tarn):
    with serving.folder() as folder:
        for name, url in {"shm": f"unix:{folder}/socket", "tcp": f"tarn://127.0.0.1:{free_pair()}"}.items():
            with Part(tarn, f"--space=solo:{folder}/{name}", f"--space-listen={url}", "--memory-server", "--memory=64M") as part:
                part.await_line("a memory server has come")
                succeeds(tarn, "space", "create", url, "alone")
                succeeds(tarn, "space", "put", url, "alone/word", written(f"{folder}/word", b"word"))
                expect(succeeds(tarn, "space", "get", url, "alone/word") == b"word", "it is not got")
                succeeds(tarn, "space", "drop", url, "alone")
                part.stop()


def processes_share_a_hash_store(tarn):
    with serving.folder() as folder:
        for name, url in {"shm": f"unix:{folder}/socket", "tcp": f"tarn://127.0.0.1:{free_pair()}"}.items():
            with Part(tarn, f"--space=solo:{folder}/{name}", f"--space-listen={url}", "--memory-server", "--memory=64M") as part:
                part.await_line("a memory server has come")
                master = url.removeprefix("unix:").removeprefix("tarn://")
                store = f"hash:space={master},namespace=stores,store=users"
                fails(tarn, "get", store, "a", because="no such hash store")
                for number in range(3):
                    succeeds(tarn, "put", f"{store},memory=16M", f"k{number}", f"value {number}")
                expect(succeeds(tarn, "get", store, "k1") == b"value 1", "it is not got")
                succeeds(tarn, "del", store, "k1")
                fails(tarn, "get", store, "k1", because="no key")
                expect(sorted(succeeds(tarn, "scan", store).split()) == [b"k0", b"k2"], "it is not scanned")
                part.stop()


class Setter(threading.Thread):
    """Has a server store one key after the other, until it is stopped or the server is gone; knows what was acknowledged."""

    def __init__(self, address, prefix):
        super().__init__()
        self.connection, self.prefix, self.count, self.is_over = Connection(address), prefix, 0, False
        self.start()

    def run(self):
        try:
            while not self.is_over and self.connection.set(b"%s%d" % (self.prefix, self.count), b"of %s" % self.prefix) == b"STORED":
                self.count += 1
        except (OSError, serving.Failure):
            pass

    def stop(self):
        self.is_over = True
        self.join()
        self.connection.__exit__()


def servers_share_a_hash_store(tarn):
    """Two servers and a client of its own see each other's keys; when one server is killed, the other goes on and has all."""
    for address in (None, f"127.0.0.1:{free_pair()}"):
        with serving.folder() as folder:
            share_a_hash_store(tarn, folder, address)


def share_a_hash_store(tarn, folder, address):
    """:param address: of the space; None: a socket"""
    secret = written(f"{folder}/secret", b"sesame\n")
    os.chmod(secret, 0o600)
    url = f"unix:{folder}/socket" if address is None else f"tarn://{address}"
    with Part(tarn, f"--space=solo:{folder}/space", f"--space-listen={url}", "--memory-server", "--memory=64M") as part:
        part.await_line("a memory server has come")
        store = f"space={address or folder + '/socket'},namespace=stores,store=users"

        def server(name, *more):
            return Server(tarn, f"--store=users:hash,{','.join([store, *more])}", "--port=0", "--threads=2", f"--kv-unix={folder}/{name}")

        status, _, errors = command(tarn, "serve", f"--store=users:hash,{store}", "--port=0")
        expect(status == 1 and "with memory=SIZE it is made" in errors, f"status {status}: {errors}")
        with server("a", f"secret={secret}", "memory=16M") as first, server("b", f"secret={secret}") as second:
            for other in ("", f",secret={written(f'{folder}/open', b'sesame')}"):
                status, _, errors = command(tarn, "serve", f"--store=users:hash,{store}{other}", "--port=0")
                expect(status == 1 and ("chmod 600" if other else "say secret=FILE") in errors, f"status {status}: {errors}")
            urls = [f"hash:{store},secret={secret}", f"unix:{folder}/a/users", f"unix:{folder}/b/users"]
            for url in urls:
                succeeds(tarn, "put", url, url, f"of {url}")
            for key in urls:
                for url in urls:
                    expect(succeeds(tarn, "get", url, key) == f"of {key}".encode(), f"{url} does not see what was put by {key}")
                for server_of in (first, second):
                    with Connection(server_of.of("users")) as memcached:
                        expect(memcached.get(key.encode()) == f"of {key}".encode(), f"memcached's client does not see {key}")
            setters = [Setter(one.of("users"), name) for one, name in ((first, b"a"), (second, b"b"), (first, b"c"))]
            await_that(lambda: all(setter.count > 500 for setter in setters), "they store nothing")
            first.process.kill()
            so_far = setters[1].count
            await_that(lambda: setters[1].count > so_far + 500, "the other server does not go on")
            for setter in setters:
                setter.stop()
            with Connection(second.of("users")) as memcached:
                for setter in setters:
                    for number in range(setter.count):
                        key = b"%s%d" % (setter.prefix, number)
                        expect(memcached.get(key) == b"of " + setter.prefix, f"{key} was acknowledged, and is lost")
                    expect(memcached.set(b"%s%d" % (setter.prefix, setter.count), b"more") == b"STORED", "what was under way is in the way")
            with server("c", f"secret={secret}") as third, Connection(third.of("users")) as memcached:
                expect(memcached.get(b"a0") == b"of a", "a server that comes later does not see it")
                third.stop()
            keys = succeeds(tarn, "scan", urls[0]).split()
            expect(len(keys) == len(urls) + sum(1 + setter.count for setter in setters), f"a scan has {len(keys)} keys")
            if address is not None:  # in a socket's memory nobody notices
                part.signal(signal.SIGSTOP)
                fails(tarn, "scan", urls[2], because="")
            second.stop()
            part.signal(signal.SIGCONT)
        part.stop()


def systemd_is_told(tarn):
    with serving.folder() as folder, Manager(f"{folder}/notify") as manager:
        os.environ["NOTIFY_SOCKET"] = f"{folder}/notify"
        try:
            part = Part(tarn, f"--space={folder}/metadata", f"--space-listen=unix:{folder}/socket")
        finally:
            del os.environ["NOTIFY_SOCKET"]
        with part:
            expect(manager.take_until("READY")["STATUS"] == "serving", "it is not told that it serves")
            part.stop()
            manager.take_until("STOPPING")


def the_end_waits_for_nobody(tarn):
    with serving.folder() as folder:
        for name, fabric in fabrics(folder).items():
            with space_of(tarn, folder, name, fabric) as space:
                put_and_get(space, folder, bytes(20 * CHUNK))
                with subprocess.Popen([tarn, "space", "get", space.url, "graph/edges"], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL) as idle:
                    expect(idle.stdout.read(1) == b"\0", "nothing comes")
                    space.stop()  # while it waits for somebody to read on
                    idle.kill()


def the_lost_are_told(tarn):
    content = random.Random(2).randbytes(4 * CHUNK)
    with serving.folder() as folder:
        for name, fabric in {"shm": None, "tcp": "tcp:"}.items():
            with space_of(tarn, folder, name, fabric) as space:
                put_and_get(space, folder, content)
                space.servers[1].kill()
                space.await_servers(1)
                space.refuses("get", "graph/edges", because="cannot be reached")
                expect(b"not there" in space.do("stat"), "it is not told which server is gone")
                space.servers[1] = space.start_server(1)
                space.await_servers(2)
                space.refuses("get", "graph/edges", because="drop it")
                space.do("drop", "graph/edges")
                space.do("put", "graph/edges", f"{folder}/content")
                expect(space.do("get", "graph/edges") == content, "it is not as before")


def a_memory_server_comes_back(tarn):
    content = random.Random(4).randbytes(5 * CHUNK + 7)
    with serving.folder() as folder:
        for name, fabric in {"shm": None, "tcp": "tcp:"}.items():
            with space_of(tarn, folder, name, fabric) as space:
                file = f"{folder}/{name}.memory"
                space.servers[1].stop()
                space.await_servers(1)
                space.servers[1] = space.start_server(1, f"--memory-file={file}")
                space.await_servers(2)
                put_and_get(space, folder, content)
                for _ in range(2):
                    space.servers[1].stop()
                    expect(os.path.getsize(file) > 2 * CHUNK, "its contents are not saved")
                    space.servers[1] = space.start_server(1, "-e", file)
                    expect(not os.path.exists(file), "its contents could be taken up twice")
                    await_that(lambda: command(tarn, "space", "get", space.url, "graph/edges")[:2] == (0, content), "they are not back")
                space.servers[1].stop()
                written(file, read(file)[:-1])
                fails(tarn, "serve", "--chunk=1M", *space.server_options(1), f"--memory-file={file}", because="it is damaged")
                expect(os.path.exists(file), "it removes what it does not take up")
                os.remove(file)
                fails(tarn, "serve", "--chunk=1M", *space.server_options(1), f"--memory-file={folder}/none/file",
                      because="a folder that exists")
                space.servers[1] = space.start_server(1, "-e", file)
                space.await_servers(2)
                space.refuses("get", "graph/edges", because="drop it")


def copies_outlive_a_server(tarn):
    content = random.Random(4).randbytes(12 * CHUNK + 5)
    with serving.folder() as folder:
        path = written(f"{folder}/content", content)
        for name, fabric in fabrics(folder).items():
            with space_of(tarn, folder, name, fabric, count=3) as space:
                space.do("create", "graph")
                space.refuses("put", "graph/edges", path, "--copies=4", because="4 copies, each on another one")
                expect(space.do("list", "graph") == b"", "a part of it is there")
                space.do("put", "graph/edges", path, "--copies=2")
                written(path, content[::-1])
                space.do("put", "graph/edges", path, "--copies=2", "--force")
                expect(space.do("get", "graph/edges") == content[::-1], "get prints other bytes")
                region = space.stat("graph")["regions"][0]
                expect(region["copies"] == 2 and region["bytes"] == len(content), f"{region}")
                space.servers[1].kill()  # -9
                expect(space.do("get", "graph/edges") == content[::-1], "they are lost with one server")
                space.await_servers(2)
                space.servers[1] = space.start_server(1)
                space.await_servers(3)
                drained = space.name_of(0)
                said = space.do("drain", drained)  # which waits until copies have been made again, and moves some
                expect(said == f"{drained} has nothing any more: it can be stopped\n".encode(), f"{said}")
                rows = {server["name"]: server for server in space.stat()["servers"]}
                expect(rows[drained]["draining"] and rows[drained]["used_bytes"] == 0, f"{rows}")
                expect(sum(row["used_bytes"] for row in rows.values()) >= 2 * 13 * CHUNK, f"{rows}")
                expect(metrics_of(space)[f'server_draining{{server="{drained}"}}'] == 1, "it is not counted")
                expect(b" draining " in space.do("stat"), "it is not told")
                space.servers.pop(0).stop()
                expect(space.do("get", "graph/edges") == content[::-1], "they are lost with a server that was drained")


def a_server_is_drained_only_where_that_can_be(tarn):
    with serving.folder() as folder:
        ours, wrong = secret_of(folder, "ours"), secret_of(folder, "wrong", b"x")
        with space_of(tarn, folder, "space", options=[f"--servers-secret-file={ours}"]) as space:
            know = f"--servers-secret-file={ours}"
            first = space.name_of(0)
            space.refuses("drain", first, because="the memory servers have a secret")
            space.refuses("drain", first, f"--servers-secret-file={wrong}", because="another secret")
            space.refuses("drain", first, f"--servers-secret-file={folder}/none", because="No such file")
            space.refuses("drain", "nobody", know, because="no memory server nobody; `tarn space stat` has")
            space.do("create", "graph")
            space.do("put", "graph/edges", written(f"{folder}/content", bytes(MEMORY + 2 * CHUNK)))
            space.refuses("drain", first, know, because="have less free memory than")
            expect(not any(server["draining"] for server in space.stat()["servers"]), "it is drained")
            space.do("drop", "graph/edges")
            space.do("drop", "graph")
            space.do("drain", first, know)
            expect(b"gets chunks again" in space.do("drain", first, know, "--stop"), "it is not told")
            expect(not any(server["draining"] for server in space.stat()["servers"]), "it is still drained")


def what_holds_draining_up_is_told(tarn):
    with serving.folder() as folder, space_of(tarn, folder, "space") as space:
        put_and_get(space, folder, bytes(20 * CHUNK))
        name = space.name_of(0)
        with subprocess.Popen([tarn, "space", "get", space.url, "graph/edges"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as idle:
            expect(idle.stdout.read(1) == b"\0", "nothing comes")  # and it holds the region
            drain = Process(tarn, "space", "drain", space.url, name)
            drain.await_line(f"10.0 MiB of {name} are still to be moved: clients hold the regions")
            drain.signal(signal.SIGINT)
            expect(drain.wait() == 1, "it does not end")
            expect(f"draining {name} goes on" in drain.log(), f"{drain.log()}")
            drain = Process(tarn, "space", "drain", space.url, name)
            expect(len(idle.stdout.read()) == 20 * CHUNK - 1 and idle.wait() == 0, "it is not read to its end")
            expect(drain.wait() == 0, f"it is not drained: {drain.log()}")
        expect(space.do("get", "graph/edges") == bytes(20 * CHUNK), "it is lost")


def a_master_comes_back(tarn):
    content = random.Random(3).randbytes(4 * CHUNK)
    with serving.folder() as folder:
        for name, fabric, signals in ("shm", None, [signal.SIGTERM, signal.SIGKILL]), ("tcp", "tcp:", [signal.SIGKILL]):
            with space_of(tarn, folder, name, fabric) as space:
                put_and_get(space, folder, content)
                for number in signals:
                    space.master.signal(number)
                    space.master.wait()
                    is_socket_gone = fabric is None and number == signal.SIGTERM
                    space.refuses("list", because="check the path" if is_socket_gone else "is the master running?")
                    space.master = space.start_master()
                    space.await_servers(2)
                    expect(space.do("get", "graph/edges") == content, "what the servers have is lost")


def what_is_wrong_is_told(tarn):
    master, listen = "--space=m", "--space-listen=unix:s"
    with serving.folder() as folder:
        for options, because in {
                ("--memory-server", listen): "--join=URL",
                (master,): "where is it reached?",
                ("--space=zookeeper:127.0.0.1:2181/x", listen, "--memory-server"): "say --join=URL with",
                (master, "--space-listen=tarn://127.0.0.1:1,127.0.0.1:2"): "without a comma",
                ("--join=tarn://127.0.0.1:1,", "--space-listen=tarn://127.0.0.1:2", "--memory-server"): "1 to 107 bytes",
                (master, listen, "--join=unix:t"): "leave out one",
                (master, listen, "--data=x"): "--data is for stores",
                (master, listen, "--kv-unix=x"): "--kv-unix is for stores",
                (listen, "--data=x"): "--space-listen is for a space",
                (master, listen, "--memory-file=x"): "say --memory-server, too",
                ("--join=unix:s", "--data=x"): "--join is for a space",
                (master, "--space-listen=here"): "unix:PATH",
                (master, "--space-listen=unix:"): "1 to 107 bytes",
                (master, "--space-listen=unix:/" + 200 * "x"): "1 to 107 bytes",
                (master, "--space-listen=tarn://127.0.0.1"): "it has no port",
                (master, "--space-listen=tarn://127.0.0.1:0"): "it has no port",
                (master, "--space-listen=tarn://127.0.0.1:1/x"): "nothing stands behind the port",
                (master, "--space-listen=tarn://127.0.0.1:1?shm:"): "tcp: or verbs:",
                (master, "--space-listen=tarn://10.0.0.1:1"): "secret=FILE",
                (master, "--memory-server", "--insecure", "--space-listen=tarn://0.0.0.0:1"): "none of a machine",
                (master, "--memory-server", "--space-listen=tarn://127.0.0.1:65535"): "lower port",
                ("--memory-server", "--join=unix:t", "--space-listen=tarn://127.0.0.1:1"): "of one kind",
                ("--memory-server", "--join=tarn://127.0.0.1:2?tcp:sockets=2", "--space-listen=tarn://127.0.0.1:1?tcp:"): "one fabric",
                (master, listen, "--chunk=3M"): "power of two",
                (master, listen, "--memory-server", "--memory=64M", "--chunk=128M"): "less than one chunk",
                (master, listen, "--memory-server", "--memory=8G", "--chunk=64K"): "a larger --chunk"}.items():
            status, _, errors = command(tarn, "serve", *options)
            expect(status == 2 and because in errors, f"{options} ends with {status}, without {because!r}: {errors}")
        for options, because in {
                (f"--servers-secret-file={folder}/none",): "No such file",
                ("--memory-server", "--memory=1000000G", "--chunk=1T"): "more than this machine has"}.items():
            fails(tarn, "serve", f"--space={folder}/m", f"--space-listen=unix:{folder}/s", *options, because=because)
        few = ["prlimit", "--nofile=300:300", "--", tarn]
        status, _, errors = command(*few, "serve", f"--space={folder}/m", f"--space-listen=unix:{folder}/s", "--chunk=1M",
                                    "--memory-server", "--memory=64M")
        expect(status == 1 and "LimitNOFILE" in errors, f"{status}: {errors}")
        url = f"unix:{folder}/nothing"
        fails(tarn, "space", "list", url, because="check the path")
        fails(tarn, "space", "put", url, "a/b", f"{folder}/none", because="No such file")
        fails(tarn, "space", "put", url, "a/b", "/dev/null", because="is no file")
        fails(tarn, "space", "put", url, "a/b", written(f"{folder}/empty", b""), because="is empty")
        for words in (["list"], ["stat", url, "--json", "--metrics"], ["list", "here"], ["list", url, "a/b"], ["list", url, "a", "b"], ["create", url], ["create", url, "a/b"], ["drain", url], ["drain", url, "a b"],
                      ["put", url, "a"], ["put", url, "a/b/c", folder], ["get", url, "a b/c"], ["drop", url, "/x"], ["none"], []):
            is_misuse(tarn, "space", *words)


if __name__ == "__main__":
    serving.run([what_was_put_is_got, it_is_told_what_there_is, secrets_are_asked_for,
                 strangers_contribute_nothing, one_process_is_enough, processes_share_a_hash_store, servers_share_a_hash_store, systemd_is_told, the_end_waits_for_nobody, the_lost_are_told,
                 copies_outlive_a_server, a_server_is_drained_only_where_that_can_be, what_holds_draining_up_is_told,
                 a_memory_server_comes_back, a_master_comes_back, what_is_wrong_is_told], *sys.argv[1:2])
