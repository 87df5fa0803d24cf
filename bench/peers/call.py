"""W14 (c): what a call of reckon.torch costs beside an operator of torch.library that does nothing: seconds of a forward, and of forward and backward, of one sample and N features."""
import json
import os
import sys
import time
from pathlib import Path

import torch

os.environ["RK_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from reckon.torch import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor

torch.set_num_threads(1)
n, dim = int(sys.argv[1]), 16
names = [f"c{i}" for i in range(n)]
bags = EmbeddingBagCollection([EmbeddingBagConfig(1000, dim, name) for name in names])
ids = KeyedJaggedTensor(names, torch.arange(n), lengths=torch.ones(n, dtype=torch.int64))
gradient = torch.ones(1, n * dim)


@torch.library.custom_op("bench::nothing", mutates_args=(), schema="(Tensor anchor, Tensor values, Tensor offsets, Tensor? weights, int collection, int[] keys, int batch, int width, bool trains) -> Tensor")
def nothing(anchor, values, offsets, weights, collection, keys, batch, width, trains):
    return torch.empty(batch, width)


@torch.library.custom_op("bench::nothing_backward", mutates_args=(), schema="(Tensor gradient, Tensor values, Tensor offsets, Tensor? weights, int collection, int[] keys, int batch) -> Tensor")
def nothing_backward(gradient, values, offsets, weights, collection, keys, batch):
    return gradient.new_zeros(0)


def keep(ctx, inputs, output):
    _, values, offsets, weights, collection, keys, batch, _, _ = inputs
    ctx.save_for_backward(values, offsets, weights)
    ctx.rest = collection, list(keys), batch


def back(ctx, gradient):
    return (nothing_backward(gradient, *ctx.saved_tensors, *ctx.rest), *[None] * 8)


nothing.register_autograd(back, setup_context=keep)
anchor, keys = torch.zeros(0, requires_grad=True), list(range(n))


def empty():
    return nothing(anchor, ids.values(), ids.offsets(), None, 1, keys, 1, n * dim, True)


def ours():
    return bags(ids).values()


def least(work, repeat=300, rounds=15):
    """The least of several means, of processor time, which other processes disturb less than they do the clock."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(repeat):
            work()
        best = min(best, (time.process_time() - begin) / repeat)
    return best


found = {}
for name, forward in ("empty ", empty), ("", ours):
    found[name + "forward"] = least(forward)
    found[name + "forward and backward"] = least(lambda: forward().backward(gradient))
print(json.dumps(found | {"versions": {"torch": torch.__version__}}))
