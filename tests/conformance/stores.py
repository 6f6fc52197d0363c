#!/usr/bin/python3
"""Does one server offer several stores, each by memcached's protocol and all by Tarn's own?

    stores.py TARN CLIENT

CLIENT is kv_client.c. A server here has depots and caches at once; what one protocol stores the other reads.
"""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading

import serving
from serving import Connection, Process, Tarn, await_that, expect
from operations import Load, command, told


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Server(Tarn):
    """`tarn serve`, ready, with whatever stores."""

    def __init__(self, program, *options):  # pylint: disable=super-init-not-called
        Process.__init__(self, program, "serve", *options)
        try:
            self.await_line('event="serving" ')
        except serving.Failure:
            self.kill()
            raise

    def of(self, name):
        """Where memcached's clients of a store go."""
        listen = self.await_line(rf'event="serving" .* listen=(\S+) .*store={name} ').group(1)
        return listen[5:] if listen.startswith("unix:") else serving.parse_address(listen)


class Asked:
    """A server with only an address, as told() wants it."""

    def __init__(self, address):
        self.address = address


class Client:
    """Tarn's own client of one store."""

    def __init__(self, program, url, *fabric):
        self.process = subprocess.Popen([program, url, *fabric], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, bufsize=1)
        self.opened = self.answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def answer(self):
        return self.process.stdout.readline().strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        return self.answer()

    def end(self):
        self.process.stdin.close()
        expect(self.process.wait(serving.PATIENCE) == 0, "a client does not end well")


def refused(tarn, *options, status):
    found, _, errors = command(tarn, "serve", *options)
    expect(found == status, f"{options}: exit status {found} instead of {status}: {errors}")
    return errors


@contextlib.contextmanager
def offered(tarn, client, *options):
    """A depot and a cache with both kinds of listeners; clients of both by both."""
    with serving.folder() as folder:
        port = free_port()
        with Server(tarn, f"--store=keep:depot,path={folder}/store,size=16M", f"--store=fast:cache,memory=16M,unix={folder}/fast",
                    "--port=0", "--threads=2", f"--kv-listen=127.0.0.1:{port}", f"--kv-unix={folder}/kv", *options) as server, \
                contextlib.ExitStack() as stack:
            clients = {(name, way): stack.enter_context(Client(client, f"{url}/{name}"))
                       for name in ("keep", "fast")
                       for way, url in (("tcp", f"tarn://127.0.0.1:{port}"), ("shm", f"unix:{folder}/kv"))}
            for asked in clients.values():
                expect(asked.opened == "open", f"a store is not opened: {asked.opened}")
            yield server, clients, folder


def what_one_protocol_stores_the_other_reads(tarn, client):
    with offered(tarn, client) as (server, clients, _):
        for (name, way), asked in clients.items():
            expect(asked.ask("kind") == {"keep": "depot durable", "fast": "cache evicts"}[name], "it is of another kind")
            expect(asked.ask(f"put {way} by {way} in {name}") == "ok", "it does not store")
        for (name, way), asked in clients.items():
            for other in ("tcp", "shm"):
                expect(asked.ask(f"get {other}") == f"value by {other} in {name}", f"{way} does not see what {other} has stored")
        for name in ("keep", "fast"):
            with Connection(server.of(name)) as memcached:
                for way in ("tcp", "shm"):
                    found = memcached.get(way.encode())
                    expect(found == f"by {way} in {name}".encode(), f"memcached's client of {name} is told {found}")
                expect(memcached.set(b"m", b"by memcached in " + name.encode()) == b"STORED", "it does not store")
                for way in ("tcp", "shm"):
                    asked = clients[name, way]
                    expect(asked.ask("get m") == f"value by memcached in {name}", "what memcached's client stores is not seen")
                    expect(asked.ask(f"del {way}") == "ok" and asked.ask(f"del {way}") == "none", "it does not delete")
                    expect(memcached.get(way.encode()) is None, "what was deleted is there")
        tell_apart(server)
        host, port = server.of("keep")
        status, output, errors = command(tarn, "top", f"{host}:{port}", "--interval=10ms", "--count=1")
        lines = [line for line in output.decode().split("\n") if line.startswith("calls ")]
        expect(status == 0 and len(lines) == 2 and 'over "tcp"' in lines[0] and 'over "shm"' in lines[1], f"{output}{errors}")
        for asked in clients.values():
            asked.end()
        server.stop()


