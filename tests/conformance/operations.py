#!/usr/bin/python3
"""Does the command start, refuse, stop and tell as an operator expects?

    operations.py TARN
"""

import collections
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import serving
from serving import Connection, Process, Tarn, await_that, converse, expect


def command(*words, said=b""):
    """Run the command to its end: status, standard output, standard error."""
    result = subprocess.run(words, input=said, capture_output=True, timeout=serving.PATIENCE, check=False)
    return result.returncode, result.stdout, result.stderr.decode(errors="replace")


def refused(tarn, data, *options, status=1):
    """What `tarn serve` says when it does not serve."""
    found, _, errors = command(tarn, "serve", f"--data={data}", "--listen=127.0.0.1:0", *options)
    expect(found == status, f"exit status {found} instead of {status}: {errors}")
    return errors


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def keys_on_the_command_line(tarn):
    with serving.folder() as folder:
        store = f"file:{folder}/store"
        expect(command(tarn, "get", store, "a")[0] == 1, "get made something of nothing")
        expect(command(tarn, "put", store, "a", "b")[0] == 1, "put made a store without being told its size")
        expect(command(tarn, "put", store, "a", "one", "--size=2M") == (0, b"", ""), "put does not make a store")
        expect(command(tarn, "get", store, "a") == (0, b"one", ""), "get does not get")
        expect(command(tarn, "put", store, "b", said=b"\0two\n")[0] == 0, "put does not read its input")
        expect(command(tarn, "put", store, "c", "-", said=b"three")[0] == 0, "put does not read its input")
        expect(command(tarn, "get", store, "b") == (0, b"\0two\n", ""), "get does not get")
        expect(command(tarn, "get", store, "c") == (0, b"three", ""), "get does not get")
        expect(command(tarn, "put", store, "d", said=b"x" * 5000000)[0] == 1, "a value that is too long was stored")
        expect(command(tarn, "get", store, "d")[0] == 1, "a value that is too long was stored")
        expect(command(tarn, "del", store, "a")[0] == 0, "del does not delete")
        expect(command(tarn, "del", store, "a")[0] == 1, "del found what is gone")
        status, output, errors = command(tarn, "get", store, "a")
        expect(status == 1 and output == b"" and "no key" in errors, errors)
        expect(command(tarn, "get", f"{folder}/store", "c") == (0, b"three", ""), "a path is no store")
        for words in (["get", store], ["get", "http://x", "a"], ["put", store], ["del"], ["get", store, ""],
                      ["put", store, "a", "b", "--colour=red"]):
            expect(command(tarn, *words)[0] == 2, f"{words} is no usage error")
        with Tarn(tarn, f"{folder}/store") as server, Connection(server.address) as client:
            expect(client.get(b"b") == b"\0two\n", "the server does not serve what the command stored")
            expect(command(tarn, "get", store, "b")[0] == 1, "a store was opened twice")
            server.stop()


def fill(client, name, value):
    """Store values until one is refused: how many were stored."""
    count = 0
    while True:
        answer = client.ask(b"set %s%d 0 0 %d\r\n%s\r\n" % (name, count, len(value), value))
        if answer != b"STORED":
            expect(b"out of memory" in answer, answer)
            return count
        count += 1


def a_running_server_takes_a_longer_file(tarn):
    value = bytes(range(256)) * 1200
    with serving.folder() as folder:
        data = f"{folder}/store"
        with Tarn(tarn, data, size="16M") as server, Connection(server.address) as client:
            def extended(bytes_now, event):
                if bytes_now is not None:
                    os.truncate(data, bytes_now)
                times = len(re.findall(event, server.log()))
                server.signal(signal.SIGHUP)
                await_that(lambda: len(re.findall(event, server.log())) == times + 1, f"no {event}:\n{server.log()}")
            limit = int(told(server)["limit_maxbytes"])
            first = fill(client, b"a", value)
            extended(None, 'event="the store has all of its drive"')
            expect(client.ask(b"set b 0 0 %d\r\n%s\r\n" % (len(value), value)) != b"STORED", "it takes more by itself")
            status, _, errors = command(tarn, "grow", data)
            expect(status == 1 and "SIGHUP" in errors, errors)
            extended(48 << 20, 'event="the store has grown"')
            expect(os.stat(data).st_blocks * 512 >= 48 << 20, "what the file has more is not reserved")
            expect(int(told(server)["limit_maxbytes"]) > 2.9 * limit, "it does not say that it takes more")
            second = fill(client, b"b", value)
            expect(second > 1.5 * first, f"{first} values, then {second}")
            extended(80 << 20, 'event="the store cannot take all of its drive"') # nor more than four times; but some
            extended(None, 'event="the store has not become larger"')
            third = fill(client, b"c", value)
            expect(third > 0.5 * first, f"{first} values, then {third} in the last quarter")
            server.stop()
        with Tarn(tarn, data) as server, Connection(server.address) as client:
            for name, count in ((b"a", first), (b"b", second), (b"c", third)):
                for number in range(count):
                    expect(client.get(b"%s%d" % (name, number)) == value, f"{name}{number} is lost")
            server.stop()
        status, output, errors = command(tarn, "check", data)
        expect(status == 0 and b"sound" in output, f"{output}{errors}")


