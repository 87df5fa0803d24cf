#!/usr/bin/env python3
"""Triton's model repository API over a Unix socket: versions are pinned, rolled back and let go by hand while requests come.

    check_admin.py PROGRAM [TEST...]      77: this build cannot serve
"""
import json
import shutil
import signal
import stat
import subprocess
import threading
import time

from serving import main, Server, Tests

SOCKET = "admin: {socket: admin.sock}"


class Admin(Tests):
    def newest(self, s):
        return s.json("/v1/models/ads")[1]["model_version_status"][0]["version"]

    def pairs(self, s, path=""):
        status, answer, _ = s.ask(f"/v1/models/ads{path}:predict", {"instances": self.instances[:20]})
        return tuple(self.printed([(p["click"], p["rating"]) for p in json.loads(answer)["predictions"]])) if status == 200 else status

    def test_pin(self):
        """Roll back, stay there whatever comes, and go back to the policy; each answer is wholly of one version and none fails."""
        def load(parameters=None, status=200, **body):
            got = s.admin("/v2/repository/models/ads/load", {"parameters": parameters or {}, **body})
            assert got[0] == status, got
            return got[1]

        before = self.wanted
        self.train(2, "--resume")
        after = self.wanted
        with Server(self, more=SOCKET) as s:
            stop, seen = threading.Event(), set()

            def client():
                while not stop.is_set():
                    seen.add(self.pairs(s))

            threads = [threading.Thread(target=client) for _ in range(2)]
            [t.start() for t in threads]
            assert self.newest(s) == "14" and load() == {"name": "ads", "loaded": [], "unloaded": []}
            assert load({"version": 7}) == {"name": "ads", "loaded": ["7"], "unloaded": ["14"]}
            assert self.pairs(s) == tuple(before[:20])
            assert s.admin("/v2/repository/index") == (200, [{"name": "ads", "version": "7", "state": "READY", "reason": "", "pinned": True, "labels": []}])
            broken = self.folder / "run" / "checkpoints" / "step-000000099"
            shutil.copytree(broken.with_name("step-000000014"), broken)
            for file in broken.iterdir():
                if file.is_file():
                    file.write_bytes(file.read_bytes()[:-3])
            time.sleep(0.6)  # looks for versions find new names
            assert self.newest(s) == "7" and load() == {"name": "ads", "loaded": [], "unloaded": []}
            assert "no version 5" in load({"version": 5}, 404)["error"] and "step-000000099" in load({"version": 99}, 400)["error"]
            assert self.newest(s) == "7" and len(s.admin("/v2/repository/index")[1]) == 1
            assert load({"version": "14"}) == {"name": "ads", "loaded": ["14"], "unloaded": ["7"]}
            assert load({"version": 7})["loaded"] == ["7"] and load({"version": None}) == {"name": "ads", "loaded": ["14"], "unloaded": ["7"]}
            shutil.move(broken, self.folder / "broken")
            stop.set()
            [t.join() for t in threads]
            assert seen == {tuple(before[:20]), tuple(after[:20])}, [x for x in seen if isinstance(x, int)]
        with Server(self, model=", version_policy: all, version_labels: [{name: stable, version: 7}]", more=SOCKET) as s:
            assert self.pairs(s, "/labels/stable") == tuple(before[:20])
            load({"version_labels": {"stable": 14, "old": "7"}})
            assert self.pairs(s, "/labels/stable") == tuple(after[:20]) and self.pairs(s, "/labels/old") == tuple(before[:20])
            assert "not in use" in load({"version_labels": {"old": 14, "new": 9}}, 404)["error"]
            assert [v["labels"] for v in s.admin("/v2/repository/index")[1]] == [["stable"], ["old"]]
            load({"version_labels": {"stable": None, "nobody": None}})
            assert self.pairs(s, "/labels/stable") == 404 and self.pairs(s, "/labels/old") == tuple(before[:20])
            shutil.move(self.folder / "broken", broken)
            assert "step-000000099" in load(status=400)["error"]
            index = s.admin("/v2/repository/index")[1]
            assert [(v["version"], v["state"]) for v in index] == [("14", "READY"), ("7", "READY"), ("99", "UNAVAILABLE")] and "step-000000099" in index[2]["reason"], index
            assert s.admin("/v2/repository/index", {"ready": True})[1] == index[:2]
            assert load({"version": 14, "version_labels": {"old": 14}})["unloaded"] == ["7"] and self.pairs(s, "/labels/old") == tuple(after[:20])
        shutil.rmtree(self.folder / "run")
        self.train(1)

    def test_unload(self):
        with Server(self, model=f"}}, {{name: other, path: {self.folder / 'run'}", more=SOCKET) as s:
            assert s.admin("/v2/repository/models/ads/unload", {"parameters": {"unload_dependents": False}}) == (200, {"name": "ads", "loaded": [], "unloaded": ["7"]})
            assert s.admin("/v2/repository/models/ads/unload") == (200, {"name": "ads", "loaded": [], "unloaded": []})
            time.sleep(0.6)  # looks for versions leave it so
            assert self.pairs(s) == 404 and s.json("/v1/models/other:predict", {"instances": self.instances[:2]})[0] == 200
            assert s.ask("/")[0] == 200 and s.ask("/v2/models/ads/ready")[0] == 404
            index = s.admin("/v2/repository/index")[1]
            assert index[0] == {"name": "ads", "version": "", "state": "UNAVAILABLE", "reason": "unloaded"} and index[1]["state"] == "READY", index
            assert s.admin("/v2/repository/models/ads/load") == (200, {"name": "ads", "loaded": ["7"], "unloaded": []})
            assert self.pairs(s) == tuple(self.wanted[:20])

    def test_load_now(self):
        """Without looks of its own the server finds a version when it is told to."""
        with Server(self, more=SOCKET, reload_interval=0) as s:
            before = self.wanted
            self.train(2, "--resume")
            time.sleep(0.5)
            assert self.pairs(s) == tuple(before[:20])
            assert s.admin("/v2/repository/models/ads/load")[1]["loaded"] == ["14"] and self.pairs(s) == tuple(self.wanted[:20])
        shutil.rmtree(self.folder / "run")
        self.train(1)

    def test_refused(self):
        load = "/v2/repository/models/ads/load"
        with Server(self, more=SOCKET) as s:
            for path in ("/v2/repository/index", load, "/v2/repository/models/ads/unload"):
                assert s.ask(path, b"{}")[0] == s.ask(path)[0] == 404, path  # not at the port
                assert s.admin(path, method="GET")[0] == 405
            for path in ("/", "/metrics", "/v2/repository", "/v2/repository/models/none/load", "/v2/repository/models/ads", "/v2/repository/models/ads/load/", "/v1/models/ads:predict"):
                assert s.admin(path)[0] == 404, path
            for body, words in ((b"{", "JSON"), (b"[]", "JSON"), ({"x": 1}, "not known"), ({"parameters": {"config": "{}"}}, "version"), ({"parameters": {"version": -1}}, "number"), (b"{}x", "behind"),
                                ({"parameters": {"version": 7.5}}, "number"), ({"parameters": {"version": 10**30}}, "number"), ({"parameters": {"version": [7]}}, ""), ({"parameters": []}, ""),
                                ({"parameters": {"version_labels": {"a/b": 7}}}, "characters"), ({"parameters": {"version_labels": {f"a{i}": 7 for i in range(65)}}}, "too many")):
                status, answer = s.admin(load, body)
                assert status == 400 and words in answer["error"], (body, answer)
            assert s.admin(load, b" " * 70000)[0] == 413
            assert s.admin("/v2/repository/index")[1][0]["labels"] == []

    def test_socket(self):
        """Of the server's user alone; one that was left is replaced, one that is listened at is not; none is left at the end."""
        path = self.folder / "admin.sock"

        def refused(words):
            ended = subprocess.run([self.program, "serve", self.folder / "serve.yaml"], capture_output=True, text=True, timeout=20)
            assert ended.returncode == 1 and words in ended.stderr, ended

        with Server(self, more=SOCKET) as s:
            assert stat.S_ISSOCK(path.stat().st_mode) and stat.S_IMODE(path.stat().st_mode) == 0o600
            refused("listens")
            assert s.admin("/v2/repository/index")[0] == 200
            s.process.send_signal(signal.SIGTERM)  # not there while the last requests end
            for _ in range(100):
                if not path.exists():
                    break
                time.sleep(0.01)
            assert not path.exists() and s.process.wait(20) == 0
        with Server(self, more=SOCKET) as s:
            s.process.kill()
            s.process.wait()
            assert path.exists()
            with Server(self, more=SOCKET) as other:
                assert other.admin("/v2/repository/index")[0] == 200
            s.process.returncode = 0
        assert not path.exists()
        path.write_text("mine")
        refused("no socket")
        assert path.read_text() == "mine"
        path.unlink()
        text = (self.folder / "serve.yaml").read_text()
        for name, words in (("x" * 200, "longer"), ("nowhere/x", "nowhere"), ("''", "empty")):
            (self.folder / "serve.yaml").write_text(text.replace("admin.sock", name))
            refused(words)


if __name__ == "__main__":
    main(Admin)
