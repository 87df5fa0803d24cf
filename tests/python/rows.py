"""Rows for the tests of the Python package: as lists, as a CSV file, and the run file of what learns from them."""

import csv
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PROGRAM = os.path.abspath(os.environ.get("RECKON_PROGRAM", TOP / "build" / "reckon"))
os.environ.setdefault("RECKON_LIBRARY", str(Path(PROGRAM).parent / "libreckon.so"))
sys.path.insert(0, str(TOP / "python"))

WORDS = ["a", "bb", "a word of more than twelve bytes", "Łódź", "x"]


def make_rows(n=3000, seed=1):
    """Text with missing values, ids, numbers, a list a row, and a label that follows from them."""
    r = random.Random(seed)
    rows = {
        "user": [r.randrange(40) for _ in range(n)],
        "word": [r.choice([*WORDS, None]) for _ in range(n)],
        "tags": [[r.randrange(90) for _ in range(r.randrange(4))] for _ in range(n)],
        "x": [r.gauss(0, 1) for _ in range(n)],
        "small": [r.randrange(-8, 8) / 4 for _ in range(n)],  # float32 says it in full
    }
    rows["click"] = [int(x + (word == "bb") > user / 40) for x, word, user in zip(rows["x"], rows["word"], rows["user"])]
    return rows


def part(rows, first, end):
    return {name: values[first:end] for name, values in rows.items()}


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows)
        for row in zip(*rows.values()):
            writer.writerow(["" if v is None else "|".join(map(str, v)) if isinstance(v, list) else repr(v) if isinstance(v, float) else v for v in row])


def run_file(output, epochs=2, **train):
    return {
        "data": {
            "labels": [{"name": "click"}],
            "features": [
                {"name": "user", "identity": 40},
                {"name": "word", "vocabulary": {"min_count": 2}},
                {"name": "tags", "separator": "|", "hash": 50},
                {"name": "x", "dense": True, "normalize": True},
                {"name": "small", "dense": True},
            ],
        },
        "embedding": {"dim": 4},
        "model": {"kind": "deepfm", "deep": [8]},
        "train": {"batch_size": 128, "epochs": epochs, "output": str(output), "tensorboard": False, "optimizer": {"kind": "adam", "learning_rate": 0.01}, **train},
    }


OF_KEYS = ("keys", "last_batches", "counts", "batches", "totals", "stream_clock")  # what decides on keys, of a table's state
TTL = 40


def train_in_time(folder, digits=None):
    """A run of the program whose keys come and go, rows of which expire after TTL seconds: its batches of keys, one a sample, with their times; and its checkpoint."""
    r, at = random.Random(7), range(300)
    keys, times = [r.randrange(i // 5, i // 5 + 25) for i in at], [round(1_700_000_000 + 0.75 * i - 5 * r.random(), digits) for i in at]
    write_csv(folder / "clicks.csv", {"time": times, "item": keys, "click": [i % 2 for i in at]})
    (folder / "run.yaml").write_text(
        "data: {train: clicks.csv, timestamp: time, shuffle: false, labels: [{name: click}], features: [{name: item, key: true}]}\n"
        f"embedding: {{dim: 4, optimizer: {{kind: adagrad}}, tables: [{{name: item, max_capacity: 100, buckets: 3, eviction: {{ttl: {TTL}}}}}]}}\n"
        "model: {kind: dnn, deep: [4]}\ntrain: {batch_size: 20, epochs: 1, output: run}\n"
    )
    subprocess.run([PROGRAM, "train", "--quiet", "run.yaml"], cwd=folder, check=True)
    return [(keys[i : i + 20], times[i : i + 20]) for i in at[::20]], sorted((folder / "run" / "checkpoints").glob("step-*"))[-1]


def bits(predictions):
    """The numbers' own bits."""
    values = predictions.tolist()
    flat = [v for row in values for v in row] if values and isinstance(values[0], list) else values
    return struct.pack(f"{len(flat)}f", *flat)
