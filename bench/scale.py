"""W7: more ranks with as much work each, and more parameters with as many touched."""
import ctypes
import datetime
import json
import os
import re
import statistics
from dataclasses import replace

import numpy as np

import data
import ranks
import report_parts
from common import HOME, ROOT, call, spread
from hybrid import stale
from workloads import Feature, dlrm_dcnv2

PROGRAMS = ROOT / "build" / "bench"
SAMPLES_A_RANK, DIM, ROWS_HASHED = 256, 32, 200
SPACES = {"dense": range(6, 12), "dynamic": range(6, 15), "hashed": range(6, 15)}  # the powers of ten
KEYS = 8192  # that a dynamic table may have: more than the batches name
PR_SET_THP_DISABLE = 41
NOTES = ("Weak scaling: W4's features and hotness, tables of up to 100,000 rows of 32 values, cross rank 64, top MLP 1024-1024-512-256, 256 samples a rank and step, one thread "
         "a rank, all ranks on this machine (shared memory). More ranks than cores cannot be faster than ranks / cores of one rank's step; that is `ideal`. Id spaces: 26 features of four uniform ids, dim 32, one "
         "layer of 64 above, so that rows are most of the step, 512 samples, one process of one thread. dense: a row for every id; its first value is zero, so the memory of rows that no batch names is never touched (pages of 4 KiB, "
         "Adagrad's slots likewise). dynamic: a row for every id that a batch has named, in dynamic tables of up to 8,192 rows; losses are compared with dense's, to the bit. hashed: so many ids, hashed to 200 rows a table, which the smallest space's 1,202 ids a feature fill too (of 1,000 rows it would leave three of ten without an id, and have less to do); batches read from an rkb file within the time. The batches are taken in turn; after the first "
         "round of them their pages are there.")


def shape(n_ranks, small):
    case = dlrm_dcnv2(True, False).cases[0]
    full = dlrm_dcnv2(False, False).cases[0]
    features = [replace(f, rows=min(f.rows, 10_000 if small else 100_000), dim=DIM) for f in full.features]
    return replace(case, name=f"weak {n_ranks}", n=SAMPLES_A_RANK * n_ranks, features=features)


def ids_of(n_parameters):
    """Of each of 26 features."""
    return round(n_parameters / (26 * DIM))


def space(n_parameters, kind):
    """As made by data.py: with few rows, whatever the space."""
    features = [Feature(f"c{i}", min(ids_of(n_parameters), ROWS_HASHED), 4, DIM) for i in range(26)]
    return replace(dlrm_dcnv2(True, False).cases[0], name=f"{kind} {n_parameters:.0e}", n=512, n_batches=2, features=features, law="uniform", hashed=kind == "hashed",
                   model={"kind": "dnn", "deep": [64]})


def folder(case, small):
    return HOME / ("data-small" if small else "data") / "W7" / case.name.replace(" ", "-")


def make_space(n_parameters, kind, directory):
    """The ids are drawn from all of the space; dense tables have a row for each, dynamic ones for those that they meet."""
    case, ids, stamp = space(n_parameters, kind), ids_of(n_parameters), directory / "space.txt"
    if stamp.exists() and stamp.read_text() == f"{ids}":
        return
    data.make(case, directory, PROGRAMS)
    for i, f in enumerate(case.features):
        np.random.default_rng(i).integers(ids, size=(case.n_batches, case.n, f.hotness)).tofile(directory / f"{f.name}.i64")
    whole = case if kind == "hashed" else replace(case, features=[replace(f, rows=ids) for f in case.features])
    run = data.run_file(whole)
    run["embedding"]["initializer"] = {"kind": "zeros"}
    if kind == "dynamic":
        run["embedding"]["tables"] = [{"name": f.name, "max_capacity": KEYS, "eviction": {"policy": "none"}} for f in case.features]
    (directory / "run.yaml").write_text(json.dumps(run, indent=1))
    if kind == "hashed":
        data.write_rows(directory, PROGRAMS)
    stamp.write_text(f"{ids}")


def run_space(case, directory, steps):
    argv = [PROGRAMS / "bench_model", directory / "run.yaml", directory, "--threads", "1", "--steps", str(steps), "--warm", str(2 * case.n_batches)]
    return call(argv + (["--from", "rows"] if case.hashed else []))


