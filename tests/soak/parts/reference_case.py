"""The case of a reference training: a small run file and its rows. Every rule that it can draw has its equation in reference.py or optimizers.py.

Where rows and biases begin at 0, the first gradients of a balanced batch cancel out, and lamb and lars do other things with 0 than with what rounding leaves. So they cancel out
exactly, in f32 too, or not at all: weights of samples are no round numbers; without them, shares and the first batch's size have few bits."""

from dataclasses import dataclass

from parts import rows
from parts.models import SEVERAL, SINGLE
from parts.settings import OPTIONS, RATES

COLUMNS = ["item", "y", "z", "weight", "user", "tags", "tag_weights", "x"]
IDS = {"user": 22, "tags": 17}
# Options beside those that settings.py draws, and schedules that change within some ten steps.
MORE_OPTIONS = {
    "clip_gradient": (set(RATES), [0.001, 0.01]),
    "momentum": ({"momentum", "adagrad_momentum", "lars"}, [0.5]),
    "beta1": ({"adam", "adamw", "rowwise_adam", "lamb"}, [0, 0.5]),
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


CATEGORIES = [  # the first two are not for sequences
    {"hash": 11, "hash_functions": 2},
    {"quotient_remainder": 5},
    {"hash": 5},
    {"vocabulary": {}},
    {"vocabulary": {"min_count": 4, "oov": 0}},
    {"vocabulary": {"min_count": 4, "oov": 3}},
    {"vocabulary": {"max_size": 8}},
]
SECTIONS = {
    "xdeepfm": {"cin": [[3], [4, 2]]},
    "dlrm": {"bottom": [[0], [4, 0]]},
    "dcn": {"cross_layers": [1, 2], "structure": ["parallel", "stacked"]},
    "dcn_v2": {"cross_layers": [1, 2], "structure": ["parallel", "stacked"], "cross_kind": ["full", "low_rank", "mixture"], "bottom": [[], [2]]},
    "shared_bottom": {"towers": [[], [3], [3, 2]]},
    "mmoe": {"towers": [[], [3], [3, 2]], "experts": [1, 3], "expert_units": [[4], [4, 3]]},
    "ple": {"towers": [[], [3]], "levels": [1, 2, 3], "task_experts": [1, 2], "shared_experts": [1, 2], "expert_units": [[4], [4, 3]]},
    "autoint": {"attention_layers": [1, 2], "attention_heads": [1, 2], "attention_dim": [2, 3]},
    "final_mlp": {"fusion_heads": [1, 2], "gates": [True, False]},
    "masknet": {"mask_blocks": [[5], [4, 3]], "reduction_ratio": [2, 0.5], "structure": ["parallel", "stacked"]},
    "din": {"attention_softmax": [False, True], "attention_deep": [[], [3]]},
}


@dataclass
class ReferenceCase:
    config: dict
    rows: dict
    plateau_metric: str


def optimizer_of(case, part):
    kind = case.one_of(f"{part}/kind", "sgd", sorted(RATES))
    out = {"kind": kind, "learning_rate": case.one_of(f"{part}/rate", 0.1, [0.1, 0.01])}
    for name, (kinds, values) in {**OPTIONS, **MORE_OPTIONS}.items():
        if kind in kinds:
            value = case.pick(f"{part}/{name}", None, lambda r: r.choice(values) if r.random() < 0.3 else None)
            if value is not None:
                out[name] = value
    if schedule := case.one_of(f"{part}/schedule", {}, [{}, *SCHEDULES]):
        out["schedule"] = schedule
    return out


def labels_of(case, kind):
    first = {
        "name": "y",
        "smoothing": case.one_of("smoothing", 0, [0, 0.125]),
        "weight": case.one_of("weight", 1, [1, 0.25]),
        "weight_decay_rate": case.one_of("task_decay", 0, [0, 0.1]),
    }
    if kind == "two_tower":
        return []
    if kind in SINGLE or not case.maybe("second_task", 0.6):
        return [first]
    second = {"name": "z", "optional": True, "weight": case.one_of("second_weight", 1, [1, 2, 0])}
    if case.maybe("regression", 0.3):
        return [first, {**second, "loss": "mse"}]
    product = {"name": "both", "column": "z", "optional": True, "product_of": ["y", "z"]}
    return [first, second, product] if case.maybe("product", 0.3) else [first, second]


def features_of(case, kind, dynamic):
    """Keys of a dynamic table are the numbers that are ids of a static one."""
    out, alone = [], kind == "din"
    for name in IDS:
        own = {"identity": IDS[name]}
        if name in dynamic and case.maybe(f"key/{name}", 0.5):
            own = {"key": True}
        elif not alone and case.maybe(f"category/{name}", 0.4):
            whole = name == "tags" and sequences_of(case, kind)
            own = case.one_of(f"category_kind/{name}", {}, CATEGORIES[2:] if whole else CATEGORIES)
            own = {"identity": IDS[name], **own} if "quotient_remainder" in own else own
        out.append({"name": name, **own})
    user, tags = out
    tags["separator"] = "|"
    if not sequences_of(case, kind):
        tags |= {"weights": "tag_weights"} if case.maybe("tag_weights", 0.6) else {}
        tags |= {"max_length": 2} if case.maybe("max_length", 0.3) else {}
    if case.maybe("cross", 0.2) and not {"key", "weights"} & (set(user) | set(tags)):
        out.append({"name": "crossed", "cross": ["user", "tags"], "hash": 9})
    if case.maybe("bucketize", 0.2):
        out.append({"name": "bucket", "column": "x", "bucketize": [-0.5, 0.701]})
    if case.maybe("numbers", 0.8) or kind == "masknet":
        out.append({"name": "x", "dense": True, "log1p": case.maybe("log1p", 0.3)})
    return out


def sequences_of(case, kind):
    """Of the features that have them, their lengths. In a sequence ids have no weights."""
    is_one = kind == "din" or kind in SEVERAL and case.maybe("sequence", 0.2)
    return [{"name": "tags", "max_sequence_length": case.one_of("sequence_length", 2, [2, 4])}] if is_one else []


def dynamic_table(case, name):
    """Of room for all keys or for some, but then for all that it has to count."""

    def eviction(r):
        out = {"policy": r.choice(["none", "lru", "lfu"]), "evict_to": r.choice([0.95, 0.8, 0.3, 1])}
        return {**out, "ttl_steps": r.choice([0, 0, 2, 20]), "keep": r.choice([0, 0, 11])}

    usual = {"policy": "none", "evict_to": 0.95, "ttl_steps": 0, "keep": 0}
    return {
        "name": name,
        "max_capacity": case.one_of(f"capacity/{name}", 1000, [1000, 12]),
        "eviction": case.pick(f"eviction/{name}", usual, eviction),
        "admission": {"min_count": case.one_of(f"min_count/{name}", 1, [1, 2, 9])},
        "missing": case.one_of(f"missing/{name}", "zeros", ["zeros", "oov", {"hash": 1}, {"hash": 3}]),
    }


def draw_rows(case, split, n, regression):
    r, targets = case.chance(f"rows/{split}"), ["", "1.5", "-0.5", "0.25"] if regression else ["", "0", "1", "0.25"]
    out = []
    for _ in range(n):
        tags = [str(r.randrange(IDS["tags"])) for _ in range(r.randint(0, 3))]
        out.append(
            {
                "y": r.choice(["0", "1"]),
                "z": r.choice(targets),
                "weight": "0" if r.random() < 0.2 else repr(round(0.1 + 2 * r.random(), 2)),
                "item": str(r.randrange(IDS["tags"])),
                "user": str(r.randrange(IDS["user"])),
                "tags": "|".join(tags),
                "tag_weights": "|".join(r.choice(["0", "0.5", "1", "2"]) for _ in tags),
                "x": repr(round(r.gauss(0, 1), 3)),
            }
        )
    return out


def model_of(case, kind):
    out = {"kind": kind, "task_weights": case.one_of("task_weights", "fixed", ["fixed", "uncertainty"])}
    if kind not in ("lr", "fm", "mmoe", "ple"):
        out["deep"] = case.one_of("deep", [], [[4]] if kind == "final_mlp" else [[], [], [5], [4, 3]])
    if kind not in ("lr", "fm") and (kind != "autoint" or out["deep"]):
        out["activation"] = case.one_of("activation", "relu", ["relu", "relu", "none", "gelu", "sigmoid", "tanh"])
        out["batch_norm"] = case.maybe("batch_norm", 0.3)
    for key, values in SECTIONS.get(kind, {}).items():
        out[key] = case.one_of(f"section/{key}", values[0], values)
    if out.get("cross_kind", "full") != "full":
        out["cross_rank"] = 2
    if out.get("cross_kind") == "mixture":
        out["cross_experts"] = case.one_of("cross_experts", 1, [1, 3])
    if kind == "final_mlp":
        out["deep2"] = case.one_of("deep2", [4], [[4], [3, 2]])
        if out["gates"] and case.maybe("context", 0.4):
            out |= {"gate_context": ["user"], "gate_deep": case.one_of("gate_deep", [], [[], [2]])}
    if kind == "din":
        out["attention"] = [{"target": "user", "history": "tags"}]
    if kind in SINGLE:
        out["linear_l2"] = case.one_of("linear_l2", 0, [0, 0.05])
    return out


def evaluations_of(case, labels):
    """Keys of train, and the metric that says whether rates drop."""
    out = {"evaluate": {"every_steps": case.one_of("evaluate_steps", 0, [0, 1, 3])}, "keep_best": "false"}
    metric = "logloss" if len(labels) == 1 else "y/logloss"
    if case.maybe("plateau", 0.5):
        out["plateau"] = {
            "metric": metric,
            "patience": case.one_of("patience", 1, [0, 1, 2]),
            "factor": case.one_of("factor", 0.5, [0.5, 0.3]),
            "min_factor": case.one_of("min_factor", 1e-6, [1e-6, 0.2]),
        }
    return out, metric


def embedding_of(case, kind, dynamic):
    out = {
        "dim": 3,
        "combiner": case.one_of("combiner", "mean", ["mean", "sum", "sqrtn"]),
        "l2": case.one_of("l2", 0, [0, 0.01]),
        "l2_full": 0 if dynamic else case.one_of("l2_full", 0, [0, 0.02]),
        "initializer": {"kind": "normal", "stddev": 0.3},
        "optimizer": optimizer_of(case, "rows"),
        "tables": [dynamic_table(case, name) for name in dynamic],
    }
    return out | {"features": sequences} if (sequences := sequences_of(case, kind)) else out


def pairs_of(case):
    """Features and model of a two_tower."""
    loss = case.one_of("loss", "softmax", ["softmax", "bpr", "cosine_contrastive"])
    is_contrastive, negatives = loss == "cosine_contrastive", case.one_of("negatives", 8, [0, 8, 12])
    retrieval = {
        "user": "user",
        "item": "item",
        "loss": loss,
        "negatives": negatives,
        "hard": case.one_of("hard", 1, [1, 2, 4]) if negatives else 1,
        "in_batch": case.maybe("in_batch", 0.4) or not negatives,
        "similarity": "cosine" if is_contrastive else case.one_of("similarity", "dot", ["dot", "cosine"]),
        "history": case.maybe("history", 0.4),
    }
    if is_contrastive:
        retrieval |= {"margin": case.one_of("margin", 0.5, [0.5, 0.1]), "negative_weight": case.one_of("negative_weight", 1, [1, 20])}
    else:
        retrieval["temperature"] = case.one_of("temperature", 1, [1, 0.3])
    if loss == "softmax":
        retrieval["log_q"] = case.maybe("log_q", 0.6)
    model = {"kind": "two_tower", "deep": case.one_of("towers", [], [[], [3], [4, 2]]), "retrieval": retrieval}
    if model["deep"]:
        model["activation"] = case.one_of("activation", "relu", ["relu", "gelu", "tanh", "none"])
    if retrieval["history"] and not model["deep"]:
        retrieval["history_linear"] = case.maybe("history_linear", 0.4)
    if retrieval["history"] and case.maybe("history_alone", 0.4):  # and so users without any input
        retrieval["user_tower"] = ["history"]
    features = [{"name": "user", "identity": IDS["user"]}]
    if case.maybe("user_tags", 0.5):
        features.append({"name": "tags", "separator": "|", "identity": IDS["tags"], "weights": "tag_weights"})
    return [*features, {"name": "item", "identity": IDS["tags"]}], model


def make(t):
    """Draw the case, write its rows and run.yaml."""
    case = t.case
    kind = case.one_of("kind", "dnn", [*SINGLE, *SEVERAL, "two_tower", "two_tower"])
    is_pairs, labels = kind == "two_tower", labels_of(case, kind)
    dynamic = [name for name in IDS if not is_pairs and case.maybe(f"dynamic/{name}", 0.3)]
    features, model = pairs_of(case) if is_pairs else (features_of(case, kind, dynamic), model_of(case, kind))
    data = {"train": "train.csv", "shuffle": False, "features": features, **({"labels": labels} if labels else {})}
    if case.maybe("weights", 0.6):
        data["sample_weight"] = "weight"
    train = {
        "batch_size": case.one_of("batch", 16, [8, 16, 64]),
        "epochs": case.one_of("epochs", 2, [1, 2, 3]),
        "staleness": case.one_of("staleness", 0, [0, 0, 1, 3]),
        "optimizer": optimizer_of(case, "dense"),
        "l2": case.one_of("l2_dense", 0, [0, 0.03]),
        "max_gradient_norm": case.one_of("norm", 0, [0, 0.05]),
        "tensorboard": False,
        "log_every": 1,
    }
    drawn = {"train": case.one_of("rows", 70, [64, 70, 90]), "valid": 40}
    drawn = {split: draw_rows(case, split, n, any(label.get("loss") == "mse" for label in labels)) for split, n in drawn.items()}
    for split, own in drawn.items():
        rows.write(t.work / f"{split}.csv", own, COLUMNS)
    evaluations, metric = evaluations_of(case, labels)
    if not is_pairs and case.maybe("evaluated", 0.7):
        data["valid"] = "valid.csv"
        train |= evaluations
    config = {"data": data, "embedding": embedding_of(case, kind, dynamic), "model": model, "train": train}
    t.write("run.yaml", config)
    return ReferenceCase(config, drawn, metric)
