"""Tables to and from safetensors files, in pieces: memory does not grow with the tables. Over ranks all make the same calls, and rank 0 writes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import struct
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy

from ._embeddings import BF16, F16, F32, I32, I64, NUMPY, U8, Tables, Values
from ._library import check, lib, path_bytes
from .errors import BadData, Error, NotFound, ReadWriteError

_PIECE = 1 << 22  # bytes
_MOST_HEADER = 100_000_000  # as the format's own library has it
_ROWS = {"F32": 4, "F16": 2, "BF16": 2}  # bytes of a value
_SIZES = {**_ROWS, "I64": 8, "I32": 4, "U8": 1}
_DTYPE_NAMES = {F32: "F32", BF16: "BF16", F16: "F16", I32: "I32", I64: "I64", U8: "U8"}
_DTYPES = {name: dtype for dtype, name in _DTYPE_NAMES.items()}
_STEP = -1
_PART_OF_NAME = re.compile(r"(.*?)(\[[^\[\]]*\])?", re.DOTALL)  # a table's own name may have brackets too
Name = Tuple[str, Optional[str]]  # of a table's rows, and how those of its optimizer's state begin; None: it is not there


class _StoredPart(NamedTuple):
    """Of a table: its rows (slot None), a slot, or its count of steps (_STEP)."""

    table: int
    slot: Optional[int]
    shape: List[int]


def _list_stored_parts(tables: Tables, t: int) -> List[Tuple[str, _StoredPart]]:
    """What a table has, by the end of its name: rows, slots, steps."""
    slots = [(slot.name, _StoredPart(t, s, list(tables.shape(t, s)))) for s, slot in enumerate(tables.slots[t])]
    return [("", _StoredPart(t, None, list(tables.shape(t)))), *slots, ("step", _StoredPart(t, _STEP, [1]))]


def _row_ranges(shape: List[int]) -> Iterator[Tuple[int, int]]:
    step = max(1, _PIECE // (4 * math.prod(shape[1:])))
    for first in range(0, shape[0], step):
        yield first, min(step, shape[0] - first)


def _raise_on_all_ranks(tables: Tables, error: Optional[BaseException]) -> None:
    """What one rank has met is an error on all."""
    failed = tables.comm.count(error is not None) if tables.comm else 0
    if error is not None:
        raise error
    if failed:
        raise ReadWriteError(f"{failed} of the other ranks failed", "their own errors say why")


class _AtomicFile:
    """A file that is written beside its place and then put there. An error is kept until the end: other ranks go on reading with this one."""

    def __init__(self, path: str, writes: bool) -> None:
        self.path, self.beside = path, f"{path}.tmp-{os.getpid()}"
        self.file: Optional[BinaryIO] = None
        self.error: Optional[OSError] = None
        if writes:
            self._run_and_keep_error(self._open_beside)

    def _run_and_keep_error(self, work: Callable[..., Any], *arguments: Any) -> None:
        try:
            work(*arguments)
        except OSError as error:
            self.error = error
            self.close()

    def _open_beside(self) -> None:
        self.file = open(self.beside, "wb")

    def write(self, data: Any) -> None:
        if self.file:
            self._run_and_keep_error(self.file.write, data)

    def put(self) -> None:
        if self.file:
            self._run_and_keep_error(self.file.flush)
        if self.file:
            self._run_and_keep_error(os.fsync, self.file.fileno())
        if self.file:
            self._run_and_keep_error(os.replace, self.beside, self.path)

    def close(self) -> None:
        file, self.file = self.file, None
        if file:
            with contextlib.suppress(OSError):  # what it could not write is known by now
                file.close()
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.beside)


def _optimizer_state_prefix(rows: str) -> str:
    """How the names of a table's optimizer begin in a file of save, where its rows are "...weight"."""
    return rows[: -len("weight")]


def name_in_file(rows: str, tensor: str) -> str:
    """Of a tensor of a dynamic table's state; rows: the name of its rows."""
    return rows if tensor == "rows" else _optimizer_state_prefix(rows) + tensor


def name_in_state(end: str) -> str:
    return "rows" if end == "weight" else end


def _names_of_table(table: str, rows: str) -> List[Name]:
    """Those that a table has: in a file of save, in a Reckon export, in a checkpoint."""
    return [(rows, _optimizer_state_prefix(rows)), (f"embeddings.{table}.weight", None), (f"table/{table}/rows", f"table/{table}/")]


def _dtype_and_shape(part: Union[_StoredPart, Values]) -> Tuple[str, List[int]]:
    if isinstance(part, Values):
        return _DTYPE_NAMES[part.dtype], list(part.array.shape)
    return "I64" if part.slot == _STEP else "F32", part.shape


