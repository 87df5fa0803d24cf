"""The run file of a case."""

from dataclasses import dataclass, field

from parts.models import EQUAL_DIMS, SEVERAL, SINGLE, labels_of, model_of

RATES = {
    "sgd": 0.1,
    "momentum": 0.02,
    "adagrad": 0.05,
    "rowwise_adagrad": 0.05,
    "adam": 0.01,
    "rowwise_adam": 0.01,
    "adamw": 0.01,
    "ftrl": 0.1,
    "adagrad_momentum": 0.02,
    "lamb": 0.01,
    "lars": 0.5,
}
# Options of optimizers: those that take them, and values.
OPTIONS = {
    "clip_gradient": (set(RATES), [0.01, 1]),
    "clip_weight_max": (set(RATES), [0.3]),
    "nesterov": ({"momentum", "adagrad_momentum"}, [1]),
    "bias_correction": ({"adam", "adamw", "rowwise_adam", "lamb"}, [0]),
    "sum_inside_sqrt": ({"adam", "adamw", "rowwise_adam"}, [1]),
    "weight_decay": ({"sgd", "adagrad", "adam", "adamw", "lamb", "lars"}, [0.01]),
    "l1": ({"ftrl"}, [0.01]),
    "clip_gradient_min": (set(RATES), [-0.02]),
    "clip_weight_min": (set(RATES), [-0.2]),
    "weight_decay_by_learning_rate": ({"sgd", "adam", "lamb"}, [1]),
    "epsilon": ({"adagrad", "adam", "rowwise_adagrad"}, [0.1]),
    "initial_accumulator": ({"adagrad", "rowwise_adagrad"}, [0, 1]),
    "learning_rate_power": ({"ftrl"}, [-0.3]),
    "beta1": ({"adam", "rowwise_adam", "lamb"}, [0, 0.5]),
    "clip_gradient_max": (set(RATES), [0.02]),
}
# Kinds whose step needs whole rows: their tables are not cut by columns.
COUPLED = {"rowwise_adagrad", "rowwise_adam", "lamb", "lars"}


@dataclass
class Plan:
    """What a relation needs to know of a case beside its run file."""

    config: dict
    kind: str
    labels: list
    weighted: bool
    n_train: int
    n_steps: int
    tables: list = field(default_factory=list)
    keyed: list = field(default_factory=list)
    coupled: bool = False


def optimizer_by(r):
    kind = r.choice(sorted(RATES))
    out = {"kind": kind, "learning_rate": RATES[kind]}
    for option, (kinds, values) in OPTIONS.items():
        if kind in kinds and r.random() < 0.12:
            out[option] = r.choice(values)
    if r.random() < 0.2:
        out["schedule"] = r.choice(
            [
                {"warmup_steps": 5},
                {"kind": "polynomial", "decay_steps": 30, "end_factor": 0.1},
                {"kind": "polynomial", "decay_steps": 20, "end_factor": 0.2, "power": 2},
                {"kind": "cosine", "warmup_steps": 3, "decay_steps": 25},
                {"kind": "step", "decay_steps": 9, "step_factor": 0.5},
            ]
        )
    return out


def optimizer(case, name):
    return case.pick(name, None, optimizer_by)


INITIALIZERS = [
    {"kind": "normal", "stddev": 0.05},
    {"kind": "normal", "mean": 0.03, "stddev": 0.05},
    {"kind": "truncated_normal", "stddev": 0.1},
    {"kind": "uniform", "min": -0.1, "max": 0.1},
    {"kind": "constant", "value": 0.02},
    {"kind": "zeros"},
]


def initializer(case, name):
    return case.one_of(name, INITIALIZERS[0], INITIALIZERS)


