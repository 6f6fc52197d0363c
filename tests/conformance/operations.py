#!/usr/bin/python3
"""Does the command start, refuse, stop and tell as an operator expects?

    operations.py TARN
"""

import os
import shutil
import signal
import subprocess
import sys
import threading

import serving
from serving import Connection, Process, Tarn, expect


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


def help_and_mistakes(tarn):
    for words in (["help"], ["--help"], ["--version"], ["help", "serve"], ["serve", "--help"], ["serve", "--man"]):
        status, output, _ = command(tarn, *words)
        expect(status == 0 and output, f"{words} tells nothing")
    for verb in ("format", "check", "stat", "dump", "scan", "get", "put", "del", "sim", "bench"):
        status, output, _ = command(tarn, verb, "--help")
        expect(status == 0 and output.startswith(b"usage: tarn %s " % verb.encode()), f"{verb} --help tells nothing")
        expect(command(tarn, "help", verb) == (0, output, ""), f"help {verb} differs from {verb} --help")
    expect(command(tarn)[0] == 2, "no verb is no usage error")
    status, _, errors = command(tarn, "serv")
    expect(status == 2 and "did you mean serve" in errors, errors)
    expect(command(tarn, "help", "nonsense")[0] == 2, "help knows nonsense")
    status, _, errors = command(tarn, "serve", "--data=x", "--thread=2")
    expect(status == 2 and "--threads" in errors, errors)
    for option in ("--threads=x", "--size=1X", "--mode=fast", "--port=70000", "extra", "--memory=1"):
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
        expect("somebody else" in refused(tarn, f"{folder}/store"), "the refusal does not say why")
        port = server.address[1]
        expect("cannot listen" in refused(tarn, f"{folder}/other", f"--listen=127.0.0.1:{port}"),
               "the refusal does not say why")
        with Connection(server.address) as client:
            expect(client.set(b"a", b"b") == b"STORED", "the first is disturbed by the second")
        server.stop()


def sigterm_ends_in_good_order(tarn):
    """What has begun is finished, what was acknowledged is there, half requests and idle ones do not hold it up."""
    with serving.folder() as folder:
        data, socket = f"{folder}/store", f"{folder}/socket"
        with Tarn(tarn, data, f"--unix={socket}") as server:
            idle, half, value = (Connection(server.address) for _ in range(3))
            half.send(b"set a 0 ")
            value.send(b"set a 0 0 100\r\nxx")
            acknowledged = {}

            def work(number):
                with Connection(server.address if number % 2 else socket) as client:
                    try:
                        for step in range(100000):
                            key, text = b"%d/%d" % (number, step % 50), b"%d" % step
                            if client.set(key, text) == b"STORED":
                                acknowledged[key] = text
                    except OSError:
                        pass

            threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            while len(acknowledged) < 150:
                pass
            server.stop()
            for thread in threads:
                thread.join()
            for client in (idle, half, value):
                client.socket.close()
            expect(not os.path.exists(socket), "its socket is left behind")
        with Tarn(tarn, data) as server, Connection(server.address) as client:
            expect('event="index read from its checkpoint" ' in server.log(), f"the end was not clean:\n{server.log()}")
            for key, text in acknowledged.items():
                found = client.get(key)
                expect(found is not None and int(found) >= int(text), f"{key!r} is {found!r}, not {text!r}")
            expect(client.get(b"a") is None, "half a request was executed")
            server.stop()


def sigint_and_two_signals(tarn):
    with serving.folder() as folder:
        with Tarn(tarn, f"{folder}/store") as server:
            server.signal(signal.SIGINT)
            expect(server.wait() == 0, "SIGINT does not end it in good order")
        with Tarn(tarn, f"{folder}/store", "--send-timeout=60s") as server, Connection(server.address) as deaf:
            with Connection(server.address) as client:
                expect(client.set(b"a", b"x" * 1000000) == b"STORED", "it does not store")
            deaf.send(b"get a\r\n" * 100)  # and never reads: the server cannot finish
            deaf.socket.recv(1)
            server.signal(signal.SIGTERM)
            server.await_line('event="stopping"')
            server.signal(signal.SIGTERM)
            expect(server.wait() == -signal.SIGTERM, "a second signal does not end it at once")
        with Tarn(tarn, f"{folder}/store") as server, Connection(server.address) as client:
            expect(client.get(b"a") == b"x" * 1000000, "what was acknowledged is gone")
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
                expect(found == b"ERROR: shutdown not enabled", f"a shutdown that is not allowed is answered {found!r}")
            expect(client.get(b"7") == b"value", "it does not serve any more")
            server.stop()


if __name__ == "__main__":
    serving.run([keys_on_the_command_line, shutdown_is_obeyed_if_allowed, help_and_mistakes, nothing_listens_beyond_loopback_untold, a_configuration_file,
                 only_its_own_file_is_formatted, damage_is_told, one_holder_at_a_time,
                 sigterm_ends_in_good_order, sigint_and_two_signals, a_full_store_says_so, no_room_to_begin], sys.argv[1])
