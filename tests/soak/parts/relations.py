"""What holds between runs. Each relation is a function of a trial that raises Failure; the docs that promise it stand beside it."""

import csv
import io
import json
import math
import time

import yaml

from parts import measure, models, results
from parts.formats import formats, libsvm, once
from parts.interruptions import resume
from parts.products import converted, exported, in_onnxruntime, recommended, served
from parts.program import Failure, Refused
from parts.ranks import repeated, spread, spread_if_wished, wires
from parts.saved_models import in_tensorflow
from parts.trial import check_finite, judge, no_policy


def threads(t):
    """README: the same bits at any number of threads."""
    t.make()
    t.program.trained("run.yaml", "a", first=True, threads=1)
    check_finite(t.work / "a")
    t.program.trained("run.yaml", "b", threads=t.case.one_of("threads", 2, [2, 3, 4]))
    results.same_end(t.work / "a", t.work / "b", "threads")
    out = [t.program.ask(["predict", "a", "test"], threads=n) for n in (1, 3)]
    if out[0] != out[1]:
        raise Failure("predictions differ by threads")


def instructions(t):
    """docs/kernels.md: all instruction sets give the same bits (of models in f32 whose layers are small, as these: oneDNN has no part in them)."""

    def change(plan):
        plan.config["train"]["dtype"] = "f32"

    t.make(change=change)
    isa = [
        name
        for name in ("scalar", "avx2", "avx512")
        if name != "avx512" or "avx512f" in open("/proc/cpuinfo", encoding="utf-8").read()
    ]
    for i, name in enumerate(isa):
        t.program.trained("run.yaml", name, first=i == 0, isa=name)
        results.same_end(t.work / isa[0], t.work / name, f"RK_ISA={name}")


