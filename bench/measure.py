"""Runs the sides of workloads in turn as separate processes, compares what they computed, and hands the numbers to the report."""
import argparse
import datetime
import json
import os
import re
import statistics
import sys
import time
from collections import Counter
from dataclasses import replace

import data
import dynamic
import hybrid
import in_python
import ingest
import nearest
import own_models
import report
import report_parts
import scale
import serving
from common import BENCH, HOME, ROOT, call, wait_for_memory
from workloads import WORKLOADS

PROGRAMS = ROOT / "build" / "bench"
OTHERS = {"W5": ingest.measure, "W6": hybrid.measure, "W7": scale.measure, "W14": in_python.measure}
STEPWISE = {"W8": dynamic.measure, "W9": serving.measure, "W11": nearest.measure, "W15": own_models.measure}
ALL = [*WORKLOADS, *OTHERS, *STEPWISE]
TOLERANCE = {"f32": 1e-4, "bf16": 5e-3}
N_LOSSES = 5  # compared; later ones tell less, as Adagrad makes whole steps of gradients that are rounding noise
HASHED_TOLERANCE = 1e-2  # where each side's hash maps ids to other rows


def arguments():
    parser = argparse.ArgumentParser(prog="bench/run", description="Measures Reckon beside its peers and writes bench/results.")
    parser.add_argument("workloads", nargs="*", metavar="|".join(ALL + ["all"]), help="all by default")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of every side; all cores by default")
    parser.add_argument("--isa", help="RK_ISA of our side: avx512, avx2 or plain")
    parser.add_argument("--rounds", type=int, default=5, help="alternating runs of all sides at most")
    parser.add_argument("--budget", type=float, default=900, help="seconds a case: no further round begins after them, but there are three at least")
    parser.add_argument("--steps", type=int, help="steps timed in each process")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the machinery; results go beside the data")
    parser.add_argument("--full", action="store_true", help="W1: every dim with every pooling")
    parser.add_argument("--case", default="", help="only cases whose name matches this (a regular expression)")
    parser.add_argument("--name", default="", help="results go to W?-NAME")
    parser.add_argument("--side", action="append", help="only this side (several times: these); ours always runs")
    args = parser.parse_args()
    unknown = set(args.workloads) - {*ALL, "all"}
    if unknown:
        parser.error(f"no such workload: {', '.join(sorted(unknown))}")
    if not args.workloads or "all" in args.workloads:
        args.workloads = ALL
    return args


def run_ours(case, directory, side, args):
    env = {"RK_ISA": args.isa} if args.isa else {}
    options = ["--steps", str(args.steps or case.steps), "--threads", str(args.threads), "--dtype", side.dtype]
    if case.model:
        options += ["--from", "rows"] if case.hashed else []
        return {"train": call([PROGRAMS / "bench_model", directory / "run.yaml", directory] + options, env)}
    rule = ["--optimizer", case.optimizer, "--rate", str(case.rate)]
    gather = {"forward": "yes", "train": "no"}
    return {mode: call([PROGRAMS / "bench_lookup", directory, "--mode", mode, "--gather", gather[mode]] + rule + options, env) for mode in ("forward", "train")}


def run_side(case, directory, side, config, args):
    """{mode: {seconds: [...], losses or sum and squares, ...}, ...} of one process."""
    wait_for_memory(1.15 * case.table_bytes + 1e9)
    if not side.script:
        return run_ours(case, directory, side, args)
    return call([HOME / f"venv-{side.venv}" / "bin" / "python", BENCH / "peers" / f"{side.script}.py", directory, "--steps", str(args.steps or case.steps),
                 "--threads", str(args.threads), "--dtype", side.dtype, "--config", config])


def difference(ours, theirs):
    """How far apart two results are: the losses relatively, or the activations' sums relative to what their squares allow."""
    if "losses" in ours:
        if len(ours["losses"]) != len(theirs["losses"]):
            return float("inf")
        return max(abs(a - b) / max(abs(a), 1e-9) for a, b in list(zip(ours["losses"], theirs["losses"]))[:N_LOSSES])
    squares = max(ours["squares"], 1e-30)
    return max(abs(ours["squares"] - theirs["squares"]) / squares, abs(ours["sum"] - theirs["sum"]) / max(abs(ours["sum"]), squares ** 0.5))


