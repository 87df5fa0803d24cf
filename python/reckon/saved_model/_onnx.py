"""What `reckon export --format onnx` writes, read with TensorFlow's own protobuf: the few messages of ONNX that it has."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import numpy
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPES = {"string": 9, "bytes": 12, "int64": 3, "int32": 5, "float": 2}
_MESSAGES: Dict[str, List[Tuple[str, int, str]]] = {  # name: fields with number and type; "*": repeated
    "Model": [("graph", 7, "Graph")],
    "Graph": [("node", 1, "Node*"), ("initializer", 5, "Tensor*"), ("input", 11, "Value*"), ("output", 12, "Value*")],
    "Node": [("input", 1, "string*"), ("output", 2, "string*"), ("op_type", 4, "string"), ("attribute", 5, "Attribute*")],
    "Attribute": [("name", 1, "string"), ("f", 2, "float"), ("i", 3, "int64"), ("s", 4, "string"), ("ints", 8, "int64*"), ("type", 20, "int32")],
    "Tensor": [("dims", 1, "int64*"), ("data_type", 2, "int32"), ("name", 8, "string"), ("raw_data", 9, "bytes"), ("external_data", 13, "Entry*")],
    "Entry": [("key", 1, "string"), ("value", 2, "string")],
    "Value": [("name", 1, "string")],
}
_FLOAT, _INT, _STRING, _INTS = 1, 2, 3, 7  # AttributeProto.AttributeType
_DTYPES = {1: numpy.float32, 2: numpy.uint8, 7: numpy.int64, 10: numpy.float16, 11: numpy.float64, 13: numpy.uint64, 16: numpy.uint16}  # TensorProto.DataType
BF16 = 16


def _define_model_message() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="reckon/onnx.proto", package="reckon.onnx", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            entry = message.field.add(name=field, number=number, label=3 if kind.endswith("*") else 1)
            kind = kind.rstrip("*")
            entry.type = _TYPES.get(kind, 11)
            if kind not in _TYPES:
                entry.type_name = f".reckon.onnx.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("reckon.onnx.Model"))


_Model = _define_model_message()


class External(NamedTuple):
    """A tensor in a file beside the model."""

    name: str
    data_type: int
    shape: Tuple[int, ...]
    path: str
    offset: int

    def rows(self, first: int, n: int) -> Any:
        """Rows first .. first+n-1 as they stand there (bfloat16 as uint16)."""
        dtype = numpy.dtype(_DTYPES[self.data_type])
        width = int(numpy.prod(self.shape[1:]))
        values = numpy.fromfile(self.path, dtype, n * width, offset=self.offset + first * width * dtype.itemsize)
        return values.reshape(n, *self.shape[1:])

    @property
    def row_bytes(self) -> int:
        return int(numpy.prod(self.shape[1:])) * numpy.dtype(_DTYPES[self.data_type]).itemsize


class Node(NamedTuple):
    op: str
    inputs: List[str]
    output: str
    attributes: Dict[str, Any]


def _attribute_value(a: Any) -> Any:
    return {_FLOAT: a.f, _INT: a.i, _STRING: a.s, _INTS: list(a.ints)}.get(a.type)


class Graph:
    """inputs, outputs: names; constants: small tensors; externals: those in files; nodes in their order."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            graph = _Model.FromString(file.read()).graph
        self.inputs = [value.name for value in graph.input]
        self.outputs = [value.name for value in graph.output]
        self.nodes = [Node(n.op_type, list(n.input), n.output[0], {a.name: _attribute_value(a) for a in n.attribute}) for n in graph.node]
        self.constants: Dict[str, Any] = {}
        self.externals: Dict[str, External] = {}
        for tensor in graph.initializer:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            if entries:
                place = os.path.join(os.path.dirname(path), entries["location"])
                self.externals[tensor.name] = External(tensor.name, tensor.data_type, tuple(tensor.dims), place, int(entries["offset"]))
            else:
                self.constants[tensor.name] = numpy.frombuffer(tensor.raw_data, _DTYPES[tensor.data_type]).reshape(tuple(tensor.dims))

    def features(self) -> Iterator[str]:
        """Those whose ids are inputs."""
        for name in self.inputs:
            if name.endswith(".ids"):
                yield name[: -len(".ids")]
