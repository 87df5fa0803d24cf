#!/usr/bin/env python3
"""Golden training runs of every model preset, computed by PyTorch in float64: beside this script, models/<case>.txt.

    python3 tests/golden/make_models.py

Each file holds the case's configuration (one line of YAML), initial weights, batches, and for SGD, Adagrad and Adam the loss of
five steps and the weights after them; for SGD also the dense gradients of the first step, and predictions after the last.
A line is `name count values...`. Embedding rows take lazy updates: only the rows that a batch uses, duplicates summed first.
"""
import math
import pathlib
import random

import torch

from torch_models import LINEAR, ONE_DIM, PRESETS, SEQUENCE, VECTORS, Build

torch.set_default_dtype(torch.float64)

N_STEPS, N_SAMPLES = 5, 6
ROWS = {"user": 5, "tags": 7, "item": 6}
COMBINER = {"user": "mean", "tags": "sum", "item": "mean", "history": "sequence", "shop": "sqrtn"}
TABLE = {"user": "user", "tags": "tags", "item": "item", "history": "item", "shop": "user"}

# --- embeddings ---------------------------------------------------------------------------------------------------------------


def combine(rows, weights, how):
    if how == "sum":
        return (rows * weights[:, None]).sum(0)
    scale = weights.sum() if how == "mean" else torch.sqrt((weights**2).sum())
    return (rows * weights[:, None]).sum(0) / scale


def bag(table, ids, weights, how):
    valid = [(i, w) for i, w in zip(ids, weights) if i >= 0]
    if not valid:
        return torch.zeros(table.shape[1])
    return combine(table[[i for i, _ in valid]], torch.tensor([w for _, w in valid]), how)


def sequence(table, ids):
    rows = [table[i] for i in ids[:SEQUENCE]] + [torch.zeros(table.shape[1])] * (SEQUENCE - len(ids[:SEQUENCE]))
    return torch.cat(rows)


def rows_there(features, batch):
    """[samples, rows]: which of the vectors are none of a sequence's padding."""
    n = [SEQUENCE if COMBINER[name] == "sequence" else 1 for name in features]
    samples = zip(*(batch[name]["ids"] for name in features))
    return torch.tensor([[rows == 1 or r < len(ids) for ids, rows in zip(sample, n) for r in range(rows)] for sample in samples])


def lookup(b, features, batch):
    """The graph's inputs, and the rows of each table that they use."""
    columns, linear, used = [], [], {}
    preset = b.config["model"]["kind"]
    for name in features:
        table, how = TABLE[name], COMBINER[name]
        bags = list(zip(batch[name]["ids"], batch[name]["weights"]))
        if preset in VECTORS:
            e = b.parameter(f"table/{table}", ROWS[table], b.config["dims"][table], scale=0.7)
            columns.append(torch.stack([sequence(e, i) if how == "sequence" else bag(e, i, w, how) for i, w in bags]))
            cut = SEQUENCE if how == "sequence" else None
            used.setdefault(f"table/{table}", set()).update(i for ids, _ in bags for i in ids[:cut] if i >= 0)
        if preset in LINEAR:
            e = b.parameter(f"table/{name}/linear", ROWS[table], 1, scale=0.3)
            linear.append(torch.stack([bag(e, i, w, "sum") for i, w in bags]))
            used[f"table/{name}/linear"] = {i for ids, _ in bags for i in ids if i >= 0}
    vectors = torch.cat(columns, 1) if columns else None
    dim = b.config["dims"]["user"]
    return {
        "vectors": vectors,
        "columns": dict(zip(features, columns)),
        "lengths": {name: torch.tensor([min(len(ids), SEQUENCE) for ids in batch[name]["ids"]]) for name in features},
        "rows": vectors.reshape(len(vectors), -1, dim) if preset in ONE_DIM else None,
        "there": rows_there(features, batch),
        "linear": torch.cat(linear, 1) if linear else None,
        "dense": batch["dense"],
        "n_tasks": b.config["n_tasks"],
        "n_logits": b.config["n_tasks"] - b.config["product"],
    }, used


def forward(b, features, batch, stats):
    x, used = lookup(b, features, batch)
    x["stats"] = stats
    z = PRESETS[b.config["model"]["kind"]](b, x)
    if b.config["product"]:  # the logit of the product of the two tasks' probabilities
        p = torch.sigmoid(z).prod(1, keepdim=True)
        z = torch.cat([z, torch.log(p) - torch.log1p(-p)], 1)
    if b.config["model"].get("task_weights") == "uncertainty":
        b.parameter("task_log_variances/value", b.config["n_tasks"], scale=0.4)
    return z, used


