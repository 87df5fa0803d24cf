"""W3 and W4 by TorchRec on the CPU: FusedEmbeddingBagCollection (FBGEMM's table-batched embeddings with fused exact Adagrad) below an MLP of TorchRec's, or
below its DLRM_DCN. --dtype bf16: autocast of the dense part but for the last layer."""
import contextlib

import fbgemm_gpu
import numpy as np
import torch
import torchrec
from torch.nn import functional
from torchrec.models.dlrm import DLRM_DCN, OverArch
from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from common import Workload, arguments, finish, timed

args = arguments()
torch.set_num_threads(args.threads)
w = Workload(args.directory)
model = w.case["model"]
assert w.case["optimizer"] == "adagrad" and w.case["combiner"] == "sum" and model["kind"] in ("dnn", "dcn_v2")

names = [f.name for f in w.features]
tables = FusedEmbeddingBagCollection(
    [EmbeddingBagConfig(name=f"t_{f.name}", embedding_dim=f.dim, num_embeddings=f.rows, feature_names=[f.name], pooling=PoolingType.SUM, init_fn=lambda weight: weight.fill_(0.01))
     for f in w.features],
    optimizer_type=torch.optim.Adagrad, optimizer_kwargs={"lr": w.rate, "eps": w.epsilon}, device=torch.device("cpu"))
for module in tables.embedding_bags.values():
    module.weight.detach().fill_(0.01)


def keyed(b):
    lengths = np.repeat([f.hotness for f in w.features], w.n)
    values = np.concatenate([f.ids[b].ravel() for f in w.features])
    return KeyedJaggedTensor.from_lengths_sync(names, torch.from_numpy(values), torch.from_numpy(lengths))


def fill(linears, layers):
    linears = list(linears)
    assert len(linears) == len(layers)
    with torch.no_grad():
        for linear, (weight, bias) in zip(linears, layers):
            linear.weight.copy_(torch.from_numpy(weight).t())
            linear.bias.copy_(torch.from_numpy(bias))


def linears(module):
    return (m for m in module.modules() if isinstance(m, torch.nn.Linear))


over_layers = w.layers("deep") + [w.layer("logits")]
if model["kind"] == "dcn_v2":
    net = DLRM_DCN(tables, w.n_dense, model["bottom"], model["deep"] + [1], model["cross_layers"], model["cross_rank"])
    over = net.over_arch
    fill(linears(net.dense_arch), w.layers("bottom"))
    cross = net.inter_arch.crossnet
    with torch.no_grad():
        for k in range(model["cross_layers"]):
            cross.V_kernels[k].copy_(torch.from_numpy(w.layer(f"cross_{k}_v")[0]).t())
            weight, bias = w.layer(f"cross_{k}_u")
            cross.W_kernels[k].copy_(torch.from_numpy(weight).t())
            cross.bias[k].copy_(torch.from_numpy(bias))
    dense = list(net.dense_arch.parameters()) + list(net.inter_arch.parameters()) + list(over.parameters())
else:
    over = OverArch(sum(f.dim for f in w.features) + w.n_dense, model["deep"] + [1])
    dense = list(over.parameters())
fill(linears(over), over_layers)
optimizer = torch.optim.Adagrad(dense, lr=w.rate, eps=w.epsilon, fused=True)
batches = [(keyed(b), torch.from_numpy(w.dense[b]), torch.from_numpy(w.labels[b])) for b in range(w.n_batches)]
losses = []


def hidden(ids, numbers):
    """The top MLP's last hidden layer, whose linear layer stays in f32."""
    if model["kind"] == "dcn_v2":
        x = net.inter_arch(net.dense_arch(numbers), net.sparse_arch(ids))
    else:
        x = torch.cat([tables(ids).values(), numbers], dim=1) if w.n_dense else tables(ids).values()
    return over.model[0](x)


def train(i):
    ids, numbers, labels = batches[i % w.n_batches]
    with torch.autocast("cpu", dtype=torch.bfloat16) if args.dtype == "bf16" else contextlib.nullcontext():
        x = hidden(ids, numbers)
    loss = functional.binary_cross_entropy_with_logits(over.model[1](x.float())[:, 0], labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())


finish({"train": timed(train, args.steps) | {"losses": losses}}, args.threads, torch, torchrec, fbgemm_gpu)