def tell_connections(server, name):
    """Only those of the store that is asked: the one that asks, and those that are not gone yet."""
    with Connection(server.of("keep")) as one, Connection(server.of("fast")) as other:
        expect(one.ask(b"mn\r\n") == other.ask(b"mn\r\n") == b"MN", "it does not answer")

        def counts():
            connections = told(Asked(server.of(name)), b" conns")
            expect(list(connections.values()).count("conn_listening") == 1, f"{connections}")
            return (sum(key.endswith(":secs_since_last_cmd") for key in connections), told(Asked(server.of(name)))["curr_connections"])
        await_that(lambda: counts() == (2, "2"), f"{name} has other connections than its own: {counts()}")


def tell_apart(server):
    """Each store has counters of its own, and the kv listeners theirs: the same at every listener."""
    for name in ("keep", "fast"):
        tell_connections(server, name)
        facts = told(Asked(server.of(name)))
        expect((facts["cmd_set"], facts["get_hits"], facts["get_misses"], facts["curr_items"]) == ("1", "2", "2", "1"), f"{name}: {facts}")
        expect(facts["threads"] == "2", f"{name}: {facts}")
        calls = told(Asked(server.of(name)), b" calls")
        expect([calls[f"{place}:fabric"] for place in (0, 1)] == ["tcp", "shm"] and "2:fabric" not in calls, f"{calls}")
        for place in (0, 1):
            fact = {key.split(":", 1)[1]: value for key, value in calls.items() if key.startswith(f"{place}:")}
            counts = {key: int(value) for key, value in fact.items() if key not in ("fabric", "address")}
            expect(counts["connections"] >= 2 and counts["memory_bytes"] > 0 and counts["changes"] >= 0, f"{fact}")
            expect(counts["calls"] >= 14 and counts["fetched"] + counts["replied"] == counts["calls"], f"{fact}")
            expect((counts["fetched"] == 0) == (place == 0), f"on tcp results are replied, on shm fetched at first: {fact}")
            methods = {key: value for key, value in counts.items() if key.endswith("_calls")}
            expect(methods["info_calls"] >= 2 and sum(methods.values()) == counts["calls"], f"{fact}")
            expect(counts["cache_get_errors"] < counts["cache_get_calls"] and counts["cache_get_service_us"] >= 0, f"{fact}")
            expect(counts["fabric_failed"] == counts["fabric_refused"] == counts["late"] == 0, f"{fact}")
        expect(int(calls["0:fabric_notified_writes"]) > 0, f"{calls}")  # counted when the peer says so
    drives = told(Asked(server.of("keep")), b" drives")
    expect(drives["0:failed"] == "no" and not told(Asked(server.of("fast")), b" drives"), f"{drives}")


def a_hash_store_is_for_all_clients(tarn, client):
    with serving.folder() as folder:
        with Server(tarn, "--store=h:hash,memory=32M,slots=1024,filter=4", "--port=0", "--threads=2", f"--kv-unix={folder}/kv") as server:
            with Client(client, f"unix:{folder}/kv/h") as asked, Connection(server.of("h")) as memcached:
                expect(asked.opened == "open" and asked.ask("put k by the client") == "ok", f"it is not opened: {asked.opened}")
                expect(memcached.get(b"k") == b"by the client", "memcached's client does not see what the other stores")
                for number in range(3000):
                    expect(memcached.set(b"%d" % number, b"%d" % number) == b"STORED", f"{number} is not stored")
                expect(asked.ask("get 2999") == "value 2999", "the other does not see what memcached's client stores")
            status, output, _ = command(tarn, "scan", f"unix:{folder}/kv/h")
            expect(status == 0 and len(output.split()) == 3001, f"a scan has {len(output.split())} keys")
            server.stop()


def small_hash_stores_are_filled_by_many_threads(tarn, _client):
    """Each thread has parts of the memory of its own, for each length; none is said to be full when there is much room."""
    with Server(tarn, "--store=h:hash,memory=16M", "--port=0", "--threads=8") as server, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(Connection(server.of("h"))) for _ in range(16)]
        lengths = [int(50 * 1.3 ** i) for i in range(12)]
        for number in range(10000):
            answer = connections[number % 16].set(b"%d" % number, b"v" * lengths[number * 7 % 12])
            expect(answer == b"STORED", f"{number} is not stored: {answer}")
        expect(connections[0].ask(b"flush_all\r\n") == b"OK", "it is not flushed")
        for number in range(1000):
            answer = connections[number % 16].set(b"%d" % number, b"v" * 2000)
            expect(answer == b"STORED", f"{number} is not stored after others, which were shorter: {answer}")
        server.stop()