def tasks_of(config):
    """Binary or not, and weight. Two tasks: click, and a rating's squared error. With a product: click, bought_if_clicked (of weight 0), and bought."""
    return [(True, 1.0), (True, 0.0), (True, 0.7)] if config["product"] else [(True, 1.0), (False, 0.5)][: config["n_tasks"]]


def loss_of(b, z, batch, t):
    """Each task's mean over the samples that have its label."""
    w = batch["sample_weights"]
    w = torch.ones(len(z)) if w is None else w
    total = torch.zeros(())
    for k, (binary, weight) in enumerate(tasks_of(b.config)):
        there = ~torch.isnan(batch["labels"][:, k])
        x, y, v = z[there, k], batch["labels"][there, k], w[there]
        if weight == 0 or v.sum() == 0:
            continue
        loss = (v * (torch.nn.functional.softplus(x) - x * y if binary else (x - y) ** 2)).sum() / v.sum()
        loss = loss * weight * (1 - b.config["decay"]) ** (t - 1)
        if "task_log_variances/value" in b.parameters:
            s = b.parameters["task_log_variances/value"][k]
            loss = torch.exp(-s) * loss * (1 if binary else 0.5) + s / 2
        total = total + loss
    return total


# --- optimizers, one row or one dense parameter at a time ----------------------------------------------------------------------


def step_sgd(w, g, slots, t):
    w -= 0.1 * g


def step_adagrad(w, g, slots, t):
    a = slots.setdefault("a", torch.full_like(w, 0.1))
    a += g**2
    w -= 0.05 * g / (torch.sqrt(a) + 1e-8)


def step_adam(w, g, slots, t):
    m, v = slots.setdefault("m", torch.zeros_like(w)), slots.setdefault("v", torch.zeros_like(w))
    m.mul_(0.9).add_(0.1 * g)
    v.mul_(0.999).add_(0.001 * g**2)
    w -= 0.01 * (m / (1 - 0.9**t)) / (torch.sqrt(v / (1 - 0.999**t)) + 1e-7)


OPTIMIZERS = {"sgd": step_sgd, "adagrad": step_adagrad, "adam": step_adam}


def apply(b, used, step, slots, t):
    l2, l2_full = b.config["embedding"].get("l2", 0), b.config["embedding"].get("l2_full", 0)
    for name, parameter in b.parameters.items():
        with torch.no_grad():
            g = parameter.grad
            if not name.startswith("table/"):
                step(parameter.data, g, slots.setdefault(name, {}), t)
                continue
            for row in range(len(parameter)) if l2_full else sorted(used.get(name, ())):
                extra = l2_full + (l2 if row in used.get(name, ()) else 0)
                step(parameter.data[row], g[row] + extra * parameter.data[row], slots.setdefault((name, row), {}), t)


# --- cases ----------------------------------------------------------------------------------------------------------------------


def draw_feature(rng, name):
    rows = ROWS[TABLE[name]]
    ids, weights = [], []
    for s in range(N_SAMPLES):
        n = 1 if name == "user" else rng.randrange(0, 5)
        ids.append([rng.randrange(rows) for _ in range(n)])
        weights.append([round(rng.uniform(0.25, 2), 2) if name in ("tags", "shop") else 1.0 for _ in range(n)])
    if name == "tags":
        ids[1] = ids[1] + [-1, 3, 3]  # a missing id, and one that stands twice in a bag
        weights[1] = weights[1] + [1.0, 0.5, 0.25]
    return {"ids": ids, "weights": [[float(torch.tensor(w, dtype=torch.float32)) for w in ws] for ws in weights]}


def draw_batch(rng, features, n_dense, n_tasks, weighted):
    def single(n, low, high):
        return torch.tensor([rng.uniform(low, high) for _ in range(n)], dtype=torch.float32).double()

    batch = {name: draw_feature(rng, name) for name in features}
    batch["dense"] = single(N_SAMPLES * n_dense, -1, 1).reshape(N_SAMPLES, n_dense) if n_dense else None
    click = torch.tensor([float(rng.random() < 0.4) for _ in range(N_SAMPLES)])
    second = single(N_SAMPLES, 1, 5)
    bought = click * (second > 3)
    batch["labels"] = torch.stack([click, bought, bought] if n_tasks == 3 else [click, second][:n_tasks], 1)
    batch["sample_weights"] = single(N_SAMPLES, 0, 2) if weighted else None
    return batch


def line(out, name, values, digits=9):
    flat = [values] if isinstance(values, (int, float)) else torch.as_tensor(values).detach().reshape(-1).tolist()
    out.append(" ".join([name, str(len(flat)), *(f"{v:.{digits}g}" for v in flat)]))


