#!/usr/bin/python3
"""Does everything that an ordinary user gets wrong end with the cause and the remedy, at once, and leave nothing behind?

    errors.py TARN
"""

import os
import re
import socket
import subprocess
import sys

import serving
from fabric import free_port
from operations import command
from serving import Connection, Process, Tarn, expect

ERRNO = re.compile(r"Structure needs cleaning|Invalid argument|No such file or directory|Permission denied|"
                   r"Device or resource busy|Address already in use|Cannot assign requested address")


def refusal(words, because, status=1):
    """It fails, and its last line is no errno; somewhere the cause and the remedy are said."""
    found, _, errors = command(*words)
    expect(found == status, f"{words} ends with {found}: {errors}")
    last = errors.strip().splitlines()[-1]
    expect(not ERRNO.search(last), f"{words} ends with an errno: {errors}")
    for words_of_it in because:
        expect(words_of_it in errors, f"{words}: {words_of_it!r} is not said: {errors}")
    return errors


def what_is_no_store_is_named(tarn):
    with serving.ordinary_user(tarn) as (user, folder):
        words = [*user.words(), user.program]
        with open(f"{folder}/noise", "wb") as file:
            file.write(os.urandom(3 << 20))
        with open(f"{folder}/text", "wb") as file:
            file.write(b"hello\n")
        os.mkdir(f"{folder}/folder")
        os.chmod(f"{folder}/noise", 0o666)
        os.chmod(f"{folder}/text", 0o666)
        for verb, rest in (("get", ["key"]), ("put", ["key", "value"]), ("del", ["key"]), ("scan", []), ("dump", []),
                           ("check", []), ("stat", []), ("grow", [])):
            for name, because in (("noise", ["it is not a Tarn store: name another"]), ("text", ["below 64 KiB", "name another"]),
                                  ("folder", ["it is a directory: name a file in it"]),
                                  ("none/data", ["there is no such folder: make it"]), ("none", ["there is no such file: check the path"])):
                refusal([*words, verb, f"{folder}/{name}", *rest], because)
        for name, because in (("noise", ["it is not a Tarn store: name another"]), ("text", ["below 64 KiB", "name another"]),
                              ("folder", ["it is a directory"]), ("none/data", ["there is no such folder: make it"])):
            refusal([*words, "serve", f"--data={folder}/{name}", "--listen=127.0.0.1:0", "--size=4M"], because)
            refusal([*words, "put", f"{folder}/{name}", "key", "value", "--size=4M"], because)
        refusal([*words, "format", f"{folder}/none/data", "--size=4M"], ["there is no such folder: make it"])
        refusal([*words, "format", f"{folder}/data"], ["there is no such file", "--size"])
        refusal([*words, "put", f"{folder}/data", "key", "value"], ["there is no such file", "--size"])
        refusal([*words, "serve", f"--data={folder}/data", "--size=900T", "--listen=127.0.0.1:0"],
                ["there is no room for it: give a smaller size"])
        expect(not os.path.exists(f"{folder}/data"), "a file is left behind")
        if os.geteuid() == 0:
            os.mkdir(f"{folder}/closed", 0o700)
            refusal([*words, "get", f"{folder}/closed/data", "key"], ["check owner and mode"])
            refusal([*words, "serve", f"--data={folder}/closed/data", "--size=4M", "--listen=127.0.0.1:0"],
                    ["check owner and mode"])


def a_store_in_use_is_told_at_once(tarn):
    with serving.ordinary_user(tarn) as (user, folder):
        words, data, socket = user.words(memlock=0), f"{folder}/store", f"{folder}/kv"
        with Tarn(user.program, data, f"--kv-unix={socket}", words=words) as server:
            expect(command(*words, user.program, "put", f"unix:{socket}/default", "key", "value")[0] == 0, "it does not serve")
            other = Process(*words, user.program, "get", data, "key")
            told = other.await_line('event="waiting for drive"').string
            expect("cannot open drive" not in told and "level=warn" in told, told)
            url = re.search(r' url="([^"]+)"', told)
            if try_attributes(folder):
                expect("a server has it open" in told and url and url.group(1) == f"unix:{socket}/default", told)
                expect(command(*words, user.program, "get", url.group(1), "key") == (0, b"value", ""), "the URL is wrong")
            else:
                expect("another process has it open" in told and " remedy=" in told, told)
            expect(other.wait() == 1, "a store in use is opened")
            expect(not ERRNO.search(other.log().splitlines()[-1]), other.log())
            server.stop()
        expect(command(*words, user.program, "get", data, "key") == (0, b"value", ""), "it is not free")
        if try_attributes(folder):
            expect("user.tarn.url" not in os.listxattr(data), "the URL stays behind")


def try_attributes(folder):
    """Whether the file system has attributes of users."""
    path = f"{folder}/try"
    with open(path, "wb"):
        pass
    try:
        os.setxattr(path, "user.try", b"x")
        return True
    except OSError:
        return False
    finally:
        os.unlink(path)


