"""What the tests of `reckon serve` share: a run that is trained once, and a server that its clients meet by sockets and Python's own HTTP client."""
import csv
import http.client
import json
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from server_process import ServerProcess

N_ROWS = 400
RUN = """
data:
  train: train.csv
  test: test.csv
  labels: [click, {name: rating, loss: mse}]
  features:
    - {name: user, hash: 100}
    - {name: tags, hash: 50, separator: " "}
    - {name: city, vocabulary: {}}
    - {name: age, dense: true, normalize: true}
    - {name: price, dense: true}
embedding: {dim: 4, initializer: {kind: normal, stddev: 0.5}}
model: {kind: shared_bottom, deep: [8], towers: [4]}
train: {batch_size: 64, epochs: %d, keep_best: false, evaluate: {every_steps: 0}, optimizer: {kind: adam, learning_rate: 0.02}}
"""
USERS, FILMS = 60, 80
TOWERS = """
data:
  train: pairs.csv
  test: pairs.csv
  features: [{name: user, vocabulary: {oov: %d}}, {name: item, column: film, %s}, {name: age, identity: 100}]
embedding: {dim: 8, features: [{name: history, table: item}]}
model: {kind: two_tower, deep: [8], retrieval: {user: user, item: item, history: true, negatives: 40, similarity: dot}}
train: {batch_size: 100, epochs: 2, optimizer: {kind: adam, learning_rate: 0.02}}
"""
SERVE = """
listen: 127.0.0.1:0
models: [{name: ads, path: %s%s}]
reload_interval: %s
drain_delay: 0.3
limits: %s
%s
"""
LIMITS = {"max_request_bytes": 20000, "max_rows": 200, "header_timeout": 0.7, "request_timeout": 3, "idle_timeout": 2}


def make_rows(folder, name, seed):
    chance = random.Random(seed)
    rows = [{"click": chance.randint(0, 1), "rating": round(chance.uniform(0, 5), 2), "user": f"u{chance.randint(0, 60)}",
             "tags": " ".join(f"t{chance.randint(0, 30)}" for _ in range(chance.randint(0, 4))), "city": chance.choice(["Rome", "Łódź", "\"quoted\", it", "東京", ""]),
             "age": chance.randint(18, 90), "price": float(f"{chance.lognormvariate(0, 2):.9g}")} for _ in range(N_ROWS)]
    with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Server(ServerProcess):
    def __init__(self, t, model="", more="", run=None, reload_interval=0.2, text=None, preexec_fn=None, **limits):
        self.folder = t.folder
        config = t.folder / "serve.yaml"
        config.write_text(text or SERVE % (t.folder / run if run else t.serve_run, model, reload_interval, json.dumps(LIMITS | limits), more))
        super().__init__([t.program, "serve", config], stdout=subprocess.PIPE, preexec_fn=preexec_fn)

    def ask(self, path, body=None, headers=None, method=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        connection.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text, answer.headers

    def admin(self, path, body=None, method="POST"):
        """What the socket of `admin: {socket: admin.sock}` answers."""
        connection = UnixConnection(self.folder / "admin.sock")
        connection.request(method, path, json.dumps(body).encode() if isinstance(body, dict) else body)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text)

    def json(self, path, body=None, **how):
        status, text, _ = self.ask(path, body, **how)
        return status, json.loads(text)

    def predict(self, body, what=":predict"):
        return self.json(f"/v1/models/ads{what}", body)

    def raw(self, data, seconds=5):
        """All that comes back until the server closes; the connection must not be kept."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as s:
            s.sendall(data)
            got = b""
            while piece := s.recv(65536):
                got += piece
            return got


class Tests:
    """A trained run, its test data, and what `reckon predict` says of them."""

    def __init__(self, program):
        self.program, self.folder = program, Path(tempfile.mkdtemp(prefix="server-"))
        self.serve_run = self.folder / "run"
        make_rows(self.folder, "train", 1)
        self.rows = make_rows(self.folder, "test", 2)
        self.train(1)
        self.instances = [{k: v for k, v in row.items() if k not in ("click", "rating")} for row in self.rows]

    def train(self, epochs, *more):
        (self.folder / "run.yaml").write_text(RUN % epochs)
        subprocess.run([self.program, "train", "-q", "--output", self.folder / "run", *more, self.folder / "run.yaml"], check=True)
        self.wanted = self.predictions()

    def predictions(self, *more):
        """As `reckon predict` prints them: seven digits of each f32."""
        out = subprocess.run([self.program, "predict", "--format", "jsonl", *more, self.folder / "run", self.folder / "test.csv"], check=True, capture_output=True, text=True).stdout
        return [(row["click"], row["rating"]) for row in map(json.loads, out.splitlines())]

    @staticmethod
    def printed(pairs):
        return [tuple(float(f"{single(p):.7g}") for p in pair) for pair in pairs]

    def same(self, answer, first=0):
        got = self.printed([(p["click"], p["rating"]) for p in answer])
        assert got == self.wanted[first:first + len(got)], (got[:3], self.wanted[first:first + 3])

    def towers(self, item, oov=0):
        """A two_tower; its users, as instances, and what `reckon recommend` finds for them."""
        chance = random.Random(7)
        self.users = [{"user": f"u{user}", "age": 20 + user % 50} for user in range(USERS)]
        with open(self.folder / "pairs.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["user", "film", "age"])
            for row in self.users:
                for film in {chance.randrange(FILMS) for _ in range(12)} | {int(row["user"][1:])}:
                    writer.writerow([row["user"], f'film, "{film}"', row["age"]])
        shutil.rmtree(self.folder / "towers", ignore_errors=True)
        (self.folder / "towers.yaml").write_text(TOWERS % (oov, item))
        subprocess.run([self.program, "train", "-q", "--output", self.folder / "towers", self.folder / "towers.yaml"], check=True)

    def recommended(self, k, *more):
        out = subprocess.run([self.program, "recommend", "--format", "jsonl", "-k", str(k), *more, self.folder / "towers"], check=True, capture_output=True, text=True).stdout
        return {row["user"]: (row["items"], row["scores"]) for row in map(json.loads, out.splitlines())}


def main(kind):
    tests = kind(sys.argv[1])
    try:
        for name in sys.argv[2:] or [name for name in dir(tests) if name.startswith("test_")]:
            begun = time.monotonic()
            getattr(tests, name)()
            print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)
    finally:
        shutil.rmtree(tests.folder)
