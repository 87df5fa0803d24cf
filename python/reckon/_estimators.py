"""Estimators with scikit-learn's interface (docs/python.md)."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from . import errors
from ._model import Model, model_files, model_of_files
from ._train import Callback, train_in_memory

_LABEL, _WEIGHT = "__label__", "__sample_weight__"  # columns beside X's


def _merge_run_files(base: Mapping[str, Any], over: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    """A run file with the keys of another in place of its own, at any depth."""
    out = dict(base)
    for key, value in (over or {}).items():
        is_section = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = _merge_run_files(out[key], value) if is_section else value
    return out


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, Mapping)


class _Estimator(BaseEstimator):
    """What Classifier and Regressor share: columns of X, the run file, fit."""

    _loss: str
    _is_categorical: List[bool]  # by column
    model_: Model

    def __init__(
        self,
        model: str = "dcn_v2",
        *,
        embedding_dim: int = 8,
        hidden_units: Sequence[int] = (64, 32),
        optimizer: str = "adam",
        learning_rate: float = 0.01,
        batch_size: Union[int, str] = "auto",
        max_epochs: int = 20,
        categorical_features: Union[str, Sequence[Union[str, int]], None] = "from_dtype",
        config: Optional[Mapping[str, Any]] = None,
        output: Optional[str] = None,
        callbacks: Sequence[Callback] = (),
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.embedding_dim = embedding_dim
        self.hidden_units = hidden_units
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.categorical_features = categorical_features
        self.config = config
        self.output = output
        self.callbacks = callbacks
        self.random_state = random_state

    def _checked_columns(self, X: Any, reset: bool) -> Dict[str, Any]:
        """X by column name; numbers are checked as scikit-learn checks them."""
        if not _is_frame(X):
            values = validate_data(self, X, reset=reset, dtype="numeric", ensure_min_samples=1)
            return {f"x{i}": numpy.ascontiguousarray(values[:, i]) for i in range(values.shape[1])}
        validate_data(self, X, reset=reset, skip_check_array=True)
        if len(X) == 0:
            raise ValueError(f"Found array with 0 sample(s) (shape=(0, {len(X.columns)})) while a minimum of 1 is required by {type(self).__name__}.")
        columns = {}
        named = all(isinstance(name, str) for name in X.columns)
        if reset:
            self._is_categorical = self._choose_categorical(list(X.columns), X)
        for i, name in enumerate(X.columns):
            values = X[name]
            columns[name if named else f"x{i}"] = values if self._is_categorical[i] else self._check_numbers(name, values)
        return columns

    def _choose_categorical(self, names: Sequence[Any], X: Any) -> List[bool]:
        """By column. names: of a table's; numbers of an array's."""
        chosen = self.categorical_features
        if isinstance(chosen, str):
            if chosen != "from_dtype":
                raise ValueError(f"categorical_features is '{chosen}': give 'from_dtype', or a list of names or numbers of columns")
            return [_is_frame(X) and not any(word in str(X[name].dtype).lower() for word in ("int", "float", "double", "decimal")) for name in names]
        out = [False] * len(names)
        for column in () if chosen is None else chosen:
            is_number = isinstance(column, (int, numpy.integer)) and not isinstance(column, bool)
            at = names.index(column) if column in names else int(column) if is_number else -1
            if isinstance(column, (bool, numpy.bool_)) or not 0 <= at < len(names):
                raise ValueError(f"categorical_features has {column!r}, which is neither a name nor a number of X's columns, {', '.join(map(str, names))}")
            out[at] = True
        return out

    def _check_numbers(self, name: str, values: Any) -> Any:
        try:
            out = numpy.asarray(values, dtype=numpy.float64)
        except (TypeError, ValueError):
            raise ValueError(f"column '{name}' is no column of numbers; name it in categorical_features") from None
        if not numpy.isfinite(out).all():
            raise ValueError(f"Input X contains NaN or infinity: column '{name}', row {int(numpy.argmin(numpy.isfinite(out)))}.")
        return out

    def _feature_configs(self, columns: Mapping[str, Any]) -> List[Dict[str, Any]]:
        if not self._is_categorical:  # an array
            self._is_categorical = self._choose_categorical(range(len(columns)), None)
        return [
            {"name": name, "vocabulary": {}} if is_categorical else {"name": name, "dense": True, "normalize": True}
            for name, is_categorical in zip(columns, self._is_categorical)
        ]

    def _make_run_file(self, columns: Mapping[str, Any], n: int, weighted: bool) -> Dict[str, Any]:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        batch_size = min(1024, max(16, n // 16)) if self.batch_size == "auto" else self.batch_size
        run: Dict[str, Any] = {
            "data": {"labels": [{"name": _LABEL, "loss": self._loss}], "features": self._feature_configs(columns), "seed": seed},
            "embedding": {"dim": self.embedding_dim},
            "model": {"kind": self.model, "deep": list(self.hidden_units)},
            "train": {
                "batch_size": batch_size,
                "epochs": self.max_epochs,
                "seed": seed,
                "checkpoint": {"keep": 1},
                "optimizer": {"kind": self.optimizer, "learning_rate": self.learning_rate},
            },
        }
        if weighted:
            run["data"]["sample_weight"] = _WEIGHT
        return _merge_run_files(run, self.config)

    def _fit_model(self, X: Any, y: Any, sample_weight: Any) -> None:
        columns = self._checked_columns(X, reset=_is_frame(X))
        n = len(y)
        run = self._make_run_file(columns, n, sample_weight is not None)
        columns[_LABEL] = y
        if sample_weight is not None:
            columns[_WEIGHT] = sample_weight
        self.model_ = train_in_memory(run, columns, self.output, self.callbacks)

    def _check_fit_inputs(self, X: Any, y: Any, sample_weight: Any, **checks: Any) -> Tuple[Any, Any, Any]:
        """Checked X, y and weights."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        self._is_categorical = []
        if _is_frame(X):
            y = column_or_1d(y, warn=True)
            if len(y) != len(X):
                raise ValueError(f"Found input variables with inconsistent numbers of samples: [{len(X)}, {len(y)}]")
        else:
            X, y = validate_data(self, X, y, dtype="numeric", **checks)
        if sample_weight is not None:
            sample_weight = numpy.array(_check_sample_weight(sample_weight, X, dtype=numpy.float64))
        return X, y, sample_weight

    def _predict_values(self, X: Any) -> Any:
        check_is_fitted(self)
        return self.model_.predict(self._checked_columns(X, reset=False)).astype(numpy.float64)


