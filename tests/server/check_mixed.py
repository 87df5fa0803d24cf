#!/usr/bin/env python3
"""All at once, by chance: models of several kinds, contexts, forms of requests, joined or not, rows in files and in memory, versions that come and go, deadlines. Each answer is, bit for bit, what one version's `reckon predict` says.

    check_mixed.py PROGRAM [TEST...]      77: this build cannot serve
    RK_MIXED_ROUNDS=100 RK_MIXED_SEED=7 check_mixed.py PROGRAM      more of it
"""
import csv
import http.client
import json
import os
import random
import shutil
import subprocess
import threading

from serving import main, RUN, Server, Tests

GROUPS, ROWS = 12, 40  # of the test data: rows of a group have some columns in common
SEQUENCE = "embedding: {dim: 4, initializer: {kind: normal, stddev: 0.5}, features: [{name: tags, max_sequence_length: 3}]}"
MODELS = (None, "{kind: dnn, deep: [130, 17]}", "{kind: dcn_v2, deep: [20], cross_layers: 2}", "{kind: final_mlp, deep: [8]}",
          "{kind: din, deep: [8], attention_deep: [9, 6], attention: [{target: user, history: tags}]}", "{kind: din, deep: [8], activation: sigmoid, attention_softmax: true, attention: [{target: city, history: tags}]}",
          "{kind: mmoe, experts: 2, expert_units: [8], towers: [4]}")


