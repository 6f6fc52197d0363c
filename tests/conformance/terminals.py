#!/usr/bin/python3
"""Does what the command shows fit small terminals, does a key end it, and is a terminal left as it was?

    terminals.py TARN
"""

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

import serving
from fabric import free_port
from serving import Process, Tarn, expect
from verbs import succeeds

BAR = rb"(load [^\033\r\n]*)\033\[K\r"
SIZES = ((40, 10), (60, 20), (80, 24), (200, 50))


class Terminal:
    """A command on a terminal of some size, and all that it has written there."""

    def __init__(self, columns, rows, *command):
        self.written = b""
        self.master, inside = os.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.modes_before = termios.tcgetattr(inside)[3]  # before the command can change them
        self.process = os.fork()
        if self.process == 0:
            os.login_tty(inside)
            os.execve(command[0], command, {**os.environ, "TERM": "xterm"})
        os.close(inside)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        os.close(self.master)

    def read(self):
        """@return False: it has ended"""
        ready, _, _ = select.select([self.master], [], [], 0.05)
        try:
            more = os.read(self.master, 1 << 16) if ready else None
        except OSError:
            return False
        self.written += more or b""
        return more != b""

    def await_text(self, pattern, times=1):
        end = time.monotonic() + serving.PATIENCE
        while len(re.findall(pattern, self.written)) < times:
            expect(self.read() and time.monotonic() < end, f"{pattern!r} does not come {times} times: {self.written[-3000:]!r}")

    def type(self, keys):
        os.write(self.master, keys)

    def end(self):
        """@return the exit status, when all is read"""
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def screens(self):
        return [screen.split(b"\r\n") for screen in self.written.split(b"\033[H\033[J")[1:]]


def program(tarn):
    return os.path.abspath(tarn)


def top_fits_small_terminals(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store", f"--kv-unix={folder}/kv") as server:
        address = "%s:%d" % server.address
        for columns, rows in SIZES:
            with Terminal(columns, rows, program(tarn), "top", address, "--interval=50ms", "--count=4") as terminal:
                expect(terminal.end() == 0, "it fails")
                screens = terminal.screens()
                expect(len(screens) == 4, f"{len(screens)} screens")
                for screen in screens:
                    widest = max(len(line) for line in screen)
                    expect(len(screen) <= rows and widest <= columns, f"{len(screen)} lines of {widest} columns: {screen}")
                    expect(screen[0].startswith(address.encode()), f"{screen}")
                    expect(rows < 24 or any(line.startswith(b"get ") for line in screen), f"{screen}")
        server.stop()


def q_ends_top(tarn):
    with serving.folder() as folder, Tarn(tarn, f"{folder}/store") as server:
        for keys in (b"q", b"xQ", b"\x03"):
            with Terminal(80, 24, program(tarn), "top", "%s:%d" % server.address, "--interval=20ms") as terminal:
                terminal.await_text(b"a second", 2)
                expect(not termios.tcgetattr(terminal.master)[3] & termios.ICANON, "keys do not come one by one")
                terminal.type(keys)
                expect(terminal.end() == 0, f"{keys} does not end it well")
                expect(not (termios.tcgetattr(terminal.master)[3] ^ terminal.modes_before) & (termios.ICANON | termios.ECHO),
                       "the terminal is not as it was")
        with Terminal(80, 24, program(tarn), "top", "%s:%d" % server.address, "--interval=1h") as terminal:
            time.sleep(0.1)
            terminal.type(b"q")
            expect(terminal.end() == 0, "it waits for the next look")
        server.stop()


def top_finds_a_server_again(tarn):
    port = free_port()
    with serving.folder() as folder, contextlib.ExitStack() as stack:
        def serve():
            server = Process(tarn, "serve", f"--data={folder}/store", "--size=16M", f"--port={port}")
            stack.callback(server.kill)
            server.await_line('event="serving"')
            return server
        server = serve()
        with Terminal(80, 24, program(tarn), "top", f"127.0.0.1:{port}", "--interval=20ms") as terminal:
            terminal.await_text(b"a second", 3)
            server.kill()
            terminal.await_text(b"is gone: ")
            count = terminal.written.count(b"a second")
            serve()
            terminal.await_text(b"a second", count + 3)
            terminal.type(b"q")
            expect(terminal.end() == 0, "it does not end")


def bars_fit_and_wipe_themselves(tarn):
    line = b'{"key":"k%d","value":"x"}\n'
    for columns in (40, 80):
        for is_whole in (True, False):
            with serving.folder() as folder:
                stream = f"{folder}/stream"
                os.mkfifo(stream)
                seen = threading.Event()

                def say():
                    with open(stream, "wb") as file:  # pylint: disable=cell-var-from-loop
                        lines = 0
                        while not seen.is_set():  # pylint: disable=cell-var-from-loop
                            file.write(line % lines)
                            file.flush()
                            lines += 1
                            time.sleep(0.06)
                        file.write(b'{"end":true,"records":%d}\n' % lines if is_whole else b"what is this\n")  # pylint: disable=cell-var-from-loop
                thread = threading.Thread(target=say)
                thread.start()
                with Terminal(columns, 10, program(tarn), "load", f"{folder}/store", stream, "--size=16M") as terminal:
                    try:
                        terminal.await_text(BAR, 3)
                    finally:
                        seen.set()
                    status = terminal.end()
                    thread.join()
                    bars = re.findall(BAR, terminal.written)
                    expect(bars and max(map(len, bars)) < columns, f"bars: {bars}")
                    last = terminal.written.rpartition(bars[-1])[2]
                    expect(last.startswith(b"\033[K\r\033[K"), f"the bar is left behind: {last!r}")
                    expect((status == 0) == is_whole and b"#" not in last, f"{status}: {last!r}")


def errors_go_to_standard_error(tarn):
    for words in (["sim", "--campaign=none"], ["sim", "--campaign=task", "--mutation=none"], ["bench", "kv", "--none"], ["bench", "none"]):
        result = subprocess.run([tarn, *words], capture_output=True, text=True, check=False)
        expect(result.returncode == 2 and result.stdout == "" and "none" in result.stderr, f"{words}: {result}")
    expect("usage: tarn bench kv " in subprocess.run([tarn, "bench", "kv", "--none"], capture_output=True, text=True, check=False).stderr, "usage")


def helps_fit_80_columns(tarn):
    verbs = re.findall(r"^  (\w+)  ", succeeds(tarn, "help").decode(), re.MULTILINE)
    benches = re.findall(r"^  (\w+)  ", succeeds(tarn, "bench", "--help").decode(), re.MULTILINE)
    fabrics = re.findall(r"^  (\w+)  ", succeeds(tarn, "fabric", "--help").decode(), re.MULTILINE)
    expect(len(verbs) > 10 and len(benches) == 2 and len(fabrics) > 2, f"{verbs} {benches} {fabrics}")
    for words in (["help"], *([verb] for verb in verbs), *(["bench", verb] for verb in benches), *(["fabric", verb] for verb in fabrics)):
        for line in succeeds(tarn, *words, *(["--help"] if words != ["help"] else [])).decode().splitlines():
            expect(len(line) <= 80, f"{words}: {line}")


if __name__ == "__main__":
    serving.run([top_fits_small_terminals, q_ends_top, top_finds_a_server_again, bars_fit_and_wipe_themselves,
                 errors_go_to_standard_error, helps_fit_80_columns], sys.argv[1])
