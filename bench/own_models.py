"""W15: the examples' own small models, a training step beside PyTorch's, and the time from `reckon train` to its first step."""
import datetime
import json
import os
import re
import shutil
import statistics
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

import report_parts
from common import BENCH, HOME, ROOT, call, spread

PROGRAMS = ROOT / "build" / "bench"
PYTHON = HOME / "venv-torch" / "bin" / "python"
OURS, EAGER, COMPILED = "Reckon", "PyTorch", "PyTorch compiled"
N_LOSSES, N_BATCHES = 5, 8
NOTES = ("A training step of the models in `examples/`, on their own data, whose batches are in memory as tensors before the time begins. Sides begin with the same parameters and read the same batches; without dropout their first five losses may differ by 1e-4 (Frappe 5e-4, Gowalla 1e-3: Adam makes whole steps of gradients that are mere rounding), or no time is shown. "
         "The timed steps have the examples' dropout. MovieLens is trained with `model.kind: dcn_v2`. PyTorch: all features' rows in one table; where `l2_full` is set dense gradients and Adam with weight_decay, else sparse ones and SparseAdam; fused Adam for the dense part; compiled: "
         "torch.compile. Gowalla's 4,096 sampled items are drawn within Reckon's step, and are there beforehand for PyTorch. floor: the matrix products alone (oneDNN at the model's own shapes, each as fast as the library has it), the bytes of rows that are looked up, and their updates, by gather's rate, the smallest sort of the ids (as of W1 to W4), "
         "and the smallest loop that reads and writes every value that each step changes, with its two slots: dense parameters and, where `l2_full` is set, all rows.")


@dataclass
class OwnModel:
    """A run file and what the peer has to know of it."""
    name: str
    run: str
    data: str  # whose being there says that it can be run, from examples/
    kind: str
    n: int  # samples a batch
    steps: int  # timed in each process
    deep: list = field(default_factory=list)
    overrides: tuple = ()
    dropout: float = 0
    batch_norm: bool = False
    cross_layers: int = 0
    loss: str = "logloss"
    l2_full: float = 0
    rate: float = 0.001
    margin: float = 0
    negative_weight: float = 0
    sampled: int = 0  # items
    tolerance: float = 1e-4


CASES = [OwnModel("Adult, Wide & Deep", "adult", "../data/adult/adult.data.gz", "wide_deep", 256, 1000, [128, 64], dropout=0.2),
         OwnModel("Frappe, DNN", "frappe_dnn", "../../shared/data/frappe/train.libsvm.gz", "dnn", 4096, 15, [400, 400, 400], dropout=0.2, batch_norm=True, l2_full=0.05, tolerance=5e-4),
         OwnModel("MovieLens, DCN v2", "movielens", "../../shared/data/ml-100k/u1.base.gz", "dcn_v2", 512, 500, [64, 32], ("model.kind=dcn_v2",), dropout=0.3, cross_layers=2, loss="mse", l2_full=0.0001),
         OwnModel("Gowalla, two towers", "gowalla_two_tower", "../../shared/data/gowalla/train.txt.gz", "two_tower", 256, 40, dropout=0.1, l2_full=1e-7, rate=0.0001, margin=0.9, negative_weight=250, sampled=4096, tolerance=1e-3)]


def overrides(case, *more):
    return [word for setting in (*case.overrides, *more) for word in ("--set", setting)]


def run_file(case):
    return ROOT / "examples" / f"{case.run}.yaml"


def ours(case, args, *options):
    env = {"RK_ISA": args.isa} if args.isa else {}
    return call([PROGRAMS / "bench_own_model", run_file(case), "--batches", str(N_BATCHES), "--threads", str(args.threads), *map(str, options)], env)


def peer(case, folder, args, config, steps, dropout):
    (folder / "case.json").write_text(json.dumps(vars(case) | {"dropout": dropout, "n_batches": N_BATCHES}))
    return call([PYTHON, BENCH / "peers" / "torch_own_model.py", folder, "--steps", str(steps), "--threads", str(args.threads), "--config", config])["train"]


