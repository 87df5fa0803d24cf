"""W5: one set of rows in several formats, each read to batches by us and by its peers."""
import datetime
import json
import statistics
import subprocess
import time
from dataclasses import dataclass

import numpy as np

import data
import report_parts
from common import BENCH, HOME, ROOT, call
from workloads import Case, wide_deep_features


@dataclass
class Reader:
    file: str
    name: str
    script: str = ""  # in peers/; empty: bench_read
    venv: str = ""
    configs: tuple = ("",)


READERS = [Reader("rows.rkb", "Reckon"),
           Reader("rows.tfrecord", "Reckon"),
           Reader("rows.csv", "Reckon"),
           Reader("rows.tfrecord", "tf.data", "tf_read", "tf", ("examples",)),
           Reader("batches.tfrecord", "tf.data", "tf_read", "tf", ("batches",)),
           Reader("rows.csv", "tf.data", "tf_read", "tf", ("lines",)),
           Reader("rows.csv", "pyarrow", "arrow_read", "tf", ("stream", "scan", "whole")),
           Reader("rows.snappy.parquet", "pyarrow", "arrow_read", "tf", ("stream", "scan")),
           Reader("rows.zstd.parquet", "pyarrow", "arrow_read", "tf", ("stream", "scan"))]
FILES = {"rows.tfrecord": "TFRecord, one Example a row",
         "batches.tfrecord": "TFRecord, one Example a batch",
         "rows.csv": "CSV",
         "rows.snappy.parquet": "Parquet (snappy)",
         "rows.zstd.parquet": "Parquet (zstd)",
         "rows.rkb": "rkb"}
NOTES = ("Rows of W2's schema: 1 label, 10 numbers of three decimals, 40 categorical features (3 of ten ids), zipf(1.05) ids. Each reader goes once through the "
         "file, which lies in the page cache, and makes batches of dense arrays: labels, numbers [n, 10], ids [n, 1 or 10] a feature; adding all values up "
         "is part of the time, on every side. tf.data: parse_example after batching (or parse_single_example of prebatched records, or decode_csv), parallel calls "
         "and prefetch by AUTOTUNE. pyarrow: the fastest of a stream, the dataset scanner and, for CSV, read_csv. The row groups of Parquet are batches.")


def case_of(small):
    n = 8192 if small else 131_072
    return Case("rows", n, 8 if small else 32, wide_deep_features(small), "zipf", n_dense=10)


def run_file(case, path, threads):
    features = [{"name": f.name, "identity": f.rows} | ({"separator": "|"} if f.hotness > 1 and path == "rows.csv" else {}) for f in case.features]
    features += [{"name": f"n{i}", "dense": True} for i in range(case.n_dense)]
    return {"data": {"train": path, "shuffle": False, "reader_threads": threads, "labels": [{"name": "label"}], "features": features},
            "embedding": {"dim": 32}, "model": {"kind": "dnn"}, "train": {"batch_size": case.n}}


def make_files(case, directory):
    """All formats out of the same arrays; each file appears when it is whole."""
    data.make(case, directory, ROOT / "build" / "bench")
    stamp = directory / "files.json"
    if stamp.exists() and stamp.read_text() == (directory / "case.json").read_text():
        return
    rows, python = ROOT / "build" / "bench" / "bench_rows", HOME / "venv-tf" / "bin" / "python"
    commands = {"rows.csv": [rows, directory, "OUT"], "rows.tfrecord": [rows, directory, "OUT"], "batches.tfrecord": [rows, directory, "OUT", "--batch", case.n],
                "rows.rkb": [ROOT / "build" / "reckon", "convert", "--quiet", directory / "rows.tfrecord", "OUT"]}
    commands |= {f"rows.{kind}.parquet": [python, BENCH / "peers" / "arrow_write.py", directory, "OUT", kind] for kind in ("snappy", "zstd")}
    for name, command in commands.items():
        print(f"  writing {name}", flush=True)
        (directory / name).unlink(missing_ok=True)
        subprocess.run([str(directory / name) if part == "OUT" else str(part) for part in command], check=True)
    stamp.write_text((directory / "case.json").read_text())


def warm(path):
    with open(path, "rb", buffering=0) as file:
        buffer = bytearray(16 << 20)
        while file.readinto(buffer):
            pass


def run_reader(reader, config, case, directory, args):
    path = directory / reader.file
    warm(path)
    if reader.script:
        return call([HOME / f"venv-{reader.venv}" / "bin" / "python", BENCH / "peers" / f"{reader.script}.py", path, "--batch", str(case.n),
                     "--threads", str(args.threads), "--config", config])
    run = directory / f"{reader.file}.yaml"
    run.write_text(json.dumps(run_file(case, reader.file, args.threads), indent=1))
    env = {"RK_THREADS": str(args.threads)} | ({"RK_ISA": args.isa} if args.isa else {})
    return call([ROOT / "build" / "bench" / "bench_read", path, run, "--batch", str(case.n)], env)


