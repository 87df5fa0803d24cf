"""Relations of files: what is in them counts, not how they are written or read."""

import json
import struct

from parts import results, rows
from parts.program import Failure
from parts.trial import COLUMNS


def same_answers(t, names, files, what):
    """Runs that read the same rows otherwise: logs, parameters, predictions."""
    first = t.program.ask(["predict", names[0], "test.csv"])
    for name, file in list(zip(names, files))[1:]:
        results.same_log(t.work / names[0], t.work / name, f"{what} {name}")
        results.same_parameters(
            results.newest(t.work / names[0]), results.newest(t.work / name), f"{what} {name}"
        )
        if t.program.ask(["predict", name, file]) != first:
            raise Failure(f"{what} {name}: predictions differ")


def formats(t):
    """docs/data.md: a file's format and its columns' order say nothing about its rows. What is converted is what was read."""

    def change(plan):
        # Windows have rows of all over the files, which are cut where the format says.
        plan.config["data"].pop("shuffle_window", None)

    plan = t.make(change=change)
    names, files = ["csv"], ["test.csv"]
    t.program.trained("run.yaml", "csv", first=True)
    ways = [(kind, configured) for kind in ("tsv", "rkb", "tfrecord") for configured in (False, True)] + [
        ("shuffled", False)
    ]
    for kind, configured in t.case.chance("formats").sample(ways, t.case.one_of("formats", 2, [1, 2, 3])):
        name = f"{kind}{'_config' if configured else ''}"
        ending = "csv" if kind == "shuffled" else kind
        made = {split: f"{split}_{name}.{ending}" for split in t.rows}
        for split, file in made.items():
            if kind == "shuffled":
                rows.write(
                    t.work / file, t.rows[split], t.case.chance("columns").sample(COLUMNS, len(COLUMNS))
                )
            else:
                t.program.ask(
                    [
                        "convert",
                        "--quiet",
                        *(["--config", "run.yaml"] if configured else []),
                        f"{split}.csv",
                        file,
                    ]
                )
        given = {
            split: made[split]
            for split in ("train", "valid", "test")
            if isinstance(plan.config["data"].get(split), str)
        }
        t.write(f"{name}.yaml", plan.config, data=given)
        t.program.trained(f"{name}.yaml", name)
        names.append(name)
        files.append(made["test"])
    same_answers(t, names, files, "format")


def libsvm(t):
    """docs/data.md: libsvm's ids and their weights are those of any other format."""
    t.make(["lr", "fm", "dnn"])
    for split, drawn in t.rows.items():
        lines = [(row["click"], row["tags"].split("|"), row["tag_weights"].split("|")) for row in drawn]
        pairs = lambda ids, weights: " ".join(f"{i}:{w}" for i, w in zip(ids, weights) if i)
        (t.work / f"{split}.svm").write_text("".join(f"{y} {pairs(i, w)}\n" for y, i, w in lines))
        texts = [{"label": y, "ids": "|".join(i), "weights": "|".join(w)} for y, i, w in lines]
        rows.write(t.work / f"{split}.csv", texts, ["label", "ids", "weights"])
    config = t.plan.config
    ids = {
        "name": "ids",
        **t.case.one_of("tags_kind", {"identity": 30}, [{"identity": 30}, {"vocabulary": {}}]),
    }
    data = {"labels": [{"name": "label"}], "reader_threads": config["data"]["reader_threads"]}
    config["embedding"].pop("features", None)
    config["embedding"].pop("tables", None)
    config["train"].pop("metrics", None)
    for name, ending, own in (
        ("a", "svm", {"weights": "ids"}),
        ("b", "csv", {"weights": "weights", "separator": "|"}),
    ):
        splits = {split: f"{split}.{ending}" for split in t.rows}
        t.write(f"{name}.yaml", {**config, "data": {**data, **splits, "features": [{**ids, **own}]}})
        t.program.trained(f"{name}.yaml", name, first=name == "a")
    results.same_end(t.work / "a", t.work / "b", "libsvm")
    if t.program.ask(["predict", "a", "test.svm"]) != t.program.ask(["predict", "b", "test.csv"]):
        raise Failure("predictions of libsvm differ from csv's")


