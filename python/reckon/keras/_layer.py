"""A Keras layer over embedding tables: lookup and backward as functions that TensorFlow's graph calls."""

from __future__ import annotations

import itertools
import math
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import keras
import numpy
import tensorflow as tf

from .. import _table_files
from .._embeddings import F32, I64, Ids, Lookup, Tables, optimizer_options, values_of
from .._library import int32, logger
from ..errors import InvalidArgument, NotFound, Unsupported
from ._configs import Plan, feature_config_of, leaves, rebuild
from ._optimizers import row_optimizer

_MOST_PENDING = 64  # lookups without a backward; older ones are dropped, of dynamic tables those that so many others followed, too
_N_IDS = "n_ids"  # of the weights
_NO_TIME = -(2**63)  # of a batch
_DTYPES = {numpy.dtype(numpy.float32): F32, numpy.dtype(numpy.int64): I64}


def _ids_per_sample(name: str, given: Any) -> int:
    """Of a dense input [batch, n]: n, 0 for [batch]; -1: ragged or sparse."""
    rank = len(given.shape)
    if isinstance(given, (tf.RaggedTensor, tf.SparseTensor)) or getattr(given, "ragged", False) or getattr(given, "sparse", False):
        if rank != 2:
            raise InvalidArgument(f"feature '{name}' has {rank} dimensions", "ragged and sparse ids are [batch, ids of a sample]")
        return -1
    if rank not in (1, 2) or (rank == 2 and not given.shape[1]):
        raise InvalidArgument(f"feature '{name}' has the shape {tuple(given.shape)}", "dense ids are [batch] or [batch, n] with an n that is known; else give them ragged")
    return int(given.shape[1]) if rank == 2 else 0


def _as_tensor(given: Any) -> Any:
    return given if given is None or isinstance(given, (tf.RaggedTensor, tf.SparseTensor)) else tf.convert_to_tensor(given)


def _as_ragged(given: Any, is_sequence: bool) -> Any:
    if not isinstance(given, tf.SparseTensor):
        return given
    if is_sequence:  # whose ids must stand at the front of each row
        return tf.RaggedTensor.from_sparse(given)
    return tf.RaggedTensor.from_value_rowids(given.values, given.indices[:, 0], given.dense_shape[0])


def _latest_time(given: Any) -> Any:
    """Of a batch's timestamps, int64; _NO_TIME: there are none."""
    if given is None:
        return tf.constant(_NO_TIME, tf.int64)
    times = given if tf.is_tensor(given) else tf.constant(numpy.asarray(given))
    if not times.dtype.is_integer:
        raise InvalidArgument(f"timestamp is {times.dtype.name}", "give whole seconds as int64: what Keras makes of others has too few digits")
    return tf.reduce_max(tf.cast(times, tf.int64))


def _address_and_size(array: Any) -> Ids:
    return array.ctypes.data if array.size else 0, _DTYPES[array.dtype], array.size


