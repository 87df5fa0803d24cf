"""W8: dynamic tables beside static ones of the same rows, (a); and with rows on a disk beside all in memory, (b). bench/disk has the storage of (b) alone."""
import datetime
import os
import re
import statistics

import data
import report_parts
from common import HOME, ROOT, call, call_lines, spread
from workloads import Case, Feature

PROGRAMS = ROOT / "build" / "bench"
GOAL, GOAL_BYTES, GOAL_DISK = 1.10, 26, 2
NOTES = ("(a) Lookup, backward and update (rowwise Adagrad) of batches of zipf(1.05) ids, summed: on a dynamic table whose keys are 64-bit mixes of the ids, and on a static table that has a row for each id. Every row is in use before the time begins. The dynamic "
         "table may have a tenth more, as buckets are not equally full, and no key comes or goes. Both are in one process and take turns, a step each, in changing order; their outputs are compared to the bit. `x` is the dynamic table's time by the static one's, the median of a process's steps, of which `rounds` processes "
         "ran. `floor` is the static table's time and that of the smallest loop that finds the keys, by the static table's: of each key of the batch once, one line of an index and what is known of its row, in memory as large as the table's and fetched ahead, and each use's row; which keys are equal is known beforehand. (b) A step on a dynamic table with memory for a share of its rows, the others on a disk, by the same step with all rows in memory: lookup, backward and update of a batch of zipf(1.05) keys that is drawn anew for each step, by turns in one process; `beside` is the time of arithmetic between "
         "lookup and update, where a model has its dense part. Rows of the next batch are read meanwhile, and a step ends when they are. Bytes a row are those of keys, last batches, counts and index for each row of the capacity, beside the row and its slots.")


def cases(small):
    n, rows = (256, 20_000) if small else (8192, 1_000_000)
    one = lambda name, rows, dim, hotness: Case(name, n, 4, [Feature("item", rows, hotness, dim)], "zipf")
    return [one("1 M rows, dim 128, one key a sample", rows, 128, 1), one("1 M rows, dim 128, ten keys a sample", rows, 128, 10), one("4 M rows, dim 128, ten keys a sample", 4 * rows, 128, 10),
            one("4 M rows, dim 32, ten keys a sample", 4 * rows, 32, 10)]


def measure_case(case, args):
    folder = HOME / ("data-small" if args.small else "data") / "W8" / re.sub(r"\W+", "_", case.name)
    data.make(case, folder, PROGRAMS)
    times, key_bytes = {"static": [], "dynamic": [], "find": []}, None
    for r in range(args.rounds):
        run = call([PROGRAMS / "bench_dynamic", folder, "--steps", str(args.steps or 20), "--threads", str(args.threads)], {"RK_ISA": args.isa} if args.isa else None)
        for side in times:
            times[side].append(statistics.median(run[side]))
        key_bytes = run["key_bytes"]
        print(f"  W8 {case.name}, round {r + 1}: static {times['static'][-1] * 1e3:.3f} ms, dynamic {times['dynamic'][-1] * 1e3:.3f} ms, {key_bytes} bytes a row", flush=True)
    ratios = [d / s for d, s in zip(times["dynamic"], times["static"])]
    floors = [1 + f / s for f, s in zip(times["find"], times["static"])]
    return {"name": case.name, "keys": case.n * case.features[0].hotness, "static": spread(times["static"]), "dynamic": spread(times["dynamic"]), "ratio": spread(ratios), "floor": spread(floors), "key_bytes": key_bytes}


def beyond_cases(small):
    """Name, options of bench_beyond_memory."""
    rows, batch, steps = (20_000, 256, 4) if small else (1_000_000, 8192, 15)
    return [(f"rows on a disk, {beside} ms beside", ["--rows", rows, "--batch", batch, "--steps", steps, "--warm", steps, "--beside_ms", beside]) for beside in (0, 100)]


def measure_beyond(name, options, args):
    folder, shares = HOME / "beyond-memory", {}
    for r in range(args.rounds):
        lines = call_lines([PROGRAMS / "bench_beyond_memory", folder, *options, "--threads", args.threads], {"RK_ISA": args.isa} if args.isa else None)
        whole = statistics.median(lines[0]["seconds"])
        for line in lines:
            found = shares.setdefault(line["share"], {"seconds": [], "ratio": [], "rows_read": line["rows_read"], "read_ahead": line["read_ahead"]})
            found["seconds"].append(statistics.median(line["seconds"]))
            found["ratio"].append(found["seconds"][-1] / whole)
        print(f"  W8 {name}, round {r + 1}: " + ", ".join(f"{share:.0%} {found['seconds'][-1] * 1e3:.1f} ms" for share, found in shares.items()), flush=True)
    return {"name": name, "shares": [{"share": share, "rows_read": f["rows_read"], "read_ahead": f["read_ahead"], "seconds": spread(f["seconds"]), "ratio": spread(f["ratio"])} for share, f in shares.items()]}


def beyond_goals(found):
    values = {c["name"]: s["ratio"]["median"] for c in found for s in c["shares"] if s["share"] == 0.25}
    return [{"goal": "with memory for 25% of the rows a step takes <= 2 of one with all in memory", "values": values, "most": GOAL_DISK, "reached": max(values.values()) <= GOAL_DISK}] if values else []


def goals(found):
    if not found:
        return []
    listed = [("a dynamic table's step <= 1.10 of a static one's", {c["name"]: c["ratio"]["median"] for c in found}, GOAL),
              ("index and metadata <= 26 bytes a row", {c["name"]: c["key_bytes"] for c in found}, GOAL_BYTES)]
    return [{"goal": goal, "values": values, "most": most, "reached": max(values.values()) <= most} for goal, values, most in listed]


def measure(args):
    """What is known after each case."""
    found, beyond = [], []

    def result():
        return {"workload": "W8", "title": "dynamic tables", "notes": NOTES, "date": datetime.date.today().isoformat(), "small": args.small, "threads": args.threads, "isa": args.isa or "",
                "machine": report_parts.machine(), "source": report_parts.source(ROOT), "load": os.getloadavg()[2], "cases": found, "beyond": beyond, "goals": goals(found) + beyond_goals(beyond)}

    for case in cases(args.small):
        if re.search(args.case, case.name):
            found.append(measure_case(case, args))
            yield result()
    for name, options in beyond_cases(args.small):
        if re.search(args.case, name):
            beyond.append(measure_beyond(name, options, args))
            yield result()
