#!/usr/bin/env python3
"""reckon.datasets: what comes with Reckon, what is drawn, and files that are loaded, here from a server of this machine.

    RECKON_PROGRAM=build/reckon tests/python/test_datasets.py

MovieLens may not be shipped: RK_SHARED_DATA (../shared/data) may have it.
"""

import csv
import gzip
import hashlib
import http.server
import io
import os
import tempfile
import threading
import unittest
import zipfile
from pathlib import Path
from unittest import mock

from rows import TOP

import reckon
from reckon import datasets

SHARED = Path(os.environ.get("RK_SHARED_DATA") or TOP.parent / "shared" / "data").resolve()
FRAPPE = {
    "frappe.train.libfm": b"1 0:1 957:1 5039:1 5046:1 5053:1 5055:1 5058:1 5060:1 5069:1 5149:1\r\n-1 956:1 5038:1 5045:1 5052:1 5054:1 5057:1 5059:1 5068:1 5148:1 5381:1\r\n",
    "frappe.validation.libfm": b"-1 266:1 1244:1 5042:1 5049:1 5054:1 5055:1 5058:1 5062:1 5074:1 5149:1\r\n",
    "frappe.test.libfm": b"1 5:1 957:1 5039:1 5046:1 5053:1 5055:1 5058:1 5060:1 5069:1 5149:1\r\n",
}
ML_100K = {
    "u1.base": b"1\t2\t5\t874965758\n2\t1\t3\t876893171\n",
    "u1.test": b"2\t2\t1\t878542960\n",
    "u.user": b"1|24|M|technician|85711\n2|53|F|other|94043\n",
    "u.item": "1|Toy Story (1995)|01-Jan-1995||http://x|0|0|0|1|1|1|0|0|0|0|0|0|0|0|0|0|0|0|0\n2|Misérables, Les (1995)||||1|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0\n".encode("latin-1"),
}


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(f"ml-100k/{name}", content)
    return out.getvalue()


