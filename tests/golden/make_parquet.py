#!/usr/bin/env python3
"""Writes tests/golden/parquet: Parquet files by pyarrow, and beside them their values as tests/format/test_parquet.c prints them; those of most in rows.txt.

    make_parquet.py [OUTPUT_DIR]

A line for each column, `column NAME TYPE`, and below it one for each row: its values with a space before each; of floats the bits in hexadecimal digits.
"""
import pathlib
import random
import struct
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

CODECS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]
N = 50


def rows(seed):
    """Columns of N rows: every way in which a value becomes one, with nulls among them."""
    r = random.Random(seed)

    def some(make):
        return [None if r.random() < 0.2 else make() for _ in range(N)]

    return pa.table(
        {
            "flag": pa.array(some(lambda: r.random() < 0.5), pa.bool_()),
            "small": pa.array(some(lambda: r.randrange(-9, 9)), pa.int32()),
            "large": pa.array(some(lambda: r.randrange(-(2**62), 2**62)), pa.int64()),
            "unsigned": pa.array(some(lambda: r.randrange(2**31, 2**32)), pa.uint32()),
            "half": pa.array(some(lambda: r.randrange(-64, 64) / 8), pa.float16()),
            "single": pa.array(some(lambda: r.gauss(0, 1)), pa.float32()),
            "double": pa.array(some(lambda: r.gauss(0, 1e9)), pa.float64()),
            "price": pa.array(some(lambda: Decimal(r.randrange(-(10**6), 10**6)).scaleb(-2)), pa.decimal128(9, 2)),
            "mass": pa.array(some(lambda: Decimal(r.randrange(-(10**30), 10**30)).scaleb(-33)), pa.decimal128(38, 33)),
            "day": pa.array(some(lambda: r.randrange(20000)), pa.int32()).cast(pa.date32()),
            "word": pa.array(some(lambda: r.choice(["", "a", "bc", "long-word-" * 3, "ünï"]))),
            "code": pa.array(some(lambda: b"%04d" % r.randrange(10**4)), pa.binary(4)),
            "required": pa.array(range(N), pa.int64()),
            "ids": pa.array(some(lambda: [r.choice([None, 1, 2, 3]) for _ in range(r.randrange(5))]), pa.list_(pa.int64())),
            "words": pa.array(some(lambda: [r.choice(["", "x", "yy"]) for _ in range(r.randrange(4))]), pa.list_(pa.string())),
            "pairs": pa.array(some(lambda: [{"id": r.randrange(9), "w": r.random()} for _ in range(r.randrange(3))]), pa.list_(pa.struct([("id", pa.int32()), ("w", pa.float32())]))),
            "map": pa.array(some(lambda: [(r.choice("ab"), r.randrange(5))]), pa.map_(pa.string(), pa.int32())),
            "deep": pa.array([{"a": {"b": i}} if i % 3 else None for i in range(N)], pa.struct([("a", pa.struct([("b", pa.int16())]))])),
            "nothing": pa.nulls(N),
        },
    )


def bits(value, single):
    return struct.pack(">f" if single else ">d", value).hex()


def text_of(value, kind):
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return bits(value, not pa.types.is_float64(kind))
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.decode() if isinstance(value, bytes) else str(value)


def type_of(kind):
    if pa.types.is_float64(kind):
        return "f64"
    if pa.types.is_floating(kind):
        return "f32"
    return "i64" if pa.types.is_integer(kind) or pa.types.is_boolean(kind) else "text"


def columns_of(table):
    """(name, type, rows of values)."""
    for field in table.schema:
        name, kind, column = field.name, field.type, table.column(field.name)
        if pa.types.is_date(kind):
            kind, column = pa.int32(), column.cast(pa.int32())
        values = column.to_pylist()
        if name == "pairs":
            for child in kind.value_type:
                yield f"{name}.{child.name}", child.type, [[e[child.name] for e in row or []] for row in values]
        elif name == "map":
            for part, inner in (0, kind.key_type), (1, kind.item_type):
                yield f"{name}.{('key', 'value')[part]}", inner, [[e[part] for e in row or []] for row in values]
        elif name == "deep":
            yield "deep.a.b", pa.int16(), [[row and row["a"]["b"]] for row in values]
        elif pa.types.is_list(kind):
            yield name, kind.value_type, [row or [] for row in values]
        else:
            yield name, kind, [[value] for value in values]


def show(table):
    for name, kind, values in columns_of(table):
        yield f"column {name} {type_of(kind)}"
        for row in values:
            yield "".join(" " + text_of(v, kind) for v in row if v not in (None, "", b""))


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "parquet"
    out.mkdir(exist_ok=True)
    table = rows(1)

    def write(name, table=table, **options):
        pq.write_table(table, out / f"{name}.parquet", store_schema=False, **options)

    def write_values(name, table=table):
        (out / f"{name}.txt").write_text("\n".join(show(table)) + "\n")

    write_values("rows")
    for i, codec in enumerate(CODECS):
        write(codec, compression=codec, data_page_version=f"{i % 2 + 1}.0")
    write("pages", table, data_page_size=1, write_batch_size=7, row_group_size=25, use_dictionary=["word", "words"], write_page_checksum=True, compression="none")
    whole, real, text = ["small", "large", "required"], ["single", "double", "half"], ["word"]
    encodings = {name: "DELTA_BINARY_PACKED" for name in whole} | {name: "BYTE_STREAM_SPLIT" for name in real} | {name: "DELTA_BYTE_ARRAY" for name in ["word", "code", "words.list.element"]}
    encodings |= {"ids.list.element": "DELTA_BINARY_PACKED", "flag": "RLE"}
    write("differences", table, use_dictionary=False, column_encoding=encodings, compression="zstd", data_page_version="2.0")
    few = table.select(text + ["words", "large"])
    write_values("lengths", few)
    write("lengths", few, use_dictionary=False, column_encoding={"word": "DELTA_LENGTH_BYTE_ARRAY", "words.list.element": "DELTA_LENGTH_BYTE_ARRAY", "large": "BYTE_STREAM_SPLIT"})
    times = pa.array([0, 1, -1, 1_700_000_000_123_456_789, None], pa.timestamp("ns"))
    write_times = pa.table({"t": times})
    pq.write_table(write_times, out / "int96.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    (out / "int96.txt").write_text("column t i64\n" + "".join(f"{'' if v is None else ' ' + str(v)}\n" for v in times.cast(pa.int64()).to_pylist()))


if __name__ == "__main__":
    main()
