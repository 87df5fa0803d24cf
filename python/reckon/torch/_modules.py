"""Modules over embedding tables, and the optimizer of their rows."""

from __future__ import annotations

import dataclasses
import enum
import math
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

import torch
from torch import Tensor

from .._embeddings import BF16, F16, F32, MEAN, SUM, UNIFORM, Feature, Table, Tables, optimizer_struct
from .._structs import Initializer
from ..errors import InvalidArgument
from . import _files
from ._jagged import like
from ._ops import Collection, embedding_bags

OptimizerLike = Union[str, Mapping[str, Any]]
_DTYPES = {"FP32": F32, "FP16": F16, "BF16": BF16}
_POOLINGS = {"SUM": SUM, "MEAN": MEAN}


class DataType(enum.Enum):
    """Of a table's rows; optimizer slots are FP32."""

    FP32 = "FP32"
    FP16 = "FP16"
    BF16 = "BF16"


class PoolingType(enum.Enum):
    SUM = "SUM"
    MEAN = "MEAN"


@dataclasses.dataclass
class EmbeddingBagConfig:
    """A table and the features that read it. TorchRec's own class is taken as well.

    Initial rows are uniform between weight_init_min and weight_init_max; by default -+sqrt(1 / num_embeddings), as TorchRec's.
    """

    num_embeddings: int
    embedding_dim: int
    name: str = ""
    data_type: DataType = DataType.FP32
    feature_names: List[str] = dataclasses.field(default_factory=list)
    weight_init_max: Optional[float] = None
    weight_init_min: Optional[float] = None
    pooling: PoolingType = PoolingType.SUM


def _word(value: Any, known: Mapping[str, int], what: str, table: str) -> int:
    """The number of an enum's member, ours or TorchRec's, or of its name."""
    word = str(getattr(value, "name", value)).upper()
    if word not in known:
        raise InvalidArgument(f"table '{table}': {what} is {value}", f"one of {', '.join(known)}")
    return known[word]


def _table(config: Any) -> Table:
    bound = math.sqrt(1 / config.num_embeddings) if config.num_embeddings > 0 else 0
    low = -bound if config.weight_init_min is None else config.weight_init_min
    high = bound if config.weight_init_max is None else config.weight_init_max
    dtype = _word(config.data_type, _DTYPES, "data_type", config.name)
    return Table(config.name, config.num_embeddings, config.embedding_dim, dtype, Initializer(kind=UNIFORM, min=float(low), max=float(high)))


class RowOptimizer(torch.optim.Optimizer):
    """The optimizer of a collection's rows: step, zero_grad and param_groups[0]["lr"], for loops and learning-rate schedulers of PyTorch.

    Rows that are updated in the backward need no step. The state of the slots stays with the tables, in no state_dict.
    """

    def __init__(self, tables: Tables, anchor: Tensor) -> None:
        self._tables = tables
        super().__init__([anchor], {"lr": tables.learning_rate})

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.take_learning_rate()
        self._tables.step()
        return loss

    def take_learning_rate(self) -> None:
        self._tables.learning_rate = float(self.param_groups[0]["lr"])

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._tables.zero_gradients()