def floor_seconds(case, directory, gather_rate, products, sort, mode):
    """bytes / gather + the time of the products, and for training of the smallest sort of the ids; the least bytes that the step's lookups, and for training its updates, move."""
    n_bytes = sum(case.n * (f.hotness + 1) * f.dim for f in case.features) * 4
    if mode == "train":
        slots = {"sgd": lambda dim: 0, "rowwise_adagrad": lambda dim: 1, "adagrad": lambda dim: dim}[case.optimizer]
        unique = json.loads((directory / "unique.json").read_text())
        n_bytes += sum(case.n * f.dim + 2 * unique[f.name] * (f.dim + slots(f.dim)) for f in case.features) * 4
        if case.wide:
            n_bytes += sum(case.n * f.hotness + 2 * unique[f.name] for f in case.features) * 4
    return n_bytes / gather_rate + products + (sort if mode == "train" else 0)


def measure_products(case, args):
    """Seconds of all the model's matrix products, forward and backward, at the machine's best."""
    total = {"f32": 0.0, "bf16": 0.0}
    for (outputs, inputs), count in Counter(case.products).items():
        measured = call([PROGRAMS / "bench_limits", "gemm", str(case.n), str(outputs), str(inputs), "--threads", str(args.threads), "--repeat", "3"])
        for dtype, seconds in measured.items():
            total[dtype] += count * sum(seconds.values()) if min(seconds.values()) > 0 else float("inf")
    return total | {"bf16": min(total.values())}  # a machine without bf16 instructions is faster in f32


def measure_gather(case, directory, args):
    """{bytes, seconds: [...]} of a model's rows; of lookups, our own forward run reads its rows in turn with the smallest loop."""
    wait_for_memory(1.1 * case.table_bytes + 1e9)
    return call([PROGRAMS / "bench_limits", "gather", directory, "--threads", str(args.threads)])


class Measured:
    """One side's runs of one case, by setting; in the end the fastest setting of each mode counts."""

    def __init__(self, side, configs):
        self.side, self.configs, self.runs, self.failed = side, list(configs), {}, {}

    def median(self, mode, config):
        return statistics.median(statistics.median(run[mode]["seconds"]) for run in self.runs[config])

    def best(self, mode):
        return min((config for config in self.configs if config in self.runs), key=lambda config: self.median(mode, config))

    def round(self, case, directory, args, modes, first):
        """One run of each setting that was the fastest of a mode in the first round, which tries all."""
        for config in list(self.configs):
            try:
                run = run_side(case, directory, self.side, config, args)
            except (RuntimeError, MemoryError) as error:
                print(f"    {self.side.name} {config}: {error}", flush=True)
                self.failed[config] = str(error)
                self.configs.remove(config)
                continue
            self.runs.setdefault(config, []).append(run)
            print(f"    {self.side.name} {config}: " + ", ".join(f"{mode} {statistics.median(run[mode]['seconds']):.4f} s" for mode in modes), flush=True)
        if first and self.configs:
            self.configs = list({self.best(mode) for mode in modes})

    def summary(self, mode, reference, tolerance):
        if not self.runs or not self.configs:
            return {"side": self.side.name, "failed": "; ".join(self.failed.values()) or "not equal in the check"}
        config = self.best(mode)
        runs = self.runs[config]
        worst = max(difference(reference[mode], run[mode]) for run in runs)
        out = {"side": self.side.name, "config": config, "difference": worst, "equal": worst <= tolerance,
               "tried": {c: self.median(mode, c) for c in self.runs} | self.failed}
        if out["equal"]:
            medians = [statistics.median(run[mode]["seconds"]) for run in runs]
            out |= {"rounds": medians, "median": statistics.median(medians), "min": min(medians), "max": max(medians)}
            out["first_seconds"] = runs[0][mode].get("first_seconds")
            out["peak_bytes"] = max(run.get("peak_bytes") or run[mode]["peak_bytes"] for run in runs)
        return out


def check_equality(workload, sides, args):
    """The settings of each side whose losses on the workload's check are ours, and how far each setting's are."""
    case = workload.check
    if not case:
        return {side.name: side.configs for side in sides}, {}
    directory = HOME / "data-small" / workload.name / "check"
    args = argparse.Namespace(**vars(args) | {"steps": None})
    data.make(case, directory, PROGRAMS)
    reference = run_side(case, directory, sides[0], "", args)["train"]
    print(f"{workload.name} check: losses {reference['losses'][0]:.6f} .. {reference['losses'][-1]:.6f}", flush=True)
    equal, checked = {}, {}
    for side in sides:
        equal[side.name] = []
        for config in side.configs:
            label = f"{side.name} {config}".strip()
            try:
                far = difference(reference, run_side(case, directory, side, config, args)["train"])
            except RuntimeError as error:
                checked[label] = str(error)
                continue
            checked[label] = far
            if far <= TOLERANCE[side.dtype]:
                equal[side.name].append(config)
    for label, far in checked.items():
        print(f"    {label}: {far if isinstance(far, str) else format(far, '.1e')}", flush=True)
    return equal, {"losses": reference["losses"], "differences": checked}


