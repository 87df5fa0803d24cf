"""W14: in Python. A DataFrame to a trained epoch, beside pyarrow and TorchRec; embedding tables in a PyTorch model, beside TorchRec's; and what a call costs."""
import datetime
import statistics

import numpy as np

import data
import report_parts
from common import BENCH, HOME, ROOT, call
from workloads import WORKLOADS, Case, Feature

PYTHON = HOME / "venv-torch" / "bin" / "python"
OURS, PEER, LIBRARY = "Reckon", "TorchRec", "Reckon's library"
N_DENSE, N_IDS, BATCH = 13, 26, 4000
NOTES = ("(a) A pandas DataFrame of 1,000,000 rows and 40 columns (a label, 13 numbers, 26 columns of zipf(1.05) ids in 100,000 rows each) becomes one trained epoch: dim 16, sum, MLP 256-128, Adagrad, batches of 4,000 in the order of the rows. Reckon: "
         "`reckon.train(run, train=frame)` until the last step, its checkpoint apart. Peer: the frame as a pyarrow table, its columns as numpy arrays without copies, a KeyedJaggedTensor a batch, FusedEmbeddingBagCollection and TorchRec's MLP. Both sides' losses on the same "
         "100,000 rows afterwards are compared (they begin with other parameters of the same size). Memory: what a row more adds to the peak of the process, beside the bytes of its columns. (b) W1's cases of the same names: forward, backward from the same upstream gradient, rowwise Adagrad; "
         "`reckon.torch.EmbeddingBagCollection` and TorchRec's FusedEmbeddingBagCollection in PyTorch, from KeyedJaggedTensors that are there, and Reckon's library alone (`bench_lookup`) in the same rounds. (c) forward and backward of one sample, one id a feature, beside an "
         "operator of torch.library with the same arguments and an autograd formula that does nothing; processor time of one thread, the least of 15 means. With 26 features the library's own work for 26 tables is in it.")


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def make_frame(folder, n):
    """Columns as arrays; the label follows from a number and from the ids of one column."""
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    case = Case("frame", n, 1, [Feature(f"c{i}", 100_000, 1, 16) for i in range(N_IDS)], "zipf")
    ids = np.stack([data.feature_ids(case, feature)[0, :, 0] for feature in case.features])
    random = np.random.default_rng(14)
    numbers = random.standard_normal((N_DENSE, n), np.float32)
    noise = random.standard_normal(n, np.float32)
    np.save(folder / "ids.npy", ids)
    np.save(folder / "numbers.npy", numbers)
    np.save(folder / "label.npy", (numbers[0] + (ids[0] % 5 - 2) + noise > 0).astype(np.int64))
    (folder / "done").touch()


def frame_side(side, folder, rows, args):
    return call([PYTHON, BENCH / "peers" / "frame_epoch.py", folder, side, "--rows", str(rows), "--batch", str(BATCH), "--threads", str(args.threads)])


