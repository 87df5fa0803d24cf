"""Lookup and backward as operators of PyTorch: reckon::embedding_bags and reckon::embedding_bags_backward.

A lookup that trains leaves an rk_lookup behind, which the backward of the same ids takes. It is found by where the ids stand: it holds them, so no other
ids can stand there meanwhile. Where there is none (a graph that goes backward twice), the backward looks up again.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from .._embeddings import F32, I32, I64, Ids, Lookup, Tables
from ..errors import InvalidArgument

_DTYPES = {torch.float32: F32, torch.int32: I32, torch.int64: I64}
_WHOLE = (torch.int32, torch.int64)
_MOST_PENDING = 64  # lookups without a backward; older ones are dropped, of dynamic tables those that so many others followed, too


class OutputMemory:
    """Memory of large outputs, which is used again once no tensor has it: fresh pages would take longer than a lookup."""

    _LEAST, _KEPT = 1 << 22, 2  # bytes, below which malloc does it; and blocks that nobody uses

    def __init__(self) -> None:
        self._idle: List[mmap.mmap] = []

    def empty(self, n: int, width: int) -> Tensor:
        """[n, width], float32."""
        size = 4 * n * width
        if size < self._LEAST:
            return torch.empty(n, width, dtype=torch.float32, device="cpu")
        block = self._take_idle_block(size)
        array = (ctypes.c_char * size).from_buffer(block)  # which the tensor holds
        weakref.finalize(array, self._return_block, block).atexit = False
        return torch.frombuffer(array, dtype=torch.float32).view(n, width)

    def _take_idle_block(self, size: int) -> mmap.mmap:
        while self._idle:
            block = self._idle.pop()
            if size <= len(block) <= 2 * size:
                return block
        block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            block.madvise(mmap.MADV_HUGEPAGE)
        return block

    def _return_block(self, block: mmap.mmap) -> None:
        if len(self._idle) < self._KEPT:
            self._idle.append(block)


class Collection:
    """Tables that operators know by a number."""

    _numbers = itertools.count(1)
    _all: "weakref.WeakValueDictionary[int, Collection]" = weakref.WeakValueDictionary()

    def __init__(self, tables: Tables, updates_in_backward: bool, divisor: int) -> None:
        self.tables, self.updates_in_backward, self.divisor = tables, updates_in_backward, divisor
        self.key_arrays: Dict[Tuple[int, ...], Any] = {}  # as the library takes them
        self.outputs = OutputMemory()
        self.number = next(Collection._numbers)
        self.pending: Dict[Any, List[Tuple[Lookup, Any, int]]] = {}  # lookups, the tensors that they were made of, and their numbers; the oldest first
        self.n_pending = self.n_kept = 0
        Collection._all[self.number] = self

    @staticmethod
    def of(number: int) -> "Collection":
        return Collection._all[number]

    def keep(self, key: Any, lookup: Lookup, tensors: Any) -> None:
        with self.tables.lock:
            self.n_kept += 1
            self.pending.setdefault(key, []).append((lookup, tensors, self.n_kept))
            self.n_pending += 1
            while self.n_pending > _MOST_PENDING or (self.tables.has_dynamic and self._oldest_pending() <= self.n_kept - _MOST_PENDING):
                self.drop(next(iter(self.pending)))

    def _oldest_pending(self) -> int:
        """The number of the oldest that is pending: of a key the last one is taken first."""
        return next(iter(self.pending.values()))[0][2]

    def find(self, key: Any) -> Optional[Lookup]:
        with self.tables.lock:
            kept = self.pending.get(key)
            if not kept:
                return None
            lookup, *_ = kept.pop()
            self.n_pending -= 1
            if not kept:
                del self.pending[key]
            return lookup

    def drop(self, key: Any) -> None:
        lookup = self.find(key)
        if lookup:
            self.tables.give(lookup)

    def drop_all(self) -> None:
        """Before the state of dynamic tables is written: what was looked up has other rows then, and is looked up again if it goes backward."""
        with self.tables.lock:
            while self.pending and self.tables.has_dynamic:
                self.drop(next(iter(self.pending)))

    def refuse(self, trains: bool) -> None:
        """A call that cannot be made on this rank fails on the others."""
        if self.tables.comm:
            lookup = self.tables.take()
            self.tables.refuse(lookup, trains)
            self.tables.give(lookup)

    def key_array(self, keys: Tuple[int, ...]) -> Any:
        known = self.key_arrays.get(keys)
        if known is None:
            known = self.key_arrays[keys] = (ctypes.c_int32 * len(keys))(*keys)
        return known


def _address_dtype_and_size(tensor: Tensor) -> Ids:
    return tensor.data_ptr(), _DTYPES[tensor.dtype], tensor.numel()


def _lookup_key(values: Tensor, offsets: Tensor, weights: Optional[Tensor], keys: Tuple[int, ...], batch: int) -> Any:
    return values.data_ptr(), offsets.data_ptr(), 0 if weights is None else weights.data_ptr(), keys, batch


def _tensor_error(name: str, tensor: Tensor, dtypes: Tuple[torch.dtype, ...]) -> Optional[InvalidArgument]:
    if not tensor.is_cpu:
        return InvalidArgument(f"{name} are on {tensor.device}", "the tables are in the processors' memory: give tensors on the CPU")
    if tensor.dtype not in dtypes:
        return InvalidArgument(f"{name} are {tensor.dtype}", f"give {' or '.join(map(str, dtypes))}")
    return InvalidArgument(f"{name} have {tensor.dim()} dimensions, not one") if tensor.dim() != 1 else None


def _find_input_error(values: Tensor, offsets: Tensor, weights: Optional[Tensor]) -> Optional[InvalidArgument]:
    error = _tensor_error("values", values, _WHOLE) or _tensor_error("offsets", offsets, _WHOLE)
    if error or weights is None:
        return error
    if weights.numel() != values.numel():
        return InvalidArgument(f"{weights.numel()} weights do not fit to {values.numel()} values")
    return _tensor_error("weights", weights, (torch.float32,))


def _look_up(collection: Collection, lookup: Lookup, inputs: Any, out: Tensor, trains: bool) -> None:
    values, offsets, weights, keys, batch = inputs
    n_keys = (offsets.numel() - 1) // batch if batch else max(keys) + 1
    collection.tables.look_up_keyed(
        lookup, batch, collection.key_array(keys), n_keys, _address_dtype_and_size(values), _address_dtype_and_size(offsets), None if weights is None else _address_dtype_and_size(weights), out.data_ptr(), trains
    )


def _look_up_bags(
    anchor: Tensor, values: Tensor, offsets: Tensor, weights: Optional[Tensor], collection: int, keys: List[int], batch: int, width: int, trains: bool
) -> Tensor:
    """Vectors [batch, width]. anchor: an empty tensor, of which autograd takes it that it has a gradient. keys: which of the offsets' keys each feature reads."""
    owner = Collection.of(collection)
    error = _find_input_error(values, offsets, weights)
    if error:
        owner.refuse(trains)
        raise error
    values, offsets = values.contiguous(), offsets.contiguous()
    weights = None if weights is None else weights.contiguous()
    out = owner.outputs.empty(batch, width)
    lookup = owner.tables.take()
    inputs = (values, offsets, weights, tuple(keys), batch)
    try:
        _look_up(owner, lookup, inputs, out, trains)
    except BaseException:
        owner.tables.give(lookup)
        raise
    if trains:
        owner.keep(_lookup_key(*inputs), lookup, (values, offsets, weights))
    else:
        owner.tables.give(lookup)
    return out


