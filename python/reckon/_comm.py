"""Ranks that hold tables together: rk_comm."""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_void_p
from typing import Any, Callable, Optional

from ._library import check, lib, logger
from ._structs import Abort, AllToAll, CommFunctions, CommOptions
from .errors import InvalidArgument


class Comm:
    """A communicator. It must outlive what is made with it; close() is called on every rank, and waits for the others."""

    def __init__(self, handle: c_void_p, keeps: Any = None) -> None:
        self._handle, self._keeps = handle, keeps
        self._process = os.getpid()
        self.rank = int(lib.rk_comm_rank(handle))
        self.size = int(lib.rk_comm_size(handle))
        self.description: str = lib.rk_comm_describe(handle).decode()

    @staticmethod
    def world(timeout_s: float) -> "Comm":
        """All ranks that mpirun or srun started."""
        handle = c_void_p()
        check(lib.rk_comm_world(byref(CommOptions(timeout_s=timeout_s)), byref(handle)))
        return Comm(handle)

    @staticmethod
    def from_functions(rank: int, size: int, all_to_all: Callable[[int, Any, int, Any], None], timeout_s: float) -> "Comm":
        """all_to_all(send, send_bytes, receive, receive_bytes): addresses, and sequences of `size` numbers. What it raises ends the communicator."""

        def call(_user: Any, send: Optional[int], send_bytes: Any, receive: Optional[int], receive_bytes: Any) -> int:
            try:
                all_to_all(send or 0, send_bytes[:size], receive or 0, receive_bytes[:size])
                return 0
            except BaseException as error:
                logger.error("rank %d: %s: %s", rank, type(error).__name__, error)
                return 1

        functions = CommFunctions(rank=rank, size=size, all_to_all=AllToAll(call), abort=Abort())
        handle = c_void_p()
        check(lib.rk_comm_from_functions(byref(functions), byref(CommOptions(timeout_s=timeout_s)), byref(handle)))
        return Comm(handle, functions)

    @property
    def handle(self) -> c_void_p:
        if not self._handle:
            raise InvalidArgument("the ranks are closed")
        return self._handle

    def all_reduce(self, address: int, n: int) -> None:
        """n floats: the sum over the ranks, the same bits on each."""
        check(lib.rk_comm_all_reduce_f32(self.handle, address, n))

    def count(self, what: bool) -> int:
        """The ranks for which it is so."""
        value = ctypes.c_float(what)
        self.all_reduce(ctypes.addressof(value), 1)
        return int(value.value)

    def close(self) -> None:
        if self._handle and self._process == os.getpid():  # a forked child is no rank
            lib.rk_comm_free(self._handle)
        self._handle = c_void_p()
