"""Optimizers of Keras and of tf.tpu.experimental.embedding, in Reckon's words (docs/optimizers.md)."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import keras

from .._embeddings import optimizer_struct
from .._structs import Optimizer
from ..errors import InvalidArgument, Unsupported

_HINT = 'give a dict, such as {"kind": "adagrad", "learning_rate": 0.05} (docs/optimizers.md)'
_NOT_FOR_ROWS = ("weight_decay", "clipnorm", "clipvalue", "global_clipnorm", "use_ema", "loss_scale_factor", "gradient_accumulation_steps", "amsgrad", "l2_shrinkage_regularization_strength")


def _ftrl_options(o: Any) -> Dict[str, Any]:
    return {
        "kind": "ftrl",
        "learning_rate_power": o.learning_rate_power,
        "initial_accumulator": o.initial_accumulator_value,
        "l1": o.l1_regularization_strength,
        "l2": o.l2_regularization_strength,
        "beta": o.beta,
    }


def _sgd_options(o: Any) -> Dict[str, Any]:
    return {"kind": "momentum", "momentum": o.momentum, "nesterov": o.nesterov} if o.momentum else {"kind": "sgd"}


# Keras divides by sqrt(a + epsilon): an accumulator that begins with epsilon in it.
_OF_KERAS: Mapping[str, Callable[[Any], Dict[str, Any]]] = {
    "SGD": _sgd_options,
    "Adagrad": lambda o: {"kind": "adagrad", "initial_accumulator": o.initial_accumulator_value + o.epsilon, "epsilon": 0.0},
    "Adam": lambda o: {"kind": "adam", "beta1": o.beta_1, "beta2": o.beta_2, "epsilon": o.epsilon},
    "Ftrl": _ftrl_options,
}
_OF_TPU: Mapping[str, Callable[[Any], Dict[str, Any]]] = {
    "SGD": lambda o: {"kind": "sgd"},
    "Adagrad": lambda o: {"kind": "adagrad", "initial_accumulator": o.initial_accumulator_value, "epsilon": 0.0},
    "AdagradMomentum": lambda o: {"kind": "adagrad_momentum", "momentum": o.momentum, "nesterov": o.use_nesterov, "exponent": o.exponent, "beta2": o.beta2, "epsilon": o.epsilon},
    "Adam": lambda o: {"kind": "adam", "beta1": o.beta_1, "beta2": o.beta_2, "epsilon": o.epsilon, "sum_inside_sqrt": o.sum_inside_sqrt, "bias_correction": False},
    "FTRL": _ftrl_options,
}
_TPU_COMMON = {
    "clip_weight_min": "clip_weight_min",
    "clip_weight_max": "clip_weight_max",
    "clip_gradient_min": "clip_gradient_min",
    "clip_gradient_max": "clip_gradient_max",
    "weight_decay_factor": "weight_decay",
    "multiply_weight_decay_factor_by_learning_rate": "weight_decay_by_learning_rate",
}


def _convert_options(given: Any, known: Mapping[str, Callable[[Any], Dict[str, Any]]]) -> Dict[str, Any]:
    kind = type(given).__name__
    if kind not in known:
        raise Unsupported(f"the optimizer {kind} has no counterpart for rows", f"one of {', '.join(known)}; or {_HINT}")
    return known[kind](given)


def row_optimizer(given: Any) -> Tuple[Optimizer, Optional[Callable[[], float]]]:
    """An optimizer of rows, and what gives its learning rate anew for each step."""
    if isinstance(given, (str, Mapping)):
        return optimizer_struct(given), None
    if isinstance(given, keras.optimizers.Optimizer):
        options = _convert_options(given, _OF_KERAS)
        extra = [name for name in _NOT_FOR_ROWS if getattr(given, name, None)]
        if extra:
            raise Unsupported(f"the optimizer's {extra[0]} does not work on rows", f"leave it out, or {_HINT}")
        if isinstance(given._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
            raise Unsupported("the optimizer's learning rate is a schedule", "give a number, and set the layer's learning_rate in a callback")
        return optimizer_struct({**options, "learning_rate": float(given.learning_rate)}), None
    if not hasattr(given, "learning_rate"):
        raise InvalidArgument(f"the optimizer is {given!r}", f"one of keras.optimizers or tf.tpu.experimental.embedding; or {_HINT}")
    options = _convert_options(given, _OF_TPU)
    options.update({ours: getattr(given, theirs) for theirs, ours in _TPU_COMMON.items() if getattr(given, theirs, None) is not None})
    rate = given.learning_rate if callable(given.learning_rate) else None
    return optimizer_struct({**options, "learning_rate": float(rate() if rate else given.learning_rate)}), rate
