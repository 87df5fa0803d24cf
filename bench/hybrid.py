"""W6: one model over four ranks with slow links, synchronous and with rows that lag behind; and what that does to the AUC."""
import datetime
import itertools
import json
import re
import shutil
import statistics
import time
from dataclasses import replace

import data
import planted
import ranks
import report_parts
from common import BENCH, HOME, ROOT, spread
from ranks import Link, Mode
from workloads import check_case, dlrm_dcnv2

N_RANKS = 4
PROGRAMS = ROOT / "build" / "bench"
SEEDS = 5
SYNC_DELAYS, STALE_DELAYS = 5, 2  # one after the other in a step: ids, rows, parts of the dense sum, the sum, gradients; the sum's two alone
LOSSY = [{"wire": "bf16"}, {"wire_dense": "int8"}, {"wire": "bf16", "wire_dense": "int8"}, {"wire": "bf16", "wire_dense": "powersgd"}]
PEERS = {"TorchRec": "", "TorchRec fp16": "fp16", "TorchRec PowerSGD": "powersgd"}
HOLDERS = 3  # of the ranks, where training and rows are apart
NOTES = ("One training step of W4's model, tables capped at 100,000 rows, 4,096 samples a step over 4 ranks, each on a host of its own (a network namespace) whose link has the "
         "rate and one-way delay named. sync: staleness 0. stale N: rows lag behind by up to N batches, the dense part does not (Persia's hybrid). Every rank trains and holds rows, with one "
         "thread; or, apart: one rank trains, with two threads, and three only hold rows (`cluster.embedding_ranks: 3`), so that no dense gradients travel, rows come one way of the trainer's "
         "link and gradients go the other. A step's time is the mean of the timed steps. Peer: TorchRec's DistributedModelParallel over gloo, tables whole on a rank (its planner), Adagrad fused, dense part "
         "by DistributedDataParallel; lossy: its dense gradients by PyTorch's communication hooks, fp16 or PowerSGD of rank 4. Ours (powersgd of rank 4 too): `wire` is of rows and, unless `wire_dense` follows, of dense gradients. Ranks share this machine's cores, so the ranks' compute, which stands in the table as their CPU seconds by the cores, does not get faster by having four.")


def case_of(small):
    case = dlrm_dcnv2(small, False).cases[0]
    features = [replace(f, rows=min(f.rows, 10_000 if small else 100_000)) for f in case.features]
    return replace(case, name="ranks", n=512 if small else 4096, features=features)


def stale(n, **cluster):
    return Mode(" ".join([f"stale {n}" if n else "sync", *map(str, cluster.values())]), {"train": {"staleness": n}} | ({"cluster": cluster} if cluster else {}))


def apart(n):
    return Mode(f"{stale(n).name} apart", {"train": {"staleness": n}, "cluster": {"embedding_ranks": HOLDERS}}, threads=2)


def plan_of(small):
    """The modes of each link. One that the run file learns to take, such as cluster.asynchronous, is one more Mode here."""
    if small:
        return [(Link(1000), [stale(0), stale(1), apart(0), apart(1), stale(0, **LOSSY[-1])])]
    few, narrow = [stale(n) for n in (0, 1)] + [apart(n) for n in (0, 2, 4)], [stale(n, **wires) for wires in LOSSY for n in (0, 1)]
    plan = {(mbit, ms): few + narrow for mbit, ms in itertools.product((1000, 100), (0, 1, 5))}
    plan |= {(1000, 1): [stale(n) for n in range(9)] + narrow + few[2:], (100, 0): few[:2] + [apart(n) for n in (0, 1, 2, 4, 8)] + narrow}
    return [(Link(mbit, ms), modes) for (mbit, ms), modes in plan.items()]


def peer(directory, link, steps, config):
    python = HOME / "venv-torch" / "bin" / "python"
    argv = [python, BENCH / "peers" / "torchrec_ranks.py", directory, "--steps", steps, "--threads", 1, "--config", config]
    return ranks.result_of(ranks.start(link.command(N_RANKS, argv), 900))["train"]


def measure_link(link, modes, directory, args):
    """Alternating rounds of all modes and the peer."""
    runs, failed = {name: [] for name in [*(mode.name for mode in modes), *PEERS]}, {}
    for r in range(args.rounds):
        for mode in modes:
            runs[mode.name].append(ranks.train(directory, mode, N_RANKS, link, args.steps or 3))
            print(f"    {link.name}, {mode.name}: {ranks.step_seconds(runs[mode.name][-1]):.3f} s", flush=True)
        for name, config in PEERS.items():
            if args.side and "TorchRec" not in args.side or name in failed:
                continue
            try:
                runs[name].append(peer(directory, link, args.steps or 3, config))
                print(f"    {link.name}, {name}: {ranks.step_seconds(runs[name][-1]):.3f} s", flush=True)
            except RuntimeError as error:
                failed[name] = str(error)
                print(f"    {link.name}, {name}: {error}", flush=True)
    sync = runs[modes[0].name][0]["losses"]
    return {"mbit": link.mbit, "ms": link.ms, "modes": [summary(mode, runs[mode.name], link) for mode in modes],
            "peers": [{"name": name} | peer_summary(runs[name], failed.get(name), sync) for name in PEERS]}


