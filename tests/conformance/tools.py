#!/usr/bin/python3
"""Do memcached's tools find all keys while the server goes on, of a store and of a cache?

    tools.py TARN
"""

import re
import subprocess
import sys
import urllib.parse

import serving
from serving import Connection, await_that, expect
from stores import Server
from transfers import Writers

TOOL = "/usr/share/memcached/scripts/memcached-tool"
KEYS = 20000
LINE = re.compile(rb"key=(\S+) exp=(-1|\d+) la=\d+ cas=([1-9]\d*) fetch=(?:yes|no) cls=1 size=(\d+)")


def each_store(test):
    """Have a test run with a store, then with a cache."""
    def run(tarn):
        for name in ("d", "c"):
            with serving.folder() as folder:
                store = f"d:depot,path={folder}/d,size=128M" if name == "d" else "c:cache,memory=64M"
                with Server(tarn, "--port=0", "--threads=2", f"--store={store}") as server:
                    with Connection(server.of(name)) as client:
                        test(server.of(name), client)
                    server.stop()
    run.__name__ = test.__name__
    return run


def fill(client, *binary):
    for number in range(KEYS):
        client.send(b"set stays%d %d %d 8 noreply\r\n%08d\r\n" % (number, number, 4000000000 if number % 2 else 0, number))
    for key in binary:  # in base64
        client.send(b"ms %s 3 b q\r\nbin\r\n" % key)
    expect(client.ask(b"mn\r\n") == b"MN", "it does not store")


def dumped(client, line=b"lru_crawler metadump all"):
    client.send(line + b"\r\n")
    return rest_of_dump(client)


def rest_of_dump(client):
    """Lines of a metadump end as those of Unix do."""
    text = b""
    while not text.endswith(b"END\r\n"):
        text += client.socket.recv(1 << 20)
    return text.splitlines()[:-1]