class _Tables(torch.nn.Module):
    """What the modules share."""

    def __init__(self, configs: Sequence[Any], features: Sequence[Feature], device: Any, optimizer: OptimizerLike, update: str, seed: int) -> None:
        super().__init__()
        if device is not None and torch.device(device).type not in ("cpu", "meta"):
            raise InvalidArgument(f"device is {device}", "the tables are in the processors' memory: leave device out, or give cpu")
        if update not in ("backward", "step"):
            raise InvalidArgument(f"update is '{update}'", "'backward' (rows are updated as their gradients come) or 'step' (by optimizer.step())")
        self._tables = Tables([_table(c) for c in configs], features, optimizer_struct(optimizer), seed)
        self._collection = Collection(self._tables, update == "backward")
        self._anchor = torch.zeros(0, requires_grad=True)  # no parameter: it only has autograd go backward
        self._optimizer = RowOptimizer(self._tables, self._anchor)

    @property
    def optimizer(self) -> RowOptimizer:
        """Of the rows. With update="step" call its step(), or that of torch's optimizers and this one's together."""
        return self._optimizer

    def _look_up(self, values: Tensor, offsets: Tensor, weights: Optional[Tensor], keys: List[int], batch: int) -> Tensor:
        trains = torch.is_grad_enabled()
        if trains:
            self._optimizer.take_learning_rate()
        weights = None if weights is None else weights.detach().contiguous()
        return embedding_bags(
            self._anchor, values.contiguous(), offsets.contiguous(), weights, self._collection.number, keys, batch, self._tables.width, trains
        )

    def _state_name(self, table: str) -> str:
        raise NotImplementedError

    def _rows(self, table: int) -> Tensor:
        t = self._tables.tables[table]
        out = torch.empty(t.n_rows, t.dim)
        self._tables.read_rows(table, 0, t.n_rows, out.data_ptr())
        return out

    def _set_rows(self, table: int, rows: Tensor) -> None:
        t = self._tables.tables[table]
        if tuple(rows.shape) != (t.n_rows, t.dim):
            raise InvalidArgument(f"rows of table '{t.name}' are {tuple(rows.shape)}, not {(t.n_rows, t.dim)}")
        rows = rows.detach().to("cpu", torch.float32).contiguous()
        self._tables.write_rows(table, 0, t.n_rows, rows.data_ptr())

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for i, table in enumerate(self._tables.tables):
            destination[prefix + self._state_name(table.name)] = self._rows(i)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: List[str], unexpected_keys: List[str], error_msgs: List[str]
    ) -> None:
        own = {prefix + self._state_name(table.name): i for i, table in enumerate(self._tables.tables)}
        for name, i in own.items():
            if name not in state_dict:
                missing_keys.append(name)
                continue
            try:
                self._set_rows(i, state_dict[name])
            except InvalidArgument as error:
                error_msgs.append(str(error))
        if strict:
            unexpected_keys += [name for name in state_dict if name.startswith(prefix) and name not in own]

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Rows of all tables as one safetensors file, by the names of state_dict(), whole or not at all. It takes some MiB, however large the tables are."""
        _files.save(self._tables, [self._state_name(t.name) for t in self._tables.tables], os.fspath(path))

    def load(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Rows from such a file, or from the model.safetensors of a Reckon export. Errors: NotFound, BadData; then no row has changed."""
        names = [[self._state_name(t.name), f"embeddings.{t.name}.weight"] for t in self._tables.tables]
        _files.load(self._tables, names, os.fspath(path))

    def __deepcopy__(self, memo: Any) -> Any:
        raise InvalidArgument("embedding tables are not copied", "make a second module and load_state_dict(first.state_dict())")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise InvalidArgument("embedding tables are not pickled", "save() and load() them, or torch.save(module.state_dict())")


