"""Embedding tables in a training loop of one's own: rk_embeddings, on memory that the caller names by address."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_int, c_void_p
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import errors
from ._library import check, lib
from ._structs import Activation, EmbeddingsConfig, FeatureConfig, IdTensors, Initializer, Optimizer, TableConfig, Tensor

F32, BF16, F16, I32, I64 = 0, 1, 2, 6, 7  # rk_dtype
MEAN, SUM, SQRTN = 0, 1, 2  # rk_combiner
TRUNCATED_NORMAL, UNIFORM = 0, 2  # rk_initializer_kind
_NOT_OPTIONS = ("struct_size", "kind", "schedule")

Ids = Tuple[int, int, int]  # address, dtype, how many


class Table(NamedTuple):
    name: str
    n_rows: int
    dim: int
    dtype: int
    initializer: Initializer
    optimizer: Optional[Optimizer] = None  # None: that of all tables


class Feature(NamedTuple):
    name: str
    table: int
    combiner: int
    max_sequence_length: int = 0  # above 0: vectors side by side in place of a combined one
    weighted: bool = False
    drops_invalid: bool = False  # ids and weights that others would refuse


def optimizer_struct(given: Union[str, Mapping[str, Any]]) -> Optimizer:
    """A kind, or {"kind": ..., and any option of docs/optimizers.md}."""
    options = {"kind": given} if isinstance(given, str) else dict(given)
    kind, out = c_int(), Optimizer()
    check(lib.rk_optimizer_from_name(str(options.pop("kind", "adagrad")).encode(), byref(kind)))
    check(lib.rk_optimizer_init_sized(byref(out), ctypes.sizeof(out), kind))
    known = [name for name, *_ in Optimizer._fields_ if name not in _NOT_OPTIONS]
    for name, value in options.items():
        if name not in known:
            raise errors.InvalidArgument(f"an optimizer has no option '{name}'", f"one of {', '.join(known)}")
        setattr(out, name, value)
    check(lib.rk_optimizer_validate(byref(out)))
    return out


class Lookup:
    """A batch between its lookup and its backward."""

    def __init__(self, tables: "Tables") -> None:
        n = len(tables.features)
        self.tables = tables  # which must outlive it
        self.handle = c_void_p()
        check(lib.rk_lookup_create(tables.handle, byref(self.handle)))
        self.parts = [(Tensor * n)() for _ in range(3)]
        self.given = (IdTensors * n)()
        self.activations = (Activation * n)()

    def __del__(self) -> None:
        lib.rk_lookup_free(self.handle)

    def ids(self, n: int, features: Sequence[Tuple[Ids, Ids, Optional[Ids]]]) -> c_void_p:
        """ids, offsets and weights of each feature, as the library takes them."""
        for f, given in enumerate(features):
            entry = self.given[f]
            for values, name, part in zip(given, ("ids", "offsets", "weights"), self.parts):
                if values is None:
                    setattr(entry, name, None)
                    continue
                tensor = part[f]
                tensor.data, tensor.dtype, tensor.shape[0] = values
                tensor.n_dims = tensor.strides[0] = 1
                setattr(entry, name, ctypes.pointer(tensor))
        out = c_void_p()
        check(lib.rk_lookup_ids(self.handle, n, self.given, byref(out)))
        return out

    def rows_of(self, address: int, width: int) -> Any:
        """Activations or gradients of all features side by side: [n, width]."""
        for activation, first in zip(self.activations, self.tables.firsts):
            activation.data = address + 4 * first if address else None
            activation.stride = width
        return self.activations


class Tables:
    """Embedding tables, what reads them, and their optimizer. One thread at a time trains: calls wait for each other."""

    def __init__(self, tables: Sequence[Table], features: Sequence[Feature], optimizer: Optimizer, seed: int) -> None:
        self.tables, self.features = tables, features
        self.lock = threading.RLock()
        self.optimizer = optimizer
        self.learning_rate = float(optimizer.learning_rate)
        self.n_pending = 0  # backwards since the last step
        self.widths = [tables[f.table].dim * max(f.max_sequence_length, 1) for f in features]
        self.firsts = [sum(self.widths[:i]) for i in range(len(features))]
        self.width = sum(self.widths)
        self._scaled = self.learning_rate
        self._idle: List[Lookup] = []
        names = [t.name.encode() for t in tables]
        table_configs = (TableConfig * len(tables))()
        for out, t, name in zip(table_configs, tables, names):
            out.struct_size, out.name, out.n_rows, out.dim, out.dtype = ctypes.sizeof(TableConfig), name, t.n_rows, t.dim, t.dtype
            out.initializer = t.initializer
            if t.optimizer:
                out.optimizer = ctypes.pointer(t.optimizer)
        feature_configs = (FeatureConfig * len(features))()
        for out, f in zip(feature_configs, features):
            out.struct_size, out.name, out.table, out.combiner = ctypes.sizeof(FeatureConfig), f.name.encode(), names[f.table], f.combiner
            out.max_sequence_length, out.skip_validation, out.weighted = f.max_sequence_length, not f.drops_invalid, f.weighted
        config = EmbeddingsConfig(
            seed=seed, tables=table_configs, n_tables=len(tables), features=feature_configs, n_features=len(features), optimizer=ctypes.pointer(optimizer)
        )
        self.handle = c_void_p()
        check(lib.rk_embeddings_create(byref(config), byref(self.handle)))

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._idle.clear()
            lib.rk_embeddings_free(self.handle)

    @property
    def n_bytes(self) -> int:
        """Of all rows and slots."""
        return int(lib.rk_embeddings_bytes(self.handle))

    def take(self) -> Lookup:
        with self.lock:
            return self._idle.pop() if self._idle else Lookup(self)

    def give(self, lookup: Lookup) -> None:
        with self.lock:
            self._idle.append(lookup)

    def look_up(self, lookup: Lookup, n: int, features: Sequence[Tuple[Ids, Ids, Optional[Ids]]], out: int, trains: bool) -> None:
        """Vectors of n samples into [n, width] at `out`."""
        with self.lock:
            ids = lookup.ids(n, features)
            function = lib.rk_embeddings_lookup if trains else lib.rk_embeddings_peek
            check(function(self.handle, n, ids, lookup.handle, lookup.rows_of(out, self.width)))

    def backward(self, lookup: Lookup, gradients: int, updates: bool) -> None:
        """Gradients [n, width] of a lookup: rows are updated now, or with all others at the next step."""
        with self.lock:
            if updates:
                self._set_learning_rate()
                check(lib.rk_lookup_apply_gradients(lookup.handle, lookup.rows_of(gradients, self.width)))
                self.n_pending = 0
            else:
                check(lib.rk_lookup_backward(lookup.handle, lookup.rows_of(gradients, self.width)))
                self.n_pending += 1

    def _set_learning_rate(self) -> None:
        if self.learning_rate == self._scaled:
            return
        base = self.optimizer.learning_rate
        if base == 0:
            raise errors.InvalidArgument("a learning rate that began as 0 cannot be raised")
        check(lib.rk_embeddings_scale_learning_rate(self.handle, self.learning_rate / base))
        self._scaled = self.learning_rate

    def step(self) -> None:
        """Updates rows from the backwards since the last step; nothing if there were none."""
        with self.lock:
            if not self.n_pending:
                return
            self._set_learning_rate()
            check(lib.rk_embeddings_step(self.handle))
            self.n_pending = 0

    def zero_gradients(self) -> None:
        with self.lock:
            lib.rk_embeddings_zero_gradients(self.handle)
            self.n_pending = 0

    def read_rows(self, table: int, first: int, n: int, address: int) -> None:
        """As f32 [n, dim]."""
        with self.lock:
            check(lib.rk_embeddings_read_rows(self.handle, self.tables[table].name.encode(), first, n, address))

    def write_rows(self, table: int, first: int, n: int, address: int) -> None:
        with self.lock:
            check(lib.rk_embeddings_write_rows(self.handle, self.tables[table].name.encode(), first, n, address))
