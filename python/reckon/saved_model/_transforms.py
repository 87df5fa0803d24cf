"""Columns' values to ids and numbers in TensorFlow's operators: what docs/data.md says of features."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

import tensorflow as tf

from ..errors import Unsupported
from ._hash import bucket, combine, hash_texts
from ._keys import keys_of_texts

HISTORY = "history"  # the feature of a two_tower's user: items
_MOST_CONSTANT_BYTES = 1 << 28


class Ids(NamedTuple):
    """Ragged [batch, ids]."""

    ids: Any
    weights: Any = None


def _unescape_vocabulary_line(line: bytes) -> bytes:
    """Of a vocabulary's file (docs/formats/checkpoint.md)."""
    parts = line.split(b"\\\\")
    return b"\\".join(part.replace(b"\\n", b"\n").replace(b"\\r", b"\r") for part in parts)


def _make_vocabulary_table(path: str) -> Any:
    """Texts to the numbers of their lines, -1 for others; None: there are no texts."""
    with open(path, "rb") as file:
        texts = file.read()
    if not texts:
        return None
    if b"\\" not in texts:
        lines = tf.lookup.TextFileInitializer(path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER)
        return tf.lookup.StaticHashTable(lines, -1)
    if len(texts) > _MOST_CONSTANT_BYTES:
        raise Unsupported(f"'{os.path.basename(path)}' has line breaks or backslashes in its values, and {len(texts)} bytes, which no graph holds", "leave such values out of the vocabulary, or hash the feature")
    keys = [_unescape_vocabulary_line(line) for line in texts.rstrip(b"\n").split(b"\n")]
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.range(len(keys), dtype=tf.int64)), -1)


def _check_weights(feature: Mapping[str, Any], values: Any, weights: Any) -> Any:
    same = tf.debugging.assert_equal(values.row_lengths(), weights.row_lengths(), f"feature '{feature['name']}': a row has not as many weights as ids")
    with tf.control_dependencies([same]):
        return weights.with_values(tf.identity(weights.values))


def _drop_missing_ids(ids: Any, weights: Any) -> Ids:
    """Without those below 0, which say that there is none."""
    is_there = ids >= 0
    return Ids(tf.ragged.boolean_mask(ids, is_there), None if weights is None else tf.ragged.boolean_mask(weights, is_there))


def _ids_of_hashes(feature: Mapping[str, Any], hashes: Any) -> Any:
    """Ids, or with hash_functions the hashes themselves, of which these make ids."""
    return tf.bitcast(hashes, tf.int64) if feature["hash_functions"] else bucket(hashes, feature["hash"])