class Mixed(Tests):
    def make_data(self):
        chance = random.Random(3)

        def row():
            return {"user": f"u{chance.randint(0, 60)}", "city": chance.choice(["Rome", "Łódź", "東京", ""]), "age": chance.randint(18, 90), "tags": " ".join(f"t{chance.randint(0, 8)}" for _ in range(chance.randint(0, 5))),
                    "price": float(f"{chance.lognormvariate(0, 2):.9g}")}

        rows, self.shared = [], []
        for group in range(GROUPS):
            self.shared.append([name for name in row() if chance.random() < 0.6])
            shared = {name: value for name, value in row().items() if name in self.shared[-1]}
            rows += [{"click": 0, "rating": 0, **row(), **shared} for _ in range(ROWS)]
        with open(self.folder / "mixed.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        self.grouped = [{k: v for k, v in row.items() if k not in ("click", "rating")} for row in rows]

    def make_versions(self, chance):
        """Version 1 is a run, 2 an export of another; of each what `reckon predict` says, and the server's digits of the same."""
        self.models, text = self.folder / "mixed", RUN % 1
        model = chance.choice(MODELS)
        if model:
            text = "\n".join("model: " + model if line.startswith("model: ") else SEQUENCE if "din" in model and line.startswith("embedding: ") else line for line in text.splitlines())
        (self.folder / "mixed.yaml").write_text(text)
        shutil.rmtree(self.models, ignore_errors=True)
        for epochs, output in ((1, self.models / "1"), (2, self.folder / "later")):
            subprocess.run([self.program, "train", "-q", "--overwrite", "--set", f"train.epochs={epochs}", "--output", output, self.folder / "mixed.yaml"], check=True, capture_output=True)
        subprocess.run([self.program, "export", "--rows", chance.choice(("f32", "f16", "int8", "int4")), self.folder / "later", self.models / "2"], check=True)
        self.digits = {}
        with Server(self, run="mixed", model=", version_policy: all", max_request_bytes=100000) as s:
            for version in (1, 2):
                out = subprocess.run([self.program, "predict", "--format", "jsonl", self.models / str(version), self.folder / "mixed.csv"], check=True, capture_output=True, text=True).stdout
                wanted = [(row["click"], row["rating"]) for row in map(json.loads, out.splitlines())]
                answers = [s.json(f"/v1/models/ads/versions/{version}:predict", {"instances": self.grouped[first:first + 100]})[1]["predictions"] for first in range(0, GROUPS * ROWS, 100)]
                self.digits[version] = [(p["click"], p["rating"]) for answer in answers for p in answer]
                assert self.printed(self.digits[version]) == wanted, model
        assert self.digits[1] != self.digits[2]
        return model

    @staticmethod
    def request(chance, rows, shared):
        """A path, a body, and how its answer gives (click, rating) or click alone. shared: columns that the rows have in common."""
        context = {k: rows[0][k] for k in chance.sample(shared, chance.randint(0, len(shared)))}
        items = [{k: v for k, v in row.items() if k not in context} for row in rows]
        if context and chance.random() < 0.2:  # a row that has one of its own
            items[-1] = rows[-1]
        if chance.random() < 0.1:
            chance.shuffle(keys := list(rows[0]))
            items = [{k: item[k] for k in keys if k in item} for item in items]
        more = {"context": context} if context or chance.random() < 0.1 else {}
        form = chance.choice(("instances", "instances", "inputs", "classify", "infer"))
        if form == "instances":
            return ":predict", {"instances": items, **more}, lambda a: [(p["click"], p["rating"]) for p in a["predictions"]]
        if form == "inputs":
            columns = list(items[0]) or ["price"]  # so that there are rows
            return ":predict", {"inputs": {k: [row[k] for row in rows] for k in columns}, **more}, lambda a: list(zip(a["outputs"]["click"], a["outputs"]["rating"]))
        if form == "classify":
            return ":classify", {"examples": items, **more}, lambda a: [p[1][1] for p in a["result"]]
        tensors = [{"name": k, "shape": [len(rows)], "datatype": {"age": "INT64", "price": "FP64"}.get(k, "BYTES"), "data": [row[k] for row in rows]} for k in rows[0]]
        return "/infer", {"inputs": tensors}, lambda a: list(zip(*({o["name"]: o["data"] for o in a["outputs"]}[name] for name in ("click", "rating"))))

    def ask_one(self, s, chance, hurried):
        first = chance.randrange(GROUPS) * ROWS + chance.randrange(ROWS)
        n = chance.choice((1, 1, 2, 5, 6, 7, 13, 30, ROWS))
        rows = range(first, min(first + n, first // ROWS * ROWS + ROWS))
        what, body, read = self.request(chance, [self.grouped[i] for i in rows], self.shared[first // ROWS])
        version = chance.choice((None, None, 1))
        at = f"/v{2 if what == '/infer' else 1}/models/ads" + (f"/versions/{version}" if version else "") + what
        try:
            status, answer = s.json(at, body)
        except (OSError, http.client.HTTPException) as failure:  # the watchdog cuts a connection past its deadline
            return None if hurried else f"{at}: {failure!r}"
        if status in (503, 504) and hurried:
            return None
        if status != 200:
            return f"{at}: {status} {answer} for {json.dumps(body)[:300]}"
        got = read(answer)
        digits = {v: [d[i][0] if what == ":classify" else d[i] for i in rows] for v, d in self.digits.items()}
        return None if got in ([digits[version]] if version else digits.values()) else f"{at}: {got[:3]} is neither of {[d[:3] for d in digits.values()]} for {json.dumps(body)[:500]}"

    def come_and_go(self, stop, chance):
        while not stop.is_set():
            (self.models / "2").rename(self.folder / "away")
            stop.wait(chance.uniform(0, 0.3))
            (self.folder / "away").rename(self.models / "2")
            stop.wait(chance.uniform(0.1, 0.6))

    def one_round(self, seed):
        chance = random.Random(seed)
        model = self.make_versions(chance)
        hurried = chance.random() < 0.2
        batching = {"max_batch_size": chance.choice((1, 7, 64, 512)), "batch_timeout_micros": chance.choice((0, 0, 500, 20000)), "num_batch_threads": chance.choice((1, 2, 3))}
        settings = f", version_policy: {chance.choice(('all', 'latest'))}, num_versions: 2, rows: {{in: {chance.choice(('files', 'memory'))}}}"
        failures, n_asked = [], 60
        with Server(self, run="mixed", model=settings, more=f"batching: {json.dumps(batching)}", reload_interval=0.05, max_request_bytes=100000, header_timeout=10, request_timeout=0.1 if hurried else 20) as s:
            stop = threading.Event()
            threads = [threading.Thread(target=lambda i=i: failures.extend(f for c in [random.Random(seed * 100 + i)] for _ in range(n_asked) if (f := self.ask_one(s, c, hurried)))) for i in range(6)]
            moving = threading.Thread(target=self.come_and_go, args=(stop, random.Random(seed)))
            [t.start() for t in (*threads, moving)]
            [t.join() for t in threads]
            stop.set()
            moving.join()
        assert not failures, (seed, model, batching, settings, len(failures), failures[0])

    def test_mixed(self):
        self.make_data()
        first = int(os.environ.get("RK_MIXED_SEED", 1))
        for seed in range(first, first + int(os.environ.get("RK_MIXED_ROUNDS", 3))):
            self.one_round(seed)


if __name__ == "__main__":
    main(Mixed)