def category(case, name, size):
    """A kind of feature for a column of whole numbers below size."""
    return case.one_of(
        f"{name}_kind",
        {"identity": size},
        [
            {"identity": size},
            {"identity": size + 3, "identity_offset": -3},
            {"hash": 97},
            {"hash": 13, "hash_seed": 5},
            {"vocabulary": {}},
            {"vocabulary": {"min_count": 3, "oov": 3}},
            {"vocabulary": {"min_count": 3, "oov": 0}},
            {"vocabulary": {"path": "words.txt", "oov": 2}},
            {"vocabulary": {"max_size": 20}},
        ],
    )


def features_of(case, kind, users, items):
    whole = {"identity": items} if kind == "din" else category(case, "item", items)
    out = [{"name": "user", **category(case, "user", users)}, {"name": "item", **whole}]
    tables = []
    if case.maybe("version", 0.6):
        out.append(
            {
                "name": "version",
                **case.one_of("version_kind", {"vocabulary": {}}, [{"vocabulary": {}}, {"hash": 1000}]),
            }
        )
    if case.maybe("tags", 0.5):
        tags = {"name": "tags", "separator": "|", **category(case, "tags", 30)}
        if case.maybe("tag_weights", 0.5):
            tags["weights"] = "tag_weights"
        if case.maybe("tag_limit", 0.2):
            tags["max_length"] = 2
        if "weights" not in tags and case.maybe("default_tag", 0.15):
            tags["default_value"] = "3"
        out.append(tags)
    if case.maybe("buckets", 0.3):
        out.append(
            {
                "name": "size_bucket",
                "column": "size",
                **case.one_of(
                    "buckets_kind", {"quantiles": 5}, [{"quantiles": 5}, {"bucketize": [-1, 0.5, 2]}]
                ),
            }
        )
    if case.maybe("cross", 0.3):
        out.append({"name": "both", "cross": ["user", "item"], "hash": 301})
    if case.maybe("dense", 0.6) or kind == "dlrm":
        out.append(
            {
                "name": "age",
                "dense": True,
                "normalize": case.maybe("normalize", 0.5),
                "log1p": case.maybe("log1p", 0.3),
            }
        )
        if case.maybe("dense_default", 0.3):
            out[-1]["default_value"] = "0.5"
    if case.maybe("pair", 0.15):
        out.append({"name": "pair", "dense": True, "width": 2, "separator": "|", "normalize": case.maybe("normalize_pair", 0.5)})
    if kind != "two_tower" and case.maybe("brand", 0.15):
        out.append({"name": "brand", **case.one_of("brand_kind", {"vocabulary": {}}, [{"vocabulary": {}}, {"hash": 50}])})
        if case.maybe("default_brand", 0.3):
            out[-1]["default_value"] = "7"
    if kind == "din" or case.maybe("sequence", 0.15):
        out.append(
            {
                "name": "history",
                "separator": "|",
                **({"identity": items} if kind == "din" else category(case, "history", items)),
            }
        )
        tables.append({"name": "history", "max_sequence_length": case.one_of("sequence_length", 3, [3, 5])})
        if kind == "din":
            tables[-1]["table"] = "item"
    return out, tables


def dynamic_table(case, name):
    """Few rows, or more than there are keys."""

    def draw(r):
        out = {
            "max_capacity": r.choice([3, 20, 60, 2000]),
            "buckets": r.choice([0, 1, 3]),
            "missing": r.choice(["zeros", "zeros", "oov", {"hash": 1}, {"hash": 7}]),
            "eviction": {
                "policy": r.choice(["lru", "lru", "lfu", "none"]),
                "evict_to": r.choice([0.5, 0.95, 1]),
                "ttl_steps": r.choice([0, 0, 2, 20]),
                "keep": r.choice([0, 0, 3]),
            },
        }
        if r.random() < 0.5:
            out["admission"] = {"min_count": r.choice([1, 2, 4]), "probability": r.choice([1, 0.6])}
            if out["admission"]["min_count"] > 1:
                out["admission"]["counter"] = r.choice(["exact", "count_min", "bloom"])
        if r.random() < 0.3:
            out["storage"] = {"tier": "ssd", "memory": r.choice(["1", "2KB", "100KB"])}
        return out

    return case.pick(f"dynamic/{name}", None, lambda r: draw(r) if r.random() < 0.2 else None)