class Classifier(ClassifierMixin, _Estimator):
    """A binary classifier for scikit-learn's pipelines and searches: predict_proba, predict, score.

    X: an array of numbers, or a table of columns (pandas, polars). model: a preset (docs/models.md); hidden_units: of its MLP. categorical_features:
    "from_dtype" (columns of a table that are not numbers), or names or numbers of columns; a list in a cell is a bag of values. Other columns are
    numbers and are normalized. config: keys of the run file in place of those that follow from the parameters. output: where checkpoints and
    metrics go; a temporary directory by default. After fit: model_ (a reckon.Model), classes_, n_features_in_, feature_names_in_.

    >>> data = reckon.datasets.adult(pandas.DataFrame)
    >>> X, y = data.train[["age", "education", "occupation"]], data.train["income"]
    >>> clicks = reckon.Classifier(max_epochs=2, random_state=1).fit(X[:5000], y[:5000])
    >>> clicks.predict_proba(X[5000:5002]).shape
    (2, 2)
    """

    _loss = "sigmoid_cross_entropy"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Classifier":
        X, y, sample_weight = self._check_fit_inputs(X, y, sample_weight)
        check_classification_targets(y)
        self.classes_, codes = numpy.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(f"Only binary classification is supported. The type of the target is {type_of_target(y)}.")
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        self._fit_model(X, codes.astype(numpy.int64), sample_weight)
        return self

    def predict_proba(self, X: Any) -> Any:
        """[rows, 2]: the probabilities of classes_."""
        positive = self._predict_values(X)
        return numpy.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> Any:
        positive = self._predict_values(X)
        return self.classes_[(positive > 0.5).astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.string = tags.input_tags.categorical = False  # of arrays; tables may have them
        return tags


class Regressor(RegressorMixin, _Estimator):
    """A regressor by the mean squared error; parameters as Classifier's. y is learned as it is: where it is not of the size of 1, wrap the regressor in
    sklearn.compose.TransformedTargetRegressor with a StandardScaler.

    >>> X = numpy.arange(200.0).reshape(100, 2)
    >>> reckon.Regressor(random_state=1).fit(X, X[:, 0] / 200).predict(X).shape
    (100,)
    """

    _loss = "mse"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Regressor":
        X, y, sample_weight = self._check_fit_inputs(X, y, sample_weight, y_numeric=True)
        self._fit_model(X, numpy.array(y, numpy.float64), sample_weight)
        return self

    def predict(self, X: Any) -> Any:
        return self._predict_values(X)


class Recommender(BaseEstimator):
    """A two-tower recommender: fit(interactions), recommend(users, k).

    interactions: a table of pairs with the columns `user` and `item`; columns named in user_features describe the user. embedding_dim: of the vectors.
    hidden_units: of both towers' MLPs; none: a user's vector is the sum of its rows. config and output as Classifier's. score is the metric that
    `scoring` names, of held-out interactions: recall@20 by default. After fit: model_, a reckon.Model.

    >>> clicked = reckon.datasets.click_log(into=pandas.DataFrame).train.query("click == 1")
    >>> towers = reckon.Recommender(user="user", item="ad", max_epochs=2, negatives=16, random_state=1).fit(clicked[["user", "ad"]])
    >>> len(towers.recommend([7], k=3)[0]["items"])
    3
    """

    def __init__(
        self,
        user: str = "user",
        item: str = "item",
        *,
        user_features: Sequence[str] = (),
        embedding_dim: int = 32,
        hidden_units: Sequence[int] = (),
        optimizer: str = "adam",
        learning_rate: float = 0.01,
        batch_size: int = 1024,
        max_epochs: int = 10,
        negatives: int = 256,
        scoring: str = "recall@20",
        config: Optional[Mapping[str, Any]] = None,
        output: Optional[str] = None,
        callbacks: Sequence[Callback] = (),
        random_state: Any = None,
    ) -> None:
        self.user = user
        self.item = item
        self.user_features = user_features
        self.embedding_dim = embedding_dim
        self.hidden_units = hidden_units
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.negatives = negatives
        self.scoring = scoring
        self.config = config
        self.output = output
        self.callbacks = callbacks
        self.random_state = random_state

    def _make_run_file(self) -> Dict[str, Any]:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        names = [self.user, *self.user_features, self.item]
        model: Dict[str, Any] = {"kind": "two_tower", "retrieval": {"user": self.user, "item": self.item, "negatives": self.negatives}}
        if len(self.hidden_units):
            model["deep"] = list(self.hidden_units)
        run = {
            "data": {"features": [{"name": name, "vocabulary": {}} for name in names], "seed": seed},
            "embedding": {"dim": self.embedding_dim},
            "model": model,
            "train": {
                "batch_size": self.batch_size,
                "epochs": self.max_epochs,
                "seed": seed,
                "checkpoint": {"keep": 1},
                "metrics": [self.scoring],
                "optimizer": {"kind": self.optimizer, "learning_rate": self.learning_rate},
            },
        }
        return _merge_run_files(run, self.config)

    def fit(self, X: Any, y: Any = None) -> "Recommender":
        """X: interactions, kept for the items that a user knows. y: not looked at."""
        self.interactions_ = X
        self.model_ = train_in_memory(self._make_run_file(), X, self.output, self.callbacks)
        return self

    def recommend(self, users: Any = "train", k: int = 10, *, with_known: bool = False, items: Optional[Sequence[Any]] = None) -> List[Dict[str, Any]]:
        """The k best items of each user: Model.recommend. users: a list of them, a table of users, or those of the interactions."""
        check_is_fitted(self, "model_")
        if not _is_frame(users) and not isinstance(users, (str, os.PathLike, Mapping)):
            users = {self.user: list(users)}
        return self.model_.recommend(users, k=k, with_known=with_known, items=items)

    def score(self, X: Any, y: Any = None) -> float:
        check_is_fitted(self, "model_")
        metrics = self.model_.eval(X)
        if self.scoring not in metrics:
            raise errors.InvalidArgument(f"scoring is '{self.scoring}'", f"one of {', '.join(metrics)}")
        return metrics[self.scoring]

    def __getstate__(self) -> Dict[str, Any]:
        state = dict(super().__getstate__())
        if "model_" in state:  # with its interactions, which a model alone leaves behind
            state["model_"] = model_files(state["model_"])
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        super().__setstate__(state)
        if isinstance(state.get("model_"), dict):
            self.model_ = model_of_files(state["model_"], train=self.interactions_)
