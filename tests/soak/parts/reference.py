"""Whole trainings of small models, computed in numpy and f64 by the equations of docs/models.md, docs/embeddings.md, docs/training.md and docs/optimizers.md."""

import copy

import numpy as np

from parts import reference_case, results
from parts.optimizers import Parameter
from parts.program import Failure
from parts.reference_case import IDS

LINEAR, KEYS = "/linear", "/keys"


def tensors_of(checkpoint):
    """Name to values: what a model learns, what its optimizers keep, and keys; the rows of a dynamic table in the order of their keys."""
    out = {}
    for file in sorted(checkpoint.glob("*.safetensors")):
        for name, dtype, shape, data in results.tensors_in(file):
            if name.startswith(("table/", "dense/")) and (dtype == "F32" or name.endswith(KEYS)):
                out[name] = np.frombuffer(data, np.int64 if name.endswith(KEYS) else np.float32).reshape(shape)
    for table in [name.removesuffix(KEYS) for name in out if name.endswith(KEYS)]:
        order = np.argsort(out[table + KEYS])
        out |= {name: values[order] for name, values in out.items() if name.rpartition("/")[0] == table}
    return out


class Bags:
    """A feature's ids in a batch: `coefficients` makes of a table's rows the samples' vectors, `used` are the rows that take a step."""

    def __init__(self, batch, name, weighted, combiner):
        self.coefficients = np.zeros((len(batch), IDS[name]))
        self.uses = np.zeros(IDS[name], int)
        for sample, row in enumerate(batch):
            ids = [int(text) for text in row[name].split("|") if text]
            weights = [float(text) for text in row["tag_weights"].split("|") if text] if weighted else [1.0] * len(ids)
            kept = [(i, weight) for i, weight in zip(ids, weights) if weight > 0 or combiner == "sum"]
            for i, weight in kept:
                self.coefficients[sample, i] += weight
                self.uses[i] += 1
            if kept and combiner != "sum":
                own = np.array([weight for _, weight in kept])
                self.coefficients[sample] /= own.sum() if combiner == "mean" else np.sqrt((own**2).sum())
        self.used = np.flatnonzero(self.uses)

    def leave_out(self, without_row):
        """Ids whose rows are zeros, and have no gradients."""
        self.coefficients[:, without_row] = 0
        self.used = np.flatnonzero((self.uses > 0) & ~without_row)


class Table:
    """Rows by id. `seen` are those that lookups find: with staleness those before the last update."""

    def __init__(self, name, tensors, embedding, model):
        self.name, self.feature, self.is_linear = name, name.removesuffix(LINEAR), name.endswith(LINEAR)
        rows, keys = tensors[f"table/{name}/rows"], tensors.get(f"table/{name}/keys")
        values = np.zeros((IDS[self.feature], rows.shape[1]))
        values[slice(None) if keys is None else keys] = rows
        self.is_dynamic, self.uses = keys is not None, np.zeros(len(values), int)
        self.min_count = next((own["admission"]["min_count"] for own in embedding["tables"] if own["name"] == self.feature), 1)
        self.l2 = model["linear_l2"] if self.is_linear else embedding["l2"]
        self.l2_full = embedding["l2_full"]
        self.combiner = "sum" if self.is_linear else embedding["combiner"]
        self.parameter = Parameter(values, embedding["optimizer"])
        self.seen = values.copy()

    def bags(self, batch, weighted):
        """Those of a batch, which admits keys to a dynamic table."""
        out = Bags(batch, self.feature, weighted, self.combiner)
        self.uses += out.uses
        out.leave_out(self.uses < self.min_count)
        return out

    def update(self, bags, g, step, is_stale):
        """g: of the samples' vectors."""
        rows = slice(None) if self.l2_full else bags.used
        w, before = self.parameter.values, self.parameter.values.copy()
        g = bags.coefficients.T @ g + self.l2_full * w
        g[bags.used] += self.l2 * w[bags.used]
        self.parameter.step(g[rows], step, rows)
        self.seen = before if is_stale else self.parameter.values.copy()

    def tensors(self):
        rows = np.flatnonzero(self.uses >= self.min_count) if self.is_dynamic else slice(None)
        own = {"rows": self.parameter.values, **self.parameter.slots}
        keys = {f"table/{self.name}{KEYS}": rows} if self.is_dynamic else {}
        return keys | {f"table/{self.name}/{part}": values[rows] for part, values in own.items()}