def make_dynamic(case, kind, features, embedding):
    """Names of the tables that are dynamic, some of whose features have keys for ids."""
    tables, keyed = {table["name"]: table for table in embedding.get("tables", [])}, []
    crossed = any("cross" in feature for feature in features)
    for feature in features:
        name = feature["name"]
        if feature.get("dense") or (name == "history" and kind == "din"):
            continue
        dynamic = dynamic_table(case, name)
        if not dynamic:
            continue
        if ttl := case.one_of(f"ttl/{name}", 0, [0, 0, 0, 400, 4000]):
            dynamic = {**dynamic, "eviction": {**dynamic["eviction"], "ttl": ttl}}
        tables.setdefault(name, {"name": name}).update(dynamic)
        keyed.append(name)
        may_have_keys = name == "tags" or (name in ("user", "item") and kind != "two_tower" and not crossed)
        if may_have_keys and case.maybe(f"key/{name}", 0.5):
            for other in ("identity", "identity_offset", "hash", "hash_seed", "vocabulary"):
                feature.pop(other, None)
            feature["key"] = True
    if keyed:
        embedding["tables"] = list(tables.values())
        embedding["l2_full"] = 0
    return keyed


def compose(case, kind, features, embedding):
    """Several rows a value, for some features that may have them."""
    sequences = {entry["name"] for entry in embedding.get("features", []) if "max_sequence_length" in entry}
    pairs = {"two_tower": ("user", "item"), "din": ("item",)}.get(kind, ())
    for feature in features:
        name = feature["name"]
        if feature.get("dense") or feature.get("key") or name in sequences or name in pairs:
            continue
        key, choices = ("hash_functions", [1, 2, 3]) if "hash" in feature else ("quotient_remainder", [3, 7, 50])
        parts = case.pick(f"parts/{name}", 0, lambda r: r.choice(choices) if r.random() < 0.15 else 0)
        if not parts:
            continue
        feature[key] = parts
        single = not {"separator", "weights", "max_length", "cross"} & set(feature) and (key, parts) != ("hash_functions", 1)
        if single and kind != "two_tower":
            feature["compose"] = case.one_of(f"compose/{name}", "pool", ["pool", "multiply", "concat"])


def other_lookups(case, plan, embedding, features):
    """Features with a combiner of their own, or in the table of another feature."""
    entries = {entry["name"]: entry for entry in embedding.get("features", [])}
    shared = {entry["table"] for entry in entries.values() if "table" in entry}
    plain = [feature for feature in features if not feature.get("dense") and feature["name"] not in entries]
    for feature in plain if plan.kind != "two_tower" else []:
        name = feature["name"]
        if combiner := case.pick(f"combiner/{name}", None, lambda r: r.choice(["mean", "sum", "sqrtn"]) if r.random() < 0.1 else None):
            entries.setdefault(name, {"name": name})["combiner"] = combiner
        own = {table["name"] for table in embedding.get("tables", [])} | set(plan.keyed) | shared
        if name in ("tags", "item") and not {name, "user"} & own and plan.kind not in ("lr", "din") and case.maybe(f"in_table_of_user/{name}", 0.1):
            entries.setdefault(name, {"name": name})["table"] = "user"
            plan.tables.remove(name)
    if entries:
        embedding["features"] = list(entries.values())


