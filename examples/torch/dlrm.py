"""TorchRec's DLRM over tables of Reckon: its model, its batches and its loss, with reckon.torch.EmbeddingBagCollection in place of its own.

    python examples/torch/dlrm.py [--tables reckon|torchrec] [--steps N] [--save FILE]
    torchrun --nproc-per-node 2 examples/torch/dlrm.py       tables over ranks, the dense part by DistributedDataParallel

It needs torch, torchrec and fbgemm-gpu-cpu; bench/requirements/torch.txt has versions that fit together.
"""

import argparse
import os

import torch
import torch.distributed as distributed
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.models.dlrm import DLRM, DLRMTrain

import reckon.torch

ROWS = [1_000, 20_000, 300, 50_000]
FEATURES = [f"cat_{i}" for i in range(len(ROWS))]
DIM, DENSE = 16, 13


def configs():
    return [EmbeddingBagConfig(name=f"t_{name}", embedding_dim=DIM, num_embeddings=rows, feature_names=[name]) for name, rows in zip(FEATURES, ROWS)]


def make_model(bags, seed=1):
    torch.manual_seed(seed)
    net = DLRM(bags, DENSE, dense_arch_layer_sizes=[64, DIM], over_arch_layer_sizes=[64, 32, 1], dense_device=torch.device("cpu"))
    return DLRMTrain(net)


def draw(step, n, rank=0):
    """n clicks: numbers, one to three ids a feature, and labels that follow from both."""
    r = torch.Generator().manual_seed(step * 1000 + rank)
    numbers = torch.randn(n, DENSE, generator=r)
    lengths = torch.randint(1, 4, (len(ROWS) * n,), generator=r)
    ids = [(torch.rand(int(total), generator=r) ** 3 * rows).long() for total, rows in zip(lengths.view(len(ROWS), n).sum(1), ROWS)]
    values = torch.cat(ids)
    bags = KeyedJaggedTensor.from_lengths_sync(FEATURES, values, lengths)
    first = values[torch.cumsum(lengths, 0)[:n] - 1]
    labels = (numbers[:, 0] + (first % 3).float() - 1 > 0).long()
    return bags, numbers, labels


class Batch:
    """What DLRMTrain takes."""

    def __init__(self, bags, numbers, labels):
        self.sparse_features, self.dense_features, self.labels = bags, numbers, labels


def train(model, optimizers, batches):
    losses = []
    for bags, numbers, labels in batches:
        loss, _ = model(Batch(bags, numbers, labels))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def dense_parameters(model):
    return [p for name, p in model.named_parameters() if "embedding_bags" not in name]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", choices=["reckon", "torchrec"], default="reckon")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--save", help="where the tables go in the end (safetensors)")
    args = parser.parse_args()
    ranks = None
    if "RANK" in os.environ:
        distributed.init_process_group("gloo")
        ranks = reckon.torch.Ranks.of_torch()
    rank, size = (ranks.rank, ranks.size) if ranks else (0, 1)
    if args.tables == "reckon":
        bags = reckon.torch.EmbeddingBagCollection(configs(), optimizer={"kind": "adagrad", "learning_rate": args.rate}, ranks=ranks)
        model = make_model(bags)
        optimizers = [torch.optim.Adagrad(dense_parameters(model), lr=args.rate), bags.optimizer]
    else:
        bags = EmbeddingBagCollection(tables=configs(), device=torch.device("cpu"))
        model = make_model(bags)
        optimizers = [torch.optim.Adagrad(model.parameters(), lr=args.rate)]
    learner = torch.nn.parallel.DistributedDataParallel(model) if ranks else model
    losses = train(learner, optimizers, (draw(step, args.batch // size, rank) for step in range(args.steps)))
    for step in range(0, args.steps, 10):
        mean = sum(losses[step : step + 10]) / len(losses[step : step + 10])
        if rank == 0:
            print(f"steps {step} to {min(step + 10, args.steps) - 1}: loss {mean:.4f}")
    if args.save:
        bags.save(args.save)
    if ranks:
        ranks.close()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