def sigterm_ends_all_in_good_order(tarn, client):
    """Under load by every protocol; what was acknowledged by the depot is there."""
    with serving.folder() as folder:
        data, port, load = f"{folder}/store", free_port(), Load()
        options = ("--port=0", "--threads=2", f"--store=keep:depot,path={data},size=64M", f"--store=fast:cache,memory=16M,unix={folder}/fast",
                   f"--kv-listen=127.0.0.1:{port}", f"--kv-unix={folder}/kv")
        urls = [f"{url}/{name}" for name in ("keep", "fast") for url in (f"tarn://127.0.0.1:{port}", f"unix:{folder}/kv")]
        with Server(tarn, *options) as server, contextlib.ExitStack() as stack:
            idle = [stack.enter_context(Client(client, url)) for url in urls]
            pounding = [stack.enter_context(Client(client, url)) for url in urls]
            acknowledged = [0] * len(urls)
            ends = [None] * len(urls)

            def listen(place):
                asked = pounding[place]
                asked.process.stdin.write("pound\n")
                while (line := asked.answer()).startswith("ok "):
                    acknowledged[place] = int(line[3:]) + 1
                ends[place] = line

            threads = [threading.Thread(target=listen, args=(place,), daemon=True) for place in range(len(urls))]
            for thread in threads:
                thread.start()
            load.begin(server.of("keep"))
            await_that(lambda: min(acknowledged) >= 30, f"they are not served: {acknowledged}")
            server.stop()
            expect(not os.path.exists(f"{folder}/kv") and not os.path.exists(f"{folder}/fast"), "a socket is left behind")
            load.end()
            for thread in threads:
                thread.join(serving.PATIENCE)
            expect(all(end in ("end ECONNRESET", "end EHOSTUNREACH", "end ETIMEDOUT") for end in ends), f"{ends}")
            for asked in idle:
                asked.process.kill()
        with Server(tarn, *options) as server, Connection(server.of("keep")) as memcached:
            expect('event="index read from a checkpoint" ' in server.log(), f"the end was not clean:\n{server.log()}")
            load.check(memcached)
            for number in range(max(acknowledged[:2])):
                expect(memcached.get(b"%d" % number) == b"%d" % number, f"{number} was acknowledged, and is gone")
            server.stop()


def scanned(tarn, url, *options):
    status, output, errors = command(tarn, "scan", url, *options)
    expect(status == 0, f"it does not scan: {errors}")
    return output.decode().split()


def a_tree_has_an_order(tarn, _):
    """At the server and in its file, also after a restart; as memcached has stored it."""
    with serving.folder() as folder:
        options = ("--port=0", f"--store=t:tree,path={folder}/t,size=16M,memory=64M", f"--kv-unix={folder}/kv")
        keys = [f"user{number:04}" for number in range(500)] + ["aardvark", "zebra", "user"]
        with Server(tarn, *options) as server:
            with Connection(server.of("t")) as memcached:
                for key in random.Random(1).sample(keys, len(keys)):
                    expect(memcached.set(key.encode(), key[::-1].encode()) == b"STORED", f"{key} is not stored")
            server.stop()
        keys.sort()
        users = [key for key in keys if key.startswith("user")]
        with Server(tarn, *options) as server:
            for url in (f"unix:{folder}/kv/t", f"tree:path={folder}/t"):
                if not url.startswith("unix:"):
                    server.stop()
                expect(scanned(tarn, url) == keys, "keys are in another order")
                expect(scanned(tarn, url, "--reverse") == keys[::-1], "keys are in another order from the end")
                expect(scanned(tarn, url, "--prefix=user") == users, "a prefix shows other keys")
                expect(scanned(tarn, url, "--prefix=user", "--reverse", "--limit=3") == users[:-4:-1], "the last three are others")
                expect(scanned(tarn, url, "--from=user0007", "--to=user0010") == ["user0007", "user0008", "user0009"], "a range shows other keys")
                expect(scanned(tarn, url, "--prefix=user01", "--from=user0198", "--to=zz", "--values") ==
                       ["user0198", "8910resu", "user0199", "9910resu"], "a range of a prefix shows other records")
        status, _, errors = command(tarn, "scan", f"{folder}/t", "--reverse")
        expect(status == 1 and "this is a depot" in errors, f"a depot has an order: {errors}")


