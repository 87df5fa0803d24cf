"""What the tests of reckon.torch train: a model over its tables, the same over PyTorch's own, and batches."""

import copy

import rows  # noqa: F401 finds the package
import torch

from reckon.torch import DataType, EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor, PoolingType

torch.set_num_threads(1)
STEPS, BATCH, DIM = 100, 32, 8
SIZES = {"user": 50, "item": 200}
FEATURES = {"user": "user", "item": "item", "history": "item"}  # two features read one table
# Ours, and PyTorch's of the same rule. (Its dense Adam goes on moving rows that a batch does not use.)
OPTIMIZERS = {
    "sgd": ({"kind": "sgd", "learning_rate": 0.1}, lambda p: torch.optim.SGD(p, lr=0.1)),
    "adagrad": ({"kind": "adagrad", "learning_rate": 0.1, "initial_accumulator": 0.1, "epsilon": 1e-8}, lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.1, eps=1e-8)),
    "rowwise_adagrad": ({"kind": "rowwise_adagrad", "learning_rate": 0.1, "epsilon": 1e-8}, lambda p: RowwiseAdagrad(p, lr=0.1, eps=1e-8)),
    "adam": ({"kind": "adam", "learning_rate": 0.01, "epsilon": 1e-8}, lambda p: LazyAdam(p, lr=0.01, eps=1e-8)),
}


class RowwiseAdagrad(torch.optim.Optimizer):
    """One sum a row, of the means of its gradients' squares: FBGEMM's rule."""

    def __init__(self, parameters, lr, eps):
        super().__init__(parameters, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                sums = self.state[p].setdefault("sums", torch.zeros(len(p)))
                sums += (p.grad**2).mean(1)
                p -= group["lr"] * p.grad / (sums.sqrt() + group["eps"])[:, None]


class LazyAdam(torch.optim.Optimizer):
    """torch.optim.Adam's rule on the rows that have a gradient; the others stay as they are. (SparseAdam does not correct the bias of what epsilon is added to.)"""

    def __init__(self, parameters, lr, eps):
        super().__init__(parameters, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p] or {"n": 0, "m": torch.zeros_like(p), "v": torch.zeros_like(p)}
                self.state[p] = state
                state["n"] += 1
                rows = p.grad.abs().sum(1) > 0
                g = p.grad[rows]
                state["m"][rows] = m = 0.9 * state["m"][rows] + 0.1 * g
                state["v"][rows] = v = 0.999 * state["v"][rows] + 0.001 * g * g
                m, v = m / (1 - 0.9 ** state["n"]), v / (1 - 0.999 ** state["n"])
                p[rows] -= group["lr"] * m / (v.sqrt() + group["eps"])


def draw(seed, dtype=torch.int64, batch=BATCH, most=4):
    """Bags of 0 to `most` ids, some of them twice, and labels that follow from them."""
    r = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, most + 1, (len(FEATURES) * batch,), generator=r)
    ids = [torch.randint(0, SIZES[table], (int(n),), generator=r) for table, n in zip(FEATURES.values(), lengths.view(len(FEATURES), batch).sum(1))]
    labels = torch.rand(batch, generator=r).round()
    return torch.cat(ids).to(dtype), lengths.to(dtype), torch.rand(int(lengths.sum()), generator=r), labels


class Ours(torch.nn.Module):
    def __init__(self, optimizer, pooling=PoolingType.SUM, is_weighted=False, update="step", data_type=DataType.FP32):
        super().__init__()
        tables = [EmbeddingBagConfig(n, DIM, name, data_type, [f for f in FEATURES if FEATURES[f] == name], pooling=pooling) for name, n in SIZES.items()]
        self.bags = EmbeddingBagCollection(tables, is_weighted, optimizer=optimizer, update=update, seed=3)
        torch.manual_seed(4)
        self.dense = torch.nn.Linear(DIM * len(FEATURES), 1)
        self.rows = [self.bags.optimizer]

    def vectors(self, ids, lengths, weights):
        bags = self.bags(KeyedJaggedTensor(list(FEATURES), ids, weights, lengths))
        return bags.values()

    def loss(self, ids, lengths, weights, labels):
        logits = self.dense(self.vectors(ids, lengths, weights))[:, 0]
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)


class Theirs(Ours):
    """The same of PyTorch's own."""

    def __init__(self, ours, make_optimizer, pooling=PoolingType.SUM):
        torch.nn.Module.__init__(self)
        state = ours.bags.state_dict()
        self.tables = torch.nn.ModuleDict(
            {name: torch.nn.EmbeddingBag(n, DIM, mode=pooling.value.lower(), _weight=state[f"embedding_bags.{name}.weight"].clone()) for name, n in SIZES.items()}
        )
        self.dense = copy.deepcopy(ours.dense)
        self.rows = [make_optimizer(table.parameters()) for table in self.tables.values()]

    def vectors(self, ids, lengths, weights):
        bags = KeyedJaggedTensor(list(FEATURES), ids, weights, lengths)
        return torch.cat([self.tables[table](bags[f].values(), bags[f].offsets()[:-1], bags[f]._weights) for f, table in FEATURES.items()], 1)


def train(model, batches, accumulate=1):
    dense = torch.optim.SGD(model.dense.parameters(), lr=0.1)
    losses = []
    for i, batch in enumerate(batches):
        loss = model.loss(*batch)
        losses.append(loss.item())
        loss.backward()
        if (i + 1) % accumulate == 0:
            for optimizer in (dense, *model.rows):
                optimizer.step()
                optimizer.zero_grad()
    return torch.tensor(losses)


def without_weights(batches):
    return [(ids, lengths, None, labels) for ids, lengths, _, labels in batches]