def write_batch(out, i, batch, features):
    for name in features:
        ids, weights = batch[name]["ids"], batch[name]["weights"]
        if name != "user":
            line(out, f"batch{i}/{name}/offsets", [sum(map(len, ids[:s])) for s in range(N_SAMPLES + 1)])
        line(out, f"batch{i}/{name}/ids", [v for bag_ids in ids for v in bag_ids])
        if name in ("tags", "shop"):
            line(out, f"batch{i}/{name}/weights", [v for bag_weights in weights for v in bag_weights])
    for name in ("dense", "labels", "sample_weights"):
        if batch[name] is not None:
            line(out, f"batch{i}/{name}", batch[name])


def yaml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {yaml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(yaml(v) for v in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def embedding_yaml(config, features):
    tables = [{"name": t, "rows": ROWS[t], "dim": config["dims"][t]} for t in ROWS if any(TABLE[f] == t for f in features)]
    entries = []
    for name in features:
        entry = {"name": name, "table": TABLE[name]}
        entry |= {"max_sequence_length": SEQUENCE} if COMBINER[name] == "sequence" else {"combiner": COMBINER[name]}
        entries.append(entry)
    return config["embedding"] | {"tables": tables, "features": entries}


def train(out, config, features, batches, rng_state, optimizer):
    rng = random.Random()
    rng.setstate(rng_state)
    b = Build(config, rng)
    stats = {"training": True}
    slots, losses = {}, []
    forward(b, features, batches[0], None)  # creates the parameters
    if optimizer == "sgd":
        for name, parameter in b.parameters.items():
            line(out, f"initial/{name}", parameter)
    for t, batch in enumerate(batches, 1):
        for parameter in b.parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        z, used = forward(b, features, batch, stats)
        loss = loss_of(b, z, batch, t)
        loss.backward()
        losses.append(loss.item())
        if t == 1 and optimizer == "sgd":
            for name, parameter in b.parameters.items():
                if not name.startswith("table/"):
                    line(out, f"gradient/{name}", parameter.grad, 7)
        apply(b, used, OPTIMIZERS[optimizer], slots, t)
    line(out, f"{optimizer}/losses", losses)
    for name, parameter in b.parameters.items():
        line(out, f"{optimizer}/{name}", parameter, 7)
    if optimizer == "sgd":
        stats["training"] = False
        z, _ = forward(b, features, batches[0], stats)
        for k, (binary, _) in enumerate(tasks_of(config)):
            z[:, k] = torch.sigmoid(z[:, k]) if binary else z[:, k]
        line(out, "predictions", z, 7)


def drop_labels(rng, batches):
    """Of the last task: about half of them; in the third batch all."""
    for i, batch in enumerate(batches):
        for s in range(N_SAMPLES):
            if i == 2 or rng.random() < 0.5:
                batch["labels"][s, -1] = math.nan


def write_case(folder, name, model, features=("user", "tags", "item"), n_dense=2, n_tasks=1, embedding=None, dims=None, absent=False, product=False, decay=0.0):
    rng = random.Random(name)
    config = {"model": model, "embedding": embedding or {}, "dims": dims or {"user": 3, "tags": 3, "item": 3}, "n_tasks": n_tasks, "product": product, "decay": decay}
    out = ["config " + yaml({"model": model, "embedding": embedding_yaml(config, features)})]
    line(out, "n_dense", n_dense)
    line(out, "n_tasks", n_tasks)
    if n_tasks > 1 and (absent or product or decay):
        line(out, "tasks", [absent, product, decay])
    out.append("features " + " ".join(features))
    batches = [draw_batch(rng, features, n_dense, n_tasks, weighted=i % 2 == 1) for i in range(N_STEPS)]
    if absent:
        drop_labels(random.Random(name + " absent"), batches)
    for i, batch in enumerate(batches):
        write_batch(out, i, batch, features)
    state = rng.getstate()
    for optimizer in OPTIMIZERS:
        train(out, config, features, batches, state, optimizer)
    (folder / f"{name}.txt").write_text("\n".join(out) + "\n")


def main():
    folder = pathlib.Path(__file__).parent / "models"
    folder.mkdir(exist_ok=True)
    write_case(folder, "lr", {"kind": "lr"}, features=("user", "tags", "item", "shop"))
    write_case(folder, "lr_no_dense", {"kind": "lr"}, n_dense=0)
    write_case(folder, "fm", {"kind": "fm"}, embedding={"l2": 0.03})
    many = ("user", "tags", "item", "history", "shop")
    write_case(folder, "dnn", {"kind": "dnn", "deep": [5, 4]}, many, n_tasks=2, dims={"user": 2, "tags": 3, "item": 4})
    write_case(folder, "dnn_batch_norm", {"kind": "dnn", "deep": [5, 4], "batch_norm": True}, embedding={"l2_full": 0.02})
    write_case(folder, "wide_deep", {"kind": "wide_deep", "deep": [5, 4]}, many)
    write_case(folder, "deepfm", {"kind": "deepfm", "deep": [5, 4]}, ("user", "tags", "history"))
    write_case(folder, "dlrm", {"kind": "dlrm", "bottom": [4, 3], "deep": [5, 4]}, many, n_tasks=2)
    write_case(folder, "dlrm_no_dense", {"kind": "dlrm", "deep": [5]}, n_dense=0)
    write_case(folder, "dcn", {"kind": "dcn", "cross_layers": 2, "deep": [5, 4]})
    write_case(folder, "dcn_stacked", {"kind": "dcn", "cross_layers": 2, "deep": [5], "structure": "stacked"}, n_dense=0)
    write_case(folder, "dcn_v2", {"kind": "dcn_v2", "cross_layers": 2, "deep": [5, 4]})
    low_rank = {"kind": "dcn_v2", "cross_layers": 2, "cross_kind": "low_rank", "cross_rank": 2, "deep": [5], "structure": "stacked"}
    write_case(folder, "dcn_v2_low_rank", low_rank)
    mixture = {"kind": "dcn_v2", "cross_layers": 2, "cross_kind": "mixture", "cross_rank": 2, "cross_experts": 3, "deep": [5]}
    write_case(folder, "dcn_v2_mixture", mixture, n_tasks=2)
    write_case(folder, "shared_bottom", {"kind": "shared_bottom", "deep": [5, 4], "towers": [4, 3]}, n_tasks=2, absent=True)
    write_case(folder, "mmoe", {"kind": "mmoe", "experts": 3, "expert_units": [5, 4], "towers": [3]}, n_tasks=2, absent=True)
    write_case(folder, "mmoe_esmm", {"kind": "mmoe", "experts": 2, "expert_units": [4], "towers": [3]}, n_tasks=3, product=True)
    ple_keys = {"kind": "ple", "levels": 2, "task_experts": 2, "shared_experts": 1, "expert_units": [5, 4], "towers": [4]}
    write_case(folder, "ple", ple_keys, n_tasks=2, absent=True, decay=0.1)
    cgc = {"kind": "ple", "levels": 1, "task_experts": 1, "shared_experts": 2, "expert_units": [4], "towers": [3], "task_weights": "uncertainty"}
    write_case(folder, "ple_uncertainty", cgc, n_tasks=2, absent=True)
    write_case(folder, "shared_bottom_esmm", {"kind": "shared_bottom", "deep": [5], "towers": [3], "task_weights": "uncertainty"}, n_tasks=3, product=True, absent=True)
    write_case(folder, "xdeepfm", {"kind": "xdeepfm", "cin": [4, 2], "deep": [5, 4]}, many)
    attention = {"kind": "autoint", "attention_layers": 2, "attention_heads": 2, "attention_dim": 3}
    write_case(folder, "autoint", attention, many, n_tasks=2)
    write_case(folder, "autoint_deep", attention | {"deep": [5]}, n_dense=0)
    streams = {"kind": "final_mlp", "deep": [5, 4], "deep2": [3, 6], "fusion_heads": 2}
    write_case(folder, "final_mlp", streams, many, n_tasks=2, dims={"user": 2, "tags": 3, "item": 4})
    contexts = {"gate_context": ["user"], "gate_context2": ["tags", "history"], "gate_deep": [3]}
    write_case(folder, "final_mlp_context", streams | contexts, many)
    write_case(folder, "final_mlp_no_gates", streams | {"gates": False}, n_dense=0)
    masks = {"kind": "masknet", "mask_blocks": [6, 5], "reduction_ratio": 1.5}
    write_case(folder, "masknet", masks | {"deep": [5]}, many)
    history = {"kind": "din", "attention": [{"target": "item", "history": "history"}], "attention_deep": [5, 4], "deep": [5]}
    write_case(folder, "din", history, many, dims={"user": 2, "tags": 3, "item": 4})
    write_case(folder, "din_softmax", history | {"attention_softmax": True}, ("user", "item", "history"), n_dense=0, n_tasks=2)
    write_case(folder, "masknet_stacked", masks | {"structure": "stacked"}, n_tasks=2)


if __name__ == "__main__":
    main()