def stores_that_cannot_be_are_refused(tarn, _):
    with serving.folder() as folder:
        path = f"path={folder}/x"
        for store, sentence in (("a", "NAME:depot,path=FILE"), ("a:heap,path=x", "no such kind"), (f"a:tree,{path},dump=x", "only a depot"),
                                (f"a:tree,{path},item=1k", "only a cache"), (":cache,memory=1M", "a name has 1 to 63"),
                                ("a:cache", "how much memory"), ("a:depot", "where is it"), (f"a:depot,{path},memory=1M", "only a cache"),
                                (f"a:depot,{path},port=x", "not a number"), (f"a:depot,{path},prot=1", "did you mean port?")):
            errors = refused(tarn, f"--store={store}", status=2)
            expect(sentence in errors and errors.count("tarn: ") == 1, errors)
        for options, sentence in (
                ([f"--store=a:depot,{path}", "--store=a:cache,memory=1M,port=0"], "two stores have the name a"),
                ([f"--data={folder}/x", f"--store=b:depot,{path},port=0"], "the same path"),
                ([f"--store=a:depot,{path}", "--store=b:cache,memory=1M"], "nobody could reach the store b"),
                ([f"--store=a:depot,{path}", "--kv-listen=0.0.0.0:4711"], "--insecure"),
                ([f"--store=a:depot,{path}", "--kv-listen=0.0.0.0:4711", "--kv-fabric=tcp:heartbeat=2s"], "tcp:secret=FILE"),
                ([f"--store=a:depot,{path}", "--kv-listen=127.0.0.1:0"], "has no port"),
                ([f"--store=a:depot,{path}", "--listen=0.0.0.0"], "--insecure")):
            errors = refused(tarn, *options, status=2)
            expect(sentence in errors and errors.count("tarn: ") == 1, errors)
        expect(not os.listdir(folder), "a refused server made a file")
        errors = refused(tarn, "--store=a:cache,memory=900T", f"--kv-unix={folder}/kv", "--port=0", status=1)
        expect("the caches are larger than this machine" in errors and "remedy=" in errors, errors)
        expect(not os.listdir(folder), "a refused server left something")


def addresses_that_are_taken_are_told(tarn, _):
    with serving.folder() as folder, contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for taken in sockets:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
        memcached, kv = (taken.getsockname()[1] for taken in sockets)
        here = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        here.bind(f"{folder}/taken")
        here.listen()
        stores = ["--port=0", f"--store=a:depot,path={folder}/a,size=8M", f"--unix={folder}/a.sock"]
        for options in ([f"--store=b:depot,path={folder}/b,size=8M,port={memcached}"],
                        [f"--kv-listen=127.0.0.1:{kv}"], [f"--kv-unix={folder}/taken"]):
            errors = refused(tarn, *stores, *options, status=1)
            expect('level=error event="cannot listen"' in errors and "ddress already in use" in errors, errors)
            expect(not os.path.exists(f"{folder}/a"), "a file is left behind")
            expect(not os.path.exists(f"{folder}/a.sock"), "a socket is left behind")
        errors = refused(tarn, *stores, "--kv-listen=127.0.0.1:4711", f"--kv-fabric=tcp:secret={folder}/none", status=1)
        expect("cannot open fabric" in errors and "store closed" in errors, errors)


def memory_of_caches_is_beside(tarn, client):
    """A cache that is larger than --memory, at the hosts of --listen."""
    with serving.folder() as folder:
        with Server(tarn, "--memory=64M", "--listen=127.0.0.2:0,127.0.0.2:0,127.0.0.3", "--port=0", "--cache", f"--store=a:depot,path={folder}/a,size=8M",
                    "--store=b:cache,memory=96M,port=0", f"--kv-unix={folder}/kv") as server, \
                Client(client, f"unix:{folder}/kv/b") as asked, Client(client, f"unix:{folder}/kv/a") as evicting:
            expect(asked.ask("put k v") == "ok" and asked.ask("get k") == "value v", "it does not serve")
            expect(evicting.ask("kind") == "depot evicts", "a depot that evicts passes for one that keeps")
            hosts = {name: re.findall(rf" listen=(\S+):\d+ .*store={name} ", server.log()) for name in "ab"}
            expect(hosts == {"a": ["127.0.0.2", "127.0.0.2", "127.0.0.3"], "b": ["127.0.0.2", "127.0.0.3"]}, f"{hosts}")
            used = int(told(Asked(server.of("a")))["memory_used_bytes"])
            expect(96 << 20 < used < 160 << 20, f"it uses {used}")
            server.stop()


