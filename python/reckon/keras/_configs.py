"""Tables and features: the names of tf.tpu.experimental.embedding, whose own objects and those of Keras RS are taken as well."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import keras

from .._embeddings import F32, MEAN, SQRTN, SUM, TRUNCATED_NORMAL, Dynamic, Feature, Table, dynamic_struct, optimizer_options
from .._structs import Initializer
from ..errors import InvalidArgument, Unsupported
from ._optimizers import row_optimizer

_COMBINERS = {"mean": MEAN, "sum": SUM, "sqrtn": SQRTN}


@dataclasses.dataclass(eq=False)
class TableConfig:
    """A table; features that name the same object share it.

    initializer: a function of a shape, or a name that Keras knows; None: a truncated normal of standard deviation 1/sqrt(dim). optimizer: of this
    table alone, as EmbeddingLayer takes it. combiner: "mean", "sum" or "sqrtn". dynamic: the table has rows for the keys that it meets in training,
    vocabulary_size of them at most; ids are keys then, any whole numbers of 64 bits. It has no initializer of its own.
    """

    vocabulary_size: int
    dim: int
    initializer: Any = None
    optimizer: Any = None
    combiner: str = "mean"
    name: Optional[str] = None
    dynamic: Optional[Dynamic] = None


@dataclasses.dataclass(eq=False)
class FeatureConfig:
    """What is looked up in a table.

    max_sequence_length: above 0, the vectors of so many ids side by side, cut and padded with zeros, in place of a combined one.
    validate_weights_and_indices: negative ids, and weights of 0 or less of a mean or sqrtn, are left out; False: they are errors.
    """

    table: Any
    max_sequence_length: int = 0
    validate_weights_and_indices: bool = True
    output_shape: Any = None
    name: Optional[str] = None


@dataclasses.dataclass(eq=False)
class RsTableConfig:
    """A table with the fields of Keras RS's, of which dense ids are combined."""

    vocabulary_size: int
    embedding_dim: int
    initializer: Any = None
    optimizer: Any = None
    combiner: str = "mean"
    name: Optional[str] = None


def leaves(like: Any, given: Any, what: str, path: str = "") -> Iterator[Tuple[str, Any]]:
    """What `given` has where the structure `like` has its leaves, with their names. Dicts may have more keys."""
    if isinstance(like, Mapping):
        if not isinstance(given, Mapping):
            raise InvalidArgument(f"{what} must be a dict{path and f' at {path}'}, as the feature_config is")
        for key, inner in like.items():
            if key not in given:
                raise InvalidArgument(f"{what} have no '{path}{key}'", f"they have {', '.join(map(str, given))}")
            yield from leaves(inner, given[key], what, f"{path}{key}/")
    elif isinstance(like, (list, tuple)):
        if not isinstance(given, (list, tuple)) or len(given) != len(like):
            raise InvalidArgument(f"{what} must be {len(like)} values{path and f' at {path}'}, as the feature_config is")
        for i, inner in enumerate(like):
            yield from leaves(inner, given[i], what, f"{path}{i}/")
    else:
        yield path[:-1], given


def rebuild(like: Any, values: Iterator[Any]) -> Any:
    """The structure with other leaves."""
    if isinstance(like, Mapping):
        return {key: rebuild(inner, values) for key, inner in like.items()}
    if isinstance(like, (list, tuple)):
        return [rebuild(inner, values) for inner in like] if isinstance(like, list) else tuple(rebuild(inner, values) for inner in like)
    return next(values)


def _is_keras_rs(table: Any) -> bool:
    return hasattr(table, "embedding_dim")


def _check_combiner(table: Any, name: str) -> int:
    if table.combiner not in _COMBINERS:
        raise InvalidArgument(f"table '{name}': combiner is {table.combiner}", f"one of {', '.join(_COMBINERS)}")
    return _COMBINERS[table.combiner]


def _make_table(name: str, config: Any, dim: int, optimizer: Any) -> Table:
    own = getattr(config, "dynamic", None)
    if own is None:
        return Table(name, config.vocabulary_size, dim, F32, Initializer(kind=TRUNCATED_NORMAL), optimizer)
    if config.initializer is not None:
        raise InvalidArgument(f"table '{name}' is dynamic and has an initializer", "leave the initializer out: a row begins as its key gets it")
    return Table(name, 0, dim, F32, Initializer(kind=TRUNCATED_NORMAL), optimizer, dynamic_struct(name, config.vocabulary_size, own))