def one_more_drive_joins_a_store(tarn):
    value = bytes(range(256)) * 1200
    with serving.folder() as folder:
        data, more = f"{folder}/store", f"{folder}/more"
        with Tarn(tarn, data, size="16M") as server, Connection(server.address) as client:
            first = fill(client, b"a", value)
            server.stop()
        status, _, errors = command(tarn, "grow", f"{data},{more}")
        expect(status == 1 and "no such file" in errors, errors)
        with open(more, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 16 << 20)
        status, output, errors = command(tarn, "grow", f"{data},{more}")
        expect(status == 0 and b"has grown from" in output, f"{output}{errors}")
        status, _, errors = command(tarn, "check", data)
        expect(status == 1 and "a drive was appended to it: name that, too" in errors, errors)
        with Tarn(tarn, f"{more},{data}") as server, Connection(server.address) as client:
            second = fill(client, b"b", value)
            expect(second > 0.6 * first, f"{first} values, then {second}")
            server.stop()
        with Tarn(tarn, f"{data},{more}") as server, Connection(server.address) as client:
            for name, count in ((b"a", first), (b"b", second)):
                for number in range(count):
                    expect(client.get(b"%s%d" % (name, number)) == value, f"{name}{number} is lost")
            os.truncate(more, 24 << 20)
            server.signal(signal.SIGHUP)
            await_that(lambda: 'event="the store has grown"' in server.log(), server.log())
            expect(fill(client, b"c", value) > 0.3 * first, "the longer file is of no use")
            server.stop()
        status, output, errors = command(tarn, "check", f"{data},{more}")
        expect(status == 0 and b"sound" in output, f"{output}{errors}")


def help_and_mistakes(tarn):
    for words in (["help"], ["--help"], ["--version"], ["help", "serve"], ["serve", "--help"], ["serve", "--man"]):
        status, output, _ = command(tarn, *words)
        expect(status == 0 and output, f"{words} tells nothing")
    for verb in ("format", "grow", "check", "stat", "dump", "load", "scan", "get", "put", "del", "sim", "bench"):
        status, output, _ = command(tarn, verb, "--help")
        expect(status == 0 and output.startswith(b"usage: tarn %s " % verb.encode()), f"{verb} --help tells nothing")
        expect(command(tarn, "help", verb) == (0, output, ""), f"help {verb} differs from {verb} --help")
    expect(command(tarn)[0] == 2, "no verb is no usage error")
    status, _, errors = command(tarn, "serv")
    expect(status == 2 and "did you mean serve" in errors, errors)
    expect(command(tarn, "help", "nonsense")[0] == 2, "help knows nonsense")
    status, _, errors = command(tarn, "serve", "--data=x", "--thread=2")
    expect(status == 2 and "--threads" in errors, errors)
    for option in ("--threads=x", "--size=1X", "--mode=fast", "--port=70000", "extra", "--memory=1",
                   "--over-provisioning=2", "--over-provisioning=76", "--over-provisioning=0"):
        expect(command(tarn, "serve", "--data=x", option)[0] == 2, f"{option} is no usage error")
    expect(command(tarn, "serve")[0] == 2, "serve without data is no usage error")


