"""W2 and W3 by TensorFlow: Wide & Deep, or an MLP over the embeddings, in one tf.function a step.

--config gather: embedding_lookup, and a sum or mean over the ids, which a fixed number of ids a sample permits; sparse: embedding_lookup_sparse for
features of several ids; a hashed case's ids go through to_hash_bucket_fast(as_string) first. With "xla" the dense part is compiled by XLA. --dtype bf16: the hidden layers' products in bf16, weights in f32."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

from common import Workload, arguments, finish, timed

args = arguments()
tf.config.threading.set_intra_op_parallelism_threads(args.threads)
tf.config.threading.set_inter_op_parallelism_threads(args.threads)
w = Workload(args.directory)
model, combiner = w.case["model"], w.case["combiner"]
assert model["kind"] in ("wide_deep", "dnn")
wide = model["kind"] == "wide_deep"
compute = tf.bfloat16 if args.dtype == "bf16" else tf.float32

deep_tables = [tf.Variable(tf.fill([f.rows, f.dim], 0.01)) for f in w.features]
wide_tables = [tf.Variable(tf.zeros([f.rows, 1])) for f in w.features] if wide else []
layers = [[tf.Variable(weight), tf.Variable(bias)] for weight, bias in w.layers("deep") + [w.layer("logits")]]
parameters = [p for layer in layers for p in layer]
adagrad = w.case["optimizer"] == "adagrad"
accumulators = {v.ref(): tf.Variable(tf.zeros(v.shape)) for v in deep_tables + parameters} if adagrad else {}


def inputs(f, b):
    if "gather" in args.config or f.hotness == 1:
        return tf.constant(f.ids[b])
    positions = np.stack([np.repeat(np.arange(w.n), f.hotness), np.tile(np.arange(f.hotness), w.n)], axis=1)
    return tf.SparseTensor(positions, f.ids[b].ravel(), (w.n, f.hotness))


def hashed(f, ids):
    """Ids to rows, in the usual way."""
    to_rows = lambda v: tf.strings.to_hash_bucket_fast(tf.strings.as_string(v), f.rows)
    return ids.with_values(to_rows(ids.values)) if isinstance(ids, tf.SparseTensor) else to_rows(ids)


def lookup(table, f, ids, combine):
    if isinstance(ids, tf.SparseTensor):
        return tf.nn.embedding_lookup_sparse(table, ids, None, combiner=combine)
    rows = tf.nn.embedding_lookup(table, ids)
    if f.hotness == 1:
        return tf.reshape(rows, [w.n, table.shape[1]])
    return tf.reduce_sum(rows, 1) if combine == "sum" else tf.reduce_mean(rows, 1)


def dense_part(vectors, numbers, linear, labels, weights):
    x = tf.concat(vectors + [numbers], 1)
    for weight, bias in weights[:-1]:
        x = tf.nn.relu(tf.matmul(tf.cast(x, compute), tf.cast(weight, compute)) + tf.cast(bias, compute))
    logits = tf.squeeze(tf.matmul(tf.cast(x, tf.float32), weights[-1][0]) + weights[-1][1], 1)
    if linear:
        logits += tf.squeeze(tf.add_n(linear), 1)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def dense_step(vectors, numbers, linear, labels, weights):
    """The loss and its gradients by the dense part's inputs and weights."""
    with tf.GradientTape() as tape:
        tape.watch([vectors, linear, weights])
        loss = dense_part(vectors, numbers, linear, labels, weights)
    return loss, tape.gradient(loss, [vectors, linear, weights])


if "xla" in args.config:
    dense_step = tf.function(dense_step, jit_compile=True)


def update_rows(table, gradient):
    if not adagrad:
        table.scatter_sub(tf.IndexedSlices(w.rate * gradient.values, gradient.indices))
        return
    rows, places = tf.unique(tf.reshape(gradient.indices, [-1]))
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    tf.raw_ops.ResourceSparseApplyAdagradV2(var=table.handle, accum=accumulators[table.ref()].handle, lr=w.rate, epsilon=w.epsilon, grad=values, indices=rows)


def update_dense(parameter, gradient):
    if not adagrad:
        parameter.assign_sub(w.rate * gradient)
        return
    tf.raw_ops.ResourceApplyAdagradV2(var=parameter.handle, accum=accumulators[parameter.ref()].handle, lr=w.rate, epsilon=w.epsilon, grad=gradient)


@tf.function
def train(ids, numbers, labels):
    if w.case["hashed"]:
        ids = [hashed(f, v) for f, v in zip(w.features, ids)]
    with tf.GradientTape() as tape:
        vectors = [lookup(table, f, v, combiner) for table, f, v in zip(deep_tables, w.features, ids)]
        linear = [lookup(table, f, v, "sum") for table, f, v in zip(wide_tables, w.features, ids)]
    loss, (by_vectors, by_linear, by_weights) = dense_step(vectors, numbers, linear, labels, [[tf.convert_to_tensor(p) for p in layer] for layer in layers])
    tables = deep_tables + wide_tables
    for table, gradient in zip(tables, tape.gradient(vectors + linear, tables, output_gradients=by_vectors + by_linear)):
        update_rows(table, gradient)
    for layer, gradients in zip(layers, by_weights):
        for parameter, gradient in zip(layer, gradients):
            update_dense(parameter, gradient)
    return loss


batches = [([inputs(f, b) for f in w.features], tf.constant(w.dense[b]), tf.constant(w.labels[b])) for b in range(w.n_batches)]
losses = []
finish({"train": timed(lambda i: losses.append(float(train(*batches[i % w.n_batches]))), args.steps) | {"losses": losses}}, args.threads, tf)
