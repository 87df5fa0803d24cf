"""Every kind of model, on small random data: what tests of exports train (tests/export/onnx_models, tests/python/saved_models)."""
import dataclasses

import numpy as np

N_ROWS, TOLERANCE = 150, 1e-5
IDS = {"user": 40, "tags": 30, "shown": 35, "item": 25, "clicks": 25}
DENSE = ["x", "z"]

# --- data -------------------------------------------------------------------------------------------------------------------------


def make_rows(seed):
    """Bags of each feature (some empty), weights of tags, numbers, labels."""
    r = np.random.default_rng(seed)
    several = {"user": (1, 1), "tags": (0, 5), "shown": (0, 6), "item": (1, 1), "clicks": (0, 9)}
    bags = {f: [r.integers(0, n, r.integers(several[f][0], several[f][1] + 1)) for _ in range(N_ROWS)] for f, n in IDS.items()}
    weights = [np.round(r.uniform(-0.5, 2, len(b)), 3).astype(np.float32) for b in bags["tags"]]
    return {"bags": bags, "weights": weights, "dense": np.round(r.normal(size=(N_ROWS, 2)), 4).astype(np.float32), "labels": r.integers(0, 2, (N_ROWS, 3))}


def write_rows(path, rows):
    lines = [",".join([*IDS, "weights", *DENSE, "a", "b", "c"])]
    for i in range(N_ROWS):
        ids = ["|".join(map(str, rows["bags"][f][i])) for f in IDS]
        numbers = [str(v) for v in rows["dense"][i]] + [str(v) for v in rows["labels"][i]]
        lines.append(",".join([*ids, "|".join(map(str, rows["weights"][i])), *numbers]))
    path.write_text("\n".join(lines) + "\n")


def histories(rows):
    """Of each row's user: the items of all of its rows, each once."""
    users = [int(b[0]) for b in rows["bags"]["user"]]
    items = {u: sorted({int(b[0]) for v, b in zip(users, rows["bags"]["item"]) if v == u}) for u in users}
    return [np.array(items[u]) for u in users]


# --- cases ------------------------------------------------------------------------------------------------------------------------

EMBEDDING = "initializer: {kind: normal, stddev: 0.3}, optimizer: {kind: adagrad, learning_rate: 0.2}"
DYNAMIC = ", tables: [{name: item, max_capacity: 20, buckets: 3}, {name: user, max_capacity: 30, missing: oov, admission: {min_count: 2}}, {name: tags, max_capacity: 100}]"
LABELS = ["", "{name: a}", "{name: a}, {name: b, loss: mse}", "{name: a}, {name: b, weight: 0.5}, {name: c, product_of: [a, b]}"]
GRAPH = """
    - {name: clicked, op: linear, inputs: clicks, units: 8, by_row: true, bias: false}
    - {name: fitting, op: target_pairs, inputs: [item, clicks]}
    - {name: scores, op: linear, inputs: fitting, units: 1, by_row: true, relu: true}
    - {name: pooled, op: attention_pool, inputs: [scores, clicks, lengths], softmax: true}
    - {name: summed, op: attention_pool, inputs: [scores, clicks, lengths]}
    - {name: there, op: mask, inputs: lengths, rows: 6}
    - {name: also, op: mask, inputs: lengths, rows: 6, count: 2}
    - {name: mixed, op: attention, inputs: [clicked, clicks, clicked, there], count: 2}
    - {name: free, op: attention, inputs: [clicks, clicked, clicks], count: 4}
    - {name: masked, op: multiply, inputs: [free, also]}
    - {name: normed, op: layer_norm, inputs: mixed, by_row: true}
    - {name: normed2, op: layer_norm, inputs: masked}
    - {name: both, op: add, inputs: [normed, normed2, clicks]}
    - {name: biased, op: bias, inputs: both}
    - {name: turned, op: transpose, inputs: biased}
    - {name: maps, op: cin, inputs: [turned, turned], units: 3}
    - {name: fields, op: reshape, inputs: maps, rows: 3}
    - {name: gates, op: softmax, inputs: fields}
    - {name: chosen, op: reshape, inputs: gates, rows: 4, cols: 6}
    - {name: mixture, op: batch_matmul, inputs: [chosen, biased]}
    - {name: dots, op: dot_interaction, inputs: mixture}
    - {name: pairs, op: fm, inputs: mixture}
    - {name: rows, op: sum_rows, inputs: mixture}
    - {name: unit, op: l2_normalize, inputs: mixture}
    - {name: numbers, op: number_vectors, inputs: dense, units: 8}
    - {name: learned, op: gate, inputs: numbers}
    - {name: gated, op: gate, inputs: [rows, user]}
    - {name: smooth, op: gelu, inputs: gated}
    - {name: shrunk, op: tanh, inputs: smooth}
    - {name: squashed, op: sigmoid, inputs: rows}
    - {name: v1, op: cross_v1, inputs: [user, squashed]}
    - {name: v2, op: cross_combine, inputs: [user, shrunk, v1]}
    - {name: same, op: constant, inputs: [], units: 5}
    - {name: x, op: concat, inputs: [pooled, summed, dots, pairs, unit, learned, v2, same, tags, shown]}
    - {name: norm, op: batch_norm, inputs: x}
    - {name: drop, op: dropout, inputs: norm, rate: 0.2}
    - {name: some, op: slice, inputs: drop, first: 3, count: 40}
    - {name: deep, op: linear, inputs: some, units: 12}
    - {name: active, op: relu, inputs: deep}
    - {name: one, op: linear, inputs: active, units: 1}
    - {name: two, op: linear, inputs: norm, units: 1}
    - {name: either, op: product_logit, inputs: [one, two]}
    - {name: wide, op: sum_all, inputs: linear}
    - {name: logit, op: add, inputs: [either, wide]}
"""


