"""Exports to TensorFlow, whose transforms are in the graph: from a file's texts they compute what `predict` prints."""

import atexit
import json
import os
import subprocess
import threading
from pathlib import Path

import packages  # of tests/requirements
from parts import rows
from parts.program import TOP, Failure

WORKERS = {}
EXPORT_ROWS = ["trained", "trained", "f32", "f16", "bf16", "int8", "int4"]


def worker(reckon):
    """A process with TensorFlow that stays for all cases: its import takes seconds."""
    if "process" not in WORKERS:
        python = packages.install("tensorflow", TOP / "bench/requirements/tf.txt")
        library = Path(reckon).parent / "libreckon.so"
        environment = {**os.environ, "PYTHONPATH": str(TOP / "python"), "RECKON_LIBRARY": str(library), "RK_CACHE": "off"}
        command = [python, "-B", Path(__file__).with_name("tensorflow_worker.py")]
        WORKERS["process"] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        atexit.register(WORKERS["process"].kill)
    return WORKERS["process"]


def ask(program, asked):
    process = worker(program.reckon)
    watch = threading.Timer(10 * program.timeout, process.kill)  # its first answer waits for the import
    watch.start()
    try:
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        line = ""
    finally:
        watch.cancel()
    if not line:
        raise Failure(f"the export to TensorFlow ends its process, or hangs, with {WORKERS.pop('process').wait()}")
    told = json.loads(line)
    if "error" in told:
        raise Failure(f"TensorFlow: {told['error'][:2000]}")
    return told["signatures"]


def columns_of(t, drawn):
    """Each column's values, as lists of texts a row: a text that has a separator may come whole or cut."""
    plan, chance = t.plan, t.case.chance("cut")
    brands = {row["item"]: row["brand"] for row in rows.brands(t.case, plan.items)}
    of_user = {}
    for row in t.rows["train"]:
        of_user.setdefault(row["user"], {})[row["item"]] = True
    whole = {f.get("column", f["name"]) for f in plan.config["data"]["features"] if {"hash", "vocabulary", "key"} & set(f)}
    out = {}
    for name in drawn[0]:
        cut = name not in whole or chance.random() < 0.5
        out[name] = [[part for part in (row[name].split("|") if cut else [row[name]]) if part] for row in drawn]
    out["brand"] = [[brands[row["item"]]] if row["item"] in brands else [] for row in drawn]
    if plan.kind == "two_tower":
        out["history"] = [list(of_user.get(row["user"], {})) for row in drawn]
    return out


def simplify(plan):
    """In f32, and with boundaries that no value of a file is: TensorFlow reads numbers as f32. All of train's pairs are known."""
    plan.config["train"]["dtype"] = "f32"
    if isinstance(plan.config["data"].get("valid"), dict):
        plan.config["data"]["valid"] = "valid.csv"
    for feature in plan.config["data"]["features"]:
        if feature.pop("quantiles", None):
            feature["bucketize"] = [-1.0005, 0.5005, 2.0005]


def in_tensorflow(t):
    """docs/export.md: TensorFlow computes what predict prints, from a file's texts, by both signatures of a SavedModel."""
    t.make(change=simplify)
    t.program.trained("run.yaml", "a", first=True)
    chosen = t.case.one_of("export_rows", "trained", EXPORT_ROWS)
    as_exported = [] if chosen == "trained" else ["--rows", chosen]
    names, *lines = t.program.ask(["predict", *as_exported, "a", "test.csv"]).splitlines()
    wanted = [dict(zip(names.split(",")[1:], map(float, line.split(",")[1:]))) for line in lines]
    asked = {"run": str(t.work / "a"), "to": str(t.work / "saved"), "rows": chosen, "columns": columns_of(t, t.rows["test"])}
    for signature, given in ask(t.program, asked).items():
        for i, row in enumerate(wanted):
            for task, value in row.items():
                if not abs(value - given[task][i]) <= 2e-5 * max(1, abs(value)):
                    raise Failure(f"row {i}: predict prints {task} {value}, TensorFlow computes {given[task][i]} ({signature})")