def _fake_look_up_bags(anchor: Any, values: Any, offsets: Any, weights: Any, collection: int, keys: Any, batch: int, width: int, trains: bool) -> Any:
    return values.new_empty((batch, width), dtype=torch.float32)


def _apply_bag_gradients(gradient: Tensor, values: Tensor, offsets: Tensor, weights: Optional[Tensor], collection: int, keys: List[int], batch: int) -> Tensor:
    """Gives the rows their gradients; the anchor's is empty."""
    owner = Collection.of(collection)
    gradient = gradient.to(torch.float32).contiguous()
    if owner.divisor != 1:
        gradient = gradient / owner.divisor
    inputs = (values.contiguous(), offsets.contiguous(), None if weights is None else weights.contiguous(), tuple(keys), batch)
    lookup = owner.find(_lookup_key(*inputs))
    if lookup is None:
        lookup = owner.tables.take()
        _look_up(owner, lookup, inputs, gradient.new_empty(batch, owner.tables.width), True)
    try:
        owner.tables.backward(lookup, gradient.data_ptr(), owner.updates_in_backward)
    finally:
        owner.tables.give(lookup)
    return gradient.new_zeros(0)


def _fake_apply_bag_gradients(gradient: Any, values: Any, offsets: Any, weights: Any, collection: int, keys: Any, batch: int) -> Any:
    return gradient.new_empty((0,), dtype=torch.float32)


