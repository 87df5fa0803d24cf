#!/usr/bin/env python3
"""What `reckon recommend` finds, found again from the vectors that it writes: every item scored for every user here, known ones left out. Its recall on test rows is
the one that `reckon eval` measures. Candidates are ranked again by what `reckon predict` prints.

    check_recommend.py PROGRAM      NumPy reads its files too, where there is a NumPy
"""
import csv
import json
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

USERS, ITEMS, K = 120, 80, 20


def make_pairs(folder):
    """Users like items of their own kind, one of four; each user and each item is in the training data."""
    chance = random.Random(5)
    rows = {name: [] for name in ("train", "valid", "test")}
    for user in range(USERS):
        items = [item for item in range(ITEMS) if chance.random() < (0.5 if user % 4 == item % 4 else 0.05) or item == user % ITEMS]
        for item in items:
            split = "train" if item == user % ITEMS else chance.choices(["train", "valid", "test"], [6, 1, 2])[0]
            rows[split].append((f"u{user}", f"film, \"{item}\"", 20 + user % 50, int(chance.random() < 0.5)))
    for name, lines in rows.items():
        with open(folder / f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows([("user", "film", "age", "click"), *lines])
    return rows


def read_npy(path):
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", path
    length, = struct.unpack_from("<H", data, 8)
    header = eval(data[10:10 + length], {})
    assert (10 + length) % 64 == 0 and header["descr"] == "<f4" and not header["fortran_order"], header
    n, dim = header["shape"]
    values = struct.unpack_from(f"<{n * dim}f", data, 10 + length)
    assert len(data) == 10 + length + 4 * n * dim
    try:
        import numpy
    except ImportError:
        pass
    else:
        array = numpy.load(path)
        assert array.shape == (n, dim) and array.ravel().tolist() == list(values), path
    names = path.with_name(path.stem + ".ids.txt").read_text().splitlines()
    assert len(names) == n and len(set(names)) == n, (len(names), n)
    return {name: values[i * dim:(i + 1) * dim] for i, name in enumerate(names)}


def read_safetensors(path):
    data = path.read_bytes()
    length, = struct.unpack_from("<Q", data)
    tensor = json.loads(data[8:8 + length])["vectors"]
    begin, end = tensor["data_offsets"]
    return tensor["shape"], struct.unpack(f"<{(end - begin) // 4}f", data[8 + length + begin:8 + length + end])


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


class Check:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def run(self, *words):
        done = subprocess.run([self.program, *map(str, words)], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def train(self, name, text):
        (self.folder / f"{name}.yaml").write_text(f"data: {{train: train.csv, valid: valid.csv, test: test.csv, {text}")
        self.run("train", "-q", "--output", name, f"{name}.yaml")

    def found(self, *words):
        """[(user, item, score), ...] of each user, in the output's order."""
        users = {}
        for row in csv.DictReader(self.run("recommend", *words).splitlines()):
            answer = users.setdefault(row["user"], [])
            assert int(row["rank"]) == len(answer) + 1
            answer.append((row["item"], float(row["score"])))
        return users

    def two_tower(self, name, deep, rows):
        similarity = "dot" if deep else "cosine"
        self.train(name, "features: [{name: user, vocabulary: {}}, {name: item, column: film, vocabulary: {oov: 0}}, {name: age, identity: 100}]}\n"
                         "embedding: {dim: 8, features: [{name: history, table: item}]}\n"
                         f"model: {{kind: two_tower, {deep} retrieval: {{user: user, item: item, history: true, negatives: 40, similarity: {similarity}}}}}\n"
                         "train: {batch_size: 100, epochs: 4, optimizer: {kind: adam, learning_rate: 0.02}}\n")
        for tower in "user", "item":
            self.run("recommend", "--vectors", tower, "-o", f"{tower}.npy", name)
            self.run("recommend", "--vectors", tower, "-o", f"{tower}.safetensors", name)
        users, items = read_npy(self.folder / "user.npy"), read_npy(self.folder / "item.npy")
        for tower, vectors in ("user", users), ("item", items):
            shape, values = read_safetensors(self.folder / f"{tower}.safetensors")
            assert shape == [len(vectors), 8] and list(values) == [x for vector in vectors.values() for x in vector]
        assert len(users) == USERS and len(items) == ITEMS
        known = {user: {row[1] for split in ("train", "valid") for row in rows[split] if row[0] == user} for user in users}
        self.compare(self.found("-k", K, name), users, items, known, K)
        self.compare(self.found("-k", 1000, "--with-known", name), users, items, {user: set() for user in users}, ITEMS)
        self.compare_recall(name, self.found("-k", K, name), rows["test"], known)

    def compare(self, found, users, items, known, k):
        assert list(found) == list(users)
        for user, answer in found.items():
            scores = {item: dot(vector, users[user]) for item, vector in items.items() if item not in known[user]}
            assert len(answer) == min(k, len(scores)) and len(dict(answer)) == len(answer)
            for item, score in answer:
                assert abs(score - scores[item]) < 1e-5, (user, item, score, scores[item])
            assert all(a[1] >= b[1] for a, b in zip(answer, answer[1:]))
            least, taken = answer[-1][1], {item for item, _ in answer}
            missed = [item for item, score in scores.items() if item not in taken and score > least + 1e-5]
            assert not missed, (user, missed)

    def compare_recall(self, name, found, test, known):
        wanted = {}
        for user, item, *_ in test:
            if item not in known[user]:
                wanted.setdefault(user, set()).add(item)
        recall = sum(len(items & {item for item, _ in found[user]}) / len(items) for user, items in wanted.items()) / len(wanted)
        measured = json.loads(self.run("eval", "--json", name))["metrics"][f"recall@{K}"]
        assert abs(recall - measured) < 1e-9, (recall, measured)
        print(f"{name}: recall@{K} {recall:.5f} of what is recommended, {measured:.5f} by reckon eval")

    def candidates(self, name, model, tasks, rows):
        labels = {"click": "{name: click}", "mature": "{name: mature, column: age, threshold: 45}"}
        features = "{name: user, hash: 500}, {name: item, column: film, vocabulary: {}}, {name: age, dense: true, normalize: true}"
        self.train(name, f"labels: [{', '.join(labels[task] for task in tasks)}], features: [{features}]}}\n"
                         f"embedding: {{dim: 4}}\nmodel: {model}\ntrain: {{batch_size: 64, epochs: 2}}\n")
        predicted = list(csv.DictReader(self.run("predict", name, "test.csv").splitlines()))
        for task in tasks:
            groups = {}
            for number, row in enumerate(rows["test"]):
                groups.setdefault(row[0], []).append(number)
            answers = {}
            choice = ["--task", task] if len(tasks) > 1 else []
            for row in csv.DictReader(self.run("recommend", name, "-c", "test.csv", "-g", "user", "--item", "film", "-k", 3, *choice).splitlines()):
                answers.setdefault(row["group"], []).append((int(row["row"]), row["item"], float(row["score"])))
            assert list(answers) == list(groups)
            for group, numbers in groups.items():
                best = sorted((float(predicted[number][task]) for number in numbers), reverse=True)[:3]
                assert len({row for row, *_ in answers[group]}) == len(answers[group]) == len(best)
                for (number, item, score), wanted in zip(answers[group], best):
                    assert number in numbers and item == rows["test"][number][1]
                    assert abs(score - wanted) < 1e-6 and abs(score - float(predicted[number][task])) < 1e-6, (group, answers[group], best)
        print(f"{name}: the best three of {len(groups)} groups, as reckon predict ranks them")


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        check = Check(Path(sys.argv[1]).resolve(), folder)
        rows = make_pairs(folder)
        check.two_tower("sums", "", rows)
        check.two_tower("layers", "deep: [16, 8],", rows)
        check.candidates("wide_deep", "{kind: wide_deep, deep: [8]}", ["click"], rows)
        check.candidates("dlrm", "{kind: dlrm, deep: [8]}", ["mature"], rows)
        check.candidates("mmoe", "{kind: mmoe, experts: 2}", ["click", "mature"], rows)


if __name__ == "__main__":
    main()
