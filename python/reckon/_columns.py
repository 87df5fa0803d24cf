"""Data of the caller's as columns: tables that export Arrow, data frames, and dicts of arrays and lists."""

from __future__ import annotations

import array
import ctypes
import itertools
import math
import os
import sys
from typing import AbstractSet, Any, Iterable, List, Mapping, Optional, Tuple

from ._arrow import KEEP_SCHEMA, Columns, make_array, read, text_array, validity, with_children
from ._library import text_bytes
from ._structs import ArrowArray, ArrowSchema
from .errors import BadData, Error, InvalidArgument

Column = Tuple[str, ArrowArray, List[Any]]  # format, values, children of the schema
_FORMATS = {"b": "c", "B": "C", "h": "s", "H": "S", "i": "i", "I": "I", "l": "l", "L": "L", "q": "l", "Q": "L", "e": "e", "f": "f", "d": "g"}
_NUMPY = {"i1": "c", "u1": "C", "i2": "s", "u2": "S", "i4": "i", "u4": "I", "i8": "l", "u8": "L", "f2": "e", "f4": "f", "f8": "g"}


def is_path(data: Any) -> bool:
    """A path, or a list of paths, of files."""
    if isinstance(data, (str, os.PathLike)):
        return True
    return isinstance(data, (list, tuple)) and bool(data) and all(isinstance(p, (str, os.PathLike)) for p in data)


def take(data: Any) -> Columns:
    """Columns of anything that holds rows in memory."""
    if isinstance(data, Mapping):
        return _from_mapping(data)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        try:
            return read(data)
        except ImportError:  # pandas hands its columns out by pyarrow
            if not hasattr(data, "columns"):
                raise
        except (TypeError, ValueError, NotImplementedError) as error:
            if isinstance(error, Error):
                raise
            raise BadData(f"the {type(data).__name__} gives no Arrow columns: {error}", "a column's values are of one type, and its name is there once") from error
    if hasattr(type(data), "collect"):  # lazy frames of polars, of Spark
        raise InvalidArgument(f"a {type(data).__name__} is a query, without rows so far", "give what it computes: of polars collect(), of Spark toPandas()")
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):
        return _from_mapping({name: data[name] for name in data.columns})
    raise InvalidArgument(
        f"a {type(data).__name__} holds no columns", "give a table with __arrow_c_stream__ (pandas, polars, pyarrow, DuckDB) or a dict of arrays by column name"
    )


def _from_mapping(data: Mapping[Any, Any]) -> Columns:
    keep: List[Any] = []
    columns = {}
    for name, values in data.items():
        if not isinstance(name, str):
            raise InvalidArgument(f"the name of a column is a text, not {name!r}")
        try:
            columns[name] = _column_from_values(values, keep)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # RuntimeError: of PyTorch, whose tensor has gradients
            raise BadData(f"column '{name}': {error}") from None
    lengths = {name: a.length for name, (_, a, _) in columns.items()}
    n = next(iter(lengths.values()), 0)
    odd = next((name for name in lengths if lengths[name] != n), None)
    if odd:
        raise BadData(f"column '{odd}' has {lengths[odd]} rows and '{next(iter(lengths))}' has {n}")
    children = [_make_schema(c[0], name, c[2], keep) for name, c in columns.items()]
    rows = make_array(n, [None], 0, keep, [c[1] for c in columns.values()])
    return Columns(_make_schema("+s", "", children, keep), [rows], keep)


def _make_schema(form: str, name: str, children: List[Any], keep: List[Any]) -> ArrowSchema:
    schema = ArrowSchema(format=form.encode(), name=text_bytes(name, "name of a column"), flags=2, n_children=len(children), release=KEEP_SCHEMA)
    return with_children(schema, children, keep)  # type: ignore[no-any-return]


def _column_from_values(values: Any, keep: List[Any]) -> Column:
    if isinstance(values, (str, bytes, Mapping, AbstractSet)) or not hasattr(values, "__len__"):
        raise TypeError(f"a {type(values).__name__} is no column of values")
    for to_list in ("to_pylist", "to_list") if hasattr(values, "null_count") else ():  # arrays of pyarrow, series of polars
        if hasattr(values, to_list):
            return _from_list(getattr(values, to_list)(), keep)
    if hasattr(values, "mask") and hasattr(values, "filled"):  # of numpy.ma
        return _from_list(values.tolist(), keep)
    if hasattr(values, "isna") and hasattr(values, "to_numpy") and bool(values.isna().any()):  # of pandas
        return _from_list([None if gone else v for v, gone in zip(values.tolist(), values.isna())], keep)
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if hasattr(values, "__array__") and not hasattr(values, "__array_interface__"):  # tensors of PyTorch and others
        values = values.__array__()
    if hasattr(values, "__array_interface__"):
        return _from_numpy(values, keep)
    if isinstance(values, (array.array, memoryview)):
        return _from_buffer(memoryview(values), keep)
    return _from_list(list(values), keep)


