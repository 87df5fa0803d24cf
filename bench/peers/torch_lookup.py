"""W1 by PyTorch: an nn.EmbeddingBag a table with sparse gradients; rowwise Adagrad over the coalesced gradient by index_add_."""
import torch
from torch import nn

from common import Workload, arguments, finish, sums, timed

args = arguments()
torch.set_num_threads(args.threads)
w = Workload(args.directory)

bags = [nn.EmbeddingBag(f.rows, f.dim, mode="sum", sparse=True, _weight=torch.full((f.rows, f.dim), 0.01)) for f in w.features]
accumulators = [torch.zeros(f.rows) for f in w.features]
gradients = [torch.from_numpy(g) for g in w.gradients()]
batches = [[torch.from_numpy(f.ids[b]) for f in w.features] for b in range(w.n_batches)]


def forward(i):
    with torch.no_grad():
        return [bag(ids) for bag, ids in zip(bags, batches[i % w.n_batches])]


def train(i):
    outputs = [bag(ids) for bag, ids in zip(bags, batches[i % w.n_batches])]
    torch.autograd.backward(outputs, gradients)
    with torch.no_grad():
        for bag, accumulator in zip(bags, accumulators):
            gradient = bag.weight.grad.coalesce()
            rows, values = gradient.indices()[0], gradient.values()
            accumulator.index_add_(0, rows, values.square().mean(1))
            scale = w.rate / (accumulator[rows].sqrt() + w.epsilon)
            bag.weight.index_add_(0, rows, values * -scale.unsqueeze(1))
            bag.weight.grad = None


result = {}
for mode, step in ("forward", forward), ("train", train):
    result[mode] = timed(step, args.steps) | sums([o.numpy() for o in forward(0)])
finish(result, args.threads, torch)
