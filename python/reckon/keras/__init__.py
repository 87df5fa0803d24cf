"""Embedding tables of Reckon in Keras models on TensorFlow (docs/python.md).

    users = reckon.keras.TableConfig(vocabulary_size=1_000_000, dim=64, combiner="mean", name="users")
    layer = reckon.keras.EmbeddingLayer({"user": reckon.keras.FeatureConfig(users)}, optimizer=keras.optimizers.Adagrad(0.05))
    layer({"user": ids})["user"]
"""

try:
    import tensorflow as _  # noqa: F401
    import keras as _keras
except ImportError as error:
    raise ImportError(f"reckon.keras needs TensorFlow and Keras 3: {error}") from error
if _keras.config.backend() != "tensorflow":
    raise ImportError(f"reckon.keras needs Keras on TensorFlow, but its backend is {_keras.config.backend()}: set KERAS_BACKEND=tensorflow")

from .._embeddings import Dynamic
from ._configs import FeatureConfig, TableConfig
from ._layer import EmbeddingLayer

__all__ = ["Dynamic", "EmbeddingLayer", "FeatureConfig", "TableConfig"]
