"""W5 by tf.data: FILE to batches of dense tensors. --config: examples = a TFRecord of one Example a row, batched before parse_example; batches = a
TFRecord of one Example a batch; lines = CSV by decode_csv. Parsing in parallel and prefetching, both by AUTOTUNE."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf

from reading import arguments, finish

args = arguments()
tf.config.threading.set_intra_op_parallelism_threads(args.threads)
tf.config.threading.set_inter_op_parallelism_threads(args.threads)


def features(n):
    """Of one Example that holds n rows."""
    return {"label": tf.io.FixedLenFeature([n], tf.int64)} | {name: tf.io.FixedLenFeature([n], tf.float32) for name in args.numbers} | {
        c.name: tf.io.FixedLenFeature([n * c.hotness], tf.int64) for c in args.columns}


def assemble(parsed):
    """Labels [n], numbers [n, n_dense], ids [n, hotness] a feature."""
    label = tf.reshape(tf.cast(parsed["label"], tf.float32), [-1])
    numbers = tf.stack([tf.reshape(parsed[name], [-1]) for name in args.numbers], 1)
    return label, numbers, tuple(tf.reshape(parsed[c.name], [-1, c.hotness]) for c in args.columns)


def parse_lines(lines):
    defaults = [0] + [0.0] * args.n_dense + [tf.constant([], tf.int64) if c.hotness == 1 else tf.constant([], tf.string) for c in args.columns]
    values = tf.io.decode_csv(lines, defaults)
    parsed = {"label": values[0]} | dict(zip(args.numbers, values[1:]))
    for c, value in zip(args.columns, values[1 + args.n_dense:]):
        parsed[c.name] = value if c.hotness == 1 else tf.strings.to_number(tf.strings.split(value, "|").flat_values, tf.int64)
    return assemble(parsed)


@tf.function
def sums(label, numbers, ids):
    return tf.size(label), tf.add_n([tf.reduce_sum(v) for v in ids]), tf.reduce_sum(tf.cast(numbers, tf.float64)) + tf.reduce_sum(tf.cast(label, tf.float64))


def dataset():
    if args.config == "lines":
        return tf.data.TextLineDataset(str(args.file), buffer_size=8 << 20).skip(1).batch(args.batch).map(parse_lines, tf.data.AUTOTUNE)
    records = tf.data.TFRecordDataset(str(args.file), buffer_size=8 << 20)
    if args.config == "examples":
        return records.batch(args.batch).map(lambda r: assemble(tf.io.parse_example(r, features(1))), tf.data.AUTOTUNE)
    return records.map(lambda r: assemble(tf.io.parse_single_example(r, features(args.batch))), tf.data.AUTOTUNE)


options = tf.data.Options()
options.threading.private_threadpool_size = args.threads
batches = dataset().prefetch(tf.data.AUTOTUNE).with_options(options)
finish(args, ((int(n), int(i), float(x)) for n, i, x in (sums(*batch) for batch in batches)), tf)
