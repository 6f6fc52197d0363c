#!/usr/bin/python3
"""Is the server a good service of systemd's, and do the unit, the help and the manual say the same?

    service.py TARN SOURCE

SOURCE is the folder of the repository.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys

import serving
from operations import command
from serving import Connection, Tarn, expect

PRIORITIES = {"error": "<3>", "warn": "<4>", "info": "<6>", "debug": "<7>"}


class Manager:
    """What systemd listens at: a socket of datagrams, with a path or in the abstract."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(serving.PATIENCE)
        self.socket.bind(name.replace("@", "\0", 1))
        self.told = []
        if name[0] == "/":
            os.chmod(name, 0o777)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def take(self):
        """The next datagram, as a dictionary; None: there is none now."""
        text = self.socket.recv(4096).decode()
        expect(text.endswith("\n"), f"{text!r} is not whole lines")
        self.told.append(dict(line.split("=", 1) for line in text.splitlines()))
        return self.told[-1]

    def take_until(self, name):
        while name not in self.take():
            pass
        return self.told[-1]

    def nothing_more(self):
        self.socket.setblocking(False)
        try:
            self.take()
            return False
        except BlockingIOError:
            return True


def served(user, folder, environment, *options):
    words = [*user.words(memlock=0), "env", *(f"{name}={value}" for name, value in environment.items())]
    return Tarn(user.program, f"{folder}/store", *options, size="16M", words=words)


def it_says_when_it_serves(tarn, _):
    for abstract in (False, True):
        with serving.ordinary_user(tarn) as (user, folder):
            name = f"@tarn-test-{os.getpid()}" if abstract else f"{folder}/notify"
            with Manager(name) as manager, served(user, folder, {"NOTIFY_SOCKET": name}) as server:
                expect(manager.take().get("STATUS") == "opening the stores", f"{manager.told}")
                expect(manager.take_until("READY") == {"READY": "1", "STATUS": "serving"}, f"{manager.told}")
                with Connection(server.address) as client:
                    expect(client.ask(b"mn\r\n") == b"MN", "it is ready, and does not serve")
                server.signal(signal.SIGTERM)
                expect(manager.take_until("STOPPING")["STOPPING"] == "1", f"{manager.told}")
                expect(server.wait() == 0 and manager.nothing_more(), f"{manager.told}")


def it_asks_for_patience(tarn, _):
    with serving.ordinary_user(tarn) as (user, folder):
        with served(user, folder, {}) as server, Connection(server.address) as client:
            for number in range(300):
                expect(client.set(b"%d" % number, b"x" * 10000) == b"STORED", "it does not store")
            server.kill()
        name = f"{folder}/notify"
        with Manager(name) as manager, served(user, folder, {"NOTIFY_SOCKET": name}) as server:
            asked = manager.take_until("EXTEND_TIMEOUT_USEC")
            expect(int(asked["EXTEND_TIMEOUT_USEC"]) >= 10_000_000, f"{asked}")
            expect(re.fullmatch(r"opening the store default: reading \w+, \d+ of \d+ \w+", asked["STATUS"]), f"{asked}")
            manager.take_until("READY")
            server.stop()


def it_does_not_say_so_in_vain(tarn, _):
    with serving.ordinary_user(tarn) as (user, folder):
        name = f"{folder}/notify"
        with Manager(name) as manager:
            status, _, errors = command(*user.words(memlock=0), "env", f"NOTIFY_SOCKET={name}", user.program, "serve",
                                        f"--data={folder}/none/store", "--listen=127.0.0.1:0")
            expect(status == 1 and manager.take() == {"STATUS": "opening the stores"}, errors)
            expect(manager.nothing_more(), f"it is ready and has failed: {manager.told}")
        for wrong in (f"{folder}/none/notify", "nothing", "", "@", "/" * 200, "vsock:2:1"):
            with served(user, folder, {"NOTIFY_SOCKET": wrong}) as server:
                server.stop()


