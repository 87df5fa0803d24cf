"""Embedding tables in a training loop of one's own: rk_embeddings, on memory that the caller names by address."""

from __future__ import annotations

import ctypes
import dataclasses
import threading
from ctypes import byref, c_int, c_int32, c_int64, c_void_p
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

import numpy

from . import errors
from ._comm import Comm
from ._library import check, float64, int32, int64, lib
from ._structs import Activation, DynamicOptions, EmbeddingsConfig, FeatureConfig, IdTensors, Initializer, KeyTotals, Optimizer, TableConfig, Tensor

F32, BF16, F16, I32, I64, U8 = 0, 1, 2, 6, 7, 8  # rk_dtype
NUMPY = {F32: numpy.float32, BF16: numpy.uint16, F16: numpy.float16, I32: numpy.int32, I64: numpy.int64, U8: numpy.uint8}  # BF16: their bits
MEAN, SUM, SQRTN = 0, 1, 2  # rk_combiner
TRUNCATED_NORMAL, UNIFORM = 0, 2  # rk_initializer_kind
_OPTIONS = [name for name, *_ in Optimizer._fields_ if name not in ("struct_size", "kind", "schedule")]

Ids = Tuple[int, int, int]  # address, dtype, how many


@dataclasses.dataclass
class Dynamic:
    """What makes a table dynamic (docs/dynamic_tables.md): ids are keys of 64 bits, all of them legal, and the table has rows for those that it meets in
    training, at most as many as its config says.

    eviction: what a full bucket does, "lru", "lfu" or "none"; evict_to: of its capacity, what is left. ttl_steps: lookups in training without a use after
    which a row goes, 0 for none; ttl: seconds by the times of the batches, likewise. keep: rows below which none goes. min_count: uses with which a key gets a row, probability: with which it does then.
    counter: of min_count above 1: "exact", "count_min" or "bloom". missing: what a key without a row is, "zeros" or "oov", one row for all of them;
    or cold_rows, above 0: they share so many rows by their hashes, and a key that gets a row begins as that one.
    """

    eviction: str = "lru"
    evict_to: float = 0.95
    ttl_steps: int = 0
    keep: int = 0
    min_count: int = 1
    probability: float = 1.0
    counter: str = "exact"
    missing: str = "zeros"
    buckets: int = 0
    cold_rows: int = 0
    ttl: int = 0


_WHOLE_NUMBERS = ("ttl_steps", "ttl", "keep", "min_count", "buckets", "cold_rows")
_CHOICES = {"eviction": ("lru", "lfu", "none"), "counter": ("exact", "count_min", "bloom"), "missing": ("zeros", "oov")}


def dynamic_struct(table: str, max_capacity: int, given: Dynamic) -> DynamicOptions:
    numbers = {field: int64(getattr(given, field), f"table '{table}': {field}") for field in _WHOLE_NUMBERS}
    for field, words in _CHOICES.items():
        word = getattr(given, field)
        if word not in words:
            raise errors.InvalidArgument(f"table '{table}': {field} is {word!r}", f"one of {', '.join(words)}")
        numbers[field] = words.index(word)
    return DynamicOptions(
        max_capacity=int64(max_capacity, f"table '{table}': max_capacity"),
        buckets=numbers["buckets"],
        eviction=numbers["eviction"],
        evict_to=float64(given.evict_to, f"table '{table}': evict_to"),
        ttl_steps=numbers["ttl_steps"],
        keep=numbers["keep"],
        min_count=numbers["min_count"],
        probability=float64(given.probability, f"table '{table}': probability"),
        counter=numbers["counter"],
        oov=bool(numbers["missing"]),
        cold_rows=numbers["cold_rows"],
        ttl=numbers["ttl"],
    )


class Values(NamedTuple):
    """A tensor of a dynamic table's state."""

    dtype: int  # rk_dtype
    array: Any  # of NUMPY's type


