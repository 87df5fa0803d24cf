"""W11: nearest neighbours, each side on one thread, at equal recall."""
import datetime
import json
import re
import statistics
import subprocess
import time

import numpy as np

import report_parts
from common import BENCH, HOME, ROOT, call

SIDES = {"reckon-exact": "Reckon exact", "faiss-exact": "FAISS exact", "reckon-ivf": "Reckon ivf", "faiss-ivf": "FAISS IVF, SQ8", "faiss-hnsw": "FAISS HNSW", "usearch": "usearch", "hnswlib": "hnswlib"}
KS, DIM, N_QUERIES, N_CENTRES, EPOCHS = (10, 100), 64, 2000, 1000, 4
NOTES = ("The k largest inner products. mixture: 150,000 vectors of dim 64 around 1,000 centres, whose numbers are normal with deviation 1; a vector is its centre plus normal noise of the deviation named; queries are "
         "drawn in the same way. Gowalla: the item vectors of `examples/gowalla_two_tower.yaml` after 4 epochs, and its users' vectors. Of 2,000 queries the first 1,000 choose each side's least setting (lists that are "
         "looked at, breadth of a graph's search) whose recall is 0.95, the others are measured. FAISS IVF: QT_8bit, as many lists as the power of two nearest to 2.6 times the square root of the vectors; graphs: 16 "
         "neighbours, breadth 200 when built. One thread a side; times are CPU time of the process, through each library's Python binding, ours through ctypes; a round loads the saved index in a process of its own.")


def mixture(folder, deviation, n):
    random = np.random.default_rng(11)
    centres = random.standard_normal((N_CENTRES, DIM), np.float32)
    draw = lambda m: centres[random.integers(N_CENTRES, size=m)] + np.float32(deviation) * random.standard_normal((m, DIM), np.float32)
    return draw(n), draw(N_QUERIES)


def gowalla(folder, n):
    """Items and users as `reckon recommend --vectors` writes them, of a run that is trained once."""
    program, run = ROOT / "build" / "reckon", folder / "run"
    if not (run / "checkpoints").exists():
        settings = [f"train.epochs={EPOCHS}", "train.optimizer.schedule.decay_steps=12660", "train.optimizer.learning_rate=0.0003"]
        subprocess.run([program, "train", "--quiet", "--overwrite", "--output", run, *(word for s in settings for word in ("--set", s)), ROOT / "examples" / "gowalla_two_tower.yaml"], check=True)
    for tower in "item", "user":
        if not (folder / f"{tower}.npy").exists():
            subprocess.run([program, "recommend", "--vectors", tower, "--output", folder / f"{tower}.npy", run], check=True)
    users = np.load(folder / "user.npy")
    return np.load(folder / "item.npy")[:n], users[np.random.default_rng(11).permutation(len(users))[:N_QUERIES]]


CASES = {"Gowalla": gowalla, "mixture, deviation 1": lambda folder, n: mixture(folder, 1, n), "mixture, deviation 1.5": lambda folder, n: mixture(folder, 1.5, n)}


def make(folder, vectors, n):
    """The arrays of a case, and the true k best by f32 products."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / f"measure-{max(KS)}.npy").exists():
        return len(np.load(folder / "items.npy", mmap_mode="r"))
    items, queries = (np.ascontiguousarray(a, np.float32) for a in vectors(folder, n))
    np.save(folder / "items.npy", items)
    for name, half in ("tune", queries[: N_QUERIES // 2]), ("measure", queries[N_QUERIES // 2 :]):
        scores = half @ items.T
        best = np.argpartition(-scores, max(KS), axis=1)[:, : max(KS)]
        best = np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable"), 1)
        np.save(folder / f"{name}.npy", half)
        for k in KS:
            np.save(folder / f"{name}-{k}.npy", best[:, :k])
    return len(items)


def run_side(what, folder, side, *options):
    return call([HOME / "venv-index" / "bin" / "python", BENCH / "peers" / "nearest.py", what, folder, side, *options])


def prepare(folder, side):
    """A peer's index is built once, and its time and settings kept beside it; ours anew."""
    kept = folder / f"{side}.json"
    if not side.startswith("reckon") and kept.exists():
        return json.loads(kept.read_text())
    found = run_side("prepare", folder, side)
    kept.write_text(json.dumps(found))
    return found