def in_the_journal_lines_have_priorities(tarn, _):
    with serving.ordinary_user(tarn) as (user, folder):
        for is_journal in (True, False):
            reader, writer = os.pipe()
            there = os.fstat(writer)
            stream = f"{there.st_dev}:{there.st_ino if is_journal else there.st_ino + 1}"
            words = [*user.words(memlock=0), "env", f"JOURNAL_STREAM={stream}", user.program, "serve", "--log-level=debug",
                     "--threads=2", "--listen=127.0.0.1:0"]
            with os.fdopen(reader) as lines:
                server = subprocess.Popen([*words, f"--data={folder}/store", "--size=16M"], stderr=writer)
                found = []
                for line in lines:
                    found.append(line)
                    if 'event="serving"' in line:
                        server.terminate()
                        break
                expect(server.wait(serving.PATIENCE) == 0, "it does not end")
                subprocess.run([*words, f"--data={folder}/none/store"], stderr=writer, check=False, timeout=serving.PATIENCE)
                os.close(writer)
                found += lines.readlines()
            expect(len(found) > 5, f"{found}")
            for line in found:
                level = re.search(r" level=(\w+) ", line)
                priority = PRIORITIES[level.group(1) if level else "error"]
                expect(line.startswith(priority) == is_journal and (is_journal or line[0] != "<"), line)
            levels = {level for line in found for level in re.findall(r" level=(\w+) ", line)}
            expect({"error", "warn", "info"} <= levels, f"{levels}")


def settings_of(text):
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


def the_unit_is_what_the_manual_says(tarn, source):
    with open(f"{source}/packaging/tarn.service", encoding="utf-8") as file:
        text = file.read()
    with open(f"{source}/docs/operations.md", encoding="utf-8") as file:
        manual = file.read()
    unit = settings_of(text)
    for name in ("Type", "TimeoutStopSec", "LimitNOFILE", "LimitMEMLOCK"):
        expect(re.findall(rf"\b{name}=(\w+)", manual) == [unit[name]], f"{name} is another in the manual")
    expect(unit["Type"] == "notify", "nobody waits for READY=1")
    if shutil.which("systemd-analyze"):
        with serving.folder() as folder:
            shutil.copy(tarn, f"{folder}/tarn")
            with open(f"{folder}/tarn.service", "w", encoding="utf-8") as file:
                file.write(text.replace("@bindir@", folder))
            status, _, errors = command("systemd-analyze", "verify", "--man=no", f"{folder}/tarn.service")
            expect(status == 0 and "tarn.service" not in errors, errors)


def one_set_of_facts(tarn, source):
    """What the help says, the manual says."""
    texts = {"help": command(tarn, "serve", "--help")[1].decode()}
    for name in ("docs/operations.md", "docs/man/tarn-serve.1"):
        with open(f"{source}/{name}", encoding="utf-8") as file:
            texts[name] = file.read()
    for name, text in texts.items():
        words = " ".join(text.replace("\\", "").split())
        expect("takes 8 to 20 bytes" in words, f"{name}: what the index takes")
        expect("--max-item-size" in words and "--item-size-max" not in words, f"{name}: an option by two names")
        expect("blank" in words, f"{name}: what becomes a store")
    for option in ("--max-item-size=2K", "--item-size-max=2K", "-I2K"):
        with serving.folder() as folder, Tarn(tarn, f"{folder}/store", option, size="16M") as server, \
                Connection(server.address) as client:
            expect(client.set(b"a", b"x" * 3000) == b"SERVER_ERROR object too large for cache", f"{option} is not obeyed")
            expect(client.set(b"a", b"x" * 1000) == b"STORED", f"{option} is something else")
            server.stop()


if __name__ == "__main__":
    serving.run([it_says_when_it_serves, it_asks_for_patience, it_does_not_say_so_in_vain, in_the_journal_lines_have_priorities,
                 the_unit_is_what_the_manual_says, one_set_of_facts], sys.argv[1], sys.argv[2])