class Layers:
    """Linear layers, with the activation between them."""

    def __init__(self, names, dense, activation):
        self.names, self.dense, self.activation = names, dense, activation

    def forward(self, x):
        self.inputs = []
        for i, name in enumerate(self.names):
            x = np.maximum(x, 0) if i and self.activation == "relu" else x
            self.inputs.append(x)
            x = x @ self.dense[f"{name}/weight"].values + self.dense[f"{name}/bias"].values
        return x

    def backward(self, g):
        """The gradients of the parameters, and of the input."""
        out = {}
        for i, name in reversed(list(enumerate(self.names))):
            out[f"{name}/weight"], out[f"{name}/bias"] = self.inputs[i].T @ g, g.sum(0, keepdims=True)
            g = g @ self.dense[f"{name}/weight"].values.T
            g = g * (self.inputs[i] > 0) if i and self.activation == "relu" else g
        return out, g


class Task:
    """A label's loss of a batch."""

    def __init__(self, label, model):
        self.label, self.is_squared = label, label.get("loss") == "mse"
        self.learns_weight = model["task_weights"] == "uncertainty"

    def loss(self, logits, batch, weights):
        """The mean over the samples that have the label, its gradient by the logits, and whether there are such samples."""
        texts = [row[self.label["name"]] for row in batch]
        weights = weights * np.array([text != "" for text in texts])
        if not weights.sum():
            return 0.0, np.zeros(len(batch)), False
        weights, y = weights / weights.sum(), np.array([float(text or 0) for text in texts])
        if self.is_squared:
            return (weights * (logits - y) ** 2).sum(), weights * 2 * (logits - y), True
        smoothing = self.label.get("smoothing", 0)
        y = y * (1 - smoothing) + smoothing / 2
        losses = np.logaddexp(0, logits) - logits * y
        return (weights * losses).sum(), weights * (1 / (1 + np.exp(-logits)) - y), True

    def weight(self, step):
        return self.label["weight"] * (1 - self.label.get("weight_decay_rate", 0)) ** step

    def factor(self, log_variance):
        """What the weighted loss is multiplied by, with task_weights: uncertainty."""
        return np.exp(-log_variance) / (2 if self.is_squared else 1)


class Model:
    """noise: that part of the logits' gradients is added to them at random, and of ftrl's roots."""

    def __init__(self, config, tensors, noise):
        self.noise, self.chance = noise, np.random.default_rng(1)
        self.data, self.model, self.train = config["data"], config["model"], config["train"]
        rows, dense = ({**config[part], "optimizer": {**config[part]["optimizer"], "noise": noise}} for part in ("embedding", "train"))
        self.tables = [Table(name, tensors, rows, self.model) for name in table_names(self.model["kind"])]
        self.dense = {
            name.removeprefix("dense/"): Parameter(values.astype(np.float64), dense["optimizer"], decays=name.endswith("/weight"), is_one_vector=True)
            for name, values in tensors.items()
            if name.startswith("dense/")
        }
        deep = [f"deep/linear_{i}" for i in range(len(self.model.get("deep", [])))]
        self.layers = Layers([*deep, "logits"], self.dense, self.model.get("activation"))
        self.tasks = [Task(label, self.model) for label in self.data["labels"]]
        self.n_steps = 0

    def bags(self, batch, table):
        weighted = any(feature["name"] == table.feature and "weights" in feature for feature in self.data["features"])
        return table.bags(batch, weighted)

    def forward(self, vectors, numbers):
        """The logits, and a function of their gradients that gives those of dense parameters and of the tables' vectors."""
        deep = [vector for vector, table in zip(vectors, self.tables) if not table.is_linear]
        linear = [vector for vector, table in zip(vectors, self.tables) if table.is_linear]
        is_lr = self.model["kind"] == "lr"
        logits = sum(linear, np.zeros((len(numbers), 1)))
        if is_lr:
            logits = logits + numbers @ self.dense["linear_dense/weight"].values + self.dense["bias/bias"].values
        else:
            logits = logits + self.layers.forward(np.concatenate([*deep, numbers], 1))

        def backward(g):
            if is_lr:
                return {"linear_dense/weight": numbers.T @ g, "bias/bias": g.sum(0, keepdims=True)}, [g] * len(linear)
            out, g_inputs = self.layers.backward(g)
            ends = np.cumsum([vector.shape[1] for vector in deep])
            of_deep = iter(np.split(g_inputs, ends, 1))
            return out, [g if table.is_linear else next(of_deep) for table in self.tables]

        return logits, backward

    def losses(self, logits, batch):
        """Gradients of the logits, and of the dense parameters that the losses have."""
        weights = np.array([float(row["weight"]) if "sample_weight" in self.data else 1.0 for row in batch])
        g, g_log_variances = np.zeros_like(logits), np.zeros((1, len(self.tasks)))
        for k, task in enumerate(self.tasks):
            loss, g_logits, has_samples = task.loss(logits[:, k], batch, weights)
            weight = task.weight(self.n_steps)
            if task.learns_weight:
                factor = task.factor(self.dense["task_log_variances/value"].values.reshape(-1)[k])
                g_log_variances[0, k] = 0.5 - weight * factor * loss if has_samples else 0
                weight *= factor
            g[:, k] = weight * g_logits
        return g, {"task_log_variances/value": g_log_variances} if self.tasks[0].learns_weight else {}

    def regularized(self, gradients):
        out = {name: g.reshape(self.dense[name].values.shape) for name, g in gradients.items()}
        for name in out:
            if name.endswith("/weight"):
                out[name] = out[name] + self.train["l2"] * self.dense[name].values
        most, norm = self.train["max_gradient_norm"], np.sqrt(sum((g**2).sum() for g in out.values()))
        scale = most / norm if most and norm > most else 1
        return {name: scale * g for name, g in out.items()}

    def step(self, batch):
        bags = [self.bags(batch, table) for table in self.tables]
        vectors = [own.coefficients @ table.seen for own, table in zip(bags, self.tables)]
        logits, backward = self.forward(vectors, np.array([[float(row["x"])] for row in batch]))
        g, of_losses = self.losses(logits, batch)
        of_dense, of_vectors = backward(g * (1 + self.noise * self.chance.standard_normal(g.shape)))
        for name, own in self.regularized({**of_dense, **of_losses}).items():
            self.dense[name].step(own, self.n_steps)
        for table, own, g_vectors in zip(self.tables, bags, of_vectors):
            table.update(own, g_vectors, self.n_steps, self.train["staleness"] > 0)
        self.n_steps += 1

    def tensors(self):
        """As a checkpoint names them."""
        out = {}
        for table in self.tables:
            out |= table.tensors()
        for name, parameter in self.dense.items():
            out[f"dense/{name}"] = parameter.values
            out |= {f"dense/{name}/{slot}": values for slot, values in parameter.slots.items()}
        return out


