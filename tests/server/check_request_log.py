#!/usr/bin/env python3
"""The request log: TFRecord files that another reader of the format takes, that Reckon trains on, and that end with a whole record whatever happens.

    check_request_log.py PROGRAM [TEST...]      77: this build cannot serve
"""
import csv
import json
import re
import resource
import shutil
import signal
import struct
import subprocess
import time

from serving import main, N_ROWS, RUN, Server, single, Tests

# The format by its own rules (https://www.tensorflow.org/tutorials/load_data/tfrecord), without the code under test.
TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data, at):
    value, shift = 0, 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        assert key & 7 == 2, "not length-delimited"
        n, at = varint(data, at)
        yield key >> 3, data[at:at + n]
        at += n


def example(data):
    (_, features), = fields(data)
    row = {}
    for _, entry in fields(features):
        (_, name), (_, feature) = fields(entry)
        (kind, packed), = fields(feature)
        values = [value for _, value in fields(packed)]
        if kind == 2:
            values = [x for value in values for x in struct.unpack(f"<{len(value) // 4}f", value)]
        elif kind == 3:
            numbers = []
            for value in values:
                at = 0
                while at < len(value):
                    number, at = varint(value, at)
                    numbers.append(number)
            values = numbers
        assert name.decode() not in row
        row[name.decode()] = values
    return row


def read(path):
    data, at, rows = path.read_bytes(), 0, []
    while at < len(data):
        n, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked_crc(data[at:at + 8]), (path, at)
        payload = data[at + 12:at + 12 + n]
        assert len(payload) == n and struct.unpack_from("<I", data, at + 12 + n)[0] == masked_crc(payload), (path, at)
        rows.append(example(payload))
        at += n + 16
    return rows