@dataclasses.dataclass
class Case:
    name: str
    model: str
    labels: int = 1
    tags: str = "mean"  # their combiner
    features: tuple = tuple(IDS)
    dense: bool = True
    sequence: bool = False  # clicks are one, else a bag
    embedding: str = ""
    dim: int = 8
    train: str = ""
    export: tuple = ()
    tolerance: float = TOLERANCE
    keys: tuple = ()  # features of the pair that are keys; histories are looked up in the items' table then
    composed: dict = dataclasses.field(default_factory=dict)  # features of two ids a value: what they are divided by, how their rows are composed

    def run_file(self, rows):
        several = {"tags": ', separator: "|", weights: weights', "shown": ', separator: "|"', "clicks": ', separator: "|"'}
        parts = {f: f", quotient_remainder: {divisor}, compose: {how}" for f, (divisor, how) in self.composed.items()}
        kinds = {f: "key: true" if f in self.keys else f"identity: {IDS[f]}" for f in self.features}
        features = [f"{{name: {f}, {kinds[f]}{several.get(f, '')}{parts.get(f, '')}}}" for f in self.features]
        features += [f"{{name: {d}, dense: true}}" for d in DENSE if self.dense]
        lookups = {"user": "combiner: sum", "tags": f"combiner: {self.tags}", "shown": "combiner: sqrtn"}
        lookups["clicks"] = "table: item, max_sequence_length: 6" if self.sequence else "table: item"
        lookups = [f"{{name: {f}, {how}}}" for f, how in lookups.items() if f in self.features]
        if self.keys:
            lookups.append("{name: history, table: item}")
        labels = f"labels: [{LABELS[self.labels]}], " if self.labels else ""
        return (
            f"data: {{train: {rows}, {labels}features: [{', '.join(features)}]}}\n"
            f"embedding: {{dim: {self.dim}, {EMBEDDING}{self.embedding}, features: [{', '.join(lookups)}]}}\n"
            f"model: {self.model}\n"
            f"train: {{batch_size: 50, epochs: 3, output: run, optimizer: {{kind: adam, learning_rate: 0.03}}{self.train}}}\n"
        )