def same(a, b):
    """Whether two checksums agree: the ids' sum exactly, the numbers' sum to 1e-6."""
    (ids, numbers), (other_ids, other_numbers) = a.split(), b.split()
    return ids == other_ids and abs(float(numbers) - float(other_numbers)) <= 1e-6 * abs(float(numbers))


def expected(case, directory):
    """The checksum, from the arrays themselves."""
    ids = sum(int(np.fromfile(directory / f"{f.name}.i64", np.int64).sum()) for f in case.features)
    numbers = sum(float(np.fromfile(directory / name, np.float32).sum(dtype=np.float64)) for name in ("dense.f32", "labels.f32"))
    return f"{ids} {numbers:.9g}"


def kept(runs):
    """The setting that was the fastest in the first round, if any ran."""
    good = [config for config, found in runs.items() if isinstance(found, list)]
    return [min(good, key=lambda config: runs[config][0]["seconds"])] if good else []


def measure(args):
    case = case_of(args.small)
    directory = HOME / ("data-small" if args.small else "data") / "W5" / "rows"
    print("W5: data", flush=True)
    make_files(case, directory)
    checksum = expected(case, directory)
    n_rows = case.n * case.n_batches
    tried = [{} for _ in READERS]
    began = time.monotonic()
    for r in range(args.rounds):
        if r >= 3 and time.monotonic() - began > args.budget:
            break
        print(f"  round {r + 1}", flush=True)
        for reader, runs in zip(READERS, tried):
            if args.side and reader.script and reader.name not in args.side:
                continue
            for config in reader.configs if r == 0 else kept(runs):
                try:
                    run = run_reader(reader, config, case, directory, args)
                    if run["rows"] != n_rows or not same(checksum, run["checksum"]):
                        raise RuntimeError(f"not equal: {run['rows']} rows, checksum {run['checksum']} instead of {checksum}")
                    runs.setdefault(config, []).append(run)
                    print(f"    {reader.file} by {reader.name} {config}: {run['seconds']:.3f} s", flush=True)
                except (RuntimeError, OSError) as error:
                    runs[config] = str(error)
                    print(f"    {reader.file} by {reader.name} {config}: {error}", flush=True)
    readers = []
    for reader, runs in zip(READERS, tried):
        good = {c: v for c, v in runs.items() if isinstance(v, list)}
        entry = {"file": reader.file, "format": FILES[reader.file], "reader": reader.name, "failed": "; ".join(v for v in runs.values() if isinstance(v, str))}
        if good:
            config, = kept(runs)
            seconds = [run["seconds"] for run in good[config]]
            entry |= {"config": config, "tried": {c: statistics.median(run["seconds"] for run in v) for c, v in good.items()}, "rounds": seconds,
                      "median": statistics.median(seconds), "min": min(seconds), "max": max(seconds), "peak_bytes": good[config][0].get("peak_bytes"),
                      "versions": good[config][0].get("versions", {})}
        readers.append(entry)
    result = {"workload": "W5", "title": "ingest: files to batches", "notes": NOTES, "date": datetime.date.today().isoformat(), "small": args.small, "threads": args.threads,
              "isa": args.isa or "", "machine": report_parts.machine(), "source": report_parts.source(ROOT), "rows": n_rows, "batch": case.n, "checksum": checksum,
              "sizes": {name: (directory / name).stat().st_size for name in FILES}, "readers": readers}
    result["goals"] = goals(result)
    return result


def goals(result):
    medians = {(r["file"], r["reader"]): r["median"] for r in result["readers"] if "median" in r}
    sizes = result["sizes"]

    def ratio(slow, fast):
        return medians[slow] / medians[fast] if slow in medians and fast in medians else None

    ours = ("rows.rkb", "Reckon")
    found = [("rkb >= 10x per-example TFRecord read by tf.data", ratio(("rows.tfrecord", "tf.data"), ours), 10),
             ("rkb >= 2x prebatched TFRecord read by tf.data", ratio(("batches.tfrecord", "tf.data"), ours), 2),
             ("our TFRecord reader >= 3x tf.data", ratio(("rows.tfrecord", "tf.data"), ("rows.tfrecord", "Reckon")), 3)]
    out = [{"goal": text, "value": value, "reached": value is not None and value >= bound} for text, value, bound in found]
    share = sizes["rows.rkb"] / sizes["rows.tfrecord"]
    return out + [{"goal": "rkb <= 0.19 of per-example TFRecord's bytes", "value": share, "reached": share <= 0.19}]
