#!/usr/bin/env python3
"""A small ONNX model written by the onnx package, to the byte what tests/export/test_onnx.c writes: beside this script, writer.onnx.

    python3 tests/golden/make_onnx.py

It has one of everything that the writer can write; producer_version, which each release changes, is left out.
"""
from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

external = TensorProto(name="embeddings.item.weight", dims=[40000000000, 3], data_type=TensorProto.FLOAT16, data_location=TensorProto.EXTERNAL)
for key, value in ("location", "model-00002-of-00003.safetensors"), ("offset", "5000000008"), ("length", "240000000000"):
    external.external_data.add(key=key, value=value)
int64 = TensorProto.INT64
graph = helper.make_graph(
    [
        helper.make_node("Gather", ["embeddings.item.weight", "item.ids"], ["/item/Gather_2"], "/item/Gather_2", axis=0),
        helper.make_node("Cast", ["/item/Gather_2"], ["/item/Cast_3"], "/item/Cast_3", to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["/item/Cast_3", "//ints:0:-1"], ["/item/Reshape_5"], "/item/Reshape_5"),
        helper.make_node("Mul", ["/item/Reshape_5", "/item/floats_6"], ["/item/Mul_7"], "/item/Mul_7"),
        helper.make_node("Transpose", ["/item/Mul_7"], ["/item/Transpose_8"], "/item/Transpose_8", perm=[1, 0]),
        helper.make_node("LayerNormalization", ["/item/Transpose_8"], ["/item/LayerNormalization_9"], "/item/LayerNormalization_9", axis=-1, epsilon=1e-5),
        helper.make_node("Identity", ["/item/LayerNormalization_9"], ["clicked"], "clicked"),
    ],
    "two words",
    [helper.make_tensor_value_info("item.ids", int64, ["item ids"])],
    [helper.make_tensor_value_info("clicked", TensorProto.FLOAT, ["batch", 3])],
    [
        external,
        numpy_helper.from_array(np.array([0, -1], np.int64), "//ints:0:-1"),
        numpy_helper.from_array(np.array([0.5, -2], np.float32), "/item/floats_6"),
        numpy_helper.from_array(np.array(7, np.int64), "//int:7"),
        numpy_helper.from_array(np.array(0.1), "/item/double_12"),
    ],
)
model = helper.make_model(graph, producer_name="reckon", ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
model.graph.node[5].input.append("/item/floats_6")
Path(__file__).with_name("writer.onnx").write_bytes(model.SerializeToString(deterministic=True))
