"""The operators of our ONNX models, as TensorFlow's."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Mapping

import tensorflow as tf

from ..errors import Unsupported
from ._onnx import Graph

_TYPES = {1: tf.float32, 2: tf.uint8, 6: tf.int32, 7: tf.int64, 10: tf.float16, 11: tf.float64, 13: tf.uint64, 16: tf.bfloat16}  # TensorProto.DataType


def _reshape(x: Any, shape: Any) -> Any:
    now = tf.shape(x, out_type=tf.int64)
    return tf.reshape(x, [now[i] if n == 0 else n for i, n in enumerate(shape.tolist())])


def _slice(x: Any, begins: Any, ends: Any, axes: Any) -> Any:
    parts = [slice(None)] * len(x.shape)
    for begin, end, axis in zip(begins.tolist(), ends.tolist(), axes.tolist()):
        parts[axis] = slice(begin, None if end == (1 << 63) - 1 else end)
    return x[tuple(parts)]


def _layer_norm(x: Any, scale: Any, *, axis: int, epsilon: float) -> Any:
    centred = x - tf.reduce_mean(x, axis, keepdims=True)
    return centred / tf.sqrt(tf.reduce_mean(centred * centred, axis, keepdims=True) + epsilon) * scale


# Attributes come by their names; operands of axes and shapes are numpy arrays, as our models have them as constants.
OPERATORS: Mapping[str, Callable[..., Any]] = {
    "Abs": tf.abs,
    "Add": tf.add,
    "And": tf.logical_and,
    "BitShift": lambda x, n, *, direction: tf.bitwise.right_shift(x, n),  # "RIGHT"
    "BitwiseAnd": tf.bitwise.bitwise_and,
    "BitwiseXor": tf.bitwise.bitwise_xor,
    "Cast": lambda x, *, to: tf.cast(x, _TYPES[to]),
    "Compress": lambda x, which, *, axis: tf.boolean_mask(x, which, axis=axis),
    "Concat": lambda *xs, axis: tf.concat(xs, axis),
    "CumSum": lambda x, axis, *, exclusive: tf.cumsum(x, int(axis), exclusive=bool(exclusive)),
    "Div": tf.divide,
    "Equal": tf.equal,
    "Erf": tf.math.erf,
    "Exp": tf.exp,
    "Expand": lambda x, shape: tf.broadcast_to(x, tf.broadcast_dynamic_shape(tf.shape(x, out_type=tf.int64), shape)),
    "Floor": tf.floor,
    "Gather": lambda x, at, *, axis: tf.gather(x, at, axis=axis),
    "Greater": tf.greater,
    "GreaterOrEqual": tf.greater_equal,
    "Identity": tf.identity,
    "LayerNormalization": _layer_norm,
    "Less": tf.less,
    "LessOrEqual": tf.less_equal,
    "Log": tf.math.log,
    "MatMul": tf.matmul,
    "Max": lambda *xs: functools.reduce(tf.maximum, xs),
    "Min": lambda *xs: functools.reduce(tf.minimum, xs),
    "Mul": tf.multiply,
    "Neg": tf.negative,
    "ReduceSum": lambda x, axes, *, keepdims: tf.reduce_sum(x, axes.tolist(), keepdims=bool(keepdims)),
    "Relu": tf.nn.relu,
    "Reshape": _reshape,
    "Shape": lambda x: tf.shape(x, out_type=tf.int64),
    "Sigmoid": tf.sigmoid,
    "Softmax": lambda x, *, axis: tf.nn.softmax(x, axis),
    "Slice": _slice,
    "Sqrt": tf.sqrt,
    "Squeeze": lambda x, axes: tf.squeeze(x, axes.tolist()),
    "Sub": tf.subtract,
    "Tanh": tf.tanh,
    "Transpose": lambda x, *, perm: tf.transpose(x, perm),
    "Unsqueeze": lambda x, axes: tf.expand_dims(x, int(axes[0])),
    "Where": tf.where,
}


def check(graph: Graph) -> None:
    for node in graph.nodes:
        if node.op not in OPERATORS:
            raise Unsupported(f"the model's operator {node.op} is not known in TensorFlow", 'export("onnx", path) has it')


def run(graph: Graph, inputs: Mapping[str, Any], variables: Mapping[str, Any]) -> Dict[str, Any]:
    """The outputs, as nodes of the TensorFlow graph that is being made."""
    values: Dict[str, Any] = {**graph.constants, **{name: variables[name] for name in graph.externals}, **inputs}
    for node in graph.nodes:
        values[node.output] = OPERATORS[node.op](*(values[name] for name in node.inputs), **node.attributes)
    return {name: values[name] for name in graph.outputs}