def dump(case):
    """What the peer begins with, and the parameters' shapes: {name: (rows, columns)}."""
    folder = HOME / "data" / "W15" / case.run
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    done = subprocess.run([PROGRAMS / "bench_own_model", run_file(case), "--batches", str(N_BATCHES), *overrides(case), "--dump", folder], check=True, capture_output=True, text=True)
    (folder / "shapes.txt").write_text(done.stdout)
    return folder, {line.split()[0]: tuple(map(int, line.split()[1:])) for line in done.stdout.splitlines()}


def is_table(name):
    return name.startswith("table.") and name.endswith(".rows")


def limits_of_rows(case, folder, shapes, args):
    """Bytes a second of the smallest loop over rows like the model's, of the next larger dim that it knows, and seconds of the smallest sort of their ids: a feature of one id a sample for each table."""
    lines = [f"{N_BATCHES} {case.n} 0"]
    for name, (rows, dim) in shapes.items():
        if is_table(name):
            np.random.default_rng(15).integers(rows, size=(N_BATCHES, case.n)).tofile(folder / f"{name}.i64")
            lines.append(f"{name} {rows} {next((d for d in (16, 32, 64) if d >= dim), 128)} 1")
    (folder / "features.txt").write_text("\n".join(lines) + "\n")
    gather = call([PROGRAMS / "bench_limits", "gather", folder, "--threads", str(args.threads), "--repeat", "50"])
    return gather["bytes"] / statistics.median(gather["seconds"]), min(gather["sort_seconds"])


def sweep_seconds(case, shapes, args):
    """Of the values that every step changes, with two slots."""
    values = sum(rows * columns for name, (rows, columns) in shapes.items() if (case.l2_full if name.startswith("table.") else name != "batch") and not name.endswith((".m", ".v")))
    return min(call([PROGRAMS / "bench_limits", "sweep", str(3 * 4 * values), "--threads", str(args.threads), "--repeat", "50"])["seconds"])


def row_bytes(case, folder, shapes):
    """Looked-up rows, their activations and gradients, and, but with l2_full, the rows that are updated, with two slots, read and written."""
    n_bytes = 0
    for name, (rows, dim) in shapes.items():
        if not is_table(name):
            continue
        feature = name.split(".")[1]
        uses = [np.fromfile(folder / f"0.{part}.ids", np.int64) for part in (feature, "history") if (part == feature or feature == "item") and (folder / f"0.{part}.ids").exists()]
        n_uses, unique = sum(map(len, uses)), len(np.unique(np.concatenate(uses)))
        outputs = sum(case.n + case.sampled * (part == "item") for part in {feature, "history"} if part == feature or (feature == "item" and (folder / "0.history.ids").exists()))
        n_bytes += 4 * dim * (n_uses + 2 * outputs + 6 * (0 if case.l2_full else unique))
    return n_bytes


def products(case, shapes, args):
    """Seconds of all matrix products, forward and backward."""
    layers = [(columns, rows) for name, (rows, columns) in shapes.items() if name.endswith(".weight")]
    if case.kind == "two_tower":
        layers = [(case.sampled, shapes["table.item.rows"][1])]
    total = 0
    for (outputs, inputs), count in Counter(layers).items():
        measured = call([PROGRAMS / "bench_limits", "gemm", str(case.n), str(outputs), str(inputs), "--threads", str(args.threads), "--repeat", "50"])
        total += count * sum(measured["f32"].values())
    return total


def check_equality(case, folder, args):
    """The greatest difference of the first losses, without dropout, of both settings of the peer."""
    reference = ours(case, args, "--steps", N_LOSSES, "--warm", 0, *overrides(case, "model.dropout=0"))["losses"]
    found = {}
    for side, config in (EAGER, "eager"), (COMPILED, "compile"):
        if args.side and side not in args.side:
            continue
        try:
            losses = peer(case, folder, args, config, 1, 0)["losses"]
            found[side] = max(abs(a - b) / max(abs(a), 1e-9) for a, b in zip(reference, losses[:N_LOSSES]))
        except RuntimeError as error:
            found[side] = str(error)
    print(f"{case.name}: " + ", ".join(f"{side} {far if isinstance(far, str) else format(far, '.1e')}" for side, far in found.items()), flush=True)
    return reference, found


