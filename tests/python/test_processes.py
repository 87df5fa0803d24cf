#!/usr/bin/env python3
"""Models in many threads, in forked and spawned processes, behind a server, and for a long time.

    RECKON_PROGRAM=build/reckon tests/python/test_processes.py      RECKON_CALLS=10000: so many calls of each kind, in place of 300
"""

import ctypes
import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import urllib.error
import urllib.request
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

from rows import bits, make_rows, part, run_file

import reckon
from reckon import _arrow
from reckon._structs import ServerOptions

CALLS = int(os.environ.get("RECKON_CALLS", "300"))


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def predict_bits(model, rows):
    """In another process."""
    return bits(model.predict(rows))


def load_and_train(path, rows):
    """In another process, which makes models of its own."""
    with reckon.load(path) as model, reckon.train(run_file(f"{path}-{os.getpid()}", epochs=1), train=rows) as other:
        other.predict(rows)
        return bits(model.predict(rows))


class Processes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="reckon-processes-")
        cls.at = Path(cls.folder.name)
        rows = make_rows(1200)
        cls.train, cls.few = part(rows, 0, 600), part(rows, 1000, 1020)
        cls.model = reckon.train(run_file(cls.at / "run"), train=cls.train)
        cls.want = bits(cls.model.predict(cls.few))

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.folder.cleanup()

    def stays(self, call, n, most):
        """Memory after the first tenth, or 30 calls, and at the end."""
        for _ in range(max(30, n // 10)):
            call()
        gc.collect()
        before = resident()
        for _ in range(n):
            call()
        gc.collect()
        self.assertLess(resident() - before, most)

    def test_predict_for_long(self):
        self.stays(lambda: self.model.predict(self.few), 10 * CALLS, 1 << 20)
        self.assertEqual(bits(self.model.predict(self.few)), self.want)

    def test_failures_for_long(self):
        bad = dict(self.few, user=[99] * 20)

        def fail():
            with self.assertRaises(reckon.BadData):
                self.model.predict(bad)

        self.stays(fail, CALLS, 1 << 20)

    def test_train_for_long(self):
        config = run_file(self.at / "small", epochs=1)
        config["train"]["batch_size"] = 10

        def train():
            reckon.train(config, train=self.few, valid=self.few, overwrite=True).close()

        self.stays(train, CALLS // 3, 6 << 20)  # it settles after some hundreds
        self.assertFalse(_arrow.Source._readers)
        self.assertFalse([t for t in threading.enumerate() if t.name == "reckon-train"])
        self.assertLess(len(os.listdir("/proc/self/fd")), 100)

    def test_open_for_long(self):
        def load():
            with reckon.load(self.at / "run") as model:
                model.predict(self.few)
            reckon.load(self.at / "run").parameters()  # closed by the collector

        self.stays(load, CALLS // 3, 2 << 20)
        self.assertLess(len(os.listdir("/proc/self/fd")), 100)

    def test_threads(self):
        """Predictions, models that come and go, and two trainings at once."""
        def work(i):
            if i % 10 == 9:
                with reckon.train(run_file(self.at / f"thread-{i}", epochs=1), train=self.train) as model:
                    model.predict(self.few)
            if i % 3 == 0:
                with reckon.load(self.at / "run") as model:
                    return bits(model.predict(self.few))
            return bits(self.model.predict(self.few))

        with ThreadPoolExecutor(6) as pool:
            self.assertEqual(set(pool.map(work, range(40))), {self.want})

    def test_forked(self):
        """Workers that have the parent's model, and make others."""
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
            asked = [pool.submit(predict_bits, self.model, self.few) for _ in range(4)] + [pool.submit(load_and_train, self.at / "run", self.few) for _ in range(2)]
            self.assertEqual({a.result(120) for a in asked}, {self.want})
        self.assertEqual(bits(self.model.predict(self.few)), self.want)

    def test_spawned(self):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            asked = [pool.submit(predict_bits, self.model, self.few), pool.submit(load_and_train, self.at / "run", self.few)]
            self.assertEqual({a.result(120) for a in asked}, {self.want})
            with self.assertRaisesRegex(reckon.BadData, "row 0.*'user'"):
                pool.submit(predict_bits, self.model, dict(self.few, user=[99] * 20)).result(120)

    def test_forked_while_it_has_threads(self):
        """The pool's threads are the parent's: a child that never used the model before makes its own."""
        many = {name: values * 500 for name, values in self.few.items()}  # enough rows for every thread
        want = bits(self.model.predict(many))
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                os._exit(0 if bits(self.model.predict(many)) == want else 1)
            children.append(child)
        self.assertEqual([os.waitpid(child, 0)[1] for child in children], [0, 0, 0])


class Serving(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="reckon-serving-")
        cls.at = Path(cls.folder.name)
        rows = make_rows(600)
        cls.few = part(rows, 500, 505)
        cls.model = reckon.train(run_file(cls.at / "ads"), train=part(rows, 0, 500))
        try:
            reckon.serve(cls.model, listen="127.0.0.1:0").close()
        except reckon.Unsupported as error:
            cls.tearDownClass()
            raise unittest.SkipTest(str(error)) from None

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.folder.cleanup()

    def ask(self, server, name="ads"):
        body = json.dumps({"inputs": {column: self.few[column] for column in self.model.inputs}})
        with urllib.request.urlopen(f"{server.url}/v1/models/{name}:predict", body.encode(), timeout=30) as answer:
            return json.load(answer)["outputs"]

    def test_serves(self):
        """A model, a run, what save wrote: by the folder's name, or another; and the model goes on meanwhile."""
        want = [float(p) for p in self.model.predict(self.few).tolist()]
        self.model.save(self.at / "saved")
        for what, name, given in ((self.model, "ads", None), (self.at / "ads", "ads", None), (str(self.at / "saved"), "saved", None), (self.model, "other", "other")):
            with self.subTest(name), reckon.serve(what, listen="127.0.0.1:0", name=given) as server:
                self.assertEqual(server.name, name)
                for got, p in zip(self.ask(server, name), want):
                    self.assertAlmostEqual(got, p, delta=1e-8)  # 9 digits are sent
                self.assertEqual(self.model.predict(self.few).tolist(), want)
                self.assertEqual(repr(server), f"<reckon.Server http://127.0.0.1:{server.port}>")
            self.assertEqual(repr(server), "<reckon.Server, closed>")
            server.close()
            with self.assertRaises(urllib.error.URLError):
                self.ask(server, name)

    def test_file(self):
        (self.at / "serve.yaml").write_text("listen: 127.0.0.1:1\nmodels: [{name: first, path: ads}]\n")
        with reckon.serve(self.at / "serve.yaml", listen="127.0.0.1:0") as server:
            self.assertIsNone(server.name)
            self.assertEqual(len(self.ask(server, "first")), 5)
        (self.at / "serve.yaml").write_text("listen: 127.0.0.2:0\nmodels: [{name: first, path: ads}]\n")
        with reckon.serve(self.at / "serve.yaml") as server:
            self.assertEqual(server.url, f"http://127.0.0.2:{server.port}")
            self.assertEqual(len(self.ask(server, "first")), 5)
        with self.assertRaisesRegex(reckon.InvalidArgument, "names its models itself"):
            reckon.serve(self.at / "serve.yaml", name="ads")

    def test_errors(self):
        with reckon.serve(self.model, listen="127.0.0.1:0") as server:
            with self.assertRaisesRegex(reckon.ReadWriteError, str(server.port)):
                reckon.serve(self.model, listen=f"127.0.0.1:{server.port}")
        with self.assertRaises(reckon.NotFound):
            reckon.serve(self.at / "nowhere", listen="127.0.0.1:0")
        with self.assertRaisesRegex(reckon.ConfigError, "name 'a b'"):
            reckon.serve(self.model, listen="127.0.0.1:0", name="a b")
        for listen in ("nowhere", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:x"):
            with self.assertRaises(reckon.Error):
                reckon.serve(self.model, listen=listen)
        closed = reckon.load(self.at / "ads")
        closed.close()
        with self.assertRaisesRegex(reckon.InvalidArgument, "closed"):
            reckon.serve(closed)

    def test_failures_of_running(self):
        """What ends the server's thread is said in the log, and raised once, by wait or by close."""
        for method in ("wait", "close"):
            with unittest.mock.patch.object(reckon._library.lib, "rk_server_run", lambda handle: reckon.ReadWriteError._code), self.assertLogs("reckon", "ERROR") as logs:
                server = reckon.serve(self.model, listen="127.0.0.1:0")
                with self.assertRaises(reckon.ReadWriteError):
                    getattr(server, method)()
                server.close()
            self.assertIn("the server has ended: ", logs.output[0])

    def test_requests_at_once(self):
        with reckon.serve(self.model, listen="127.0.0.1:0") as server, ThreadPoolExecutor(8) as pool:
            answers = [tuple(a) for a in pool.map(lambda _: self.ask(server), range(60))]
        self.assertEqual(len(set(answers)), 1)

    def test_closes_its_own_alone(self):
        """What took the number of the server's socket since it stopped listening stays open."""
        handle, lib = ctypes.c_void_p(), reckon._library.lib
        reckon._library.check(lib.rk_server_create(os.fsencode(self.at / "ads"), ServerOptions(listen=b"127.0.0.1:0"), handle))
        lib.rk_server_stop(handle)
        lib.rk_server_run(handle)
        mine = [os.open(os.devnull, os.O_RDONLY) for _ in range(50)]
        lib.rk_server_free(handle)
        for descriptor in mine:
            os.close(descriptor)

    def test_wait(self):
        """It ends by close() on another thread, by Ctrl-C, and with a process that forgot it."""
        server = reckon.serve(self.model, listen="127.0.0.1:0")
        threading.Timer(0.2, server.close).start()
        server.wait()
        script = "import rows, reckon, sys\nserver = reckon.serve(sys.argv[1], listen='127.0.0.1:0')\nprint('serves', flush=True)\nif len(sys.argv) > 2: server.wait()"
        environment = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.abspath(__file__)))
        for more, code, end in (([], 0, None), (["wait"], -signal.SIGINT, signal.SIGINT)):
            child = subprocess.Popen([sys.executable, "-c", script, self.at / "ads", *more], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(child.kill)
            self.assertEqual(child.stdout.readline(), b"serves\n")
            if end:
                time.sleep(0.3)
                child.send_signal(end)
            said = child.communicate(timeout=60)[1]
            self.assertEqual(child.returncode, code, said)  # Python ends by the signal itself

    def test_forked(self):
        """A child leaves the parent's server alone, however it ends."""
        with reckon.serve(self.model, listen="127.0.0.1:0") as server:
            child = os.fork()
            if child == 0:
                server.close()
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(len(self.ask(server)), 5)

    def test_does_not_grow(self):
        def serve():
            with reckon.serve(self.model, listen="127.0.0.1:0") as server:
                self.ask(server)

        for _ in range(5):
            serve()
        gc.collect()
        before, n_threads = resident(), len(os.listdir("/proc/self/task"))
        for _ in range(max(20, CALLS // 20)):
            serve()
        gc.collect()
        self.assertLess(resident() - before, 3 << 20)
        self.assertEqual(len(os.listdir("/proc/self/task")), n_threads)


if __name__ == "__main__":
    unittest.main()
