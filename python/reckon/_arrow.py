"""Columns from anything that speaks the Arrow C data interface, held in memory, and streams of them for the library."""

from __future__ import annotations

import ctypes
import errno
import itertools
from ctypes import POINTER, byref, c_void_p, cast, pointer
from typing import Any, Dict, Iterator, List, Optional

from ._structs import ArrowArray, ArrowArrayStream, ArrowSchema, GetLastError, GetNext, GetSchema, OpenStream, ReleaseArray, ReleaseSchema, ReleaseStream
from .errors import BadData, InvalidArgument, ReadWriteError

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


# --- what the library is given ------------------------------------------------------------------------------------------------
# Structs that it gets are copies, whose release does nothing: Columns own the memory.


@ReleaseSchema
def _ignore_schema_release(schema: Any) -> None:
    schema.contents.release = None


@ReleaseArray
def _ignore_array_release(array: Any) -> None:
    array.contents.release = None


KEEP_SCHEMA = cast(_ignore_schema_release, c_void_p).value
KEEP_ARRAY = cast(_ignore_array_release, c_void_p).value


def lend_schema(schema: ArrowSchema) -> ArrowSchema:
    out = ArrowSchema.from_buffer_copy(schema)
    out.release = KEEP_SCHEMA
    return out


def lend_array(array: ArrowArray, first: int = 0, n: Optional[int] = None) -> ArrowArray:
    """Rows first .. first+n-1 of a struct array."""
    out = ArrowArray.from_buffer_copy(array)
    out.release = KEEP_ARRAY
    out.offset += first
    out.length = array.length - first if n is None else n
    return out


class Columns:
    """Rows in memory: struct arrays of one schema. Whoever made them keeps what they point to alive until release()."""

    def __init__(self, schema: ArrowSchema, arrays: List[ArrowArray], keep: Any, is_foreign: bool = False) -> None:
        self.schema, self.arrays, self._keep, self._is_foreign = schema, arrays, keep, is_foreign
        self.n_rows = sum(a.length for a in arrays)

    def names(self) -> List[str]:
        return _column_names(self.schema)

    def pieces(self, n: int) -> Iterator[ArrowArray]:
        """All rows in order, at most n at once."""
        for array in self.arrays:
            for first in range(0, array.length, n):
                yield lend_array(array, first, min(n, array.length - first))

    def release(self) -> None:
        """Gives foreign structs back. A second call does nothing."""
        if self._is_foreign:
            for array in self._keep[1]:
                _release_struct(array, ReleaseArray)
            _release_struct(self._keep[0], ReleaseSchema)
        self.arrays, self._keep, self._is_foreign = [], None, False

    def __del__(self) -> None:
        self.release()


def _release_struct(s: Any, kind: Any) -> None:
    if s.release:
        kind(s.release)(byref(s))
        s.release = None


def _take_ownership(kind: Any, address: int) -> Any:
    """Moves a struct out of where its producer has it."""
    source = kind.from_address(address)
    out = kind.from_buffer_copy(source)
    source.release = None
    return out


def _read_stream(data: Any) -> Columns:
    capsule = data.__arrow_c_stream__()
    stream = _take_ownership(ArrowArrayStream, _capsule_pointer(capsule, b"arrow_array_stream"))
    schema, arrays = ArrowSchema(), []

    def ask(function: Any, out: Any) -> None:
        code = function(byref(stream), byref(out))
        if code != 0:
            out.release = None
            said = GetLastError(stream.get_last_error)(byref(stream)) if stream.get_last_error else None
            raise ReadWriteError(f"the data's Arrow stream failed: {ctypes.string_at(said).decode(errors='replace') if said else errno.errorcode.get(code, code)}")

    try:
        ask(GetSchema(stream.get_schema), schema)
        get_next = GetNext(stream.get_next)
        while True:
            array = ArrowArray()
            ask(get_next, array)
            if not array.release:
                break
            arrays.append(array)
        return _columns_of_struct_arrays(schema, arrays)
    except BaseException:
        for array in arrays:
            _release_struct(array, ReleaseArray)
        _release_struct(schema, ReleaseSchema)
        raise
    finally:
        _release_struct(stream, ReleaseStream)


def read(data: Any) -> Columns:
    """Rows of an object with __arrow_c_stream__ or __arrow_c_array__ (a record batch), without a copy of what it hands out."""
    if hasattr(data, "__arrow_c_stream__"):
        return _read_stream(data)
    capsules = data.__arrow_c_array__()
    schema, array = _take_ownership(ArrowSchema, _capsule_pointer(capsules[0], b"arrow_schema")), _take_ownership(ArrowArray, _capsule_pointer(capsules[1], b"arrow_array"))
    try:
        return _columns_of_struct_arrays(schema, [array])
    except BaseException:
        _release_struct(array, ReleaseArray)
        _release_struct(schema, ReleaseSchema)
        raise


