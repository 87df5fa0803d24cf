#!/usr/bin/env python3
"""`reckon export --to redis://...`: the rows in Redis, alone and in a cluster, are the bytes of an export to files; the manifest comes last, and what goes wrong leaves neither it nor a directory.
77 (a skipped test) without redis-server, or where the program does not know Redis.

    check_export.py PROGRAM
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "server"))

from redis_servers import Cluster, Redis, free_port
from serving import main

RUN = """
data:
  train: train.csv
  labels: [click]
  features: [{name: user, identity: 20000}, {name: city, vocabulary: {}}, {name: tag, hash: 50}]
embedding: {dim: 16, tables: [{name: city, dim: 4, dtype: bf16}]}
model: {kind: wide_deep, deep: [8]}
train: {batch_size: 64, epochs: 1, optimizer: {kind: adam, learning_rate: 0.02}}
"""


def read_safetensors(path):
    """Name to (shape, bytes), and what the metadata say of rows."""
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    formats = json.loads(header.pop("__metadata__", {}).get("reckon.rows", "{}"))
    return {name: (t["shape"], data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]) for name, t in header.items()}, formats


class Tests:
    def __init__(self, program):
        self.program, self.folder = program, pathlib.Path(tempfile.mkdtemp(prefix="redis-"))
        chance = random.Random(1)
        rows = [f"{chance.randint(0, 1)},{chance.randrange(20000)},{chance.choice(['Rome', 'Paris', 'Bern'])},t{chance.randint(0, 90)}" for _ in range(500)]
        (self.folder / "train.csv").write_text("\n".join(["click,user,city,tag", *rows, ""]))
        (self.folder / "run.yaml").write_text(RUN)
        subprocess.run([program, "train", "-q", "--output", self.folder / "run", self.folder / "run.yaml"], check=True)

    def export(self, name, *options):
        ended = subprocess.run([self.program, "export", *options, self.folder / "run", self.folder / name], capture_output=True, text=True)
        if "does not know Redis" in ended.stderr:
            sys.exit(77)
        return ended

    def same(self, get, prefix, name, rows):
        """What Redis has of this export is what the files of another one have."""
        assert self.export(f"{name}-files", "--rows", rows).returncode == 0
        tensors, formats = read_safetensors(self.folder / f"{name}-files" / "model.safetensors")
        dense, _ = read_safetensors(self.folder / name / "model.safetensors")
        assert dense and all(tensors[tensor] == dense[tensor] and tensor.startswith("dense.") for tensor in dense)
        pointer = json.loads((self.folder / name / "rows.json").read_text())
        key = f"{prefix}:{pointer['version']}"
        manifest = json.loads(get(f"{key}:manifest".encode()))
        assert manifest["version"] == pointer["version"] and {f"embeddings.{t['name']}.weight" for t in manifest["tables"]} | dense.keys() == tensors.keys()
        for table in manifest["tables"]:
            shape, wanted = tensors[f"embeddings.{table['name']}.weight"]
            blocks = [get(f"{key}:{table['name']}:{number}".encode()) for number in range(-(-table["n_rows"] // table["block_rows"]))]
            assert b"".join(blocks) == wanted and table["n_rows"] == shape[0] and table["row_bytes"] * shape[0] == len(wanted), table
            described = formats.get(f"embeddings.{table['name']}.weight")
            assert table["rows"] == (described["format"] if described else "f16" if rows == "f16" else "bf16" if table["name"] == "city" else "f32"), table
        return manifest

    def test_formats(self):
        redis = Redis(self.folder)
        for rows in ("trained", "int8", "f16"):
            ended = self.export(rows, "--to", f"redis://127.0.0.1:{redis.port}/ads", "--rows", rows)
            assert ended.returncode == 0, ended
            self.same(lambda key: redis.ask("GET", key), "ads", rows, rows)
        keys = redis.keys()
        assert len([key for key in keys if key.endswith(b":manifest")]) == 3
        # The same rows once more are the same version.
        assert self.export("again", "--to", f"redis://127.0.0.1:{redis.port}/ads").returncode == 0
        assert redis.keys() == keys and (self.folder / "again/rows.json").read_text() == (self.folder / "trained/rows.json").read_text()
        redis.stop()

    def test_cluster(self):
        cluster = Cluster(self.folder)
        ended = self.export("clustered", "--to", f"redis://localhost:{cluster.nodes[1].port}/ads")
        assert ended.returncode == 0, ended
        self.same(cluster.get, "ads", "clustered", "trained")
        assert all(node.keys() for node in cluster.nodes), "a node has no rows"
        cluster.stop()

    def test_password(self):
        redis = Redis(self.folder, "--requirepass", "secret")
        to = ("--to", f"redis://127.0.0.1:{redis.port}/ads")
        ended = self.export("closed", *to)
        assert ended.returncode == 1 and "NOAUTH" in ended.stderr and not (self.folder / "closed").exists(), ended
        for password, code in (("wrong", 1), ("secret", 0)):
            ended = subprocess.run([self.program, "export", *to, self.folder / "run", self.folder / f"with-{code}"], capture_output=True, text=True, env={"RK_REDIS_PASSWORD": password})
            assert ended.returncode == code and "secret" not in ended.stderr, ended
        redis.stop()

    def test_refused(self):
        for to, words in (("http://localhost/ads", "redis://"), ("rediss://localhost/ads", "TLS"), ("redis://localhost", "prefix"), ("redis://localhost:x/ads", "port"), ("redis://:7000/ads", "host"),
                          ("redis://me:secret@localhost/ads", "RK_REDIS_PASSWORD"), ("redis://localhost/a b", "spaces"), (f"redis://127.0.0.1:{free_port()}/ads", "refused")):
            ended = self.export("refused", "--to", to)
            assert ended.returncode == 1 and words in ended.stderr, (to, ended)
            assert not (self.folder / "refused").exists() and not (self.folder / "refused.reckon-export").exists()
        ended = self.export("refused", "--to", "redis://localhost/ads", "--no-tables")
        assert ended.returncode == 1 and "tables" in ended.stderr, ended

    def test_full(self):
        """Redis that has no room for all rows: no manifest, no directory."""
        redis = Redis(self.folder, "--maxmemory", "2mb", "--maxmemory-policy", "noeviction")
        ended = self.export("full", "--to", f"redis://127.0.0.1:{redis.port}/ads")
        assert ended.returncode == 1 and "OOM" in ended.stderr and not (self.folder / "full").exists(), ended
        assert not [key for key in redis.keys() if key.endswith(b":manifest")]
        redis.stop()


if __name__ == "__main__":
    main(Tests)
