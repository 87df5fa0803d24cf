"""The presets in PyTorch, as docs/models.md has their equations: what make_models.py trains.

A preset takes the parameters (Build) and the graph's inputs (make_models.lookup), and gives the logits."""
import math

import torch

SEQUENCE = 2  # steps of the sequence features


class Build:
    """Creates parameters on the first pass and finds them by name on the later ones."""

    def __init__(self, config, rng):
        self.config, self.rng, self.parameters = config, rng, {}

    def parameter(self, name, *shape, scale=None, fill=None):
        if name not in self.parameters:
            n = math.prod(shape)
            scale = scale or 1 / math.sqrt(shape[0])
            values = [fill + self.rng.uniform(-0.2, 0.2) if fill is not None else self.rng.uniform(-scale, scale) for _ in range(n)]
            exact = torch.tensor(values, dtype=torch.float32).double()  # what a float can hold
            self.parameters[name] = exact.reshape(shape).requires_grad_()
        return self.parameters[name]

    def linear(self, name, x, units, bias=True):
        y = x @ self.parameter(f"{name}/weight", x.shape[1], units)
        return y + self.parameter(f"{name}/bias", units, scale=0.3) if bias else y

    def batch_norm(self, name, x, stats):
        """Normalized by the batch; running statistics take the unbiased variance."""
        gamma, beta = self.parameter(f"{name}/gamma", x.shape[1], fill=1.0), self.parameter(f"{name}/beta", x.shape[1], scale=0.2)
        mean, var = x.mean(0), x.var(0, unbiased=False)
        if stats is not None:
            old_mean, old_var = stats.setdefault(name, (torch.zeros_like(mean), torch.ones_like(var)))
            if stats["training"]:
                stats[name] = (0.9 * old_mean + 0.1 * mean.detach(), 0.9 * old_var + 0.1 * x.detach().var(0, unbiased=True))
            else:
                mean, var = old_mean, old_var
        return (x - mean) / torch.sqrt(var + 1e-5) * gamma + beta

    def mlp(self, name, x, units, stats, batch_norm=False):
        for i, n in enumerate(units):
            x = self.linear(f"{name}/linear_{i}", x, n)
            if batch_norm:
                x = self.batch_norm(f"{name}/norm_{i}", x, stats)
            x = torch.relu(x)
        return x


def lr(b, x):
    first = x["linear"].sum(1, keepdim=True)
    if x["dense"] is not None:
        first = first + b.linear("linear_dense", x["dense"], 1, bias=False)
    return first


def second_order(x):
    rows = x["rows"]
    return ((rows.sum(1) ** 2 - (rows**2).sum(1)).sum(1, keepdim=True)) / 2


def everything(x):
    return torch.cat([part for part in (x["vectors"], x["dense"]) if part is not None], 1)


def deep(b, x, inputs):
    model = b.config["model"]
    return b.mlp("deep", inputs, model["deep"], x["stats"], model.get("batch_norm", False))


def logits(b, x, top):
    return b.linear("logits", top, x["n_tasks"])


def cross_and_deep(b, x, x0, crossed):
    if b.config["model"].get("structure") == "stacked":
        return logits(b, x, deep(b, x, crossed))
    return logits(b, x, torch.cat([crossed, deep(b, x, x0)], 1))


def dlrm(b, x):
    rows, bottom = x["rows"], []
    if x["dense"] is not None:
        bottom = [b.mlp("bottom", x["dense"], b.config["model"]["bottom"], x["stats"])]
        rows = torch.cat([bottom[0].unsqueeze(1), rows], 1)
    pairs = [(rows[:, i] * rows[:, j]).sum(1, keepdim=True) for i in range(rows.shape[1]) for j in range(i)]
    return logits(b, x, deep(b, x, torch.cat(bottom + pairs, 1)))


