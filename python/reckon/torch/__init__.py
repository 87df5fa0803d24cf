"""Embedding tables of Reckon in PyTorch models (docs/python.md).

    tables = [reckon.torch.EmbeddingBagConfig(num_embeddings=1_000_000, embedding_dim=64, name="user", feature_names=["user"])]
    bags = reckon.torch.EmbeddingBagCollection(tables, optimizer={"kind": "rowwise_adagrad", "learning_rate": 0.05})
    bags(KeyedJaggedTensor(keys=["user"], values=ids, lengths=lengths))["user"]
"""

from .._embeddings import Dynamic
from ._jagged import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from ._modules import DataType, EmbeddingBag, EmbeddingBagCollection, EmbeddingBagConfig, PoolingType, RowOptimizer
from ._ranks import Ranks

__all__ = [
    "DataType",
    "Dynamic",
    "EmbeddingBag",
    "EmbeddingBagCollection",
    "EmbeddingBagConfig",
    "JaggedTensor",
    "KeyedJaggedTensor",
    "KeyedTensor",
    "PoolingType",
    "Ranks",
    "RowOptimizer",
]
