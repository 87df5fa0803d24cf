"""The logits of docs/models.md's presets, in numpy and f64 (tape.py). Parameters have the names and shapes that a checkpoint has."""

from dataclasses import dataclass, field

import numpy as np

from parts import tape

ACTIVATIONS = {"relu": tape.relu, "gelu": tape.gelu, "sigmoid": tape.sigmoid, "tanh": tape.tanh, "none": lambda x: x}
EPSILON, MOMENTUM = 1e-5, 0.1


@dataclass
class Inputs:
    """Of a batch of n samples: a feature's vector [n, dim] or sequence [n, length, dim] by name, in the data's order; its single weight [n, 1]; numbers [n, count]; how long sequences are."""

    vectors: dict
    linear: dict
    numbers: np.ndarray
    lengths: dict = field(default_factory=dict)

    def flat(self, without=()):
        """[the features' vectors | dense]"""
        parts = [x.reshape(len(self.numbers), -1) for name, x in self.vectors.items() if name not in without]
        return tape.concat([*parts, *([tape.of(self.numbers)] if self.numbers.shape[1] else [])])

    def rows(self):
        """[n, vectors, dim]"""
        return tape.concat([x if len(x.shape) == 3 else x.reshape(len(self.numbers), 1, -1) for x in self.vectors.values()], 1)

    def there(self):
        """[n, vectors]: 0 for the padding of sequences."""
        n, parts = len(self.numbers), []
        for name, x in self.vectors.items():
            length = x.shape[1] if len(x.shape) == 3 else 1
            own = self.lengths.get(name, np.full(n, length))
            parts.append(np.arange(length) < own[:, None])
        return np.concatenate(parts, 1).astype(float)


