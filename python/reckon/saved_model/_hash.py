"""XXH64 (docs/data.md) in TensorFlow's operators: the ids of `hash`, of crosses and of words beyond a vocabulary."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_P1, _P2, _P3, _P4, _P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_STRIPE, _WORD = 32, 8  # bytes
_ALL = (1 << 64) - 1


def _uint64_constant(value: int) -> Any:
    return tf.constant(value & _ALL, tf.uint64)


def _xor(a: Any, b: Any) -> Any:
    return tf.bitwise.bitwise_xor(a, b)


def _shift_right(x: Any, bits: int) -> Any:
    return tf.bitwise.right_shift(x, _uint64_constant(bits))


def _shift_left(x: Any, bits: int) -> Any:
    return tf.bitwise.left_shift(x, _uint64_constant(bits))


def _low_bits(x: Any, bits: int) -> Any:
    return tf.bitwise.bitwise_and(x, _uint64_constant((1 << bits) - 1))


def _rotate_left(x: Any, bits: int) -> Any:
    return tf.bitwise.bitwise_or(_shift_left(x, bits), _shift_right(x, 64 - bits))


def _xxh64_round(sums: Any, words: Any) -> Any:
    return _rotate_left(sums + words * _uint64_constant(_P2), 31) * _uint64_constant(_P1)


def _mix_in_word(h: Any, word: Any) -> Any:
    return _rotate_left(_xor(h, _xxh64_round(tf.zeros_like(word), word)), 27) * _uint64_constant(_P1) + _uint64_constant(_P4)


def _finalize_hash(h: Any) -> Any:
    h = _xor(h, _shift_right(h, 33)) * _uint64_constant(_P2)
    h = _xor(h, _shift_right(h, 29)) * _uint64_constant(_P3)
    return _xor(h, _shift_right(h, 32))


def _hash_stripes(words: Any, n_stripes: Any, seed: Any) -> Any:
    """Of texts of 32 bytes and more: words [n, words], n_stripes [n]."""
    starts = tf.stack([seed + _uint64_constant(_P1 + _P2), seed + _uint64_constant(_P2), seed, seed - _uint64_constant(_P1)])
    sums = tf.repeat(starts[None], tf.shape(words)[0], axis=0)

    def step(s: Any, sums: Any) -> Any:
        return s + 1, tf.where((s < n_stripes)[:, None], _xxh64_round(sums, words[:, 4 * s : 4 * s + 4]), sums)

    most = tf.reduce_max(tf.concat([n_stripes, [0]], 0))
    _, sums = tf.while_loop(lambda s, _: s < most, step, (0, sums), shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 4])))
    h = _rotate_left(sums[:, 0], 1) + _rotate_left(sums[:, 1], 7) + _rotate_left(sums[:, 2], 12) + _rotate_left(sums[:, 3], 18)
    for k in range(4):
        h = _xor(h, _xxh64_round(tf.zeros_like(h), sums[:, k])) * _uint64_constant(_P1) + _uint64_constant(_P4)
    return h


@tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([], tf.uint64)], autograph=False)
def _hash_texts(texts: Any, seed: Any) -> Any:
    n_bytes = tf.strings.length(texts)
    room = (tf.reduce_max(tf.concat([n_bytes, [0]], 0)) // _STRIPE + 1) * _STRIPE  # a word behind each text's last whole one
    words = tf.bitcast(tf.io.decode_raw(texts, tf.int64, fixed_length=room), tf.uint64)
    n_stripes = n_bytes // _STRIPE
    h = tf.where(n_stripes > 0, _hash_stripes(words, n_stripes, seed), seed + _uint64_constant(_P5)) + tf.cast(n_bytes, tf.uint64)

    def word_at(places: Any) -> Any:
        return tf.gather(words, places[:, None], batch_dims=1)[:, 0]

    for k in range(_STRIPE // _WORD - 1):
        is_there = k < n_bytes % _STRIPE // _WORD
        h = tf.where(is_there, _mix_in_word(h, word_at(tf.where(is_there, n_stripes * 4 + k, 0))), h)
    rest, has_four = word_at(n_bytes // _WORD), n_bytes % _WORD >= 4
    h = tf.where(has_four, _rotate_left(_xor(h, _low_bits(rest, 32) * _uint64_constant(_P1)), 23) * _uint64_constant(_P2) + _uint64_constant(_P3), h)
    rest = tf.where(has_four, _shift_right(rest, 32), rest)
    for k in range(3):
        h = tf.where(k < n_bytes % 4, _rotate_left(_xor(h, _low_bits(_shift_right(rest, 8 * k), 8) * _uint64_constant(_P5)), 11) * _uint64_constant(_P1), h)
    return _finalize_hash(h)


def hash_texts(texts: Any, seed: int) -> Any:
    """texts: strings [n]; uint64 [n]. One function of the graph, however many features call it."""
    return _hash_texts(texts, _uint64_constant(seed))


def combine(a: Any, b: Any) -> Any:
    """The hash of two words, without a seed."""
    return _finalize_hash(_mix_in_word(_mix_in_word(tf.fill(tf.shape(a), _uint64_constant(_P5 + 2 * _WORD)), a), b))


def bucket(hashes: Any, n: int) -> Any:
    """The high 64 bits of hashes * n, as int64."""
    low, high, n_low, n_high = _low_bits(hashes, 32), _shift_right(hashes, 32), _uint64_constant(n & 0xFFFFFFFF), _uint64_constant(n >> 32)
    one, other = low * n_high, high * n_low
    middle = _shift_right(low * n_low, 32) + _low_bits(one, 32) + _low_bits(other, 32)
    return tf.bitcast(high * n_high + _shift_right(one, 32) + _shift_right(other, 32) + _shift_right(middle, 32), tf.int64)