def _compose_ids(feature: Mapping[str, Any], whole: Ids) -> Ids:
    """Each id as the ids that hash_functions or quotient_remainder make of it."""
    ids, divisor = whole.ids.values, feature["quotient_remainder"]
    if feature["hash_functions"]:
        hashes = tf.bitcast(ids, tf.uint64)
        parts = [bucket(combine(hashes, tf.fill(tf.shape(ids), tf.constant(seed & 0xFFFFFFFFFFFFFFFF, tf.uint64))), feature["hash"]) for seed in feature["hash_function_seeds"]]
    elif divisor:
        parts = [ids // divisor, feature["first_remainder"] + ids % divisor]
    else:
        return whole
    splits = whole.ids.row_splits * len(parts)
    made = tf.RaggedTensor.from_row_splits(tf.reshape(tf.stack(parts, axis=1), [-1]), splits, validate=False)
    return Ids(made, None if whole.weights is None else made.with_values(tf.repeat(whole.weights.values, len(parts))))


def _parse_numbers(values: Any) -> Any:
    if values.dtype == tf.string:
        return values.with_values(tf.strings.to_number(tf.strings.strip(values.values), tf.float64))
    return tf.cast(values, tf.float64) if values.dtype == tf.int64 else values


class Transforms:
    """description: what rk_transforms_to_json gives; directory: where vocabularies are; wanted: categorical features whose ids a model takes, needs_dense:
    and all numbers. integer_columns: those of texts whose values are given as whole numbers. item: the feature whose values a history has."""

    def __init__(self, description: Mapping[str, Any], directory: str, wanted: Sequence[str], needs_dense: bool, integer_columns: Sequence[str], item: Optional[str]) -> None:
        self.missing = ["", *description["missing"]]
        self.dense = [f for f in description["features"] if f["dense"] and needs_dense]
        self.features: Dict[str, Dict[str, Any]] = {f["name"]: f for f in description["features"] if not f["dense"]}
        if item is not None and HISTORY not in self.features:
            self.features[HISTORY] = {**self.features[item], "name": HISTORY, "column": HISTORY}
        self.wanted = list(wanted)
        self.tables = {f["name"]: _make_vocabulary_table(os.path.join(directory, f["vocabulary"]["file"])) for f in self._features_with_columns() if "vocabulary" in f}
        self.types = self._column_types(integer_columns)

    def _with_crossed(self, name: str) -> Iterator[Dict[str, Any]]:
        feature = self.features[name]
        yield feature
        for other in feature.get("cross", []):
            yield from self._with_crossed(other)

    def _features_with_columns(self) -> List[Dict[str, Any]]:
        """Features with columns of their own."""
        found = {f["name"]: f for name in self.wanted for f in self._with_crossed(name) if not f.get("cross")}
        return [*found.values(), *self.dense]

    @staticmethod
    def weights_column(feature: Mapping[str, Any]) -> Optional[str]:
        """Those of libsvm stand beside their ids."""
        weights = feature.get("weights")
        return f"{weights}.weights" if weights == feature["column"] else weights

    def _column_types(self, integer_columns: Sequence[str]) -> Dict[str, Any]:
        types: Dict[str, Any] = {}
        rank = {tf.float32: 0, tf.int64: 1, tf.string: 2}
        for f in self._features_with_columns():
            is_number = f["dense"] or f.get("bucketize") or f["quantiles"]
            own = tf.float32 if is_number else tf.int64 if f["identity"] else tf.string
            types[f["column"]] = max(types.get(f["column"], own), own, key=lambda kind: rank[kind])
        self.text_columns = {column for column, kind in types.items() if kind == tf.string}
        types.update({column: tf.int64 for column in integer_columns if column in self.text_columns})
        for f in self._features_with_columns():
            weights = self.weights_column(f)
            if weights:
                types[weights] = tf.float32
        return types

    def _drop_missing_values(self, values: Any) -> Any:
        """Ragged values without those that say that there is none, which whole numbers cannot say but for an identity."""
        if values.dtype == tf.string:
            is_missing = tf.reduce_any(values.values[:, None] == tf.constant(self.missing), axis=1)
        elif values.dtype == tf.float32:
            is_missing = tf.math.is_nan(values.values)
        else:
            return values
        return tf.ragged.boolean_mask(values, values.with_values(~is_missing))

    def _is_below_identity(self, feature: Mapping[str, Any], columns: Mapping[str, Any]) -> Optional[Any]:
        """Of each value of whole numbers, whether it says that there is none; None: they cannot say it."""
        values = columns[feature["column"]]
        return values.values < feature["identity_offset"] if feature["identity"] and values.dtype == tf.int64 else None

    def _present_values(self, feature: Mapping[str, Any], columns: Mapping[str, Any]) -> Any:
        values, is_below = columns[feature["column"]], self._is_below_identity(feature, columns)
        return self._drop_missing_values(values) if is_below is None else tf.ragged.boolean_mask(values, values.with_values(~is_below))

    def _feature_values(self, feature: Mapping[str, Any], columns: Mapping[str, Any]) -> Any:
        values = self._present_values(feature, columns)
        default = feature.get("default_value")
        if default is not None:
            filler = tf.constant(default) if values.dtype == tf.string else tf.strings.to_number(default, values.dtype)
            is_empty = values.row_lengths() == 0
            fillers = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(tf.cast(is_empty, tf.int32))], filler), tf.cast(is_empty, tf.int64))
            values = tf.concat([values, fillers], axis=1)
        if feature.get("separator") is not None and values.dtype == tf.string:
            pieces = tf.strings.split(values.values, feature["separator"])
            pieces = pieces.with_values(tf.strings.strip(pieces.values))
            pieces = tf.ragged.boolean_mask(pieces, pieces.with_values(pieces.values != ""))
            values = values.with_values(pieces).merge_dims(1, 2)
        return values

    def _ids_of_values(self, f: Mapping[str, Any], values: Any) -> Any:
        flat = values.values
        if f.get("bucketize") or f["quantiles"]:
            numbers = _parse_numbers(values).values
            bounds = tf.constant(f["bucketize"] if f.get("bucketize") else f["boundaries"], tf.float64)
            return tf.searchsorted(tf.cast(bounds, numbers.dtype), numbers, side="right", out_type=tf.int64)
        if f["identity"]:
            whole = tf.strings.to_number(tf.strings.strip(flat), tf.int64) if flat.dtype == tf.string else flat
            return whole - f["identity_offset"]
        if f["key"]:
            return keys_of_texts(flat) if flat.dtype == tf.string else flat
        texts = flat if flat.dtype == tf.string else tf.strings.as_string(flat)
        if f["hash"]:
            return _ids_of_hashes(f, hash_texts(texts, f["hash_seed"]))
        table, oov = self.tables[f["name"]], f["vocabulary"]["oov"]
        known = tf.fill(tf.shape(texts), tf.constant(-1, tf.int64)) if table is None else table.lookup(texts)
        others = bucket(hash_texts(texts, 0), oov) if oov > 1 else tf.fill(tf.shape(texts), tf.constant(oov - 1, tf.int64))
        return tf.where(known >= 0, known + oov, others)

    def _ids_of_feature(self, name: str, columns: Mapping[str, Any], made: Dict[str, Ids]) -> Ids:
        if name not in made:
            feature = self.features[name]
            made[name] = self._cross_ids(feature, [self._ids_of_feature(other, columns, made).ids for other in feature["cross"]]) if feature.get("cross") else self._ids_of_own_columns(feature, columns)
        return made[name]

    def _ids_of_own_columns(self, feature: Mapping[str, Any], columns: Mapping[str, Any]) -> Ids:
        values, column = self._feature_values(feature, columns), self.weights_column(feature)
        weights = None if column is None else self._present_weights(feature, columns[column], columns)
        if feature["max_length"]:
            values = values[:, : feature["max_length"]]
            weights = None if weights is None else weights[:, : feature["max_length"]]
        weights = None if weights is None else _check_weights(feature, values, weights)
        ids = values.with_values(self._ids_of_values(feature, values))
        return Ids(ids, weights) if feature["hash_functions"] or feature["key"] else _drop_missing_ids(ids, weights)

    def _present_weights(self, feature: Mapping[str, Any], weights: Any, columns: Mapping[str, Any]) -> Any:
        """Those of the values that are there."""
        values, is_below = columns[feature["column"]], self._is_below_identity(feature, columns)
        if is_below is None:
            return weights if values.dtype == tf.int64 else self._drop_missing_values(weights)
        weights = _check_weights(feature, values, weights)
        return tf.ragged.boolean_mask(weights, weights.with_values(~is_below))

    @staticmethod
    def _cross_ids(feature: Mapping[str, Any], crossed: List[Any]) -> Ids:
        """Every combination of a row's ids; those of the first feature change first."""
        n = crossed[0].nrows()
        hashes = tf.RaggedTensor.from_row_lengths(tf.fill([n], tf.constant(feature["hash_seed"], tf.uint64)), tf.ones([n], tf.int64))
        for ids in crossed:
            before, lengths = hashes.row_lengths(), ids.row_lengths()
            places = tf.ragged.range(before * lengths)
            rows = places.value_rowids()
            inner = tf.gather(hashes.row_starts(), rows) + places.values % tf.gather(before, rows)
            outer = tf.gather(ids.row_starts(), rows) + places.values // tf.gather(before, rows)
            made = combine(tf.gather(hashes.values, inner), tf.bitcast(tf.gather(ids.values, outer), tf.uint64))
            hashes = places.with_values(made)
        return Ids(hashes.with_values(_ids_of_hashes(feature, hashes.values)))

    def _dense_values(self, f: Mapping[str, Any], columns: Mapping[str, Any]) -> Any:
        """f32 [batch, width]"""
        name, width = f["name"], f["width"]
        numbers = _parse_numbers(self._drop_missing_values(columns[f["column"]]))
        lengths = numbers.row_lengths()
        whole = tf.debugging.Assert(tf.reduce_all((lengths == 0) | (lengths == width)), [f"feature '{name}': a row has not {width} numbers, but", lengths])
        with tf.control_dependencies([whole]):
            x = tf.cast(numbers.to_tensor(float("nan"), shape=[None, width]), tf.float64)
        is_missing = tf.math.is_nan(x)
        default = f.get("default_value")
        x = tf.where(is_missing, tf.constant(0 if default is None else float(default), tf.float64), x)
        if f["log1p"]:
            x = tf.sign(x) * tf.math.log1p(tf.abs(x))
        if f["normalize"]:
            x = (x - f["mean"]) / f["deviation"]
        if default is None:
            x = tf.where(is_missing, tf.constant(0, tf.float64), x)
        return tf.cast(x, tf.float32)

    def inputs(self, columns: Mapping[str, Any]) -> Dict[str, Any]:
        """What the exported model takes, from ragged columns [batch, values]."""
        out: Dict[str, Any] = {}
        made: Dict[str, Ids] = {}
        for name in self.wanted:
            ids, weights = _compose_ids(self.features[name], self._ids_of_feature(name, columns, made))
            out.update({f"{name}.ids": ids.values, f"{name}.offsets": ids.row_splits})
            if weights is not None:
                out[f"{name}.weights"] = weights.values
        if self.dense:
            out["dense"] = tf.concat([self._dense_values(f, columns) for f in self.dense], axis=1)
        return out
