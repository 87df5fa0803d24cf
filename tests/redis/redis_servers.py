"""Redis servers for tests: Debian's redis-server at free ports, alone or as a cluster; and as much of its protocol as a look at keys needs. Without redis-server tests are skipped (77)."""
import atexit
import re
import shutil
import socket
import subprocess
import sys
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Redis:
    """One server, in a folder of its own."""

    def __init__(self, folder, *options):
        program = shutil.which("redis-server")
        if not program or not shutil.which("redis-cli"):
            print("skipped: redis-server or redis-cli is not installed", file=sys.stderr)
            sys.exit(77)
        self.command = [program, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", *options]
        for _ in range(5):  # the port of a cluster's bus, 10000 above, may be taken
            self.port = free_port() % 20000 + 20000
            self.folder = folder / f"redis-{self.port}"
            self.folder.mkdir(exist_ok=True)
            if self.start():
                return
        raise AssertionError("redis-server does not start")

    def start(self):
        self.process = subprocess.Popen([*self.command, "--port", str(self.port), "--dir", self.folder], stdout=open(self.folder / "log", "a"), stderr=subprocess.STDOUT)
        atexit.register(self.process.kill)
        until = time.monotonic() + 20
        while time.monotonic() < until and self.process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=20) as s:
                    s.sendall(b"PING\r\n")
                    if s.recv(100):  # or that it needs a password
                        return True
            except OSError:
                time.sleep(0.02)
        return False

    def stop(self):
        self.process.kill()
        self.process.wait()

    def ask(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as s:
            parts = [w if isinstance(w, bytes) else str(w).encode() for w in words]
            s.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
            return self.answer(s.makefile("rb"))

    def answer(self, file):
        line = file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise AssertionError(rest.decode())
        if kind == b"$":
            return None if rest == b"-1" else file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.answer(file) for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def keys(self):
        return sorted(self.ask("KEYS", "*"))

    def calls(self, command):
        found = re.search(rb"cmdstat_%s:calls=(\d+)" % command.encode(), self.ask("INFO", "commandstats"))
        return int(found[1]) if found else 0


class Cluster:
    """Three masters, all slots among them, and so many replicas of each."""

    def __init__(self, folder, replicas=0):
        self.nodes = [Redis(folder, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-config-file", f"nodes-{n}.conf") for n in range(3 + 3 * replicas)]
        subprocess.run(["redis-cli", "--cluster", "create", *(f"127.0.0.1:{node.port}" for node in self.nodes), "--cluster-replicas", str(replicas), "--cluster-yes"], check=True, stdout=subprocess.DEVNULL)
        self.wait()

    def wait(self):
        until = time.monotonic() + 30
        while not all(b"cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.nodes):
            assert time.monotonic() < until, "the cluster does not come up"
            time.sleep(0.05)

    def keys(self):
        return sorted(key for node in self.nodes for key in node.keys())

    def get(self, key):
        for node in self.nodes:
            if key in node.keys():
                return node.ask("GET", key)
        return None

    def stop(self):
        for node in self.nodes:
            node.stop()
