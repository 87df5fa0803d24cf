"""Tables to and from safetensors files, in pieces: memory does not grow with the tables."""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Dict, Iterator, List, Tuple

import torch

from .._embeddings import Tables
from ..errors import BadData, NotFound

_PIECE = 1 << 22  # bytes
_MOST_HEADER = 100_000_000  # as the format's own library has it


def _pieces(n_rows: int, dim: int) -> Iterator[Tuple[int, int]]:
    step = max(1, _PIECE // (4 * dim))
    for first in range(0, n_rows, step):
        yield first, min(step, n_rows - first)


def save(tables: Tables, names: List[str], path: str) -> None:
    """Rows of all tables as f32, whole or not at all."""
    header: Dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, table in zip(names, tables.tables):
        n_bytes = 4 * table.n_rows * table.dim
        header[name] = {"dtype": "F32", "shape": [table.n_rows, table.dim], "data_offsets": [end, end + n_bytes]}
        end += n_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    beside = f"{path}.tmp-{os.getpid()}"
    try:
        with open(beside, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for t, table in enumerate(tables.tables):
                for first, n in _pieces(table.n_rows, table.dim):
                    rows = torch.empty(n, table.dim)
                    tables.read_rows(t, first, n, rows.data_ptr())
                    file.write(memoryview(rows.numpy()).cast("B"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        if os.path.exists(beside):
            os.remove(beside)


def _entry(path: str, header: Dict[str, Any], names: List[str], shape: List[int], n_bytes: int) -> Tuple[str, int]:
    name = next((name for name in names if name in header), None)
    if name is None:
        raise NotFound(f"'{path}' has no tensor '{names[0]}'", f"it has {', '.join(sorted(header)[:20])}")
    entry = header[name]
    dtype, given, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets")) if isinstance(entry, dict) else (None, None, None)
    sizes = {"F32": 4, "F16": 2, "BF16": 2}
    if dtype not in sizes or given != shape:
        raise BadData(f"'{path}': tensor '{name}' is {dtype} {given}, but the table is {shape}", "rows are F32, F16 or BF16")
    first, end = offsets if isinstance(offsets, list) and len(offsets) == 2 else (-1, -1)
    is_range = isinstance(first, int) and isinstance(end, int) and 0 <= first <= end <= n_bytes
    if not is_range or end - first != shape[0] * shape[1] * sizes[dtype]:
        raise BadData(f"'{path}': the place of tensor '{name}' is {offsets}, which does not fit to {shape} in a file with {n_bytes} bytes of tensors")
    return dtype, first


def load(tables: Tables, names: List[List[str]], path: str) -> None:
    """Rows of all tables, by the first of the names that the file has. Everything is checked before a row changes."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        n_header = struct.unpack("<Q", file.read(8))[0] if size >= 8 else 0
        if not 2 <= n_header <= min(size - 8, _MOST_HEADER):
            raise BadData(f"'{path}' is no safetensors file: its header would have {n_header} bytes")
        try:
            header = json.loads(file.read(n_header))
        except ValueError as error:
            raise BadData(f"'{path}' is no safetensors file: {error}") from None
        if not isinstance(header, dict):
            raise BadData(f"'{path}' is no safetensors file: its header is no object")
        start = 8 + n_header
        places = [_entry(path, header, own, [t.n_rows, t.dim], size - start) for own, t in zip(names, tables.tables)]
        types = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
        for t, (table, (dtype, at)) in enumerate(zip(tables.tables, places)):
            file.seek(start + at)
            for first, n in _pieces(table.n_rows, table.dim):
                rows = torch.empty(n, table.dim, dtype=types[dtype])
                raw = file.read(rows.numel() * rows.element_size())
                if len(raw) != rows.numel() * rows.element_size():
                    raise BadData(f"'{path}' ends within the rows of table '{table.name}'")
                rows = torch.frombuffer(bytearray(raw), dtype=types[dtype]).to(torch.float32)
                tables.write_rows(t, first, n, rows.data_ptr())
