#!/usr/bin/python3
"""Do get, put, del and scan do at a server what they do on a file, and say why when they do not?

    remotes.py TARN
"""

import contextlib
import random
import sys
import time

import serving
from fabric import free_port
from serving import expect
from stores import Server
from verbs import fails, is_misuse, made, succeeds


@contextlib.contextmanager
def serving_stores(tarn, folder, *stores, number=0):
    """A server of some stores: what its URLs begin with, over tcp and over shm."""
    address, path = f"127.0.0.1:{free_port()}", f"{folder}/socket{number}"
    with Server(tarn, "--port=0", "--threads=2", f"--kv-listen={address}", f"--kv-unix={path}",
                *(f"--store={store}" for store in stores)) as server:
        yield f"tarn://{address}", f"unix:{path}"
        server.stop()


def keys_are_those_of_the_server(tarn):
    with serving.folder() as folder:
        with serving_stores(tarn, folder, f"d:depot,path={folder}/data,size=64M", "c:cache,memory=16M,partitions=3") as urls:
            for url in urls:
                for name in ("d", "c"):
                    store = f"{url}/{name}"
                    expect(succeeds(tarn, "put", store, "a", "one") == b"", "put prints something")
                    expect(succeeds(tarn, "get", store, "a") == b"one", "get does not get")
                    succeeds(tarn, "put", store, "b", said=b"\0two\n")
                    expect(succeeds(tarn, "get", store, "b") == b"\0two\n", "put does not read its input")
                    fails(tarn, "put", store, "a", "x", "--if=absent", because="already")
                    fails(tarn, "put", store, "z", "x", "--if=present", because="no key")
                    output = fails(tarn, "get", store, "a", "none", "b", because="no key")
                    expect(output == b'a\tone\nb\t"\\x00two\\n"\n', f"{output}")
                    succeeds(tarn, "put", store, "brief", "x", "--expire=1ms")
                    time.sleep(0.1)  # expiry is exact to 10 ms
                    fails(tarn, "get", store, "brief", because="no key")
                    succeeds(tarn, "del", store, "b")
                    fails(tarn, "del", store, "b", because="no key")
                    fails(tarn, "get", store, "b", because="no key")
        expect(succeeds(tarn, "get", f"{folder}/data", "a") == b"one", "the server's store does not have it")


def keys_are_scanned(tarn):
    keys = [f"user:{number}" for number in range(30)] + ["other"]
    with serving.folder() as folder:
        store = made(tarn, folder)
        for key in keys:
            succeeds(tarn, "put", store, key, f"<{key}>", "--mode=async")
        with serving_stores(tarn, folder, f"d:depot,path={store}", "c:cache,memory=1M") as urls:
            for url in urls:
                expect(sorted(succeeds(tarn, "scan", f"{url}/d").decode().splitlines()) == sorted(keys), "scan")
                expect(succeeds(tarn, "scan", f"{url}/d", "--prefix=ot", "--values") == b"other\t<other>\n", "values")
                expect(len(succeeds(tarn, "scan", f"{url}/d", "--limit=7").splitlines()) == 7, "the limit is none")
                for key in keys:
                    succeeds(tarn, "put", f"{url}/c", key, f"<{key}>")
                expect(sorted(succeeds(tarn, "scan", f"{url}/c").decode().splitlines()) == sorted(keys), "scan of a cache")


def long_values_come_back(tarn):
    chance = random.Random(3)
    with serving.folder() as folder, serving_stores(tarn, folder, f"d:depot,path={folder}/data,size=64M") as urls:
        for length in (100000, 1000000, 5000001):
            value = chance.randbytes(length)
            for url in urls:
                succeeds(tarn, "put", f"{url}/d", "long", said=value)
                expect(succeeds(tarn, "get", f"{url}/d", "long") == value, f"{length} bytes are others")
        fails(tarn, "get", f"{urls[0]}/d", "long", "long", because="get it alone")
        fails(tarn, "put", f"{urls[0]}/d", "long", said=bytes(100 << 20), because="longer than this store takes")
        expect(succeeds(tarn, "get", f"{urls[0]}/d", "long") == value, "what was refused has changed it")


def keys_are_spread_over_servers(tarn):
    keys = [f"k{number}" for number in range(24)]
    with serving.folder() as folder, contextlib.ExitStack() as stack:
        urls = [stack.enter_context(serving_stores(tarn, folder, f"d:depot,path={folder}/data{number},size=64M", number=number))
                for number in range(3)]
        tcp, unix = (",".join(url[kind].removeprefix(scheme) for url in urls)
                     for kind, scheme in enumerate(("tarn://", "unix:")))
        for key in keys:
            succeeds(tarn, "put", f"tarn://{tcp}/d", key, key)
        held = [succeeds(tarn, "scan", f"{url[0]}/d").decode().split() for url in urls]
        expect(sorted(sum(held, [])) == sorted(keys) and all(held), f"{held}")
        expect(sorted(succeeds(tarn, "scan", f"tarn://{tcp}/d").decode().split()) == sorted(keys), "scan")
        lines = succeeds(tarn, "get", f"tarn://{','.join(reversed(tcp.split(',')))}/d", *keys).decode().splitlines()
        expect(lines == [f"{key}\t{key}" for key in keys], f"{lines}")
        expect(len(succeeds(tarn, "scan", f"unix:{unix}/d").split()) == len(keys), "scan")


def what_is_wrong_is_said(tarn):
    with serving.folder() as folder:
        with serving_stores(tarn, folder, "c:cache,memory=1M") as urls:
            for url in urls:
                fails(tarn, "get", f"{url}/d", "a", because="the server has no such store")
                for option in ("--size=2M", "--mode=device", "--over-provisioning=20"):
                    is_misuse(tarn, "put", f"{url}/c", "a", "b", option)
                    fails(tarn, "get", f"{url}/c", "a", because="no key")
                if url.startswith("tarn:"):
                    succeeds(tarn, "put", f"{url}/c?tcp:heartbeat=2s", "b", "c")
                    fails(tarn, "get", f"{url}/c?tcp:secret={folder}/none", "b", because="cannot open the store")
                    is_misuse(tarn, "get", f"{url}/c?shm:", "b")
        fails(tarn, "get", f"{urls[0]}/c", "a", because="nobody listens at that address")
        fails(tarn, "put", f"{urls[1]}/c", "a", "b", because="cannot open the store")
        for url in ("tarn://localhost", "tarn://127.0.0.1:1/", "unix:store", "cache:", "other:x"):
            for words in (["get", url, "a"], ["put", url, "a", "b"], ["del", url, "a"], ["scan", url], ["dump", url], ["load", url]):
                is_misuse(tarn, *words)
        for verb in ("stat", "check", "grow"):
            is_misuse(tarn, verb, urls[0] + "/c")


if __name__ == "__main__":
    serving.run([keys_are_those_of_the_server, keys_are_scanned, long_values_come_back, keys_are_spread_over_servers,
                 what_is_wrong_is_said],
                sys.argv[1])
