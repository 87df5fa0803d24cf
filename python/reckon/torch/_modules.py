"""Modules over embedding tables, and the optimizer of their rows."""

from __future__ import annotations

import dataclasses
import enum
import math
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from .. import _table_files
from .._embeddings import BF16, F16, F32, I32, I64, MEAN, SUM, U8, UNIFORM, Dynamic, Feature, Table, Tables, Values, dynamic_struct, optimizer_struct
from .._structs import Initializer
from ..errors import Error, InvalidArgument
from ._jagged import like
from ._ops import Collection, embedding_bags
from ._ranks import Ranks

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

    dynamic: the table has rows for the keys that it meets, num_embeddings of them at most (Dynamic); ids are keys then, any whole numbers of 64 bits.

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
    dynamic: Optional[Dynamic] = None


def _enum_member_number(value: Any, known: Mapping[str, int], what: str, table: str) -> int:
    """The number of an enum's member, ours or TorchRec's, or of its name."""
    word = str(getattr(value, "name", value)).upper()
    if word not in known:
        raise InvalidArgument(f"table '{table}': {what} is {value}", f"one of {', '.join(known)}")
    return known[word]


def _make_table(config: Any) -> Table:
    bound = math.sqrt(1 / config.num_embeddings) if config.num_embeddings > 0 else 0
    low = -bound if config.weight_init_min is None else config.weight_init_min
    high = bound if config.weight_init_max is None else config.weight_init_max
    dtype = _enum_member_number(config.data_type, _DTYPES, "data_type", config.name)
    initializer, own = Initializer(kind=UNIFORM, min=float(low), max=float(high)), getattr(config, "dynamic", None)
    dynamic = dynamic_struct(config.name, config.num_embeddings, own) if own else None
    return Table(config.name, 0 if dynamic else config.num_embeddings, config.embedding_dim, dtype, initializer, dynamic=dynamic)


class RowOptimizer(torch.optim.Optimizer):
    """The optimizer of a collection's rows: step, zero_grad and param_groups[0]["lr"], for loops and learning-rate schedulers of PyTorch.

    Rows that are updated in the backward need no step. state_dict() has copies of the slots and steps by the names of the tables' weights; gradients that wait
    for a step are in none. What dynamic tables have of them is in the module's state_dict(), with their keys.
    """

    def __init__(self, tables: Tables, anchor: Tensor, names: List[str]) -> None:
        self._tables, self._names = tables, names
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

    def state_dict(self) -> Dict[str, Any]:
        """{"state": {"embedding_bags.ads.weight": {"accumulator": [rows, dim], "step": int}, ...}, "param_groups": ...}"""
        out: Dict[str, Any] = super().state_dict()
        out["state"] = {}
        for t, name in self._static_tables():
            slots = {slot.name: torch.from_numpy(self._tables.read_rows(t, s)) for s, slot in enumerate(self._tables.slots[t])}
            out["state"][name] = {**slots, "step": self._tables.read_step(t)}
        return out

    def _static_tables(self) -> List[Tuple[int, str]]:
        return [(t, name) for t, name in enumerate(self._names) if not self._tables.is_dynamic(t)]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """What state_dict() gave, of the same tables and optimizer. InvalidArgument: it has other slots; then nothing has changed."""
        state = state_dict["state"]
        for t, name in self._static_tables():
            if name not in state:
                raise InvalidArgument(f"the state has no '{name}'", f"it has {', '.join(map(str, state))}" if state else "it has no tables")
            given = {key: tuple(value.shape) for key, value in state[name].items() if key != "step"}
            wanted = {slot.name: self._tables.shape(t, s) for s, slot in enumerate(self._tables.slots[t])}
            if given != wanted or "step" not in state[name]:
                raise InvalidArgument(f"the state of '{name}' is {given}, not {wanted} and a step", "it is another optimizer's, or another table's")
            step = int(state[name]["step"])
            if not 0 <= step < 2**63:
                raise InvalidArgument(f"the state of '{name}' has taken {step} steps")
        super().load_state_dict({**state_dict, "state": {}})
        for t, name in self._static_tables():
            for s, slot in enumerate(self._tables.slots[t]):
                self._tables.write_rows(t, _to_numpy(state[name][slot.name]), s)
            self._tables.write_step(t, int(state[name]["step"]))


def _to_numpy(values: Tensor) -> Any:
    return values.detach().to("cpu", torch.float32).numpy()


