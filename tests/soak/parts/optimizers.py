"""The equations of docs/optimizers.md, in numpy and f64: each rule takes options, values w, gradients g and slots s, changes s and returns the new w."""

from types import SimpleNamespace

import numpy as np

DEFAULTS = {
    "epsilon": 1e-8,
    "initial_accumulator": 0.1,
    "momentum": 0.9,
    "beta1": 0.9,
    "beta2": 0.999,
    "bias_correction": 1,
    "sum_inside_sqrt": 0,
    "exponent": 2,
    "l1": 0,
    "l2": 0,
    "beta": 0,
    "learning_rate_power": -0.5,
    "trust_coefficient": 0.001,
    "nesterov": 0,
    "weight_decay": 0,
    "weight_decay_by_learning_rate": 0,
    "clip_gradient": np.inf,
    "clip_gradient_min": None,
    "clip_gradient_max": None,
    "clip_weight_min": -np.inf,
    "clip_weight_max": np.inf,
    "schedule": {},
    "noise": 0,  # not of a run file: that part of a root is added to it, where ftrl takes the difference of two
}
DEFAULTS_OF = {
    "rowwise_adagrad": {"initial_accumulator": 0},
    "adam": {"epsilon": 1e-7},
    "rowwise_adam": {"epsilon": 1e-7},
    "adamw": {"epsilon": 1e-7, "weight_decay": 0.01, "weight_decay_by_learning_rate": 1},
    "adagrad_momentum": {"beta2": 1},
    "lamb": {"epsilon": 1e-6},
}
# Kind: its slots, "/row" behind those with one value a row.
SLOTS = {
    "sgd": [],
    "momentum": ["momentum"],
    "adagrad": ["accumulator"],
    "rowwise_adagrad": ["accumulator/row"],
    "adam": ["m", "v"],
    "rowwise_adam": ["m", "v/row"],
    "adamw": ["m", "v"],
    "ftrl": ["n", "z"],
    "adagrad_momentum": ["accumulator", "momentum"],
    "lamb": ["m", "v"],
    "lars": ["momentum"],
}
DECAY_WITHIN_RULE = {"lamb", "lars"}


def mean_of_squares(g):
    return (g**2).mean(1, keepdims=True)


def norm(x):
    """Of what f32 has no square of but 0 the norm is 0."""
    squares = x**2
    return np.sqrt(np.where(squares < np.finfo(np.float32).tiny, 0, squares).sum(1, keepdims=True))


def sgd(o, w, g, s):
    return w - o.rate * g


def momentum(o, w, g, s):
    m = s["momentum"] = o.momentum * s["momentum"] + g
    return w - o.rate * (o.momentum * m + g if o.nesterov else m)


def adagrad(o, w, g, s):
    a = s["accumulator"] = s["accumulator"] + g**2
    return w - o.rate * g / (np.sqrt(a) + o.epsilon)


def rowwise_adagrad(o, w, g, s):
    a = s["accumulator"] = s["accumulator"] + mean_of_squares(g)
    return w - o.rate * g / (np.sqrt(a) + o.epsilon)


def in_f32(x):
    return float(np.float32(x))


def adam_step(o, g, squares, s):
    beta1, beta2 = in_f32(o.beta1), in_f32(o.beta2)  # 1 - .999 in f32 is 1.3e-5 beside .001
    m = s["m"] = beta1 * s["m"] + (1 - beta1) * g
    v = s["v"] = beta2 * s["v"] + (1 - beta2) * squares
    if o.bias_correction:
        m, v = m / (1 - o.beta1**o.t), v / (1 - o.beta2**o.t)
    return m / (np.sqrt(v + o.epsilon**2) if o.sum_inside_sqrt else np.sqrt(v) + o.epsilon)


def adam(o, w, g, s):
    return w - o.rate * adam_step(o, g, g**2, s)


def rowwise_adam(o, w, g, s):
    return w - o.rate * adam_step(o, g, mean_of_squares(g), s)


def ftrl(o, w, g, s):
    before, s["n"] = s["n"], s["n"] + g**2
    root, root_before = s["n"] ** -o.learning_rate_power, before**-o.learning_rate_power
    z = s["z"] = s["z"] + g - (root * (1 + o.noise) - root_before) / o.rate * w
    return np.where(np.abs(z) <= o.l1, 0, (np.sign(z) * o.l1 - z) / ((root + o.beta) / o.rate + 2 * o.l2))