class Table(NamedTuple):
    name: str
    n_rows: int
    dim: int
    dtype: int
    initializer: Initializer
    optimizer: Optional[Optimizer] = None  # None: that of all tables
    dynamic: Optional[DynamicOptions] = None  # n_rows is then 0


class Feature(NamedTuple):
    name: str
    table: int
    combiner: int
    max_sequence_length: int = 0  # above 0: vectors side by side in place of a combined one
    weighted: bool = False
    drops_invalid: bool = False  # ids and weights that others would refuse


def optimizer_struct(given: Union[str, Mapping[str, Any]]) -> Optimizer:
    """A kind, or {"kind": ..., and any option of docs/optimizers.md}."""
    if not isinstance(given, (str, Mapping)):
        raise errors.InvalidArgument(f"the optimizer is a {type(given).__name__}", "give its kind, or a dict with 'kind' and its options")
    options = {"kind": given} if isinstance(given, str) else dict(given)
    kind, out = c_int(), Optimizer()
    check(lib.rk_optimizer_from_name(str(options.pop("kind", "adagrad")).encode(), byref(kind)))
    check(lib.rk_optimizer_init_sized(byref(out), ctypes.sizeof(out), kind))
    for name, value in options.items():
        if name not in _OPTIONS:
            raise errors.InvalidArgument(f"an optimizer has no option '{name}'", f"one of {', '.join(_OPTIONS)}")
        setattr(out, name, float64(value, name))
    check(lib.rk_optimizer_validate(byref(out)))
    return out


def optimizer_options(optimizer: Optimizer) -> Dict[str, Any]:
    """What optimizer_struct makes this optimizer of: its kind, and options that are not the kind's defaults."""
    usual, kind = Optimizer(), lib.rk_optimizer_name(optimizer.kind).decode()
    check(lib.rk_optimizer_init_sized(byref(usual), ctypes.sizeof(usual), optimizer.kind))
    values = {name: getattr(optimizer, name) for name in _OPTIONS}
    return {"kind": kind, **{name: value for name, value in values.items() if value != getattr(usual, name)}}


class Slot(NamedTuple):
    name: str
    width: int  # values a row


class _IdTensors:
    """ids, offsets and weights as the library takes them."""

    def __init__(self, given: IdTensors) -> None:
        self.given = given
        self._parts = [Tensor(n_dims=1) for _ in range(3)]
        for part in self._parts:
            part.strides[0] = 1
        self._shapes = [part.shape for part in self._parts]
        given.ids, given.offsets = map(ctypes.pointer, self._parts[:2])
        self._weights = ctypes.pointer(self._parts[2])

    def set(self, ids: Ids, offsets: Ids, weights: Optional[Ids]) -> None:
        self.given.weights = self._weights if weights else None
        for part, shape, given in zip(self._parts, self._shapes, (ids, offsets, weights)):
            if given:
                part.data, part.dtype, shape[0] = given


class Lookup:
    """A batch between its lookup and its backward. What the library reads of it stays from call to call."""

    def __init__(self, tables: "Tables") -> None:
        n = len(tables.features)
        self.tables = tables
        self.handle = c_void_p()
        self.waits = False  # for a backward
        check(lib.rk_lookup_create(tables.handle, byref(self.handle)))
        tables.lookups.add(self.handle.value)
        self._given = (IdTensors * n)()
        self._features = [_IdTensors(given) for given in self._given]
        self._keyed = _IdTensors(IdTensors())
        self._to_keyed = byref(self._keyed.given)
        self._activations = (Activation * n)()
        self._each = list(self._activations)
        for activation in self._each:
            activation.stride = tables.width
        self.activations = ctypes.addressof(self._activations)
        self._ids = c_void_p()
        self._to_ids = byref(self._ids)

    def __del__(self) -> None:
        self.free()

    def free(self) -> None:
        self.tables.free_lookup(self.handle)
        self.handle = c_void_p()

    def take_ids(self, n: int, features: Sequence[Tuple[Ids, Ids, Optional[Ids]]]) -> c_void_p:
        """ids, offsets and weights of each feature, as the library takes them."""
        for entry, given in zip(self._features, features):
            entry.set(*given)
        check(lib.rk_lookup_ids(self.handle, n, self._given, self._to_ids))
        return self._ids

    def take_keyed_ids(self, n: int, keys: Any, n_keys: int, ids: Ids, offsets: Ids, weights: Optional[Ids]) -> c_void_p:
        """The same of n_keys keys one behind the other; feature f reads keys[f], an array of int32."""
        self._keyed.set(ids, offsets, weights)
        check(lib.rk_lookup_keyed_ids(self.handle, n, n_keys, self._to_keyed, keys, self._to_ids))
        return self._ids

    def take_rows(self, address: int) -> int:
        """Activations or gradients of all features side by side: [n, width]."""
        for activation, first in zip(self._each, self.tables.places):
            activation.data = address + first
        return self.activations


