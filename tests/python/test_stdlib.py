#!/usr/bin/env python3
"""The Python package with the standard library alone.

    RECKON_PROGRAM=build/reckon tests/python/test_stdlib.py
"""

import array
import contextlib
import gc
import io
import json
import logging
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from rows import PROGRAM, TOP, bits, make_rows, part, run_file, write_csv

import reckon
from reckon import _arrow, callbacks


def tensors_of(path):
    """A safetensors file's, as flat lists of float32, with their shapes."""
    raw = path.read_bytes()
    end = 8 + struct.unpack("<Q", raw[:8])[0]
    header = {name: e for name, e in json.loads(raw[8:end]).items() if name != "__metadata__"}
    return {name: (e["shape"], list(memoryview(raw)[end + e["data_offsets"][0] : end + e["data_offsets"][1]].cast("f"))) for name, e in header.items()}


def flat_bytes(values):
    return values.numpy().tobytes() if hasattr(values, "numpy") else values.tobytes()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def program(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def without(module):
    """As if it were not installed."""
    before = sys.modules.get(module)
    sys.modules[module] = None
    try:
        yield
    finally:
        del sys.modules[module]
        if before:
            sys.modules[module] = before


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="reckon-python-")
        cls.at = Path(cls.folder.name)
        rows = make_rows()
        cls.train, cls.valid, cls.test = part(rows, 0, 2000), part(rows, 2000, 2500), part(rows, 2500, 3000)
        for name in ("train", "valid", "test"):
            write_csv(cls.at / f"{name}.csv", getattr(cls, name))
        cls.events = []
        cls.model = reckon.train(run_file(cls.at / "run"), train=cls.train, valid=cls.valid, test=cls.test, callbacks=[cls.events.append])

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.folder.cleanup()

    def test_files_have_the_same_bits(self):
        config = run_file(self.at / "files")
        config["data"].update({name: f"{name}.csv" for name in ("train", "valid", "test")})
        (self.at / "files.yaml").write_text(json.dumps(config))
        program("train", "--quiet", self.at / "files.yaml")
        want = bits(self.model.predict(self.test))
        with reckon.load(self.at / "files") as model:
            self.assertEqual(bits(model.predict(self.test)), want)
            metrics = model.eval()
            self.assertEqual(model.eval(self.test), metrics)
            self.assertEqual(model.eval(self.at / "test.csv"), metrics)
        self.assertEqual(self.model.eval("test"), metrics)
        self.assertEqual(json.loads(program("eval", "--json", self.at / "files"))["metrics"], metrics)
        printed = [line.split(",")[1] for line in program("predict", self.at / "files", self.at / "test.csv").splitlines()[1:]]
        self.assertEqual(printed, [f"{p:.7g}" for p in self.model.predict(self.test).tolist()])
        with reckon.train(self.at / "files.yaml", output=self.at / "again") as again:
            self.assertEqual(bits(again.predict(self.test)), want)
        with reckon.train(run_file(self.at / "mixed"), train=str(self.at / "train.csv"), valid=self.valid) as mixed:
            self.assertEqual(bits(mixed.predict(self.test)), want)

    def test_events(self):
        kinds = [e.kind for e in self.events]
        self.assertEqual(kinds.count("evaluation"), 2)
        self.assertEqual(kinds[-1], "test")
        self.assertEqual(dict(self.events[-1].metrics), self.model.eval("test"))
        self.assertIn("stage", kinds)

    def test_model(self):
        self.assertEqual(self.model.tasks, ["click"])
        self.assertEqual(sorted(self.model.inputs), ["small", "tags", "user", "word", "x"])
        self.assertIn("kind: deepfm", self.model.config)
        self.assertTrue(self.model.path.startswith(str(self.at / "run")))
        self.assertEqual(reckon.__version__, program("--version").split()[1])

    def test_arrays_are_as_lists(self):
        want = bits(self.model.predict(self.test))
        for kind, user in (("q", "q"), ("f", "i"), ("d", "b")):
            columns = dict(self.test, user=array.array(user, self.test["user"]), small=array.array(kind if kind != "q" else "d", self.test["small"]))
            self.assertEqual(bits(self.model.predict(columns)), want)
        small = array.array("d", self.test["small"])
        for view in (memoryview(small).toreadonly(), memoryview(array.array("d", [v for s in self.test["small"] for v in (s, 9)]))[::2]):
            self.assertEqual(bits(self.model.predict(dict(self.test, small=view))), want)
        texts = dict(self.test, word=[w and w.encode() for w in self.test["word"]], user=[str(u) for u in self.test["user"]])
        self.assertEqual(bits(self.model.predict(texts)), want)
        self.assertEqual(self.model.predict({name: [] for name in self.test}).tolist(), [])

    def test_requests_of_any_length(self):
        many = {name: values * 140 for name, values in self.test.items()}  # more than one piece
        self.assertEqual(bits(self.model.predict(many)), bits(self.model.predict(self.test)) * 140)
        many["user"][69000] = 99
        with self.assertRaisesRegex(reckon.BadData, "of the rows from 65536 on, row 3464"):
            self.model.predict(many)

    def test_errors(self):
        with self.assertRaises(reckon.ConfigError) as caught:
            reckon.train(dict(run_file(self.at / "none"), modle={}))
        self.assertIn("model", caught.exception.hint)
        self.assertEqual((caught.exception.code, caught.exception.name), (2, "RK_CONFIG"))
        self.assertIsInstance(caught.exception, (reckon.Error, ValueError))
        self.assertIn("hint: ", str(caught.exception))
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((str(again), again.code), (str(caught.exception), 2))
        with self.assertRaises(reckon.NotFound):
            reckon.load(self.at / "nowhere")
        with self.assertRaisesRegex(reckon.BadData, "no column 'word'"):
            self.model.predict({"user": [1]})
        for columns, said in (
            ({"user": [1], "x": [1, 2]}, "column 'x' has 2 rows and 'user' has 1"),
            ({"user": [1 << 70]}, "column 'user': .* more than a 64-bit integer"),
            ({"user": [object()]}, "column 'user': values of the type object"),
            ({"user": "text"}, "column 'user': a str is no column"),
            ({"tags": [[[1]]]}, "column 'tags': lists of lists"),
        ):
            with self.assertRaisesRegex(reckon.BadData, said):
                self.model.predict(columns)
        with self.assertRaisesRegex(reckon.InvalidArgument, "int holds no columns"):
            self.model.predict(7)
        with self.assertRaisesRegex(reckon.InvalidArgument, "resume and overwrite"):
            reckon.train("x.yaml", resume=True, overwrite=True)
        with self.assertRaisesRegex(reckon.ConfigError, "already holds a run's checkpoints"):
            reckon.train(run_file(self.at / "run"), train=self.train)
        with self.assertRaisesRegex(reckon.BadData, "'arrow:train'.*row 1999.*'user'"):
            reckon.train(run_file(self.at / "bad"), train=dict(self.train, user=[*self.train["user"][:-1], 99]))
        self.assertFalse(_arrow.Source._readers)

    def test_closed(self):
        model = reckon.load(self.at / "run")
        model.close()
        model.close()
        for call in (lambda: model.path, lambda: model.predict(self.test), lambda: model.eval("test")):
            with self.assertRaisesRegex(reckon.InvalidArgument, "closed"):
                call()

    def test_data_of_a_loaded_run(self):
        with reckon.load(self.at / "run") as model, self.assertRaisesRegex(reckon.NotFound, "arrow:test"):
            model.eval("test")
        with reckon.load(self.at / "run", test=self.test) as model:
            self.assertEqual(model.eval("test"), self.model.eval("test"))

    def test_callbacks(self):
        def fail(event):
            if event.kind == "evaluation":
                raise RuntimeError("of the caller's")

        def enough(event):
            if event.kind == "evaluation":
                raise reckon.StopTraining

        config = run_file(self.at / "failing", epochs=50)
        with self.assertRaisesRegex(RuntimeError, "of the caller's"):
            reckon.train(config, train=self.train, valid=self.valid, callbacks=[fail])
        with reckon.train(config, train=self.train, valid=self.valid, callbacks=[enough], overwrite=True) as model:
            self.assertIn("step-", model.path)
        self.assertFalse([t for t in threading.enumerate() if t.name == "reckon-train"])

    def test_interrupted(self):
        """Ctrl-C while it trains, from a callback and from outside; it goes on to the same bits."""

        def interrupt(event):
            if event.kind == "evaluation" and event.epoch < 3:
                signal.raise_signal(signal.SIGINT)

        config = run_file(self.at / "interrupted", epochs=4)
        data = {"train": self.train, "valid": self.valid}
        with self.assertRaises(KeyboardInterrupt):
            reckon.train(config, **data, callbacks=[interrupt])
        self.assertTrue(list((self.at / "interrupted/checkpoints").glob("step-*")))
        with reckon.train(config, **data, resume=True) as model, reckon.train(run_file(self.at / "whole", epochs=4), **data) as whole:
            self.assertEqual(bits(model.predict(self.test)), bits(whole.predict(self.test)))
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            reckon.train(run_file(self.at / "long", epochs=100000), train=self.train)
        timer.join()
        self.assertTrue(list((self.at / "long/checkpoints").glob("step-*")))

    def test_interrupted_often(self):
        """Ctrl-C again and again, wherever it falls: the process ends, by itself, with a checkpoint."""
        script = "import rows, reckon\nreckon.train(rows.run_file('often', epochs=100000), train=rows.make_rows(), callbacks=[lambda e: print(e.kind, flush=True)], overwrite=True)"
        environment = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.abspath(__file__)))
        for pause in (0, 0.001, 0.01):
            child = subprocess.Popen([sys.executable, "-c", script], cwd=self.at, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(child.kill)
            self.assertIn(b"checkpoint\n", iter(child.stdout.readline, b""))
            for _ in range(5):
                child.send_signal(signal.SIGINT)
                time.sleep(pause)
            said = child.communicate(timeout=60)[1]
            self.assertIn(child.returncode, (1, -signal.SIGINT))
            self.assertIn(b"KeyboardInterrupt", said)
        self.assertTrue(list((self.at / "often/checkpoints").glob("step-*")))

    def test_interrupted_before_training(self):
        def interrupt(event):
            if "reading" in event.message:
                signal.raise_signal(signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            reckon.train(run_file(self.at / "early"), train=self.train, callbacks=[interrupt])
        self.assertFalse((self.at / "early/checkpoints").exists())

    def test_threads(self):
        want, got = bits(self.model.predict(self.test)), []

        def ask():
            for _ in range(20):
                got.append(bits(self.model.predict(self.test)))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        metrics = self.model.eval("test")
        for thread in threads:
            thread.join()
        self.assertEqual(set(got), {want})
        self.assertEqual(len(got), 80)
        self.assertEqual(metrics, self.model.eval(self.test))

    def test_fork(self):
        want = bits(self.model.predict(self.test))
        child = os.fork()
        if child == 0:
            os._exit(0 if bits(self.model.predict(self.test)) == want else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(bits(self.model.predict(self.test)), want)

    def test_no_growth(self):
        def grown(call, n):
            for _ in range(n // 5):
                call()
            gc.collect()
            before = resident()
            for _ in range(n):
                call()
            gc.collect()
            return resident() - before

        few = part(self.test, 0, 200)
        self.assertLess(grown(lambda: self.model.predict(few), 1000), 1 << 20)
        self.assertLess(grown(lambda: self.model.eval(few), 200), 1 << 20)

        def load():
            with reckon.load(self.at / "run", test=few) as model:
                model.predict(few)

        self.assertLess(grown(load, 100), 2 << 20)
        config = run_file(self.at / "small", epochs=1)
        self.assertLess(grown(lambda: reckon.train(config, train=few, overwrite=True).close(), 50), 4 << 20)
        self.assertFalse(_arrow.Source._readers)

    def test_export(self):
        want = bits(self.model.predict(self.test))
        for form in ("safetensors", "onnx"):
            self.model.export(form, self.at / form)
            with reckon.load(self.at / form) as model:
                self.assertEqual(bits(model.predict(self.test)), want)
        self.assertTrue((self.at / "onnx/model.onnx").exists())
        self.model.export("safetensors", self.at / "tables", tables=["user"], rows="f16")
        with self.assertRaisesRegex(reckon.InvalidArgument, "format is 'tf'"):
            self.model.export("tf", self.at / "tf")
        with self.assertRaises(reckon.NotFound):
            self.model.export("safetensors", self.at / "none", tables=["usr"])

    def test_save(self):
        self.model.save(self.at / "saved")
        with reckon.load(self.at / "saved") as model:
            self.assertEqual(bits(model.predict(self.test)), bits(self.model.predict(self.test)))
            self.assertEqual(model.eval(self.test), self.model.eval("test"))
            model.save(self.at / "saved again")
        self.assertEqual(tensors_of(self.at / "saved again/model.safetensors"), tensors_of(self.at / "saved/model.safetensors"))
        with reckon.load(self.at / "saved") as model:
            self.assertRaisesRegex(reckon.InvalidArgument, "'.*saved' is not empty", model.save, self.at / "saved")
        self.assertRaisesRegex(reckon.InvalidArgument, "saved", self.model.save, self.at / "saved")

    def test_pickle(self):
        again = pickle.loads(pickle.dumps(self.model))
        path = again.path
        self.assertEqual(bits(again.predict(self.test)), bits(self.model.predict(self.test)))
        self.assertEqual(bits(pickle.loads(pickle.dumps(again)).predict(self.test)), bits(self.model.predict(self.test)))
        del again
        self.assertFalse(os.path.exists(path))

    def test_estimators_need_scikit_learn(self):
        with without("sklearn"), self.assertRaisesRegex(ImportError, "reckon.Classifier needs scikit-learn"):
            reckon.Classifier()
        with self.assertRaisesRegex(AttributeError, "has no attribute 'Clasifier'"):
            reckon.Clasifier()

    def test_parameters(self):
        self.model.export("safetensors", self.at / "parameters")
        want = tensors_of(self.at / "parameters/model.safetensors")
        model = reckon.load(self.at / "run")
        named, state = model.parameters(), model.to_torch_state_dict()
        self.assertEqual(list(named)[0], "table/user/rows")
        self.assertEqual({name.replace("table/", "embeddings/").replace("/", ".").replace(".rows", ".weight") for name in named}, {name.replace("/", ".") for name in want})
        self.assertEqual(sorted(state), sorted(want))
        model.close()  # what it gave stays
        gc.collect()
        for name, (shape, values) in want.items():
            self.assertEqual((list(state[name].shape), struct.pack(f"{len(values)}f", *values)), (shape, bits(state[name])))
        rows = named["table/user/rows"]
        self.assertEqual(bits(rows), bits(state["embeddings.user.weight"]))
        with self.assertRaises((TypeError, ValueError)):
            rows[0, 0] = 1.0
        with self.assertRaisesRegex(reckon.InvalidArgument, "closed"):
            model.parameters()

    def test_rows_of_an_export(self):
        """In its files or in memory, where codes are numbers: the same predictions."""
        self.model.export("safetensors", self.at / "codes", rows="int8")
        with reckon.load(self.at / "codes") as files, reckon.load(self.at / "codes", rows_in="memory") as memory:
            self.assertEqual(bits(files.predict(self.test)), bits(memory.predict(self.test)))
            self.assertEqual([memoryview(model.parameters()["table/user/rows"]).format for model in (files, memory)], ["B", "f"])
        with self.assertRaisesRegex(reckon.InvalidArgument, "rows_in is 'disk'"):
            reckon.load(self.at / "codes", rows_in="disk")

    def test_parameters_of_16_bits(self):
        config = run_file(self.at / "bf16")
        config["embedding"]["dtype"] = "bf16"
        with reckon.train(config, train=self.train) as model:
            model.export("safetensors", self.at / "bf16 as f32", rows="f32")
            got = {name.replace("table/", "embeddings.").replace("/rows", ".weight"): bits(rows) for name, rows in model.parameters().items() if name.startswith("table/")}
        want = {name: struct.pack(f"{len(values)}f", *values) for name, (_, values) in tensors_of(self.at / "bf16 as f32/model.safetensors").items()}
        self.assertEqual(got, {name: want[name] for name in got})

    def test_dynamic_tables(self):
        """Rows with their keys: as an export has them, and as the model's predictions see them, in memory and in files."""
        config = run_file(self.at / "keys")
        config["data"]["features"][:2] = [{"name": "user", "key": True}, {"name": "word", "key": True}]
        config["embedding"]["tables"] = [{"name": "user", "max_capacity": 25}, {"name": "word", "max_capacity": 9, "missing": {"hash": 3}, "admission": {"min_count": 3}}]
        with reckon.train(config, train=self.train) as model:
            model.export("safetensors", self.at / "keys export")
            state, named = model.to_torch_state_dict(), model.parameters()
            with reckon.load(self.at / "keys export") as files, reckon.load(self.at / "keys export", rows_in="memory") as memory:
                self.assertEqual([bits(m.predict(self.test)) for m in (files, memory)], [bits(model.predict(self.test))] * 2)
                others = [m.to_torch_state_dict() for m in (files, memory)]
        raw = (self.at / "keys export/model.safetensors").read_bytes()
        end = 8 + struct.unpack("<Q", raw[:8])[0]
        want = {name: entry for name, entry in json.loads(raw[8:end]).items() if name != "__metadata__"}
        self.assertEqual(sorted(state), sorted(want))
        for name, entry in want.items():
            first, last = (end + at for at in entry["data_offsets"])
            for each in state, *others:
                self.assertEqual((list(each[name].shape), flat_bytes(each[name])), (entry["shape"], raw[first:last]), name)
        keys, rows = named["table/user/keys"].tolist(), named["table/user/rows"].tolist()
        self.assertTrue(0 < len(keys) == len(rows) <= 40)
        exported = state["embeddings.user.keys"].tolist()
        self.assertEqual(exported, sorted(keys))
        self.assertEqual(state["embeddings.user.weight"].tolist(), [rows[keys.index(key)] for key in exported] + [[0.0] * 4])
        self.assertEqual(state["embeddings.word.weight"].tolist()[-3:], named["table/word/oov_rows"].tolist())

    def test_progress_and_metrics(self):
        lines, logged, scalars = io.StringIO(), [], []

        class Writer:
            def add_scalar(self, *scalar):
                scalars.append(scalar)

        with without("tqdm"):
            progress = callbacks.progress(lines)
        told = [progress, callbacks.log_metrics(lambda metrics, step: logged.append((step, metrics))), callbacks.tensorboard(Writer())]
        with reckon.train(run_file(self.at / "told"), train=self.train, valid=self.valid, test=self.test, callbacks=told) as model:
            want = model.eval("test")
        self.assertRegex(lines.getvalue(), r"epoch 2, step 32 of 32: loss 0\.\d+, [\d,]+ samples/s\nvalidation: auc 0\.\d+, .*\nall epochs are done\ntest: auc 0")
        self.assertEqual(logged[-1], (32, {f"test/{name}": value for name, value in want.items()}))
        with open(self.at / "told/metrics.jsonl", encoding="utf-8") as file:
            kinds = {"train": "train", "evaluation": "valid"}
            noted = [(kinds[line["kind"]], line["step"], line) for line in map(json.loads, file) if line["kind"] in kinds]
        self.assertEqual([(step, metrics.get("train/loss")) for step, metrics in logged if "train/loss" in metrics], [(step, line["loss"]) for split, step, line in noted if split == "train"])
        self.assertEqual([step for step, metrics in logged if "valid/auc" in metrics], [16, 32])
        self.assertEqual(scalars, [(name, value, step) for step, metrics in logged for name, value in metrics.items()])

    def test_rerank(self):
        best = self.model.rerank(self.test, group="user", k=3)
        predictions = self.model.predict(self.test).tolist()
        for ranked in best:
            rows = sorted((i for i, u in enumerate(self.test["user"]) if str(u) == str(ranked["group"])), key=lambda i: -predictions[i])
            self.assertEqual(ranked["rows"], rows[:3])

    def test_recommend(self):
        rows = {"user": [f"u{i % 20}" for i in range(400)], "item": [f"i{(i * i + i % 20) % 30}" for i in range(400)]}
        config = {
            "data": {"features": [{"name": "user", "vocabulary": {}}, {"name": "item", "vocabulary": {}}]},
            "embedding": {"dim": 4},
            "model": {"kind": "two_tower", "retrieval": {"user": "user", "item": "item", "negatives": 8}},
            "train": {"batch_size": 64, "epochs": 2, "output": str(self.at / "towers"), "optimizer": {"kind": "adam"}},
        }
        with reckon.train(config, train=rows) as model:
            best = model.recommend(k=3)
            self.assertEqual([b["user"] for b in best], [f"u{i}" for i in range(20)])
            known = set(zip(rows["user"], rows["item"]))
            self.assertFalse([b for b in best for item in b["items"] if (b["user"], item) in known])
            one = model.recommend({"user": ["u7"]}, k=3)
            self.assertEqual(one, [best[7]])
            chosen = model.recommend({"user": ["u7"]}, k=3, items=rows["item"][:2], with_known=True)
            self.assertEqual(sorted(chosen[0]["items"]), sorted(rows["item"][:2]))
            with self.assertRaises(reckon.Unsupported):
                self.model.recommend(self.test)

    def test_recommend_numbers(self):
        """Users and items that are numbers without a sign, some above 2^63, are named and found as their texts are."""
        rows = {"user": [2**64 - 1 - i % 20 * 2**59 for i in range(400)], "item": [(i * i + i % 20) % 30 * 2**58 + 2**62 for i in range(400)]}
        config = {
            "data": {"features": [{"name": "user", "key": True}, {"name": "item", "key": True}]},
            "embedding": {"dim": 4, "tables": [{"name": "user", "max_capacity": 40}, {"name": "item", "max_capacity": 40}]},
            "model": {"kind": "two_tower", "retrieval": {"user": "user", "item": "item", "history": True, "negatives": 8}},
            "train": {"batch_size": 64, "epochs": 2, "optimizer": {"kind": "adam"}},
        }
        config["embedding"]["features"] = [{"name": "history", "table": "item"}]
        items, users = rows["item"][:9], {"user": array.array("Q", rows["user"][3:5])}
        with reckon.train(config, train={name: [str(v) for v in values] for name, values in rows.items()}, output=self.at / "texts") as model:
            want = model.recommend(k=3), model.recommend({"user": [str(v) for v in users["user"]]}, k=3, items=items, with_known=True)
        self.assertEqual([b["user"] for b in want[0]], [str(v) for v in rows["user"][:20]])
        with reckon.train(config, train={name: array.array("Q", values) for name, values in rows.items()}, output=self.at / "numbers") as model:
            self.assertEqual((model.recommend(k=3), model.recommend(users, k=3, items=items, with_known=True)), want)
            self.assertEqual(model.recommend({"user": list(users["user"])}, k=3, items=items, with_known=True), want[1])
            with self.assertRaisesRegex(reckon.BadData, f"{2**64 - 1} is more than a 64-bit integer"):
                model.recommend({"user": [-1, 2**64 - 1]})

    def test_history(self):
        """A user's history is of the training pairs, which are in memory; a model that is opened later is given them."""
        rows = {"user": [f"u{i % 20}" for i in range(400)], "item": [f"i{(i * i + i % 20) % 30}" for i in range(400)]}
        write_csv(self.at / "pairs.csv", rows)
        config = {
            "data": {"features": [{"name": "user", "vocabulary": {}}, {"name": "item", "vocabulary": {}}]},
            "embedding": {"dim": 4, "features": [{"name": "history", "table": "item"}]},
            "model": {"kind": "two_tower", "retrieval": {"user": "user", "item": "item", "history": True, "negatives": 8}},
            "train": {"batch_size": 64, "epochs": 2, "optimizer": {"kind": "adam"}},
        }
        with reckon.train(config, train=self.at / "pairs.csv", output=self.at / "history of files") as model:
            want = model.recommend(k=3)
        with reckon.train(config, train=rows, output=self.at / "history") as model:
            self.assertEqual(model.recommend(k=3), want)
        with reckon.load(self.at / "history", train=rows) as model:
            self.assertEqual(model.recommend({"user": ["u7"]}, k=3), [want[7]])
        with self.assertRaisesRegex(reckon.NotFound, "arrow:train"):
            reckon.load(self.at / "history")

    def test_log(self):
        with self.assertLogs("reckon", logging.WARNING) as logs:
            reckon.load(self.at / "run", device=None).close()
            logging.getLogger("reckon").warning("one at least")
            reckon._library.lib.rk_log_set(reckon._library._log_message, None, 1)
        self.assertTrue(logs.output)

    def test_program(self):
        said = subprocess.run([sys.executable, "-m", "reckon", "--version"], env=dict(os.environ, PYTHONPATH=str(TOP / "python")), capture_output=True, text=True)
        self.assertEqual(said.stdout, program("--version"))


if __name__ == "__main__":
    unittest.main()
