#!/usr/bin/env python3
"""Other people's readers, and a second reader of rkb made from docs/formats/rkb.md, over what Reckon wrote into tests/golden.

    check_with_python.py [GOLDEN_DIR]

test_format_golden sees to it that those files are what the C code writes, byte for byte. Parts whose package (zstandard, safetensors,
tensorboard, torch) is not installed are skipped; exits with 77 where a part was skipped and none failed, 1 where one failed.
"""
import importlib.util
import pathlib
import struct
import sys

DEFAULT = pathlib.Path(__file__).resolve().parent.parent / "golden"
sys.dont_write_bytecode = True
sys.path.insert(0, str(DEFAULT))
from make_tfrecord import crc32c, masked  # noqa: E402


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        assert self.at + n <= len(self.data), "cut"
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def numbers(self, n, code):
        return list(struct.unpack(f"<{n}{code}", self.take(n * struct.calcsize("<" + code))))

    def integers(self, n):
        width, least = self.number("B"), self.number("q")
        if width > 128:
            bits = width - 128
            packed = int.from_bytes(self.take((n * bits + 7) // 8), "little")
            return [(least + (packed >> (i * bits) & (1 << bits) - 1) + 2**63) % 2**64 - 2**63 for i in range(n)]
        distances = self.numbers(n, {1: "B", 2: "H", 4: "I", 8: "Q"}[width]) if width else [0] * n
        return [(least + d + 2**63) % 2**64 - 2**63 for d in distances]

    def pieces(self, lengths):
        return [self.take(n) for n in lengths]


def read_chunk(data, n_rows, kind):
    """[(values, weights or None) of each row]"""
    chunk = Bytes(data)
    n_values = chunk.number("Q")
    counts = chunk.integers(n_rows)
    assert sum(counts) == n_values
    if kind == 1:
        values = chunk.integers(n_values)
    elif kind == 2:
        values = chunk.numbers(n_values, "f")
    elif chunk.number("B") == 0:
        values = chunk.pieces(chunk.integers(n_values))
    else:
        words = chunk.pieces(chunk.integers(chunk.number("Q")))
        values = [words[i] for i in chunk.integers(n_values)]
    weights = chunk.numbers(n_values, "f") if chunk.number("B") else None
    assert chunk.at == len(data), "bytes after the chunk"
    ends = [sum(counts[: r + 1]) for r in range(n_rows)]
    return [(values[e - n : e], weights and weights[e - n : e]) for e, n in zip(ends, counts)]


def read_rkb(path, decompress):
    data = path.read_bytes()
    head, tail = Bytes(data[:16]), Bytes(data[-24:])
    assert head.take(8) == b"\x89RKB\r\n\x1a\n" and head.number("I") == 1 and head.number("I") == crc32c(data[:12])
    n_footer, crc, version = tail.number("Q"), tail.number("I"), tail.number("I")
    assert version == 1 and tail.take(8) == b"RKBend\r\n"
    footer = Bytes(data[-24 - n_footer : -24])
    assert crc == crc32c(footer.data + data[-24:-16])
    n_rows, n_blocks, n_columns = footer.number("Q"), footer.number("Q"), footer.number("I")
    schema = []
    for _ in range(n_columns):
        kind = footer.number("B")
        schema.append((footer.take(footer.number("I")).decode(), kind))
    rows = {name: [] for name, _ in schema}
    at = 16
    for _ in range(n_blocks):
        block_rows = footer.number("Q")
        for name, kind in schema:
            n_stored, n_raw, crc, packing = footer.number("Q"), footer.number("Q"), footer.number("I"), footer.number("I")
            stored = data[at : at + n_stored]
            at += n_stored
            assert crc == crc32c(stored)
            raw = decompress(stored, n_raw) if packing else stored
            assert len(raw) == n_raw
            rows[name] += read_chunk(raw, block_rows, kind)
    assert at == len(data) - 24 - n_footer and footer.at == n_footer and all(len(r) == n_rows for r in rows.values())
    return rows


def check_rkb(golden, name, decompress):
    rows = read_rkb(golden / name, decompress)
    words = [b"red", b"green", b"blue"]
    for r in range(12):
        assert rows["user"][r] == ([b"user-%d" % (r * r)], None)
        assert rows["colours"][r] == ([words[(r + i) % 3] for i in range(r % 4)], None)
        assert rows["item"][r] == ([1000 + r], None)
        assert rows["wide"][r] == ([2**63 - 1 - r if r % 2 else r - 2**63], None)
        values, weights = rows["optional"][r]
        assert values == ([-70000 * r] if r % 3 else []) and weights == ([[], [1.0], [0.25 * r]][r % 3])
        assert rows["pair"][r] == ([r / 8, -float(r)], None)
        assert rows["constant"][r] == ([42], None) and rows["never"][r] == ([], None)


def check_rkb_plain(golden):
    check_rkb(golden, "columns.rkb", None)


def check_rkb_zstandard(golden):
    import zstandard

    check_rkb(golden, "columns_zstd.rkb", lambda data, n: zstandard.ZstdDecompressor().decompress(data, max_output_size=n))


def check_safetensors(golden):
    from safetensors.numpy import load_file

    tensors = load_file(golden / "read_by_python.safetensors")
    shown = {name: (str(t.dtype), t.tolist()) for name, t in tensors.items()}
    assert shown == {
        "bytes": ("uint8", [0, 1, 2, 3, 4]),
        "half": ("float16", [1.0, 2.0, 3.0]),
        "step": ("int64", [-7]),
        "weight": ("float32", [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
    }, shown


def check_safetensors_torch(golden):
    import torch
    from safetensors.torch import load_file

    tensors = load_file(golden / "read_by_torch.safetensors")
    assert tensors["bf16"].dtype == torch.bfloat16 and tensors["bf16"].tolist() == [1.0, 2.0]
    assert tensors["weight"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] and len(tensors) == 5


def check_tensorboard(golden):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(golden / "events.out.tfevents.golden"))
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == ["train/loss", "valid/auc"]
    assert events.FirstEventTimestamp() == 1700000000.5 and events.file_version == 2.0
    for i, event in enumerate(events.Scalars("train/loss")):
        assert (event.step, event.wall_time) == (i * 100, 1700000001.0 + i) and abs(event.value - 0.5 / (i + 1)) < 1e-7
    assert [round(e.value, 6) for e in events.Scalars("valid/auc")] == [0.7, 0.71, 0.72]


def check_frames(golden):
    for name in ("examples.tfrecord", "events.out.tfevents.golden"):
        data = Bytes((golden / name).read_bytes())
        while data.at < len(data.data):
            length = data.take(8)
            assert data.take(4) == masked(length)
            payload = data.take(struct.unpack("<Q", length)[0])
            assert data.take(4) == masked(payload)


CHECKS = [
    (check_rkb_plain, []),
    (check_rkb_zstandard, ["zstandard"]),
    (check_frames, []),
    (check_safetensors, ["safetensors", "numpy"]),
    (check_safetensors_torch, ["safetensors", "torch"]),
    (check_tensorboard, ["tensorboard"]),
]


def main():
    golden = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    skipped = failed = 0
    for check, packages in CHECKS:
        missing = [p for p in packages if importlib.util.find_spec(p) is None]
        if missing:
            skipped += 1
            print(f"skipped {check.__name__}: no {', '.join(missing)}")
            continue
        try:
            check(golden)
            print(f"ok      {check.__name__}")
        except Exception as error:  # each check's failure is reported, and the rest still run
            failed += 1
            print(f"FAILED  {check.__name__}: {type(error).__name__}: {error}")
    sys.exit(1 if failed else 77 if skipped else 0)


if __name__ == "__main__":
    main()
