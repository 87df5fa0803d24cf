"""W5 by pyarrow: FILE to batches of numpy arrays. --config: stream = one batch after another (Parquet: iter_batches; CSV: open_csv), scan = the
dataset scanner, which reads ahead, whole = CSV by read_csv at once."""
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

from reading import arguments, finish

args = arguments()
pa.set_cpu_count(args.threads)
csv = args.file.suffix == ".csv"
types = {"label": pa.int64()} | {name: pa.float32() for name in args.numbers} | {c.name: pa.int64() if c.hotness == 1 else pa.string() for c in args.columns}


def flat(column):
    """A column of one chunk as a numpy array of all its values."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_string(array.type):
        array = pc.cast(pc.split_pattern(array, "|").flatten(), pa.int64())
    elif pa.types.is_list(array.type):
        array = array.flatten()
    return array.to_numpy(zero_copy_only=False)


def sums(table):
    """The batch as arrays: labels [n], numbers [n, n_dense], ids [n, hotness] a feature; and their sums."""
    label = flat(table["label"]).astype(np.float32)
    numbers = np.stack([flat(table[name]) for name in args.numbers], 1)
    ids = [flat(table[c.name]).reshape(-1, c.hotness) for c in args.columns]
    return len(label), int(sum(v.sum() for v in ids)), float(numbers.sum(dtype=np.float64) + label.sum(dtype=np.float64))


def rebatched(pieces):
    """Tables of just args.batch rows (the last: what is left) out of record batches of any size."""
    held, n_held = [], 0
    for piece in pieces:
        held.append(piece)
        n_held += piece.num_rows
        while n_held >= args.batch:
            table = pa.Table.from_batches(held)
            yield table.slice(0, args.batch)
            held = table.slice(args.batch).to_batches()
            n_held -= args.batch
    if n_held:
        yield pa.Table.from_batches(held)


def pieces():
    read, convert = pa.csv.ReadOptions(use_threads=args.threads > 1, block_size=16 << 20), pa.csv.ConvertOptions(column_types=types)
    if args.config == "whole":
        return pa.csv.read_csv(args.file, read, convert_options=convert).to_batches()
    if args.config == "stream":
        return pa.csv.open_csv(args.file, read, convert_options=convert) if csv else pa.parquet.ParquetFile(args.file).iter_batches(args.batch, use_threads=args.threads > 1)
    form = pa.dataset.CsvFileFormat(read_options=read, convert_options=convert) if csv else "parquet"
    return pa.dataset.dataset(args.file, format=form).scanner(batch_size=args.batch, use_threads=args.threads > 1).to_batches()


finish(args, (sums(table) for table in rebatched(pieces())), np, pa)
