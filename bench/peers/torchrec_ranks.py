"""W6 by TorchRec over ranks, started by mpirun: DistributedModelParallel with whole tables on a rank each, fused exact Adagrad, the dense part by
DistributedDataParallel, all over gloo. Losses are those of the whole batch. --config fp16, powersgd: dense gradients by these communication hooks of PyTorch's (bf16's wants NCCL)."""
import os

import fbgemm_gpu
import numpy as np
import torch
import torch.distributed as dist
import torchrec
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn import functional
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed.model_parallel import DefaultDataParallelWrapper
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.distributed.types import ShardingEnv, ShardingType
from torchrec.models.dlrm import DLRM_DCN
from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from common import Workload, arguments, finish, timed

POWERSGD_RANK = 4
args = arguments()
torch.set_num_threads(args.threads)
rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
on_hosts = "RK_HOSTS" in os.environ  # tests/dist/hosts
first_host = "10.77.0.1" if on_hosts else "127.0.0.1"
os.environ["GLOO_SOCKET_IFNAME"] = "eth0" if on_hosts else "lo"
dist.init_process_group("gloo", init_method=f"tcp://{first_host}:7790", rank=rank, world_size=size)
w = Workload(args.directory)
model = w.case["model"]
here = w.n // size
names = [f.name for f in w.features]
tables = EmbeddingBagCollection(
    [EmbeddingBagConfig(name=f"t_{f.name}", embedding_dim=f.dim, num_embeddings=f.rows, feature_names=[f.name], pooling=PoolingType.SUM, init_fn=lambda weight: weight.detach().fill_(0.01))
     for f in w.features], device=torch.device("cpu"))
apply_optimizer_in_backward(torch.optim.Adagrad, tables.parameters(), {"lr": w.rate, "eps": w.epsilon})
net = DLRM_DCN(tables, w.n_dense, model["bottom"], model["deep"] + [1], model["cross_layers"], model["cross_rank"])


def fill(module, layers):
    with torch.no_grad():
        for linear, (weight, bias) in zip([m for m in module.modules() if isinstance(m, torch.nn.Linear)], layers, strict=True):
            linear.weight.copy_(torch.from_numpy(weight).t())
            linear.bias.copy_(torch.from_numpy(bias))


fill(net.dense_arch, w.layers("bottom"))
fill(net.over_arch, w.layers("deep") + [w.layer("logits")])
cross = net.inter_arch.crossnet
with torch.no_grad():
    for k in range(model["cross_layers"]):
        cross.V_kernels[k].copy_(torch.from_numpy(w.layer(f"cross_{k}_v")[0]).t())
        weight, bias = w.layer(f"cross_{k}_u")
        cross.W_kernels[k].copy_(torch.from_numpy(weight).t())
        cross.bias[k].copy_(torch.from_numpy(bias))
constraints = {f"t_{name}": ParameterConstraints(sharding_types=[ShardingType.TABLE_WISE.value]) for name in names}
sharder = EmbeddingBagCollectionSharder()
plan = EmbeddingShardingPlanner(topology=Topology(world_size=size, compute_device="cpu", local_world_size=1), constraints=constraints).plan(net, [sharder])
# PowerSGD's hook begins sums as others end, in another order on each rank where there are several buckets: they wait for one another for ever.
wrapper = DefaultDataParallelWrapper(bucket_cap_mb=4096) if args.config == "powersgd" else None
net = DistributedModelParallel(net, env=ShardingEnv.from_process_group(dist.group.WORLD), device=torch.device("cpu"), plan=plan, sharders=[sharder], init_data_parallel=True,
                               data_parallel_wrapper=wrapper)
if args.config == "fp16":
    net._dmp_wrapped_module.register_comm_hook(None, default_hooks.fp16_compress_hook)
elif args.config == "powersgd":
    state = powerSGD_hook.PowerSGDState(process_group=dist.new_group(), matrix_approximation_rank=POWERSGD_RANK, start_powerSGD_iter=2)
    net._dmp_wrapped_module.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
dense = [p for name, p in net.named_parameters() if "embedding_bags" not in name]
optimizer = torch.optim.Adagrad(dense, lr=w.rate, eps=w.epsilon, fused=True)


def share(b):
    part = slice(rank * here, (rank + 1) * here)
    lengths = np.repeat([f.hotness for f in w.features], here)
    ids = KeyedJaggedTensor.from_lengths_sync(names, torch.from_numpy(np.concatenate([f.ids[b][part].ravel() for f in w.features])), torch.from_numpy(lengths))
    return ids, torch.from_numpy(w.dense[b][part]), torch.from_numpy(w.labels[b][part])


batches = [share(b) for b in range(w.n_batches)]
losses = []


def train(i):
    ids, numbers, labels = batches[i % w.n_batches]
    loss = functional.binary_cross_entropy_with_logits(net(dense_features=numbers, sparse_features=ids)[:, 0], labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())


result = timed(train, args.steps)
total = torch.stack(losses) / size
dist.all_reduce(total)
if rank == 0:
    finish({"train": result | {"losses": total.tolist(), "versions": {"torch": torch.__version__, "torchrec": torchrec.__version__}}}, args.threads, torch, torchrec, fbgemm_gpu)
dist.barrier()
dist.destroy_process_group()
