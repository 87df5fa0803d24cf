"""Labels and models of a case, small."""

SINGLE = ["lr", "fm", "wide_deep", "deepfm", "xdeepfm"]
SEVERAL = [
    "dnn",
    "dlrm",
    "dcn",
    "dcn_v2",
    "autoint",
    "final_mlp",
    "masknet",
    "din",
    "shared_bottom",
    "mmoe",
    "ple",
]
EQUAL_DIMS = {"fm", "deepfm", "dlrm", "xdeepfm", "autoint", "masknet", "two_tower"}
TASKS = {"shared_bottom", "mmoe", "ple"}


def labels_of(case, kind):
    if kind == "two_tower":
        return []
    if kind not in TASKS and (kind in SINGLE or not case.maybe("tasks", 0.3)):
        return (
            [{"name": "y", "loss": "mse"}]
            if case.maybe("regression", 0.15)
            else [{"name": "click", **({"smoothing": 0.1} if case.maybe("smoothing", 0.1) else {})}]
        )
    bought = {"name": "bought", "optional": True, "weight": case.one_of("task_weight", 1, [1, 0.3])}
    if case.maybe("product", 0.3):
        return [
            {"name": "click"},
            {**bought, "name": "then", "column": "bought"},
            {"name": "all", "column": "click", "product_of": ["click", "then"]},
        ]
    return [{"name": "click", "weight_decay_rate": case.one_of("task_decay", 0, [0, 0.05])}, bought]


def model_of(case, kind):
    out = {"kind": kind}
    if kind not in ("lr", "fm", "mmoe", "ple", "two_tower"):
        out["deep"] = case.one_of("deep", [8], [[8], [16, 8], [7]])
    if kind not in ("lr", "fm", "two_tower"):
        out["dropout"] = case.one_of("dropout", 0, [0, 0, 0.3])
        out["batch_norm"] = kind not in ("mmoe", "ple") and case.maybe("batch_norm", 0.2)
        out["activation"] = case.one_of("activation", "relu", ["relu", "gelu", "sigmoid", "tanh", "none"])
    if kind not in ("lr", "two_tower"):
        out["feature_dropout"] = case.one_of("feature_dropout", 0, [0, 0, 0, 0.2])
    own = {
        "dlrm": {"bottom": [8, 0]},
        "dcn": {"cross_layers": 2},
        "xdeepfm": {"cin": [4, 3]},
        "autoint": {"attention_layers": 2, "attention_heads": 2, "attention_dim": 4},
        "final_mlp": {"fusion_heads": 1, "deep2": [5]},
        "masknet": {"mask_blocks": [6, 4]},
        "din": {"attention": [{"target": "item", "history": "history"}], "attention_deep": [4]},
        "shared_bottom": {"towers": [4]},
        "mmoe": {"experts": 2, "expert_units": [6], "towers": [4]},
        "ple": {"expert_units": [6], "towers": [4], "levels": 2},
        "dcn_v2": {
            "cross_layers": 2,
            "cross_kind": case.one_of("cross_kind", "full", ["full", "low_rank", "mixture"]),
        },
        "two_tower": {
            "retrieval": {
                "user": "user",
                "item": "item",
                "negatives": 32,
                "loss": case.one_of("loss", "softmax", ["softmax", "bpr", "cosine_contrastive"]),
                "similarity": "cosine",
                "in_batch": case.maybe("in_batch", 0.3),
                "sampling": case.one_of("sampling", "uniform", ["uniform", "popularity"]),
            }
        },
    }
    out.update(own.get(kind, {}))
    if out.get("cross_kind", "full") != "full":
        out["cross_rank"] = 3
    if kind in ("dcn", "dcn_v2", "masknet"):
        out["structure"] = case.one_of("structure", "parallel", ["parallel", "stacked"])
    if kind in TASKS:
        out["task_weights"] = case.one_of("task_weights", "fixed", ["fixed", "uncertainty"])
    return out