def _from_numpy(values: Any, keep: List[Any]) -> Column:
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind in "OUST":
        return _from_list(values.tolist(), keep)
    if kind == "b":
        values, form = values.astype("u1"), "C"
    elif f"{kind}{size}" in _NUMPY:
        form = _NUMPY[f"{kind}{size}"]
    else:
        raise TypeError(f"numbers of the type {values.dtype} are not taken")
    if values.ndim not in (1, 2):
        raise TypeError(f"an array of {values.ndim} dimensions is no column")
    if not values.flags.c_contiguous:
        values = values.copy(order="C")
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    keep.append(values)
    return _make_number_array(form, values.ctypes.data, values.shape, keep)


def _from_buffer(view: memoryview, keep: List[Any]) -> Column:
    form = _FORMATS.get(view.format.lstrip("@=<" if sys.byteorder == "little" else "@=>"))
    if form in ("l", "L") and view.itemsize == 4:
        form = {"l": "i", "L": "I"}[form]
    if form is None or view.ndim not in (1, 2):
        raise TypeError(f"a buffer of format '{view.format}' and {view.ndim} dimensions is not taken")
    if view.readonly or not view.c_contiguous:
        memory = (ctypes.c_char * view.nbytes).from_buffer_copy(view.tobytes())
    else:
        memory = (ctypes.c_char * view.nbytes).from_buffer(view)
    keep += [view, memory]
    return _make_number_array(form, ctypes.addressof(memory), tuple(view.shape or ()), keep)


def _make_number_array(form: str, address: int, shape: Tuple[int, ...], keep: List[Any]) -> Column:
    """A number a row, or `width` of them."""
    if len(shape) == 1:
        return form, make_array(shape[0], [None, address], 0, keep), []
    values = make_array(shape[0] * shape[1], [None, address], 0, keep)
    return f"+w:{shape[1]}", make_array(shape[0], [None], 0, keep, [values]), [_make_schema(form, "item", [], keep)]


def _none_if_missing(v: Any) -> Any:
    if type(v).__name__ in ("NAType", "NaTType"):  # of pandas
        return None
    return v.item() if hasattr(v, "item") and getattr(v, "ndim", 1) == 0 else v


def _from_list(values: List[Any], keep: List[Any]) -> Column:
    values = [_none_if_missing(v) for v in values]
    kinds = {type(v) for v in values if v is not None}
    if any(issubclass(k, (str, bytes)) for k in kinds):  # a NaN among texts is what pandas has for none
        return "U", text_array([_text_or_none(v) for v in values], keep), []
    if kinds and all(hasattr(k, "__iter__") for k in kinds):
        return _from_lists(values, keep)
    if not all(issubclass(k, (int, float)) for k in kinds):
        odd = next(k for k in kinds if not issubclass(k, (int, float)))
        raise TypeError(f"values of the type {odd.__name__} are not taken")
    bits, n_null = validity(values, keep)
    is_float = any(issubclass(k, float) for k in kinds)
    form, kind = ("g", ctypes.c_double) if is_float else _integer_type(values)
    numbers = (kind * len(values))(*[0 if v is None else v for v in values])
    return form, make_array(len(values), [bits, numbers], n_null, keep), []


def _integer_type(values: List[Optional[int]]) -> Tuple[str, Any]:
    """With a sign, unless only those without have all of the values."""
    over = next((v for v in values if v is not None and not -(2**63) <= v < 2**63), None)
    if over is None:
        return "l", ctypes.c_int64
    if not all(v is None or 0 <= v < 2**64 for v in values):
        raise OverflowError(f"{over} is more than a 64-bit integer")
    return "L", ctypes.c_uint64


def _text_or_none(v: Any) -> Optional[bytes]:
    if v is None or (isinstance(v, float) and math.isnan(v)):
        return None
    if isinstance(v, bytes):
        return v
    if isinstance(v, (str, int, float)):
        return str(v).encode("utf-8", "surrogateescape")
    raise TypeError(f"a {type(v).__name__} among texts")


def _from_lists(values: List[Optional[Iterable[Any]]], keep: List[Any]) -> Column:
    lists = [None if v is None else list(v) for v in values]
    form, items, children = _from_list(list(itertools.chain.from_iterable(v or [] for v in lists)), keep)
    if form.startswith("+"):
        raise TypeError("lists of lists are not taken")
    bits, n_null = validity(lists, keep)
    offsets = (ctypes.c_int64 * (len(lists) + 1))(0, *itertools.accumulate(len(v or []) for v in lists))
    return "+L", make_array(len(lists), [bits, offsets], n_null, keep, [items]), [_make_schema(form, "item", children, keep)]
