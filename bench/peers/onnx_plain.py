"""ONNX Runtime's best form of an export with padded bags, for samples that all have as many ids as the bag is wide: without the masks of missing ids, and of one-hot features a plain Gather.

    onnx_plain.py EXPORT FEATURE=WIDTH...      writes EXPORT/plain.onnx, beside the tensors that it names
"""
import sys
from pathlib import Path

import onnx


def plain(graph, widths):
    """Takes out what treats ids that are missing. A tensor that an operation only handed on is named by what it was."""
    masked = {f"{name}.ids" for name in widths}
    one_hot = {f"/{name}/" for name, width in widths.items() if width == 1}
    instead, masks = {}, set()
    for node in graph.node:
        inputs = [instead.get(name, name) for name in node.input]
        if node.op_type == "Where" and inputs[1] in masked:
            instead[node.output[0]] = inputs[1]
        elif node.op_type == "Unsqueeze" and node.output[0].startswith(tuple(f"/{name}/" for name in widths)):
            masks.add(node.output[0])
        elif node.op_type == "Mul" and inputs[1] in masks:
            instead[node.output[0]] = inputs[0]
        elif node.op_type == "ReduceSum" and node.output[0].startswith(tuple(one_hot)):
            instead[node.output[0]] = inputs[0]
        node.input[:] = inputs
    drop_unused(graph)
    for value in graph.input:
        if value.name.endswith(".ids") and widths[value.name[:-4]] == 1:
            del value.type.tensor_type.shape.dim[1]


def drop_unused(graph):
    """Operations and constants that nothing reads."""
    used, kept = {value.name for value in graph.output}, []
    for node in reversed(graph.node):
        if used.intersection(node.output):
            used.update(node.input)
            kept.append(node)
    tensors = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(reversed(kept))
    graph.initializer.extend(tensors)


def main():
    export = Path(sys.argv[1])
    widths = {name: int(width) for name, width in (word.split("=") for word in sys.argv[2:])}
    model = onnx.load(export / "model.onnx", load_external_data=False)
    plain(model.graph, widths)
    onnx.save(model, export / "plain.onnx")
    onnx.checker.check_model(export / "plain.onnx")
    print(f'{{"nodes": {len(model.graph.node)}}}')


main()
