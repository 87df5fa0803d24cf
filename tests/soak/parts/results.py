"""What a run left: its log without times, and its parameters, put together from whatever files and ranks hold them."""

import json
import math
import re
import struct
import urllib.parse

from parts.program import Failure

TIMES = {
    "time",
    "samples_per_second",
    "bytes_sent",
    "bytes_sent_most",
    "rows_wait_s",
    "sum_wait_s",
    "staleness",
}
PART = re.compile(r"(.*)\[(\d+):(\d+):(\d+)(?:,(\d+):(\d+))?\]$")
BLOCK = re.compile(r"(.*)\[(\d+)\.\.(\d+):(\d+)\]$")  # of a dynamic table
WIDTHS = {"F32": 4, "BF16": 2, "F16": 2, "I64": 8, "U64": 8, "F64": 8, "I32": 4, "U8": 1}


def log_of(output, kinds=("train", "valid", "test")):
    path = output / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [{k: v for k, v in line.items() if k not in TIMES} for line in lines if line["kind"] in kinds]


def checkpoints(output):
    return sorted((output / "checkpoints").glob("step-*"), key=lambda p: int(p.name.split("-")[1]))


def step_of(checkpoint):
    return int(checkpoint.name.split("-")[1])


def newest(output):
    found = checkpoints(output)
    if not found:
        raise Failure(f"{output.name} has no checkpoint at its end")
    return found[-1]


def tensors_in(file):
    data = file.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    for name, about in json.loads(data[8 : 8 + n]).items():
        if name != "__metadata__":
            begin, end = about["data_offsets"]
            yield name, about["dtype"], about["shape"], data[8 + n + begin : 8 + n + end]


def records_in(file, record_bytes):
    """A row log's file: each record, whose key is its first 8 bytes (docs/formats/row_log.md)."""
    data, large = file.read_bytes(), b""
    for at in range(0, len(data), 4096):
        page = data[at : at + 4096]
        n, n_bytes = struct.unpack("<HH", page[12:16])
        if record_bytes <= 4064:
            for i in range(n):
                yield page[32 + i * n_bytes : 32 + (i + 1) * n_bytes]
            continue
        large += page[32 : 32 + n_bytes]
        if len(large) == record_bytes:
            yield large
            large = b""


def rows_on_disk(checkpoint, whole):
    """("table/<name>", key) to the bytes of row and slots, for the tables' keys; all parts of a table together."""
    out = {}
    keys = {}
    for place, value in whole.items():
        if isinstance(place, tuple) and place[0].endswith("/keys"):
            keys.setdefault(place[0][: -len("/keys")], set()).add(value)
    for folder in sorted((checkpoint / "rows").glob("*/")):
        table = "table/" + urllib.parse.unquote(folder.name.partition(".")[0])
        (record_bytes,) = struct.unpack("<I", (folder / "rows.list").read_bytes()[12:16])
        for file in sorted(folder.glob("rows-*.log")):
            for record in records_in(file, record_bytes):
                if record[:8] in keys.get(table, ()):
                    out[table, record[:8]] = record[8:]
    return out


def parameters(checkpoint):
    """Name to bytes, without rows as they were before (`before/`); of a table's tensors, (name, row, column) to a value's bytes where they are cut, whatever the cut; of rows on a disk,
    what rows_on_disk says."""
    whole = {}
    for file in sorted(checkpoint.glob("*.safetensors")):
        for name, dtype, shape, data in tensors_in(file):
            part, block = PART.match(name), BLOCK.match(name)
            base = part[1] if part else block[1] if block else name
            if name.startswith("before/"):
                continue
            if not base.startswith("table/") or base.endswith("/step"):
                whole[base] = data
                continue
            rows, columns = shape[0], math.prod(shape[1:])
            first, _, stride = (int(part[i]) for i in (2, 3, 4)) if part else (int(block[2]) if block else 0, 0, 1)
            left = int(part[5]) if part and part[5] else 0
            for r in range(rows):
                for c in range(columns):
                    at = (r * columns + c) * WIDTHS[dtype]
                    whole[base, first + r * stride, left + c] = data[at : at + WIDTHS[dtype]]
    return whole | rows_on_disk(checkpoint, whole)


def not_finite(checkpoint):
    """Names of tensors with values that are not finite."""
    bad = set()
    for file in checkpoint.glob("*.safetensors"):
        for name, dtype, _, data in tensors_in(file):
            if dtype == "F32":
                values = struct.unpack(f"<{len(data) // 4}f", data)
                if not all(map(math.isfinite, values)):
                    bad.add(name)
            elif dtype in ("BF16", "F16"):
                ones = 0x7F80 if dtype == "BF16" else 0x7C00
                if any(v & ones == ones for v in struct.unpack(f"<{len(data) // 2}H", data)):
                    bad.add(name)
    return sorted(bad)


def same_parameters(a, b, what):
    x, y = parameters(a), parameters(b)
    if x.keys() != y.keys():
        raise Failure(f"{what}: other tensors: {sorted(map(str, x.keys() ^ y.keys()))[:4]}")
    other = [k for k in x if x[k] != y[k]]
    if other:
        raise Failure(f"{what}: {len(other)} of {len(x)} parameters have other bits, first {other[0]}")


def same_log(a, b, what, kinds=("train", "valid", "test")):
    x, y = log_of(a, kinds), log_of(b, kinds)
    for i, (p, q) in enumerate(zip(x, y)):
        if repr(p) != repr(q):
            raise Failure(f"{what}: entry {i} of the logs differs\n  {p}\n  {q}")
    if len(x) != len(y):
        raise Failure(
            f"{what}: logs of {len(x)} and {len(y)} entries; the longer one has {(x if len(x) > len(y) else y)[min(len(x), len(y))]}"
        )


def same_end(a, b, what, kinds=("train", "valid", "test")):
    """Logs and last checkpoints are the same."""
    same_log(a, b, what, kinds)
    if newest(a).name != newest(b).name:
        raise Failure(f"{what}: ends at {newest(a).name} and {newest(b).name}")
    same_parameters(newest(a), newest(b), what)
