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
        if case.maybe("regression", 0.15):
            return [{"name": "y", "loss": "mse"}]
        source = case.one_of("label", {}, [{}] * 4 + [{"column": "y", "threshold": 0.5}, {"column": "group", "positive": ["1", "3", "x"]}])
        return [{"name": "click", **source, **({"smoothing": 0.1} if case.maybe("smoothing", 0.1) else {})}]
    bought = {"name": "bought", "optional": True, "weight": case.one_of("task_weight", 1, [1, 0.3])}
    if case.maybe("product", 0.3):
        return [
            {"name": "click"},
            {**bought, "name": "then", "column": "bought"},
            {"name": "all", "column": "click", "product_of": ["click", "then"]},
        ]
    return [{"name": "click", "weight_decay_rate": case.one_of("task_decay", 0, [0, 0.05])}, bought]


def retrieval_of(case):
    """Pairs, negatives and loss of a two_tower."""
    loss = case.one_of("loss", "softmax", ["softmax", "bpr", "cosine_contrastive"])
    out = {
        "user": "user",
        "item": "item",
        "negatives": 32,
        "loss": loss,
        "similarity": "cosine" if loss == "cosine_contrastive" else case.one_of("similarity", "cosine", ["cosine", "dot"]),
        "in_batch": case.maybe("in_batch", 0.3),
        "sampling": case.one_of("sampling", "uniform", ["uniform", "popularity"]),
        "hard": case.one_of("hard", 1, [1, 1, 2, 8]),
        "history": case.maybe("user_history", 0.3),
    }
    if loss == "cosine_contrastive":
        out.update(margin=case.one_of("margin", 0.5, [0.5, 0.1]), negative_weight=case.one_of("negative_weight", 1, [1, 20]))
    else:
        out["temperature"] = case.one_of("temperature", 1, [1, 0.1])
    if loss == "softmax":
        out["log_q"] = case.maybe("log_q", 0.6)
    if out["sampling"] == "popularity":
        out["popularity_exponent"] = case.one_of("popularity_exponent", 0.75, [0.75, 0, 2])
    if out["history"]:
        out["max_history"] = case.one_of("max_history", 0, [0, 2])
        if case.maybe("history_alone", 0.2):
            out["user_tower"] = ["history"]
    return out


def gates_of(case):
    """What the gates of final_mlp's streams are computed from."""
    return case.one_of("gates", {}, [{}, {}, {"gates": False}, {"gate_context": ["user"], "gate_deep": [3]}, {"gate_context2": ["item"], "dropout2": 0.2}])


def model_of(case, kind):
    out = {"kind": kind}
    if kind not in ("lr", "fm", "mmoe", "ple", "two_tower"):
        out["deep"] = case.one_of("deep", [8], [[8], [16, 8], [7]] + ([[]] if kind not in ("final_mlp", "autoint") else []))
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
        "final_mlp": {"fusion_heads": 1, "deep2": [5], **gates_of(case)},
        "masknet": {"mask_blocks": [6, 4], "reduction_ratio": case.one_of("reduction_ratio", 2, [2, 0.5])},
        "din": {
            "attention": [{"target": "item", "history": "history"}],
            "attention_deep": [4],
            "attention_softmax": case.maybe("attention_softmax", 0.3),
        },
        "shared_bottom": {"towers": [4]},
        "mmoe": {"experts": 2, "expert_units": [6], "towers": [4]},
        "ple": {
            "expert_units": [6],
            "towers": [4],
            "levels": case.one_of("levels", 2, [1, 2]),
            "task_experts": case.one_of("task_experts", 1, [1, 2]),
            "shared_experts": case.one_of("shared_experts", 1, [1, 2]),
        },
        "dcn_v2": {
            "cross_layers": 2,
            "cross_kind": case.one_of("cross_kind", "full", ["full", "low_rank", "mixture"]),
        },
        "two_tower": {"retrieval": retrieval_of(case)} if kind == "two_tower" else {},
    }
    out.update(own.get(kind, {}))
    if out.get("cross_kind", "full") != "full":
        out["cross_rank"] = 3
    if out.get("cross_kind") == "mixture":
        out["cross_experts"] = case.one_of("cross_experts", 4, [1, 2, 4])
    if kind in ("lr", "fm", "wide_deep", "deepfm", "xdeepfm"):
        out["linear_l2"] = case.one_of("linear_l2", 0, [0, 0, 0.01])
        out["linear_l2_full"] = case.one_of("linear_l2_full", 0, [0, 0, 0, 0.002])
    if kind == "two_tower":
        out["deep"] = case.one_of("towers", [], [[], [], [8, 4]])
        if out["retrieval"]["history"] and not out["deep"]:
            out["retrieval"]["history_linear"] = case.maybe("history_linear", 0.3)
    if kind in ("dcn", "dcn_v2", "masknet"):
        out["structure"] = case.one_of("structure", "parallel", ["parallel", "stacked"])
    if kind in TASKS:
        out["task_weights"] = case.one_of("task_weights", "fixed", ["fixed", "uncertainty"])
    return out
