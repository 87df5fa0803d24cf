"""A case's inputs as raw arrays (bench/workload.h), its run file, and the dense parameters' first values; made once, seeded."""
import json
import math
import subprocess
import zlib
from dataclasses import asdict

import numpy as np


def zipf(random, rows, shape, exponent=1.05):
    """Ranks of a bounded zipf law by inverting its continuous distribution, spread over the rows so that hot ones are not neighbours."""
    power = 1 - exponent
    ranks = (1 - random.random(shape) * (1 - (rows + 1) ** power)) ** (1 / power)
    factor = max(1, round(rows * 0.6180339887))
    while math.gcd(factor, rows) != 1:
        factor += 1
    return np.minimum(ranks.astype(np.int64) - 1, rows - 1) * factor % rows


def feature_ids(case, feature):
    random = np.random.default_rng(zlib.crc32(f"{case.law} {case.n} {feature}".encode()))
    shape = (case.n_batches, case.n, feature.hotness)
    return zipf(random, feature.rows, shape) if case.law == "zipf" else random.integers(feature.rows, size=shape)


def scrambled(ids):
    """Other numbers of up to 63 bits, one for each id."""
    return ((ids + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(1)).astype(np.int64)


def run_file(case):
    """The run file of our side, in YAML's JSON."""
    features = [{"name": f.name, "hash" if case.hashed else "identity": f.rows} for f in case.features]
    features += [{"name": f"n{i}", "dense": True} for i in range(case.n_dense)]
    optimizer = {"kind": case.optimizer, "learning_rate": case.rate}
    if case.optimizer == "adagrad":
        optimizer |= {"initial_accumulator": 0, "epsilon": case.epsilon}
    return {"data": {"train": "rows.rkb", "shuffle": False, "shuffle_window": case.n, "cache_bytes": 0, "labels": [{"name": "label"}], "features": features},
            "embedding": {"dim": case.features[0].dim, "combiner": case.combiner, "initializer": {"kind": "constant", "value": 0.01}},
            "model": case.model, "train": {"batch_size": case.n, "optimizer": optimizer}}


def unique_rows(case, directory):
    """Of each feature, the distinct rows in the first batch."""
    counts = {}
    for f in case.features:
        used = np.zeros(f.rows, bool)
        used[np.fromfile(directory / f"{f.name}.i64", np.int64, count=case.n * f.hotness)] = True
        counts[f.name] = int(used.sum())
    return counts


def write_rows(directory, programs):
    """The arrays as rows.rkb."""
    subprocess.run([programs / "bench_rows", directory, directory / "rows.tfrecord"], check=True)
    subprocess.run([programs.parent / "reckon", "convert", "--quiet", directory / "rows.tfrecord", directory / "rows.rkb"], check=True)
    (directory / "rows.tfrecord").unlink()


def make(case, directory, programs):
    """Fills `directory` unless it holds this very case already."""
    description = json.dumps(asdict(case), indent=1)
    done = directory / "case.json"
    if done.exists() and done.read_text() == description:
        return
    directory.mkdir(parents=True, exist_ok=True)
    done.unlink(missing_ok=True)
    for f in case.features:
        ids = feature_ids(case, f)
        (scrambled(ids) if case.hashed else ids).tofile(directory / f"{f.name}.i64")
    lines = [f"{case.n_batches} {case.n} {case.n_dense}"] + [f"{f.name} {f.rows} {f.dim} {f.hotness}" for f in case.features]
    (directory / "features.txt").write_text("\n".join(lines) + "\n")
    random = np.random.default_rng(1)
    rows = case.n_batches * case.n
    (random.integers(1000, size=(rows, case.n_dense)) / 1000).astype(np.float32).tofile(directory / "dense.f32")
    (random.random(rows) < 0.25).astype(np.float32).tofile(directory / "labels.f32")
    if case.model:
        (directory / "run.yaml").write_text(json.dumps(run_file(case), indent=1))
        (directory / "dense").mkdir(exist_ok=True)
        dumped = subprocess.run([programs / "bench_model", directory / "run.yaml", directory, "--dump", directory / "dense"], check=True, capture_output=True, text=True)
        (directory / "dense" / "shapes.txt").write_text(dumped.stdout)
    elif not case.n_dense:
        random.standard_normal((case.n, sum(f.dim for f in case.features)), np.float32).tofile(directory / "gradient.f32")
    if case.hashed:
        write_rows(directory, programs)
    else:
        (directory / "unique.json").write_text(json.dumps(unique_rows(case, directory)))
    done.write_text(description)