class Network:
    """A preset over a batch. parameters: name to Value; statistics: running ones, changed in training. noise: that part of each product is added to it at random."""

    def __init__(self, section, parameters, statistics, is_training, noise=None):
        self.section, self.parameters, self.statistics = section, parameters, statistics
        self.is_training, self.noise = is_training, noise
        self.activation, self.has_norm = section.get("activation", "relu"), section.get("batch_norm", False)

    def linear(self, name, x):
        y = x @ self.parameters[f"{name}/weight"]
        y = y + self.parameters[f"{name}/bias"] if f"{name}/bias" in self.parameters else y
        return self.noise(y) if self.noise else y

    def batch_norm(self, name, x):
        mean, n = x.mean(0), x.shape[0]
        variance = ((x - mean) ** 2).mean(0)
        running = [self.statistics[f"{name}/running_{of}"] for of in ("mean", "variance")]
        if self.is_training:
            batch = [mean.values, variance.values * n / max(n - 1, 1)]
            for own, new in zip(running, batch):
                own += MOMENTUM * (new.reshape(own.shape) - own)
        else:
            mean, variance = (tape.of(own.reshape(1, -1)) for own in running)
        return self.scaled(name, (x - mean) * (variance + EPSILON) ** -0.5)

    def layer_norm(self, name, x):
        centred = x - x.mean(-1)
        return self.scaled(name, centred * ((centred**2).mean(-1) + EPSILON) ** -0.5)

    def scaled(self, name, x):
        return x * self.parameters[f"{name}/gamma"] + self.parameters[f"{name}/beta"]

    def hidden(self, name, i, x, activation=None, has_norm=None):
        """One hidden layer."""
        x = self.linear(f"{name}/linear_{i}", x)
        if self.has_norm if has_norm is None else has_norm:
            x = self.batch_norm(f"{name}/norm_{i}", x)
        return ACTIVATIONS[activation or self.activation](x)

    def mlp(self, name, units, x, first=0, **other):
        for i in range(first, len(units)):
            x = self.hidden(name, i, x, **other)
        return x

    def deep(self, x, name="deep"):
        return self.mlp(name, self.section.get(name, []), x)

    # The first-order part.

    def linear_terms(self, inputs, with_numbers):
        parts = list(inputs.linear.values())
        if with_numbers and inputs.numbers.shape[1]:
            parts.append(self.linear("linear_dense", tape.of(inputs.numbers)))
        return sum(parts[1:], parts[0])

    def lr(self, inputs):
        return self.linear_terms(inputs, True) + self.parameters["bias/bias"]

    def pairs(self, inputs):
        """The sum of v_i . v_j over all pairs."""
        v = inputs.rows()
        n = v.shape[1]
        return sum(((v[:, i] * v[:, j]).sum(-1) for i in range(n) for j in range(i)), tape.of(np.zeros((len(inputs.numbers), 1))))

    def fm(self, inputs):
        return self.lr(inputs) + self.pairs(inputs)

    # Multilayer perceptrons, and what stands beside them.

    def dnn(self, inputs):
        return self.linear("logits", self.deep(inputs.flat()))

    def wide_deep(self, inputs):
        return self.linear_terms(inputs, False) + self.dnn(inputs)

    def deepfm(self, inputs):
        return self.linear_terms(inputs, True) + self.pairs(inputs) + self.dnn(inputs)

    def xdeepfm(self, inputs):
        x0, sums = inputs.rows(), []
        n, fields, dim = x0.shape
        x = x0
        for k in range(len(self.section["cin"])):
            products = x.reshape(n, -1, 1, dim) * x0.reshape(n, 1, fields, dim)
            by_column = products.reshape(n, -1, dim).transposed()
            x = self.linear(f"cin_{k}", by_column).transposed()
            sums.append(x.sum(-1, keepdims=False))
        return self.linear_terms(inputs, True) + self.linear("logits_cin", tape.concat(sums)) + self.dnn(inputs)

    def dlrm(self, inputs):
        v, n = inputs.rows(), len(inputs.numbers)
        bottom = []
        if inputs.numbers.shape[1]:
            bottom = [self.bottom(inputs)]
            v = tape.concat([bottom[0].reshape(n, 1, -1), v], 1)
        dots = [(v[:, i] * v[:, j]).sum(-1) for i in range(v.shape[1]) for j in range(i)]
        return self.linear("logits", self.deep(tape.concat([*bottom, *dots])))

    def bottom(self, inputs):
        return self.mlp("bottom", self.section["bottom"], tape.of(inputs.numbers), has_norm=False)

    def crossed(self, x0, layer):
        """The cross layers, and the deep part beside them or behind them."""
        x = x0
        for i in range(self.section["cross_layers"]):
            x = layer(f"cross_{i}", x0, x)
        if self.section["structure"] == "stacked":
            return self.linear("logits", self.deep(x))
        return self.linear("logits", tape.concat([x, self.deep(x0)]))

    def dcn(self, inputs):
        def layer(name, x0, x):
            return x0 * (x * self.parameters[f"{name}/weight"]).sum(-1) + self.parameters[f"{name}/bias"] + x

        return self.crossed(inputs.flat(), layer)

    def dcn_v2(self, inputs):
        kind = {"full": self.full, "low_rank": self.low_rank, "mixture": self.mixture}[self.section.get("cross_kind", "full")]
        x0 = inputs.flat()
        if self.section.get("bottom") and inputs.numbers.shape[1]:
            n = len(inputs.numbers)
            x0 = tape.concat([self.bottom(inputs), *(x.reshape(n, -1) for x in inputs.vectors.values())])
        return self.crossed(x0, lambda name, x0, x: x0 * kind(name, x) + x)

    def full(self, name, x):
        return self.linear(name, x)

    def low_rank(self, name, x):
        return self.linear(f"{name}_u", self.linear(f"{name}_v", x))

    def mixture(self, name, x):
        rank, gates = self.section["cross_rank"], tape.softmax(self.linear(f"{name}_gate", x))
        v = tape.tanh(self.linear(f"{name}_v", x))
        experts = [
            tape.tanh(self.linear(f"{name}_c{i}", v[:, i * rank : (i + 1) * rank])) * gates[:, i : i + 1] for i in range(self.section["cross_experts"])
        ]
        return self.linear(f"{name}_u", tape.concat(experts))

    # Several tasks. First layers of one input are one matrix.

    def towers(self, ends):
        """A tower and a logit for each task's value."""
        units, n = self.section["towers"], len(ends)
        if units and "towers/linear_0/weight" in self.parameters:
            wide = self.hidden("towers", 0, ends[0])
            ends = [wide[:, k * units[0] : (k + 1) * units[0]] for k in range(n)]
        elif units:
            ends = [self.hidden(f"tower_{k}", 0, x) for k, x in enumerate(ends)]
        ends = [self.mlp(f"tower_{k}", units, x, first=1) for k, x in enumerate(ends)]
        return tape.concat([self.linear(f"logits_{k}", x) for k, x in enumerate(ends)])

    def shared_bottom(self, inputs):
        return self.towers([self.deep(inputs.flat())] * self.n_tasks)

    def experts(self, prefix, inputs_of, counts):
        """The outputs of all experts over each of several values, as a list for each."""
        units, out, done, wide = self.section["expert_units"], [], 0, {}
        for group, (x, count) in enumerate(zip(inputs_of, counts)):
            first, before = f"{prefix}experts", done
            if f"{first}/linear_0/weight" not in self.parameters:
                before, first = 0, f"{prefix}experts_{group}" if count > 1 else f"{prefix}expert_{done}"
            if first not in wide:
                wide[first] = self.hidden(first, 0, x)
            own = [wide[first][:, i * units[0] : (i + 1) * units[0]] for i in range(before, before + count)]
            out.append([self.mlp(f"{prefix}expert_{done + i}", units, y, first=1) for i, y in enumerate(own)])
            done += count
        return out

    def gates(self, prefix, inputs_of, counts):
        wide, ends = f"{prefix}gates", np.cumsum([0, *counts])
        if f"{wide}/weight" in self.parameters:
            x = self.linear(wide, inputs_of[0])
            return [tape.softmax(x[:, a:b]) for a, b in zip(ends, ends[1:])]
        return [tape.softmax(self.linear(f"{prefix}gate_{k}", x)) for k, x in enumerate(inputs_of[: len(counts)])]

    def mmoe(self, inputs):
        x, n = inputs.flat(), self.section["experts"]
        (experts,) = self.experts("", [x], [n])
        gates = self.gates("", [x] * self.n_tasks, [n] * self.n_tasks)
        return self.towers([mixed(gate, experts) for gate in gates])

    def ple(self, inputs):
        own, shared, x = self.section["task_experts"], self.section["shared_experts"], [inputs.flat()] * (self.n_tasks + 1)
        for level in range(self.section["levels"]):
            prefix, is_last = f"level_{level}/", level + 1 == self.section["levels"]
            *of_tasks, of_all = self.experts(prefix, x, [own] * self.n_tasks + [shared])
            seen = [[*experts, *of_all] for experts in of_tasks]
            if not is_last:
                seen.append([expert for experts in of_tasks for expert in experts] + of_all)
            gates = self.gates(prefix, x, [len(experts) for experts in seen])
            x = [mixed(gate, experts) for gate, experts in zip(gates, seen)]
        return self.towers(x)

    # Attention, gates and masks.

    def autoint(self, inputs):
        x, n = inputs.rows(), len(inputs.numbers)
        there = np.concatenate([inputs.there(), np.ones_like(inputs.numbers)], 1)
        if inputs.numbers.shape[1]:
            numbers = tape.of(inputs.numbers[:, :, None]) * self.parameters["numbers/vectors"]
            x = tape.concat([x, numbers], 1)
        for i in range(self.section["attention_layers"]):
            x = self.interacting(f"interact_{i}_", x, there)
        x = x.reshape(n, -1)
        return self.linear("logits", tape.concat([x, self.deep(inputs.flat())]) if self.section["deep"] else x)

    def interacting(self, prefix, x, there):
        q, k, v, r = (self.linear(prefix + part, x) for part in ("query", "key", "value", "residual"))
        dim, heads = self.section["attention_dim"], []
        for h in range(self.section["attention_heads"]):
            own = [y[:, :, h * dim : (h + 1) * dim] for y in (q, k, v)]
            heads.append(tape.softmax(own[0] @ own[1].transposed(), there[:, None, :]) @ own[2] * there[:, :, None])
        return tape.relu(tape.concat(heads) + r)

    def final_mlp(self, inputs):
        contexts = [self.section.get(key, []) for key in ("gate_context", "gate_context2")]
        x = inputs.flat(without=[name for names in contexts for name in names])
        y1 = self.mlp("deep", self.section["deep"], self.gated("gate", contexts[0], inputs, x))
        y2 = self.mlp("deep2", self.section.get("deep2", self.section["deep"]), self.gated("gate2", contexts[1], inputs, x))
        return self.linear("logits", tape.concat([y1, y2])) + tape.concat([self.fused(k, y1, y2) for k in range(self.n_tasks)])

    def gated(self, name, context, inputs, x):
        if not self.section.get("gates", True):
            return x
        if not context:
            return x * tape.sigmoid(self.parameters[f"{name}/gate"]) * 2.0
        g = tape.concat([inputs.vectors[feature].reshape(x.shape[0], -1) for feature in context])
        g = self.mlp(name, self.section.get("gate_deep", [64]), g, activation="relu", has_norm=False)
        return x * tape.sigmoid(self.linear(f"{name}/linear", g)) * 2.0

    def fused(self, task, y1, y2):
        heads = self.section["fusion_heads"]
        parts = [y.shape[1] // heads for y in (y1, y2)]
        out = []
        for h in range(heads):
            a, b = (y[:, h * n : (h + 1) * n] for y, n in zip((y1, y2), parts))
            out.append((self.linear(f"fusion_{task}_{h}", a) * b).sum(-1))
        return sum(out[1:], out[0])

    def masknet(self, inputs):
        n, v = len(inputs.numbers), inputs.flat()
        rows = self.layer_norm("norm", inputs.rows()) * inputs.there()[:, :, None]
        x = rows.reshape(n, -1)
        x = tape.concat([x, tape.of(inputs.numbers)]) if inputs.numbers.shape[1] else x
        outputs, is_stacked = [], self.section["structure"] == "stacked"
        for i in range(len(self.section["mask_blocks"])):
            mask = self.mlp(f"block_{i}/mask", [0], v, activation="relu", has_norm=False)
            y = self.linear(f"block_{i}/linear", self.linear(f"block_{i}/mask/projection", mask) * x)
            y = ACTIVATIONS[self.activation](self.layer_norm(f"block_{i}/norm", y))
            outputs.append(y)
            x = y if is_stacked else x
        return self.linear("logits", self.deep(x if is_stacked else tape.concat(outputs)))

    def din(self, inputs):
        (pair,) = self.section["attention"]
        q, k, lengths = inputs.vectors[pair["target"]], inputs.vectors[pair["history"]], inputs.lengths[pair["history"]]
        n, length, dim = k.shape
        q = q.reshape(n, 1, dim) * np.ones((1, length, 1))
        a = tape.concat([q, k, q - k, q * k])
        a = self.mlp("attention_0", self.section["attention_deep"], a, has_norm=False)
        a, there = self.linear("attention_0/weight", a), np.arange(length) < lengths[:, None]
        if self.section.get("attention_softmax"):
            a = tape.softmax(a.transposed(), there[:, None, :]).transposed()
        pooled = (a * k * there[:, :, None]).sum(1, keepdims=False)
        return self.linear("logits", self.deep(tape.concat([inputs.flat(without=[pair["history"]]), pooled])))

    def logits(self, inputs, n_tasks):
        """[n, n_tasks]"""
        self.n_tasks = n_tasks
        return getattr(self, self.section["kind"])(inputs)


def mixed(gate, experts):
    parts = [gate[:, i : i + 1] * expert for i, expert in enumerate(experts)]
    return sum(parts[1:], parts[0])