class _PendingLookup:
    """Goes with a graph's node: what it kept is dropped with it."""

    def __init__(self, collection: int, key: Any) -> None:
        self.collection, self.key = collection, key

    def __del__(self) -> None:
        owner = Collection._all.get(self.collection)
        if owner is not None and self.key is not None:
            owner.drop(self.key)


def _save_for_backward(ctx: Any, inputs: Any) -> None:
    _, values, offsets, weights, collection, keys, batch, _, trains = inputs
    ctx.save_for_backward(values, offsets, weights)
    ctx.collection, ctx.keys, ctx.batch = collection, tuple(keys), batch
    ctx.owner = Collection.of(collection)  # which may lose its module before the backward
    ctx.lease = None
    if trains and type(values) is Tensor and values.is_contiguous() and offsets.is_contiguous() and (weights is None or weights.is_contiguous()):
        ctx.lease = _PendingLookup(collection, _lookup_key(values, offsets, weights, ctx.keys, batch))


class _BagLookupFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        with torch._C._AutoDispatchBelowAutograd():
            out = embedding_bags(*inputs)
        _save_for_backward(ctx, inputs)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        values, offsets, weights = ctx.saved_tensors
        if ctx.lease is not None:
            ctx.lease.key = None  # taken now
        anchor = embedding_bags_backward(gradient, values, offsets, weights, ctx.collection, list(ctx.keys), ctx.batch)
        return anchor, None, None, None, None, None, None, None, None


def _look_up_with_autograd(*inputs: Any) -> Tensor:
    if torch.is_grad_enabled():
        return _BagLookupFunction.apply(*inputs)
    with torch._C._AutoDispatchBelowAutograd():
        return embedding_bags(*inputs)


_LIBRARY = torch.library.Library("reckon", "DEF")  # not torch.library.custom_op, whose checks of each call take longer than a small lookup


def _define_operator(schema: str, call: Any, fake: Any) -> Any:
    name = schema[: schema.index("(")]
    _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, call, "CompositeExplicitAutograd")
    torch.library.register_fake(f"reckon::{name}", fake, lib=_LIBRARY)
    return getattr(torch.ops.reckon, name).default


embedding_bags = _define_operator(
    "embedding_bags(Tensor anchor, Tensor values, Tensor offsets, Tensor? weights, int collection, int[] keys, int batch, int width, bool trains) -> Tensor",
    _look_up_bags,
    _fake_look_up_bags,
)
embedding_bags_backward = _define_operator(
    "embedding_bags_backward(Tensor gradient, Tensor values, Tensor offsets, Tensor? weights, int collection, int[] keys, int batch) -> Tensor",
    _apply_bag_gradients,
    _fake_apply_bag_gradients,
)
_LIBRARY.impl("embedding_bags", _look_up_with_autograd, "Autograd")  # as above, beside torch.library.register_autograd
