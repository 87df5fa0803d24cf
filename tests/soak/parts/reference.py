"""Whole trainings of small models, computed in numpy and f64 by the equations of docs/models.md, docs/embeddings.md, docs/training.md and docs/optimizers.md, and how they are compared with the run's."""

import copy
import csv
import io
import math

import numpy as np

from parts import measure, models, reference_case, results, tape
from parts.ids import Transforms
from parts.optimizers import Parameter
from parts.program import Failure, Refused
from parts.reference_models import Inputs, Network
from parts.reference_tables import KEYS, LINEAR, Table

NO_DECAY = ("bias", "gamma", "beta", "gate", "value")  # scales and shifts of norms, learned gates, log variances
STATISTICS = ("running_mean", "running_variance")


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


class Task:
    """A label's loss of a batch."""

    def __init__(self, label, model):
        self.label, self.is_squared = label, label.get("loss") == "mse"
        self.learns_weight = model["task_weights"] == "uncertainty"

    def targets(self, batch, weights):
        """Labels, and the weights of the samples that have them."""
        texts = [row[self.label.get("column", self.label["name"])] for row in batch]
        return np.array([float(text or 0) for text in texts])[:, None], weights * np.array([[text != ""] for text in texts])

    def loss(self, logits, batch, weights):
        """The mean over the samples that have the label; None without such samples."""
        y, weights = self.targets(batch, weights)
        if not weights.sum():
            return None
        weights = weights / weights.sum()
        if self.is_squared:
            return ((logits - y) ** 2 * weights).sum(0)
        smoothing = self.label.get("smoothing", 0)
        y = y * (1 - smoothing) + smoothing / 2
        return ((tape.softplus(logits) - logits * y) * weights).sum(0)

    def weight(self, step):
        return self.label.get("weight", 1) * (1 - self.label.get("weight_decay_rate", 0)) ** step

    def weighted(self, loss, step, log_variance):
        if not self.learns_weight:
            return loss * self.weight(step)
        if not self.weight(step):
            return None
        factor = tape.exp(log_variance * -1.0) * (0.5 if self.is_squared else 1)
        return factor * loss * self.weight(step) + log_variance * 0.5

    def predictions(self, logits):
        return logits if self.is_squared else tape.sigmoid_of(logits)


def product_logit(a, b):
    """-log(exp(-a) + exp(-b) + exp(-a-b))"""
    terms = [a * -1.0, b * -1.0, (a + b) * -1.0]
    most = np.maximum.reduce([term.values for term in terms])
    return (tape.log(sum((tape.exp(term - most) for term in terms), tape.of(0.0))) + most) * -1.0