def train_until(case, cache, word):
    """Seconds from the command `reckon train` to the first line about a step that has the word; then it is ended. cache: what RK_CACHE is."""
    output = HOME / "data" / "W15" / "run"
    shutil.rmtree(output, ignore_errors=True)
    begin = time.perf_counter()
    process = subprocess.Popen([ROOT / "build" / "reckon", "train", "--output", output, *overrides(case, "train.log_every=1"), run_file(case)], env=os.environ | {"RK_CACHE": str(cache)}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    found = any(line.startswith("step ") and word in line for line in process.stderr)
    passed = time.perf_counter() - begin
    process.kill()
    process.wait()
    if not found:
        raise RuntimeError(f"{case.name}: the run ended early")
    return passed


def measure_first_step(case, args):
    """Of data that an epoch of an earlier run has parsed, and without what that has kept."""
    cache = HOME / "data" / "W15" / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    train_until(case, cache, "epoch 2 ")
    return {name: spread([train_until(case, where, "epoch 1 ") for _ in range(args.rounds)]) for name, where in (("kept", cache), ("parsed", "off"))}


def measure_case(case, args):
    folder, shapes = dump(case)
    reference, apart = check_equality(case, folder, args)
    sides = {OURS: []} | {side: [] for side, far in apart.items() if not isinstance(far, str) and far <= case.tolerance}
    steps = args.steps or case.steps
    limits, versions = [], {}
    for r in range(args.rounds):
        limits.append((products(case, shapes, args), *limits_of_rows(case, folder, shapes, args), sweep_seconds(case, shapes, args)))
        for side in sides:
            run = ours(case, args, "--steps", steps, *overrides(case)) if side == OURS else peer(case, folder, args, "eager" if side == EAGER else "compile", steps, case.dropout)
            sides[side].append(statistics.median(run["seconds"]))
            versions |= {side: run["versions"]} if "versions" in run else {}
        print(f"  round {r + 1}: " + ", ".join(f"{side} {runs[-1] * 1e3:.3f} ms" for side, runs in sides.items()), flush=True)
    gemm, rate, sort, sweep = (best(found) for best, found in zip((min, max, min, min), zip(*limits)))
    n_bytes = row_bytes(case, folder, shapes)
    return {"name": case.name, "samples": case.n, "losses": reference, "differences": apart, "versions": versions, "floor": gemm + n_bytes / rate + sort + sweep, "products": gemm, "row_bytes": n_bytes,
            "gather_bytes_per_second": rate, "sort": sort, "sweep": sweep, "sides": {side: spread(runs) for side, runs in sides.items()}, "first_step": measure_first_step(case, args)}


def goals(cases):
    of = lambda case, side: case["sides"][side]["median"] if side in case["sides"] else float("inf")
    ahead = [(f"ahead of {side}: its time by ours", min(of(c, side) / of(c, OURS) for c in cases), ">=", 1) for side in (EAGER, COMPILED) if all(side in c["differences"] for c in cases)]
    found = [("<= 1.25 of floor", max(of(c, OURS) / c["floor"] for c in cases), "<=", 1.25), *ahead,
             ("first step after data parsed once before, s", max(c["first_step"]["kept"]["median"] for c in cases), "<=", 0.2)]
    return [{"goal": goal, "value": value, "sign": sign, "limit": limit, "reached": value >= limit if sign == ">=" else value <= limit} for goal, value, sign, limit in found]


def measure(args):
    """What is known after each case."""
    cases = []
    for case in (c for c in CASES if re.search(args.case, c.name)):
        if not (ROOT / "examples" / case.data).exists():
            print(f"{case.name} is left out: its data may not be shipped, and '{case.data}' is not there")
            continue
        cases.append(measure_case(case, args))
        result = {"workload": "W15", "title": "small models: the examples' own", "notes": NOTES, "date": datetime.date.today().isoformat(), "small": args.small, "threads": args.threads, "isa": args.isa or "", "rounds": args.rounds,
                  "machine": report_parts.machine(), "source": report_parts.source(ROOT), "versions": {side: v for c in cases for side, v in c["versions"].items()}, "cases": cases}
        yield result | {"goals": goals(cases)}
