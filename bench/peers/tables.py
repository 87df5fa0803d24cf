"""W14 (b): W1's training step in PyTorch, by reckon.torch's EmbeddingBagCollection or TorchRec's FusedEmbeddingBagCollection (--config), both with rowwise Adagrad in the backward."""
import os
import sys
from pathlib import Path

import numpy as np
import torch
import torchrec
from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection
from torchrec.optim import RowWiseAdagrad

from common import Workload, arguments, finish, sums, timed

args = arguments()
torch.set_num_threads(args.threads)
os.environ["RK_THREADS"] = str(args.threads)
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
w = Workload(args.directory)
names = [f.name for f in w.features]
if args.config == "TorchRec":
    configs = [torchrec.EmbeddingBagConfig(name=f"t_{f.name}", embedding_dim=f.dim, num_embeddings=f.rows, feature_names=[f.name], init_fn=lambda weight: weight.fill_(0.01)) for f in w.features]
    bags = FusedEmbeddingBagCollection(configs, optimizer_type=RowWiseAdagrad, optimizer_kwargs={"lr": w.rate, "eps": w.epsilon}, device=torch.device("cpu"))
    for module in bags.embedding_bags.values():
        module.weight.detach().fill_(0.01)
else:
    from reckon.torch import EmbeddingBagCollection, EmbeddingBagConfig

    configs = [EmbeddingBagConfig(f.rows, f.dim, f"t_{f.name}", feature_names=[f.name], weight_init_min=0.01, weight_init_max=0.01) for f in w.features]
    bags = EmbeddingBagCollection(configs, optimizer={"kind": "rowwise_adagrad", "learning_rate": w.rate, "epsilon": w.epsilon})
gradient = torch.from_numpy(np.concatenate(w.gradients(), axis=1))
lengths = torch.from_numpy(np.repeat([f.hotness for f in w.features], w.n))
batches = []
for b in range(w.n_batches):
    values = torch.from_numpy(np.concatenate([f.ids[b].ravel() for f in w.features]))
    batches.append(torchrec.KeyedJaggedTensor.from_lengths_sync(names, values, lengths))
    batches[-1].offsets()  # which stay with it


def train(i):
    bags(batches[i % w.n_batches]).values().backward(gradient)


result = timed(train, args.steps)
with torch.no_grad():
    outputs = [bags(batches[0]).values().numpy()]
finish({"train": result | sums(outputs)}, args.threads, torch, torchrec)