class Loaded(unittest.TestCase):
    """Sets whose authors publish them, as files of this test's own at a server of this test's own."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="reckon-datasets-")
        self.addCleanup(self.folder.cleanup)
        self.at = Path(self.folder.name)
        test = self
        self.published, self.asked = dict(FRAPPE, **{"ml-100k.zip": zipped(ML_100K)}), []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path[1:]
                test.asked.append(name)
                content = test.published.get(name)
                if content is None:
                    return self.send_error(404)
                self.send_response(200)
                self.send_header("Content-Length", str(len(content) + (7 if name in test.cut else 0)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.cut = ()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.top = f"http://127.0.0.1:{server.server_port}"
        git = {name: hashlib.sha1(b"blob %d\0" % len(c) + c).hexdigest() for name, c in FRAPPE.items()}
        self.patch(datasets, "_FRAPPE", [datasets._DatasetFile(name, 1000, f"git:{git[name]}", f"{self.top}/{name}") for name in FRAPPE])
        self.patch(datasets, "_ML_100K", [datasets._DatasetFile(name, 1000, hashlib.sha256(c).hexdigest(), f"{self.top}/ml-100k.zip") for name, c in ML_100K.items()])
        self.patch(datasets, "_SECONDS", 5.0)
        environment = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.at / "cache"), "no_proxy": "*"})
        environment.start()
        self.addCleanup(environment.stop)
        os.environ.pop("RECKON_DATA", None)

    def patch(self, *what):
        patch = mock.patch.object(*what)
        patch.start()
        self.addCleanup(patch.stop)

    def test_frappe(self):
        data = datasets.frappe()
        self.assertEqual(list(data.train), ["click", "user", "item", "daytime", "weekday", "isweekend", "homework", "cost", "weather", "country", "city"])
        self.assertEqual([values[0] for values in data.train.values()], [1] + [0] * 10)
        self.assertEqual([values[1] for values in data.train.values()], [0, 956, 4081, 6, 6, 1, 2, 1, 8, 79, 232])  # the sizes that the run files have, less one
        self.assertEqual((data.valid["click"], data.valid["user"], data.valid["item"]), ([0], [266], [1244 - 957]))

    def test_movielens(self):
        data = datasets.movielens_100k()
        self.assertEqual({name: values[0] for name, values in data.train.items()}, {
            "user": 1, "item": 2, "rating": 5, "timestamp": 874965758, "age": 24, "gender": "M", "occupation": "technician", "zip": "85711",
            "title": "Misérables, Les (1995)", "year": None, "genres": ["unknown"],
        })  # fmt: skip
        self.assertEqual((data.train["year"][1], data.train["genres"][1]), (1995, ["Animation", "Children's", "Comedy"]))
        self.assertEqual((data.test["rating"], data.valid), ([1], None))
        self.assertEqual(self.asked, ["ml-100k.zip"])

    def test_kept(self):
        """Loaded once; found again without a network; a damaged one is named."""
        first = datasets.frappe()
        self.assertEqual(len(self.asked), 3)
        self.published.clear()
        self.assertEqual(datasets.frappe(), first)
        self.assertEqual(len(self.asked), 3)
        self.assertEqual(sorted(p.name for p in (self.at / "cache/reckon/datasets/frappe").iterdir()), sorted(FRAPPE))
        (datasets.cache() / "frappe" / "frappe.test.libfm").write_bytes(b"")
        with self.assertRaisesRegex(reckon.BadData, "frappe.test.libfm' is not the file that was published.*\nhint: remove it"):
            datasets.frappe()

    def test_folders(self):
        """The caller's, as files or their gzips, and RECKON_DATA's."""
        want = datasets.movielens_100k()
        mine = self.at / "data" / "ml-100k"
        mine.mkdir(parents=True)
        for name, content in ML_100K.items():
            (mine / (name if name == "u.item" else f"{name}.gz")).write_bytes(content if name == "u.item" else gzip.compress(content))
        self.published.clear()
        self.assertEqual(datasets.movielens_100k(path=mine), want)
        with mock.patch.dict(os.environ, {"RECKON_DATA": str(self.at / "data"), "XDG_CACHE_HOME": str(self.at / "other")}):
            self.assertEqual(datasets.movielens_100k(), want)
        (mine / "u1.base.gz").write_bytes(gzip.compress(ML_100K["u1.base"])[:-9])
        with self.assertRaisesRegex(reckon.ReadWriteError, "u1.base.gz"):
            datasets.movielens_100k(path=mine)
        (mine / "u1.base.gz").write_bytes(gzip.compress(bytes(50 << 20)))  # a bomb: no more than it should have is unpacked
        with self.assertRaisesRegex(reckon.BadData, "u1.base.gz"):
            datasets.movielens_100k(path=mine)
        (mine / "u1.base.gz").unlink()
        with self.assertRaisesRegex(reckon.NotFound, "has no 'u1.base'\nhint: it is at http"):
            datasets.movielens_100k(path=mine)

    def test_not_to_be_had(self):
        hint = "\nhint: load it elsewhere and give the folder that has it as path, or put it into .*cache/reckon/datasets"
        del self.published["frappe.validation.libfm"]
        with self.assertRaisesRegex(reckon.NotFound, f"frappe.validation.libfm: 404.*{hint}"):
            datasets.frappe()
        self.published["frappe.validation.libfm"] = FRAPPE["frappe.validation.libfm"] + b"1"
        with self.assertRaisesRegex(reckon.BadData, "'frappe.validation.libfm' has another checksum"):
            datasets.frappe()
        self.published["frappe.validation.libfm"] = bytes(2000)
        with self.assertRaisesRegex(reckon.ReadWriteError, "more came than is published"):
            datasets.frappe()
        self.published["frappe.validation.libfm"] = FRAPPE["frappe.validation.libfm"]
        self.cut = ["frappe.validation.libfm"]
        with self.assertRaisesRegex(reckon.ReadWriteError, "frappe.validation.libfm"):
            datasets.frappe()
        self.assertFalse(list(datasets.cache().rglob(".*")))
        for address in ("http://127.0.0.1:9", "http://nowhere.invalid"):
            datasets._FRAPPE[1] = datasets._DatasetFile("frappe.validation.libfm", 1000, "", f"{address}/frappe.validation.libfm")
            with self.assertRaisesRegex(reckon.ReadWriteError, f"{address}/frappe.validation.libfm cannot be reached: .*{hint}"):
                datasets.frappe()

    def test_archives(self):
        whole = self.published["ml-100k.zip"]
        for content, said in ((whole[:-30], "not a zip"), (b"", "not a zip"), (zipped({"u1.base": b""}), "checksum"), (zipped({"x": b""}), "has no 'u1.base'"), (zipped({"u1.base": bytes(50 << 20)}), "checksum")):
            self.published["ml-100k.zip"] = content
            with self.assertRaisesRegex(reckon.BadData, said):
                datasets.movielens_100k()

    @unittest.skipIf(os.geteuid() == 0, "root writes everywhere")
    def test_no_place(self):
        os.makedirs(self.at / "cache", 0o500)
        with self.assertRaisesRegex(reckon.ReadWriteError, "set XDG_CACHE_HOME"):
            datasets.frappe()

    def test_at_once(self):
        got = []
        threads = [threading.Thread(target=lambda: got.append(datasets.frappe())) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, [got[0]] * 6)
        self.assertEqual(sorted(p.name for p in (datasets.cache() / "frappe").iterdir()), sorted(FRAPPE))


class Here(unittest.TestCase):
    def test_adult(self):
        """Beside the file, read by the csv module."""
        data = datasets.adult()
        with gzip.open(TOP / "data" / "adult" / "adult.test.gz", "rt") as file:
            rows = [row for row in csv.reader(file, skipinitialspace=True) if row]
        self.assertEqual(len(rows), 16281)
        for i, (name, values) in enumerate(data.test.items()):
            want = [row[i] for row in rows]
            if name == "income":
                self.assertTrue([["<=50K", ">50K"][v] for v in values] == [v.rstrip(".") for v in want])
            else:
                self.assertTrue(["?" if v is None else str(v) for v in values] == want, name)
                self.assertEqual({type(v) for v in values} - {type(None)}, {int if name in datasets._ADULT_NUMBERS else str})
        self.assertEqual(datasets.adult(lambda columns: len(columns["age"])).train, 32561)

    def test_adult_trains(self):
        data = datasets.adult(lambda columns: {name: columns[name] for name in ("age", "education", "relationship", "income")})
        run = {
            "data": {"labels": [{"name": "income"}], "features": [{"name": "age", "dense": True, "normalize": True}, {"name": "education", "vocabulary": {}}, {"name": "relationship", "vocabulary": {}}]},
            "embedding": {"dim": 4}, "model": {"kind": "fm"}, "train": {"batch_size": 256, "epochs": 1, "optimizer": {"kind": "adam", "learning_rate": 0.01}},
        }  # fmt: skip
        with tempfile.TemporaryDirectory() as folder, reckon.train(run, train=data.train, output=folder + "/run") as model:
            self.assertGreater(model.eval(data.test)["auc"], 0.85)

    def test_click_log(self):
        """The same rows on every machine and Python; clicks follow from the columns."""
        data = datasets.click_log(2000)
        self.assertEqual(data, datasets.click_log(2000))
        self.assertNotEqual(data.train, datasets.click_log(2000, seed=2).train)
        self.assertEqual({name: values[3] for name, values in data.train.items()}, CLICK)
        self.assertTrue(0.2 < sum(data.train["click"]) / 1600 < 0.5)
        self.assertEqual([len(split["user"]) for split in (datasets.click_log(7).train, datasets.click_log(7).valid, datasets.click_log(7).test)], [5, 1, 1])
        self.assertEqual([len(values) for values in datasets.click_log(0).train.values()], [0] * 6)

    @unittest.skipUnless((SHARED / "ml-100k").is_dir(), f"MovieLens is not in {SHARED}")
    def test_published_movielens(self):
        """The real files have the checksums that are written here."""
        data = datasets.movielens_100k(path=SHARED / "ml-100k")
        self.assertEqual((len(data.train["user"]), len(data.test["user"])), (80000, 20000))
        self.assertEqual((len(set(data.train["user"] + data.test["user"])), len(set(data.train["item"] + data.test["item"]))), (943, 1682))
        self.assertEqual((data.train["title"][0], data.train["genres"][0]), ("Toy Story (1995)", ["Animation", "Children's", "Comedy"]))


CLICK = {"user": 121, "ad": "music-0", "hour": 23, "device": "laptop", "interests": [], "click": 0}

if __name__ == "__main__":
    unittest.main()
