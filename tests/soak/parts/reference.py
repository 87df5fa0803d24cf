"""Whole trainings of small models, computed in numpy and f64 by the equations of docs/models.md, docs/embeddings.md, docs/training.md and docs/optimizers.md, and how they are compared with the run's."""

import copy
import csv
import io
import math

import numpy as np

from parts import reference_case, results
from parts.program import Failure, Refused
from parts.reference_tables import KEYS
from parts.reference_training import STATISTICS, Model
from parts.reference_two_tower import TwoTower


def tensors_of(checkpoint):
    """Name to values: what a model learns, what its optimizers keep, and keys; the rows of a dynamic table in the order of their keys."""
    out = {}
    for file in sorted(checkpoint.glob("*.safetensors")):
        for name, dtype, shape, data in results.tensors_in(file):
            if name.startswith(("table/", "dense/")) and (dtype == "F32" or name.endswith(KEYS)):
                out[name] = np.frombuffer(data, np.int64 if name.endswith(KEYS) else np.float32).reshape(shape)
    for table in [name.removesuffix(KEYS) for name in out if name.endswith(KEYS)]:
        order = np.argsort(out[table + KEYS])
        of_keys = [name for name in out if name.rpartition("/")[0] == table and "/oov_" not in name]
        out |= {name: out[name][order] for name in of_keys}
    return out


class Plateau:
    """docs/training.md; of a metric whose smaller values are better."""

    def __init__(self, rules):
        self.rules, self.best, self.bad = rules, math.inf, 0

    def factor(self, value, before):
        if not self.rules:
            return before
        self.bad = 0 if value < self.best else self.bad + 1
        self.best = min(self.best, value)
        if self.bad <= self.rules["patience"] or before * self.rules["factor"] < self.rules["min_factor"]:
            return before
        self.bad = 0
        return before * self.rules["factor"]


def model_of(given, first, noise):
    kind = TwoTower if given.config["model"]["kind"] == "two_tower" else Model
    return kind(given, first, noise)


def trained(given, first, evaluations, noise=0):
    """What the run is at its end, from its parameters before the first step; losses and metrics by step. evaluations: the run's own, which say when rates drop."""
    model, train = model_of(given, first, noise), given.config["train"]
    plateau, losses, metrics = Plateau(train.get("plateau")), {}, {}
    for _ in range(train["epochs"]):
        for begin in range(0, len(given.rows["train"]), train["batch_size"]):
            loss = model.step(given.rows["train"][begin : begin + train["batch_size"]])
            losses[model.n_steps] = loss
            if entry := evaluations.get(model.n_steps):
                metrics[model.n_steps] = model.metrics(given.rows["valid"])
                model.rate_factor = plateau.factor(entry.get(given.plateau_metric), model.rate_factor)
    return model, losses, metrics


def untrained(t, given):
    """The parameters before the first step: those of a run that learns nothing, with a row for each id; and the rows that keys without one share."""
    config, still = copy.deepcopy(given.config), {"kind": "sgd", "learning_rate": 0}
    config["train"].update(optimizer=dict(still), epochs=1)
    config["train"].pop("plateau", None)
    config["embedding"].update(optimizer=dict(still), l2_full=0)
    t.write("still.yaml", config)
    t.program.trained("still.yaml", "still")
    out = tensors_of(results.newest(t.work / "still"))
    if config["embedding"]["tables"]:
        config["embedding"]["tables"] = []
        for feature in config["data"]["features"]:
            if feature.pop("key", None):
                feature["identity"] = reference_case.IDS[feature["name"]]
        t.write("static.yaml", config)
        t.program.trained("static.yaml", "static")
        shared = {name: values for name, values in out.items() if "/oov_" in name}
        out = tensors_of(results.newest(t.work / "static")) | shared
    return without_statistics_of_steps(out)


def without_statistics_of_steps(first):
    """Before the first step running means are 0, and variances 1."""
    for name, values in first.items():
        if name.endswith(STATISTICS):
            first[name] = np.full(values.shape, float(name.endswith("variance")))
    return first


def tolerance(values, with_noise):
    """The program computes in f32, which rounds to 6e-8: over some tens of steps to about 1e-5. What a case makes more of, as adam does of gradients whose terms cancel out, or layers
    of ftrl's small weights, shows in where a training with noise ends."""
    return 5e-5 * (1 + np.abs(values).max()) + 20 * np.abs(values - with_noise).max()


def is_left_to_rounding(values, with_noise):
    """As of a gradient that is 0 but for rounding, of which adam makes steps: batch norm takes the size of a single input's weights away."""
    return values.shape == with_noise.shape and values.size and np.abs(values - with_noise).max() > 1e-3 * (1 + np.abs(values).max())


def same(what, found, values, with_noise):
    if np.size(found) != np.size(values):
        raise Failure(f"{what} has {np.size(found)} values, and {np.size(values)} by the equations")
    if not np.size(values):
        return
    own, values, with_noise = (np.reshape(x, -1).astype(np.float64) for x in (found, values, with_noise))
    worst = np.abs(own - values).argmax()
    if not abs(own[worst] - values[worst]) <= tolerance(values, with_noise):
        raise Failure(f"{what}: value {worst} is {own[worst]}, and {values[worst]} by the equations")


def same_names(found, wanted, what):
    if other := wanted.keys() ^ found.keys():
        raise Failure(f"these {what} are the run's or by the equations, and not both: {sorted(other)}")


def same_log(t, given, losses, metrics):
    """losses and metrics: by the equations, and with noise."""
    logged = {entry["step"]: entry["loss"] for entry in results.log_of(t.work / "a", ("train",))}
    same_names(logged, losses[0], "losses")
    for step, loss in logged.items():
        same(f"the loss of step {step}", loss, losses[0][step], losses[1][step])
    for entry in results.log_of(t.work / "a", ("valid",)):
        for name, value in metrics[0][entry["step"]].items():
            same(f"{name} after step {entry['step']}", entry[name], value, metrics[1][entry["step"]][name])


def same_predictions(t, given, model, with_noise):
    lines = list(csv.DictReader(io.StringIO(t.program.ask(["predict", "a", "valid.csv"]))))
    wanted, noisy = (own.predict(given.rows["valid"]) for own in (model, with_noise))
    for label, values in wanted.items():
        same(f"predictions of {label}", [float(line[label]) for line in lines], values, noisy[label])


def compare(t):
    given = reference_case.make(t)
    t.program.trained("run.yaml", "a")
    first, found = untrained(t, given), tensors_of(results.newest(t.work / "a"))
    evaluations = {entry["step"]: entry for entry in results.log_of(t.work / "a", ("valid",))}
    (model, *logged), (with_noise, *noisy) = (trained(given, first, evaluations, noise) for noise in (0, 1e-6))
    wanted, near = model.tensors(), with_noise.tensors()
    same_names(found, wanted, "tensors")
    for name, values in wanted.items():
        if is_left_to_rounding(values, near[name]):
            raise Refused(f"rounding decides on {name}")
    for name, values in wanted.items():
        same(name, found[name], values, near[name])
    same_log(t, given, *zip(logged, noisy))
    same_predictions(t, given, model, with_noise)