def save(tables: Tables, names: Sequence[str], path: str, optimizer: bool) -> None:
    """f32 values and i64 steps, whole or not at all. names: "...weight", of each table's rows."""
    parts: List[Tuple[str, Union[_StoredPart, Values]]] = []
    for t, name in enumerate(names):
        if tables.is_dynamic(t):  # which is nothing without its keys and counts, and all of it is in memory for a while
            parts += [(name_in_file(name, tensor), values) for tensor, values in tables.read_state(t).items()]
        else:
            parts += [(_optimizer_state_prefix(name) + end if end else name, part) for end, part in _list_stored_parts(tables, t) if optimizer or not end]
    header: Dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, part in parts:
        dtype, shape = _dtype_and_shape(part)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + _SIZES[dtype] * math.prod(shape)]}
        at += _SIZES[dtype] * math.prod(shape)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file = _AtomicFile(path, writes=not tables.comm or tables.comm.rank == 0)
    try:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, part in parts:
            for piece in _iterate_bytes(tables, part):
                file.write(piece)
        file.put()
    finally:
        file.close()
    _raise_on_all_ranks(tables, file.error)


def _iterate_bytes(tables: Tables, part: Union[_StoredPart, Values]) -> Iterator[Any]:
    if isinstance(part, Values):
        if part.array.size:
            yield part.array.data.cast("B")
        return
    if part.slot == _STEP:
        yield struct.pack("<q", tables.read_step(part.table))
        return
    for first, n in _row_ranges(part.shape):
        yield tables.read_rows(part.table, part.slot, first, n).data.cast("B")


class _TensorPart(NamedTuple):
    """Values of a tensor in a file: rows begin, begin + step, ... and columns first .. last - 1."""

    path: str
    at: int
    dtype: str
    begin: int
    step: int
    first: int
    last: int


