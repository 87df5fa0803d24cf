#!/usr/bin/env python3
"""Predictions from rows in Redis: the bits of `reckon predict` on the run, from one server and from a cluster, with caches of any size, while slots move; and where rows cannot be read the answer is 503
in time, never one without them. 77 (a skipped test) without redis-server, or where the program cannot serve or does not know Redis.

    check_serving.py PROGRAM [TEST...]      the tests of test_*; long_* only by name (scripts/check_long redis)
"""
import http.client
import json
import pathlib
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "server"))

from redis_servers import Cluster, Redis
from server_process import ServerProcess
from serving import main

RUN = """
data:
  train: train.csv
  labels: [click]
  features: [{name: user, identity: 20000}, {name: city, vocabulary: {}}, {name: tags, hash: 500, separator: " "}, {name: seen, identity: 300, separator: " ", max_length: 5}]
embedding: {dim: 16, tables: [{name: city, dim: 4, dtype: bf16}], features: [{name: tags, combiner: mean}]}
model: {kind: wide_deep, deep: [8]}
train: {batch_size: 64, epochs: 1, optimizer: {kind: adam, learning_rate: 0.02}}
"""
SERVE = """
listen: 127.0.0.1:0
models: [{name: ads, path: %s, rows: {cache_bytes: %d, timeout: %g}}]
drain_delay: 0
"""
SECOND = 1  # in which rows are looked after


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class StrangeServer:
    """Says the same to all who ask it anything, then closes."""

    def __init__(self, answer):
        self.answer, self.socket = answer, socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        try:
            while True:
                client, _ = self.socket.accept()
                with client:
                    client.recv(65536)
                    client.sendall(self.answer)
                    client.shutdown(socket.SHUT_WR)
                    client.recv(65536)
        except OSError:
            pass

    def __enter__(self):
        return self.socket.getsockname()[1]

    def __exit__(self, *failure):
        self.socket.close()


class Relay:
    """Stands between the server and Redis, and notes what is sent before an answer comes back."""

    def __init__(self, port):
        self.target, self.turns, self.socket = port, [], socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                client, _ = self.socket.accept()
                threading.Thread(target=self.relay, args=(client, socket.create_connection(("127.0.0.1", self.target))), daemon=True).start()
        except OSError:
            pass

    def relay(self, client, redis):
        answered = True
        while ready := select.select([client, redis], [], [])[0]:
            for end in ready:
                if not (data := end.recv(1 << 20)):
                    client.close()
                    redis.close()
                    return
                if end is client and answered:
                    self.turns.append("getrange" if b"GETRANGE" in data else "other")
                answered = end is redis
                (redis if end is client else client).sendall(data)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.socket.close()


