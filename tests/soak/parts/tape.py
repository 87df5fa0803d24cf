"""Values in numpy and f64 that know what they were computed from, so that gradients follow: reverse accumulation, an operation at a time."""

import math

import numpy as np


class Value:
    """values, and for each input a function from the gradient of this to that of the input. Gradients are of the sum that `differentiate` begins with."""

    def __init__(self, values, inputs=()):
        self.values, self.inputs, self.gradient = np.asarray(values, np.float64), inputs, 0.0

    @property
    def shape(self):
        return self.values.shape

    def __add__(self, other):
        other = of(other)
        inputs = [(self, lambda g: reduced(g, self.shape)), (other, lambda g: reduced(g, other.shape))]
        return Value(self.values + other.values, inputs)

    def __mul__(self, other):
        other = of(other)
        inputs = [(self, lambda g: reduced(g * other.values, self.shape)), (other, lambda g: reduced(g * self.values, other.shape))]
        return Value(self.values * other.values, inputs)

    def __sub__(self, other):
        return self + of(other) * -1.0

    def __rsub__(self, other):
        return of(other) - self

    def __matmul__(self, other):
        def of_left(g):
            return reduced(g @ np.swapaxes(other.values, -1, -2), self.shape)

        def of_right(g):
            return reduced(np.swapaxes(self.values, -1, -2) @ g, other.shape)

        return Value(self.values @ other.values, [(self, of_left), (other, of_right)])

    def __getitem__(self, place):
        def spread(g):
            out = np.zeros(self.shape)
            np.add.at(out, place, g)
            return out

        return Value(self.values[place], [(self, spread)])

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, power):
        return elementwise(self, self.values**power, power * self.values ** (power - 1.0))

    def sum(self, axis, keepdims=True):
        def spread(g):
            return np.broadcast_to(g if keepdims else np.expand_dims(g, axis), self.shape)

        return Value(self.values.sum(axis, keepdims=keepdims), [(self, spread)])

    def mean(self, axis):
        return self.sum(axis) * (1 / self.shape[axis])

    def reshape(self, *shape):
        return Value(self.values.reshape(shape), [(self, lambda g: g.reshape(self.shape))])

    def transposed(self):
        """The last two axes."""
        return Value(np.swapaxes(self.values, -1, -2), [(self, lambda g: np.swapaxes(g, -1, -2))])


def of(x):
    return x if isinstance(x, Value) else Value(x)


def reduced(g, shape):
    """The sum over what was broadcast."""
    while g.ndim > len(shape):
        g = g.sum(0)
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axes, keepdims=True) if axes else g


def elementwise(x, values, slopes):
    return Value(values, [(x, lambda g: g * slopes)])


def concat(parts, axis=-1):
    ends = np.cumsum([part.shape[axis] for part in parts])

    def cut(i):
        return lambda g: np.split(g, ends[:-1], axis)[i]

    return Value(np.concatenate([part.values for part in parts], axis), [(part, cut(i)) for i, part in enumerate(parts)])


def sigmoid_of(x):
    return 0.5 * (1 + np.tanh(x / 2))


def sigmoid(x):
    y = sigmoid_of(x.values)
    return elementwise(x, y, y * (1 - y))


def tanh(x):
    y = np.tanh(x.values)
    return elementwise(x, y, 1 - y**2)


def relu(x):
    return elementwise(x, np.maximum(x.values, 0), x.values > 0)


def gelu(x):
    below = 0.5 * (1 + np.vectorize(math.erf)(x.values / math.sqrt(2)))
    return elementwise(x, x.values * below, below + x.values * np.exp(-(x.values**2) / 2) / math.sqrt(2 * math.pi))


def exp(x):
    y = np.exp(x.values)
    return elementwise(x, y, y)


def log(x):
    return elementwise(x, np.log(x.values), 1 / x.values)


def softplus(x):
    """ln(1 + e^x)"""
    return elementwise(x, np.logaddexp(0, x.values), sigmoid_of(x.values))


def softmax(x, there=None):
    """Over the last axis, with those left out that are not there; all zeros where none is."""
    there = np.ones(x.shape) if there is None else np.broadcast_to(there, x.shape).astype(float)
    most = np.where(there > 0, x.values, -np.inf).max(-1, keepdims=True)
    parts = exp((x - np.where(np.isfinite(most), most, 0)) * there) * there
    return parts * (parts.sum(-1) + (there.sum(-1, keepdims=True) == 0)) ** -1.0


def differentiate(top, g):
    """Leave in each value that the top was computed from the gradient of sum(g * top)."""
    order, seen, stack = [], set(), [(top, False)]
    while stack:
        value, is_done = stack.pop()
        if is_done:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            stack += [(value, True), *((part, False) for part, _ in value.inputs)]
    for value in order:
        value.gradient = np.zeros(value.shape)
    top.gradient = top.gradient + g
    for value in reversed(order):
        for part, slope in value.inputs:
            part.gradient = part.gradient + slope(value.gradient)
