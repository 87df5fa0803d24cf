"""W2 by PyTorch: Wide & Deep of nn.EmbeddingBag with sparse gradients and nn.functional.linear, SGD. --dtype bf16: autocast of the hidden layers."""
import contextlib

import torch
from torch import nn
from torch.nn import functional

from common import Workload, arguments, finish, timed

args = arguments()
torch.set_num_threads(args.threads)
w = Workload(args.directory)
assert w.case["model"]["kind"] == "wide_deep" and w.case["optimizer"] == "sgd"


def bag(f, dim, value, mode):
    return nn.EmbeddingBag(f.rows, dim, mode=mode, sparse=True, _weight=torch.full((f.rows, dim), value))


deep_tables = [bag(f, f.dim, 0.01, w.case["combiner"]) for f in w.features]
wide_tables = [bag(f, 1, 0.0, "sum") for f in w.features]
layers = [(nn.Parameter(torch.from_numpy(weight).t().contiguous()), nn.Parameter(torch.from_numpy(bias))) for weight, bias in w.layers("deep") + [w.layer("logits")]]
rows = torch.optim.SGD([table.weight for table in deep_tables + wide_tables], lr=w.rate, foreach=False)
dense = torch.optim.SGD([p for layer in layers for p in layer], lr=w.rate)
batches = [([torch.from_numpy(f.ids[b]) for f in w.features], torch.from_numpy(w.dense[b]), torch.from_numpy(w.labels[b])) for b in range(w.n_batches)]
losses = []


def train(i):
    ids, numbers, labels = batches[i % w.n_batches]
    x = torch.cat([table(v) for table, v in zip(deep_tables, ids)] + [numbers], dim=1)
    with torch.autocast("cpu", dtype=torch.bfloat16) if args.dtype == "bf16" else contextlib.nullcontext():
        for weight, bias in layers[:-1]:
            x = functional.relu(functional.linear(x, weight, bias), inplace=True)
    logits = functional.linear(x.float(), *layers[-1])[:, 0]
    for table, v in zip(wide_tables, ids):
        logits = logits + table(v)[:, 0]
    loss = functional.binary_cross_entropy_with_logits(logits, labels)
    loss.backward()
    rows.step()
    dense.step()
    rows.zero_grad(set_to_none=True)
    dense.zero_grad(set_to_none=True)
    losses.append(loss.item())


finish({"train": timed(train, args.steps) | {"losses": losses}}, args.threads, torch)