def same_bits(folder):
    """Whether four threads write the bytes that one does."""
    for side in "reckon-exact", "reckon-ivf":
        run_side("prepare", folder, side, "--threads", "4")
        if (folder / f"{side}-1.index").read_bytes() != (folder / f"{side}-4.index").read_bytes():
            return False
    return True


def measure_case(name, args):
    folder = HOME / ("data-small" if args.small else "data") / "W11" / name.replace(", ", "-").replace(" ", "_")
    print(f"W11 {name}: data", flush=True)
    n = make(folder, CASES[name], 5_000 if args.small else 150_000)
    prepared, rounds, failed = {}, {side: [] for side in SIDES}, {}
    for side, title in SIDES.items():
        if args.side and not side.startswith("reckon") and title not in args.side:
            continue
        try:
            prepared[side] = prepare(folder, side)
            print(f"  {title}: built in {prepared[side]['build_seconds']:.2f} s, settings {prepared[side]['settings']}", flush=True)
        except RuntimeError as error:
            failed[side] = str(error)
            print(f"  {title}: {error}", flush=True)
    began = time.monotonic()
    for r in range(args.rounds):
        if r >= 3 and time.monotonic() - began > args.budget:
            break
        print(f"  round {r + 1}", flush=True)
        for side in prepared:
            rounds[side].append(run_side("time", folder, side, "--settings", json.dumps(prepared[side]["settings"])))
            print(f"    {SIDES[side]}: " + ", ".join(f"k {k} {v['single'] * 1e3:.3f} ms, batch {v['batch'] * 1e3:.3f} ms, recall {v['recall']:.4f}" for k, v in rounds[side][-1].items()), flush=True)
    sides = []
    for side, found in prepared.items():
        for k in KS:
            runs = [run[str(k)] for run in rounds[side]]
            entry = {"side": SIDES[side], "k": k, "setting": found["settings"][str(k)], "recall": runs[0]["recall"], "build_seconds": found["build_seconds"],
                     "bytes": (folder / f"{side}-1.index").stat().st_size}
            for mode in "single", "batch":
                values = [run[mode] for run in runs]
                entry[mode] = {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": values}
            sides.append(entry)
    return {"name": name, "n": n, "dim": DIM, "sides": sides, "failed": {SIDES[s]: e for s, e in failed.items()}, "same_bits": same_bits(folder),
            "versions": {SIDES[s]: p["versions"] for s, p in prepared.items()}}


def goals(cases):
    def ratios(ours, theirs, k, value):
        found = {}
        for case in cases:
            by = {s["side"]: s for s in case["sides"] if s["k"] == k}
            if ours in by and theirs in by:
                found[case["name"]] = value(by[theirs]) / value(by[ours])
        return found

    out = []
    for k in KS:
        for mode in "single", "batch":
            out.append({"goal": f"exact <= FAISS exact, k {k}, {mode}", "values": ratios("Reckon exact", "FAISS exact", k, lambda s: s[mode]["median"])})
    for mode in "single", "batch":
        out.append({"goal": f"ivf at recall@100 0.95 <= FAISS IVF, SQ8, {mode}", "values": ratios("Reckon ivf", "FAISS IVF, SQ8", 100, lambda s: s[mode]["median"])})
    out.append({"goal": "ivf's build <= FAISS IVF's", "values": ratios("Reckon ivf", "FAISS IVF, SQ8", 100, lambda s: s["build_seconds"])})
    out.append({"goal": "the same bits for any threads", "values": {case["name"]: float(case["same_bits"]) for case in cases}})
    for goal in out:
        goal["reached"] = bool(goal["values"]) and min(goal["values"].values()) >= 1
    return out


def measure(args):
    """What is known after each case."""
    cases = []
    for name in CASES:
        if re.search(args.case, name):
            cases.append(measure_case(name, args))
            yield result_of(cases, args)


def result_of(cases, args):
    return {"workload": "W11", "title": "index: the k best of many vectors", "notes": NOTES, "date": datetime.date.today().isoformat(), "small": args.small, "threads": 1, "isa": args.isa or "",
            "machine": report_parts.machine(), "source": report_parts.source(ROOT), "cases": cases, "goals": goals(cases)}
