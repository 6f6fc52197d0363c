#!/usr/bin/python3
"""Is the server where it was told to be: at names, and at Unix sockets for those who may?

    addresses.py TARN
"""

import grp
import os
import re
import socket
import stat
import subprocess
import sys

import serving
from serving import Connection, Process, Tarn, expect


def has_ipv6():
    with socket.socket(socket.AF_INET6) as six:
        try:
            six.bind(("::1", 0))
            return True
        except OSError:
            return False


def localhost_is_both(tarn):
    with serving.ordinary_user(tarn) as (user, folder):
        server = Process(*user.words(memlock=0), user.program, "serve", f"--data={folder}/store", "--size=8M",
                         "--listen=localhost:0", f"--store=b:cache,memory=64M,unix={folder}/b")
        try:
            server.await_line(r'event="serving".* store=b')
            found = re.findall(r'event="serving".* listen=(\S+)', server.log())
            expect(sum(address.startswith("127.0.0.1:") for address in found) == 1, f"{found}")
            expect(sum(address.startswith("[::1]:") for address in found) == has_ipv6(), f"{found}")
            for address in found:
                if address.startswith("unix:"):
                    continue
                host, port = address.rsplit(":", 1)
                with socket.create_connection((host.strip("[]"), int(port)), serving.PATIENCE) as client:
                    client.sendall(b"mn\r\n")
                    expect(client.recv(4) == b"MN\r\n", f"{address} does not answer")
        finally:
            server.kill()


def calls_have_names(tarn):
    """--kv-listen takes what --listen does; other names than localhost need --insecure, as there."""
    with serving.folder() as folder:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with Tarn(tarn, f"{folder}/store", f"--kv-listen=localhost:{port}") as server:
            server.await_line(rf'event="serving calls".* address=127.0.0.1:{port}')
            if has_ipv6():
                server.await_line(rf'event="serving calls".* address=\[::1\]:{port}')
            for host in ["127.0.0.1"] + ["[::1]"] * has_ipv6():
                done = subprocess.run([tarn, "put", f"tarn://{host}:{port}/default", "key", "value"], capture_output=True,
                                      timeout=serving.PATIENCE, check=False)
                expect(done.returncode == 0, f"{host}: {done.stderr}")
            server.stop()
        for name, because in (("nowhere.invalid:1", b"--insecure"), ("localhost:0", b"has no port")):
            done = subprocess.run([tarn, "serve", f"--data={folder}/none", "--size=8M", "--listen=127.0.0.1:0", f"--kv-listen={name}"],
                                  capture_output=True, timeout=serving.PATIENCE, check=False)
            expect(done.returncode == 2 and because in done.stderr, f"{name}: {done.stderr}")
        done = subprocess.run([tarn, "serve", f"--data={folder}/none", "--size=8M", "--listen=127.0.0.1:0", "--insecure",
                               "--kv-listen=nowhere.invalid:1"], capture_output=True, timeout=serving.PATIENCE, check=False)
        expect(done.returncode == 1 and b"nowhere.invalid" in done.stderr and not os.path.exists(f"{folder}/none"), f"{done.stderr}")


def connects(number, groups, path):
    """Whether a user may connect to a socket."""
    words = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    become = ["setpriv", f"--reuid={number}", f"--regid={number}", f"--groups={groups}" if groups else "--clear-groups", "--"]
    return subprocess.run([*become, "/usr/bin/python3", "-c", words, path], stderr=subprocess.DEVNULL, check=False).returncode == 0


def sockets_have_their_mode(tarn):
    """Whatever the umask, and also those of stores; --kv-unix stays its owner's."""
    with serving.ordinary_user(tarn) as (user, folder):
        paths = [f"{folder}/a", f"{folder}/b"]
        umask = ["sh", "-c", 'umask 077; exec "$@"', "sh"]
        for options, mode in (([], 0o700), (["-a", "0770"], 0o770), (["--unix-mask=666"], 0o666)):
            with Tarn(user.program, f"{folder}/store", f"--unix={paths[0]}", f"--store=b:cache,memory=64M,unix={paths[1]}",
                      f"--kv-unix={folder}/kv", *options, words=[*user.words(memlock=0), *umask]) as server:
                found = [stat.S_IMODE(os.stat(path).st_mode) for path in paths]
                expect(found == [mode, mode], f"{options}: {[oct(one) for one in found]}")
                expect(stat.S_IMODE(os.stat(f"{folder}/kv").st_mode) == 0o700, "Tarn's own protocol is for all")
                with Connection(paths[0]) as client:
                    expect(client.ask(b"mn\r\n") == b"MN", "it does not answer")
                server.stop()
        for wrong in ("8", "1777", "rwx", "-1", ""):
            status, errors = usage(user, folder, f"--unix-mask={wrong}")
            expect(status == 2 and "octal" in errors, errors)
        status, errors = usage(user, folder, "--unix-group=no-such-group")
        expect(status == 2 and "getent group" in errors, errors)


def usage(user, folder, option):
    result = subprocess.run([*user.words(), user.program, "serve", f"--data={folder}/other", option], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=serving.PATIENCE, check=False)
    return result.returncode, result.stderr


def a_group_may_connect(tarn):
    """By its name, and by its number. Root gives a group away; an ordinary user has only those that he is in."""
    group = grp.getgrall()[-1] if os.geteuid() == 0 else grp.getgrgid(os.getegid())
    for named in (group.gr_name, str(group.gr_gid)):
        with serving.folder() as folder:
            os.chmod(folder, 0o755)
            path = f"{folder}/socket"
            with Tarn(tarn, f"{folder}/store", f"--unix={path}", "--unix-mask=0770", f"--unix-group={named}") as server:
                there = os.stat(path)
                expect(there.st_gid == group.gr_gid and stat.S_IMODE(there.st_mode) == 0o770, f"{there}")
                if os.geteuid() == 0:
                    expect(connects(23456, str(group.gr_gid), path), "the group may not connect")
                    expect(not connects(23456, "", path), "everybody may connect")
                server.stop()


if __name__ == "__main__":
    serving.run([localhost_is_both, calls_have_names, sockets_have_their_mode, a_group_may_connect], sys.argv[1])
