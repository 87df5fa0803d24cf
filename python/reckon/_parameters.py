"""Parameters of a model as arrays over its own memory."""

from __future__ import annotations

import array
import ctypes
from ctypes import POINTER, byref, c_int32
from typing import Any, Iterator, NamedTuple, Tuple

from ._library import check, lib
from ._structs import ModelParameter

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

_F32, _BF16, _F16, _U8 = 0, 1, 2, 8  # rk_dtype
_FORMATS = {_F32: "f", _BF16: "f", _F16: "e", _U8: "B"}


class Parameter(NamedTuple):
    """name as in checkpoints; memory: read-only bytes, which keep what owns them alive. U8: codes of an export, which are mapped."""

    name: str
    dtype: int
    shape: Tuple[int, ...]
    memory: memoryview

    def state_name(self) -> str:
        """As in exports: "embeddings.user.weight" of "table/user/rows"."""
        kind, _, rest = self.name.partition("/")
        name, _, piece = rest.rpartition("/")
        return f"embeddings.{name}.weight" if kind == "table" else f"{kind}.{name}.{piece}"

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

        dtype = {_F32: torch.float32, _BF16: torch.bfloat16, _F16: torch.float16, _U8: torch.uint8}[self.dtype]
        return torch.frombuffer(bytearray(self.memory), dtype=dtype).reshape(self.shape)


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
