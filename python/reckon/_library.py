"""libreckon.so: where it is, its functions, and how its failures and messages come to Python."""

from __future__ import annotations

import atexit
import ctypes
import logging
import operator
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


def _load_library() -> Any:
    library = ctypes.CDLL(str(find("libreckon.so")))
    for name, result, arguments in FUNCTIONS:
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{library._name} has no {name}: it is older than this package") from None
        function.restype = result
        function.argtypes = arguments
    return library


lib: Any = _load_library()
for _status in range(256):
    _kind = errors.BY_NAME.get(lib.rk_status_name(_status).decode())
    if _kind is not None:
        _kind._code = _status


@LogCallback
def _log_message(_user: Any, level: int, message: bytes) -> None:
    logger.log(_LEVELS[level], "%s", message.decode(errors="replace"))


lib.rk_log_set(_log_message, None, 1)
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


def _check_no_zero_byte(text: bytes, what: str) -> bytes:
    """C would end the text at its first zero byte."""
    if b"\0" in text:
        raise errors.InvalidArgument(f"a zero byte is in the {what} {text.decode(errors='replace')!r}")
    return text


def path_bytes(path: Any) -> bytes:
    """A path as the library takes it."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise errors.InvalidArgument(f"a {type(path).__name__} is no path", "give a str or a pathlib.Path")
    return _check_no_zero_byte(os.fsencode(path), "path")


def text_bytes(text: Any, what: str = "text") -> bytes:
    """A text as the library takes it."""
    if not isinstance(text, str):
        raise errors.InvalidArgument(f"the {what} is a {type(text).__name__}, {text!r}", "give a str")
    try:
        return _check_no_zero_byte(text.encode("utf-8", "surrogateescape"), what)
    except UnicodeEncodeError as error:
        raise errors.InvalidArgument(f"the {what} is no Unicode text: {error}") from None


def int32(value: Any, what: str, least: int = 0) -> int:
    """A whole number that C's int holds; ctypes would cut off what is above."""
    return _whole_number(value, what, least, 2**31 - 1)


def int64(value: Any, what: str) -> int:
    """The same of int64_t, with any sign."""
    return _whole_number(value, what, -(2**63), 2**63 - 1)


def float64(value: Any, what: str) -> float:
    """A number, NaN and infinities among them."""
    try:
        if not isinstance(value, (str, bytes)):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise errors.InvalidArgument(f"{what} is a {type(value).__name__}, {value!r}", "give a number")


def _whole_number(value: Any, what: str, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise errors.InvalidArgument(f"{what} is a {type(value).__name__}, {value!r}", "give a whole number") from None
    if not least <= number <= most:
        raise errors.InvalidArgument(f"{what} is {number}", f"from {least} to {most}")
    return number


def texts(values: Optional[Sequence[str]]) -> Any:
    """An array of C strings, or None."""
    encoded: List[bytes] = [text_bytes(v) for v in values or ()]
    return (ctypes.c_char_p * len(encoded))(*encoded) if encoded else None


def take_text(address: ctypes.c_void_p) -> str:
    """A text that the library gave, which is freed."""
    try:
        return ctypes.string_at(address.value or 0).decode()
    finally:
        lib.rk_text_free(address)
