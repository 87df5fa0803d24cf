"""W1 by FBGEMM's table-batched embeddings on the CPU: all tables in one operation, rowwise Adagrad fused into backward."""
import numpy as np
import torch
import fbgemm_gpu
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen

from common import Workload, arguments, finish, sums, timed

args = arguments()
torch.set_num_threads(args.threads)
w = Workload(args.directory)

tables = SplitTableBatchedEmbeddingBagsCodegen([(f.rows, f.dim, EmbeddingLocation.HOST, ComputeDevice.CPU) for f in w.features],
                                               optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD, learning_rate=w.rate, eps=w.epsilon,
                                               pooling_mode=PoolingMode.SUM)
for weight in tables.split_embedding_weights():
    weight.fill_(0.01)
gradient = torch.from_numpy(np.concatenate(w.gradients(), axis=1))
offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(np.repeat([f.hotness for f in w.features], w.n))]).astype(np.int64))
batches = [torch.from_numpy(np.concatenate([f.ids[b].ravel() for f in w.features])) for b in range(w.n_batches)]


def forward(i):
    with torch.no_grad():
        return tables(batches[i % w.n_batches], offsets)


def train(i):
    tables(batches[i % w.n_batches], offsets).backward(gradient)


result = {}
for mode, step in ("forward", forward), ("train", train):
    result[mode] = timed(step, args.steps) | sums([forward(0).numpy()])
finish(result, args.threads, torch, fbgemm_gpu)