def make_data(workload, case, args):
    directory = HOME / ("data-small" if args.small else "data") / workload.name / case.name.replace(", ", "-").replace(" ", "_")
    print(f"{workload.name} {case.name}: data", flush=True)
    data.make(case, directory, PROGRAMS)
    return directory


def measure_case(workload, case, sides, equal, args):
    directory = make_data(workload, case, args)
    limits = make_data(workload, replace(case, name="identity ids", hashed=False), args) if case.hashed else directory  # whose ids are rows
    sides = [side for side in sides if side.hashes or not case.hashed]
    products = measure_products(case, args)
    measured = [Measured(side, equal[side.name]) for side in sides]
    gathers, began = [], time.monotonic()
    for r in range(args.rounds):
        if r >= 3 and time.monotonic() - began > args.budget:
            break
        print(f"  round {r + 1}", flush=True)
        if case.model:
            gathers.append(measure_gather(case, limits, args))
        for side in measured:
            side.round(case, directory, args, workload.modes, r == 0)
    if not measured[0].runs:
        sys.exit(f"our own side failed: {measured[0].failed}")
    ours = measured[0].runs[""]
    if not case.model:
        gathers = [{"bytes": run["forward"]["bytes"], "seconds": run["forward"]["gather_seconds"], "sort_seconds": run["forward"]["sort_seconds"],
                    "add_seconds": run["forward"]["add_seconds"]} for run in ours]
    gather_seconds = [statistics.median(g["seconds"]) for g in gathers]
    rate = gathers[0]["bytes"] / statistics.median(gather_seconds)
    sort_seconds = statistics.median(statistics.median(g["sort_seconds"]) for g in gathers)
    adds = None if case.model else statistics.median(statistics.median(g["add_seconds"]) for g in gathers)
    rows = []
    for mode in workload.modes:
        sides = [m.summary(mode, ours[0], max(TOLERANCE[m.side.dtype], HASHED_TOLERANCE * case.hashed)) for m in measured]
        floors = {dtype: floor_seconds(case, limits, rate, products[dtype], sort_seconds, mode) for dtype in products}
        for m, side in zip(measured, sides):
            if "median" in side:
                side["speedup"] = side["median"] / sides[0]["median"]
                side["over_floor"] = side["median"] / floors[m.side.dtype]
                if adds and mode == "train":
                    side["over_floor_and_adds"] = side["median"] / (floors[m.side.dtype] + adds)
        rows.append({"mode": mode, "floor": floors["f32"], "floor_bf16": floors["bf16"], "gather": statistics.median(gather_seconds), "sides": sides})
    versions = {m.side.name: m.runs[m.best("train")][0]["versions"] for m in measured if m.side.script and m.configs and m.runs}
    return {"name": case.name, "samples": case.n, "table_bytes": case.table_bytes, "gather_bytes_per_second": rate, "gather_seconds": gather_seconds, "sort_seconds": sort_seconds, "add_seconds": adds,
            "product_seconds": products, "versions": versions, "isa": ours[0]["train"]["isa"], "rows": rows}


def result_of(workload, cases, checked, args):
    result = {"workload": workload.name, "title": workload.title, "notes": workload.notes, "date": datetime.date.today().isoformat(), "small": args.small,
              "threads": args.threads, "machine": report_parts.machine(), "source": report_parts.source(ROOT), "isa": cases[0]["isa"],
              "versions": {side: v for case in cases for side, v in case["versions"].items()}, "tolerance": TOLERANCE, "check": checked, "cases": cases}
    return result | {"goals": report.goals(workload, cases)}


def measure(name, args):
    """What is known after each case: a run that is stopped leaves those that it finished."""
    workload = WORKLOADS[name](args.small, args.full)
    workload.cases = [case for case in workload.cases if re.search(args.case, case.name)] or sys.exit(f"{name} has no case '{args.case}'")
    sides = [side for side in workload.sides if not side.script or not args.side or side.name in args.side]
    equal, checked = check_equality(workload, sides, args)
    cases = []
    for case in workload.cases:
        cases.append(measure_case(workload, case, sides, equal, args))
        yield result_of(workload, cases, checked, args)


def main():
    args = arguments()
    suffix = "".join(f"-{part}" for part in (args.name, args.isa, "1thread" if args.threads == 1 else "") if part)
    folder = HOME / "results-small" if args.small else BENCH / "results"
    folder.mkdir(exist_ok=True)
    for name in args.workloads:
        base = folder / f"{name}{suffix}"
        for result in [OTHERS[name](args)] if name in OTHERS else STEPWISE[name](args) if name in STEPWISE else measure(name, args):
            report.write(result, base)
        print(base.with_name(base.name + ".md").read_text())


if __name__ == "__main__":
    main()
