"""The workloads W1 to W5 (of W6 and W7 the model): their inputs, models, sides and goals. Nothing here runs anything."""
from dataclasses import dataclass, field, replace


@dataclass
class Feature:
    name: str
    rows: int
    hotness: int
    dim: int


@dataclass
class Case:
    """One set of inputs; `name` is its folder's too."""
    name: str
    n: int  # samples a batch
    n_batches: int  # different batches, taken in turn
    features: list
    law: str  # of the ids: uniform or zipf
    n_dense: int = 0
    model: dict = field(default_factory=dict)  # a run file's; empty: lookups alone
    combiner: str = "sum"
    optimizer: str = "rowwise_adagrad"
    rate: float = 0.1
    epsilon: float = 1e-8
    steps: int = 5  # timed in each process
    hashed: bool = False  # whether ids are 64-bit numbers that each side hashes to rows in its own usual way, within the time

    @property
    def wide(self):
        """Whether each feature has a table of dim 1 too."""
        return self.model.get("kind") == "wide_deep"

    @property
    def table_bytes(self):
        slots = {"sgd": lambda dim: 0, "rowwise_adagrad": lambda dim: 1, "adagrad": lambda dim: dim}[self.optimizer]
        dims = [(f.rows, dim) for f in self.features for dim in ([f.dim, 1] if self.wide else [f.dim])]
        return sum(4 * rows * (dim + slots(dim)) for rows, dim in dims)

    @property
    def products(self):
        """(outputs, inputs) of the dense layers' matrix products."""
        width = sum(f.dim for f in self.features)
        layers = []

        def mlp(inputs, units):
            for n in units:
                layers.append((n, inputs))
                inputs = n
            return inputs

        if "bottom" in self.model:
            width += mlp(self.n_dense, self.model["bottom"])
        else:
            width += self.n_dense
        for _ in range(self.model.get("cross_layers", 0)):
            mlp(width, [self.model["cross_rank"], width])
        mlp(width, self.model.get("deep", []) + [1] if self.model else [])
        return layers


@dataclass
class Side:
    name: str
    script: str  # in peers/; empty: ours
    venv: str = ""
    dtype: str = "f32"
    configs: tuple = ("",)  # settings to try; the fastest of the first round is kept
    hashes: bool = False  # whether it takes part in hashed cases


@dataclass
class Goal:
    """against / ours >= at_least, in every case of the mode; floors: ours / floor <= at_most."""
    text: str
    ours: str
    against: tuple  # sides, the fastest of which counts; or ("gather",), ("floor",)
    mode: str = "train"
    at_least: float = 0
    at_most: float = 0


@dataclass
class Workload:
    name: str
    title: str
    cases: list
    sides: list
    goals: list
    modes: tuple = ("train",)
    check: Case = None  # a small case whose losses depend strongly on every part of a step; all sides run it first
    notes: str = ""


def check_case(case, rate):
    """The case with fewer rows and samples and a high rate, so that rows and layers move the losses of a few steps visibly."""
    features = [replace(f, rows=min(f.rows, 50)) for f in case.features]
    return replace(case, name="check", n=256, features=features, rate=rate, steps=4)


def spread(first, last, count):
    """`count` whole numbers in geometric progression."""
    return [round(first * (last / first) ** (i / (count - 1))) for i in range(count)]


def spread_to(first, total, count):
    """The same, with the last chosen so that they sum to `total`."""
    low, high = first, total
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sum(spread(first, middle, count)) <= total else (low, middle)
    return spread(first, low, count)


