#!/usr/bin/env python3
"""Warm-up requests: each new version answers them before it takes others, and is not served where one of them fails.

    check_warmup.py PROGRAM [TEST...]      77: this build cannot serve
"""
import json
import re
import shutil
import subprocess
import time

from serving import main, Server, Tests


class Warmup(Tests):
    def write(self, *bodies):
        (self.folder / "warm.jsonl").write_text("\r\n\n".join(body if isinstance(body, str) else json.dumps(body) for body in bodies) + "\n")

    def refused(self, *words):
        ended = subprocess.run([self.program, "serve", self.folder / "serve.yaml"], capture_output=True, text=True, timeout=20)
        assert ended.returncode == 1 and all(word in ended.stderr for word in words), ended

    def test_versions(self):
        """A request that fails keeps the old version in use, with the file's line as reason, until it is mended."""
        fine = [{"instances": self.instances[:20]}, {"inputs": {k: [row[k] for row in self.instances[:3]] for k in self.instances[0]}},
                {"instances": [{**self.instances[0], "city": "nowhere"}]}, {"instances": []}]
        self.write(*fine)
        before = self.wanted
        with Server(self, model=", warmup: warm.jsonl") as s:
            self.same(s.predict({"instances": self.instances[:20]})[1]["predictions"])
            assert "reckon_unknown_ids_total{" not in s.ask("/metrics")[1].decode(), "a warm-up request was counted"
            self.write(*fine, {"instances": [{**self.instances[0], "age": "old"}]})
            self.train(2, "--resume")
            for _ in range(100):
                states = s.json("/v1/models/ads")[1]["model_version_status"]
                if len(states) == 2:
                    break
                time.sleep(0.1)
            assert [(v["version"], v["state"]) for v in states] == [("7", "AVAILABLE"), ("14", "END")], states
            assert re.search(r"^warm\.jsonl:9: .*age", states[1]["status"]["error_message"]), states
            page = s.ask("/")[1].decode()
            assert "warm.jsonl:9: " in page and str(self.folder) not in page, page
            got = s.predict({"instances": self.instances[:20]})[1]["predictions"]
            assert self.printed([(p["click"], p["rating"]) for p in got]) == before[:20]
            self.write(*fine)
            for _ in range(100):
                if s.json("/v1/models/ads")[1]["model_version_status"][0]["version"] == "14":
                    break
                time.sleep(0.1)
            self.same(s.predict({"instances": self.instances[:20]})[1]["predictions"])
        shutil.rmtree(self.folder / "run")
        self.train(1)

    def test_refused(self):
        self.write({"instances": []})
        with Server(self, model=", warmup: warm.jsonl"):
            pass
        self.write({"instances": []}, "{")
        self.refused("warm.jsonl:3: JSON")
        self.write({"examples": []})
        self.refused("warm.jsonl:1:", "not known")
        (self.folder / "warm.jsonl").unlink()
        self.refused("warm.jsonl")

    def test_retrieve(self):
        self.towers("vocabulary: {}")
        self.write({"instances": self.users[:5], "k": 3}, {"context": self.users[0]})
        with Server(self, run="towers", model=", warmup: warm.jsonl") as s:
            assert s.json("/v1/models/ads:retrieve", {"context": self.users[0]})[0] == 200
        self.write({"context": self.users[0], "k": 0})
        self.refused("warm.jsonl:1:", '"k"')


if __name__ == "__main__":
    main(Warmup)