@each_store
def tools_list_all_keys(address, client):
    fill(client)
    where = "%s:%d" % address

    def tool(*words):
        return subprocess.run([TOOL, where, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=serving.PATIENCE, check=True).stdout
    found = dict(re.findall(rb"^add (stays\d+) \d+ \d+ 8\r?\n(\d+)", tool("dump"), re.MULTILINE))
    expect(found == {b"stays%d" % number: b"%08d" % number for number in range(KEYS)}, f"memcached-tool dumps {len(found)}")
    expect(re.search(rb"^ +1 +\d+B +0s +1 +%d " % KEYS, tool("display"), re.MULTILINE), f"{tool('display')}")
    expect(b"curr_items" in tool("stats") and b"tcpport" in tool("settings") and b"disabled" in tool("sizes"), "memcached-tool")
    keys = subprocess.run(["memcdump", f"--servers={where}"], stdout=subprocess.PIPE, timeout=serving.PATIENCE, check=True).stdout.split()
    expect(sorted(keys) == sorted(found), f"memcdump lists {len(keys)}")


@each_store
def lines_are_memcacheds(_, client):
    expect(dumped(client) == [], "an empty store has keys")
    client.send(b"set a 0 4000000000 3 noreply\r\nabc\r\nset b! 7 0 0 noreply\r\n\r\nms /wABDQo= 3 b\r\nbin\r\n")
    expect(client.line() == b"HD", "it does not store")
    lines = sorted(LINE.fullmatch(line).group(1, 2, 4) for line in dumped(client))
    expect(lines == [(b"%FF%00%01%0D%0A", b"-1", b"67"), (b"a", b"4000000000", b"63"), (b"b%21", b"-1", b"65")], f"{lines}")
    client.send(b"lru_crawler mgdump hash\r\n")
    lines = list(iter(client.line, b"EN"))
    expect(sorted(lines) == [b"mg /wABDQo= b", b"mg a", b"mg b!"], f"{lines}")
    expect(sorted(dumped(client, b"stats cachedump 1 0")) == [b"ITEM a [3 b; 4000000000 s]", b"ITEM b! [0 b; 0 s]"], "cachedump")
    expect(len(dumped(client, b"stats cachedump 1 1")) == 1 and dumped(client, b"stats cachedump 2 0") == [], "cachedump's limit or class")
    for line, wanted in ((b"lru_crawler metadump 2,3", b"END"), (b"lru_crawler metadump x", b"BADCLASS invalid class id"), (b"lru_crawler", b"ERROR"),
                         (b"lru_crawler metadump", b"ERROR"), (b"lru_crawler metadump 64", b"BADCLASS invalid class id"),
                         (b"lru_crawler enable", b"CLIENT_ERROR lru crawler disabled"), (b"watch evictions", b"CLIENT_ERROR watch commands not allowed"),
                         (b"stats cachedump", b"CLIENT_ERROR bad command line"), (b"stats cachedump 64 1", b"CLIENT_ERROR Illegal slab id"),
                         (b"stats detail dump", b"END"), (b"stats detail", b"CLIENT_ERROR usage: stats detail on|off|dump")):
        found = client.ask(line + b"\r\n")
        expect(found == wanted, f"{line} is answered {found}")


@each_store
def what_stays_is_told_once(address, client):
    fill(client, b"/wABDQo=")
    changing = [b"set changes%d 0 0 1\r\n%d\r\n" % (number % 100, number % 10) for number in range(500)] + \
        [b"delete changes%d\r\n" % number for number in range(0, 100, 2)]
    with Writers(address, *changing):
        for _ in range(3):
            keys = [LINE.fullmatch(line).group(1) for line in dumped(client)]
            told = sorted(key for key in keys if key.startswith(b"stays"))
            expect(told == sorted(b"stays%d" % number for number in range(KEYS)), f"{len(told)} keys, {len(set(told))} of them others")
            expect(urllib.parse.unquote_to_bytes(next(key for key in keys if b"%" in key).decode()) == b"\xff\0\x01\r\n", "bytes")


@each_store
def others_go_on_while_one_is_slow(address, client):
    fill(client)
    with Connection(address) as slow, Connection(address) as other:
        slow.send(b"lru_crawler metadump all\r\n")
        expect(slow.socket.recv(4) == b"key=", "it does not begin")
        for number in range(100):  # the slow one takes nothing meanwhile
            expect(other.get(b"stays%d" % number) == b"%08d" % number, "others do not go on")
        slow.socket.close()

    def is_free():
        client.send(b"lru_crawler metadump 1\r\n")
        return client.socket.recv(4) == b"key=" or client.line() is None
    await_that(is_free, "a client that has left holds it")
    expect(len(rest_of_dump(client)) == KEYS, "a dump is not whole")
    expect(client.get(b"stays1") == b"00000001", "it does not go on")


def a_server_ends_in_the_middle_of_one(tarn):
    with serving.folder() as folder, Server(tarn, "--port=0", "--threads=1", f"--store=d:depot,path={folder}/d,size=128M") as server, \
            Connection(server.of("d")) as client:
        fill(client)
        client.send(b"lru_crawler metadump all\r\n")
        expect(client.socket.recv(4) == b"key=", "it does not begin")
        server.process.terminate()
        text = b""
        while not text.endswith(b"\r\n"):
            text += client.socket.recv(1 << 20)
        expect(text.endswith(b"\nERROR the server ends\r\n") or text.endswith(b"\nEND\r\n"), f"{text[-200:]}")
        server.wait()


def dumps_are_refused_if_told(tarn):
    with Server(tarn, "--port=0", "-m", "16", "-X") as server, Connection(server.of("default")) as client:
        expect(client.ask(b"lru_crawler metadump all\r\n") == b"ERROR metadump not allowed", "metadump")
        expect(client.ask(b"lru_crawler mgdump all\r\n") == b"ERROR key dump not allowed", "mgdump")
        expect(client.ask(b"stats cachedump 1 1\r\n") == b"CLIENT_ERROR stats cachedump not allowed", "cachedump")
        server.stop()


if __name__ == "__main__":
    serving.run([tools_list_all_keys, lines_are_memcacheds, what_stays_is_told_once, others_go_on_while_one_is_slow,
                 a_server_ends_in_the_middle_of_one,                 dumps_are_refused_if_told], sys.argv[1])