class EmbeddingBagCollection(_Tables):
    """Pooled embeddings of all sparse features: in place of torchrec.EmbeddingBagCollection.

    tables: EmbeddingBagConfig, ours or TorchRec's. is_weighted: bags have weights. optimizer: of the rows, a kind or {"kind": "adagrad", "learning_rate":
    0.05, ...} with the options of docs/optimizers.md. update: "backward" updates rows as their gradients come, "step" by optimizer.step(), from the sum over
    all backwards since the last one. seed: of initial rows.

    forward takes a KeyedJaggedTensor, ours or TorchRec's, of int32 or int64 ids, and gives the KeyedTensor of the same library, with a key for each
    feature in the order of the tables. Under no_grad nothing is kept. Ids that are no rows are BadData, with feature, sample and id.
    """

    def __init__(
        self,
        tables: Sequence[Any],
        is_weighted: bool = False,
        device: Any = None,
        *,
        optimizer: OptimizerLike = "adagrad",
        update: str = "backward",
        seed: int = 0,
    ) -> None:
        names = [c.name for c in tables]
        if not tables or len(set(names)) != len(names):
            raise InvalidArgument(f"the names of tables are {names}", "one table at least, each with a name of its own")
        readers: Dict[str, int] = {}
        for config in tables:
            for name in config.feature_names or [config.name]:
                readers[name] = readers.get(name, 0) + 1
        features, self._feature_names, self._embedding_names = [], [], []
        for t, config in enumerate(tables):
            for name in config.feature_names or [config.name]:
                own = f"{name}@{config.name}" if readers[name] > 1 else name
                features.append(Feature(own, t, _word(config.pooling, _POOLINGS, "pooling", config.name), weighted=is_weighted))
                self._feature_names.append(name)
                self._embedding_names.append(own)
        if len(set(self._embedding_names)) != len(features):
            raise InvalidArgument(f"features are {self._embedding_names}", "a table reads each feature once")
        super().__init__(tables, features, device, optimizer, update, seed)
        self._configs, self._is_weighted = list(tables), is_weighted

    def embedding_bag_configs(self) -> List[Any]:
        return self._configs

    def is_weighted(self) -> bool:
        return self._is_weighted

    def _state_name(self, table: str) -> str:
        return f"embedding_bags.{table}.weight"

    def forward(self, features: Any) -> Any:
        given = list(features.keys())
        missing = [name for name in self._feature_names if name not in given]
        if missing:
            raise InvalidArgument(f"the features have no key '{missing[0]}'", f"they have {', '.join(given)}")
        weights = features.weights_or_none()
        if self._is_weighted != (weights is not None):
            raise InvalidArgument("the features have no weights" if self._is_weighted else "the features have weights, but is_weighted is False")
        batch = features.stride()
        values = self._look_up(features.values(), features.offsets(), weights, [given.index(name) for name in self._feature_names], batch)
        return like(features, self._embedding_names, self._tables.widths, values)


class EmbeddingBag(_Tables):
    """One table: in place of torch.nn.EmbeddingBag, with its arguments. mode: "mean" or "sum"; per_sample_weights with "sum".

    The rows have no gradient of their own: optimizer, update and seed are EmbeddingBagCollection's.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        mode: str = "mean",
        include_last_offset: bool = False,
        device: Any = None,
        *,
        optimizer: OptimizerLike = "adagrad",
        update: str = "backward",
        seed: int = 0,
    ) -> None:
        config = EmbeddingBagConfig(num_embeddings, embedding_dim, "weight")
        feature = Feature("input", 0, _word(mode, _POOLINGS, "mode", "weight"), weighted=mode == "sum")
        super().__init__([config], [feature], device, optimizer, update, seed)
        self.num_embeddings, self.embedding_dim, self.mode, self.include_last_offset = num_embeddings, embedding_dim, mode, include_last_offset

    def _state_name(self, table: str) -> str:
        return "weight"

    @property
    def weight(self) -> Tensor:
        """A copy of the rows."""
        return self._rows(0)

    def forward(self, input: Tensor, offsets: Optional[Tensor] = None, per_sample_weights: Optional[Tensor] = None) -> Tensor:
        if per_sample_weights is not None and self.mode != "sum":
            raise InvalidArgument("per_sample_weights need mode='sum'")
        if input.dim() == 2:
            if offsets is not None:
                raise InvalidArgument("offsets must be None where the input has two dimensions")
            offsets = torch.arange(0, input.numel() + 1, input.shape[1]) if input.shape[1] else torch.zeros(len(input) + 1, dtype=torch.int64)
        elif offsets is None:
            raise InvalidArgument("an input of one dimension needs offsets")
        elif not self.include_last_offset:
            offsets = torch.cat([offsets, offsets.new_tensor([input.numel()])])
        weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        return self._look_up(input.reshape(-1), offsets, weights, [0], offsets.numel() - 1)
