"""libreckon.so: where it is, its functions, and how its failures and messages come to Python."""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
from pathlib import Path
from typing import Any, List, Optional, Sequence

from . import errors
from ._structs import FUNCTIONS, LogCallback

logger = logging.getLogger("reckon")
_LEVELS = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR]


def find(name: str) -> Path:
    """A file of the library: beside RECKON_LIBRARY, in the package, or in the build directory of the source tree."""
    told = os.environ.get("RECKON_LIBRARY")
    if told:
        return Path(told) if name == "libreckon.so" else Path(told).parent / name
    here = Path(__file__).resolve().parent
    places = [here / name, here.parents[1] / "build" / name]
    for place in places:
        if place.exists():
            return place
    raise ImportError(f"{name} is neither of {', '.join(map(str, places))}; set RECKON_LIBRARY to the path of libreckon.so")


def _load() -> Any:
    library = ctypes.CDLL(str(find("libreckon.so")))
    for name, result, arguments in FUNCTIONS:
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{library._name} has no {name}: it is older than this package") from None
        function.restype = result
        function.argtypes = arguments
    return library


lib: Any = _load()


@LogCallback
def _log(_user: Any, level: int, message: bytes) -> None:
    logger.log(_LEVELS[level], "%s", message.decode(errors="replace"))


lib.rk_log_set(_log, None, 1)
atexit.register(lib.rk_log_set, LogCallback(), None, 1)


def error_of(status: int) -> errors.Error:
    """The exception of a status that a call on this thread has just returned."""
    name = lib.rk_status_name(status).decode()
    message, _, hint = lib.rk_last_error().decode(errors="replace").partition("\nhint: ")
    return errors.BY_NAME.get(name, errors.Error)(message or name, hint, status)


def check(status: int) -> None:
    """Raises the exception of a status other than RK_OK."""
    if status != 0:
        raise error_of(status)


def is_named(status: int, name: bytes) -> bool:
    """Whether a status is the one of this name."""
    return bool(lib.rk_status_name(status) == name)


def path_bytes(path: Any) -> bytes:
    """A path as the library takes it."""
    return os.fsencode(os.fspath(path))


def texts(values: Optional[Sequence[str]]) -> Any:
    """An array of C strings, or None."""
    encoded: List[bytes] = [v.encode() for v in values or ()]
    return (ctypes.c_char_p * len(encoded))(*encoded) if encoded else None


def take_text(address: ctypes.c_void_p) -> str:
    """A text that the library gave, which is freed."""
    try:
        return ctypes.string_at(address.value or 0).decode()
    finally:
        lib.rk_text_free(address)
