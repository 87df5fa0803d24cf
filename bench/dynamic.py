"""W8: dynamic tables beside static ones of the same rows. Part (a), all rows in memory; bench/disk has rows on a disk."""
import datetime
import os
import re
import statistics

import data
import report_parts
from common import HOME, ROOT, call, spread
from workloads import Case, Feature

PROGRAMS = ROOT / "build" / "bench"
GOAL, GOAL_BYTES = 1.10, 26
NOTES = ("(a) Lookup, backward and update (rowwise Adagrad) of batches of zipf(1.05) ids, summed: on a dynamic table whose keys are 64-bit mixes of the ids, and on a static table that has a row for each id. Every row is in use before the time begins. The dynamic "
         "table may have a tenth more, as buckets are not equally full, and no key comes or goes. Both are in one process and take turns, a step each, in changing order; their outputs are compared to the bit. `x` is the dynamic table's time by the static one's, the median of a process's steps, of which `rounds` processes "
         "ran. Bytes a row are those of keys, last batches, counts and index for each row of the capacity, beside the row and its slots.")


def cases(small):
    n, rows = (256, 20_000) if small else (8192, 1_000_000)
    one = lambda name, rows, dim, hotness: Case(name, n, 4, [Feature("item", rows, hotness, dim)], "zipf")
    return [one("1 M rows, dim 128, one key a sample", rows, 128, 1), one("1 M rows, dim 128, ten keys a sample", rows, 128, 10), one("4 M rows, dim 128, ten keys a sample", 4 * rows, 128, 10),
            one("4 M rows, dim 32, ten keys a sample", 4 * rows, 32, 10)]


def measure_case(case, args):
    folder = HOME / ("data-small" if args.small else "data") / "W8" / re.sub(r"\W+", "_", case.name)
    data.make(case, folder, PROGRAMS)
    times, key_bytes = {"static": [], "dynamic": []}, None
    for r in range(args.rounds):
        run = call([PROGRAMS / "bench_dynamic", folder, "--steps", str(args.steps or 20), "--threads", str(args.threads)], {"RK_ISA": args.isa} if args.isa else None)
        for side in times:
            times[side].append(statistics.median(run[side]))
        key_bytes = run["key_bytes"]
        print(f"  W8 {case.name}, round {r + 1}: static {times['static'][-1] * 1e3:.3f} ms, dynamic {times['dynamic'][-1] * 1e3:.3f} ms, {key_bytes} bytes a row", flush=True)
    ratios = [d / s for d, s in zip(times["dynamic"], times["static"])]
    return {"name": case.name, "keys": case.n * case.features[0].hotness, "static": spread(times["static"]), "dynamic": spread(times["dynamic"]), "ratio": spread(ratios), "key_bytes": key_bytes}


def goals(found):
    listed = [("a dynamic table's step <= 1.10 of a static one's", {c["name"]: c["ratio"]["median"] for c in found}, GOAL),
              ("index and metadata <= 26 bytes a row", {c["name"]: c["key_bytes"] for c in found}, GOAL_BYTES)]
    return [{"goal": goal, "values": values, "most": most, "reached": max(values.values()) <= most} for goal, values, most in listed]


def measure(args):
    """What is known after each case."""
    found = []
    for case in cases(args.small):
        if re.search(args.case, case.name):
            found.append(measure_case(case, args))
            yield {"workload": "W8", "title": "dynamic tables, in memory", "notes": NOTES, "date": datetime.date.today().isoformat(), "small": args.small, "threads": args.threads, "isa": args.isa or "",
                   "machine": report_parts.machine(), "source": report_parts.source(ROOT), "load": os.getloadavg()[2], "cases": found, "goals": goals(found)}