def own_tables(case, plan, embedding):
    """Tables with options of their own, beside those that they have."""

    def draw(r):
        out = {}
        if r.random() < 0.4:
            out["optimizer"] = optimizer_by(r)
        if r.random() < 0.3:
            out["initializer"] = r.choice(INITIALIZERS)
        if r.random() < 0.3:
            out["l2"] = r.choice([0, 0.02])
        if r.random() < 0.2:
            out["l2_full"] = r.choice([0, 0.002])
        if r.random() < 0.3:
            out["dtype"] = r.choice(["f32", "bf16", "f16"])
        if r.random() < 0.25:
            out["trainable"] = False
        return out

    tables = {table["name"]: table for table in embedding.get("tables", [])}
    for name in plan.tables:
        own = case.pick(f"own/{name}", {}, lambda r: draw(r) if r.random() < 0.12 else {})
        if name in plan.keyed:
            own = {key: value for key, value in own.items() if key not in ("trainable", "l2_full")}
        if own and not (name == "history" and plan.kind == "din"):
            tables.setdefault(name, {"name": name}).update(own)
            plan.coupled = plan.coupled or own.get("optimizer", {}).get("kind") in COUPLED
    if tables:
        embedding["tables"] = list(tables.values())


def train_of(case, kind, n_train, batch):
    epochs = case.one_of("epochs", 2, [1, 2, 3, 5])
    per_epoch = -(-n_train // batch)
    out = {
        "batch_size": batch,
        "epochs": epochs,
        "log_every": case.one_of("log_every", 1, [1, 1, 3, 1000]),
        "seed": case.one_of("seed", 1, [1, 2, 99]),
        "staleness": case.one_of("staleness", 0, [0, 0, 1, 2, 3]),
        "max_gradient_norm": case.one_of("norm", 0, [0, 0, 0.1, 5]),
        "l2": case.one_of("l2_dense", 0, [0, 0, 0.001]),
        "dtype": case.one_of("dense_dtype", "f32", ["f32"] * 5 + ["bf16"]),
        "on_not_finite": case.one_of("on_not_finite", "fail", ["fail", "skip"]),
        "tensorboard": case.maybe("tensorboard", 0.3),
    }
    if case.maybe("steps", 0.2):
        out["steps"] = case.pick("n_steps", per_epoch, lambda r: r.randint(2, max(2, epochs * per_epoch)))
    out["evaluate"] = {
        "every_epochs": case.one_of("evaluate_epochs", 1, [0, 1, 1, 2]),
        "every_steps": case.pick(
            "evaluate_steps", 0, lambda r: r.choice([0, 1, 3, 7, per_epoch, max(1, per_epoch // 2)])
        ),
        "batch_size": case.one_of("evaluate_batch", 0, [0, 0, 33, 1000]),
    }
    out["checkpoint"] = {
        "every_epochs": case.one_of("save_epochs", 1, [0, 1, 1, 2]),
        "every_steps": case.pick(
            "save_steps", 0, lambda r: r.choice([0, 2, 5, per_epoch, max(1, per_epoch // 2)])
        ),
        "keep": case.one_of("keep", 3, [1, 1, 2, 3, 100]),
    }
    if dense := optimizer(case, "dense_optimizer"):
        out["optimizer"] = dense
    steps = epochs * per_epoch
    return out, min(steps, out.get("steps") or steps)


def policy(case, train, data):
    if "valid" not in data:
        return
    if case.maybe("early_stopping", 0.3):
        train["early_stopping"] = {
            "patience": case.one_of("patience", 1, [1, 2, 3]),
            "min_delta": case.one_of("min_delta", 0, [0, 0, 0.01]),
        }
    if case.maybe("plateau", 0.2):
        train["plateau"] = {"patience": case.one_of("plateau_patience", 1, [0, 1, 2]), "factor": 0.5, "min_factor": case.one_of("min_factor", 1e-6, [1e-6, 0.4])}
    train["keep_best"] = case.one_of("keep_best", "auto", ["auto", "true", "false", "false"])


def data_of(case, kind, features, labels):
    data = {
        "train": "train.csv",
        "test": "test.csv",
        "features": features,
        "shuffle": case.pick("shuffle", True, lambda r: r.random() < 0.8),
        "reader_threads": case.one_of("reader_threads", 1, [1, 1, 3]),
    }
    if labels:
        data["labels"] = labels
    valid = case.one_of("valid", "file", ["file", "file", "fraction", "none"])
    if valid != "none":
        data["valid"] = "valid.csv" if valid == "file" else {"fraction": 0.2}
    if case.maybe("window", 0.4):
        data["shuffle_window"] = case.pick("window_rows", 100, lambda r: r.choice([1, 100, 260, 333]))
    if case.maybe("no_cache", 0.3):
        data["cache_bytes"] = 0
    if case.maybe("weights", 0.25):
        data["sample_weight"] = "weight"
        if case.maybe("missing_weights", 0.3):
            data["default_sample_weight"] = 0.5
    if any(feature["name"] == "brand" for feature in features):
        data["joins"] = [{"path": "brands.csv", "key": "item"}]
    if case.maybe("groups", 0.15) and kind != "two_tower":
        data["group"] = "group"
    return data


def embedding_of(case, kind, embedded):
    """embedded: entries of features."""
    out = {
        "dim": case.one_of("dim", 4, [1, 4, 8, 17]),
        "dtype": case.one_of("rows_dtype", "f32", ["f32", "f32", "f32", "bf16", "f16"]),
        "combiner": case.one_of("combiner", "mean", ["mean", "sum", "sqrtn"]),
        "initializer": initializer(case, "initializer"),
        "l2": case.one_of("l2", 0, [0, 0, 0.01]),
        "l2_full": case.one_of("l2_full", 0, [0, 0, 0, 0.001]),
    }
    if rows := optimizer(case, "rows_optimizer"):
        out["optimizer"] = rows
    if embedded:
        out["features"] = embedded
    if kind not in EQUAL_DIMS and kind != "lr" and case.maybe("other_dim", 0.2):
        out["tables"] = [{"name": "user", "dim": 3, "dtype": "f32"}]
    return out


def make(case, kinds=None):
    kind = case.one_of("kind", "dnn", kinds or SINGLE + SEVERAL + ["two_tower"])
    n_train = case.pick("rows", 300, lambda r: r.randint(150, 1200))
    users, items = case.one_of("users", 40, [40, 300]), case.one_of("items", 30, [30, 200])
    batch = case.pick("batch", 50, lambda r: r.choice([20, 32, 50, 64, 100, 128, 257, 600, 1100]))
    n_train = min(n_train, batch * 25) + (batch if batch > 257 else 0)
    features, embedded = features_of(case, kind, users, items)
    if kind == "two_tower":
        pair = [{"name": "user", "identity": users}, {"name": "item", "identity": items}]
        features, embedded = pair + [f for f in features if f["name"] == "version"], []
    labels = labels_of(case, kind)
    data, embedding = data_of(case, kind, features, labels), embedding_of(case, kind, embedded)
    keyed = make_dynamic(case, kind, features, embedding)
    if any("ttl" in table.get("eviction", {}) for table in embedding.get("tables", [])) or case.maybe("timestamp", 0.1):
        data["timestamp"] = "time"
    compose(case, kind, features, embedding)
    train, n_steps = train_of(case, kind, n_train, batch)
    if kind == "two_tower":
        train["metrics"] = ["recall@5"]
    policy(case, train, data)
    config = {"data": data, "embedding": embedding, "model": model_of(case, kind), "train": train}
    if keyed:
        config["model"].pop("linear_l2_full", None)
    plan = Plan(config, kind, labels, "sample_weight" in data, n_train, n_steps)
    plan.coupled = (embedding.get("optimizer") or train.get("optimizer") or {"kind": "adam"})["kind"] in COUPLED
    vectors = [f["name"] for f in features if not f.get("dense") and (f["name"] != "history" or kind != "din")]
    plan.tables = [] if kind == "lr" else vectors
    plan.keyed = keyed
    other_lookups(case, plan, embedding, features)
    own_tables(case, plan, embedding)
    plan.users, plan.items = users, items
    return plan
