#!/usr/bin/env python3
"""The package in hands that do not mean well: wrong types, numbers too large, texts that C would cut, data that changes, models that are closed. Each
is an error of reckon's own that says what is wrong, or it works; nothing is cut off in silence, and nothing crashes.

    RECKON_PROGRAM=build/reckon tests/python/test_hostile.py
"""

import array
import copy
import pickle
import re
import tempfile
import threading
import unittest
from decimal import Decimal
from pathlib import Path

from rows import bits, make_rows, part, run_file

import reckon


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="reckon-hostile-")
        cls.at = Path(cls.folder.name)
        rows = make_rows(1000)
        cls.train, cls.rows = part(rows, 0, 900), part(rows, 900, 1000)
        cls.model = reckon.train(run_file(cls.at / "run"), train=cls.train)
        cls.want = bits(cls.model.predict(cls.rows))

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.folder.cleanup()

    def refused(self, said, call, kind=reckon.Error):
        with self.assertRaisesRegex(kind, said) as caught:
            call()
        self.assertGreater(caught.exception.code, 0)
        return caught.exception

    def test_columns(self):
        def predict(**columns):
            return lambda: self.model.predict(dict(self.rows, **columns))

        n = len(self.rows["user"])
        for said, call in (
            ("column 'user': a dict is no column", predict(user={i: 1 for i in range(n)})),
            ("column 'user': a set is no column", predict(user=set(range(n)))),
            ("column 'user': a generator is no column", predict(user=(1 for _ in range(n)))),
            ("column 'user': a NoneType is no column", predict(user=None)),
            ("column 'user': 1180591620717411303424 is more than a 64-bit integer", predict(user=[1 << 70] * n)),
            ("column 'x': values of the type complex", predict(x=[1j] * n)),
            ("column 'x': values of the type Decimal", predict(x=[Decimal(1)] * n)),
            ("column 'tags': values of the type", predict(tags=[[object()]] * n)),
            ("column 'word': .*surrogates not allowed", predict(word=["\ud800"] * n)),
            ("column 'word': a list among texts", predict(word=["a", ["b"]] * (n // 2))),
            ("column 'user' has 0 rows and '.*' has 100|column '.*' has 100 rows and 'user' has 0", predict(user=[])),
            ("row 0.*'user'", predict(user=[1 << 62] * n)),
            ("row 0.*'user'", predict(user=[-1] * n)),
            ("row 0.*'user'", predict(user=array.array("Q", [2**64 - 1] * n))),
            ("row 0.*'x'", predict(x=[float("nan")] * n)),
            ("row 0.*'x'", predict(x=[float("inf")] * n)),
            ("row 0.*'small'", predict(small=[1e300] * n)),
            ("no column '.*'", lambda: self.model.predict({})),
            ("zero byte is in the name of a column", predict(**{"a\0b": [1] * n})),
        ):
            with self.subTest(said):
                self.refused(said, call)
        self.refused("the name of a column is a text, not 7", lambda: self.model.predict({7: [1]}), reckon.InvalidArgument)
        for rows in (None, 7, b"x", object(), [{"user": 1}], iter(()), self.rows.items()):
            self.refused("holds no columns\nhint: give a table", lambda: self.model.predict(rows), reckon.InvalidArgument)
        lazy = type("LazyFrame", (), {"columns": ["user"], "__getitem__": lambda self, name: self.rows[name], "collect": lambda self: self.rows})
        self.refused("a LazyFrame is a query, without rows so far\nhint: give what it computes", lambda: self.model.predict(lazy()), reckon.InvalidArgument)
        table = type("Frame", (), {"columns": list(self.rows), "__getitem__": lambda _, name: self.rows[name]})()
        table.collect = [1] * n  # a column's name, as an attribute
        self.assertEqual(bits(self.model.predict(table)), self.want)
        self.assertEqual(bits(self.model.predict(dict(self.rows, more=[[1], None] * 50, **{"": ["x"] * n}))), self.want)  # columns that no feature reads

    def test_numbers(self):
        for said, call in (
            (r"k is 4294967298\nhint: from 0 to 2147483647", lambda: self.model.rerank(self.rows, group="user", k=2**32 + 2)),
            ("k is a str, '3'", lambda: self.model.rerank(self.rows, group="user", k="3")),
            ("k is a float, 2.5", lambda: self.model.rerank(self.rows, group="user", k=2.5)),
            ("k is -1", lambda: self.model.rerank(self.rows, group="user", k=-1)),
            ("threads is 4294967296", lambda: reckon.load(self.at / "run", threads=2**32)),
            ("threads is -1", lambda: reckon.load(self.at / "run", threads=-1)),
            ("id_bits is 4294967328", lambda: self.model.export("onnx", self.at / "onnx", id_bits=2**32 + 32)),
            ("id_bits", lambda: self.model.export("onnx", self.at / "onnx", id_bits=7)),
        ):
            with self.subTest(said):
                self.refused(said, call, reckon.InvalidArgument)

    def test_paths_and_texts(self):
        for said, call in (
            ("a zero byte is in the path", lambda: reckon.load(f"{self.at}/run\0.yaml")),
            ("a int is no path", lambda: reckon.load(7)),
            ("a NoneType is no path", lambda: reckon.load(None)),
            ("a NoneType is no path", lambda: reckon.train(None)),
            ("a list is no path", lambda: reckon.train(["run.yaml"])),
            ("a zero byte is in the text 'us", lambda: self.model.rerank(self.rows, group="us\0er")),
            ("the text is a int", lambda: self.model.rerank(self.rows, group=7)),
            ("the text is a int", lambda: self.model.export("safetensors", self.at / "tables", tables=[1])),
            ("device", lambda: reckon.load(self.at / "run", device="tpu")),
            ("the address is a int", lambda: reckon.serve(self.model, listen=8501)),
        ):
            with self.subTest(said):
                self.refused(said, call)
        for path in ("", "\udcff", self.at / ("x" * 5000), self.at / "run" / "resolved.yaml", "/dev/null"):
            self.refused("", lambda: reckon.load(path))

    def test_run_files(self):
        """As dicts: what has no place in a run file is named by its key; paths and numbers of other kinds are taken."""

        class Number:
            def tolist(self):
                return 2

        config = run_file(self.at / "of paths")
        config["train"].update(output=self.at / "of paths", epochs=Number(), seed=True)
        config["data"]["features"] = tuple(config["data"]["features"])
        reckon.train(config, train=self.train, overrides={"train.seed": Number()}, overwrite=True).close()
        itself = run_file(self.at / "none")
        itself["model"]["deep"] = itself["model"]
        for said, change in (
            ("key 'train.epochs': a set is not taken", {"train": {"epochs": {1}}}),
            (r"key 'data.labels\[0\].name': a object is not taken", {"data": {"labels": [{"name": object()}]}}),
            ("key 'model': a function is not taken", {"model": lambda: 1}),
            ("epochs", {"train": {"epochs": 10**30}}),
            ("epochs", {"train": {"epochs": float("nan")}}),
            ("a list or dict holds itself", {"model": itself["model"]}),
            ("7", {7: {}}),
            ("key 'data.train': a zero byte is in 'a.x00b'", {"data": {"train": "a\0b"}}),
            ("surrogates", {"data": {"train": "\ud800"}}),
        ):
            with self.subTest(said):
                config = run_file(self.at / "none")
                config.update({key: value if key == "model" else dict(config.get(key, {}), **value) for key, value in change.items()})
                self.refused(said, lambda: reckon.train(config))
        for callbacks in (print, [None], ["x"]):
            error = self.refused("callbacks has", lambda: reckon.train(run_file(self.at / "none"), train=self.train, callbacks=callbacks), reckon.InvalidArgument)
            self.assertIn("a list of functions", error.hint)
        self.assertFalse((self.at / "none").exists())

    def test_codes(self):
        """Errors of Python's side have the codes and hints of the library's."""
        theirs = self.refused("", lambda: reckon.load(self.at / "nowhere"))
        ours = reckon.NotFound("x")
        self.assertEqual((theirs.code, theirs.name), (ours.code, ours.name))
        for kind in (reckon.InvalidArgument, reckon.BadData, reckon.ConfigError):
            again = pickle.loads(pickle.dumps(kind("what", "how")))
            self.assertEqual((type(again), again.message, again.hint, again.code > 0, str(again)), (kind, "what", "how", True, "what\nhint: how"))

    def test_copies(self):
        for again in (copy.copy(self.model), copy.deepcopy(self.model), pickle.loads(pickle.dumps(self.model))):
            self.assertEqual(bits(again.predict(self.rows)), self.want)
            again.close()
        closed = reckon.load(self.at / "run")
        closed.close()
        self.refused("the model is closed", lambda: pickle.dumps(closed), reckon.InvalidArgument)
        self.assertEqual(repr(closed), "<reckon.Model, closed>")
        with self.assertRaises((TypeError, ValueError)), reckon.serve(self.model, listen="127.0.0.1:0") as server:
            pickle.dumps(server)

    def test_changed_meanwhile(self):
        """Lists are copied before a call begins, and buffers are held: rows that another thread writes give some prediction or an error, never a crash."""
        rows = dict(self.rows, user=array.array("q", self.rows["user"]), x=array.array("d", self.rows["x"]))
        rows = {name: values * 50 for name, values in rows.items()}
        done = threading.Event()

        def change():
            i = 0
            while not done.is_set():
                rows["user"][i % 5000] = [39, 0, -5, 1 << 60][i % 4]
                rows["x"][i % 5000] = float(i)
                i += 1

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(50):
                try:
                    self.assertEqual(len(self.model.predict(rows)), 5000)
                except reckon.BadData as error:
                    self.assertRegex(str(error), "user|x")
        finally:
            done.set()
            thread.join()
        rows["user"].append(1)  # nobody holds the buffer any more
        self.assertEqual(bits(self.model.predict(self.rows)), self.want)

    def test_within_a_callback(self):
        """Predictions, a training and another failure in a callback, while the training waits."""
        got = []

        def busy(event):
            if event.kind == "evaluation" and not got:
                got.append(bits(self.model.predict(self.rows)))
                with reckon.train(run_file(self.at / "inner", epochs=1), train=self.train) as inner:
                    got.append(len(inner.predict(self.rows)))
                with self.assertRaises(reckon.BadData):
                    self.model.predict({})

        reckon.train(run_file(self.at / "outer"), train=self.train, valid=self.rows, callbacks=[busy]).close()
        self.assertEqual(got, [self.want, 100])

    def test_closed_meanwhile(self):
        """close() waits for calls of other threads; later ones are refused."""
        for _ in range(10):
            model, said = reckon.load(self.at / "run"), []

            def ask():
                try:
                    while True:
                        said.append(bits(model.predict(self.rows)))
                except reckon.InvalidArgument as error:
                    said.append(error.message)

            threads = [threading.Thread(target=ask) for _ in range(3)]
            for thread in threads:
                thread.start()
            while len(said) < 3:
                pass
            model.close()
            for thread in threads:
                thread.join(60)
                self.assertFalse(thread.is_alive())
            self.assertEqual(set(said), {self.want, "the model is closed"})


if __name__ == "__main__":
    unittest.main()