class Tables:
    """Embedding tables, what reads them, and their optimizer. One thread at a time trains: calls wait for each other.

    comm: ranks that hold them together, and then make the same calls in the same order; a call that one of them refuses fails on all.
    """

    def __init__(self, tables: Sequence[Table], features: Sequence[Feature], optimizer: Optimizer, seed: int, comm: Optional[Comm] = None) -> None:
        self.tables, self.features = tables, features
        self.lock = threading.RLock()
        self.optimizer = optimizer
        self.learning_rate = float(optimizer.learning_rate)
        self.n_pending = 0  # backwards since the last step
        for t in tables:
            int64(t.n_rows, f"table '{t.name}': rows")
            int32(t.dim, f"table '{t.name}': dim")
        self.widths = [tables[f.table].dim * max(f.max_sequence_length, 1) for f in features]
        self.firsts = [sum(self.widths[:i]) for i in range(len(features))]
        self.places = [4 * first for first in self.firsts]  # bytes
        self.width = sum(self.widths)
        self.has_dynamic = any(t.dynamic is not None for t in tables)
        self.comm = comm  # which must outlive it
        self.lookups: Set[Optional[int]] = set()  # handles
        self._scaled = self.learning_rate
        self._idle: List[Lookup] = []
        names = [t.name.encode() for t in tables]
        table_configs = (TableConfig * len(tables))()
        for out, t, name in zip(table_configs, tables, names):
            out.struct_size, out.name, out.n_rows, out.dim, out.dtype = ctypes.sizeof(TableConfig), name, t.n_rows, t.dim, t.dtype
            out.initializer = t.initializer
            if t.optimizer:
                out.optimizer = ctypes.pointer(t.optimizer)
            if t.dynamic:
                out.dynamic = ctypes.pointer(t.dynamic)
        feature_configs = (FeatureConfig * len(features))()
        for out, f in zip(feature_configs, features):
            out.struct_size, out.name, out.table, out.combiner = ctypes.sizeof(FeatureConfig), f.name.encode(), names[f.table], f.combiner
            out.max_sequence_length, out.skip_validation, out.weighted = f.max_sequence_length, not f.drops_invalid, f.weighted
        config = EmbeddingsConfig(
            seed=seed,
            tables=table_configs,
            n_tables=len(tables),
            features=feature_configs,
            n_features=len(features),
            optimizer=ctypes.pointer(optimizer),
            comm=comm.handle if comm else None,
        )
        self._handle = c_void_p()
        check(lib.rk_embeddings_create(byref(config), byref(self._handle)))
        self.slots = [self._slots_of_table(name) for name in names]

    def _slots_of_table(self, table: bytes) -> List[Slot]:
        width = c_int32()
        out: List[Slot] = []
        while name := lib.rk_embeddings_slot_name(self.handle, table, len(out), byref(width)):
            out.append(Slot(name.decode(), width.value))
        return out

    def check_open(self) -> None:
        if not self._handle:
            raise errors.InvalidArgument("the tables are closed, with the ranks that held them")

    @property
    def handle(self) -> c_void_p:
        self.check_open()
        return self._handle

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Frees all of it; lookups first, in whatever order Python comes to them."""
        for lookup in list(getattr(self, "lookups", ())):
            self.free_lookup(c_void_p(lookup))
        if getattr(self, "_handle", None):
            lib.rk_embeddings_free(self._handle)
            self._handle = c_void_p()

    def free_lookup(self, lookup: c_void_p) -> None:
        if lookup.value in self.lookups:
            self.lookups.remove(lookup.value)
            lib.rk_lookup_free(lookup)

    @property
    def n_bytes(self) -> int:
        """Of all rows and slots."""
        return int(lib.rk_embeddings_bytes(self.handle))

    def take(self) -> Lookup:
        with self.lock:
            self.check_open()
            return self._idle.pop() if self._idle else Lookup(self)

    def give(self, lookup: Lookup) -> None:
        """For another batch. One whose backward will never come holds rows of dynamic tables for as long as it waits."""
        with self.lock:
            if lookup.waits and self.has_dynamic:
                lookup.free()
            else:
                self._idle.append(lookup)

    def look_up(self, lookup: Lookup, n: int, features: Sequence[Tuple[Ids, Ids, Optional[Ids]]], out: int, trains: bool) -> None:
        """Vectors of n samples into [n, width] at `out`."""
        self._look_up(lookup, n, out, trains, lookup.take_ids, features)

    def look_up_keyed(self, lookup: Lookup, n: int, keys: Any, n_keys: int, ids: Ids, offsets: Ids, weights: Optional[Ids], out: int, trains: bool) -> None:
        """The same of Lookup.take_keyed_ids."""
        self._look_up(lookup, n, out, trains, lookup.take_keyed_ids, keys, n_keys, ids, offsets, weights)

    def _look_up(self, lookup: Lookup, n: int, out: int, trains: bool, take: Any, *given: Any) -> None:
        with self.lock:
            try:
                ids = take(n, *given)
            except errors.Error:
                self.refuse(lookup, trains)
                raise
            function = lib.rk_embeddings_lookup if trains else lib.rk_embeddings_lookup_eval
            lookup.waits = False
            check(function(self.handle, n, ids, lookup.handle, lookup.take_rows(out)))
            lookup.waits = trains

    def set_timestamp(self, seconds: float) -> None:
        """Of the batches to train on from now on, since the epoch; NaN: they have none."""
        with self.lock:
            check(lib.rk_embeddings_set_timestamp(self.handle, float64(seconds, "the time")))

    def refuse(self, lookup: Lookup, trains: bool) -> None:
        """In place of a lookup that this rank alone cannot begin: it fails on all."""
        if self.comm:
            (lib.rk_embeddings_lookup if trains else lib.rk_embeddings_lookup_eval)(self.handle, 0, None, lookup.handle, None)

    def backward(self, lookup: Lookup, gradients: int, updates: bool) -> None:
        """Gradients [n, width] of a lookup: rows are updated now, or with all others at the next step."""
        with self.lock:
            self.check_open()
            if updates:
                self._set_learning_rate()
                check(lib.rk_lookup_apply_gradients(lookup.handle, lookup.take_rows(gradients)))
                self.n_pending = 0
            else:
                check(lib.rk_lookup_backward(lookup.handle, lookup.take_rows(gradients)))
                self.n_pending += 1
            lookup.waits = False

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

    def shape(self, table: int, slot: Optional[int] = None) -> Tuple[int, ...]:
        """Of a table's rows, or of a slot of its optimizer."""
        own = self.tables[table]
        width = own.dim if slot is None else self.slots[table][slot].width
        return (own.n_rows, width) if width == own.dim else (own.n_rows,)

    def read_rows(self, table: int, slot: Optional[int] = None, first: int = 0, n: Optional[int] = None) -> Any:
        """A copy of n rows (None: all) from row `first` on, or of a slot's values, as float32."""
        n_rows, *rest = self.shape(table, slot)
        out = numpy.empty((n_rows - first if n is None else n, *rest), numpy.float32)
        name = self.tables[table].name.encode()
        with self.lock:
            if slot is None:
                check(lib.rk_embeddings_read_rows(self.handle, name, first, len(out), out.ctypes.data))
            else:
                check(lib.rk_embeddings_read_slot(self.handle, name, slot, first, len(out), out.ctypes.data))
        return out

    def write_rows(self, table: int, values: Any, slot: Optional[int] = None, first: int = 0) -> None:
        """As many rows, or a slot's, as the values have, which have the shape of read_rows'."""
        name, rows = self.tables[table].name.encode(), numpy.ascontiguousarray(values, numpy.float32)
        with self.lock:
            if slot is None:
                check(lib.rk_embeddings_write_rows(self.handle, name, first, len(rows), rows.ctypes.data))
            else:
                check(lib.rk_embeddings_write_slot(self.handle, name, slot, first, len(rows), rows.ctypes.data))

    def read_step(self, table: int) -> int:
        """How many steps the table has taken."""
        step = c_int64()
        with self.lock:
            check(lib.rk_embeddings_read_step(self.handle, self.tables[table].name.encode(), byref(step)))
        return step.value

    def write_step(self, table: int, step: int) -> None:
        with self.lock:
            check(lib.rk_embeddings_write_step(self.handle, self.tables[table].name.encode(), step))

    def is_dynamic(self, table: int) -> bool:
        return self.tables[table].dynamic is not None

    def count_keys(self, table: int) -> Dict[str, int]:
        """Of a dynamic table: rows now; keys that got and that lost one, and uses that found none, in training and otherwise."""
        totals = KeyTotals()
        with self.lock:
            check(lib.rk_embeddings_count_keys(self.handle, self.tables[table].name.encode(), byref(totals)))
        return {field[0]: getattr(totals, field[0]) for field in KeyTotals._fields_[1:]}

    def read_state(self, table: int) -> Dict[str, Values]:
        """A copy of all that a dynamic table has, by the names of a checkpoint's tensors."""
        state = c_void_p()
        with self.lock:
            check(lib.rk_embeddings_read_state(self.handle, self.tables[table].name.encode(), byref(state)))
        try:
            return {lib.rk_table_state_name(state, i).decode(): _values_of_tensor(lib.rk_table_state_tensor(state, i).contents) for i in range(lib.rk_table_state_n_tensors(state))}
        finally:
            lib.rk_table_state_free(state)

    def write_state(self, table: int, state: Mapping[str, Values]) -> None:
        """What read_state gave, of a table of the same kind. A table whose keys are wrong is empty afterwards; other errors change nothing."""
        names, tensors = (ctypes.c_char_p * len(state))(), (Tensor * len(state))()
        for i, (name, values) in enumerate(state.items()):
            names[i] = name.encode()
            tensors[i].data, tensors[i].dtype, tensors[i].n_dims = values.array.ctypes.data, values.dtype, values.array.ndim
            for d, n in enumerate(values.array.shape):
                tensors[i].shape[d], tensors[i].strides[d] = n, values.array.strides[d] // values.array.itemsize
        with self.lock:
            check(lib.rk_embeddings_write_state(self.handle, self.tables[table].name.encode(), len(state), names, tensors))


def values_of(array: Any) -> Values:
    """Of a dynamic table's state, without rows of 16 bits."""
    dtypes = {numpy.dtype(NUMPY[dtype]): dtype for dtype in (F32, I32, I64, U8)}
    if array.dtype not in dtypes:
        raise errors.InvalidArgument(f"a dynamic table has no array of {array.dtype}")
    return Values(dtypes[array.dtype], array)


def _values_of_tensor(tensor: Tensor) -> Values:
    shape = tuple(tensor.shape[: tensor.n_dims])
    dtype = numpy.dtype(NUMPY[tensor.dtype])
    n_bytes = dtype.itemsize * int(numpy.prod(shape, dtype=numpy.int64))
    return Values(tensor.dtype, numpy.frombuffer(ctypes.string_at(tensor.data, n_bytes), dtype).reshape(shape))
