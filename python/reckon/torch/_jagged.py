"""KeyedJaggedTensor and KeyedTensor: TorchRec's names and shapes, without TorchRec."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import torch
from torch import Tensor

from ..errors import InvalidArgument


def offsets_of(lengths: Tensor) -> Tensor:
    """[0, lengths[0], lengths[0] + lengths[1], ...]"""
    out = lengths.new_zeros(lengths.numel() + 1)
    torch.cumsum(lengths, 0, out=out[1:])
    return out


class JaggedTensor:
    """One key's values: a bag a sample."""

    def __init__(self, values: Tensor, weights: Optional[Tensor] = None, lengths: Optional[Tensor] = None, offsets: Optional[Tensor] = None) -> None:
        if lengths is None and offsets is None:
            raise InvalidArgument("a jagged tensor needs lengths or offsets")
        self._values, self._weights, self._lengths, self._offsets = values, weights, lengths, offsets

    def values(self) -> Tensor:
        return self._values

    def weights_or_none(self) -> Optional[Tensor]:
        return self._weights

    def weights(self) -> Tensor:
        if self._weights is None:
            raise InvalidArgument("the jagged tensor has no weights")
        return self._weights

    def offsets(self) -> Tensor:
        if self._offsets is None:
            assert self._lengths is not None
            self._offsets = offsets_of(self._lengths)
        return self._offsets

    def lengths(self) -> Tensor:
        if self._lengths is None:
            assert self._offsets is not None
            self._lengths = self._offsets[1:] - self._offsets[:-1]
        return self._lengths


class KeyedJaggedTensor(JaggedTensor):
    """Sparse features of a batch: for each key a bag of ids a sample, all of one key behind all of the key before it.

    values: ids, int32 or int64, [total]; weights: float32, [total]; lengths: [keys * batch] or offsets: [keys * batch + 1].
    """

    def __init__(
        self,
        keys: Sequence[str],
        values: Tensor,
        weights: Optional[Tensor] = None,
        lengths: Optional[Tensor] = None,
        offsets: Optional[Tensor] = None,
        stride: Optional[int] = None,
    ) -> None:
        super().__init__(values, weights, lengths, offsets)
        self._keys = list(keys)
        n = self._lengths.numel() if self._lengths is not None else self.offsets().numel() - 1
        self._stride = n // max(len(self._keys), 1) if stride is None else stride
        if n != self._stride * len(self._keys):
            raise InvalidArgument(f"{n} bags are not {self._stride} samples of {len(self._keys)} keys")

    @staticmethod
    def from_lengths_sync(keys: Sequence[str], values: Tensor, lengths: Tensor, weights: Optional[Tensor] = None) -> "KeyedJaggedTensor":
        return KeyedJaggedTensor(keys, values, weights, lengths=lengths)

    @staticmethod
    def from_offsets_sync(keys: Sequence[str], values: Tensor, offsets: Tensor, weights: Optional[Tensor] = None) -> "KeyedJaggedTensor":
        return KeyedJaggedTensor(keys, values, weights, offsets=offsets)

    def keys(self) -> List[str]:
        return self._keys

    def stride(self) -> int:
        """Samples."""
        return self._stride

    def __getitem__(self, key: str) -> JaggedTensor:
        if key not in self._keys:
            raise KeyError(key)
        i, n, offsets = self._keys.index(key), self._stride, self.offsets()
        own = offsets[i * n : (i + 1) * n + 1]
        first, end = int(own[0]), int(own[-1])
        weights = self._weights
        return JaggedTensor(self._values[first:end], None if weights is None else weights[first:end], offsets=own - first)

    def to_dict(self) -> Dict[str, JaggedTensor]:
        return {key: self[key] for key in self._keys}

    def __repr__(self) -> str:
        return f"KeyedJaggedTensor(keys={self._keys}, stride={self._stride}, values={tuple(self._values.shape)})"


class KeyedTensor:
    """Vectors by key, side by side in one tensor [batch, sum of lengths]."""

    def __init__(self, keys: Sequence[str], length_per_key: Sequence[int], values: Tensor, key_dim: int = 1) -> None:
        self._keys, self._length_per_key, self._values, self._key_dim = list(keys), list(length_per_key), values, key_dim

    def keys(self) -> List[str]:
        return self._keys

    def values(self) -> Tensor:
        return self._values

    def key_dim(self) -> int:
        return self._key_dim

    def length_per_key(self) -> List[int]:
        return self._length_per_key

    def offset_per_key(self) -> List[int]:
        out = [0]
        for length in self._length_per_key:
            out.append(out[-1] + length)
        return out

    def __getitem__(self, key: str) -> Tensor:
        if key not in self._keys:
            raise KeyError(key)
        i = self._keys.index(key)
        return self._values.narrow(self._key_dim, self.offset_per_key()[i], self._length_per_key[i])

    def to_dict(self) -> Dict[str, Tensor]:
        return dict(zip(self._keys, torch.split(self._values, self._length_per_key, self._key_dim)))

    def __repr__(self) -> str:
        return f"KeyedTensor(keys={self._keys}, values={tuple(self._values.shape)})"


def like(features: Any, keys: Sequence[str], widths: Sequence[int], values: Tensor) -> Any:
    """Vectors as the library of the features has them: TorchRec's KeyedTensor for its KeyedJaggedTensor."""
    if type(features).__module__.startswith("torchrec."):
        from torchrec.sparse.jagged_tensor import KeyedTensor as Theirs

        return Theirs(list(keys), list(widths), values)
    return KeyedTensor(keys, widths, values)