def compose_rows(case, rows):
    """The rows with ids as the exported model takes them (docs/embeddings.md)."""
    bags, weights = dict(rows["bags"]), rows["weights"]
    for feature, (divisor, _) in case.composed.items():
        first = -(-IDS[feature] // divisor)
        bags[feature] = [np.stack([ids // divisor, first + ids % divisor], 1).reshape(-1) for ids in bags[feature]]
    if "tags" in case.composed:
        weights = [np.repeat(w, 2) for w in weights]
    sequences = {"clicks", *(f for f, (_, how) in case.composed.items() if how != "pool")}
    return rows | {"bags": bags, "weights": weights, "sequences": sequences}


def two_tower(name, model, **more):
    return Case(name, f"{{kind: two_tower, retrieval: {{user: user, item: item, negatives: 16{model}}}", labels=0, features=("user", "tags", "item"), **more)


CASES = [
    Case("lr", "{kind: lr}"),
    Case("fm", "{kind: fm}", tags="sum"),
    Case("dnn", "{kind: dnn, deep: [16, 8], batch_norm: true, dropout: 0.2, activation: gelu}", labels=2, tags="sqrtn"),
    Case("wide_deep", "{kind: wide_deep, deep: [16]}"),
    Case("deepfm", "{kind: deepfm, deep: [16], feature_dropout: 0.1}"),
    Case("dlrm", "{kind: dlrm, deep: [16], bottom: [8, 0], activation: tanh}"),
    Case("dcn", "{kind: dcn, deep: [16], cross_layers: 2}", labels=2),
    Case("dcn_stacked", "{kind: dcn, deep: [16], structure: stacked}", sequence=True),
    Case("dcn_v2", "{kind: dcn_v2, deep: [16]}", sequence=True),
    Case("dcn_v2_low_rank", "{kind: dcn_v2, deep: [16], cross_kind: low_rank, cross_rank: 4}"),
    Case("dcn_v2_mixture", "{kind: dcn_v2, deep: [16], cross_kind: mixture, cross_rank: 4, cross_experts: 3, bottom: [8]}"),
    Case("xdeepfm", "{kind: xdeepfm, deep: [16], cin: [6, 4]}"),
    Case("autoint", "{kind: autoint, deep: [16], attention_layers: 2, attention_dim: 4}", sequence=True),
    Case("final_mlp", "{kind: final_mlp, deep: [16, 8], deep2: [8], fusion_heads: 2}"),
    Case("final_mlp_context", "{kind: final_mlp, deep: [16, 8], deep2: [8], gate_context: [user], gate_context2: [item]}"),
    Case("masknet", "{kind: masknet, deep: [16], mask_blocks: [8, 8]}", sequence=True),
    Case("masknet_stacked", "{kind: masknet, deep: [16], mask_blocks: [8, 8], structure: stacked}"),
    Case("din", "{kind: din, deep: [16], attention: [{target: item, history: clicks}]}", sequence=True),
    Case("din_softmax", "{kind: din, deep: [16], attention: [{target: item, history: clicks}], attention_softmax: true}", sequence=True),
    Case("shared_bottom", "{kind: shared_bottom, deep: [16], towers: [8], batch_norm: true}", labels=3),
    Case("mmoe", "{kind: mmoe, expert_units: [16], towers: [8], experts: 3}", labels=2),
    Case("ple", "{kind: ple, expert_units: [16], towers: [8], task_weights: uncertainty}", labels=3),
    two_tower("two_tower", "}", dense=False),
    two_tower("two_tower_deep", ", similarity: cosine}, deep: [16, 4]"),
    two_tower("two_tower_history", ", history: true}, deep: [16, 4]", dense=False),
    Case("graph", "\n  kind: graph\n  layers:" + GRAPH.rstrip(), sequence=True),
    Case("dense_alone", "{kind: dnn, deep: [8]}", features=()),
    Case("one_feature", "{kind: dnn, deep: [8]}", features=("user",), dense=False),
    Case("f16", "{kind: dnn, deep: [16]}", embedding=", dtype: f16", sequence=True),
    Case("bf16", "{kind: dnn, deep: [16]}", embedding=", dtype: bf16"),
    Case("f16_rows", "{kind: deepfm, deep: [16]}", export=("--rows", "f16")),
    Case("int8_rows", "{kind: deepfm, deep: [16]}", export=("--rows", "int8"), sequence=True),
    Case("int4_rows", "{kind: deepfm, deep: [16]}", export=("--rows", "int4"), sequence=True, dim=7),
    two_tower("int4_towers", "}, deep: [16, 4]", export=("--rows", "int4"), dim=16),
    Case("ids_of_32_bits", "{kind: deepfm, deep: [16]}", export=("--ids", "int32")),
    Case("padded", "{kind: deepfm, deep: [16]}", export=("--bags", "padded")),
    Case("padded_sum", "{kind: wide_deep, deep: [16]}", export=("--bags", "padded", "--ids", "int32"), tags="sum"),
    Case("padded_sqrtn", "{kind: fm}", export=("--bags", "padded"), tags="sqrtn"),
    Case("padded_sequence", "{kind: din, deep: [16], attention: [{target: item, history: clicks}]}", export=("--bags", "padded", "--rows", "int4"), sequence=True),
    two_tower("padded_towers", ", history: true}, deep: [16, 4]", dense=False, export=("--bags", "padded")),
    Case("dynamic", "{kind: din, deep: [16], attention: [{target: item, history: clicks}]}", embedding=DYNAMIC, export=("--bags", "padded", "--rows", "int8"), sequence=True),
    two_tower("dynamic_towers", ", history: true}, deep: [16, 4]", dense=False, embedding=", tables: [{name: item, max_capacity: 20, buckets: 3}, {name: user, max_capacity: 25}]"),
    two_tower("towers_of_keys", ", history: true}, deep: [16, 4]", dense=False, keys=("user", "item"), embedding=", tables: [{name: item, max_capacity: 20, buckets: 3}, {name: user, max_capacity: 25}]"),
    Case("composed", "{kind: deepfm, deep: [16]}", features=("user", "tags", "shown", "item"), composed={"user": (7, "multiply"), "tags": (4, "pool"), "item": (5, "concat")}),
    Case("padded_composed", "{kind: dcn, deep: [16]}", features=("user", "tags"), export=("--bags", "padded"), composed={"user": (7, "multiply"), "tags": (4, "pool")}),
    Case("several_files", "{kind: dcn_v2, deep: [16]}", export=("--shard-bytes", "3000")),
    Case("bf16_products", "{kind: dnn, deep: [16]}", train=", dtype: bf16", tolerance=2e-2),
]


# --- transforms -----------------------------------------------------------------------------------------------------------------

VALUES = """\
data:
  train: train.csv
  missing: [none]
  labels: [{name: clicked}]
  features:
    - {name: item, vocabulary: {}}
    - {name: tags, vocabulary: {oov: 0}, separator: "|", weights: strength}
    - {name: year, identity: 20, identity_offset: 100}
    - {name: size, bucketize: [1, 2.5, 7], separator: "|"}
    - {name: age, quantiles: 10}
    - {name: hashed, hash: 30}
    - {name: price, dense: true, log1p: true, normalize: true}
    - {name: depth, dense: true, log1p: true, default_value: "2.5"}
    - {name: plain, dense: true, normalize: true}
embedding: {dim: 8, %s, features: [{name: tags, combiner: mean}, {name: size, combiner: sum}]}
model: {kind: dnn, deep: [8]}
train: {batch_size: 50, epochs: 3, output: run}
"""


def make_values(seed, n_words):
    """Texts of each column, bags as lists, missing ones among them."""
    r = np.random.default_rng(seed)
    some = lambda values: [None if r.random() < 0.1 else v for v in values]
    rows = {"item": [[f"i{i}"] for i in r.integers(0, n_words, N_ROWS)], "tags": [[f"Ä{i}" for i in r.integers(0, n_words, r.integers(0, 4))] for _ in range(N_ROWS)]}
    rows["strength"] = [list(np.round(r.uniform(-0.2, 1, len(b)), 3)) for b in rows["tags"]]
    rows |= {"year": [[100 + i] for i in r.integers(0, 20, N_ROWS)], "size": [list(r.choice([0.5, 1, 2, 2.5, 6.9, 7, 8], r.integers(0, 3))) for _ in range(N_ROWS)]}
    rows |= {"age": [[v] for v in np.round(r.normal(40, 10, N_ROWS), 1)], "hashed": [[] for _ in range(N_ROWS)]}
    rows |= {name: some(np.round(r.normal(0, 20, N_ROWS), 3)) for name in ("price", "depth", "plain")}
    return rows | {"clicked": list(r.integers(0, 2, N_ROWS))}


def write_values(path, rows):
    text = lambda v: "|".join(map(str, v)) if isinstance(v, list) else "none" if v is None else str(v)
    lines = [",".join(rows), *(",".join(text(column[i]) for column in rows.values()) for i in range(N_ROWS))]
    path.write_text("\n".join(lines) + "\n")
