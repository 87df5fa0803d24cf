"""Reckon: recommendation models, trained, evaluated, used and served from Python (docs/python.md).

    model = reckon.train("run.yaml", train=df, valid=df2)
    model.predict(df3)
    reckon.serve(model).wait()
"""

from typing import TYPE_CHECKING, Any

from . import callbacks, datasets
from ._library import lib as _lib
from ._model import Model, load
from ._serve import Server, serve
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
    Unavailable,
    Unsupported,
)

if TYPE_CHECKING:
    from ._estimators import Classifier, Recommender, Regressor

__version__: str = _lib.rk_version().decode()
__all__ = [
    "BadData",
    "Busy",
    "Classifier",
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
    "Recommender",
    "Regressor",
    "Server",
    "StopTraining",
    "Unavailable",
    "Unsupported",
    "__version__",
    "callbacks",
    "datasets",
    "load",
    "serve",
    "train",
]


def __getattr__(name: str) -> Any:
    """The estimators, which need scikit-learn."""
    if name in ("Classifier", "Recommender", "Regressor"):
        try:
            from . import _estimators
        except ImportError as error:
            raise ImportError(f"reckon.{name} needs scikit-learn: {error}") from error
        return getattr(_estimators, name)
    raise AttributeError(f"module 'reckon' has no attribute '{name}'")