def _read_header(path: str) -> Tuple[Dict[str, Any], int, int]:
    """Header, where the tensors begin, and how many bytes they have."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        n_header = struct.unpack("<Q", file.read(8))[0] if size >= 8 else 0
        if not 2 <= n_header <= min(size - 8, _MOST_HEADER):
            raise BadData(f"'{path}' is no safetensors file: its header would have {n_header} bytes")
        try:
            header = json.loads(file.read(n_header))
        except (ValueError, RecursionError) as error:
            raise BadData(f"'{path}' is no safetensors file: {error}") from None
        if not isinstance(header, dict):
            raise BadData(f"'{path}' is no safetensors file: its header is no object")
        return header, 8 + n_header, size - 8 - n_header


class _TensorFiles:
    """All tensors of a file, or of a directory's files, by name; those of checkpoints over ranks in parts (docs/formats/checkpoint.md)."""

    def __init__(self, path: str) -> None:
        self.path = path
        is_directory = os.path.isdir(path)
        if is_directory and (Path(path) / "manifest.json").exists():
            check(lib.rk_checkpoint_verify(path_bytes(path)))
        files = sorted(map(str, Path(path).glob("*.safetensors"))) if is_directory else [path]
        if not files:
            raise NotFound(f"'{path}' has no safetensors files")
        self.found: Dict[str, List[Tuple[str, str, Any, int, int]]] = {}
        for file in files:
            header, start, n_bytes = _read_header(file)
            header.pop("__metadata__", None)
            for name, entry in header.items():
                whole, part = _PART_OF_NAME.fullmatch(name).groups("")  # type: ignore[union-attr]
                self.found.setdefault(whole, []).append((part, file, entry, start, n_bytes))

    def parts(self, name: str, shape: List[int], types: Dict[str, int]) -> List[_TensorPart]:
        """Of a tensor of this shape; types: bytes of a value. BadData: its parts are not that."""
        out = [self._parse_part(name, shape, types, *found) for found in self.found[name]]
        columns = sorted({(part.first, part.last) for part in out})
        steps = {part.step for part in out}
        held = {(part.begin, part.first) for part in out}
        tiled = [0, *(last for _, last in columns)] == [*(first for first, _ in columns), math.prod(shape[1:])]
        if not tiled or len(steps) != 1 or len(held) != len(out) or len(out) != steps.pop() * len(columns):
            raise BadData(f"'{self.path}': the parts of tensor '{name}' are not the whole of it")
        return out

    def step(self, name: str) -> _TensorPart:
        """Every part has it, the same."""
        part = self._parse_part(name, [1], {"I64": 8}, "", *self.found[name][0][1:])
        with open(part.path, "rb") as file:
            steps = struct.unpack("<q", _read_part_rows(file, part, 0, 1))[0]
        if steps < 0:
            raise BadData(f"'{self.path}': tensor '{name}' says {steps} steps")
        return part

    def _parse_part(self, name: str, shape: List[int], types: Dict[str, int], part: str, path: str, entry: Any, start: int, n_bytes: int) -> _TensorPart:
        width = math.prod(shape[1:])
        begin, end, step, first, last = 0, shape[0], 1, 0, width
        if part:
            numbers = re.fullmatch(r"\[(\d{1,18}):(\d{1,18}):(\d{1,9})(?:,(\d{1,9}):(\d{1,9}))?\]", part)
            if not numbers:
                raise BadData(f"'{path}': '{name}{part}' names no part of a tensor")
            begin, end, step = (int(numbers[i]) for i in (1, 2, 3))
            first, last = (int(numbers[4]), int(numbers[5])) if numbers[4] else (0, width)
        if not (begin < step and begin < end == shape[0] and first < last <= width):
            raise BadData(f"'{path}': '{name}{part}' is no part of {shape}")
        wanted = [(end - begin + step - 1) // step, *([last - first] if len(shape) > 1 else [])]
        dtype, given, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets")) if isinstance(entry, dict) else (None, None, None)
        if not isinstance(dtype, str) or dtype not in types or given != wanted:
            raise BadData(f"'{path}': tensor '{name}' is {dtype} {given}, but the table is {wanted}", f"it should be {' or '.join(types)}")
        at, until = offsets if isinstance(offsets, list) and len(offsets) == 2 else (-1, -1)
        is_range = isinstance(at, int) and isinstance(until, int) and 0 <= at <= until <= n_bytes
        if not is_range or until - at != math.prod(wanted) * types[dtype]:
            raise BadData(f"'{path}': the place of tensor '{name}' is {offsets}, which does not fit to {wanted} in a file with {n_bytes} bytes of tensors")
        return _TensorPart(path, start + at, dtype, begin, step, first, last)


def _parse_range(tensors: _TensorFiles, name: str, part: str, path: str, entry: Any, start: int, n_bytes: int) -> Tuple[int, int, Values]:
    """Rows from which on, of how many, of a dynamic table's tensor, and what they are."""
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets")) if isinstance(entry, dict) else (None, None, None)
    if not isinstance(shape, list) or not 1 <= len(shape) <= 2 or not all(isinstance(n, int) and 0 <= n < 2**48 for n in shape):
        raise BadData(f"'{path}': tensor '{name}{part}' has the shape {shape}")
    if dtype not in _DTYPES or not isinstance(offsets, list) or len(offsets) != 2 or not all(isinstance(at, int) for at in offsets):
        raise BadData(f"'{path}': tensor '{name}{part}' is {dtype} {shape} at {offsets}")
    at, until = offsets
    numbers = re.fullmatch(r"\[(\d{1,15})\.\.(\d{1,15}):(\d{1,15})\]", part) if part else None
    first, end, total = (int(numbers[i]) for i in (1, 2, 3)) if numbers else (0, shape[0], shape[0])
    if (part and not numbers) or end - first != shape[0] or end > total or not 0 <= at <= until <= n_bytes or until - at != math.prod(shape) * _SIZES[dtype]:
        raise BadData(f"'{path}': tensor '{name}{part}' of {shape} does not fit to its place in the file")
    with open(path, "rb") as file:
        file.seek(start + at)
        raw = file.read(until - at)
    if len(raw) != until - at:
        raise BadData(f"'{path}' ends within a tensor")
    return first, total, Values(_DTYPES[dtype], numpy.frombuffer(raw, NUMPY[_DTYPES[dtype]]).reshape(shape))


def _join_dynamic_parts(tensors: _TensorFiles, name: str) -> Values:
    """A dynamic table's tensor; those of checkpoints over ranks are in ranges of keys or buckets."""
    ranges = sorted((_parse_range(tensors, name, *found) for found in tensors.found[name]), key=lambda found: (found[0], len(found[2].array)))
    at = 0
    for first, total, values in ranges:
        if first != at or total != ranges[0][1] or values.dtype != ranges[0][2].dtype or values.array.shape[1:] != ranges[0][2].array.shape[1:]:
            raise BadData(f"'{tensors.path}': the parts of tensor '{name}' are not the whole of it")
        at += len(values.array)
    if at != ranges[0][1]:
        raise BadData(f"'{tensors.path}': the parts of tensor '{name}' are not the whole of it")
    return Values(ranges[0][2].dtype, numpy.concatenate([values.array for _, _, values in ranges]))


def _find_dynamic_state(tensors: _TensorFiles, table: str, rows: str) -> Dict[str, Values]:
    """All of a dynamic table, out of a file of save or a checkpoint."""
    for begin in (_optimizer_state_prefix(rows), f"table/{table}/"):
        if begin + "keys" in tensors.found:
            ends = [name[len(begin) :] for name in tensors.found if name.startswith(begin)]
            return {name_in_state(end): _join_dynamic_parts(tensors, begin + end) for end in ends if not set(end) & {"/", "."}}
    raise NotFound(f"'{tensors.path}' has no keys of table '{table}', which is dynamic", "give a file of save(), or a checkpoint")


def _find_parts_of_table(tensors: _TensorFiles, tables: Tables, t: int, names: Sequence[Name]) -> List[Tuple[_StoredPart, List[_TensorPart]]]:
    """What the files have of a table: its rows, and its optimizer's state or none of it."""
    found = next(((name, begin) for name, begin in names if name in tensors.found), None)
    if found is None:
        raise NotFound(f"'{tensors.path}' has no tensor '{names[0][0]}'", f"it has {', '.join(sorted(tensors.found)[:20])}")
    (_, rows), *slots, (_, step) = _list_stored_parts(tables, t)
    out = [(rows, tensors.parts(found[0], rows.shape, _ROWS))]
    begin = found[1]
    if begin is None:
        return out
    here = [begin + end in tensors.found for end in [*(end for end, _ in slots), "step"]]
    if not any(here[:-1]) and (slots or not here[-1]):
        return out
    if not all(here):
        raise BadData(f"'{tensors.path}' has some of the optimizer's state of table '{tables.tables[t].name}', but not all of it", "it is another optimizer's")
    out += [(slot, tensors.parts(begin + end, slot.shape, {"F32": 4})) for end, slot in slots]
    return [*out, (step, [tensors.step(begin + "step")])]


def _read_part_rows(file: BinaryIO, part: _TensorPart, first: int, n: int) -> bytes:
    """Bytes of rows first .. first + n - 1 of the part's own."""
    row = (part.last - part.first) * _SIZES[part.dtype]
    file.seek(part.at + first * row)
    raw = file.read(n * row)
    if len(raw) != n * row:
        raise BadData(f"'{part.path}' ends within a tensor")
    return raw


def _numbers_from_bytes(raw: bytes, dtype: str) -> Any:
    if dtype == "BF16":
        return (numpy.frombuffer(raw, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    return numpy.frombuffer(raw, {"F32": numpy.float32, "F16": numpy.float16}[dtype])


def _load_part(tables: Tables, stored: _StoredPart, parts: List[_TensorPart], files: Mapping[str, BinaryIO]) -> None:
    if stored.slot == _STEP:
        tables.write_step(stored.table, struct.unpack("<q", _read_part_rows(files[parts[0].path], parts[0], 0, 1))[0])
        return
    for first, n in _row_ranges(stored.shape):
        values = numpy.empty((n, math.prod(stored.shape[1:])), numpy.float32)
        for part in parts:
            begin, end = (max(0, -(-(row - part.begin) // part.step)) for row in (first, first + n))
            if begin < end:
                read = _numbers_from_bytes(_read_part_rows(files[part.path], part, begin, end - begin), part.dtype)
                values[begin * part.step + part.begin - first :: part.step, part.first : part.last] = read.reshape(end - begin, -1)
        tables.write_rows(stored.table, values, stored.slot, first)


def load(tables: Tables, names: Sequence[str], path: str) -> None:
    """What save, an export or a checkpoint has of the tables. Everything is checked before a row changes, but for the state of dynamic tables."""
    places: List[Tuple[_StoredPart, List[_TensorPart]]] = []
    states: Dict[int, Dict[str, Values]] = {}
    error: Optional[BaseException] = None
    try:
        tensors = _TensorFiles(path)
        for t, own in enumerate(names):
            if tables.is_dynamic(t):
                states[t] = _find_dynamic_state(tensors, tables.tables[t].name, own)
            else:
                places += _find_parts_of_table(tensors, tables, t, _names_of_table(tables.tables[t].name, own))
    except (Error, OSError) as failure:
        error = failure
    _raise_on_all_ranks(tables, error)
    try:
        with contextlib.ExitStack() as stack:
            files = {path: stack.enter_context(open(path, "rb")) for path in {part.path for _, parts in places for part in parts}}
            for t, state in states.items():
                tables.write_state(t, state)
            for stored, parts in places:
                _load_part(tables, stored, parts, files)
    except (Error, OSError) as failure:
        error = failure
    _raise_on_all_ranks(tables, error)