def once(t):
    """docs/data.md: each row is trained on once an epoch, whatever the files, windows, splits, readers and stops."""
    case, n = t.case, t.case.pick("rows", 500, lambda r: r.randint(1, 5000))
    ending = case.one_of("ending", "csv", ["csv", "tsv", "csv.gz", "tfrecord", "rkb"])
    chance, paths = case.chance("rows/once"), []
    cuts = sorted(chance.randint(0, n) for _ in range(case.one_of("files", 1, [1, 1, 2, 5]) - 1))
    for i, (begin, end) in enumerate(zip([0, *cuts], [*cuts, n])):
        if end > begin:
            made = [
                {"click": str(row % 2), "row": str(row), "more": "x" * chance.randrange(60)}
                for row in range(begin, end)
            ]
            rows.write(t.work / f"part{i}.csv", made, ["click", "row", "more"])
            paths.append(f"part{i}.{ending}")
            if ending != "csv":
                t.program.ask(["convert", "--quiet", f"part{i}.csv", paths[-1]])
    data = {"train": paths, "labels": [{"name": "click"}], "features": [{"name": "row", "identity": n}]}
    data["shuffle"] = case.one_of("shuffle", True, [True, True, False])
    data["reader_threads"] = case.one_of("reader_threads", 1, [1, 2, 4])
    if case.maybe("window", 0.7):
        data["shuffle_window"] = case.pick("window_rows", 100, lambda r: r.choice([1, 64, 500, 1000, 4096]))
    if case.maybe("no_cache", 0.3):
        data["cache_bytes"] = 0
    if case.maybe("fraction", 0.3) and n > 50:
        data["valid"] = {"fraction": 0.2}
    train = {"batch_size": case.one_of("batch", 64, [1, 7, 64, 200, 1000]), "epochs": 1, "log_every": 100}
    train["batch_size"] = max(train["batch_size"], n // 200)
    train.update(
        optimizer={"kind": "adagrad", "learning_rate": 0.1, "initial_accumulator": 1}, keep_best="false"
    )
    config = {"data": data, "model": {"kind": "lr"}, "train": train}
    if "valid" not in data:
        train.pop("keep_best")
    ranks, readers = 1, 0
    if t.has_mpi and train["batch_size"] > 20:
        ranks, readers = case.one_of("ranks", (1, 0), [(1, 0), (1, 0), (2, 0), (2, 1), (3, 2)])
    config["cluster"] = {"timeout_s": 20, "reader_ranks": readers}
    t.write("run.yaml", config)
    if case.maybe("stop", 0.5):
        stop = chance.randint(1, max(1, n // train["batch_size"]))
        t.program.trained(
            "run.yaml", "a", "--set", f"train.steps={stop}", first=True, ranks=ranks, threads=t.threads(0)
        )
        t.program.trained("run.yaml", "a", "--resume", ranks=ranks, threads=t.threads(1))
    else:
        t.program.trained("run.yaml", "a", first=True, ranks=ranks, threads=t.threads(0))
    found = results.parameters(results.newest(t.work / "a"))
    slots = [
        value for key, value in found.items() if "accumulator" in str(key) and key[0].startswith("table/")
    ]
    touched = sum(value != struct.pack("<f", 1) for value in slots)
    aside = (
        json.loads(t.program.ask(["eval", "--json", "--data", "valid", "a"]))["rows"]
        if "valid" in data
        else 0
    )
    steps = results.step_of(results.newest(t.work / "a"))
    if touched + aside != n or steps != -(-touched // train["batch_size"]):
        raise Failure(f"of {n} rows {touched} were trained on and {aside} set aside, in {steps} steps")