class Model:
    """noise: that part of the logits' gradients is added to them at random, of each product, and of ftrl's roots."""

    def __init__(self, given, first, noise):
        config = given.config
        self.noise, self.chance = noise, np.random.default_rng(1)
        self.data, self.model, self.train = config["data"], config["model"], config["train"]
        self.embedding = config["embedding"]
        self.ids = Transforms.of_rows(self.data["features"], given.rows["train"])
        rows, dense = ({**config[part], "optimizer": {**config[part]["optimizer"], "noise": noise}} for part in ("embedding", "train"))
        self.features = [feature for feature in self.data["features"] if not feature.get("dense")]
        self.numbers = [feature for feature in self.data["features"] if feature.get("dense")]
        self.tables = [Table(*names, first, rows, self.model, min(self.train["staleness"], 1)) for names in self.lookups()]
        self.dense, self.statistics = {}, {}
        for name, values in first.items():
            node, _, part = name.removeprefix("dense/").rpartition("/")
            if name.startswith("dense/") and part in STATISTICS:
                self.statistics[f"{node}/{part}"] = values.astype(np.float64)
            elif name.startswith("dense/"):
                decays = part not in NO_DECAY
                self.dense[f"{node}/{part}"] = Parameter(values.astype(np.float64), dense["optimizer"], decays, is_one_vector=True)
        self.tasks = [Task(label, self.model) for label in self.data.get("labels", [])]
        self.n_steps, self.rate_factor = 0, 1.0

    def lookups(self):
        """Each feature's table of vectors and of single weights, as far as the model has them."""
        kind = self.model["kind"]
        for feature in self.features:
            if kind != "lr":
                yield feature["name"], feature
            if kind in models.SINGLE:
                yield feature["name"] + LINEAR, feature

    def sequence_length(self, name):
        return next((own["max_sequence_length"] for own in self.embedding.get("features", []) if own["name"] == name), 0)

    def inputs(self, batch, is_training):
        """Those of the network, and for each table its bags and the vectors that were looked up."""
        numbers = [[x for feature in self.numbers for x in self.ids.numbers(row, feature)] for row in batch]
        out, looked_up = Inputs({}, {}, np.array(numbers).reshape(len(batch), -1)), []
        for table in self.tables:
            name = table.feature["name"]
            length = 0 if table.is_linear else self.sequence_length(name)
            bags = table.bags(batch, self.ids, length, is_training)
            found = bags.coefficients @ (table.seen if is_training else table.parameter.values)
            value = tape.of(np.swapaxes(found, 0, 1) if length else found[0])
            looked_up.append((table, bags, value))
            (out.linear if table.is_linear else out.vectors)[name] = value
            if length:
                out.lengths[name] = bags.lengths
        return out, looked_up

    def add_noise(self, x):
        return x * (1 + self.noise * self.chance.standard_normal(x.shape))

    def logits(self, inputs, parameters, is_training):
        """One of each label."""
        network = Network(self.model, parameters, self.statistics, is_training, self.add_noise if self.noise else None)
        own = [task.label["name"] for task in self.tasks if "product_of" not in task.label]
        found = network.logits(inputs, len(own))
        out = {name: found[:, k : k + 1] for k, name in enumerate(own)}
        for task in self.tasks:
            if pair := task.label.get("product_of"):
                out[task.label["name"]] = product_logit(*(out[name] for name in pair))
        return [out[task.label["name"]] for task in self.tasks]

    def weights(self, batch):
        return np.array([[float(row["weight"]) if "sample_weight" in self.data else 1.0] for row in batch])

    def loss(self, logits, batch, parameters):
        losses, weights = [tape.of(np.zeros(1))], self.weights(batch)
        for k, (task, own) in enumerate(zip(self.tasks, logits)):
            loss = task.loss(tape.elementwise(own, own.values, 1 + self.noise * self.chance.standard_normal(own.shape)), batch, weights)
            variance = parameters["task_log_variances/value"].reshape(-1)[k : k + 1] if task.learns_weight else None
            losses.append(loss and task.weighted(loss.reshape(1), self.n_steps, variance))
        return sum(loss for loss in losses if loss)

    def regularized(self, gradients):
        out = {}
        for name, g in gradients.items():
            parameter = self.dense[name]
            out[name] = g + (self.train["l2"] * parameter.values if parameter.decays else 0)
        most, norm = self.train["max_gradient_norm"], np.sqrt(sum((g**2).sum() for g in out.values()))
        scale = most / norm if most and norm > most else 1
        return {name: scale * g for name, g in out.items()}

    def step(self, batch):
        """The loss of the batch, before the step."""
        inputs, looked_up = self.inputs(batch, True)
        parameters = {name: tape.of(parameter.values) for name, parameter in self.dense.items()}
        loss = self.loss(self.logits(inputs, parameters, True), batch, parameters)
        self.learn(loss, parameters, looked_up)
        return float(loss.values[0])

    def learn(self, loss, parameters, looked_up):
        """A step of all that the loss was computed from."""
        tape.differentiate(loss, 1.0)
        for name, own in self.regularized({name: value.gradient + np.zeros(value.shape) for name, value in parameters.items()}).items():
            self.dense[name].step(own, self.n_steps, factor=self.rate_factor)
        for table, bags, value in looked_up:
            g = value.gradient + np.zeros(value.shape)
            g = np.swapaxes(g, 0, 1) if g.ndim == 3 else g[None]
            table.update(bags, g, self.n_steps, self.train["staleness"] > 0, self.rate_factor)
        self.n_steps += 1

    def predict(self, rows):
        """Label to predictions."""
        inputs, _ = self.inputs(rows, False)
        logits = self.logits(inputs, {name: tape.of(parameter.values) for name, parameter in self.dense.items()}, False)
        return {task.label["name"]: task.predictions(own.values)[:, 0] for task, own in zip(self.tasks, logits)}

    def metrics(self, rows):
        """Those of an evaluation that have no jumps: none of predictions that are near 1, of which f32 has few."""
        found, weights, out = self.predict(rows), self.weights(rows), {}
        for task in self.tasks:
            name, (y, own) = task.label["name"], task.targets(rows, weights)
            pairs = [(p, t, w) for p, t, w in zip(found[name], y[:, 0], own[:, 0]) if w > 0]
            if not task.is_squared and max(found[name]) > 1 - 1e-4:
                continue
            start = f"{name}/" if len(self.tasks) > 1 else ""
            metric, function = ("rmse", measure.rmse) if task.is_squared else ("logloss", measure.logloss)
            out[start + metric] = function(pairs)[0]
        return out

    def tensors(self):
        """As a checkpoint names them."""
        out = {}
        for table in self.tables:
            out |= table.tensors()
        for name, parameter in self.dense.items():
            out[f"dense/{name}"] = parameter.values
            out |= {f"dense/{name}/{slot}": values for slot, values in parameter.slots.items()}
        return out | {f"dense/{name}": values for name, values in self.statistics.items()}


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
    if given.config["model"]["kind"] != "two_tower":
        return Model(given, first, noise)
    from parts.reference_two_tower import TwoTower  # which is a Model

    return TwoTower(given, first, noise)


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
