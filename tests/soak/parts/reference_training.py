"""A small model's steps in numpy and f64, by the equations of docs/models.md, docs/embeddings.md, docs/training.md and docs/optimizers.md."""

import numpy as np

from parts import measure, models, tape
from parts.ids import Transforms
from parts.optimizers import Parameter
from parts.reference_models import Inputs, Network
from parts.reference_tables import LINEAR, Table

NO_DECAY = ("bias", "gamma", "beta", "gate", "value")  # scales and shifts of norms, learned gates, log variances
STATISTICS = ("running_mean", "running_variance")


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
