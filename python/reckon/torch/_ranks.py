"""Ranks that hold tables together: those of torch.distributed, or of mpirun."""

from __future__ import annotations

import atexit
import ctypes
import weakref
from typing import Any, Optional

import torch
import torch.distributed as distributed
from torch import Tensor

from .._comm import Comm
from .._embeddings import Tables
from ..errors import InvalidArgument


def _view_bytes(address: int, n: int) -> Tensor:
    """A view."""
    return torch.frombuffer((ctypes.c_char * n).from_address(address), dtype=torch.uint8) if n else torch.empty(0, dtype=torch.uint8)


class Ranks:
    """Processes that hold tables together, each with batches of its own. Made by every rank, once for all modules.

    All ranks call the modules' methods in the same order, from one thread at a time: forward, backward, the optimizer's, state_dict, save and load.
    """

    _mpi: Optional["Ranks"] = None

    def __init__(self, comm: Comm) -> None:
        self._comm = comm
        self._tables: "weakref.WeakSet[Tables]" = weakref.WeakSet()

    @classmethod
    def of_torch(cls, group: Any = None, timeout_s: float = 0) -> "Ranks":
        """Those of a process group of torch.distributed (None: all), as torchrun starts them. They talk by a group of their own, over gloo.

        timeout_s: how long ranks wait for each other before one is taken for lost; 0: 300.
        """
        if not (distributed.is_available() and distributed.is_initialized()):
            raise InvalidArgument("torch.distributed has no process group", "call torch.distributed.init_process_group('gloo') first, in a program that torchrun starts")
        members = distributed.get_process_group_ranks(group if group is not None else distributed.group.WORLD)
        own = distributed.new_group(members, backend="gloo", use_local_synchronization=True)

        def all_to_all(send: int, send_bytes: Any, receive: int, receive_bytes: Any) -> None:
            to, from_ = _view_bytes(receive, sum(receive_bytes)), _view_bytes(send, sum(send_bytes))
            distributed.all_to_all_single(to, from_, receive_bytes, send_bytes, group=own)

        return cls(Comm.from_functions(distributed.get_rank(own), len(members), all_to_all, timeout_s))

    @classmethod
    def of_mpi(cls, timeout_s: float = 0) -> "Ranks":
        """All that mpirun or srun started; this process alone, where none did. Unsupported: the library was built without MPI."""
        if cls._mpi is None:
            cls._mpi = cls(Comm.world(timeout_s))
            atexit.register(cls._mpi.close)  # MPI wants to be told
        return cls._mpi

    @property
    def rank(self) -> int:
        return self._comm.rank

    @property
    def size(self) -> int:
        return self._comm.size

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """The sum over the ranks, in place, the same bits on each: of a float32 tensor on the CPU, as the gradients of dense layers."""
        if tensor.dtype != torch.float32 or tensor.device.type != "cpu" or not tensor.is_contiguous():
            raise InvalidArgument(f"a tensor of {tensor.dtype} on {tensor.device}", "all_reduce takes contiguous float32 on the CPU")
        self._comm.all_reduce(tensor.data_ptr(), tensor.numel())
        return tensor

    def close(self) -> None:
        """Ends it, and the tables that these ranks hold. Every rank calls it, and it waits for the others."""
        for tables in list(self._tables):
            tables.close()
        self._comm.close()

    def __repr__(self) -> str:
        return f"Ranks({self._comm.description})"
