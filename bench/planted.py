"""Data with labels drawn from a planted model, so that an AUC tells how well it was found; as rows.rkb with a run file."""
import json
from dataclasses import asdict, replace

import numpy as np

import data

N_FACTORS = 4


def small_shape(case, small):
    """The case's features with few rows and ids, and layers to match, so that thousands of steps are affordable."""
    features = [replace(f, rows=min(f.rows, 2000), hotness=min(f.hotness, 3), dim=16) for f in case.features]
    model = case.model | {"bottom": [64, 16], "cross_rank": 16, "deep": [64, 32]}
    return replace(case, name="planted", n=1024, n_batches=100 if small else 700, features=features, model=model, rate=0.02)


def labels(case, directory):
    """logit = weights of the ids + of the numbers + products of the features' factors."""
    random = np.random.default_rng(7)
    rows = case.n * case.n_batches
    logits = np.fromfile(directory / "dense.f32", np.float32).reshape(rows, case.n_dense) @ random.normal(0, 0.5, case.n_dense)
    total = np.zeros((rows, N_FACTORS))
    squares = np.zeros((rows, N_FACTORS))
    for f in case.features:
        ids = np.fromfile(directory / f"{f.name}.i64", np.int64).reshape(rows, f.hotness)
        logits += random.normal(0, 0.4, f.rows)[ids].sum(1) / np.sqrt(f.hotness)
        factors = random.normal(0, 0.25, (f.rows, N_FACTORS))[ids].mean(1)
        total += factors
        squares += factors ** 2
    logits += (total ** 2 - squares).sum(1) / 2
    return (random.random(rows) < 1 / (1 + np.exp(-(logits - np.median(logits) - 1)))).astype(np.float32)


def run_file(case):
    run = data.run_file(case)
    run["data"] |= {"features": [f for f in run["data"]["features"] if f["name"] != "dense"] + [{"name": f"n{i}", "dense": True} for i in range(case.n_dense)],
                    "valid": {"fraction": 0.15}, "shuffle": True, "shuffle_window": 65536}
    run["embedding"] |= {"initializer": {"kind": "normal", "stddev": 0.05}}
    run["train"] |= {"epochs": 1, "checkpoint": {"every_epochs": 0}, "keep_best": False, "tensorboard": False, "log_every": 1000}
    run["cluster"] = {"replicate_below": 500}
    return run


def make(case, directory, programs):
    data.make(case, directory, programs)
    stamp, description = directory / "planted.json", json.dumps(asdict(case))
    if stamp.exists() and stamp.read_text() == description:
        return
    labels(case, directory).tofile(directory / "labels.f32")
    data.write_rows(directory, programs)
    (directory / "run.yaml").write_text(json.dumps(run_file(case), indent=1))
    stamp.write_text(description)