def small_pages():
    """A row of a sparse table would take a huge page of 2 MiB for itself; programs started from here on have none."""
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def measure_spaces(args):
    spaces = [(10 ** n, kind) for kind, sizes in SPACES.items() for n in (sizes[::4] if args.small else sizes)]
    runs, failed = {key: [] for key in spaces}, {}
    for n, kind in spaces:
        make_space(n, kind, folder(space(n, kind), args.small))
    small_pages()
    for r in range(args.rounds):
        for n, kind in (key for key in spaces if key not in failed):
            case = space(n, kind)
            try:
                runs[n, kind].append(run_space(case, folder(case, args.small), args.steps or 200))
                print(f"    {case.name}: {statistics.median(runs[n, kind][-1]['seconds']) * 1e3:.2f} ms", flush=True)
            except RuntimeError as error:
                failed[n, kind] = str(error)
                print(f"    {case.name}: {error}", flush=True)
    compare_losses(runs)
    return [entry_of_space(n, kind, runs[n, kind], failed.get((n, kind))) for n, kind in spaces]


def compare_losses(runs):
    """A dynamic table's rows are those that a static one would have for the same ids."""
    for (n, kind), found in runs.items():
        dense = runs.get((n, "dense"))
        if kind == "dynamic" and found and dense and found[0]["losses"] != dense[0]["losses"]:
            raise RuntimeError(f"{n:.0e} parameters: dynamic and dense tables have different losses")


def entry_of_space(n, kind, runs, failed):
    out = {"parameters": n, "kind": kind}
    if failed:
        return out | {"failed": failed}
    return out | {"peak_bytes": max(run["peak_bytes"] for run in runs), "cpu_s": min(run["cpu_s"] for run in runs)} | spread([statistics.median(run["seconds"]) for run in runs])


def measure_ranks(args):
    counts = (1, 2, 4) if args.small else (1, 2, 3, 4, 6, 8)
    runs = {(n, s): [] for s in (0, 1) for n in counts}
    for r in range(args.rounds):
        for n, s in runs:
            case = shape(n, args.small)
            data.make(case, folder(case, args.small), PROGRAMS)
            runs[n, s].append(ranks.train(folder(case, args.small), stale(s), n, steps=args.steps or 6))
            print(f"    {n} ranks, {stale(s).name}: {ranks.step_seconds(runs[n, s][-1]):.3f} s", flush=True)
    cores = len(os.sched_getaffinity(0))
    out = []
    for (n, s), found in runs.items():
        one = statistics.median(ranks.step_seconds(run) for run in runs[1, s])
        out.append({"ranks": n, "mode": stale(s).name, "ideal": one * max(1, n / cores), "cpu_s": statistics.median(run["cpu_s"] for run in found),
                    "bytes_sent": statistics.median(run.get("bytes_sent", 0) for run in found)} | spread([ranks.step_seconds(run) for run in found]))
        out[-1]["efficiency"] = out[-1]["ideal"] / out[-1]["median"]
    return out


def goals(spaces):
    """The slowest space against the smallest; rows for ids that were met also against the smallest space's with a row for every id."""
    found = {kind: [s for s in spaces if s["kind"] == kind and "median" in s] for kind in SPACES}
    out = []
    for kind in SPACES:
        for key, what in ("median", "step time"), ("cpu_s", "CPU seconds"):
            value = max(s[key] for s in found[kind]) / found[kind][0][key]
            out.append({"goal": f"{what} flat in the id space within 5%: {kind}", "value": value, "reached": value <= 1.05})
    value = max(s["median"] for s in found["dynamic"]) / found["dense"][0]["median"]
    return out + [{"goal": "dynamic, any space <= 1.3 of dense, the smallest space", "value": value, "reached": value <= 1.3}]


def measure(args):
    """--case ranks, --case spaces: one of the two halves."""
    scaling = measure_ranks(args) if re.search(args.case, "ranks") else []
    spaces = measure_spaces(args) if re.search(args.case, "spaces") else []
    return {"workload": "W7", "title": "scale: ranks and id spaces", "notes": NOTES, "date": datetime.date.today().isoformat(), "small": args.small, "threads": 1, "isa": "",
            "machine": report_parts.machine(), "source": report_parts.source(ROOT), "cores": len(os.sched_getaffinity(0)), "scaling": scaling, "spaces": spaces,
            "goals": goals(spaces) if spaces else []}
