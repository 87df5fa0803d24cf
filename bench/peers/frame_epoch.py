"""W14 (a): a DataFrame to a trained epoch, by Reckon, or by pyarrow and TorchRec. FOLDER SIDE; prints seconds, the loss on the first rows, and what the process's peak grew by."""
import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from common import finish

DIM, ROWS, DEEP, RATE, EVALUATED = 16, 100_000, [256, 128], 0.02, 100_000
BOUND = ROWS**-0.5  # of initial rows, as TorchRec has it


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("side", choices=["Reckon", "TorchRec"])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--threads", type=int)
    return parser.parse_args()


def read_frame(folder, n):
    """Its columns are memory of its own."""
    ids, numbers, label = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("ids", "numbers", "label"))
    return pd.concat([pd.DataFrame({"label": label[:n]}), pd.DataFrame(ids[:, :n].T.copy(order="F"), columns=[f"c{i}" for i in range(len(ids))], copy=False),
                      pd.DataFrame(numbers[:, :n].T.copy(order="F"), columns=[f"n{i}" for i in range(len(numbers))], copy=False)], axis=1)


def resident(what):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(what))


def forget_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return resident("VmRSS")


def by_reckon(frame, args):
    os.environ["RK_THREADS"] = str(args.threads)
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    import reckon

    features = [{"name": c, "identity": ROWS} if c[0] == "c" else {"name": c, "dense": True} for c in frame.columns if c != "label"]
    steps = -(-len(frame) // args.batch)
    run = {"data": {"shuffle": False, "labels": [{"name": "label"}], "features": features}, "embedding": {"dim": DIM, "initializer": {"kind": "uniform", "min": -BOUND, "max": BOUND}}, "model": {"kind": "dnn", "deep": DEEP},
           "train": {"batch_size": args.batch, "epochs": 1, "log_every": steps, "tensorboard": False, "optimizer": {"kind": "adagrad", "learning_rate": RATE, "initial_accumulator": 0, "epsilon": 1e-8}}}
    with tempfile.TemporaryDirectory() as directory:
        before, begin, ends = forget_peak(), time.perf_counter(), []
        model = reckon.train(run, train=frame, output=directory + "/run", callbacks=[lambda e: ends.append(time.perf_counter()) if e.kind == "progress" and e.step == steps else None])
        grown = resident("VmHWM") - before
        return ends[-1] - begin, model.eval(frame[:EVALUATED])["logloss"], grown, []


def by_torchrec(frame, args):
    import pyarrow as pa
    import torch
    import torchrec
    from torch.nn import functional
    from torchrec.models.dlrm import OverArch
    from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    names, numbers = ([c for c in frame.columns if c[0] == kind and c != "label"] for kind in "cn")
    tables = [torchrec.EmbeddingBagConfig(name=f"t_{n}", embedding_dim=DIM, num_embeddings=ROWS, feature_names=[n]) for n in names]
    before, begin = forget_peak(), time.perf_counter()
    bags = FusedEmbeddingBagCollection(tables, optimizer_type=torch.optim.Adagrad, optimizer_kwargs={"lr": RATE, "eps": 1e-8}, device=torch.device("cpu"))
    over = OverArch(DIM * len(names) + len(numbers), [*DEEP, 1])
    optimizer = torch.optim.Adagrad(over.parameters(), lr=RATE, fused=True)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    columns = {name: table.column(name).chunk(0).to_numpy(zero_copy_only=True) for name in table.column_names}

    def loss_of(first, last):
        ids = torch.from_numpy(np.concatenate([columns[n][first:last] for n in names]))
        bags_in = torchrec.KeyedJaggedTensor.from_lengths_sync(names, ids, torch.ones(len(ids), dtype=torch.int64))
        dense = torch.from_numpy(np.stack([columns[n][first:last] for n in numbers], axis=1))
        labels = torch.from_numpy(columns["label"][first:last].astype(np.float32))
        return functional.binary_cross_entropy_with_logits(over(torch.cat([bags(bags_in).values(), dense], dim=1))[:, 0], labels)

    for first in range(0, len(frame), args.batch):
        loss = loss_of(first, first + args.batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    seconds, grown = time.perf_counter() - begin, resident("VmHWM") - before
    with torch.no_grad():
        n = min(EVALUATED, len(frame))
        losses = [loss_of(first, first + args.batch).item() for first in range(0, n, args.batch)]
    return seconds, sum(losses) / len(losses), grown, [pa, torch, torchrec]


args = arguments()
frame = read_frame(args.folder, args.rows)
seconds, loss, grown, modules = (by_reckon if args.side == "Reckon" else by_torchrec)(frame, args)
finish({"seconds": seconds, "loss": loss, "grown_bytes": grown, "row_bytes": int(sum(t.itemsize for t in frame.dtypes))}, args.threads, pd, *modules)
