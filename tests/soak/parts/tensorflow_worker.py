"""Exports and runs SavedModels for saved_models.py, in an environment that has TensorFlow: a JSON object a line, and as many answers.

    {"run": PATH, "to": PATH, "rows": "trained", "columns": {name: [[text, ...], ...]}}      {"signatures": {name: {output: [number, ...]}}}, or {"error": text}
"""

import json
import os
import sys

import numpy as np

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import tensorflow as tf

import reckon

NONE = {tf.int64: -(1 << 40), tf.string: b"", tf.float32: np.nan}
OF_TEXT = {tf.int64: int, tf.float32: float, tf.string: str.encode}


def feature(values, kind):
    lists = {
        tf.int64: lambda: {"int64_list": tf.train.Int64List(value=values)},
        tf.float32: lambda: {"float_list": tf.train.FloatList(value=values)},
        tf.string: lambda: {"bytes_list": tf.train.BytesList(value=values)},
    }
    return tf.train.Feature(**lists[kind]())


def examples(columns, types):
    n = len(next(iter(columns.values())))
    out = []
    for row in range(n):
        own = {name: feature(rows[row], types[name]) for name, rows in columns.items() if rows[row]}
        out.append(tf.train.Example(features=tf.train.Features(feature=own)).SerializeToString())
    return tf.constant(out, tf.string)


def padded(rows, kind):
    most = max(map(len, rows))
    return tf.constant([[*row, *[NONE[kind]] * (most - len(row))] for row in rows], kind, shape=[len(rows), most])


def answer(asked):
    with reckon.load(asked["run"]) as model:
        model.export_saved_model(asked["to"], rows=asked["rows"])
    signatures, out = tf.saved_model.load(asked["to"]).signatures, {}
    types = {name: spec.dtype for name, spec in signatures["columns"].structured_input_signature[1].items()}
    columns = {name: [[OF_TEXT[kind](text) for text in texts] for texts in asked["columns"][name]] for name, kind in types.items()}
    given = {"serving_default": {"examples": examples(columns, types)}, "columns": {name: padded(rows, types[name]) for name, rows in columns.items()}}
    for name, inputs in given.items():
        out[name] = {key: value.numpy().tolist() for key, value in signatures[name](**inputs).items()}
    return {"signatures": out}


def main():
    for line in sys.stdin:
        try:
            told = answer(json.loads(line))
        except Exception as error:  # whatever TensorFlow or an export raises is the case's failure
            told = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(told), flush=True)
        tf.keras.backend.clear_session()


if __name__ == "__main__":
    main()
