"""W15 by PyTorch: the examples' models, with the arrays and first values that bench_own_model has dumped. The features' rows stand in one table, and a missing id is a row of zeros.

Tables with l2_full have dense gradients and Adam with weight_decay, which is the same; the others sparse ones and SparseAdam. --config compile: torch.compile of all from the looked-up rows (of
dense gradients: from the ids) to the loss."""
import json

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from common import arguments, finish, timed

args = arguments()
torch.set_num_threads(args.threads)
case = json.loads((args.directory / "case.json").read_text())
shapes = {name: tuple(map(int, shape)) for name, *shape in (line.split() for line in (args.directory / "shapes.txt").read_text().splitlines())}
n, n_dense = shapes["batch"]
features = [name for name in shapes if (args.directory / f"0.{name}.ids").exists()]


def array(name, dtype):
    return np.fromfile(args.directory / name, dtype)


def value(folder, name):
    found = array(f"{folder}/{name}.f32", np.float32).reshape(shapes[name])
    return torch.from_numpy(found)


def ids_and_offsets(batch, feature):
    return torch.from_numpy(array(f"{batch}.{feature}.ids", np.int64)), torch.from_numpy(array(f"{batch}.{feature}.offsets", np.int64))


def shifted_ids(batch, firsts, missing):
    """[n, features]: of one table that holds all of theirs."""
    columns = []
    for feature, first in zip(features, firsts):
        ids, offsets = ids_and_offsets(batch, feature)
        column = torch.full((n,), missing)
        counts = offsets[1:] - offsets[:-1]
        assert counts.max() <= 1
        column[counts == 1] = ids + first
        columns.append(column)
    return torch.stack(columns, dim=1)


class Tables(nn.Module):
    """All features' rows of one kind side by side; the last row stands for no id."""

    def __init__(self, suffix):
        super().__init__()
        rows = [value("tables", f"table.{f}{suffix}.rows") for f in features]
        self.firsts = np.cumsum([0] + [len(r) for r in rows])
        weight = torch.cat(rows + [torch.zeros(1, rows[0].shape[1])])
        self.table = nn.Embedding(len(weight), weight.shape[1], padding_idx=len(weight) - 1, sparse=not case["l2_full"], _weight=weight)

    def forward(self, ids):
        return self.table(ids)


def linear(name):
    weight, bias = value("dense", f"{name}.weight"), value("dense", f"{name}.bias")
    layer = nn.Linear(*weight.shape)
    layer.weight.data = weight.t().contiguous()
    layer.bias.data = bias.flatten()
    return layer


def mlp():
    layers = []
    for i in range(len(case["deep"])):
        layers.append(linear(f"deep.linear_{i}"))
        if case["batch_norm"]:
            layers.append(nn.BatchNorm1d(case["deep"][i]))
        layers.append(nn.ReLU())
        if case["dropout"]:
            layers.append(nn.Dropout(case["dropout"]))
    return nn.Sequential(*layers)


class Deep(nn.Module):
    """wide_deep, dnn and dcn_v2: from rows, and numbers, to the loss."""

    def __init__(self):
        super().__init__()
        self.deep, self.logits = mlp(), linear("logits")
        self.crosses = nn.ModuleList(linear(f"cross_{i}") for i in range(case["cross_layers"]))

    def forward(self, vectors, wide, numbers, labels):
        x0 = x = torch.cat([vectors.flatten(1), numbers], dim=1) if n_dense else vectors.flatten(1)
        for cross in self.crosses:
            x = x0 * cross(x) + x
        deep = self.deep(x0)
        y = self.logits(torch.cat([x, deep], dim=1) if case["cross_layers"] else deep)[:, 0]
        if wide is not None:
            y = y + wide.sum(dim=(1, 2))
        return functional.mse_loss(y, labels) if case["loss"] == "mse" else functional.binary_cross_entropy_with_logits(y, labels)


class RowsAndDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.top = Tables(""), Deep()
        self.wide = Tables(".linear") if case["kind"] == "wide_deep" else None
        if not self.rows.table.sparse and args.config == "compile":
            self.compile()
        elif args.config == "compile":
            self.top.compile()

    def batch(self, b):
        labels, numbers = array(f"{b}.labels", np.float32), array(f"{b}.dense", np.float32).reshape(n, n_dense) if n_dense else None
        return shifted_ids(b, self.rows.firsts, int(self.rows.firsts[-1])), None if numbers is None else torch.from_numpy(numbers), torch.from_numpy(labels)

    def forward(self, ids, numbers, labels):
        return self.top(self.rows(ids), None if self.wide is None else self.wide(ids), numbers, labels)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = (nn.Parameter(value("tables", f"table.{name}.rows")) for name in ("user", "item"))
        if args.config == "compile":
            self.compile()

    def batch(self, b):
        (users, _), (history, offsets) = ids_and_offsets(b, "user"), ids_and_offsets(b, "history")
        pairs = torch.from_numpy(array(f"{b}.pairs", np.int32).astype(np.int64))
        return users, history, offsets[:n].contiguous(), pairs

    def forward(self, users, history, offsets, pairs):
        user = functional.embedding(users, self.users) + functional.embedding_bag(history, self.items, offsets, mode="mean")
        user = functional.dropout(functional.normalize(user, dim=1), case["dropout"])
        items = functional.normalize(functional.embedding(pairs, self.items), dim=1)
        own = (user * items[:n]).sum(dim=1)
        counts = pairs[None, n:] != pairs[:n, None]
        above = (user @ items[n:].t() - case["margin"]).relu() * counts
        return (1 - own + case["negative_weight"] * above.sum(dim=1) / counts.sum(dim=1)).mean()


model = TwoTower() if case["kind"] == "two_tower" else RowsAndDeep()
model.train()
tables = [p for name, p in model.named_parameters() if "table" in name or case["kind"] == "two_tower"]
dense = [p for p in model.parameters() if not any(p is t for t in tables)]
groups = [{"params": tables, "weight_decay": case["l2_full"]}] if case["l2_full"] else []
optimizers = [torch.optim.Adam([{"params": dense}] * bool(dense) + groups, lr=case["rate"], fused=True)]
if not case["l2_full"]:
    optimizers.append(torch.optim.SparseAdam(tables, lr=case["rate"]))
batches = [model.batch(b) for b in range(case["n_batches"])]
losses = []


def train(i):
    loss = model(*batches[i % len(batches)])
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    losses.append(loss.item())


warm = 9
result = timed(train, warm + args.steps)
result["seconds"] = result["seconds"][warm:]
finish({"train": result | {"losses": losses}}, args.threads, torch)