def nothing_listens_beyond_loopback_untold(tarn):
    with serving.folder() as folder:
        data = f"{folder}/store"
        for address in ("0.0.0.0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "128.0.0.1:0"):
            status, _, errors = command(tarn, "serve", f"--data={data}", f"--listen={address}")
            expect(status == 2 and "--insecure" in errors, errors)
        expect(not os.path.exists(data), "a refused server made a file")
        with Tarn(tarn, data, "--insecure", "--listen=0.0.0.0:0,127.0.0.1:0") as server:
            server.stop()


def a_configuration_file(tarn):
    with serving.folder() as folder:
        with open(f"{folder}/tarn.conf", "w", encoding="ascii") as file:
            file.write("# settings\nthreads = 1\nitem-size-max = 2K\nmode = device\n")
        with Tarn(tarn, f"{folder}/store", f"--config={folder}/tarn.conf", "--mode=power") as server, \
                Connection(server.address) as client:
            expect(client.set(b"a", b"x" * 3000) == b"SERVER_ERROR object too large for cache", "the file is not read")
            client.send(b"stats settings\r\n")
            settings = {}
            while (line := client.line()) != b"END":
                settings[line.split()[1]] = line.split(None, 2)[2]
            expect(settings[b"threads"] == b"1" and settings[b"mode"] == b"power", f"{settings}")
            server.stop()
        expect(command(tarn, "serve", f"--config={folder}/none")[0] == 2, "a missing file is no usage error")


def told(server, what=b""):
    """The lines of `stats`, by name."""
    with Connection(server.address) as client:
        client.send(b"stats" + what + b"\r\n")
        lines = {}
        while (line := client.line()) != b"END":
            lines[line.split()[1].decode()] = line.split(None, 2)[2].decode()
    return lines


def what_collection_costs_is_told(tarn):
    """Keys that are replaced again and again, among many that are not: the server tells while it runs, `stat` afterwards."""
    with serving.folder() as folder:
        store = f"{folder}/store"
        with Tarn(tarn, store, "--mode=async", "--threads=1", size="8M") as server, Connection(server.address) as client:
            facts = told(server)
            expect(facts["store_user_bytes"] == facts["store_moved_bytes"] == "0", f"{facts}")
            expect(facts["store_write_amplification"] == facts["store_live_share"] == "0.00", f"{facts}")
            stored = 0
            for turn in range(20):
                keys = [b"%d" % (key if turn == 0 or key % 8 == 0 else 100000 + key % 50) for key in range(1200)]
                client.send(b"".join(b"set %s 0 0 3000 noreply\r\n%s\r\n" % (key, b"x" * 3000) for key in keys))
                expect(client.ask(b"mn\r\n") == b"MN", "it does not serve")
                stored += len(keys)
            facts = told(server)
            user, moved, written = (int(facts[f"store_{name}_bytes"]) for name in ("user", "moved", "written"))
            expect(stored * 3000 < user < stored * 3200 and 0 < moved < written and written > user, f"{facts}")
            expect(facts["store_write_amplification"] == f"{written / user:.2f}", f"{facts}")
            expect(0.3 < float(facts["store_live_share"]) < 1, f"{facts}")
            server.stop()
        facts = json.loads(command(tarn, "stat", f"file:{store}", "--json")[1])
        expect(facts["user_segments"] > 0 and facts["collector_segments"] > 0, f"{facts}")
        expect(0 < facts["collector_segments_bytes"] < facts["store_bytes"], f"{facts}")
        expect(0.3 < facts["live_share"] < 1, f"{facts}")


def room_is_kept_free_as_told(tarn):
    with serving.folder() as folder:
        limits = {}
        for options in ((), ("--over-provisioning=7",), ("--over-provisioning=50",), ("--cache",),
                        ("--cache", "--over-provisioning=50")):
            with Tarn(tarn, f"{folder}/store", *options) as server:
                limits[options] = int(told(server)["limit_maxbytes"])
                server.stop()
        usual, same, half, cache, cache_half = limits.values()
        expect(usual == same and abs(half - usual * 50 // 93) < 100 and cache == cache_half > usual, f"{limits}")
        store = f"file:{folder}/small"
        expect(command(tarn, "put", store, "a", "x" * 30000, "--size=2M")[0] == 0, "put does not store")
        fit = ("--over-provisioning=75",)
        status, number = 0, 0
        while status == 0 and number < 100:
            status, _, errors = command(tarn, "put", store, f"{number}", "x" * 30000, *fit)
            number += 1
        expect(status == 1 and "full" in errors and number > 1, f"{number}: {errors}")
        status, _, errors = command(tarn, "put", store, "more", "x" * 30000)
        expect(status == 0, f"with the usual over-provisioning there is room: {errors}")
        status, _, errors = command(tarn, "put", store, "still more", "x" * 30000, *fit)
        expect(status == 1 and "holds more than it takes" in errors, errors)
        expect(command(tarn, "get", store, "more")[1] == b"x" * 30000, "what is there is not read")
        expect(command(tarn, "del", store, "more")[0] == 0, "what is there is not deleted")
        found = [int(json.loads(command(tarn, "stat", store, "--json", *options)[1])["capacity_bytes"])
                for options in ((), fit)]
        expect(abs(found[1] - found[0] * 25 // 93) < 100, f"{found}")
        for words in (["put", store, "a", "b"], ["stat", store]):
            expect(command(tarn, *words, "--over-provisioning=76")[0] == 2, f"{words} takes any over-provisioning")


def only_its_own_file_is_formatted(tarn):
    with serving.folder() as folder:
        data = f"{folder}/precious"
        with open(data, "wb") as file:
            file.write(b"not a store" * 400000)
        before = contents(data)
        expect("not a Tarn store" in refused(tarn, data), "the refusal does not say why")
        expect(contents(data) == before, "what is no store was changed")
        with Tarn(tarn, f"{folder}/store") as server, Connection(server.address) as client:
            expect(client.set(b"a", b"b") == b"STORED", "it does not store")
            server.stop()
        shutil.copy(f"{folder}/store", data)
        with open(data, "r+b") as file:
            file.write(b"damage")
            file.seek(4096)
            file.write(b"damage")
        before = contents(data)
        refused(tarn, data)
        expect(contents(data) == before, "a damaged store was changed")
        os.truncate(f"{folder}/store", 32 << 20)
        expect("shorter" in refused(tarn, f"{folder}/store"), "the refusal does not say why")
        expect("directory" in refused(tarn, folder), "the refusal does not say why")
        refused(tarn, f"{folder}/none/store")


def damage_is_told(tarn):
    with serving.folder() as folder:
        data = f"{folder}/store"
        with Tarn(tarn, data) as server, Connection(server.address) as client:
            for number in range(20):
                expect(client.set(b"%d" % number, b"<value %d>" % number * 10) == b"STORED", "it does not store")
            server.stop()
        whole = contents(data)
        with open(data, "r+b") as file:
            file.seek(whole.index(b"<value 7>") + 2)
            file.write(b"V")
        before = contents(data)
        with Tarn(tarn, data) as server, Connection(server.address) as client:
            answer = client.ask(b"get 7\r\n")
            expect(answer.startswith(b"SERVER_ERROR"), f"a damaged value is answered by {answer!r}")
            server.await_line('level=error event=".*damaged')
        with Tarn(tarn, data) as server, Connection(server.address) as client:
            for number in set(range(20)) - {7}:
                expect(client.get(b"%d" % number) == b"<value %d>" % number * 10, "the damage has spread")
            expect(client.set(b"7", b"again") == b"STORED" and client.get(b"7") == b"again", "it is not replaced")
            server.stop()
        with open(data, "wb") as file:
            file.write(before[:8192] + bytes(byte ^ 1 for byte in before[8192:65536]) + before[65536:])
        before = contents(data)
        expect("state are damaged" in refused(tarn, data), "the refusal does not say why")
        expect(contents(data) == before, "a damaged store was changed")


def one_holder_at_a_time(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store") as server:
        expect("has it open" in refused(tarn, f"{folder}/store"), "the refusal does not say why")
        port = server.address[1]
        expect("cannot listen" in refused(tarn, f"{folder}/other", f"--listen=127.0.0.1:{port}"),
               "the refusal does not say why")
        with Connection(server.address) as client:
            expect(client.set(b"a", b"b") == b"STORED", "the first is disturbed by the second")
        server.stop()


class Load:
    """Connections that keep sets under way, and what each key may hold after the server's end: what was acknowledged, or
    something that was asked for later."""
    CONNECTIONS, KEYS, UNDER_WAY = 4, 50, 32  # the last two of each connection

    def __init__(self):
        self.said = [0] * self.CONNECTIONS
        self.acknowledged = {}  # key to the number of its value
        self.refused = None

    def key(self, connection, step):
        return b"%d/%d" % (connection, step % self.KEYS)

    @staticmethod
    def value(step):
        return b"%d " % step + b"v" * (step * 37 % 2000)

    def begin(self, *addresses):
        """Returns when they are well under way."""
        before = sum(self.said)
        self.threads = [threading.Thread(target=self.work, args=(connection, addresses[connection % len(addresses)]), daemon=True)
                        for connection in range(self.CONNECTIONS)]
        for thread in self.threads:
            thread.start()
        await_that(lambda: len(self.acknowledged) >= 150 and sum(self.said) >= before + 500, "it does not store", 0.001)

    def work(self, connection, address):
        under_way = collections.deque()
        with contextlib.suppress(OSError), Connection(address) as client:
            while True:
                with contextlib.suppress(OSError):  # it has ended; what it answered before is still to be heard
                    while len(under_way) < self.UNDER_WAY:
                        step = self.said[connection]
                        under_way.append(step)
                        self.said[connection] += 1
                        value = self.value(step)
                        client.send(b"set %s 0 0 %d\r\n%s\r\n" % (self.key(connection, step), len(value), value))
                step, answer = under_way.popleft(), client.line()
                if answer == b"STORED":
                    self.acknowledged[self.key(connection, step)] = step
                else:
                    self.refused = answer

    def end(self):
        for thread in self.threads:
            thread.join(serving.PATIENCE)
            expect(not thread.is_alive(), "a client waits for ever")
        expect(self.refused is None, f"a set is answered {self.refused!r}")

    def check(self, client):
        """What is found is certain from now on."""
        for key, least in self.acknowledged.items():
            found = client.get(key)
            expect(found is not None, f"{key!r} is gone; it was {least}")
            step, connection = int(found.split(b" ")[0]), int(key.split(b"/")[0])
            expect(least <= step < self.said[connection] and key == self.key(connection, step) and found == self.value(step),
                   f"{key!r} is {found[:40]!r}; at least {least} was acknowledged")
            self.acknowledged[key] = step


def sigterm_ends_in_good_order(tarn):
    """What has begun is finished, what was acknowledged is there, half requests and idle ones do not hold it up."""
    with serving.folder() as folder:
        data, socket, load = f"{folder}/store", f"{folder}/socket", Load()
        with Tarn(tarn, data, f"--unix={socket}") as server:
            idle, half, value = (Connection(server.address) for _ in range(3))
            half.send(b"set a 0 ")
            value.send(b"set a 0 0 100\r\nxx")
            load.begin(server.address, socket)
            server.stop()
            load.end()
            for client in (idle, half, value):
                client.socket.close()
            expect(not os.path.exists(socket), "its socket is left behind")
        with Tarn(tarn, data) as server, Connection(server.address) as client:
            expect('event="index read from a checkpoint" ' in server.log(), f"the end was not clean:\n{server.log()}")
            load.check(client)
            expect(client.get(b"a") is None, "half a request was executed")
            server.stop()


def sigint_ends_in_good_order(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store") as server:
        server.signal(signal.SIGINT)
        expect(server.wait() == 0, "SIGINT does not end it in good order")


def a_second_signal_ends_it_at_once(tarn):
    """Under load, whenever it comes; what was acknowledged is there."""
    def taken(server):
        server.await_taken(signal.SIGTERM)

    def stopping(server):
        server.await_line('event="stopping"')

    large, load = b"x" * 1000000, Load()
    with serving.folder() as folder:
        for mode in ("power", "device"):
            for first, moment, delay in [(signal.SIGINT, None, 0), (signal.SIGTERM, taken, 0), (signal.SIGTERM, taken, 0.001), (signal.SIGTERM, stopping, 0),
                                         (signal.SIGTERM, stopping, 0.005), (signal.SIGTERM, stopping, 0.05)]:
                with Tarn(tarn, f"{folder}/store", f"--mode={mode}", "--send-timeout=1000s") as server, Connection(server.address) as deaf:
                    with Connection(server.address) as client:
                        load.check(client)
                        expect(client.set(b"a", large) == b"STORED", "it does not store")
                    deaf.send(b"get a\r\n" * 100)  # and never reads: the server cannot finish
                    deaf.socket.recv(1)
                    load.begin(server.address)
                    server.signal(first)
                    if moment:
                        moment(server)
                    time.sleep(delay)
                    server.signal(signal.SIGTERM)
                    status = server.wait()
                    expect(status == -signal.SIGTERM, f"a second signal does not end it at once, but with {status}:\n{server.log()}")
                    expect("store closed" not in server.log(), f"a second signal waits for the store:\n{server.log()}")
                    load.end()
        with Tarn(tarn, f"{folder}/store") as server, Connection(server.address) as client:
            load.check(client)
            expect(client.get(b"a") == large, "what was acknowledged is gone")
            server.stop()


def a_second_signal_during_the_checkpoint(tarn):
    """It may come too late: then the end was a good one."""
    load, cut_short, keys = Load(), 0, range(100000)
    with serving.folder() as folder:
        with Tarn(tarn, f"{folder}/store", "--mode=device") as server:
            converse(server.address, b"".join(b"set %d 0 0 4 noreply\r\nfill\r\n" % key for key in keys))
            server.stop()
        for delay in (0, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.01, 0.02):
            with Tarn(tarn, f"{folder}/store", "--mode=device") as server:
                with Connection(server.address) as client:
                    load.check(client)
                load.begin(server.address)
                thread = server.thread("tarn-log")
                server.signal(signal.SIGTERM)
                await_that(lambda: not os.path.exists(thread), "it does not stop", 0)  # and now it writes the checkpoint
                time.sleep(delay)
                server.signal(signal.SIGTERM)
                status = server.wait()
                closed = 'event="store closed"' in server.log()
                expect(status == -signal.SIGTERM or (status == 0 and closed), f"it ends with {status}:\n{server.log()}")
                cut_short += not closed
                load.end()
        expect(cut_short > 0, "no checkpoint was cut short")
        with Tarn(tarn, f"{folder}/store") as server, Connection(server.address) as client:
            load.check(client)
            said = b"get " + b" ".join(b"%d" % key for key in keys) + b"\r\n"
            expect(converse(server.address, said).count(b"\r\nfill\r\n") == len(keys), "what was stored first is gone")
            server.stop()


def a_full_store_says_so(tarn):
    with serving.folder() as folder:
        with Tarn(tarn, f"{folder}/store", size="2M") as server, Connection(server.address) as client:
            value = b"v" * 20000
            keys = 0
            while (answer := client.set(b"key%d" % keys, value)) == b"STORED":
                keys += 1
            expect(answer == b"SERVER_ERROR out of memory storing object", f"{answer!r}")
            expect(keys > 40 and client.get(b"key%d" % keys) is None, f"{keys} keys fit")
            expect(client.get(b"key0") == value and client.ask(b"delete key0\r\n") == b"DELETED", "it does not delete")
            server.stop()
        with Tarn(tarn, f"{folder}/store") as server, Connection(server.address) as client:
            expect(client.get(b"key0") is None and client.get(b"key%d" % (keys - 1)) == value, "it comes back wrong")
            server.stop()


def no_room_to_begin(tarn):
    with serving.folder() as folder:
        errors = refused(tarn, f"{folder}/store", "--size=1000P")
        expect("reason=" in errors, errors)
        expect(not os.path.exists(f"{folder}/store"), "a file that could not be made is left behind")
        process = Process(tarn, "serve", "--data=/proc/nothing", "--listen=127.0.0.1:0")
        expect(process.wait() == 1, "it serves from nowhere")


def shutdown_is_obeyed_if_allowed(tarn):
    """As SIGTERM, in good order: what was acknowledged is there when it serves again."""
    with serving.folder() as folder:
        store = f"{folder}/store"
        for command_line in (b"shutdown\r\n", b"shutdown graceful\r\n"):
            with Tarn(tarn, store, "--enable-shutdown") as server, Connection(server.address) as client, Connection(server.address) as other:
                client.send(b"".join(b"set %d 0 0 5\r\nvalue\r\n" % key for key in range(50)) + command_line)
                for key in range(50):
                    expect(client.line() == b"STORED", f"{key} is not stored")
                status = server.wait()
                expect(status == 0, f"exit status {status} after {command_line}:\n{server.log()}")
                expect(client.socket.recv(100) == b"" and other.socket.recv(100) == b"", "the connections are not closed")
        with Tarn(tarn, store) as server, Connection(server.address) as client:
            for key in range(50):
                expect(client.get(b"%d" % key) == b"value", f"{key} is lost")
            for command_line in (b"shutdown\r\n", b"shutdown graceful\r\n", b"shutdown x\r\n"):
                found = client.ask(command_line)
                expect(found == b"SERVER_ERROR: shutdown not enabled", f"a shutdown that is not allowed is answered {found!r}")
            expect(client.get(b"7") == b"value", "it does not serve any more")
            server.stop()


if __name__ == "__main__":
    serving.run([keys_on_the_command_line, shutdown_is_obeyed_if_allowed, help_and_mistakes, nothing_listens_beyond_loopback_untold, a_configuration_file,
                 room_is_kept_free_as_told, what_collection_costs_is_told, only_its_own_file_is_formatted, damage_is_told, one_holder_at_a_time,
                 sigterm_ends_in_good_order, sigint_ends_in_good_order, a_second_signal_ends_it_at_once,
                 a_second_signal_during_the_checkpoint, a_full_store_says_so, no_room_to_begin,
                 a_running_server_takes_a_longer_file,
                 one_more_drive_joins_a_store], sys.argv[1])