class Plan:
    """Tables and features of a feature_config, flat."""

    def __init__(self, feature_config: Any) -> None:
        found = list(leaves(feature_config, feature_config, "features"))
        self.configs = [config for _, config in found]
        self.names = [getattr(config, "name", None) or path or f"feature_{i}" for i, (path, config) in enumerate(found)]
        if not found or len(set(self.names)) != len(found):
            raise InvalidArgument(f"the names of features are {self.names}", "one feature at least, each with a name of its own")
        numbers: Dict[int, int] = {}
        self.table_configs: List[Any] = []
        for name, config in zip(self.names, self.configs):
            if not hasattr(getattr(config, "table", None), "vocabulary_size"):
                raise InvalidArgument(f"feature '{name}' is no FeatureConfig with a TableConfig, but {config!r}")
            if numbers.setdefault(id(config.table), len(numbers)) == len(self.table_configs):
                self.table_configs.append(config.table)
        self.table_of = [numbers[id(config.table)] for config in self.configs]
        self.table_names = [table.name or f"table_{t}" for t, table in enumerate(self.table_configs)]
        self.rates: List[Callable[[], float]] = []

    def dim(self, f: int) -> int:
        table = self.configs[f].table
        return int(table.embedding_dim if _is_keras_rs(table) else table.dim)

    def tables(self) -> List[Table]:
        made = []
        for t, (name, config) in enumerate(zip(self.table_names, self.table_configs)):
            optimizer, rate = (None, None) if config.optimizer is None else row_optimizer(config.optimizer)
            if rate is not None:
                raise InvalidArgument(f"table '{name}': its optimizer's learning rate is a function", "give the layer's optimizer one, or the table's a number")
            made.append(_make_table(name, config, self.dim(self.table_of.index(t)), optimizer))
        return made

    def combines(self, f: int, n_ids: int) -> bool:
        """Whether ids of dense inputs [batch, n_ids] become one vector: those of Keras RS do, those of TPUEmbedding stand side by side."""
        return n_ids == 0 or _is_keras_rs(self.configs[f].table)

    def feature(self, f: int, n_ids: int) -> Feature:
        """n_ids: of dense inputs [batch, n_ids], 0 for [batch]; -1: ragged and sparse ones."""
        config, table = self.configs[f], self.table_of[f]
        combiner = _check_combiner(config.table, self.table_names[table])
        if n_ids < 0:
            length = int(getattr(config, "max_sequence_length", 0))
            drops = bool(getattr(config, "validate_weights_and_indices", True))
            return Feature(self.names[f], table, combiner, length, length == 0, drops)
        if self.combines(f, n_ids):
            return Feature(self.names[f], table, combiner if n_ids else SUM, weighted=n_ids > 0, drops_invalid=n_ids > 0)
        return Feature(self.names[f], table, SUM, n_ids)

    def to_config(self, structure: Any) -> Dict[str, Any]:
        """The feature_config as lists, texts and numbers; feature_config_of is the way back."""
        features = ({"table": t, **_feature_to_config(config)} for t, config in zip(self.table_of, self.configs))
        return {"tables": [_table_to_config(name, table) for name, table in zip(self.table_names, self.table_configs)], "features": _structure_to_config(structure, features)}


def _initializer_to_config(table: str, initializer: Any) -> Any:
    """Those of TensorFlow have names and options of Keras's."""
    if initializer is None or isinstance(initializer, str):
        return initializer
    kind = getattr(keras.initializers, type(initializer).__name__, None)
    if kind is None or not hasattr(initializer, "get_config"):
        raise Unsupported(f"table '{table}': its initializer is {initializer!r}, which no config can hold", "give one of keras.initializers")
    options = {name: value for name, value in initializer.get_config().items() if name != "dtype"}
    return keras.initializers.serialize(kind.from_config(options))


def _table_to_config(name: str, table: Any) -> Dict[str, Any]:
    dim = "embedding_dim" if _is_keras_rs(table) else "dim"
    return {
        "vocabulary_size": int(table.vocabulary_size),
        dim: int(getattr(table, dim)),
        "initializer": _initializer_to_config(name, table.initializer),
        "optimizer": None if table.optimizer is None else optimizer_options(row_optimizer(table.optimizer)[0]),
        "combiner": table.combiner,
        "name": table.name,
        **({"dynamic": dataclasses.asdict(own)} if (own := getattr(table, "dynamic", None)) else {}),
    }


def _feature_to_config(config: Any) -> Dict[str, Any]:
    return {field.name: getattr(config, field.name, field.default) for field in dataclasses.fields(FeatureConfig) if field.name not in ("table", "output_shape")}


def _structure_to_config(structure: Any, features: Iterator[Dict[str, Any]]) -> Dict[str, Any]:
    """Texts alone may be keys of JSON, and it has no tuples."""
    if isinstance(structure, Mapping):
        return {"dict": [[key, _structure_to_config(inner, features)] for key, inner in structure.items()]}
    if isinstance(structure, (list, tuple)):
        return {"list" if isinstance(structure, list) else "tuple": [_structure_to_config(inner, features) for inner in structure]}
    return {"feature": next(features)}


def _structure_from_config(config: Any, tables: List[Any]) -> Any:
    ((kind, inner),) = config.items()
    if kind == "feature":
        return FeatureConfig(**{**inner, "table": tables[inner["table"]]})
    if kind == "dict":
        return {key: _structure_from_config(value, tables) for key, value in inner}
    values = [_structure_from_config(value, tables) for value in inner]
    return values if kind == "list" else tuple(values)


def feature_config_of(config: Mapping[str, Any]) -> Any:
    """What Plan.to_config was made of, in this module's own classes."""
    tables = []
    for own in config["tables"]:
        initializer = own["initializer"]
        if isinstance(initializer, Mapping):
            initializer = keras.initializers.deserialize(initializer)
        dynamic = {"dynamic": Dynamic(**own["dynamic"])} if own.get("dynamic") else {}
        tables.append((RsTableConfig if "embedding_dim" in own else TableConfig)(**{**own, "initializer": initializer, **dynamic}))
    return _structure_from_config(config["features"], tables)