def table_names(kind):
    return [*(IDS if kind != "lr" else []), *(name + LINEAR for name in IDS if kind != "dnn")]


def trained(given, tensors, noise=0):
    """What the run's parameters and slots are at its end, from those before its first step."""
    model, size = Model(given.config, tensors, noise), given.config["train"]["batch_size"]
    for _ in range(given.config["train"]["epochs"]):
        for first in range(0, len(given.rows), size):
            model.step(given.rows[first : first + size])
    return model.tensors()


def untrained(t, given):
    """The parameters before the first step: those of a run that learns nothing. Of dynamic tables it has each key's first row."""
    config, still = copy.deepcopy(given.config), {"kind": "sgd", "learning_rate": 0}
    config["train"]["optimizer"] = dict(still)
    config["embedding"].update(optimizer=dict(still), l2_full=0)
    t.write("still.yaml", config)
    t.program.trained("still.yaml", "still")
    return tensors_of(results.newest(t.work / "still"))


def tolerance(values, with_noise):
    """The program computes in f32, which rounds to 6e-8: over some tens of steps to about 1e-5. What a case makes more of, as adam does of gradients whose terms cancel out, or layers
    of ftrl's small weights, shows in where a training with noise ends."""
    return 5e-5 * (1 + np.abs(values).max()) + 20 * np.abs(values - with_noise).max()


def compare(t):
    given = reference_case.make(t)
    t.program.trained("run.yaml", "a")
    first, found = untrained(t, given), tensors_of(results.newest(t.work / "a"))
    wanted, with_noise = trained(given, first), trained(given, first, noise=1e-6)
    if other := wanted.keys() ^ found.keys():
        raise Failure(f"these are in the checkpoint or by the equations, and not both: {sorted(other)}")
    for name, values in wanted.items():
        if found[name].size != values.size:
            raise Failure(f"{name} has {found[name].size} values, and {values.size} by the equations")
        own, values = found[name].reshape(-1), values.reshape(-1)
        worst = np.abs(own - values).argmax()
        if not abs(own[worst] - values[worst]) <= tolerance(values, with_noise[name].reshape(-1)):
            raise Failure(f"{name}: value {worst} is {own[worst]}, and {values[worst]} by the equations")