def adagrad_momentum(o, w, g, s):
    a = s["accumulator"] = s["accumulator"] + g**2 if o.beta2 == 1 else o.beta2 * s["accumulator"] + (1 - o.beta2) * g**2
    step = g * (a + o.epsilon) ** (-1 / o.exponent)
    m = s["momentum"] = o.momentum * s["momentum"] + step
    return w - o.rate * (o.momentum * m + step if o.nesterov else m)


def ratio(above, below, where):
    return np.where(where, above / np.where(where, below, 1), 1)


def lamb(o, w, g, s):
    step = adam_step(o, g, g**2, s) + o.weight_decay * w
    return w - o.rate * ratio(norm(w), norm(step), (norm(w) > 0) & (norm(step) > 0)) * step


def lars(o, w, g, s):
    below = norm(g) + o.weight_decay * norm(w) + o.epsilon
    r = ratio(o.trust_coefficient * norm(w), below, (norm(w) > 0) & (norm(g) > 0))
    m = s["momentum"] = o.momentum * s["momentum"] + o.rate * r * (g + o.weight_decay * w)
    return w - m


RULES = {
    "sgd": sgd,
    "momentum": momentum,
    "adagrad": adagrad,
    "rowwise_adagrad": rowwise_adagrad,
    "adam": adam,
    "rowwise_adam": rowwise_adam,
    "adamw": adam,
    "ftrl": ftrl,
    "adagrad_momentum": adagrad_momentum,
    "lamb": lamb,
    "lars": lars,
}


def schedule_factor(schedule, step):
    warmup = schedule.get("warmup_steps", 0)
    if step < warmup:
        return (step + 1) / warmup
    since, kind = step - warmup, schedule.get("kind", "constant")
    if kind == "constant":
        return 1
    if kind == "step":
        return schedule["step_factor"] ** (since // schedule["decay_steps"])
    part, end = min(since / schedule["decay_steps"], 1), schedule["end_factor"]
    left = (1 - part) ** schedule.get("power", 1) if kind == "polynomial" else (1 + np.cos(np.pi * part)) / 2
    return end + (1 - end) * left


class Parameter:
    """The rows of a table, or a dense tensor, with its optimizer's slots. is_one_vector: to lamb and lars, which take norms of it all."""

    def __init__(self, values, options, decays=True, is_one_vector=False):
        kind = options["kind"]
        self.options = SimpleNamespace(**{**DEFAULTS, **DEFAULTS_OF.get(kind, {}), **options})
        self.decays = decays
        if not decays:
            self.options.weight_decay = 0
        self.values, self.is_one_vector = values.copy(), is_one_vector and kind in DECAY_WITHIN_RULE
        of_row = {name.partition("/")[0]: name.endswith("/row") for name in SLOTS[kind]}
        first = {name: self.options.initial_accumulator if name in ("accumulator", "n") else 0 for name in of_row}
        self.slots = {name: np.full((len(values), 1 if of_row[name] else values.shape[1]), float(first[name])) for name in of_row}

    def step(self, g, steps_before, rows=slice(None), factor=1):
        """A step of these rows, of which g is the gradient. factor: of the learning rate, beside the schedule's."""
        o, w = self.options, self.values[rows]
        o.rate, o.t = factor * o.learning_rate * schedule_factor(o.schedule, steps_before), steps_before + 1
        slots = {name: slot[rows] for name, slot in self.slots.items()}
        least, most = (own if own is not None else usual for own, usual in ((o.clip_gradient_min, -o.clip_gradient), (o.clip_gradient_max, o.clip_gradient)))
        g = np.clip(g, least, most)
        if o.kind not in DECAY_WITHIN_RULE:
            w = w - o.weight_decay * (o.rate if o.weight_decay_by_learning_rate else 1) * w
        if self.is_one_vector:
            slots = {name: slot.reshape(1, -1) for name, slot in slots.items()}
            w, g = w.reshape(1, -1), g.reshape(1, -1)
        w = np.clip(RULES[o.kind](o, w, g, slots), o.clip_weight_min, o.clip_weight_max)
        self.values[rows] = w.reshape(self.values[rows].shape)
        for name, slot in slots.items():
            self.slots[name][rows] = slot.reshape(self.slots[name][rows].shape)