def dcn(b, x):
    x0 = y = everything(x)
    for i in range(b.config["model"]["cross_layers"]):
        w, c = b.parameter(f"cross_{i}/weight", x0.shape[1]), b.parameter(f"cross_{i}/bias", x0.shape[1], scale=0.2)
        y = x0 * (y @ w).unsqueeze(1) + c + y
    return cross_and_deep(b, x, x0, y)


def dcn_v2(b, x):
    model = b.config["model"]
    kind, rank, experts = model.get("cross_kind", "full"), model.get("cross_rank"), model.get("cross_experts")
    x0 = y = everything(x)
    for i in range(model["cross_layers"]):
        if kind == "full":
            z = b.linear(f"cross_{i}", y, x0.shape[1])
        elif kind == "low_rank":
            z = b.linear(f"cross_{i}_u", b.linear(f"cross_{i}_v", y, rank, bias=False), x0.shape[1])
        else:
            gates = torch.softmax(b.linear(f"cross_{i}_gate", y, experts, bias=False), 1)
            v_all = b.parameter(f"cross_{i}_v/weight", x0.shape[1], experts * rank)
            u_all = b.parameter(f"cross_{i}_u/weight", experts * rank, x0.shape[1])
            z = b.parameter(f"cross_{i}_u/bias", x0.shape[1], scale=0.3)
            for e in range(experts):
                v, u = v_all[:, e * rank : (e + 1) * rank], u_all[e * rank : (e + 1) * rank]
                c = torch.tanh(b.linear(f"cross_{i}_c{e}", torch.tanh(y @ v), rank, bias=False))
                z = z + gates[:, e : e + 1] * (c @ u)
        y = x0 * z + y
    return cross_and_deep(b, x, x0, y)


def xdeepfm(b, x):
    rows, sums = x["rows"], []
    maps = rows
    for i, units in enumerate(b.config["model"]["cin"]):
        pairs = (maps.unsqueeze(2) * rows.unsqueeze(1)).flatten(1, 2)  # [n, maps * fields, dim]
        w, c = b.parameter(f"cin_{i}/weight", pairs.shape[1], units), b.parameter(f"cin_{i}/bias", units, scale=0.3)
        maps = torch.einsum("npd,pu->nud", pairs, w) + c[:, None]
        sums.append(maps.sum(2))
    return lr(b, x) + b.linear("logits_cin", torch.cat(sums, 1), 1, bias=False) + logits(b, x, deep(b, x, everything(x)))


def autoint(b, x):
    model, rows, there = b.config["model"], x["rows"], x["there"]
    heads, dim = model["attention_heads"], model["attention_dim"]
    if x["dense"] is not None:
        vectors = b.parameter("numbers/vectors", x["dense"].shape[1], rows.shape[2])
        rows = torch.cat([rows, x["dense"].unsqueeze(2) * vectors], 1)
        there = torch.cat([there, torch.ones(*x["dense"].shape, dtype=torch.bool)], 1)
    for i in range(model["attention_layers"]):
        weights = {p: b.parameter(f"interact_{i}_{p}/weight", rows.shape[2], heads * dim) for p in ("query", "key", "value", "residual")}
        q, k, v, residual = (rows @ w for w in weights.values())
        q, k, v = (t.unflatten(2, (heads, dim)).transpose(1, 2) for t in (q, k, v))  # [n, heads, rows, dim]
        scores = (q @ k.transpose(2, 3)).masked_fill(~there.unsqueeze(1).unsqueeze(1), -1e9)
        mixed = (torch.softmax(scores, 3) @ v) * there.unsqueeze(1).unsqueeze(3)
        rows = torch.relu(mixed.transpose(1, 2).flatten(2) + residual)
    return logits(b, x, torch.cat([rows.flatten(1)] + ([deep(b, x, everything(x))] if "deep" in model else []), 1))