class RequestLog(Tests):
    def log(self, more=""):
        return f"request_log: {{path: log.tfrecord{more}}}"

    @property
    def path(self):
        return self.folder / "log.tfrecord"

    def clean(self):
        for path in self.folder.glob("log*.tfrecord"):
            path.unlink()

    def ask(self, s, rows, name, what=":predict", **more):
        """The id that was answered."""
        status, _, headers = s.ask(f"/v1/models/ads{what}", {"instances": rows, **more}, {"X-Request-Id": name} if name else {})
        assert status == 200, status
        return headers["X-Request-Id"]

    def counted(self, s):
        return [int(n) for n in re.findall(r"^reckon_request_log_(?:records|dropped)_total (\d+)$", s.ask("/metrics")[1].decode(), re.M)]

    def wait(self, s, wanted):
        for _ in range(100):
            if sum(got := self.counted(s)) >= wanted:
                return got
            time.sleep(0.05)
        raise AssertionError(got)

    def test_columns(self):
        """All that was asked and answered; a model that learns from the log is the model that learns from the file."""
        self.clean()
        with open(self.folder / "train.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        with Server(self, more=self.log()) as s:
            begun = time.time()
            for first in range(0, N_ROWS, 40):
                self.ask(s, rows[first:first + 40], f"r{first}")
            answers = s.predict({"instances": rows[:40]})[1]["predictions"]
            assert self.wait(s, N_ROWS + 40) == [N_ROWS + 40, 0]
        assert self.path.stat().st_mode & 0o777 == 0o600
        got = read(self.path)
        assert len(got) == N_ROWS + 40
        for i, record in enumerate(got[:N_ROWS]):
            row = rows[i]
            assert {k: [v.decode() for v in record[k]] for k in row if row[k] or k == "city"} == {k: [v] for k, v in row.items() if v or k == "city"}, (record, row)
            assert record["reckon/request_id"] == [f"r{i // 40 * 40}".encode()] and record["reckon/row"] == [i % 40] and record["reckon/model"] == [b"ads"] and record["reckon/version"] == [7]
            assert begun - 1 < record["reckon/time_us"][0] / 1e6 < time.time() + 1
        for record, answer in zip(got[N_ROWS:], answers):
            assert (record["reckon/predictions/click"], record["reckon/predictions/rating"]) == ([single(answer["click"])], [single(answer["rating"])])
        self.path.write_bytes(self.path.read_bytes()[:sum(len_of(self.path, N_ROWS))])
        models = []
        for train in ("train.csv", "log.tfrecord"):
            (self.folder / "again.yaml").write_text((RUN % 1).replace("train.csv", train))
            subprocess.run([self.program, "train", "-q", "--output", self.folder / "again", self.folder / "again.yaml"], check=True, capture_output=True)
            models.append([subprocess.run([self.program, "predict", self.folder / "again", self.folder / data], check=True, capture_output=True).stdout for data in ("test.csv", "train.csv", "log.tfrecord")])
            shutil.rmtree(self.folder / "again")
        assert models[0] == models[1] and models[0][1] == models[0][2], "what was learned from the log is something else"
        subprocess.run([self.program, "convert", self.path, self.folder / "log.csv"], check=True, capture_output=True)
        with open(self.folder / "log.csv", newline="", encoding="utf-8") as file:
            assert [row["user"] for row in csv.DictReader(file)] == [row["user"] for row in rows]

    def test_values(self):
        """Lists, missing values, bytes and tensors; what is refused, and a model's columns that nobody gave, are not there."""
        self.clean()
        row = self.instances[0]
        with Server(self, more=self.log()) as s:
            self.ask(s, [{**row, "tags": ["a", None, "b"], "city": None}, {**row, "tags": [], "city": {"b64": "/w=="}, "other": 1}], "one")
            assert s.predict({"instances": [{**row, "age": "old"}]})[0] == 400
            assert s.predict({"instances": []})[0] == 200
            tensors = [{"name": k, "shape": [1], "datatype": {"age": "INT64", "price": "FP64"}.get(k, "BYTES"), "data": [row[k]]} for k in row]
            assert s.json("/v2/models/ads/infer", {"inputs": tensors}, headers={"X-Request-Id": "two"})[0] == 200
            self.wait(s, 3)
            context, item = {k: row[k] for k in ("user", "city", "age")}, {k: row[k] for k in ("tags", "price")}
            self.ask(s, [item, {**item, "city": "Rome"}, item], "three", context=context)
            self.wait(s, 6)
        got = read(self.path)
        assert [r["user"] for r in got[3:]] == [[row["user"].encode()]] * 3 and [r["price"] for r in got[3:]] == [[str(row["price"]).encode()]] * 3
        assert [r["city"][0].decode() for r in got[3:]] == [row["city"], "Rome", row["city"]] and len(got) == 6
        assert [r["tags"] for r in got[:2]] == [[b"a", b"b"], []] and [r["city"] for r in got[:2]] == [[], [b"\xff"]]
        assert got[2]["age"] == [str(row["age"]).encode()] and float(got[2]["price"][0]) == row["price"] and got[2]["reckon/request_id"] == [b"two"]
        assert not any("click" in r or "other" in r for r in got)

    def test_missing(self):
        """Texts that the run's `missing` lists are no values: of the log the model predicts what it answered."""
        self.clean()
        (self.folder / "missing.yaml").write_text((RUN % 1).replace("  labels:", "  missing: [Rome, t1]\n  labels:"))
        subprocess.run([self.program, "train", "-q", "--output", self.folder / "missing", self.folder / "missing.yaml"], check=True)
        rows = [{**self.instances[0], "city": "Rome", "tags": ["t1", "t2"]}, {**self.instances[1], "city": "Łódź", "tags": "t1"}]
        with Server(self, run="missing", more=self.log()) as s:
            answers = s.predict({"instances": rows})[1]["predictions"]
            self.wait(s, 2)
        assert [(r["city"], r["tags"]) for r in read(self.path)] == [([], [b"t2"]), (["Łódź".encode()], [])]
        out = subprocess.run([self.program, "predict", "--format", "jsonl", self.folder / "missing", self.path], check=True, capture_output=True, text=True).stdout
        assert self.printed([(a["click"], a["rating"]) for a in answers]) == [(row["click"], row["rating"]) for row in map(json.loads, out.splitlines())]

    def test_retrieve(self):
        self.clean()
        self.towers("vocabulary: {}")
        with Server(self, run="towers", more=self.log()) as s:
            status, answer = s.json("/v1/models/ads:retrieve", {"instances": [self.users[1], {"user": "nobody", "age": 3}, self.users[2]], "k": 3})
            self.wait(s, 3)
        got = read(self.path)
        assert [r["user"] for r in got] == [[b"u1"], [b"nobody"], [b"u2"]] and not any("film" in r for r in got)
        assert [([i.decode() for i in r["reckon/items"]], r["reckon/scores"]) for r in got] == [(r["items"], [*map(single, r["scores"])]) for r in answer["result"]]

    def test_ids(self):
        """A client's id is taken if it is safe to write down, else one is made; each answer has it."""
        self.clean()
        row = self.instances[:1]
        with Server(self, more=self.log()) as s:
            assert self.ask(s, row, "a-B_9.:/+=") == "a-B_9.:/+=" and self.ask(s, row, "x" * 128) == "x" * 128
            made = [self.ask(s, row, name) for name in (None, "x" * 129, "a b", "a\"b", "é")]
            assert len(set(made)) == 5 and all(re.fullmatch("[0-9a-f]{32}", name) for name in made), made
            assert s.ask("/x", headers={"X-Request-Id": "lost"})[2]["X-Request-Id"] == "lost" and s.ask("/v2")[2]["X-Request-Id"]
            self.wait(s, 7)
        assert [r["reckon/request_id"][0].decode() for r in read(self.path)] == ["a-B_9.:/+=", "x" * 128, *made]

    def test_sampling(self):
        """An id alone decides; of many ids the part that was asked for is there."""
        chosen = []
        for _ in range(2):
            self.clean()
            with Server(self, more=self.log(", sampling_rate: 0.3")) as s:
                for i in range(300):
                    self.ask(s, self.instances[:2], f"id{i}")
            got = [r["reckon/request_id"][0] for r in read(self.path)]
            assert got[::2] == got[1::2]  # both rows of a request
            chosen.append(got[::2])
        assert chosen[0] == chosen[1] and 50 < len(chosen[0]) < 130, len(chosen[0])

    def test_files(self):
        """Files are full, none is larger than it may be, a server goes on where another ended, and what was cut is cut off."""
        self.clean()
        with Server(self, more=self.log(", max_bytes: 8000")) as s:
            for i in range(60):
                self.ask(s, self.instances[:2], f"id{i}")
            assert subprocess.run([self.program, "serve", self.folder / "serve.yaml"], capture_output=True, text=True, timeout=20).stderr.count("another program")
        def names():
            paths = sorted(self.folder.glob("log*.tfrecord"))
            assert [path.name for path in paths] == [*(f"log-{i:06}.tfrecord" for i in range(1, len(paths))), "log.tfrecord"]
            return [*paths]
        assert len(names()) > 3 and all(3000 < path.stat().st_size <= 8000 for path in names()[:-1])
        assert [r["reckon/request_id"][0] for path in names() for r in read(path)] == [b"id%d" % (i // 2) for i in range(120)]
        n = len(names())
        self.path.write_bytes(self.path.read_bytes() + names()[0].read_bytes()[:200])  # as after a loss of power
        with Server(self, more=self.log(", max_bytes: 8000")) as s:
            self.ask(s, self.instances[:1], "later")
            self.wait(s, 1)
            assert read(self.path)[-1]["reckon/request_id"] == [b"later"]
            self.path.rename(self.folder / "log-moved.tfrecord")  # at any time
            for i in range(60):
                self.ask(s, self.instances[:2], f"more{i}")
            self.wait(s, 121)
            s.process.send_signal(signal.SIGKILL)
            s.process.wait()
            s.process.returncode = 0
        assert read(self.folder / "log-moved.tfrecord")[-1]["reckon/request_id"] == [b"later"]
        (self.folder / "log-moved.tfrecord").unlink()
        got = [r["reckon/request_id"][0] for path in names() for r in read(path)]
        assert len(names()) > n and got[-120:] == [b"more%d" % (i // 2) for i in range(120)], got
        self.path.write_text("I am not a log" * 10)
        for text, words in ((None, "no TFRecord"), ("nowhere/log", "nowhere"), (".", "."), ("''", "empty")):
            config = self.folder / "serve.yaml"
            if text:
                config.write_text(re.sub("path: [^,{}]*, max", f"path: {text}, max", config.read_text()))
            ended = subprocess.run([self.program, "serve", config], capture_output=True, text=True, timeout=20)
            assert ended.returncode == 1 and words in ended.stderr, (text, ended)
        assert self.path.read_text().startswith("I am not")

    def test_max_files(self):
        """Beyond max_files the oldest are deleted, also those of the servers before; what is named otherwise stays."""
        self.clean()
        others = [self.folder / name for name in ("log-1.text", "log-x.tfrecord", "log2-000001.tfrecord", "log-.tfrecord", "log-20261126.tfrecord")]
        for path in others:
            path.write_text("other")
        for most, first in ((4, 0), (2, 60), (1, 120)):
            with Server(self, more=self.log(f", max_bytes: 8000, max_files: {most}")) as s:
                for i in range(60):
                    self.ask(s, self.instances[:2], f"id{first + i}")
                self.wait(s, 120)
            paths = [*sorted(path for path in self.folder.glob("log-??????.tfrecord")), self.path]
            got = [r["reckon/request_id"][0] for path in paths for r in read(path)]
            assert len(paths) == most and got == [b"id%d" % (i // 2) for i in range(2 * (first + 60) - len(got), 2 * (first + 60))], (paths, got)
        for path in others:
            assert path.read_text() == "other"
            path.unlink()

    def test_full_disk(self):
        """Requests are answered; what has no room is counted and told of once; the file is whole."""
        self.clean()

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

        with Server(self, more=self.log(), preexec_fn=limit) as s:
            for i in range(60):
                self.ask(s, self.instances[:2], f"id{i}")
            written, dropped = self.wait(s, 120)
        assert written > 4 and dropped > 20 and written + dropped == 120 and len(read(self.path)) == written
        assert s.log.count("records are dropped") == 1 and "log.tfrecord" in s.log, s.log


def len_of(path, n):
    """Bytes of each of the first n records."""
    data, at = path.read_bytes(), 0
    for _ in range(n):
        length = struct.unpack_from("<Q", data, at)[0] + 16
        yield length
        at += length


if __name__ == "__main__":
    main(RequestLog)