def summary(mode, runs, link):
    out = {"mode": mode.name, "staleness": mode.staleness} | spread([ranks.step_seconds(run) for run in runs])
    for key in "bytes_sent", "bytes_sent_most", "rows_wait_s", "sum_wait_s", "cpu_s":
        out[key] = statistics.median(run[key] for run in runs)
    out["seen_staleness"] = statistics.mean(run["staleness"] for run in runs)
    trainers = N_RANKS - mode.settings.get("cluster", {}).get("embedding_ranks", 0)
    out["compute_s"] = out["cpu_s"] * trainers / report_parts.machine()["cores"]
    out["link_s"] = link.seconds(out["bytes_sent_most"], 0 if trainers == 1 else STALE_DELAYS if mode.staleness else SYNC_DELAYS)
    if mode.staleness:
        out["limit_s"] = max(out["compute_s"], out["link_s"])
    elif trainers > 1:  # else rows take the other way of the link, one after the other with what is sent
        out["limit_s"] = out["compute_s"] + out["link_s"]
    return out


def peer_summary(runs, failed, losses):
    if failed or not runs:
        return {"failed": failed or "not asked for"}
    far = max(abs(a - b) / abs(a) for a, b in zip(losses[:3], runs[0]["losses"]))
    return {"difference": far, "versions": runs[0].get("versions", {})} | spread([ranks.step_seconds(run) for run in runs])


def auc_of(directory, mode, seed):
    """The AUC on the rows set aside, after the same samples."""
    mode = Mode(f"auc {mode.name} {seed}", mode.settings | {"train": mode.settings.get("train", {}) | {"seed": seed}})
    output = directory / "output"
    shutil.rmtree(output, ignore_errors=True)
    argv = [ROOT / "build" / "reckon", "train", "-q", "--threads", 1, "--output", output, ranks.write_run_file(directory, mode)]
    ranks.start(Link().command(N_RANKS, argv), 900)
    entries = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return next(entry["auc"] for entry in reversed(entries) if entry["kind"] == "valid")


def measure_auc(case, args):
    shape = planted.small_shape(case, args.small)
    directory = HOME / ("data-small" if args.small else "data") / "W6" / "planted"
    planted.make(shape, directory, PROGRAMS)
    out = []
    modes = [stale(n) for n in (0, 1, 2, 4, 8)] + [Mode("asynchronous 4", {"train": {"staleness": 4, "on_not_finite": "fail"}, "cluster": {"asynchronous": True}})]
    for seed in range(1, 1 + (1 if args.small else SEEDS)):
        for mode in modes:
            out.append({"seed": seed, "mode": mode.name, "auc": auc_of(directory, mode, seed)})
            print(f"    seed {seed}, {mode.name}: auc {out[-1]['auc']:.6f}", flush=True)
    return out


def goals(links, aucs):
    """The best stale mode against sync with the same roles, wire in f32; and how far an AUC of rows that lag behind falls behind sync's on average over the seeds."""
    ratios = {}
    for link in links:
        medians = {m["mode"]: m["median"] for m in link["modes"]}
        for roles in "", " apart":
            best = min(median for name, median in medians.items() if re.fullmatch(rf"stale \d{roles}", name))
            ratios[Link(link["mbit"], link["ms"]).name + roles] = medians["sync" + roles] / best
    found = []
    if links:
        best = max(ratios.values())
        found.append({"goal": "hybrid >= 2.6x sync where the link binds", "values": ratios, "value": best, "reached": best >= 2.6})
    if aucs:
        mean = {mode: statistics.mean(a["auc"] for a in aucs if a["mode"] == mode) for mode in dict.fromkeys(a["mode"] for a in aucs)}
        gap = max(mean["sync"] - value for mode, value in mean.items() if "asynchronous" not in mode)
        found.append({"goal": "AUC gap <= 0.0005", "values": mean, "value": gap, "reached": gap <= 0.0005})
    return found


def kept(case, args):
    """With --case, what the result file has, of this machine and case, of the links and AUCs that are not run anew."""
    path = (HOME / "results-small" if args.small else BENCH / "results") / (f"W6-{args.name}.json" if args.name else "W6.json")
    old = json.loads(path.read_text()) if args.case and path.exists() else None
    if not old or old["machine"] != report_parts.machine() or old["samples"] != case.n:
        return {}, []
    return {Link(link["mbit"], link["ms"]).name: link for link in old["links"]}, old["auc"]


def measure(args):
    case = case_of(args.small)
    check = HOME / "data-small" / "W6" / "check"
    data.make(check_case(case, case.rate), check, PROGRAMS)
    checked = ranks.same_as_one(check, N_RANKS)
    print("W6 check: 4 ranks have one process' losses, stale ranks the same twice", flush=True)
    directory = HOME / ("data-small" if args.small else "data") / "W6" / case.name
    data.make(case, directory, PROGRAMS)
    began = time.monotonic()
    found, aucs = kept(case, args)
    found |= {link.name: measure_link(link, modes, directory, args) for link, modes in plan_of(args.small) if args.case in link.name}
    links = [found[link.name] for link, _ in plan_of(args.small) if link.name in found]
    if args.case in "auc":
        aucs = measure_auc(case, args)
    return {"workload": "W6", "title": "hybrid: W4 over four ranks with slow links", "notes": NOTES, "date": datetime.date.today().isoformat(), "small": args.small,
            "threads": "1 or 2", "isa": "", "machine": report_parts.machine(), "source": report_parts.source(ROOT), "samples": case.n, "seconds": time.monotonic() - began,
            "check": checked, "links": links, "auc": aucs, "goals": goals(links, aucs)}