def final_mlp(b, x):
    model, ends = b.config["model"], []
    contexts = [model.get("gate_context", []), model.get("gate_context2", [])]
    read = [v for name, v in x["columns"].items() if name not in sum(contexts, [])]
    read = torch.cat(read + ([x["dense"]] if x["dense"] is not None else []), 1)
    for number, context, units in zip(("", "2"), contexts, (model["deep"], model["deep2"])):
        if not model.get("gates", True):
            gate = torch.zeros(1)
        elif context:
            gate = b.mlp(f"gate{number}", torch.cat([x["columns"][name] for name in context], 1), model["gate_deep"], None)
            gate = b.linear(f"gate{number}/linear", gate, read.shape[1])
        else:
            gate = b.parameter(f"gate{number}/gate", read.shape[1], scale=0.5)
        ends.append(b.mlp(f"deep{number}", 2 * torch.sigmoid(gate) * read, units, x["stats"]))
    z, heads = logits(b, x, torch.cat(ends, 1)), model["fusion_heads"]
    first, second = (end.unflatten(1, (heads, -1)) for end in ends)
    tasks = []
    for t in range(x["n_tasks"]):
        w = [b.parameter(f"fusion_{t}_{h}/weight", first.shape[2], second.shape[2]) for h in range(heads)]
        tasks.append(torch.einsum("nhi,hij,nhj->n", first, torch.stack(w), second))
    return z + torch.stack(tasks, 1)


def masknet(b, x):
    model, inputs, ends = b.config["model"], everything(x), []

    def norm(name, v, *shape):
        gamma, beta = b.parameter(f"{name}/gamma", *shape, fill=1.0), b.parameter(f"{name}/beta", *shape, scale=0.2)
        return torch.nn.functional.layer_norm(v, v.shape[-1:]) * gamma + beta

    y = (norm("norm", x["rows"], *x["rows"].shape[1:]) * x["there"].unsqueeze(2)).flatten(1)
    y = torch.cat([y] + ([x["dense"]] if x["dense"] is not None else []), 1)
    for i, units in enumerate(model["mask_blocks"]):
        width = int(model["reduction_ratio"] * y.shape[1])
        mask = b.linear(f"block_{i}/mask/projection", b.mlp(f"block_{i}/mask", inputs, [width], None), y.shape[1])
        end = torch.relu(norm(f"block_{i}/norm", b.linear(f"block_{i}/linear", mask * y, units, bias=False), units))
        ends.append(end)
        if model.get("structure") == "stacked":
            y, ends = end, [end]
    y = torch.cat(ends, 1)
    return logits(b, x, deep(b, x, y) if "deep" in model else y)


def din(b, x):
    model, parts = b.config["model"], []
    histories = [pair["history"] for pair in model["attention"]]
    for i, pair in enumerate(model["attention"]):
        q, k, lengths = x["columns"][pair["target"]], x["columns"][pair["history"]].unflatten(1, (SEQUENCE, -1)), x["lengths"][pair["history"]]
        y = q.unsqueeze(1).expand_as(k)
        y = torch.cat([y, k, y - k, y * k], 2)
        for j, units in enumerate([*model["attention_deep"], 1]):
            name = f"attention_{i}/linear_{j}" if j < len(model["attention_deep"]) else f"attention_{i}/weight"
            y = y @ b.parameter(f"{name}/weight", y.shape[2], units)
            if units > 1 or not model.get("attention_softmax"):
                y = y + b.parameter(f"{name}/bias", units, scale=0.3)
            y = torch.relu(y) if j < len(model["attention_deep"]) else y
        w, there = y.squeeze(2), torch.arange(SEQUENCE) < lengths[:, None]
        if model.get("attention_softmax"):
            w = torch.softmax(w.masked_fill(~there, -1e9), 1)
        parts.append(((w * there).unsqueeze(2) * k).sum(1))
    others = [v for name, v in x["columns"].items() if name not in histories] + ([x["dense"]] if x["dense"] is not None else [])
    return logits(b, x, deep(b, x, torch.cat(others + parts, 1)))


