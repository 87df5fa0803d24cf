"""What both reading peers share: the rows' columns, sums by which readers are compared, one line of JSON."""
import argparse
import json
import os
import resource
import time
from pathlib import Path


class Column:
    def __init__(self, line):
        name, rows, _, hotness = line.split()
        self.name, self.rows, self.hotness = name, int(rows), int(hotness)


def arguments():
    """FILE, whose folder holds features.txt, and the options that every reader takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--config", default="")
    args = parser.parse_args()
    lines = (args.file.parent / "features.txt").read_text().splitlines()
    args.n_dense = int(lines[0].split()[2])
    args.columns = [Column(line) for line in lines[1:]]
    args.numbers = [f"n{i}" for i in range(args.n_dense)]
    return args


def finish(args, batches, *modules):
    """batches: calls (rows, sum of ids, sum of numbers and labels) one after another; timed to the last batch, not to the reader's end, for which tf.data
    waits until a thread of its own wakes up."""
    begin = time.perf_counter()
    rows, ids, numbers, seconds = 0, 0, 0.0, 0.0
    for n, id_sum, number_sum in batches:
        rows, ids, numbers = rows + n, ids + id_sum, numbers + number_sum
        seconds = time.perf_counter() - begin
    print(json.dumps({"rows": rows, "seconds": seconds, "bytes": args.file.stat().st_size, "checksum": f"{ids} {numbers:.9g}", "threads": args.threads,
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                      "versions": {module.__name__: module.__version__ for module in modules}}))
