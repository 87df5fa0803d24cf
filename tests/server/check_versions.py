#!/usr/bin/env python3
"""Versions of models come and go under load.

    check_versions.py PROGRAM [TEST...]      77: this build cannot serve
"""
import http.client
import os
import re
import shutil
import signal
import subprocess
import threading
import time

from serving import main, Server, Tests


class Versions(Tests):
    def test_versions(self):
        """A run that goes on training: each answer is wholly of one version, none fails; a version that is damaged does not reach requests."""
        before = self.wanted
        with Server(self) as s:
            stop, failures, seen = threading.Event(), [], set()

            def client():
                while not stop.is_set():
                    status, answer = s.predict({"instances": self.instances[:20]})
                    got = tuple(self.printed([(p["click"], p["rating"]) for p in answer["predictions"]])) if status == 200 else status
                    seen.add(got)

            threads = [threading.Thread(target=client) for _ in range(3)]
            [t.start() for t in threads]
            time.sleep(0.3)
            self.train(2, "--resume")
            after = self.wanted
            for _ in range(100):
                if s.json("/v1/models/ads")[1]["model_version_status"][0]["version"] == "14":
                    break
                time.sleep(0.1)
            time.sleep(0.3)
            stop.set()
            [t.join() for t in threads]
            assert seen == {tuple(before[:20]), tuple(after[:20])}, len(seen)
            steps = sorted((self.folder / "run" / "checkpoints").iterdir())
            broken = steps[-1].with_name("step-000000099")
            shutil.copytree(steps[-1], broken)
            for file in broken.iterdir():
                if file.is_file():
                    file.write_bytes(file.read_bytes()[:-3])
            time.sleep(0.8)
            self.same(s.predict({"instances": self.instances[:20]})[1]["predictions"])
            shutil.rmtree(broken)
        with Server(self, model=", version_policy: all, version_labels: [{name: old, version: 7}]") as s:
            versions = [v["version"] for v in s.json("/v1/models/ads")[1]["model_version_status"]]
            assert versions == ["14", "7"], versions
            old = s.json("/v1/models/ads/labels/old:predict", {"instances": self.instances[:20]})[1]["predictions"]
            assert self.printed([(p["click"], p["rating"]) for p in old]) == before[:20]
            assert old == s.json("/v1/models/ads/versions/7:predict", {"instances": self.instances[:20]})[1]["predictions"]
            self.same(s.predict({"instances": self.instances[:20]})[1]["predictions"])
        shutil.rmtree(self.folder / "run")
        self.train(1)

    def test_versions_of_a_folder(self):
        """A version that stands half copied is served when all of it is there; what failed is forgotten when it is gone."""
        folder = self.folder / "models"
        shutil.copytree(self.folder / "run", folder / "1")
        self.serve_run, run = folder, self.folder / "run"
        with Server(self, model=", num_versions: 2") as s:
            def wait_for(*wanted):
                for _ in range(100):
                    got = [(v["version"], v["state"]) for v in s.json("/v1/models/ads")[1]["model_version_status"]]
                    if got == list(wanted):
                        return
                    time.sleep(0.1)
                raise AssertionError((got, wanted))

            (folder / "2").mkdir()
            wait_for(("1", "AVAILABLE"), ("2", "END"))
            said = s.ask("/v1/models/ads")[1].decode()
            assert "'2'" in said and str(self.folder) not in said, said
            shutil.copytree(run, folder / "2", dirs_exist_ok=True)
            wait_for(("2", "AVAILABLE"), ("1", "AVAILABLE"))
            (folder / "2").rename(folder / "02")  # the same number from elsewhere stands in its place
            time.sleep(0.6)
            wait_for(("2", "AVAILABLE"), ("1", "AVAILABLE"))
            (folder / "3").mkdir()
            wait_for(("2", "AVAILABLE"), ("3", "END"))
            (folder / "3").rmdir()
            wait_for(("2", "AVAILABLE"), ("1", "AVAILABLE"))
            self.same(s.predict({"instances": self.instances[:20]})[1]["predictions"])
        assert s.log.count("version 2 is not served") == s.log.count("version 3 is not served") == 1, s.log
        shutil.rmtree(folder)
        self.serve_run = run

    def test_cut_in_place(self):
        """An export whose mapped rows are cut ends the server, which says what file it was."""
        export, run = self.folder / "cut", self.serve_run
        subprocess.run([self.program, "export", run, export], check=True)
        self.serve_run = export
        s = Server(self)
        self.same(s.predict({"instances": self.instances[:50]})[1]["predictions"])
        for file in export.glob("*.safetensors"):
            os.truncate(file, 0)
        try:
            s.predict({"instances": self.instances[:50]})
            raise AssertionError("rows were read that are not there")
        except (OSError, http.client.HTTPException):
            pass
        assert s.process.wait(20) == -signal.SIGBUS
        s.reader.join()
        log = "".join(s.lines)
        assert re.search(r"error: '\S*/cut/\S+\.safetensors' was cut while it was mapped.*\nhint: replace", log), log
        shutil.rmtree(export)
        self.serve_run = run

    def test_exports(self):
        """An export answers as `reckon predict` does of the run with such rows; versions of a folder may be exports too."""
        folder, trained, run = self.folder / "exports", self.wanted, self.serve_run
        for number, rows in enumerate(("f32", "f16", "bf16", "int8", "int4"), 1):
            subprocess.run([self.program, "export", "--rows", rows, run, folder / str(number)], check=True)
            self.wanted = self.predictions("--rows", rows)
            assert (self.wanted == trained) == (rows == "f32"), rows
            self.serve_run = folder / str(number)
            with Server(self) as s:
                self.same(s.predict({"instances": self.instances[:50]})[1]["predictions"])
                assert [v["version"] for v in s.json("/v1/models/ads")[1]["model_version_status"]] == ["1"]
        self.serve_run = folder
        with Server(self, model=", rows: {in: memory}") as s:
            self.same(s.predict({"instances": self.instances[:50]})[1]["predictions"])
        self.serve_run = folder / "5"
        with Server(self) as s:
            shutil.rmtree(folder)  # what is mapped stays as long as it is in use
            time.sleep(0.5)
            self.same(s.predict({"instances": self.instances[:50]})[1]["predictions"])
        self.serve_run, self.wanted = run, trained


if __name__ == "__main__":
    main(Versions)
