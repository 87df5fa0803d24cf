"""W2 to W4 by PyTorch: nn.EmbeddingBag with sparse gradients, and nn.functional.linear; SGD or Adagrad. W2 on the CPU; all three on a GPU (--device cuda), where batches are in
pinned memory and go there within the time. --dtype bf16: autocast of the hidden layers."""
import contextlib

import torch
from torch import nn
from torch.nn import functional

from common import Workload, arguments, finish, timed

args = arguments()
torch.set_num_threads(args.threads)
w = Workload(args.directory)
model = w.case["model"]
assert model["kind"] in ("wide_deep", "dnn", "dcn_v2") and w.case["optimizer"] in ("sgd", "adagrad")


def bag(f, dim, value, mode):
    return nn.EmbeddingBag(f.rows, dim, mode=mode, sparse=True, _weight=torch.full((f.rows, dim), value, device=args.device))


def layer(name):
    weight, bias = w.layer(name)
    return [nn.Parameter(torch.from_numpy(weight).t().contiguous().to(args.device)), None if bias is None else nn.Parameter(torch.from_numpy(bias).to(args.device))]


def layers(prefix):
    return [layer(f"{prefix}.linear_{i}") for i in range(len(w.layers(prefix)))]


def tensor(array):
    return torch.from_numpy(array).pin_memory() if args.device == "cuda" else torch.from_numpy(array)


deep_tables = [bag(f, f.dim, 0.01, w.case["combiner"]) for f in w.features]
wide_tables = [bag(f, 1, 0.0, "sum") for f in w.features] if model["kind"] == "wide_deep" else []
bottom, deep, logits_layer = layers("bottom") if "bottom" in model else [], layers("deep"), layer("logits")
crosses = [(layer(f"cross_{k}_v"), layer(f"cross_{k}_u")) for k in range(model.get("cross_layers", 0))]
parameters = [p for linear in bottom + deep + [logits_layer] + [half for cross in crosses for half in cross] for p in linear if p is not None]
tables = [table.weight for table in deep_tables + wide_tables]
if w.case["optimizer"] == "sgd":
    rows, dense = torch.optim.SGD(tables, lr=w.rate, foreach=False), torch.optim.SGD(parameters, lr=w.rate)
else:
    rows = torch.optim.Adagrad(tables, lr=w.rate, eps=w.epsilon, foreach=False)
    dense = torch.optim.Adagrad(parameters, lr=w.rate, eps=w.epsilon, foreach=args.device == "cuda")
batches = [([tensor(f.ids[b]) for f in w.features], tensor(w.dense[b]), tensor(w.labels[b])) for b in range(w.n_batches)]
losses = []


def mlp(x, linears):
    for weight, bias in linears:
        x = functional.relu(functional.linear(x, weight, bias), inplace=True)
    return x


def hidden(ids, numbers):
    vectors = [table(v) for table, v in zip(deep_tables, ids)]
    with torch.autocast(args.device, dtype=torch.bfloat16) if args.dtype == "bf16" else contextlib.nullcontext():
        first = torch.cat([mlp(numbers, bottom)] + vectors if bottom else vectors + [numbers], dim=1)
        x = first
        for v, u in crosses:
            x = first * functional.linear(functional.linear(x, *v), *u) + x
        return mlp(x, deep)


def train(i):
    ids, numbers, labels = batches[i % w.n_batches]
    ids, numbers, labels = [v.to(args.device, non_blocking=True) for v in ids], numbers.to(args.device, non_blocking=True), labels.to(args.device, non_blocking=True)
    logits = functional.linear(hidden(ids, numbers).float(), *logits_layer)[:, 0]
    for table, v in zip(wide_tables, ids):
        logits = logits + table(v)[:, 0]
    loss = functional.binary_cross_entropy_with_logits(logits, labels)
    loss.backward()
    rows.step()
    dense.step()
    rows.zero_grad(set_to_none=True)
    dense.zero_grad(set_to_none=True)
    losses.append(loss.item())  # waits for the step


finish({"train": timed(train, args.steps) | {"losses": losses}}, args.threads, torch)