def stacks(b, prefix, name, xs, counts, units):
    """Equal MLPs, counts[g] of them over xs[g]: outputs by group. First layers that read one value stand in one matrix."""
    one, out, number = all(x is xs[0] for x in xs), [], 0
    for g, (x, count) in enumerate(zip(xs, counts)):
        total = sum(counts) if one else count
        first = f"{prefix}{name}s" if one else f"{prefix}{name}_{number}" if count == 1 else f"{prefix}{name}s_{g}"
        out.append([])
        for i in range(number if one else 0, (number if one else 0) + count):
            weight = b.parameter(f"{first}/linear_0/weight", x.shape[1], total * units[0])[:, i * units[0] : (i + 1) * units[0]]
            bias = b.parameter(f"{first}/linear_0/bias", total * units[0], scale=0.3)[i * units[0] : (i + 1) * units[0]]
            y = torch.relu(x @ weight + bias)
            for layer, n in enumerate(units[1:], 1):
                y = torch.relu(b.linear(f"{prefix}{name}_{number}/linear_{layer}", y, n))
            out[-1].append(y)
            number += 1
    return out


def level(b, prefix, xs, n_own, n_shared, units, is_last):
    """xs: what each task's experts read, and last what the shared ones read; the same of the next level."""
    tasks = range(len(xs) - 1)
    experts = stacks(b, prefix, "expert", xs, [n_own for _ in tasks] + [n_shared], units)
    covered = [experts[k] + experts[-1] for k in tasks]
    if not is_last:
        covered.append(sum(experts, []))
    one, out, before = all(x is xs[0] for x in xs), [], 0
    for k, (x, rows) in enumerate(zip(xs, covered)):
        if one:
            scores = x @ b.parameter(f"{prefix}gates/weight", x.shape[1], sum(map(len, covered)))[:, before : before + len(rows)]
        else:
            scores = b.linear(f"{prefix}gate_{k}", x, len(rows), bias=False)
        gates = torch.softmax(scores, 1)
        out.append(sum(gates[:, i : i + 1] * row for i, row in enumerate(rows)))
        before += len(rows)
    return out


def towers(b, x, xs):
    ends = stacks(b, "", "tower", xs, [1] * len(xs), b.config["model"]["towers"])
    return torch.cat([b.linear(f"logits_{k}", end[0], 1) for k, end in enumerate(ends)], 1)


def shared_bottom(b, x):
    return towers(b, x, [deep(b, x, everything(x))] * x["n_logits"])


def mmoe(b, x):
    model, xs = b.config["model"], [everything(x)] * (x["n_logits"] + 1)
    return towers(b, x, level(b, "", xs, 0, model["experts"], model["expert_units"], True))


def ple(b, x):
    model, xs = b.config["model"], [everything(x)] * (x["n_logits"] + 1)
    for i in range(model["levels"]):
        xs = level(b, f"level_{i}/", xs, model["task_experts"], model["shared_experts"], model["expert_units"], i + 1 == model["levels"])
    return towers(b, x, xs)


PRESETS = {
    "lr": lambda b, x: lr(b, x) + b.parameter("bias/bias", 1, scale=0.5),
    "fm": lambda b, x: lr(b, x) + second_order(x) + b.parameter("bias/bias", 1, scale=0.5),
    "dnn": lambda b, x: logits(b, x, deep(b, x, everything(x))),
    "wide_deep": lambda b, x: x["linear"].sum(1, keepdim=True) + logits(b, x, deep(b, x, everything(x))),
    "deepfm": lambda b, x: lr(b, x) + second_order(x) + logits(b, x, deep(b, x, everything(x))),
    "dlrm": dlrm,
    "dcn": dcn,
    "dcn_v2": dcn_v2,
    "xdeepfm": xdeepfm,
    "autoint": autoint,
    "final_mlp": final_mlp,
    "masknet": masknet,
    "din": din,
    "shared_bottom": shared_bottom,
    "mmoe": mmoe,
    "ple": ple,
}
VECTORS = set(PRESETS) - {"lr"}
LINEAR = {"lr", "fm", "wide_deep", "deepfm", "xdeepfm"}
ONE_DIM = {"fm", "deepfm", "dlrm", "xdeepfm", "autoint", "masknet"}
