"""Parameters of a model as arrays over its own memory."""

from __future__ import annotations

import array
import ctypes
import math
from ctypes import POINTER, byref, c_int32
from typing import Any, Iterable, Iterator, NamedTuple, Sequence, Tuple, Union

from ._library import check, lib
from ._structs import ModelParameter

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

_Rows = Union[Sequence[int], "numpy.ndarray"]  # their numbers
_F32, _BF16, _F16, _I64, _U8 = 0, 1, 2, 7, 8  # rk_dtype
_FORMATS = {_F32: "f", _BF16: "f", _F16: "e", _I64: "q", _U8: "B"}


class Parameter(NamedTuple):
    """name as in checkpoints; memory: read-only bytes, which keep what owns them alive. U8: codes of an export, which are mapped."""

    name: str
    dtype: int
    shape: Tuple[int, ...]
    memory: memoryview

    def state_name(self) -> str:
        """As in exports: "embeddings.user.weight" of "table/user/rows", "embeddings.user.keys" of "table/user/keys"."""
        kind, _, rest = self.name.partition("/")
        name, _, piece = rest.rpartition("/")
        if kind == "table":
            return f"embeddings.{name}.{'keys' if piece == 'keys' else 'weight'}"
        return f"{kind}.{name}.{piece}"

    def to_array(self) -> Any:
        """A numpy array, or a memoryview where numpy is not installed; a view but for bfloat16, which neither has and which becomes float32."""
        if numpy is None:
            memory = self.memory
            if self.dtype == _BF16:
                memory = memoryview(array.array("I", (bits << 16 for bits in memory.cast("H")))).toreadonly().cast("B")
            return memory.cast(_FORMATS[self.dtype], list(self.shape))
        if self.dtype == _BF16:
            values = (numpy.frombuffer(self.memory, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
        else:
            values = numpy.frombuffer(self.memory, _FORMATS[self.dtype])
        return values.reshape(self.shape)

    def to_torch(self) -> Any:
        """A tensor of the same dtype, which owns its memory."""
        import torch

        dtype = {_F32: torch.float32, _BF16: torch.bfloat16, _F16: torch.float16, _I64: torch.int64, _U8: torch.uint8}[self.dtype]
        if not self.memory.nbytes:
            return torch.zeros(self.shape, dtype=dtype)
        return torch.frombuffer(bytearray(self.memory), dtype=dtype).reshape(self.shape)

    def of_rows(self, order: _Rows, last: bytes) -> Parameter:
        """A copy of these rows, and `last` behind them."""
        n, row = self.shape[0], lib.rk_dtype_bytes(self.dtype) * math.prod(self.shape[1:])
        if numpy is None:
            parts = b"".join(self.memory[i * row : (i + 1) * row] for i in order) + last
        else:
            parts = numpy.frombuffer(self.memory, numpy.uint8).reshape(n, row)[order].tobytes() + last
        return self._replace(shape=(len(parts) // row, *self.shape[1:]), memory=memoryview(parts))


def _argsort_keys(keys: Parameter) -> _Rows:
    if numpy is not None:
        return numpy.argsort(keys.to_array())
    values = keys.memory.cast("q")
    return sorted(range(len(values)), key=values.__getitem__)


def as_exported(all_parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    """With rows of dynamic tables as an export has them: in the order of their keys, which ascend, and behind them the rows that other keys share."""
    by_name = {p.name: p for p in all_parameters}
    orders = {name[: -len("/keys")]: _argsort_keys(p) for name, p in by_name.items() if name.endswith("/keys")}
    for name, parameter in by_name.items():
        table, _, piece = name.rpartition("/")
        if table not in orders:
            yield parameter
        elif piece == "keys":
            yield parameter.of_rows(orders[table], b"")
        elif piece == "rows":
            other = by_name.get(table + "/oov_rows")
            zeros = bytes(lib.rk_dtype_bytes(parameter.dtype) * parameter.shape[1])
            yield parameter.of_rows(orders[table], bytes(other.memory) if other else zeros)


def parameters(predictor: Any, owner: Any) -> Iterator[Parameter]:
    """All parameters of a predictor's model, which `owner` keeps alive; None: copies. One thread at a time."""
    entries, n = POINTER(ModelParameter)(), c_int32()
    check(lib.rk_model_parameters(lib.rk_predictor_model(predictor), byref(entries), byref(n)))
    for i in range(n.value):
        tensor = entries[i].tensor
        shape = tuple(tensor.shape[: tensor.n_dims])
        n_bytes = lib.rk_tensor_n_values(byref(tensor)) * lib.rk_dtype_bytes(tensor.dtype)
        values = (ctypes.c_char * n_bytes).from_address(tensor.data)
        if owner is None:
            values = type(values).from_buffer_copy(values)
        else:
            values.owner = owner
        yield Parameter(entries[i].name.decode(), tensor.dtype, shape, memoryview(values).toreadonly().cast("B"))
