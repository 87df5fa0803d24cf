"""Trained models as TensorFlow's SavedModel (docs/export.md): Model.export_saved_model."""

try:
    import tensorflow as _  # noqa: F401
except ImportError as error:
    raise ImportError(f"export_saved_model needs TensorFlow: {error}") from error

from ._export import export

__all__ = ["export"]