def lookup(small, full):
    samples = {1: 16384, 10: 8192, 100: 1024}
    shapes = [(dim, pooling) for dim in (16, 64, 128) for pooling in (1, 10, 100) if full or pooling < 100 or dim == 64]
    cases = []
    for dim, pooling in shapes:
        for law in "uniform", "zipf":
            features = [Feature(f"c{i}", 10_000 if small else 1_000_000, pooling, dim) for i in range(26)]
            cases.append(Case(f"dim {dim}, pooling {pooling}, {law}", samples[pooling] // (16 if small else 1), 4, features, law, steps=640 // dim))
    uneven = [Feature(f"c{i}", 10_000 if small else 1_000_000, 1 if i else 100, 64) for i in range(26)]
    cases.append(Case("dim 64, uneven, zipf", 512 if small else 8192, 4, uneven, "zipf", steps=10))
    return Workload(
        "W1", "lookup: 26 tables of 1,000,000 rows, f32", cases,
        [Side("Reckon", ""), Side("PyTorch EmbeddingBag", "torch_lookup", "torch"), Side("FBGEMM", "fbgemm_lookup", "torch"),
         Side("TensorFlow", "tf_lookup", "tf", configs=("sparse", "fast", "gather"))],
        [Goal("forward >= 0.95 of gather", "Reckon", ("gather",), "forward", at_least=0.95),
         Goal("forward >= 3x PyTorch", "Reckon", ("PyTorch EmbeddingBag",), "forward", at_least=3),
         Goal("forward >= 1.3x FBGEMM", "Reckon", ("FBGEMM",), "forward", at_least=1.3),
         Goal("train >= 3x PyTorch", "Reckon", ("PyTorch EmbeddingBag",), at_least=3),
         Goal("train >= 1.3x FBGEMM", "Reckon", ("FBGEMM",), at_least=1.3)],
        modes=("forward", "train"),
        notes="forward: the sums of all features' rows. train: forward, backward from the same upstream gradient, rowwise Adagrad (initial accumulator 0, "
              "epsilon 1e-8) over the rows of the batch. Samples a batch: 16,384 at pooling 1, 8,192 at 10, 1,024 at 100. uneven: one feature of 100 ids, "
              "25 of one; 8,192 samples. PyTorch: one "
              "nn.EmbeddingBag a table, sparse gradients, the optimizer by coalesce and index_add_. FBGEMM: SplitTableBatchedEmbeddingBagsCodegen on the host, "
              "exact rowwise Adagrad fused. TensorFlow: a tf.function, the fastest of embedding_lookup_sparse, the same with allow_fast_lookup, and "
              "embedding_lookup with a sum; the optimizer by scatter operations. gather: the smallest loop that reads the same rows.")


def wide_deep_features(small):
    """40 categorical features, 3 of them ten-hot; with a wide weight a row they fill 9.1 GB in f32."""
    dim, hot = 32, {10, 20, 30}
    total = 400_000 if small else 9_100_000_000 // (4 * (dim + 1))
    return [Feature(f"c{i}", rows, 10 if i in hot else 1, dim) for i, rows in enumerate(spread_to(100, total, 40))]


def wide_deep(small, full):
    case = Case("identity ids", 4096 if small else 131_072, 2, wide_deep_features(small), "zipf", n_dense=10, model={"kind": "wide_deep", "deep": [1024, 512, 256]},
                combiner="mean", optimizer="sgd", rate=0.05, steps=2)
    return Workload(
        "W2", "wide-deep: the TensorFlow 2.7 / NVIDIA Wide & Deep benchmark", [case, replace(case, name="hashed ids", hashed=True)],
        [Side("Reckon", "", hashes=True), Side("Reckon bf16", "", dtype="bf16", hashes=True),
         Side("TensorFlow", "tf_model", "tf", configs=("gather", "gather xla", "sparse", "sparse xla"), hashes=True),
         Side("TensorFlow bf16", "tf_model", "tf", "bf16", ("gather", "gather xla"), hashes=True),
         Side("PyTorch", "torch_model", "torch"), Side("PyTorch bf16", "torch_model", "torch", "bf16")],
        [Goal("<= 1.10 of floor", "Reckon", ("floor",), at_most=1.10),
         Goal("f32 >= 2x TensorFlow", "Reckon", ("TensorFlow",), at_least=2),
         Goal("bf16 >= 4x TensorFlow", "Reckon bf16", ("TensorFlow", "TensorFlow bf16"), at_least=4)],
        check=check_case(case, 0.3),
        notes="One training step: 1 label, 10 numbers, 40 categorical features (37 one-hot, 3 ten-hot; mean in the deep part, sum in the wide part), "
              "embedding dim 32, all tables together 9.1 GB, MLP 1024-512-256, SGD for all parameters; zipf(1.05) ids. TensorFlow: a tf.function, the "
              "fastest of embedding_lookup or embedding_lookup_sparse, with and without XLA for the dense part. PyTorch: nn.EmbeddingBag "
              "with sparse gradients. bf16: the matrix products of the hidden layers; of the peers by autocast. Hashed ids: 64-bit numbers, hashed to as many rows within the "
              "time. Reckon reads them from an rkb file and hashes (XXH64 of the decimal text); TensorFlow has them in memory and uses to_hash_bucket_fast(as_string). The "
              "hashes differ, so the losses may differ by 1e-2. PyTorch has no hash of its own.")


def hundred(small, full):
    features = [Feature(f"c{i}", 1000 if small else 100_000, 10, 32) for i in range(100)]
    case = Case("100 ten-hot features", 2048 if small else 65_536, 2, features, "uniform", model={"kind": "dnn", "deep": [256, 128]}, optimizer="adagrad", rate=0.001, steps=2)
    return Workload(
        "W3", "hundred: the HugeCTR / SOK plugin benchmark", [case],
        [Side("Reckon", ""), Side("TensorFlow", "tf_model", "tf", configs=("gather", "sparse")), Side("TorchRec", "torchrec_model", "torch")],
        [Goal(">= 8x TensorFlow", "Reckon", ("TensorFlow",), at_least=8)],
        check=check_case(case, 0.001),
        notes="One training step: 100 categorical features of 10 ids and 100,000 rows each, uniform ids, dim 32, sum, MLP 256-128, batch 65,536, Adagrad "
              "(initial accumulator 0, epsilon 1e-8) for all parameters. TensorFlow: a tf.function with its own embedding lookups, the fastest of "
              "embedding_lookup with a sum and embedding_lookup_sparse. TorchRec: FusedEmbeddingBagCollection, which is FBGEMM's fused Adagrad on the CPU.")


CARDINALITIES = [40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209, 11938, 155, 4, 976, 14, 40000000, 40000000, 40000000,
                 590152, 12973, 108, 36]
HOTNESS = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]


def dlrm_dcnv2(small, full):
    cap, dim, n = (10_000, 32, 512) if small else (1_000_000, 128, 8192)
    features = [Feature(f"c{i}", min(rows, cap), hotness, dim) for i, (rows, hotness) in enumerate(zip(CARDINALITIES, HOTNESS))]
    model = {"kind": "dcn_v2", "bottom": [512, 256, dim], "structure": "stacked", "cross_kind": "low_rank", "cross_rank": 64 if small else 512, "cross_layers": 3,
             "deep": [1024, 1024, 512, 256]}
    case = Case("multi-hot", n, 4, features, "zipf", n_dense=13, model=model, optimizer="adagrad", rate=0.0002, steps=3)
    return Workload(
        "W4", "dlrm-dcnv2: MLPerf DLRM-DCNv2, tables capped at 1,000,000 rows", [case],
        [Side("Reckon", ""), Side("Reckon bf16", "", dtype="bf16"), Side("TorchRec", "torchrec_model", "torch"),
         Side("TorchRec bf16", "torchrec_model", "torch", "bf16")],
        [Goal("f32 >= 2x TorchRec", "Reckon", ("TorchRec",), at_least=2),
         Goal("bf16 >= 4x TorchRec", "Reckon bf16", ("TorchRec", "TorchRec bf16"), at_least=4)],
        check=check_case(case, 0.0002),
        notes="One training step: 26 categorical features of 1 to 100 ids (214 a sample), zipf(1.05) ids, dim 128, sum; 13 numbers through a bottom MLP "
              "512-256-128; 3 low-rank cross layers of rank 512 over 3,456 values; top MLP 1024-1024-512-256; Adagrad (initial accumulator 0, epsilon 1e-8) for all "
              "parameters. TorchRec: DLRM_DCN over FusedEmbeddingBagCollection on the CPU. bf16: the matrix products; TorchRec's by autocast.")


WORKLOADS = {"W1": lookup, "W2": wide_deep, "W3": hundred, "W4": dlrm_dcnv2}