_OF_STATE = {F32: torch.float32, BF16: torch.bfloat16, F16: torch.float16, I32: torch.int32, I64: torch.int64, U8: torch.uint8}
_RK_DTYPES = {dtype: number for number, dtype in _OF_STATE.items()}


def _tensor_of(values: Values) -> Tensor:
    if values.dtype == BF16:
        return torch.from_numpy(values.array.view("int16").copy()).view(torch.bfloat16)
    return torch.from_numpy(values.array.copy())


def _values_of(name: str, tensor: Tensor) -> Values:
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype not in _RK_DTYPES:
        raise InvalidArgument(f"'{name}' is {tensor.dtype}")
    bits = tensor.view(torch.int16).numpy().view("uint16") if tensor.dtype == torch.bfloat16 else tensor.numpy()
    return Values(_RK_DTYPES[tensor.dtype], bits)


class _EmbeddingModule(torch.nn.Module):
    """What the modules share."""

    def __init__(
        self,
        configs: Sequence[Any],
        features: Sequence[Feature],
        device: Any,
        optimizer: OptimizerLike,
        update: str,
        seed: int,
        ranks: Optional[Ranks],
        gradient_division: bool,
    ) -> None:
        super().__init__()
        if device is not None and torch.device(device).type not in ("cpu", "meta"):
            raise InvalidArgument(f"device is {device}", "the tables are in the processors' memory: leave device out, or give cpu")
        if update not in ("backward", "step"):
            raise InvalidArgument(f"update is '{update}'", "'backward' (rows are updated as their gradients come) or 'step' (by optimizer.step())")
        self._tables = Tables([_make_table(c) for c in configs], features, optimizer_struct(optimizer), seed, ranks._comm if ranks else None)
        if ranks:
            ranks._tables.add(self._tables)
        self._ranks = ranks
        self._options = {"optimizer": optimizer, "update": update, "seed": seed}
        self._collection = Collection(self._tables, update == "backward", ranks.size if ranks and gradient_division else 1)
        self._anchor = torch.zeros(0, dtype=torch.float32, device="cpu", requires_grad=True)  # no parameter: it only has autograd go backward
        self._optimizer = RowOptimizer(self._tables, self._anchor, self._state_names())

    @property
    def optimizer(self) -> RowOptimizer:
        """Of the rows. With update="step" call its step(), or that of torch's optimizers and this one's together."""
        return self._optimizer

    def set_timestamp(self, seconds: float) -> None:
        """The time of the batches that are trained on from now on, in seconds since the epoch, by which `Dynamic(ttl=...)` counts. NaN: they have none, as before
        the first call. Over ranks each says that of its own batches, of which the latest counts."""
        self._tables.set_timestamp(seconds)

    def _look_up(self, values: Tensor, offsets: Tensor, weights: Optional[Tensor], keys: List[int], batch: int) -> Tensor:
        trains = torch.is_grad_enabled()
        if trains:
            self._optimizer.take_learning_rate()
        weights = None if weights is None else weights.detach().contiguous()
        return embedding_bags(self._anchor, values.contiguous(), offsets.contiguous(), weights, self._collection.number, keys, batch, self._tables.width, trains)

    def _fail_on_all_ranks(self, error: InvalidArgument) -> InvalidArgument:
        """Tells the other ranks, which wait for this one."""
        self._collection.refuse(torch.is_grad_enabled())
        return error

    def _state_name_of_table(self, table: str) -> str:
        raise NotImplementedError

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for i, table in enumerate(self._tables.tables):
            name = prefix + self._state_name_of_table(table.name)
            if self._tables.is_dynamic(i):
                for tensor, values in self._tables.read_state(i).items():
                    destination[_table_files.name_in_file(name, tensor)] = _tensor_of(values)
            else:
                destination[name] = torch.from_numpy(self._tables.read_rows(i))

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: List[str], unexpected_keys: List[str], error_msgs: List[str]
    ) -> None:
        own = {prefix + self._state_name_of_table(table.name): i for i, table in enumerate(self._tables.tables)}
        keyed: List[str] = []
        self._collection.drop_all()
        for name, i in own.items():
            if name not in state_dict:
                missing_keys.append(name)
                continue
            if self._tables.is_dynamic(i):
                begin = _table_files.name_in_file(name, "")
                ends = [given[len(begin) :] for given in state_dict if given.startswith(begin) and "." not in given[len(begin) :]]
                keyed += [begin + end for end in ends]
                self._load_keys(i, {_table_files.name_in_state(end): state_dict[begin + end] for end in ends}, error_msgs)
                continue
            shape, wanted = tuple(state_dict[name].shape), self._tables.shape(i)
            if shape == wanted:
                self._tables.write_rows(i, _to_numpy(state_dict[name]))
            else:
                error_msgs.append(f"rows of table '{self._tables.tables[i].name}' are {shape}, not {wanted}")
        if strict:
            unexpected_keys += [name for name in state_dict if name.startswith(prefix) and name not in own and name not in keyed]

    def _load_keys(self, table: int, state: Mapping[str, Tensor], error_msgs: List[str]) -> None:
        """All of a dynamic table."""
        try:
            self._tables.write_state(table, {name: _values_of(name, value) for name, value in state.items()})
        except Error as error:
            error_msgs.append(str(error))

    def save(self, path: Union[str, "os.PathLike[str]"], optimizer: bool = True) -> None:
        """Rows of all tables, and with optimizer what is in its state_dict() but for the learning rate, as one safetensors file, whole or not at all: the names of
        state_dict(), with "accumulator", "m", ... and "step" in place of "weight" for the optimizer's. It takes some MiB, however large the tables are, but for
        a copy of each dynamic one, of which all is written. Over ranks all call it, and rank 0 writes."""
        _table_files.save(self._tables, self._state_names(), os.fspath(path), optimizer)

    def load(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Rows from such a file, from the model.safetensors of a Reckon export, or from a checkpoint's directory; and the state of the optimizer, if it is there,
        else it stays as it was. Over ranks all read it, however many wrote it. Errors: NotFound, BadData; then nothing has changed, but where what is there of
        a dynamic table does not fit to it."""
        self._collection.drop_all()
        _table_files.load(self._tables, self._state_names(), os.fspath(path))

    def count_keys(self, table: str) -> Dict[str, int]:
        """Of a dynamic table: n_rows that keys have now; n_admitted and n_evicted keys, n_refused uses in training without a row, so far; n_missing
        uses otherwise. Over ranks all call it."""
        numbers = [t for t, own in enumerate(self._tables.tables) if own.name == table]
        if not numbers:
            raise InvalidArgument(f"there is no table '{table}'", f"there are {', '.join(own.name for own in self._tables.tables)}")
        return self._tables.count_keys(numbers[0])

    def _state_names(self) -> List[str]:
        return [self._state_name_of_table(t.name) for t in self._tables.tables]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickles and deep copies have rows and the optimizer's state, twice as much memory as the tables for a while."""
        if self._ranks:
            raise InvalidArgument("tables that several ranks hold are neither copied nor pickled", "save() and load() them")
        return _make_module, (type(self), self._constructor_arguments(), self.training, self.state_dict(), self._optimizer.state_dict())

    def _constructor_arguments(self) -> Dict[str, Any]:
        """Of a module like this one."""
        raise NotImplementedError


def _make_module(kind: Any, arguments: Dict[str, Any], training: bool, rows: Any, optimizer: Any) -> Any:
    out = kind(**arguments).train(training)
    out.load_state_dict(rows)
    out.optimizer.load_state_dict(optimizer)
    return out


class EmbeddingBagCollection(_EmbeddingModule):
    """Pooled embeddings of all sparse features: in place of torchrec.EmbeddingBagCollection.

    tables: EmbeddingBagConfig, ours or TorchRec's. is_weighted: bags have weights. optimizer: of the rows, a kind or {"kind": "adagrad", "learning_rate":
    0.05, ...} with the options of docs/optimizers.md. update: "backward" updates rows as their gradients come, "step" by optimizer.step(), from the sum over
    all backwards since the last one. seed: of initial rows.

    ranks: processes that hold the tables together: large ones are spread over them by the sharding planner, and what one rank's batch changes all see. Gradients
    of all ranks are added, and divided by the number of ranks (TorchRec's gradient_division), as DistributedDataParallel does it for the dense part.

    forward takes a KeyedJaggedTensor, ours or TorchRec's, of int32 or int64 ids, and gives the KeyedTensor of the same library, with a key for each
    feature in the order of the tables. Under no_grad nothing is kept. Ids that are no rows are BadData, with feature, sample and id. Tables whose config
    has `dynamic` take any ids; a forward with gradients counts them and gives keys rows.
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
        ranks: Optional[Ranks] = None,
        gradient_division: bool = True,
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
                features.append(Feature(own, t, _enum_member_number(config.pooling, _POOLINGS, "pooling", config.name), weighted=is_weighted))
                self._feature_names.append(name)
                self._embedding_names.append(own)
        if len(set(self._embedding_names)) != len(features):
            raise InvalidArgument(f"features are {self._embedding_names}", "a table reads each feature once")
        super().__init__(tables, features, device, optimizer, update, seed, ranks, gradient_division)
        self._configs, self._is_weighted = list(tables), is_weighted
        self._keys: Dict[Tuple[str, ...], List[int]] = {}  # by a batch's keys, those that the features read

    def embedding_bag_configs(self) -> List[Any]:
        return self._configs

    def is_weighted(self) -> bool:
        return self._is_weighted

    def _state_name_of_table(self, table: str) -> str:
        return f"embedding_bags.{table}.weight"

    def _constructor_arguments(self) -> Dict[str, Any]:
        return {"tables": self._configs, "is_weighted": self._is_weighted, **self._options}

    def forward(self, features: Any) -> Any:
        given = tuple(features.keys())
        keys = self._keys.get(given)
        if keys is None:
            missing = [name for name in self._feature_names if name not in given]
            if missing:
                raise self._fail_on_all_ranks(InvalidArgument(f"the features have no key '{missing[0]}'", f"they have {', '.join(given)}"))
            keys = self._keys[given] = [given.index(name) for name in self._feature_names]
        weights = features.weights_or_none()
        if self._is_weighted != (weights is not None):
            raise self._fail_on_all_ranks(InvalidArgument("the features have no weights" if self._is_weighted else "the features have weights, but is_weighted is False"))
        values = self._look_up(features.values(), features.offsets(), weights, keys, features.stride())
        return like(features, self._embedding_names, self._tables.widths, values)


class EmbeddingBag(_EmbeddingModule):
    """One table: in place of torch.nn.EmbeddingBag, with its arguments. mode: "mean" or "sum"; per_sample_weights with "sum".

    The rows have no gradient of their own: optimizer, update, seed, ranks and gradient_division are EmbeddingBagCollection's, and dynamic is EmbeddingBagConfig's.
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
        ranks: Optional[Ranks] = None,
        gradient_division: bool = True,
        dynamic: Optional[Dynamic] = None,
    ) -> None:
        config = EmbeddingBagConfig(num_embeddings, embedding_dim, "weight", dynamic=dynamic)
        feature = Feature("input", 0, _enum_member_number(mode, _POOLINGS, "mode", "weight"), weighted=mode == "sum")
        super().__init__([config], [feature], device, optimizer, update, seed, ranks, gradient_division)
        self.num_embeddings, self.embedding_dim, self.mode, self.include_last_offset, self.dynamic = num_embeddings, embedding_dim, mode, include_last_offset, dynamic

    def _state_name_of_table(self, table: str) -> str:
        return "weight"

    def _constructor_arguments(self) -> Dict[str, Any]:
        own = ("num_embeddings", "embedding_dim", "mode", "include_last_offset", "dynamic")
        return {**{name: getattr(self, name) for name in own}, **self._options}

    @property
    def weight(self) -> Tensor:
        """A copy of the rows; with dynamic in the order of the keys in state_dict()."""
        return _tensor_of(self._tables.read_state(0)["rows"]) if self.dynamic else torch.from_numpy(self._tables.read_rows(0))

    def count_keys(self, table: str = "weight") -> Dict[str, int]:
        return super().count_keys(table)

    def forward(self, input: Tensor, offsets: Optional[Tensor] = None, per_sample_weights: Optional[Tensor] = None) -> Tensor:
        if per_sample_weights is not None and self.mode != "sum":
            raise self._fail_on_all_ranks(InvalidArgument("per_sample_weights need mode='sum'"))
        if input.dim() == 2:
            if offsets is not None:
                raise self._fail_on_all_ranks(InvalidArgument("offsets must be None where the input has two dimensions"))
            n, width = input.shape
            offsets = torch.arange(n + 1, device=input.device) * width
        elif offsets is None:
            raise self._fail_on_all_ranks(InvalidArgument("an input of one dimension needs offsets"))
        elif not self.include_last_offset:
            offsets = torch.cat([offsets, offsets.new_tensor([input.numel()])])
        weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        return self._look_up(input.reshape(-1), offsets, weights, [0], offsets.numel() - 1)
