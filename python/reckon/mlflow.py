"""MLflow's flavour: models that are logged, registered and served by MLflow (docs/python.md).

    reckon.mlflow.log_model(model, name="ads")
    mlflow.pyfunc.load_model("models:/ads/1").predict(frame)
"""

from __future__ import annotations

import os
from typing import Any, Optional

import mlflow
import yaml
from mlflow import pyfunc
from mlflow.models import Model as MlflowModel
from mlflow.tracking.artifact_utils import _download_artifact_from_uri

from . import __version__
from ._model import Model, load
from .errors import NotFound

FLAVOR_NAME = "reckon"
_DATA, _DESCRIPTION = "model.reckon", "MLmodel"

__all__ = ["FLAVOR_NAME", "load_model", "log_model", "save_model"]


def save_model(
    model: Model,
    path: str,
    mlflow_model: Optional[MlflowModel] = None,
    signature: Any = None,
    input_example: Any = None,
    metadata: Any = None,
) -> None:
    """Writes a directory that MLflow knows: the model as Model.save writes it, and MLmodel. An input_example gives the signature where there is none."""
    described = mlflow_model or MlflowModel()
    if metadata is not None:
        described.metadata = metadata
    if input_example is not None:
        signature = signature or mlflow.models.infer_signature(input_example, model.predict(input_example))
        os.makedirs(path, exist_ok=True)
        mlflow.models.utils._save_example(described, input_example, path)
    if signature is not None:
        described.signature = signature
    os.makedirs(path, exist_ok=True)
    model.save(os.path.join(path, _DATA))
    pyfunc.add_to_model(described, loader_module="reckon.mlflow", data=_DATA)
    described.add_flavor(FLAVOR_NAME, reckon_version=__version__, data=_DATA)
    described.save(os.path.join(path, _DESCRIPTION))


def log_model(model: Model, name: str, registered_model_name: Optional[str] = None, **more: Any) -> Any:
    """Logs a model to the active run. more: signature, input_example, metadata as save_model takes them, and what mlflow.models.Model.log takes."""
    import reckon.mlflow

    return MlflowModel.log(artifact_path=None, name=name, flavor=reckon.mlflow, registered_model_name=registered_model_name, model=model, **more)


def load_model(model_uri: str) -> Model:
    """The reckon.Model of a logged or registered model, or of a directory that save_model wrote."""
    path = _download_artifact_from_uri(artifact_uri=model_uri)
    with open(os.path.join(path, _DESCRIPTION), encoding="utf-8") as file:
        flavors = (yaml.safe_load(file) or {}).get("flavors", {})
    if FLAVOR_NAME not in flavors:
        raise NotFound(f"'{model_uri}' has no flavour {FLAVOR_NAME}", f"it has {', '.join(flavors)}")
    return load(os.path.join(path, flavors[FLAVOR_NAME]["data"]))


class _PyfuncModel:
    """What mlflow.pyfunc calls."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def predict(self, data: Any, params: Any = None) -> Any:
        return self.model.predict(data)

    def get_raw_model(self) -> Model:
        return self.model


def _load_pyfunc(path: str) -> _PyfuncModel:
    return _PyfuncModel(load(path))
