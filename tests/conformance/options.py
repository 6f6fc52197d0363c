#!/usr/bin/python3
"""Does the server start from memcached's option lines, and name what it cannot obey?

    options.py TARN
"""

import contextlib
import os
import re
import signal
import subprocess
import sys

import serving
from fabric import free_port
from serving import Connection, await_that, expect
from verbs import is_misuse


def stats_of(client, what=b"stats"):
    client.send(what + b"\r\n")
    lines = iter(client.line, b"END")
    return dict(line.decode().split(" ", 2)[1:] for line in lines)


@contextlib.contextmanager
def daemon(program, folder, *options):
    """A server in the background: its number, its port and where it would write."""
    port, pidfile = free_port(), f"{folder}/pid"
    with open(f"{folder}/log", "w+", encoding="utf-8") as log:  # which -v keeps
        result = subprocess.run([program, "serve", "-d", "-p", str(port), "-P", pidfile, *options], stderr=log,
                                timeout=serving.PATIENCE, check=False)
        log.seek(0)
        expect(result.returncode == 0, f"it does not go to the background: {log.read()}")
    with open(pidfile, encoding="ascii") as file:
        number = int(file.read())
    try:
        yield number, port
    finally:
        os.kill(number, signal.SIGTERM)
        await_that(lambda: not os.path.exists(f"/proc/{number}") or "Z" in state_of(number), "it does not end")
    expect(not os.path.exists(pidfile), "the file with its number is still there")


def state_of(number):
    try:
        with open(f"/proc/{number}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def debian_starts_it_so(tarn):
    """The line of Debian's /etc/memcached.conf."""
    is_root = os.geteuid() == 0
    with serving.folder() as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o777)
        number, port = stack.enter_context(daemon(tarn, folder, "-m", "64", "-u", "nobody", "-l", "127.0.0.1", "-v", "-U", "0"))
        if is_root:
            with open(f"/proc/{number}/status", encoding="ascii") as file:
                status = file.read()
            expect(re.search(r"^Uid:\t65534\t65534\t65534\t65534$", status, re.MULTILINE), f"another user: {status}")
        expect(os.getsid(number) == number, "it is of the session of the terminal")
        with Connection(("127.0.0.1", port)) as client:
            expect(client.set(b"a", b"x") == b"STORED" and client.get(b"a") == b"x", "it does not serve")
            settings = stats_of(client, b"stats settings")
            expect(settings["maxbytes"] == str(64 << 20) and settings["evictions"] == "on", f"{settings}")


def memory_is_locked(tarn):
    with serving.folder() as folder:
        if os.geteuid() != 0:
            result = subprocess.run([tarn, "serve", "-m", "64", "-p", "0", "-k"], capture_output=True, text=True, check=False)
            expect(result.returncode == 1 and "LimitMEMLOCK" in result.stderr, f"{result}")
            return
        with daemon(tarn, folder, "-m", "64", "-k") as (number, _), open(f"/proc/{number}/status", encoding="ascii") as file:
            expect(not re.search(r"^VmLck:\s+0 kB$", file.read(), re.MULTILINE), "its memory is not locked")


def idle_connections_are_closed(tarn):
    with serving.folder() as folder, daemon(tarn, folder, "-m", "16", "-o", "modern,maxconns_fast,idle_timeout=1") as (_, port):
        with Connection(("127.0.0.1", port)) as idle:
            expect(idle.set(b"a", b"x") == b"STORED", "it does not serve")
            expect(idle.socket.recv(1) == b"", "it is not closed")
        with Connection(("127.0.0.1", port)) as other:
            expect(stats_of(other)["idle_kicks"] == "1", "it is not counted")
            expect(stats_of(other, b"stats settings")["idle_timeout"] == "1", "it is not told")


def flushes_are_refused_if_told(tarn):
    with serving.folder() as folder, daemon(tarn, folder, "-m", "16", "-F") as (_, port), Connection(("127.0.0.1", port)) as client:
        expect(client.set(b"a", b"x") == b"STORED", "it does not serve")
        for line in (b"flush_all\r\n", b"flush_all 10\r\n"):
            expect(client.ask(line) == b"CLIENT_ERROR flush_all not allowed", "it flushes")
        expect(client.get(b"a") == b"x", "it is gone")
        expect(stats_of(client, b"stats settings")["flush_enabled"] == "no", "it is not told")


def what_fails_is_told_in_the_foreground(tarn):
    with serving.folder() as folder:
        for options, because in ((["-m", "16", "-P", f"{folder}/none/pid"], "--pidfile: cannot write"),
                                 (["--data", f"{folder}/none/data"], "cannot serve"),
                                 (["-m", "16", *(["-u", "no-such-user"] if os.geteuid() == 0 else ["-P", "/proc/none"])], "--")):
            result = subprocess.run([tarn, "serve", "-d", "-p", "0", *options], capture_output=True, text=True,
                                    timeout=serving.PATIENCE, check=False)
            expect(result.returncode == 1 and because in result.stderr, f"{options}: {result}")


def too_little_memory_leaves_no_file(tarn):
    """Caches take their memory before a depot's file is made."""
    with serving.folder() as folder:
        result = subprocess.run(["prlimit", "--as=3000000000", tarn, "serve", f"--data={folder}/store", "--size=8M", "-p", "0", "-t", "1",
                                 "--store=b:cache,memory=6G,port=0"], capture_output=True, text=True, timeout=serving.PATIENCE, check=False)
        expect(result.returncode == 1 and "too little memory" in result.stderr, f"{result}")
        expect(not os.listdir(folder), f"it leaves {os.listdir(folder)}")


def others_are_explained_by_name(tarn):
    for option, because in ((["-f", "1.25"], "-f, --slab-growth-factor: "), (["-n48"], "slabs"), (["-L"], "slabs"), (["-C"], "cas unique"),
                            (["-D:"], "prefixes"), (["-R", "20"], "take turns"), (["-b", "1024"], "somaxconn"), (["-r"], "ulimit -c"),
                            (["-S"], "--kv-listen"), (["-Y", "x"], "--kv-fabric"), (["-Z"], "--kv-fabric"), (["-e", "x"], "--data"),
                            (["-N", "2"], "threads"), (["-U", "11211"], "UDP"), (["-B", "binary"], "ascii"), (["-M"], "evicts"),
                            (["-o", "slab_reassign"], "-o slab_reassign"), (["-o", "idle_timeout=x"], "idle_timeout=x"), (["--data=x"], "--size"),
                            (["--enable-ssl"], "--kv-fabric")):
        result = subprocess.run([tarn, "serve", "-m", "64", *option], capture_output=True, text=True, check=False)
        expect(result.returncode == 2 and because in result.stderr, f"{option}: {result}")
    is_misuse(tarn, "serve", "-m", "x")
    expect(subprocess.run([tarn, "serve", "-V"], capture_output=True, check=True).stdout.startswith(b"tarn "), "-V")


# Sanitizers lock no memory, and have an address space of their own.
WITHOUT_SANITIZERS = [] if "-sanitized" in sys.argv else [memory_is_locked, too_little_memory_leaves_no_file]

if __name__ == "__main__":
    serving.run([debian_starts_it_so, idle_connections_are_closed, flushes_are_refused_if_told, what_fails_is_told_in_the_foreground,
                 others_are_explained_by_name, *WITHOUT_SANITIZERS], sys.argv[1])