def a_killed_servers_url_is_not_told(tarn):
    with serving.ordinary_user(tarn) as (user, folder):
        words, data = user.words(memlock=0), f"{folder}/store"
        if not try_attributes(folder):
            return
        with Tarn(user.program, data, f"--kv-unix={folder}/kv", words=words) as server:
            expect("user.tarn.url" in os.listxattr(data), "there is no URL")
            server.kill()
        expect(command(*words, user.program, "put", data, "key", "value")[0] == 0, "it does not store")
        expect("user.tarn.url" not in os.listxattr(data), "who has it open now is said to be a server")


def a_busy_address_leaves_no_file(tarn):
    with serving.ordinary_user(tarn) as (user, folder), socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port, data = busy.getsockname()[1], f"{folder}/data"
        path = f"{folder}/socket"
        with socket.socket(socket.AF_UNIX) as taken:
            taken.bind(path)
            taken.listen()
            os.chmod(path, 0o777)
            serve = [*user.words(memlock=0), user.program, "serve", f"--data={data}", "--size=4M"]
            free = free_port()
            in_use = ["another process listens there", "choose another port"]
            for options, because in (([f"--listen=127.0.0.1:{port}"], in_use),
                                     (["--listen=127.0.0.1:0", f"--kv-listen=127.0.0.1:{port}"], in_use),
                                     (["--listen=127.0.0.1:0", f"--store=b:cache,memory=64M,port={port}"], in_use),
                                     ([f"--unix={path}"], ["another process listens there", "name another path"]),
                                     ([f"--kv-unix={path}", "--listen=127.0.0.1:0"], ["name another path"]),
                                     ([f"--unix={folder}/none/socket"], ["there is no such folder"]),
                                     (["--listen=127.0.0.1:0", f"--unix={folder}/a", f"--store=b:cache,memory=64M,unix={folder}/a"],
                                      ["it is named twice"]),
                                     ([f"--listen=127.0.0.1:{free}", f"--kv-listen=127.0.0.1:{free}"], ["it is named twice"]),
                                     ([f"--unix={folder}/a", f"--kv-unix={folder}/a"], ["it is named twice"]),
                                     (["--listen=192.0.2.1:0", "--insecure"], ["this machine has no such address"]),
                                     (["--listen=127.0.0.1:70000"], ["not an address"]),
                                     (["--listen=no.such.host.invalid:0", "--insecure"], ["name an address"])):
                refusal([*serve, *options], because)
                expect(not os.path.exists(data), f"{options} leaves a file")
        with Tarn(user.program, data, words=user.words(memlock=0)) as server:
            server.stop()


def another_size_is_told(tarn):
    event = 'event="the store keeps its size'
    with serving.ordinary_user(tarn) as (user, folder):
        data, words = f"{folder}/store", user.words(memlock=0)
        for size, is_told in (("8M", False), ("8M", False), ("16M", True), ("4M", True)):
            with Tarn(user.program, data, size=size, words=words) as server:
                expect((event in server.log()) == is_told, f"--size={size}: {server.log()}")
                expect(not is_told or ' size="8.00 MiB" asked="' in server.log(), server.log())
                server.stop()
        server = Process(*words, user.program, "serve", f"--data={data}", "--listen=127.0.0.1:0")
        server.await_line('event="serving"')
        expect(event not in server.log(), server.log())
        server.kill()


def a_blank_file_becomes_a_store(tarn):
    """What is blank has nothing to lose: an empty file, and one of zeros, which keeps its size. Nothing else is formatted."""
    with serving.ordinary_user(tarn) as (user, folder):
        words = user.words(memlock=0)
        for name, bytes_before, bytes_after in (("empty", 0, 8 << 20), ("zeros", 16 << 20, 16 << 20)):
            with open(f"{folder}/{name}", "wb") as file:
                file.truncate(bytes_before)
            os.chmod(f"{folder}/{name}", 0o666)
            with Tarn(user.program, f"{folder}/{name}", size="8M", words=words) as server, Connection(server.address) as client:
                expect(client.set(b"a", b"b") == b"STORED", "it does not store")
                server.stop()
            expect(os.path.getsize(f"{folder}/{name}") == bytes_after, f"{os.path.getsize(f'{folder}/{name}')}")
        with open(f"{folder}/other", "wb") as file:
            file.write(bytes((4 << 20) - 1) + b"\1")
        os.chmod(f"{folder}/other", 0o666)
        refusal([*words, user.program, "serve", f"--data={folder}/other", "--size=8M", "--listen=127.0.0.1:0"],
                ["it is not a Tarn store"])
        text = subprocess.run([tarn, "serve", "--help"], capture_output=True, text=True, check=True).stdout
        expect("blank" in text, "the help does not say what is formatted")


if __name__ == "__main__":
    serving.run([what_is_no_store_is_named, a_store_in_use_is_told_at_once, a_killed_servers_url_is_not_told,
                 a_busy_address_leaves_no_file, another_size_is_told, a_blank_file_becomes_a_store], sys.argv[1])