def every_depot_is_fitted_and_dumped(tarn, _):
    with serving.folder() as folder:
        with Server(tarn, "--port=0", "--size=8M", f"--store=a:depot,path={folder}/a,dump={folder}/a.jsonl",
                    f"--store=b:depot,path={folder}/b,unix={folder}/b.sock,dump={folder}/b.jsonl") as server:
            for name in (b"a", b"b"):
                with Connection(server.of(name.decode())) as memcached:
                    expect(memcached.set(b"key-of-" + name, b"x") == b"STORED", "it does not store")
            server.signal(signal.SIGUSR1)
            await_that(lambda: server.log().count('event="dump written"') == 2, f"no dumps:\n{server.log()}")
            for name in ("a", "b"):
                with open(f"{folder}/{name}.jsonl", encoding="ascii") as file:
                    text = file.read()
                expect(f"key-of-{name}" in text and text.count("key-of-") == 1, text)
            server.signal(signal.SIGHUP)
            await_that(lambda: server.log().count('event="SIGHUP asks') == 2, f"not fitted:\n{server.log()}")
            expect(all(f'event="SIGHUP asks to fit the store to its drive" store={name} ' in server.log() for name in "ab"), server.log())
            server.stop()
        with Server(tarn, "--port=0", f"--store=a:depot,path={folder}/a,dump={folder}/b", f"--store=b:depot,path={folder}/b,unix={folder}/s") as server:
            server.signal(signal.SIGUSR1)
            server.await_line('event="a dump failed" .*or the store itself')
            server.stop()


def a_file_names_stores(tarn, client):
    """Those of the command line replace them."""
    with serving.folder() as folder:
        with open(f"{folder}/tarn.conf", "w", encoding="ascii") as file:
            file.write(f"store = a:depot,path={folder}/a,size=8M\nport = 0\nstore = b:cache,memory=1M\nkv-unix = {folder}/kv\n")
        for options, names in (((), ("a", "b")), ((f"--store=c:depot,path={folder}/c,size=8M",), ("c",))):
            with Server(tarn, f"--config={folder}/tarn.conf", *options) as server:
                for name in ("a", "b", "c"):
                    with Client(client, f"unix:{folder}/kv/{name}") as asked:
                        expect(asked.opened == ("open" if name in names else "error ENXIO"), f"{name}: {asked.opened}")
                server.stop()


def kv_listeners_have_secrets(tarn, client):
    """Clients that know the secret come in, from other machines, too."""
    with serving.folder() as folder:
        secret, other, port = f"{folder}/secret", f"{folder}/other", free_port()
        for path in (secret, other):
            with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(path * 4)
        for fabric, address in ((f"tcp:tls,secret={secret}", "127.0.0.1"), (f"tcp:secret={secret}", "0.0.0.0")):
            with Server(tarn, "--port=0", f"--data={folder}/store", "--size=8M", f"--kv-listen={address}:{port}", f"--kv-fabric={fabric}") as server:
                url = f"tarn://127.0.0.1:{port}/default"
                with Client(client, url, fabric) as asked:
                    expect(asked.opened == "open" and asked.ask("put k v") == "ok", f"the secret is not enough: {asked.opened}")
                expect(command(tarn, "get", f"{url}?{fabric}", "k")[:2] == (0, b"v"), "the command does not get it")
                for wrong in ("tcp:", fabric.replace(secret, other)):
                    with Client(client, url, wrong) as asked:
                        expect(asked.opened.startswith("error E"), f"{wrong} is let in: {asked.opened}")
                server.stop()
        with Server(tarn, "--port=0", f"--data={folder}/store", f"--kv-listen=0.0.0.0:{port}", "--insecure",
                    f"--kv-fabric=tcp:secret={secret}") as server:
            server.stop()


if __name__ == "__main__":
    serving.run([what_one_protocol_stores_the_other_reads, a_hash_store_is_for_all_clients, small_hash_stores_are_filled_by_many_threads, a_tree_has_an_order, sigterm_ends_all_in_good_order, stores_that_cannot_be_are_refused,
                 addresses_that_are_taken_are_told, memory_of_caches_is_beside, every_depot_is_fitted_and_dumped, a_file_names_stores,
                 kv_listeners_have_secrets], sys.argv[1], sys.argv[2])
