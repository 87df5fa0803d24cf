"""The case of a reference training: a small run file and its rows. Every rule that it can draw has its equation in reference.py or optimizers.py.

Where rows and biases begin at 0, the first gradients of a balanced batch cancel out, and lamb and lars do other things with 0 than with what rounding leaves. So they cancel out
exactly, in f32 too, or not at all: weights of samples are no round numbers; without them, shares and the first batch's size have few bits."""

from dataclasses import dataclass

from parts import rows
from parts.settings import OPTIONS, RATES

COLUMNS = ["y", "z", "weight", "user", "tags", "tag_weights", "x"]
IDS = {"user": 6, "tags": 7}
# Options beside those that settings.py draws, and schedules that change within some ten steps.
MORE_OPTIONS = {
    "clip_gradient": (set(RATES), [0.001, 0.01]),
    "momentum": ({"momentum", "adagrad_momentum", "lars"}, [0.5]),
    "beta1": ({"adam", "adamw", "rowwise_adam", "lamb"}, [0.5]),
    "beta2": ({"adam", "adamw", "rowwise_adam", "lamb", "adagrad_momentum"}, [0.9]),
    "exponent": ({"adagrad_momentum"}, [3]),
    "trust_coefficient": ({"lars"}, [0.1]),
    "weight_decay": (set(RATES), [0.01]),
    "weight_decay_by_learning_rate": (set(RATES), [0, 1]),
    "l2": ({"ftrl"}, [0.02]),
    "beta": ({"ftrl"}, [0.5]),
}
SCHEDULES = [
    {"warmup_steps": 3},
    {"kind": "polynomial", "decay_steps": 4, "end_factor": 0.1, "power": 2},
    {"kind": "cosine", "warmup_steps": 2, "decay_steps": 5, "end_factor": 0.2},
    {"kind": "step", "decay_steps": 2, "step_factor": 0.5, "warmup_steps": 1},
]


@dataclass
class ReferenceCase:
    config: dict
    rows: list


def optimizer_of(case, part):
    kind = case.one_of(f"{part}/kind", "sgd", sorted(RATES))
    out = {"kind": kind, "learning_rate": case.one_of(f"{part}/rate", 0.1, [0.1, 0.01])}
    for name, (kinds, values) in {**OPTIONS, **MORE_OPTIONS}.items():
        if kind in kinds:
            value = case.pick(f"{part}/{name}", None, lambda r: r.choice(values) if r.random() < 0.3 else None)
            if value is not None:
                out[name] = value
    if schedule := case.one_of(f"{part}/schedule", {}, [{}, *SCHEDULES]):
        out["schedule"] = dict(schedule)  # YAML has no anchors here
    return out


def labels_of(case, kind):
    first = {
        "name": "y",
        "smoothing": case.one_of("smoothing", 0, [0, 0.125]),
        "weight": case.one_of("weight", 1, [1, 0.25]),
        "weight_decay_rate": case.one_of("task_decay", 0, [0, 0.1]),
    }
    if kind != "dnn" or not case.maybe("second_task", 0.6):
        return [first]
    second = {"name": "z", "optional": True, "weight": case.one_of("second_weight", 1, [1, 2])}
    return [first, {**second, "loss": "mse"} if case.maybe("regression", 0.5) else second]


def features_of(case, dynamic):
    """Keys of a dynamic table are the numbers that are ids of a static one."""
    user, tags = ({"key": True} if name in dynamic and case.maybe(f"key/{name}", 0.5) else {"identity": IDS[name]} for name in IDS)
    weights = {"weights": "tag_weights"} if case.maybe("tag_weights", 0.6) else {}
    return [{"name": "user", **user}, {"name": "tags", "separator": "|", **tags, **weights}, {"name": "x", "dense": True}]


def dynamic_table(case, name):
    return {
        "name": name,
        "max_capacity": 1000,
        "eviction": {"policy": "none"},
        "admission": {"min_count": case.one_of(f"min_count/{name}", 1, [1, 2, 9])},
    }


def draw_rows(case, n, regression):
    r, targets = case.chance("rows"), ["", "1.5", "-0.5", "0.25"] if regression else ["", "0", "1", "0.25"]
    out = []
    for _ in range(n):
        tags = [str(r.randrange(IDS["tags"])) for _ in range(r.randint(0, 3))]
        out.append(
            {
                "y": r.choice(["0", "1"]),
                "z": r.choice(targets),
                "weight": "0" if r.random() < 0.2 else repr(round(0.1 + 2 * r.random(), 2)),
                "user": str(r.randrange(IDS["user"])),
                "tags": "|".join(tags),
                "tag_weights": "|".join(r.choice(["0", "0.5", "1", "2"]) for _ in tags),
                "x": repr(round(r.gauss(0, 1), 3)),
            }
        )
    return out


def model_of(case, kind):
    out = {"kind": kind, "task_weights": case.one_of("task_weights", "fixed", ["fixed", "uncertainty"])}
    if kind != "lr":
        out["deep"] = case.one_of("deep", [], [[], [], [5], [4, 3]])
        out["activation"] = case.one_of("activation", "relu", ["relu", "relu", "none"])
    if kind != "dnn":
        out["linear_l2"] = case.one_of("linear_l2", 0, [0, 0.05])
    return out


def make(t):
    """Draw the case, write its rows and run.yaml."""
    case = t.case
    kind = case.one_of("kind", "dnn", ["dnn", "dnn", "dnn", "lr", "wide_deep"])
    dynamic = [name for name in IDS if case.maybe(f"dynamic/{name}", 0.3)]
    labels = labels_of(case, kind)
    data = {"train": "train.csv", "shuffle": False, "labels": labels, "features": features_of(case, dynamic)}
    if case.maybe("weights", 0.6):
        data["sample_weight"] = "weight"
    embedding = {
        "dim": 3,
        "combiner": case.one_of("combiner", "mean", ["mean", "sum", "sqrtn"]),
        "l2": case.one_of("l2", 0, [0, 0.01]),
        "l2_full": 0 if dynamic else case.one_of("l2_full", 0, [0, 0.02]),
        "initializer": {"kind": "normal", "stddev": 0.3},
        "optimizer": optimizer_of(case, "rows"),
        "tables": [dynamic_table(case, name) for name in dynamic],
    }
    train = {
        "batch_size": case.one_of("batch", 16, [8, 16, 64]),
        "epochs": case.one_of("epochs", 2, [1, 2, 3]),
        "staleness": case.one_of("staleness", 0, [0, 0, 1, 3]),
        "optimizer": optimizer_of(case, "dense"),
        "l2": case.one_of("l2_dense", 0, [0, 0.03]),
        "max_gradient_norm": case.one_of("norm", 0, [0, 0.05]),
        "tensorboard": False,
    }
    drawn = draw_rows(case, case.one_of("rows", 70, [64, 70, 90]), labels[-1].get("loss") == "mse")
    rows.write(t.work / "train.csv", drawn, COLUMNS)
    config = {"data": data, "embedding": embedding, "model": model_of(case, kind), "train": train}
    t.write("run.yaml", config)
    return ReferenceCase(config, drawn)
