"""Failures of the library as exceptions."""

from __future__ import annotations

from typing import Dict, Optional, Type


class Error(Exception):
    """A call of the library failed.

    code: the number of the status (rk_status); name: "RK_BAD_DATA", ...; message: what is wrong and where, without the hint;
    hint: what to do about it, or "".

    >>> try:
    ...     reckon.train({"modle": {"kind": "fm"}})
    ... except reckon.Error as error:
    ...     error.name, error.code, error.message, error.hint
    ('RK_CONFIG', 2, "run:2: key 'modle': unknown key in a run file", "did you mean 'model'?")
    """

    name = "RK_UNKNOWN"
    _code = -1  # of the class, told by the library

    def __init__(self, message: str, hint: str = "", code: Optional[int] = None) -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)
        self.message = message
        self.hint = hint
        self.code = self._code if code is None else code

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return type(self), (self.message, self.hint, self.code)


class InvalidArgument(Error, ValueError):
    """An argument is not one that the function takes."""

    name = "RK_INVALID_ARGUMENT"


class ConfigError(Error, ValueError):
    """The run file is wrong; the message names line and key."""

    name = "RK_CONFIG"


class NotFound(Error, LookupError):
    """Something that was named does not exist: a file, a checkpoint, a split."""

    name = "RK_NOT_FOUND"


class BadData(Error, ValueError):
    """Input data is cut, corrupt or of the wrong type; the message names row and column."""

    name = "RK_BAD_DATA"


class ReadWriteError(Error):
    """A file or a stream could not be read or written."""

    name = "RK_IO"


class OutOfMemory(Error, MemoryError):
    """Memory ran out."""

    name = "RK_NO_MEMORY"


class NotFinite(Error, ArithmeticError):
    """A loss, a gradient or a prediction is not a finite number."""

    name = "RK_NOT_FINITE"


class Unsupported(Error):
    """This build, machine or model cannot do it."""

    name = "RK_UNSUPPORTED"


class Interrupted(Error):
    """A caller asked to stop."""

    name = "RK_INTERRUPTED"


class PeerLost(Error):
    """Another rank ended, hangs or cannot be reached."""

    name = "RK_PEER_LOST"


class InternalError(Error):
    """A defect in the library."""

    name = "RK_INTERNAL"


class Busy(Error):
    """Another process trains or exports there."""

    name = "RK_BUSY"


class Unavailable(Error):
    """A service that it needs, as Redis for rows, cannot be reached."""

    name = "RK_UNAVAILABLE"


BY_NAME: Dict[str, Type[Error]] = {
    kind.name: kind
    for kind in (InvalidArgument, ConfigError, NotFound, BadData, ReadWriteError, OutOfMemory, NotFinite, Unsupported, Interrupted, PeerLost, InternalError, Busy, Unavailable)
}