@keras.saving.register_keras_serializable("reckon")
class EmbeddingLayer(keras.layers.Layer):
    """Embeddings of all categorical features: in place of tfrs.layers.embedding.TPUEmbedding.

    feature_config: FeatureConfigs in dicts and lists, of any depth; TPUEmbedding's and Keras RS's own are taken as well. The layer takes ids in the same
    structure, and gives vectors in it. optimizer: of the rows, one of keras.optimizers or tf.tpu.experimental.embedding (SGD, Adagrad, Adam, ...), a kind,
    or a dict with the options of docs/optimizers.md; tables may have their own. seed: of initial rows.

    Ids are whole numbers: ragged or sparse [batch, ids] become one vector [batch, dim] by the table's combiner, or with max_sequence_length
    [batch, max_sequence_length, dim]; dense [batch, n] become [batch, n, dim] ([batch, dim], combined, of Keras RS's configs), [batch] become [batch, dim].
    weights: in the same structure, None for features without. timestamp: whole seconds since the epoch, of each sample or of the whole batch, by the latest
    of which Dynamic(ttl=...) counts.

    With training=True, which fit passes on, rows are updated as their gradients come. Otherwise nothing is kept, and rows get no gradient. Ids that are
    no rows are BadData, with feature, sample and id; within a tf.function, tf.errors.InvalidArgumentError with that message.
    """

    def __init__(self, feature_config: Any, optimizer: Any = "adagrad", *, seed: int = 0, **more: Any) -> None:
        super().__init__(**more)
        if self.compute_dtype == "float16":
            raise Unsupported("rows are not trained under mixed_float16, whose gradients are scaled", "use float32 or mixed_bfloat16")
        self.supports_jit = False  # XLA calls no functions of the host
        self.autocast = False  # weights of bags and their sums are float32 under mixed_bfloat16, too; what comes out is cast
        self._structure = feature_config
        self._plan = Plan(feature_config)
        self._row_optimizer, self._rate = row_optimizer(optimizer)
        self._learning_rate = float(self._row_optimizer.learning_rate)
        self._seed = seed
        self._tables: Optional[Tables] = None
        self._ids_per_sample: List[int] = []
        self._pending: Dict[int, Lookup] = {}
        self._tickets = itertools.count(1)
        self._anchor = self.add_weight(shape=(0,), initializer="zeros", name="anchor", dtype="float32")  # only has the gradient come here
        self.built = True

    @property
    def learning_rate(self) -> float:
        """Of the layer's optimizer; tables with their own are scaled alike."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._learning_rate = float(value)

    def _create_tables(self, n_ids: List[int]) -> Tables:
        """Once the inputs say which features are dense."""
        if self._tables is None:
            features = [self._plan.feature(f, n) for f, n in enumerate(n_ids)]
            self._ids_per_sample = n_ids
            self._tables = Tables(self._plan.tables(), features, self._row_optimizer, self._seed)
            for t, config in enumerate(self._plan.table_configs):
                if config.initializer is not None:
                    table = self._tables.tables[t]
                    make = keras.initializers.get(config.initializer) if isinstance(config.initializer, str) else config.initializer
                    with tf.init_scope():  # now, although a graph may be being made
                        self.assign_rows(table.name, make((table.n_rows, table.dim)))
        if n_ids != self._ids_per_sample:
            f = next(f for f, n in enumerate(n_ids) if n != self._ids_per_sample[f])
            raise InvalidArgument(f"feature '{self._plan.names[f]}' had ids of another form before", "all calls give it ragged or sparse, or all dense with as many ids")
        return self._tables

    def _existing_tables(self) -> Tables:
        if self._tables is None:
            raise InvalidArgument("the layer has no tables yet", "call it once, or build the model")
        return self._tables

    def _output_shape(self, f: int, batch: Any) -> Tuple[Any, ...]:
        length = self._existing_tables().features[f].max_sequence_length
        return (batch, length, self._plan.dim(f)) if length else (batch, self._plan.dim(f))

    def compute_output_spec(self, inputs: Any, weights: Any = None, training: Any = None, timestamp: Any = None) -> Any:
        given = [x for _, x in leaves(self._structure, inputs, "the inputs")]
        self._create_tables([_ids_per_sample(name, x) for name, x in zip(self._plan.names, given)])
        made = [keras.KerasTensor(self._output_shape(f, x.shape[0]), dtype=self.compute_dtype) for f, x in enumerate(given)]
        return rebuild(self._structure, iter(made))

    def _bags_of_input(self, f: int, given: Any, weight: Any) -> List[Any]:
        """Ids, offsets and, if there are any, weights, flat."""
        name, n_ids = self._plan.names[f], self._ids_per_sample[f]
        feature = self._existing_tables().features[f]
        if weight is not None and not feature.weighted:
            raise InvalidArgument(f"feature '{name}' takes no weights", "only combined ids have weights")
        if weight is not None and isinstance(weight, tf.Tensor) == (n_ids < 0):
            raise InvalidArgument(f"weights of feature '{name}' are of another form than its ids", "give both ragged, both sparse, or both dense")
        if n_ids < 0:
            ragged, w = _as_ragged(given, feature.max_sequence_length > 0), _as_ragged(weight, False)
            parts = [ragged.values, ragged.row_splits]
            if w is not None:
                splits = (tf.cast(x.row_splits, tf.int64) for x in (ragged, w))
                same = tf.debugging.assert_equal(*splits, f"feature '{name}': a sample has not as many weights as ids")
                with tf.control_dependencies([] if same is None else [same]):  # None: eager
                    parts.append(tf.identity(w.values))
        else:
            flat = tf.reshape(given, [-1])
            offsets = tf.range(0, tf.size(flat, out_type=tf.int64) + 1, max(n_ids, 1), dtype=tf.int64)
            parts = [flat, offsets] + ([] if weight is None else [tf.reshape(weight, [-1])])
        if not parts[0].dtype.is_integer:
            raise InvalidArgument(f"ids of feature '{name}' are {parts[0].dtype.name}", "give int32 or int64")
        return [tf.cast(part, tf.int64) for part in parts[:2]] + [tf.cast(part, tf.float32) for part in parts[2:]]

    def call(self, inputs: Any, weights: Any = None, training: Any = None, timestamp: Any = None) -> Any:
        names = self._plan.names
        given = [_as_tensor(x) for _, x in leaves(self._structure, inputs, "the inputs")]
        given_weights = [None] * len(names) if weights is None else [_as_tensor(x) for _, x in leaves(self._structure, weights, "the weights")]
        tables = self._create_tables([_ids_per_sample(name, x) for name, x in zip(names, given)])
        parts = [self._bags_of_input(f, x, w) for f, (x, w) in enumerate(zip(given, given_weights))]
        out = self._look_up(parts, _latest_time(timestamp), bool(training) and self.trainable)
        out.set_shape([given[0].shape[0], tables.width])
        vectors = tf.split(tf.cast(out, self.compute_dtype), tables.widths, axis=1)
        shaped = [v if len(self._output_shape(f, -1)) == 2 else tf.reshape(v, self._output_shape(f, -1)) for f, v in enumerate(vectors)]
        return rebuild(self._structure, iter(shaped))

    def _look_up(self, parts: List[List[Any]], time: Any, trains: bool) -> Any:
        """Vectors of all features side by side: [batch, width]."""
        sizes = [len(part) for part in parts]
        flat = [x for part in parts for x in part]

        @tf.custom_gradient
        def looked_up(anchor: Any) -> Any:
            out, ticket = _run_python_function(lambda time, *arrays: self._forward(arrays, sizes, time, trains), [time, *flat], [tf.float32, tf.int64])

            def gradient(upstream: Any) -> Any:
                (none,) = _run_python_function(self._backward, [ticket, upstream], [tf.float32])
                none.set_shape(anchor.shape)
                return none

            return out, gradient

        anchor = tf.identity(self._anchor.value)
        return looked_up(anchor if trains else tf.stop_gradient(anchor))

    def _forward(self, arrays: Sequence[Any], sizes: Sequence[int], time: Any, trains: bool) -> Any:
        tables = self._existing_tables()
        rest = iter([numpy.ascontiguousarray(a) for a in arrays])
        bags = [[next(rest) for _ in range(size)] for size in sizes]
        batches = [len(bag[1]) - 1 for bag in bags]
        if len(set(batches)) > 1:
            raise InvalidArgument("features have batches of " + ", ".join(f"{n} ('{name}')" for n, name in zip(batches, self._plan.names)), "give all of them for the same samples")
        for name, bag in zip(self._plan.names, bags):
            if len(bag) > 2 and len(bag[2]) != len(bag[0]):
                raise InvalidArgument(f"feature '{name}': {len(bag[2])} weights do not fit to {len(bag[0])} ids")
        out = numpy.empty((batches[0], tables.width), numpy.float32)
        lookup = tables.take()
        try:
            features = [(_address_and_size(bag[0]), _address_and_size(bag[1]), _address_and_size(bag[2]) if len(bag) > 2 else None) for bag in bags]
            with tables.lock:
                if trains:
                    tables.set_timestamp(math.nan if time == _NO_TIME else float(time))
                tables.look_up(lookup, batches[0], features, out.ctypes.data, trains)
        except BaseException:
            tables.give(lookup)
            raise
        return out, self._store_lookup(lookup) if trains else self._release_lookup(lookup)

    def _store_lookup(self, lookup: Lookup) -> Any:
        with self._existing_tables().lock:
            ticket = next(self._tickets)
            self._pending[ticket] = lookup
            while len(self._pending) > _MOST_PENDING or (self._existing_tables().has_dynamic and next(iter(self._pending)) <= ticket - _MOST_PENDING):
                self._release_lookup(self._pending.pop(next(iter(self._pending))))
        return numpy.int64(ticket)

    def _release_lookup(self, lookup: Lookup) -> Any:
        self._existing_tables().give(lookup)
        return numpy.int64(0)

    def _release_all_lookups(self) -> None:
        """Before the state of dynamic tables is written: what was looked up has other rows then."""
        with self._existing_tables().lock:
            while self._pending and self._existing_tables().has_dynamic:
                self._release_lookup(self._pending.popitem()[1])

    def _backward(self, ticket: Any, gradients: Any) -> Any:
        tables = self._existing_tables()
        with tables.lock:
            lookup = self._pending.pop(int(ticket), None)
            if lookup is None:
                raise InvalidArgument("a lookup goes backward once, and before many others follow")
            tables.learning_rate = self._learning_rate if self._rate is None else float(self._rate())
            values = numpy.ascontiguousarray(gradients, numpy.float32)  # which lives until the call has ended
            try:
                tables.backward(lookup, values.ctypes.data, True)
            finally:
                tables.give(lookup)
        return (numpy.zeros(0, numpy.float32),)

    @property
    def embedding_tables(self) -> Dict[str, Any]:
        """Copies of the rows by the tables' names: arrays [vocabulary_size, dim]; of dynamic tables the rows of embedding_keys."""
        tables = self._existing_tables()
        return {table.name: tables.read_state(t)["rows"].array if tables.is_dynamic(t) else tables.read_rows(t) for t, table in enumerate(tables.tables)}

    @property
    def embedding_keys(self) -> Dict[str, Any]:
        """Of dynamic tables, the key of each row in embedding_tables."""
        tables = self._existing_tables()
        return {table.name: tables.read_state(t)["keys"].array for t, table in enumerate(tables.tables) if tables.is_dynamic(t)}

    def count_keys(self, table: str) -> Dict[str, int]:
        """Of a dynamic table: n_rows that keys have now; n_admitted and n_evicted keys, n_refused uses in training without a row, so far; n_missing
        uses otherwise."""
        return self._existing_tables().count_keys(self._table_number(table))

    def _table_number(self, table: str) -> int:
        names = [t.name for t in self._existing_tables().tables]
        if table not in names:
            raise NotFound(f"the layer has no table '{table}'", f"it has {', '.join(names)}")
        return names.index(table)

    def assign_rows(self, table: str, rows: Any, first: int = 0) -> None:
        """Rows first, first + 1, ... of a table become those of `rows`, an array [n, dim]."""
        t, values = self._table_number(table), numpy.ascontiguousarray(rows, numpy.float32)
        own = self._existing_tables().tables[t]
        if own.dynamic:
            raise Unsupported(f"table '{table}' is dynamic: its rows have keys, and no numbers", "load() takes rows with their keys")
        if values.ndim != 2 or values.shape[1] != own.dim or not 0 <= first <= own.n_rows - len(values):
            raise InvalidArgument(f"rows of shape {values.shape} from {first} on do not fit into table '{table}' of shape {(own.n_rows, own.dim)}")
        self._existing_tables().write_rows(t, values, first=first)

    def save(self, path: Union[str, "os.PathLike[str]"], optimizer: bool = True) -> None:
        """Rows of all tables, and with optimizer its state, as one safetensors file, whole or not at all: "<table>.weight", and "<table>.accumulator", ... and
        "<table>.step". It takes some MiB, however large the tables are, but for a copy of each dynamic one, of which all is written."""
        _table_files.save(self._existing_tables(), self._names_of_rows(), os.fspath(path), optimizer)

    def load(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Rows from such a file, from the model.safetensors of a Reckon export, or from a checkpoint's directory; and the state of the optimizer, if it is there,
        else it stays as it was. Errors: NotFound, BadData; then nothing has changed, but where what is there of a dynamic table does not fit to it."""
        self._release_all_lookups()
        _table_files.load(self._existing_tables(), self._names_of_rows(), os.fspath(path))

    def _names_of_rows(self) -> List[str]:
        return [f"{t.name}.weight" for t in self._existing_tables().tables]

    def get_config(self) -> Dict[str, Any]:
        if self._rate is not None:
            raise Unsupported("the optimizer's learning rate is a function, which no config can hold", "give a number, and set the layer's learning_rate in a callback")
        own = {"optimizer": optimizer_options(self._row_optimizer), "learning_rate": self._learning_rate, "seed": self._seed}
        return {**super().get_config(), **own, "feature_config": self._plan.to_config(self._structure)}

    @classmethod
    def from_config(cls, config: Dict[str, Any]) -> "EmbeddingLayer":
        rate = config["learning_rate"]
        given = {name: value for name, value in config.items() if name != "learning_rate"}
        layer: EmbeddingLayer = super().from_config({**given, "feature_config": feature_config_of(config["feature_config"])})
        layer.learning_rate = rate
        return layer

    def save_own_variables(self, store: Any) -> None:
        """Of table t its rows "t", of its optimizer "t.accumulator", ..., "t.step", of a dynamic one "t.keys" and what else it has; and the forms of the inputs."""
        if self._tables is None:
            return
        tables = self._tables
        store[_N_IDS] = numpy.array(self._ids_per_sample, numpy.int64)
        for t in range(len(tables.tables)):
            if tables.is_dynamic(t):
                for name, values in tables.read_state(t).items():
                    store[str(t) if name == "rows" else f"{t}.{name}"] = values.array
                continue
            store[str(t)] = tables.read_rows(t)
            store[f"{t}.step"] = numpy.array(tables.read_step(t), numpy.int64)
            for s, slot in enumerate(tables.slots[t]):
                store[f"{t}.{slot.name}"] = tables.read_rows(t, s)

    def load_own_variables(self, store: Any) -> None:
        """Rows; the state of an optimizer with the same slots, else it stays as it was."""
        names = list(store.keys())
        if self._tables is None and _N_IDS in names:
            n_ids = [int32(int(n), "the number of ids in the weights", -1) for n in store[_N_IDS]]
            if len(n_ids) != len(self._plan.configs):
                raise InvalidArgument(f"the weights are of {len(n_ids)} features, not {len(self._plan.configs)}")
            self._create_tables(n_ids)
        if self._tables is None and not names:  # as it was saved
            return
        tables = self._existing_tables()
        self._release_all_lookups()
        for t, table in enumerate(tables.tables):
            if table.dynamic:
                continue
            shape = tuple(store[str(t)].shape)
            if shape != tables.shape(t):
                raise InvalidArgument(f"the weights of table '{table.name}' have the shape {shape}, not {tables.shape(t)}")
        for t in range(len(tables.tables)):
            own = [name for name in names if name.startswith(f"{t}.")]
            if tables.is_dynamic(t):
                arrays = {"rows": store[str(t)], **{name[len(f"{t}.") :]: store[name] for name in own}}
                tables.write_state(t, {name: values_of(numpy.ascontiguousarray(array)) for name, array in arrays.items()})
                continue
            tables.write_rows(t, numpy.asarray(store[str(t)]))
            self._load_state(t, store, own)

    def _load_state(self, t: int, store: Any, names: List[str]) -> None:
        if not names:  # of rows alone
            return
        tables = self._existing_tables()
        wanted = {f"{t}.{slot.name}": tables.shape(t, s) for s, slot in enumerate(tables.slots[t])}
        if {name: tuple(store[name].shape) for name in names} != {**wanted, f"{t}.step": ()}:
            logger.warning("the weights have the state of another optimizer of table '%s', whose own stays as it was", tables.tables[t].name)
            return
        for s, name in enumerate(wanted):
            tables.write_rows(t, numpy.asarray(store[name]), s)
        tables.write_step(t, int(numpy.asarray(store[f"{t}.step"])))


def _run_python_function(function: Callable[..., Any], inputs: List[Any], types: List[Any]) -> Any:
    """Now, or when the graph that is being made runs."""
    if tf.executing_eagerly():
        return [tf.convert_to_tensor(x) for x in function(*(x.numpy() for x in inputs))]
    return tf.numpy_function(function, inputs, types)
