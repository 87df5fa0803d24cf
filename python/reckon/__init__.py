"""Reckon: recommendation models, trained, evaluated and used from Python (docs/python.md).

    model = reckon.train("run.yaml", train=df, valid=df2)
    model.predict(df3)
"""

from . import callbacks
from ._library import lib as _lib
from ._model import Model, load
from ._train import Event, StopTraining, train
from .errors import (
    BadData,
    Busy,
    ConfigError,
    Error,
    InternalError,
    Interrupted,
    InvalidArgument,
    NotFinite,
    NotFound,
    OutOfMemory,
    PeerLost,
    ReadWriteError,
    Unsupported,
)

__version__: str = _lib.rk_version().decode()
__all__ = [
    "BadData",
    "Busy",
    "ConfigError",
    "Error",
    "Event",
    "InternalError",
    "Interrupted",
    "InvalidArgument",
    "Model",
    "NotFinite",
    "NotFound",
    "OutOfMemory",
    "PeerLost",
    "ReadWriteError",
    "StopTraining",
    "Unsupported",
    "__version__",
    "callbacks",
    "load",
    "train",
]
