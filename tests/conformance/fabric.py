#!/usr/bin/python3
"""Does `tarn fabric` tell what there is, reach a peer, and find what is wrong?

    fabric.py TARN
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys

import serving
from operations import command
from serving import expect
from verbs import fails, is_misuse, succeeds


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def urls(folder):
    """Each provider that needs no device, with an address of its own."""
    return (("shm:", f"{folder}/socket"), ("tcp:", f"127.0.0.1:{free_port()}"))


@contextlib.contextmanager
def answering(tarn, url, address, *options):
    """The side that answers, when it listens."""
    with subprocess.Popen([tarn, "fabric", "ping", f"--listen={address}", url, *options], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            expect(line == f"listening on {address}\n", line or process.stderr.read())
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(serving.PATIENCE)


# ---- info --------------------------------------------------------------------------------------


def info_tells_each_provider(tarn):
    found = json.loads(succeeds(tarn, "fabric", "info", "--json"))
    providers = {provider["provider"]: provider for provider in found["providers"]}
    for name in ("shm", "tcp"):
        expect(providers[name]["usable"] and providers[name]["whole_words"] and providers[name]["whole_reads"], f"{providers}")
        expect(providers[name]["atomics"] == "memory" and providers[name]["places"], f"{providers}")
    expect(providers["shm"]["served_by"] == "self" and providers["tcp"]["served_by"] == "peer", f"{providers}")
    expect("127.0.0.1 (lo)" in providers["tcp"]["places"], f"{providers}")
    expect(found["limits"]["operation_bytes"] == 1 << 30 and found["limits"]["private_bytes"] == 56, f"{found}")
    text = succeeds(tarn, "fabric", "info").decode()
    for name in providers:
        expect(re.search(rf"^{name} ", text, re.MULTILINE), text)
    expect("operation_bytes: 1073741824" in text, text)
    one = json.loads(succeeds(tarn, "fabric", "info", "shm:", "--json"))
    expect([provider["provider"] for provider in one["providers"]] == ["shm"], f"{one}")
    output = fails(tarn, "fabric", "info", "pigeon:", "--json", because="there are shm: tcp:")
    expect(not json.loads(output)["providers"][0]["usable"], f"{output}")
    fails(tarn, "fabric", "info", "tcp:feathers", because="heartbeat=DURATION")
    for words in ([], ["fly"], ["info", "shm:", "tcp:"], ["info", "--colour"], ["ping"], ["ping", "shm:"],
                  ["ping", "shm:", "a", "b"], ["ping", "--listen=a", "shm:", "b"], ["ping", "shm:", "a", "--size=7"],
                  ["ping", "shm:", "a", "--count=0"], ["doctor", "a", "b"]):
        is_misuse(tarn, "fabric", *words)
    expect("--interval" in succeeds(tarn, "fabric", "ping", "--help").decode(), "no help for ping")


# ---- ping --------------------------------------------------------------------------------------

STEPS = ("connect", "write", "read", "cas", "message")


def ping_measures_every_step(tarn):
    with serving.folder() as folder:
        for url, address in urls(folder):
            with answering(tarn, url, address) as server:
                text = succeeds(tarn, "fabric", "ping", url, address, "--count=3", "--interval=1ms").decode()
                lines = text.splitlines()
                expect([line.split(":")[0] for line in lines[:3]] == ["1", "2", "3"], text)
                expect(all(f"  {step} " in line for step in STEPS for line in lines[:3]), text)
                expect(lines[3] == f"3 of 3 rounds were answered by {address}", text)
                expect([line.split()[0] for line in lines[5:]] == list(STEPS), text)
                for size in ("8", "65536"):  # the word goes on from where the last one left it
                    found = json.loads(succeeds(tarn, "fabric", "ping", url, address, "--count=40", "--interval=0",
                                                f"--size={size}", "--json"))
                    expect(found["answered"] == 40 and found["bytes"] == int(size), f"{found}")
                    expect(all(found[f"{step}_ns"]["count"] == 40 for step in STEPS), f"{found}")
                    expect(all(0 < found[f"{step}_ns"]["p50"] <= found[f"{step}_ns"]["max"] for step in STEPS), f"{found}")
                server.send_signal(signal.SIGTERM)
                expect(server.wait(serving.PATIENCE) == 0, "it does not end in good order")


def many_are_answered_at_once(tarn):
    with serving.folder() as folder:
        url, address = urls(folder)[0]
        with answering(tarn, url, address):
            for _ in range(6):  # in all more than it has parts for: they are given back
                clients = [subprocess.Popen([tarn, "fabric", "ping", url, address, "--count=2", "--interval=10ms"],
                                            stdout=subprocess.DEVNULL) for _ in range(6)]
                expect([client.wait(serving.PATIENCE) for client in clients] == [0] * 6, "not all were answered")


def ping_tells_what_is_wrong(tarn):
    with serving.folder() as folder:
        for url, address in urls(folder):
            output = fails(tarn, "fabric", "ping", url, address, because="nobody listens")
            expect(output == f"0 of 10 rounds were answered by {address}\n".encode(), f"{output}")
            with answering(tarn, url, address, "--protocol=2") as server:
                fails(tarn, "fabric", "ping", url, address, because="speaks version 2 of ping, this is version 1")
                expect("a client speaks version 1" in server.stderr.readline(), "the server does not tell")
        for url, address in urls(folder):  # other ports: an engine may still hold the old one for a moment
            with answering(tarn, url, address):
                fails(tarn, "fabric", "ping", f"--listen={address}", url, because="cannot listen")
        with open(f"{folder}/secret", "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("sixteen or more letters")
        address = f"127.0.0.1:{free_port()}"
        with answering(tarn, f"tcp:secret={folder}/secret", address):
            fails(tarn, "fabric", "ping", "tcp:", address, because="a secret, certificates or neither")
        fails(tarn, "fabric", "ping", "tcp:", "192.0.2.1:1", because="beyond this machine")
        fails(tarn, "fabric", "ping", "tcp:", "127.0.0.1:x", because="is no address")


def peers_that_are_no_ping(tarn):
    """Sockets that listen: one says nothing, one something else."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "127.0.0.1:%d" % silent.getsockname()[1]
        fails(tarn, "fabric", "ping", "tcp:", address, "--timeout=50ms", because="no answer from")
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = "127.0.0.1:%d" % other.getsockname()[1]
        with subprocess.Popen([tarn, "fabric", "ping", "tcp:", address], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as client:
            peer = other.accept()[0]
            with peer:
                peer.recv(148, socket.MSG_WAITALL)
                peer.sendall(b"HTTP/1.1 400 that is no request of mine\r\n\r\n".ljust(148))
                errors = client.communicate(timeout=serving.PATIENCE)[1]
    expect(client.returncode == 1 and "no fabric of this version" in errors, errors)


def a_peer_that_dies_is_told(tarn):
    with serving.folder() as folder:
        for url, address in urls(folder):
            with answering(tarn, url, address) as server, \
                    subprocess.Popen([tarn, "fabric", "ping", url, address, "--count=1000", "--interval=10ms",
                                      "--timeout=20s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
                expect(client.stdout.readline().startswith("1:"), "it was not answered")
                server.kill()
                output, errors = client.communicate(timeout=serving.PATIENCE)
                expect(client.returncode == 1, f"status {client.returncode}")
                expect("has ended" in errors or "nobody listens" in errors, errors)
                answered = int(re.search(r"^(\d+) of 1000 rounds were answered", output, re.MULTILINE).group(1))
                expect(1 <= answered < 1000, output)


# ---- doctor ------------------------------------------------------------------------------------


class Machine:
    """A made-up /proc, /sys and /dev, on which nothing is wrong."""

    def __init__(self, folder):
        self.folder = folder
        device = "sys/class/infiniband/mlx5_0"
        self.files = {
            "proc/self/limits": "Max locked memory         unlimited            unlimited            bytes\n",
            "proc/self/status": "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-3,8\nNSpid:\t77\n",
            "proc/self/uid_map": "         0          0 4294967295\n",
            "proc/meminfo": "HugePages_Free:       12\nHugepagesize:       2048 kB\n",
            "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
            "proc/sys/net/ipv4/tcp_wmem": "4096\t131072\t6291456\n",
            "proc/sys/kernel/io_uring_disabled": "0\n",
            "sys/kernel/mm/transparent_hugepage/shmem_enabled": "always within_size [advise] never deny force\n",
            "sys/class/net/eth7/mtu": "9000\n",
            "sys/devices/system/node/node1/cpulist": "8-15\n",
            "sys/class/infiniband_verbs/abi_version": "6\n",
            "sys/class/infiniband_verbs/uverbs3/ibdev": "mlx5_0\n",
            "dev/infiniband/uverbs3": "",
            "dev/infiniband/rdma_cm": "",
            f"{device}/device/numa_node": "1\n",
            f"{device}/ports/1/state": "4: ACTIVE\n",
            f"{device}/ports/1/link_layer": "Ethernet\n",
            f"{device}/ports/1/rate": "100 Gb/sec (4X EDR)\n",
            f"{device}/ports/1/gids/0": "fe80:0000:0000:0000:ba59:9fff:fe00:0001\n",
            f"{device}/ports/1/gids/1": "0000:0000:0000:0000:0000:ffff:0a00:0001\n",
            f"{device}/ports/1/gids/2": "0000:0000:0000:0000:0000:0000:0000:0000\n",
            f"{device}/ports/1/gid_attrs/types/1": "RoCE v2\n",
            f"{device}/ports/1/gid_attrs/ndevs/1": "eth7\n",
        }

    def write(self):
        for name, text in self.files.items():
            path = f"{self.folder}/{name}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)

    def examine(self, tarn, *words):
        """Exit status, and what is told, by the names of the checks."""
        status, output, errors = command(tarn, "fabric", "doctor", f"--root={self.folder}", *words)
        lines = [re.fullmatch(r"(ok|warning|failed) +(\S+) +(.*)", line) for line in output.decode().splitlines()]
        expect(lines and all(lines), f"{output} {errors}")
        return status, {line.group(2): (line.group(1), line.group(3)) for line in lines}


def a_sound_machine_passes(tarn):
    with serving.folder() as folder:
        machine = Machine(folder)
        machine.write()
        status, told = machine.examine(tarn)
        here = ("memory-files", "processes", "io_uring")  # of the real machine
        expect(status == 0, f"{told}")
        expect({name: told[name][0] for name in told if name not in here} == dict.fromkeys(
            ["huge-pages", "shared-huge", "namespaces", "memory-lock", "permission", "numa", "port", "gid", "mtu",
             "receive-buffer", "send-buffer"], "ok"), f"{told}")
        expect("0a00:0001 at index 1, RoCE v2" in told["gid"][1], f"{told}")
        expect("ACTIVE, Ethernet, 100 Gb/sec" in told["port"][1], f"{told}")
        expect("of 2048 kB" in told["huge-pages"][1], f"{told}")
        found = json.loads(succeeds(tarn, "fabric", "doctor", f"--root={folder}", "--json"))
        expect(found["failed"] == 0 and {check["name"] for check in found["checks"]} == set(told), f"{found}")
        status, told = machine.examine(tarn, "tcp:")
        expect(status == 0 and set(told) == {"provider", "io_uring", "receive-buffer", "send-buffer"}, f"{told}")


ILLNESSES = (  # what a file has instead (None: nothing), what is told of it, and its cure
    ("proc/self/limits", "Max locked memory         8388608              8388608              bytes\n",
     "memory-lock", "failed", "ulimit -l unlimited"),
    ("proc/meminfo", "HugePages_Free:        0\n", "huge-pages", None, ""),
    ("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size advise [never] deny force\n",
     "shared-huge", "warning", "echo advise"),
    ("proc/self/uid_map", "         0       1000          1\n", "namespaces", "warning", "namespace of users"),
    ("proc/self/status", "Cpus_allowed_list:\t0-3,8\nNSpid:\t77\t1\n", "namespaces", "warning", "--pid=host"),
    ("proc/self/status", "Cpus_allowed_list:\t0-7\n", "numa", "warning", "numactl --cpunodebind=1"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096 16384 65536\n", "receive-buffer", "warning", "sysctl net.ipv4.tcp_rmem"),
    ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t65536\n", "send-buffer", "warning", "sysctl net.ipv4.tcp_wmem"),
    ("proc/sys/kernel/io_uring_disabled", "2\n", "io_uring", "warning", "io_uring_disabled=0"),
    ("sys/class/net/eth7/mtu", "1500\n", "mtu", "warning", "ip link set eth7 mtu 4200"),
    ("dev/infiniband/uverbs3", None, "permission", "failed", "modprobe ib_uverbs"),
    ("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n", "rdma-devices", "failed", "cable"),
)


def every_illness_is_found(tarn):
    for path, text, name, state, words in ILLNESSES:
        with serving.folder() as folder:
            machine = Machine(folder)
            machine.files[path] = text or ""
            machine.write()
            if text is None:
                os.unlink(f"{folder}/{path}")
            if name == "permission":  # two files stand under that name; the last one is told last
                os.unlink(f"{folder}/dev/infiniband/rdma_cm")
                words = "modprobe rdma_ucm"
            status, told = machine.examine(tarn)
            expect(status == (1 if state == "failed" else 0), f"{path}: status {status}: {told}")
            expect((name in told) == (state is not None), f"{path}: {told}")
            expect(state is None or (told[name][0] == state and words in told[name][1]), f"{path}: {told}")


def devices_are_looked_at_one_by_one(tarn):
    with serving.folder() as folder:
        machine = Machine(folder)
        for name in [name for name in machine.files if "mlx5_0/" in name]:
            machine.files[name.replace("mlx5_0", "rxe0")] = machine.files[name]
        machine.files["sys/class/infiniband/rxe0/ports/1/gids/0"] = "0000:0000:0000:0000:0000:0000:0000:0000\n"
        machine.files["sys/class/infiniband/rxe0/ports/1/gids/1"] = "0000:0000:0000:0000:0000:0000:0000:0000\n"
        machine.files["sys/class/infiniband/mlx5_0/ports/2/state"] = "1: DOWN\n"
        machine.write()
        output = fails(tarn, "fabric", "doctor", f"--root={folder}", because="").decode()
        for line in ("failed   permission      rxe0 has no file in /dev/infiniband; cure: modprobe ib_uverbs",
                     "failed   gid             rxe0 port 1 has none; cure: give", "warning  port            mlx5_0 port 2 is 1: DOWN",
                     "ok       gid             mlx5_0 port 1: "):
            expect(line in output, f"{line!r} is not in {output}")
        expect(output.index("mlx5_0") < output.index("rxe0"), output)
    with serving.folder() as folder:
        machine = Machine(folder)
        machine.files = {name: text for name, text in machine.files.items() if "infiniband" not in name}
        machine.files["proc/self/limits"] = ILLNESSES[0][1]
        machine.write()
        status, told = machine.examine(tarn)
        expect(status == 0 and told["rdma-devices"][0] == "ok" and told["memory-lock"][0] == "warning", f"{told}")
        machine.files["proc/self/status"] = "CapEff:\t0000000000004000\nNSpid:\t77\n"  # CAP_IPC_LOCK
        machine.write()
        expect(machine.examine(tarn)[1]["memory-lock"] == ("ok", "unlimited"), "the capability is not seen")


def doctor_looks_at_this_machine(tarn):
    status, output, errors = command(tarn, "fabric", "doctor", "shm:")
    expect(status == 0 and b"shm: can be opened" in output and b"memory-files" in output, f"{output} {errors}")
    output = fails(tarn, "fabric", "doctor", "pigeon:", because="no such provider")
    expect(output.startswith(b"failed   provider"), f"{output}")


if __name__ == "__main__":
    serving.run([info_tells_each_provider, ping_measures_every_step, many_are_answered_at_once, ping_tells_what_is_wrong,
                 peers_that_are_no_ping, a_peer_that_dies_is_told, a_sound_machine_passes, every_illness_is_found,
                 devices_are_looked_at_one_by_one, doctor_looks_at_this_machine], sys.argv[1])