def _columns_of_struct_arrays(schema: ArrowSchema, arrays: List[ArrowArray]) -> Columns:
    if schema.format != b"+s":
        raise InvalidArgument(f"the data is no table of named columns, but an Arrow array of format '{(schema.format or b'').decode()}'")
    names = _column_names(schema)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadData(f"the data has several columns '{twice}'", "give each a name of its own")
    return Columns(schema, arrays, (schema, arrays), True)


def _column_names(schema: ArrowSchema) -> List[str]:
    return [(schema.children[i].contents.name or b"").decode(errors="replace") for i in range(schema.n_children)]


# --- arrays and schemas over Python's memory -----------------------------------------------------------------------------------


def with_children(out: Any, children: List[Any], keep: List[Any]) -> Any:
    """The array or schema, which counts its children already."""
    kind = type(out)
    pointers = (POINTER(kind) * max(len(children), 1))(*[pointer(c) for c in children])
    out.children = cast(pointers, POINTER(POINTER(kind)))
    keep += [pointers, children, out]
    return out


def make_array(length: int, buffers: List[Any], null_count: int, keep: List[Any], children: Any = ()) -> ArrowArray:
    """An array over buffers: ctypes objects, addresses or None."""
    addresses = [b if b is None or isinstance(b, int) else ctypes.addressof(b) for b in buffers]
    array = ArrowArray(length=length, null_count=null_count, n_buffers=len(buffers), n_children=len(children), release=KEEP_ARRAY)
    table = (c_void_p * len(buffers))(*addresses)
    array.buffers = cast(table, POINTER(c_void_p))
    keep += [buffers, table]
    return with_children(array, list(children), keep)  # type: ignore[no-any-return]


def validity(values: List[Any], keep: List[Any]) -> Any:
    """(bits or None, how many are None)"""
    n_null = sum(v is None for v in values)
    if not n_null:
        return None, 0
    bits = (ctypes.c_uint8 * ((len(values) + 7) // 8))()
    for i, v in enumerate(values):
        if v is not None:
            bits[i // 8] |= 1 << i % 8
    keep.append(bits)
    return bits, n_null


def text_array(values: List[Optional[bytes]], keep: List[Any]) -> ArrowArray:
    """large_utf8"""
    bits, n_null = validity(values, keep)
    offsets = (ctypes.c_int64 * (len(values) + 1))(0, *itertools.accumulate(len(v or b"") for v in values))
    text = ctypes.create_string_buffer(b"".join(v or b"" for v in values))
    return make_array(len(values), [bits, offsets, text], n_null, keep)


# --- streams --------------------------------------------------------------------------------------------------------------------


class Source:
    """Rows that the library reads as often as it likes, by streams. stop: streams fail from now on."""

    _numbers = itertools.count(1)
    _all: Dict[int, "Source"] = {}
    _readers: Dict[int, List[Any]] = {}  # source, next array

    def __init__(self, columns: Optional[Columns]) -> None:
        self.columns, self.stop, self.number = columns, False, next(Source._numbers)
        Source._all[self.number] = self

    def close(self) -> None:
        Source._all.pop(self.number, None)
        if self.columns:
            self.columns.release()


def _reader_of_stream(stream: Any) -> List[Any]:
    return Source._readers[stream.contents.private_data]


@GetSchema
def _get_schema(stream: Any, out: Any) -> int:
    ctypes.memmove(out, byref(lend_schema(_reader_of_stream(stream)[0].columns.schema)), ctypes.sizeof(ArrowSchema))
    return 0


@GetNext
def _get_next(stream: Any, out: Any) -> int:
    reader = _reader_of_stream(stream)
    source, at = reader
    if source.stop:
        return errno.EINTR
    arrays = source.columns.arrays
    array = lend_array(arrays[at]) if at < len(arrays) else ArrowArray()
    reader[1] = at + 1
    ctypes.memmove(out, byref(array), ctypes.sizeof(ArrowArray))
    return 0


@GetLastError
def _get_last_error(stream: Any) -> None:
    return None


@ReleaseStream
def _release_stream(stream: Any) -> None:
    Source._readers.pop(stream.contents.private_data, None)
    stream.contents.release = None


@OpenStream
def open_stream(user: int, out: Any) -> int:
    """The library's rk_open_stream, where user is a source's number."""
    source = Source._all.get(user)
    if source is None or source.columns is None:
        return errno.ENOENT
    if source.stop:
        return errno.EINTR
    stream = out.contents
    number = next(Source._numbers)
    Source._readers[number] = [source, 0]
    stream.private_data = number
    for name, function in (("get_schema", _get_schema), ("get_next", _get_next), ("get_last_error", _get_last_error), ("release", _release_stream)):
        setattr(stream, name, cast(function, c_void_p).value)
    return 0
