"""A server under test: started in a folder of its own, asked through sockets, ended by its own number."""

import contextlib
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HASH = "-hash" in sys.argv
TREE = "-tree" in sys.argv or "--tree" in sys.argv  # the store is an ordered one, with a file as a depot
CACHE = "-cache" in sys.argv or HASH  # the store is in memory alone
CACHE_SIZES = {"512M": "256M"}  # of a store's
PATIENCE = 60  # seconds for what takes a moment; sanitizers and two busy processors included


class Failure(Exception):
    """The server did what it must not; the text says what."""


def expect(condition, text):
    if not condition:
        raise Failure(text)


def await_that(condition, text, pause=0.01):
    end = time.monotonic() + PATIENCE
    while not condition():
        expect(time.monotonic() < end, text)
        time.sleep(pause)


@contextlib.contextmanager
def folder():
    path = tempfile.mkdtemp(prefix="tarn-test-")
    try:
        yield path
    finally:
        shutil.rmtree(path)


class OrdinaryUser:
    """A user without rights, and with a folder: with a number of its own, as the kernel counts locked memory by user.
    A test that root does not run is of an ordinary user already."""

    def __init__(self, program, path):
        self.number = 20000 + os.getpid() % 30000 if os.geteuid() == 0 else os.geteuid()
        self.program = f"{path}/tarn"  # the build folder may be closed to others
        shutil.copy(program, self.program)
        if os.geteuid() == 0:
            os.chown(path, self.number, self.number)

    def words(self, **limits):
        """What stands before a command that the user gives, under limits as prlimit(1) names them."""
        become = [f"--reuid={self.number}", f"--regid={self.number}", "--clear-groups", "--"]
        return [*(["setpriv", *become] if os.geteuid() == 0 else []),
                *(["prlimit", *(f"--{name}={value}" for name, value in limits.items()), "--"] if limits else [])]


@contextlib.contextmanager
def ordinary_user(program):
    """A user and a folder of his."""
    with folder() as path:
        yield OrdinaryUser(program, path), path


class Process:
    """A program, its standard error line by line, and its end."""

    def __init__(self, *command):
        self.lines = []
        self.changed = threading.Condition()
        self.ended = False
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, errors="replace")
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def log(self):
        with self.changed:
            return "\n".join(self.lines)

    def await_line(self, pattern):
        """Wait for a line of the log, and return the match."""
        def find():
            return next(filter(None, (re.search(pattern, line) for line in self.lines)), None)
        with self.changed:
            self.changed.wait_for(lambda: find() or self.ended, PATIENCE)
            found = find()
        expect(found, f"no line {pattern!r} in the log:\n{self.log()}")
        return found

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"it did not end:\n{self.log()}") from None
        with self.changed:
            self.changed.wait_for(lambda: self.ended, PATIENCE)
        return status

    def kill(self):
        self.process.kill()
        self.process.wait()

    def status(self, name):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return re.search(rf"^{name}:\s*(\w+)", file.read(), re.MULTILINE).group(1)

    def status_kilobytes(self, name):
        return int(self.status(name))

    def await_taken(self, number):
        """Wait until a signal is not pending any more: before that, another of its kind would be the same one."""
        await_that(lambda: int(self.status("ShdPnd"), 16) >> (number - 1) & 1 == 0, "it does not take a signal", 0)

    def thread(self, name):
        """The folder of a thread in /proc, which is there as long as the thread runs."""
        for path in glob.glob(f"/proc/{self.process.pid}/task/*"):
            with contextlib.suppress(OSError), open(f"{path}/comm", encoding="ascii") as file:  # one may just end
                if file.read() == f"{name}\n":
                    return path
        raise Failure(f"it has no thread {name}")


def store_options(data, size):
    """The options of the store that a server is to have."""
    if TREE:
        return [f"--store=default:tree,path={data},size={size}"]
    if not CACHE:
        return [f"--data={data}", f"--size={size}"]
    return [f"--store=default:{'hash' if HASH else 'cache'},memory={CACHE_SIZES.get(size, '64M')}"]


class Tarn(Process):
    """`tarn serve`, ready to be asked. With -cache or -hash its store is one in memory, of at most 256 MiB; with -tree an
    ordered one."""

    def __init__(self, program, data, *options, size="64M", listen="127.0.0.1:0", words=()):
        super().__init__(*words, program, "serve", *store_options(data, size), f"--listen={listen}", *options)
        try:
            self.address = parse_address(self.await_line(r'event="serving".* listen=(127\.\S+)').group(1))
        except Failure:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()

    def stop(self):
        """End it in good order."""
        self.signal(signal.SIGTERM)
        status = self.wait()
        expect(status == 0, f"exit status {status} after SIGTERM:\n{self.log()}")


class Memcached(Process):
    """Debian's memcached, to compare with."""

    def __init__(self, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = free.getsockname()
        user = ("-u", "nobody") if os.geteuid() == 0 else ()
        super().__init__("memcached", *user, "-l", "127.0.0.1", "-p", str(self.address[1]), "-U", "0", *options)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(self.address).close()
                return
            except ConnectionRefusedError:
                expect(time.monotonic() < end and self.process.poll() is None, "memcached does not start")
                time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def parse_address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


class Connection:
    """A client that says bytes and expects bytes."""

    def __init__(self, address):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(address)
        self.unread = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self.unread += data

    def line(self):
        while b"\r\n" not in self.unread:
            self.receive()
        line, self.unread = self.unread.split(b"\r\n", 1)
        return line

    def bytes(self, count):
        while len(self.unread) < count:
            self.receive()
        data, self.unread = self.unread[:count], self.unread[count:]
        return data

    def ask(self, request):
        """Say a line, perhaps with a value, and return the first line of the answer."""
        self.send(request)
        return self.line()

    def get(self, key):
        """The value of a key, or None."""
        first = self.ask(b"get " + key + b"\r\n")
        if first == b"END":
            return None
        expect(first.startswith(b"VALUE " + key + b" "), f"get answered {first!r}")
        value = self.bytes(int(first.split()[3]))
        expect(self.bytes(7) == b"\r\nEND\r\n", "a value does not end as it should")
        return value

    def set(self, key, value, exptime=0):
        return self.ask(b"set %s 0 %d %d\r\n%s\r\n" % (key, exptime, len(value), value))


def converse(address, said):
    """Everything that is answered to some bytes, until the server has closed the connection."""
    with Connection(address) as connection:
        sender = threading.Thread(target=send_all, args=(connection.socket, said))
        sender.start()
        answer = b""
        try:
            while True:
                data = connection.socket.recv(1 << 16)
                if not data:
                    break
                answer += data
        except ConnectionResetError:
            pass
        sender.join()
        return answer


def send_all(to, said):
    try:
        to.sendall(said)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the server had enough of it


def run(tests, *arguments):
    """Run test functions; print a line for each, as tools/test reads them, and exit."""
    failed = 0
    for test in tests:
        name = test.__name__.replace("_", " ")
        began = time.monotonic()
        try:
            test(*arguments)
            print(f"ok - {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as problem:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok - {name}: {type(problem).__name__}: {problem}", flush=True)
            if not isinstance(problem, Failure):
                import traceback
                traceback.print_exc()
    sys.exit(failed > 0)
