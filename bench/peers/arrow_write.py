"""A workload's arrays as Parquet: arrow_write.py DIRECTORY OUTPUT COMPRESSION. A row group is a batch; features of several ids are lists."""
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

directory, output, compression = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
lines = (directory / "features.txt").read_text().splitlines()
n_batches, n, n_dense = map(int, lines[0].split())
columns = {"label": np.fromfile(directory / "labels.f32", np.float32).astype(np.int64)}
dense = np.fromfile(directory / "dense.f32", np.float32).reshape(-1, n_dense)
columns |= {f"n{i}": np.ascontiguousarray(dense[:, i]) for i in range(n_dense)}
hotness = {line.split()[0]: int(line.split()[3]) for line in lines[1:]}
columns |= {name: np.memmap(directory / f"{name}.i64", np.int64) for name in hotness}


def array(name, b):
    k = hotness.get(name, 1)
    values = pa.array(np.array(columns[name][b * n * k:(b + 1) * n * k]))
    return values if k == 1 else pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * k, values)


writer = None
for b in range(n_batches):
    table = pa.table({name: array(name, b) for name in columns})
    writer = writer or pyarrow.parquet.ParquetWriter(output, table.schema, compression=compression)
    writer.write_table(table, row_group_size=n)
writer.close()