class Server(ServerProcess):
    def __init__(self, t, path, cache_bytes=1 << 20, timeout=5):
        config = t.folder / "serve.yaml"
        config.write_text(SERVE % (path, cache_bytes, timeout))
        super().__init__([t.program, "serve", config])

    def ask(self, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET" if body is None else "POST", path, json.dumps(body) if body else None)
        answer = connection.getresponse()
        code, text = answer.status, json.loads(answer.read())
        connection.close()
        return code, text

    def predict(self, rows):
        return self.ask("/v1/models/ads:predict", {"instances": rows})

    def counted(self):
        """Rows from the cache and from Redis, and whether they can be read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        rows = [int(re.search(rf'^reckon_embedding_rows_total{{model="ads",version="1",source="{source}"}} (\d+)$', text, re.M)[1]) for source in ("cache", "redis")]
        return *rows, int(re.search(r'^reckon_embedding_rows_available{model="ads",version="1"} ([01])$', text, re.M)[1])

    def ready(self):
        """What the server and the model say."""
        codes = {self.ask("/v2/health/ready")[0], self.ask("/v2/models/ads/ready")[0]}
        assert codes <= {200, 503} and self.ask("/v2/health/live")[0] == 200, codes
        return codes

    def wait_ready(self, wanted):
        until = time.monotonic() + 20
        while self.ready() != {wanted}:
            assert time.monotonic() < until, f"ready does not become {wanted}"
            time.sleep(0.05)


class Tests:
    def __init__(self, program):
        self.program, self.folder = program, pathlib.Path(tempfile.mkdtemp(prefix="redis-"))
        chance = random.Random(1)

        def some(prefix, n, most):
            return " ".join(f"{prefix}{chance.randrange(n)}" for _ in range(chance.randint(0, most)))
        self.rows = [{"user": chance.randrange(20000), "city": chance.choice(["Rome", "Paris", "Bern"]), "tags": some("t", 900, 4), "seen": some("", 300, 7)} for _ in range(500)]
        for name in ("train", "test"):
            (self.folder / f"{name}.csv").write_text("\n".join(["click,user,city,tags,seen", *(f"{chance.randint(0, 1)},{','.join(map(str, row.values()))}" for row in self.rows), ""]))
        (self.folder / "run.yaml").write_text(RUN)
        subprocess.run([program, "train", "-q", "--output", self.folder / "run", self.folder / "run.yaml"], check=True)
        self.wanted = self.predicted("run")

    def predicted(self, path):
        out = subprocess.run([self.program, "predict", "--format", "jsonl", self.folder / path, self.folder / "test.csv"], check=True, capture_output=True, text=True).stdout
        return [json.loads(line)["click"] for line in out.splitlines()]

    def export(self, name, port, *options):
        """As version 1 of a model's folder, which is returned."""
        (self.folder / name).mkdir()
        ended = subprocess.run([self.program, "export", "--to", f"redis://127.0.0.1:{port}/ads", *options, self.folder / "run", self.folder / name / "1"], capture_output=True, text=True)
        if "does not know Redis" in ended.stderr:
            sys.exit(77)
        assert ended.returncode == 0, ended
        return self.folder / name

    def same(self, answer, first=0, wanted=None):
        code, body = answer
        assert code == 200, answer
        got = [float(f"{single(p):.7g}") for p in body["predictions"]]
        assert got == (wanted or self.wanted)[first:first + len(got)] and got, (got[:3], first)

    def all_same(self, server, wanted=None):
        for first, n in ((0, 1), (1, 7), (8, 200), (208, 292), (0, 500)):
            self.same(server.predict(self.rows[first:first + n]), first, wanted)

    def test_one_server(self):
        redis = Redis(self.folder)
        path = self.export("one", redis.port)
        assert self.predicted("one/1") == self.wanted
        for cache_bytes in (1, 5000, 1 << 28):
            with Server(self, path, cache_bytes) as s:
                self.all_same(s)
                self.all_same(s)
                cities = [{"city": city} for city in ("Rome", "Bern", "Oslo")]
                context = {name: value for name, value in self.rows[3].items() if name != "city"}
                assert s.ask("/v1/models/ads:predict", {"context": context, "instances": cities}) == s.predict([{**context, **city} for city in cities])
        self.export("codes", redis.port, "--rows", "int8")
        subprocess.run([self.program, "export", "--rows", "int8", self.folder / "run", self.folder / "files"], check=True, capture_output=True)
        codes = self.predicted("files")
        assert codes != self.wanted and self.predicted("codes/1") == codes
        with Server(self, self.folder / "codes") as s:
            self.all_same(s, codes)
        redis.stop()

    def test_cached(self):
        """What is kept is not asked for again."""
        redis = Redis(self.folder)
        with Server(self, self.export("cached", redis.port)) as s:
            self.all_same(s)
            before = redis.calls("getrange"), *s.counted()
            self.all_same(s)
            after = redis.calls("getrange"), *s.counted()
            assert after[0] == before[0] == before[2] == after[2] and after[1] > before[1], (before, after)
        redis.stop()

    def test_round_trips(self):
        """A request's rows, of all tables, are asked for at once."""
        redis = Redis(self.folder)
        path = self.export("trips", redis.port)
        with Relay(redis.port) as relay:
            pointer = json.loads((path / "1/rows.json").read_text())
            (path / "1/rows.json").write_text(json.dumps({**pointer, "url": f"redis://127.0.0.1:{relay.port}/ads"}))
            with Server(self, path, cache_bytes=1) as s:
                s.predict(self.rows[:1])  # a connection, and whether it is a cluster
                before, fetched = redis.calls("getrange"), relay.turns.count("getrange")
                for first in (1, 2, 3):
                    self.same(s.predict(self.rows[first:first + 1]), first)
                asked = relay.turns.count("getrange") - fetched
                assert asked == 3 and redis.calls("getrange") - before > 3 * 6, (asked, relay.turns)
        redis.stop()

    def test_idle(self):
        """Connections that Redis closed meanwhile, as it does with idle ones, cost no request."""
        redis = Redis(self.folder)
        with Server(self, self.export("idle", redis.port), cache_bytes=1) as s:
            for _ in range(3):
                self.all_same(s)
                assert redis.ask("CLIENT", "KILL", "TYPE", "normal") > 0
            self.all_same(s)
        redis.stop()

    def test_killed(self):
        """503 in time, not ready; both end when it is back."""
        redis = Redis(self.folder, "--appendonly", "yes")
        with Server(self, self.export("killed", redis.port), cache_bytes=1) as s:
            self.all_same(s)
            redis.stop()
            code, body = s.predict(self.rows[:5])
            assert code == 503 and "Redis" in body["error"], (code, body)
            assert s.ready() == {503} and s.counted()[2] == 0
            assert redis.start()
            s.wait_ready(200)
            self.all_same(s)
            redis.stop()  # seen without a request, too
            s.wait_ready(503)
        redis.stop()

    def test_hanging(self):
        redis = Redis(self.folder)
        with Server(self, self.export("hanging", redis.port), cache_bytes=1, timeout=1.5) as s:
            self.all_same(s)
            redis.process.send_signal(signal.SIGSTOP)
            begun = time.monotonic()
            assert s.predict(self.rows[:5])[0] == 503
            assert 1.4 < time.monotonic() - begun, "it did not wait"
            assert s.ready() == {503}
            redis.process.send_signal(signal.SIGCONT)
            s.wait_ready(200)
            self.all_same(s)
        redis.stop()

    def test_lost_rows(self):
        """Blocks that are cut or gone are no zeros: requests for other rows are answered."""
        redis = Redis(self.folder)
        with Server(self, self.export("lost", redis.port), cache_bytes=1) as s:
            key = next(key for key in redis.keys() if re.search(rb":user:0$", key))
            block = redis.ask("GET", key)
            inside = [i for i, row in enumerate(self.rows) if row["user"] < len(block) // 64]
            outside = [i for i, row in enumerate(self.rows) if row["user"] >= len(block) // 64]
            assert inside and outside
            for damage in (("SET", key, block[:10]), ("DEL", key), ("SET", key, b"")):
                redis.ask(*damage)
                code, body = s.predict([self.rows[inside[0]]])
                assert code == 503 and "noeviction" in body["error"] and ":user:0" in body["error"], (code, body)
                time.sleep(0.15)  # for a moment after a failure nobody asks
                self.same(s.predict([self.rows[outside[0]]]), outside[0])
            redis.ask("SET", key, block)
            time.sleep(0.15)
            self.all_same(s)
        redis.stop()

    def test_no_manifest(self):
        redis = Redis(self.folder)
        path = self.export("half", redis.port)
        key = next(key for key in redis.keys() if key.endswith(b":manifest"))
        text = redis.ask("GET", key)
        for damage, words in ((("DEL", key), "has not ended"), (("SET", key, b"{}"), "format"), (("SET", key, text.replace(b"\"n_rows\":20000", b"\"n_rows\":20001")), "user"), (("SET", key, text[:50]), "JSON")):
            redis.ask(*damage)
            for command in (["predict", path / "1", self.folder / "test.csv"], ["serve", "--listen", "127.0.0.1:0", path]):
                ended = subprocess.run([self.program, *command], capture_output=True, text=True, timeout=30)
                assert ended.returncode == 1 and words in ended.stderr and not ended.stdout, (words, ended)
        for command in (["eval", "--rows", "int8", "--data", self.folder / "test.csv", path / "1"],):
            ended = subprocess.run([self.program, *command], capture_output=True, text=True, timeout=30)
            assert ended.returncode == 1 and "Redis" in ended.stderr, ended
        redis.stop()

    def test_strange(self):
        """What is no Redis, or one that answers strangely, is an error that says so."""
        redis = Redis(self.folder)
        path = self.export("strange", redis.port)
        redis.stop()
        pointer = json.loads((path / "1/rows.json").read_text())
        for answer in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"-ERR no\r\n", b"$5\r\nhello\r\n", b"*-1\r\n", b"*1\r\n*0\r\n", b"*1\r\n*3\r\n:0\r\n:99\r\n*2\r\n$0\r\n\r\n:0\r\n",
                       b"*1\r\n*3\r\n:0\r\n:16383\r\n*1\r\n:1\r\n", b"*1\r\n*3\r\n:-5\r\n:99999\r\n*2\r\n$300\r\n" + b"h" * 300 + b"\r\n:7\r\n", b"-MOVED 5 nowhere\r\n", b"-ASK x\r\n",
                       b"-ERR This instance has cluster support disabled\r\n" + b"*2\r\n:1\r\n:2\r\n" * 3, b"-ERR cluster\r\n-MOVED 1 :0\r\n", b"-ERR cluster\r\n$1\r\n{\r\n", b"$-5\r\n", b"*99999999999\r\n", bytes(range(256))):
            with StrangeServer(answer) as port:
                (path / "1/rows.json").write_text(json.dumps({**pointer, "url": f"redis://127.0.0.1:{port}/ads"}))
                ended = subprocess.run([self.program, "predict", path / "1", self.folder / "test.csv"], capture_output=True, text=True, timeout=30)
            assert ended.returncode == 1 and "Redis" in ended.stderr and not ended.stdout, (answer, ended)
        for text, words in (("{", "rows.json"), ('{"rows": "disk"}', "disk"), ('{"rows": "redis"}', "url"), ('{"rows": "redis", "url": "here", "version": "1"}', "redis://")):
            (path / "1/rows.json").write_text(text)
            ended = subprocess.run([self.program, "predict", path / "1", self.folder / "test.csv"], capture_output=True, text=True, timeout=30)
            assert ended.returncode == 1 and words in ended.stderr, (text, ended)

    def test_cluster(self):
        cluster = Cluster(self.folder)
        path = self.export("cluster", cluster.nodes[2].port)
        assert self.predicted("cluster/1") == self.wanted
        with Server(self, path, cache_bytes=1, timeout=3) as s:
            self.all_same(s)
            self.move_slots(cluster, s)
            cluster.nodes[0].process.send_signal(signal.SIGSTOP)
            assert s.predict(self.rows)[0] == 503
            s.wait_ready(503)
            cluster.nodes[0].process.send_signal(signal.SIGCONT)
            cluster.wait()
            s.wait_ready(200)
            self.all_same(s)
        cluster.stop()

    def long_failover(self):
        """A replica takes a lost master's place: the server asks the cluster who has the slots now."""
        cluster = Cluster(self.folder, replicas=1)
        with Server(self, self.export("failover", cluster.nodes[0].port), cache_bytes=1) as s:
            self.all_same(s)
            for node in cluster.nodes:  # what a master has answered for may not be with its replica yet
                if b"role:master" in node.ask("INFO", "replication"):
                    node.ask("WAIT", 1, 10000)
            first = next(node for node in cluster.nodes if node.keys() and b"role:master" in node.ask("INFO", "replication"))
            first.stop()
            s.wait_ready(503)
            s.wait_ready(200)
            self.all_same(s)
        cluster.stop()

    def move_slots(self, cluster, s):
        """While slots move from one node to another, answers stay what they are."""
        ids = [node.ask("CLUSTER", "MYID").decode() for node in cluster.nodes]
        ended, failures, n = threading.Event(), [], [0]

        def client():
            while not ended.is_set():
                first = n[0] * 37 % 400
                try:
                    self.same(s.predict(self.rows[first:first + 50]), first)
                except AssertionError as wrong:
                    failures.append(wrong)
                n[0] += 1
        thread = threading.Thread(target=client)
        thread.start()
        moved = subprocess.run(["redis-cli", "--cluster", "reshard", f"127.0.0.1:{cluster.nodes[0].port}", "--cluster-from", ids[0], "--cluster-to", ids[1], "--cluster-slots", "2000", "--cluster-yes"],
                               capture_output=True, text=True)
        ended.set()
        thread.join()
        assert moved.returncode == 0, moved.stdout[-2000:]
        assert not failures and n[0] > 5, (n[0], failures[:2])


if __name__ == "__main__":
    main(Tests)
