"""A SavedModel: the graph of an ONNX export behind the transforms of the run, and its tables, written a part at a time."""

from __future__ import annotations

import glob
import json
import keyword
import os
import re
import tempfile
from ctypes import byref, c_void_p
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from .._library import check, lib, path_bytes, take_text
from ..errors import InvalidArgument
from . import _operators
from ._onnx import BF16, External, Graph
from ._transforms import HISTORY, Transforms

_TYPES = {1: tf.float32, 2: tf.uint8, 7: tf.int64, 10: tf.float16, BF16: tf.bfloat16}  # TensorProto.DataType

_FILES = ("user", "item", "embeddings", "model")  # of an ONNX export


def _read_external_rows(external: External, first: int, n: int) -> Any:
    rows = tf.constant(external.rows(first, n))
    return tf.bitcast(rows, tf.bfloat16) if external.data_type == BF16 else rows


def _load_transform_description(path: str) -> Any:
    transforms, text = c_void_p(), c_void_p()
    check(lib.rk_transforms_load(path_bytes(path), byref(transforms)))
    try:
        check(lib.rk_transforms_to_json(transforms, byref(text)))
    finally:
        lib.rk_transforms_free(transforms)
    return json.loads(take_text(text))


def _item_feature_of(config: str) -> Optional[str]:
    """The feature of a two_tower's items."""
    found = re.search(r"^  retrieval:\n(?:    .*\n)*?    item: (.*)$", config, re.M)
    return None if found is None else str(json.loads(found[1])) if found[1].startswith('"') else found[1]


class _GraphWithTransforms(tf.Module):
    """One graph behind its transforms."""

    def __init__(self, graph: Graph, transforms: Transforms, variables: Mapping[str, Any]) -> None:
        super().__init__()
        self.graph, self.transforms = graph, transforms
        self.variables_by_name = dict(variables)
        self.lookup_tables = [table for table in transforms.tables.values() if table is not None]

    def of_columns(self, columns: Mapping[str, Any]) -> Dict[str, Any]:
        """columns: ragged [batch, values]"""
        return _operators.run(self.graph, self.transforms.inputs(columns), self.variables_by_name)


