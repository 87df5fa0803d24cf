"""Runs SavedModels in a process without Reckon: for tests/python/saved_models.

    run_saved_model.py ASKED.json       a list of {"path", "columns": {name: [[values of a row], ...]}, "types": {name: "int64"|"string"|"float32"}, "out"}

Each signature over examples and its twin over columns give an .npz of their outputs: OUT.SIGNATURE.npz.
"""
import json
import sys

import numpy as np
import tensorflow as tf

NONE = {"int64": -(1 << 40), "string": b"", "float32": np.nan}


def example(columns, types, row):
    features = {}
    for name, rows in columns.items():
        values = rows[row]
        features[name] = tf.train.Feature(
            int64_list=tf.train.Int64List(value=values) if types[name] == "int64" else None,
            float_list=tf.train.FloatList(value=values) if types[name] == "float32" else None,
            bytes_list=tf.train.BytesList(value=[v.encode() for v in values]) if types[name] == "string" else None,
        )
        if not values:
            del features[name]
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def padded(rows, kind):
    most = max(map(len, rows), default=0)
    flat = [[v.encode() if isinstance(v, str) else v for v in row] + [NONE[kind]] * (most - len(row)) for row in rows]
    if kind == "string":
        return tf.constant(flat, tf.string, shape=[len(rows), most])
    return tf.constant(np.array(flat).reshape(len(rows), most).astype(kind))


def run_session(path, examples):
    """serving_default as a session gives it, which restores and initializes as TensorFlow Serving does."""
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        outputs = {key: tensor.name for key, tensor in signature.outputs.items()}
        return session.run(outputs, {signature.inputs["examples"].name: examples.numpy()})


def main():
    assert not any(name.split(".")[0] == "reckon" for name in sys.modules)
    with open(sys.argv[1]) as file:
        asked = json.load(file)
    for ask in asked:
        loaded = tf.saved_model.load(ask["path"])
        columns, types = ask["columns"], ask["types"]
        n = len(next(iter(columns.values())))
        examples = tf.constant([example(columns, types, row) for row in range(n)], tf.string, shape=[n])
        for name, signature in loaded.signatures.items():
            if name.endswith("columns"):
                wanted = signature.structured_input_signature[1]
                out = signature(**{column: padded(columns[column], types[column]) for column in wanted})
            else:
                out = signature(examples=examples)
            if name == "serving_default":
                for key, value in run_session(ask["path"], examples).items():
                    np.testing.assert_allclose(value, out[key].numpy(), rtol=0, atol=1e-6)
            np.savez(f"{ask['out']}.{name}.npz", **{key.replace("/", "|"): value.numpy() for key, value in out.items()})


if __name__ == "__main__":
    main()