def frequency(t):
    """docs/training.md: evaluations, checkpoints and logs change no step."""
    plan = t.make(change=lambda plan: (no_policy(plan), spread_if_wished(t)(plan)))
    every = max(1, plan.n_steps // 3)
    other = {
        "evaluate": {
            "every_epochs": t.case.one_of("b/evaluate_epochs", 0, [0, 1]),
            "every_steps": t.case.one_of("b/evaluate_steps", every, [0, 1, 2, every]),
            "batch_size": t.case.one_of("b/evaluate_batch", 0, [0, 17, 400, 5000]),
        },
        "checkpoint": {
            "every_epochs": t.case.one_of("b/save_epochs", 1, [0, 1]),
            "every_steps": t.case.one_of("b/save_steps", 0, [0, 1, 3, every]),
            "keep": t.case.one_of("b/keep", 3, [1, 2, 50]),
        },
        "tensorboard": t.case.maybe("b/tensorboard", 0.5),
        "log_every": 1,
    }
    t.write("other.yaml", plan.config, train=other)
    t.program.trained("run.yaml", "a", first=True, ranks=t.ranks[0])
    t.program.trained("other.yaml", "b", ranks=t.ranks[-1])
    a, b = t.work / "a", t.work / "b"
    results.same_parameters(results.newest(a), results.newest(b), "frequency")
    # Over ranks the loss of a stale step is known some steps later, or at an evaluation: lines share out the same losses otherwise.
    late = t.ranks[-1] > 1 and plan.config["train"]["staleness"]
    results.same_log(a, b, "frequency", ("test",) if late else ("train", "test"))
    in_b = {entry["step"]: entry for entry in results.log_of(b, ("valid",))}
    for entry in results.log_of(a, ("valid",)):
        if entry["step"] in in_b and repr({**entry, "epoch": 0}) != repr({**in_b[entry["step"]], "epoch": 0}):
            raise Failure(f"frequency: an evaluation differs\n  {entry}\n  {in_b[entry['step']]}")
    if t.program.ask(["predict", "a", "test"]) != t.program.ask(["predict", "b", "test"]):
        raise Failure("predictions differ by how many rows are predicted at a time")


def label_of(label, text):
    """What a label makes of a column's text."""
    if "positive" in label:
        return float(text in label["positive"])
    return float(float(text) >= label["threshold"]) if "threshold" in label else float(text)


def own_metrics(t):
    """Metrics of the test data from printed predictions and labels."""
    lines = list(csv.DictReader(io.StringIO(t.program.ask(["predict", "--labels", "a", "test"]))))
    if len(lines) != len(t.rows["test"]):
        raise Failure(f"{len(lines)} predictions for {len(t.rows['test'])} rows")
    out = {}
    for label in t.plan.labels:
        name, column = label["name"], label.get("column", label["name"])
        pairs = []
        for line, row in zip(lines, t.rows["test"]):
            if row[column] == "":
                continue
            wanted, printed = label_of(label, row[column]), float(line.get(f"{name}_true", line.get(f"{name}_label")))
            weight = float(row["weight"] or t.plan.config["data"].get("default_sample_weight", 0)) if t.plan.weighted else 1.0
            if abs(printed - wanted) > 1e-5 * max(1, abs(wanted)):
                raise Failure(f"row {line['row']}: the label of {name} is {wanted}, printed {printed}")
            pairs.append(
                (float(line[name]), wanted, weight)
            )
        start = f"{name}/" if len(t.plan.labels) > 1 else ""
        if label.get("loss") == "mse":
            out[start + "rmse"] = measure.rmse(pairs)
        else:
            out[start + "auc"], out[start + "logloss"] = measure.auc(pairs, 1e-6), measure.logloss(pairs)
    return out


def metrics(t):
    """What train prints of the test data is what eval and predict give of the run, and is that of the best evaluation where the best is kept."""
    t.make()
    t.program.trained("run.yaml", "a", first=True)
    output = t.work / "a"
    check_finite(output)
    tests = results.log_of(output, ("test",))
    told = json.loads(t.program.ask(["eval", "--json", "a"]))
    if len(tests) != 1:
        raise Failure(f"{len(tests)} entries of kind test")
    for name, value in told["metrics"].items():
        if repr(tests[0].get(name)) != repr(value):
            raise Failure(
                f"train says test {name} {tests[0].get(name)} (step {tests[0]['step']}), eval {value} ({told['checkpoint']})"
            )
    last = results.step_of(results.newest(output))
    if not told["checkpoint"].endswith(f"step-{tests[0]['step']:09d}"):
        raise Failure(f"train tested step {tests[0]['step']}, eval {told['checkpoint']}")
    if t.plan.kind == "two_tower":
        return
    evaluations = results.log_of(output, ("valid",))
    steps = [entry["step"] for entry in evaluations]
    if len(set(steps)) != len(steps):
        raise Failure(f"evaluated more than once at a step: {steps}")
    best, until = judge(t, evaluations)
    if until is not None and until < len(evaluations):
        raise Failure(f"goes on after {until} evaluations, of which the last were not better: {steps}")
    if until is None and last < t.plan.n_steps and t.plan.config["data"].get("valid") == "valid.csv":
        raise Failure(f"ends at step {last} of {t.plan.n_steps}: {steps}")
    best = best if t.keeps_best() else None
    if tests[0]["step"] != (best if best is not None else last):
        raise Failure(f"tested step {tests[0]['step']}; the best is {best}, the last {last}")
    for name, (least, most) in own_metrics(t).items():
        given, near = told["metrics"].get(name), 2e-5 * max(1, abs(least))
        if math.isnan(least) != (not isinstance(given, float) or math.isnan(given)) or (
            isinstance(given, float) and not least - near <= given <= most + near and given == given
        ):
            raise Failure(f"{name}: {least} to {most} from the printed predictions, {given} by eval")


def graph(t):
    """docs/models.md: a preset, printed as a graph and put in the place of the model, trains to the same bits."""
    plan = t.make(models.SINGLE + models.SEVERAL)
    t.program.trained("run.yaml", "a", first=True)
    printed = yaml.safe_load(t.program.ask(["inspect", "--graph", "run.yaml"]))
    t.write("graph.yaml", {**plan.config, "model": printed["model"]})
    t.program.trained("graph.yaml", "b")
    results.same_end(t.work / "a", t.work / "b", "as a graph")


def changed(t):
    """docs/training.md: keys that change no step may differ when a run goes on; it ends as if they had always been so."""
    plan = t.make(change=no_policy)
    train = plan.config["train"]
    t.program.trained("run.yaml", "a", first=True)
    early = {"evaluate": {"every_steps": t.case.one_of("early/evaluate", 0, [0, 1, 2, 5])}}
    early["checkpoint"] = {"every_steps": t.case.one_of("early/save", 0, [0, 1, 3]), "keep": 2}
    if "valid" in plan.config["data"] and plan.kind != "two_tower":
        metric = "rmse" if plan.labels[0].get("loss") == "mse" else "logloss"
        start = f"{plan.labels[0]['name']}/" if len(plan.labels) > 1 else ""
        early["early_stopping"] = {"metric": start + metric, "patience": 1000}
        early["keep_best"] = t.case.one_of("early/keep_best", "auto", ["auto", "true", "false"])
    stop = t.case.chance("stop").randint(1, plan.n_steps)
    t.write("early.yaml", plan.config, train={**early, "epochs": train["epochs"], "steps": stop})
    t.program.trained("early.yaml", "b")
    t.program.trained("run.yaml", "b", "--resume")
    results.same_parameters(results.newest(t.work / "a"), results.newest(t.work / "b"), "with other keys")
    told = [json.loads(t.program.ask(["eval", "--json", name])) for name in ("a", "b")]
    if repr(told[0]["metrics"]) != repr(told[1]["metrics"]):
        raise Failure(f"eval of a run that went on with other keys: {told[0]} and {told[1]}")


def beside(t):
    """eval and predict beside a training say what they find, or a clear word; the training does not notice."""
    plan = t.make(change=lambda plan: plan.config["train"].update(epochs=8, steps=0))
    train = plan.config["train"]
    train["checkpoint"].update(every_steps=1, keep=1)
    t.write("run.yaml", plan.config)
    t.program.trained("run.yaml", "a", first=True)
    process = t.program.start(["train", "--quiet", "--output", "b", "run.yaml"])
    until = time.monotonic() + 5
    while process.poll() is None and time.monotonic() < until:
        for ask in (["eval", "--json", "b"], ["predict", "--limit", "3", "b", "test"]):
            ended = t.program.run(ask)
            word = ended.error()
            if ended.code != 0 and not any(
                known in word
                for known in (
                    "there is no directory",
                    "no complete checkpoint",
                    "does not exist",
                    "could not open",
                    "No such file",
                    "no run",
                )
            ):
                process.kill()
                t.program.finish(process, killed=True)
                raise Failure(f"'{' '.join(ask)}' beside a training: {word}")
    ended = t.program.finish(process)
    if ended.code != 0:
        raise Failure(f"the training failed: {ended.error()}")
    results.same_end(t.work / "a", t.work / "b", "with eval beside it")


def storage(t):
    """docs/dynamic_tables.md: whether rows are on a disk, and how many of them are in memory, changes no bit."""
    plan = t.make(change=spread_if_wished(t))
    if not plan.keyed:
        raise Refused("no dynamic table")

    def tables(memory):
        out = [dict(table) for table in plan.config["embedding"]["tables"]]
        for table in out:
            table.pop("storage", None)
            if memory and table["name"] in plan.keyed and isinstance(table["missing"], str):
                table["storage"] = {"tier": "ssd", "memory": memory}
        return out

    runs = {
        "memory": tables(None),
        "few": tables("1"),
        "some": tables(t.case.one_of("memory", "2KB", ["500", "2KB", "20KB"])),
    }
    for i, (name, own) in enumerate(runs.items()):
        t.write(f"{name}.yaml", plan.config, embedding={"tables": own})
        t.program.trained(f"{name}.yaml", name, first=i == 0, ranks=t.ranks[-1 if i == 1 else 0])
        results.same_log(t.work / "memory", t.work / name, f"rows on a disk, {name}")
        t.program.ask(["export", name, f"{name}.export"])
    rows = [(t.work / f"{name}.export" / "model.safetensors").read_bytes() for name in runs]
    if rows[0] != rows[1] or rows[0] != rows[2]:
        raise Failure("exports differ by where rows are")
    answers = [t.program.ask(["predict", name, "test"]) for name in runs]
    if answers[0] != answers[1] or answers[0] != answers[2]:
        raise Failure("predictions differ by where rows are")


def reference(t):
    """docs/optimizers.md, docs/models.md, docs/retrieval.md: a small model's parameters, slots, losses and predictions are those of the equations, computed in numpy."""
    from parts.reference import compare  # needs numpy

    compare(t)


# Name: the relation, and how often it is drawn.
ALL = {
    "threads": (threads, 2),
    "instructions": (instructions, 1),
    "resume": (resume, 5),
    "frequency": (frequency, 3),
    "metrics": (metrics, 4),
    "formats": (formats, 3),
    "spread": (spread, 3),
    "repeated": (repeated, 2),
    "wires": (wires, 1),
    "graph": (graph, 1),
    "changed": (changed, 3),
    "libsvm": (libsvm, 1),
    "once": (once, 3),
    "beside": (beside, 1),
    "storage": (storage, 2),
    "exported": (exported, 2),
    "served": (served, 2),
    "converted": (converted, 2),
    "recommended": (recommended, 1),
    "onnx": (in_onnxruntime, 0),
    "savedmodel": (in_tensorflow, 0),
    "reference": (reference, 0),
}
# Those that numpy or more is needed for: drawn only where they are asked for, in the environment of tests/requirements/onnx.txt.
NEED_PACKAGES = {"onnx", "reference"}
