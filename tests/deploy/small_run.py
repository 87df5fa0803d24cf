"""A small trained run, and servers of it, for the tests of this folder."""
import json
import pathlib
import random
import subprocess
import sys
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "server"))

from server_process import ServerProcess

RUN = """
data:
  train: train.csv
  labels: [click]
  features: [{name: user, hash: 100}, {name: city, vocabulary: {}}, {name: age, dense: true, normalize: true}]
embedding: {dim: 4}
model: {kind: wide_deep, deep: [8]}
train: {batch_size: 64, epochs: 1, optimizer: {kind: adam, learning_rate: 0.02}}
"""
ROW = {"user": "u1", "city": "Rome", "age": 40}


def train(program, folder, name="run"):
    chance = random.Random(1)
    rows = [f"{chance.randint(0, 1)},u{chance.randint(0, 60)},{chance.choice(['Rome', 'Paris'])},{chance.randint(18, 90)}" for _ in range(400)]
    (folder / "train.csv").write_text("\n".join(["click,user,city,age", *rows, ""]))
    (folder / "run.yaml").write_text(RUN)
    subprocess.run([program, "train", "-q", "--output", folder / name, folder / "run.yaml"], check=True)
    return folder / name


class Server(ServerProcess):
    """`reckon serve` with the given arguments; told to listen at a free port unless one is named."""

    def __init__(self, program, *arguments, listen="127.0.0.1:0"):
        super().__init__([program, "serve", "--listen", listen, *arguments])

    def get(self, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data), timeout=20) as answer:
            return answer.status, answer.read().decode()
