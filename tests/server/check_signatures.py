#!/usr/bin/env python3
"""What TensorFlow Serving's clients may rely on beside rows of objects: signatures of tasks, the short forms of a model that reads one column, states of versions.

    check_signatures.py PROGRAM [TEST...]      77: this build cannot serve
"""
import csv
import subprocess

from serving import main, Server, Tests


class Signatures(Tests):
    def test_tasks(self):
        """A task is a signature: in metadata, and of each verb."""
        rows = self.instances[:30]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        with Server(self) as s:
            signatures = s.json("/v1/models/ads/metadata")[1]["metadata"]["signature_def"]["signature_def"]
            assert {name: list(of["outputs"]) for name, of in signatures.items()} == {"serving_default": ["click", "rating"], "click": ["click"], "rating": ["rating"]}
            assert all(of["inputs"] == signatures["serving_default"]["inputs"] and len(of["inputs"]) == len(rows[0]) for of in signatures.values())
            both = s.predict({"instances": rows, "signature_name": ""})[1]["predictions"]
            self.same(both)
            for task in ("click", "rating"):
                wanted = [p[task] for p in both]
                assert s.predict({"instances": rows, "signature_name": task})[1] == {"predictions": wanted}
                assert s.predict({"signature_name": task, "inputs": columns})[1] == {"outputs": wanted}
                assert s.predict({"examples": rows, "signature_name": task}, ":regress")[1] == {"result": wanted}
            assert s.predict({"instances": rows})[1]["predictions"] == both  # the request before it leaves nothing behind
            status, answer = s.predict({"instances": rows, "signature_name": "income"})
            assert status == 400 and "income" in answer["error"], answer

    def test_one_column(self):
        """Values stand for rows where there is one column to read."""
        with open(self.folder / "one.csv", "w", newline="") as file:
            csv.writer(file).writerows([("click", "words"), *((i % 2, " ".join(f"w{(i * j) % 17}" for j in range(1, 2 + i % 3))) for i in range(90))])
        (self.folder / "one.yaml").write_text("data: {train: one.csv, labels: [click], features: [{name: words, hash: 50, separator: \" \"}]}\n"
                                              "embedding: {dim: 4, initializer: {kind: normal, stddev: 0.5}}\nmodel: {kind: dnn, deep: [4]}\n"
                                              "train: {batch_size: 30, epochs: 1, evaluate: {every_steps: 0}}\n")
        subprocess.run([self.program, "train", "-q", "--output", self.folder / "one", self.folder / "one.yaml"], check=True)
        values = ["w1", "w2 w3", None, ["w2", "w3"], [], "", 7]
        with Server(self, run="one") as s:
            wanted = s.predict({"instances": [{"words": value} for value in values]})[1]["predictions"]
            assert len(set(wanted)) > 3 and wanted[1] == wanted[3] and wanted[2] == wanted[5]
            assert s.predict({"instances": values})[1] == {"predictions": wanted}
            assert s.predict({"instances": [{"words": values[0]}, *values[1:]]})[1] == {"predictions": wanted}
            assert s.predict({"inputs": values})[1] == s.predict({"inputs": {"words": values}})[1] == {"outputs": wanted}
            assert s.predict({"examples": values}, ":regress")[1] == {"result": wanted}
            assert s.predict({"inputs": []})[1] == {"outputs": []}
            assert s.predict({"inputs": ["w1"] * 201})[0] == s.predict({"instances": ["w1"] * 201})[0] == 413
            for body in ({"inputs": "w1"}, {"instances": [[["w1"]]]}, {"instances": "w1"}, {"inputs": [{"words": "w1"}]}):
                assert s.predict(body)[0] == 400, body
        with Server(self) as s:
            for body, words in (({"instances": ["w1"]}, "object"), ({"inputs": ["w1"]}, "object"), ({"examples": [3]}, "object")):
                status, answer = s.predict(body, ":regress" if "examples" in body else ":predict")
                assert status == 400 and words in answer["error"], answer

    def test_states(self):
        """A version's own state, also of one that could not be loaded."""
        broken = self.folder / "run" / "checkpoints" / "step-000000099"
        broken.mkdir()
        with Server(self, model=", version_policy: all, version_labels: [{name: stable, version: 7}]") as s:
            good, bad = s.json("/v1/models/ads")[1]["model_version_status"]
            assert (good["version"], good["state"], bad["version"], bad["state"]) == ("7", "AVAILABLE", "99", "END")
            for path, wanted in (("/versions/7", good), ("/labels/stable", good), ("/versions/99", bad)):
                assert s.json(f"/v1/models/ads{path}") == (200, {"model_version_status": [wanted]}), path
            for path in ("/versions/8", "/versions/x", "/labels/none", "/versions/99/metadata", "/versions/99:predict"):
                assert s.ask(f"/v1/models/ads{path}", b"{}" if ":" in path else None)[0] == 404, path
        broken.rmdir()


if __name__ == "__main__":
    main(Signatures)