def measure_frame(args):
    n = 40_000 if args.small else 1_000_000
    folder = HOME / ("data-small" if args.small else "data") / "W14" / "frame"
    make_frame(folder, n)
    rounds = {OURS: [], PEER: []}
    for _ in range(args.rounds):
        for side, runs in rounds.items():
            runs.append(frame_side(side, folder, n, args))
            print(f"  (a) {side}: {runs[-1]['seconds']:.2f} s, loss {runs[-1]['loss']:.4f}", flush=True)
    apart = max(abs(a["loss"] - b["loss"]) for a, b in zip(*rounds.values()))
    few = frame_side(OURS, folder, n // 2, args)
    added = (rounds[OURS][0]["grown_bytes"] - few["grown_bytes"]) / (n - n // 2)
    return {"rows": n, "difference": apart, "row_bytes": rounds[OURS][0]["row_bytes"], "added_bytes": added, "versions": {side: runs[0]["versions"] for side, runs in rounds.items()},
            "sides": {side: spread([r["seconds"] for r in runs]) for side, runs in rounds.items()}, "losses": {side: runs[0]["loss"] for side, runs in rounds.items()}}


def table_cases(small):
    cases = {case.name: case for case in WORKLOADS["W1"](small, False).cases}
    return [cases[name] for name in ("dim 16, pooling 1, zipf", "dim 64, pooling 10, zipf")]


def measure_tables(case, args):
    folder = HOME / ("data-small" if args.small else "data") / "W1" / case.name.replace(", ", "-").replace(" ", "_")
    data.make(case, folder, ROOT / "build" / "bench")
    steps = str(args.steps or case.steps)
    rounds = {OURS: [], PEER: [], LIBRARY: []}
    for _ in range(args.rounds):
        for side in OURS, PEER:
            rounds[side].append(call([PYTHON, BENCH / "peers" / "tables.py", folder, "--steps", steps, "--threads", str(args.threads), "--config", side]))
        options = ["--mode", "train", "--gather", "no", "--optimizer", case.optimizer, "--rate", str(case.rate), "--dtype", "f32"]
        rounds[LIBRARY].append({"train": call([ROOT / "build" / "bench" / "bench_lookup", folder, *options, "--steps", steps, "--threads", str(args.threads)])})
        print(f"  (b) {case.name}: " + ", ".join(f"{side} {statistics.median(runs[-1]['train']['seconds']) * 1e3:.2f} ms" for side, runs in rounds.items()), flush=True)
    squares = {side: [r["train"]["squares"] for r in runs] for side, runs in rounds.items()}
    apart = max(abs(s - squares[OURS][0]) / squares[OURS][0] for found in squares.values() for s in found)
    if apart > 1e-4:
        raise RuntimeError(f"activations differ: {squares}")
    return {"name": case.name, "difference": apart, "sides": {side: spread([statistics.median(r["train"]["seconds"]) for r in runs]) for side, runs in rounds.items()}}


def measure_calls(args):
    rows = []
    for n_features in 1, 26:
        runs = [call([PYTHON, BENCH / "peers" / "call.py", str(n_features)]) for _ in range(args.rounds)]
        rows.append({"features": n_features} | {key: spread([r[key] for r in runs]) for key in runs[0] if key != "versions"})
        print(f"  (c) {n_features} features: " + ", ".join(f"{key} {value['median'] * 1e6:.1f} us" for key, value in rows[-1].items() if key != "features"), flush=True)
    return rows


def goals(result):
    frame, tables, calls = result["frame"], result["tables"], result["calls"]
    median = lambda sides, side: sides[side]["median"]
    ratio = median(frame["sides"], PEER) / median(frame["sides"], OURS)
    kept = [median(t["sides"], LIBRARY) / median(t["sides"], OURS) for t in tables]
    found = [("(a) both have learned the same: difference of the losses afterwards", frame["difference"], "<=", 0.02),
             ("(a) ahead of pyarrow + TorchRec: time of the peer by ours", ratio, ">=", 1),
             ("(a) bytes that a row adds to memory, by those of its columns: no copy of all columns", frame["added_bytes"] / frame["row_bytes"], "<=", 0.5),
             ("(b) ahead of TorchRec: time of the peer by ours, worst case", min(median(t["sides"], PEER) / median(t["sides"], OURS) for t in tables), ">=", 1),
             ("(b) what PyTorch leaves of the library's own speed, worst case", min(kept), ">=", 0.9)]
    row = calls[0]
    found.append(("(c) a forward above an empty operator, us", (row["forward"]["median"] - row["empty forward"]["median"]) * 1e6, "<=", 20))
    return [{"goal": goal, "value": value, "sign": sign, "limit": limit, "reached": value >= limit if sign == ">=" else value <= limit} for goal, value, sign, limit in found]


def measure(args):
    """args.rounds: three are enough of what differs by so little."""
    args.rounds = min(args.rounds, 3)
    frame = measure_frame(args)
    result = {"workload": "W14", "title": "in Python: DataFrames, and tables in PyTorch", "notes": NOTES, "date": datetime.date.today().isoformat(), "small": args.small, "threads": args.threads, "isa": args.isa or "", "rounds": args.rounds,
              "machine": report_parts.machine(), "source": report_parts.source(ROOT), "versions": frame["versions"], "frame": frame, "calls": measure_calls(args),
              "tables": [measure_tables(case, args) for case in table_cases(args.small)]}
    return result | {"goals": goals(result)}
