"""W1 by TensorFlow. --config: sparse = embedding_lookup_sparse, fast = the same with allow_fast_lookup, gather = embedding_lookup and a sum
over the ids, which a fixed number of ids a sample permits. Rowwise Adagrad by hand over IndexedSlices of distinct rows."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

from common import Workload, arguments, finish, sums, timed

args = arguments()
tf.config.threading.set_intra_op_parallelism_threads(args.threads)
tf.config.threading.set_inter_op_parallelism_threads(args.threads)
w = Workload(args.directory)

tables = [tf.Variable(tf.fill([f.rows, f.dim], 0.01)) for f in w.features]
accumulators = [tf.Variable(tf.zeros([f.rows])) for f in w.features]
gradients = [tf.constant(g) for g in w.gradients()]


def inputs(f, b):
    if args.config == "gather":
        return tf.constant(f.ids[b])
    positions = np.stack([np.repeat(np.arange(w.n), f.hotness), np.tile(np.arange(f.hotness), w.n)], axis=1)
    return tf.SparseTensor(positions, f.ids[b].ravel(), (w.n, f.hotness))


def lookup(table, f, ids):
    if args.config == "gather":
        rows = tf.nn.embedding_lookup(table, ids)
        return tf.reshape(rows, [w.n, f.dim]) if f.hotness == 1 else tf.reduce_sum(rows, 1)
    return tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum", allow_fast_lookup=args.config == "fast")


@tf.function
def forward(batch):
    return [lookup(table, f, ids) for table, f, ids in zip(tables, w.features, batch)]


@tf.function
def train(batch):
    with tf.GradientTape() as tape:
        outputs = [lookup(table, f, ids) for table, f, ids in zip(tables, w.features, batch)]
    slices = tape.gradient(outputs, tables, output_gradients=gradients)
    for table, accumulator, s in zip(tables, accumulators, slices):
        rows, values = s.indices, s.values
        if args.config != "sparse":  # which has made them distinct itself
            rows, places = tf.unique(rows)
            values = tf.math.unsorted_segment_sum(values, places, tf.size(rows))
        accumulator.scatter_add(tf.IndexedSlices(tf.reduce_mean(tf.square(values), 1), rows))
        scale = w.rate / (tf.sqrt(tf.gather(accumulator, rows)) + w.epsilon)
        table.scatter_sub(tf.IndexedSlices(values * scale[:, None], rows))


batches = [[inputs(f, b) for f in w.features] for b in range(w.n_batches)]
result = {}
for mode, step in ("forward", forward), ("train", train):
    result[mode] = timed(lambda i: step(batches[i % w.n_batches]), args.steps) | sums([o.numpy() for o in forward(batches[0])])
finish(result, args.threads, tf)