def _to_ragged(values: Any) -> Any:
    """[batch] or [batch, n]"""
    batch = tf.shape(values)[0]
    return tf.RaggedTensor.from_tensor(tf.reshape(values, [batch, tf.size(values) // tf.maximum(batch, 1)]))


def _argument_names(columns: Iterable[str]) -> Dict[str, str]:
    """Those of a function's arguments, by the columns' names, which may be any text."""
    out: Dict[str, str] = {}
    for column in columns:
        name = re.sub(r"\W", "_", column, flags=re.ASCII)
        name = f"_{name}" if name[:1].isdigit() else f"{name}_" if keyword.iskeyword(name) or name == "self" else name
        if name in out.values():
            other = next(key for key, value in out.items() if value == name)
            raise InvalidArgument(f"the columns '{other}' and '{column}' would both be the argument '{name}'", "give one of them another name in the run file")
        out[column] = name
    return out


def _empty(name: str, external: External) -> Any:
    width = external.shape[1:]
    return tf.Variable(tf.zeros([0, *width], _TYPES[external.data_type]), trainable=False, shape=[None, *width], name=name)


class _ServingModule(tf.Module):
    def __init__(self, graphs: Mapping[str, Graph], transforms: Mapping[str, Transforms]) -> None:
        super().__init__()
        externals = {name: external for graph in graphs.values() for name, external in graph.externals.items()}
        self.row_names = sorted(name for name in externals if name.startswith("embeddings."))
        # Rows, and keys of rows. Empty here: they are put into the checkpoint afterwards, part by part.
        self.rows = [_empty(n, externals[n]) for n in self.row_names]
        dense = {n: tf.Variable(_read_external_rows(x, 0, x.shape[0]), trainable=False, name=n) for n, x in externals.items() if n not in self.row_names}
        self.dense = list(dense.values())
        self.variables_by_name = {**dense, **dict(zip(self.row_names, self.rows))}
        self.parts = {name: _GraphWithTransforms(graph, transforms[name], self.variables_by_name) for name, graph in graphs.items()}

    def signatures(self) -> Dict[str, Any]:
        out: Dict[str, Any] = {}
        if list(self.parts) == ["user", "item"]:
            self._add_signature(out, list(self.parts), "serving_default", "columns", self._score_columns)
            for name in self.parts:
                self._add_signature(out, [name], f"{name}_vector", f"{name}_vector_columns", self.parts[name].of_columns)
        else:
            (name,) = self.parts
            self._add_signature(out, [name], "serving_default", "columns", self.parts[name].of_columns)
        return out

    def _score_columns(self, columns: Mapping[str, Any]) -> Dict[str, Any]:
        vectors = {name: value for part in self.parts.values() for name, value in part.of_columns(columns).items()}
        return {**vectors, "score": tf.reduce_sum(vectors["user_vector"] * vectors["item_vector"], axis=1)}

    def _add_signature(self, out: Dict[str, Any], parts: List[str], of_examples: str, of_columns: str, function: Callable[[Any], Any]) -> None:
        types = {column: kind for name in parts for column, kind in self.parts[name].transforms.types.items()}
        spec = {column: tf.RaggedTensorSpec([None, None], kind, 1, tf.int64) for column, kind in types.items()}
        run = tf.function(function, input_signature=[spec], autograph=False)  # one function of the graph, which both call

        def by_example(examples: Any) -> Any:
            features = {column: tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64) for column, kind in types.items()}
            return run(tf.io.parse_example(examples, features))

        names = _argument_names(types)

        def by_columns(**arguments: Any) -> Any:
            return run({column: _to_ragged(arguments[name]) for column, name in names.items()})

        out[of_examples] = tf.function(by_example, autograph=False).get_concrete_function(tf.TensorSpec([None], tf.string, name="examples"))
        out[of_columns] = tf.function(by_columns, autograph=False).get_concrete_function(**{name: tf.TensorSpec(None, types[column], name=name) for column, name in names.items()})


def _write_variables(prefix: str, parts: str, externals: Mapping[str, External], part_bytes: int) -> None:
    """Puts rows (by the names of their variables in the checkpoint at prefix) in the place of the empty ones that are there."""
    reader = tf.train.load_checkpoint(prefix)
    others = {name: tf.constant(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map() if name not in externals}
    prefixes: List[str] = []

    def save(names: List[str], slices: List[str], tensors: List[Any]) -> None:
        prefixes.append(os.path.join(parts, f"{len(prefixes)}", "variables"))
        os.makedirs(os.path.dirname(prefixes[-1]))
        tf.raw_ops.SaveV2(prefix=prefixes[-1], tensor_names=names, shape_and_slices=slices, tensors=tensors)

    save(list(others), [""] * len(others), list(others.values()))
    for name, external in externals.items():
        n_rows, shape = external.shape[0], " ".join(map(str, external.shape))
        step = max(1, part_bytes // external.row_bytes)
        for first in range(0, n_rows, step):
            n = min(step, n_rows - first)
            save([name], ["" if n == n_rows else f"{shape} {first},{n}" + ":-" * (len(external.shape) - 1)], [_read_external_rows(external, first, n)])
    for path in glob.glob(f"{glob.escape(prefix)}.*"):
        os.remove(path)
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=prefixes, destination_prefix=prefix, delete_old_dirs=True)


def _write_saved_model(directory: str, module: _ServingModule, externals: Mapping[str, External], part_bytes: int) -> str:
    saved = os.path.join(directory, "saved_model")
    tf.saved_model.save(module, saved, signatures=module.signatures())
    keys = {f"rows/{i}/.ATTRIBUTES/VARIABLE_VALUE": externals[name] for i, name in enumerate(module.row_names)}
    _write_variables(os.path.join(saved, "variables", "variables"), os.path.join(directory, "parts"), keys, part_bytes)
    fingerprint = os.path.join(saved, "fingerprint.pb")  # of the checkpoint that was there
    if os.path.exists(fingerprint):
        os.remove(fingerprint)
    return saved


def read(model: Any, onnx: str, integer_columns: Sequence[str]) -> Tuple[Dict[str, Graph], Dict[str, Transforms]]:
    """The graphs of an ONNX export of the model, and what makes their inputs."""
    graphs = {name: Graph(os.path.join(onnx, f"{name}.onnx")) for name in _FILES if os.path.exists(os.path.join(onnx, f"{name}.onnx"))}
    description, transforms = _load_transform_description(model.path), {}
    for name, graph in graphs.items():
        _operators.check(graph)
        wanted = list(graph.features())
        item = _item_feature_of(model.config) if HISTORY in wanted else None
        transforms[name] = Transforms(description, onnx, wanted, "dense" in graph.inputs, integer_columns, item)
    texts = sorted({column for t in transforms.values() for column in t.text_columns})
    unknown = [column for column in integer_columns if column not in texts]
    if unknown:
        raise InvalidArgument(f"integer_columns: '{unknown[0]}' is no column of texts", f"these are {', '.join(texts) or 'none'}")
    return graphs, transforms


def export(model: Any, path: str, tables: Optional[Sequence[str]], rows: str, integer_columns: Sequence[str], part_bytes: int) -> None:
    """Model.export_saved_model."""
    if os.path.exists(path) and not (os.path.isdir(path) and not os.listdir(path)):
        raise InvalidArgument(f"the directory '{path}' is not empty", "export to a new one")
    if part_bytes < 1:
        raise InvalidArgument(f"part_bytes is {part_bytes}", "give the bytes of rows that are in memory at a time")
    parent, name = os.path.split(os.path.abspath(path))
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=parent) as beside:
        onnx = os.path.join(beside, "onnx")
        model.export("onnx", onnx, tables=tables, rows=rows)
        graphs, transforms = read(model, onnx, integer_columns)
        module = _ServingModule(graphs, transforms)
        externals = {n: x for graph in graphs.values() for n, x in graph.externals.items()}
        os.rename(_write_saved_model(beside, module, externals, part_bytes), path)
