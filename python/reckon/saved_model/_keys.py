"""The 64 bits of texts of a feature with `key: true` (docs/dynamic_tables.md) in TensorFlow's operators."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ._hash import hash_texts

_HALF = 10  # of the 20 digits of 2^64 - 1


def _is_at_most(high: Any, low: Any, limit: int) -> Any:
    most, rest = divmod(limit, 10**_HALF)
    return (high < most) | ((high == most) & (low <= rest))


def keys_of_texts(texts: Any) -> Any:
    """texts: strings [n]; int64 [n]. A whole number from -2^63 to 2^64 - 1 is its bits, signs up to 2^63 - 1; another text its hash."""
    is_number = tf.strings.regex_full_match(texts, r"[ \t]*[+-]?[0-9]+(\.0+)?[ \t]*")
    has_sign, is_negative = (tf.strings.regex_full_match(texts, rf"[ \t]*{sign}.*") for sign in ("[+-]", "-"))
    digits = tf.strings.regex_replace(texts, r"^[ \t]*[+-]?0*([0-9]*)(\.0+)?[ \t]*$", r"\1")
    is_number &= tf.strings.length(digits) <= 2 * _HALF
    digits = tf.where(is_number, digits, "")
    padded = tf.strings.substr(tf.strings.join(["0" * (2 * _HALF), digits]), tf.strings.length(digits), tf.fill(tf.shape(digits), 2 * _HALF))
    high, low = (tf.strings.to_number(tf.strings.substr(padded, first, _HALF), tf.int64) for first in (0, _HALF))
    is_number &= _is_at_most(high, low, 2**63 - 1) | (is_negative & _is_at_most(high, low, 2**63)) | (~has_sign & _is_at_most(high, low, 2**64 - 1))
    bits = tf.cast(high, tf.uint64) * tf.constant(10**_HALF, tf.uint64) + tf.cast(low, tf.uint64)
    bits = tf.where(is_negative, tf.bitwise.invert(bits) + tf.constant(1, tf.uint64), bits)  # 0 - bits becomes Neg, which uint64 has not
    return tf.bitcast(tf.where(is_number, bits, hash_texts(texts, 0)), tf.int64)
