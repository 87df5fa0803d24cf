"""Ids and numbers of rows by the definitions of docs/data.md and docs/embeddings.md: what whoever calls an exported model makes himself."""

import bisect
import collections
import itertools
import json
import math
import re
import struct

P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
ALL = (1 << 64) - 1


def rotated(x, bits):
    return (x << bits | x >> (64 - bits)) & ALL


def mixed(total, word):
    return rotated((total + word * P2) & ALL, 31) * P1 & ALL


def xxh64(data, seed=0):
    n, at = len(data), 0
    h = (seed + P5) & ALL
    if n >= 32:
        sums = [(seed + P1 + P2) & ALL, (seed + P2) & ALL, seed & ALL, (seed - P1) & ALL]
        while at + 32 <= n:
            sums = [mixed(total, word) for total, word in zip(sums, struct.unpack_from("<4Q", data, at))]
            at += 32
        h = sum(rotated(total, bits) for total, bits in zip(sums, (1, 7, 12, 18))) & ALL
        for total in sums:
            h = ((h ^ mixed(0, total)) * P1 + P4) & ALL
    h = (h + n) & ALL
    while at + 8 <= n:
        h = (rotated(h ^ mixed(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & ALL
        at += 8
    if at + 4 <= n:
        h = (rotated(h ^ struct.unpack_from("<I", data, at)[0] * P1 & ALL, 23) * P2 + P3) & ALL
        at += 4
    for byte in data[at:]:
        h = rotated(h ^ byte * P5 & ALL, 11) * P1 & ALL
    h = (h ^ h >> 33) * P2 & ALL
    h = (h ^ h >> 29) * P3 & ALL
    return h ^ h >> 32


def hash_of_words(a, b):
    return xxh64(struct.pack("<QQ", a & ALL, b & ALL))


def bucket(h, n):
    return h * n >> 64


def key_of(text):
    """A whole number, or the bits of its text's hash, as a signed number."""
    if re.fullmatch(r"[+-]?\d+(\.0*)?", text) and -(1 << 63) <= int(text.split(".")[0]) < 1 << 64:
        key = int(text.split(".")[0]) & ALL
    else:
        key = xxh64(text.encode())
    return key - (1 << 64) if key >> 63 else key


def words_of(texts, about):
    """A vocabulary by docs/data.md: known values by falling count, equal counts by their bytes."""
    counts = collections.Counter(texts)
    known = sorted((word for word in counts if counts[word] >= about.get("min_count", 1)), key=lambda word: (-counts[word], word.encode()))
    return known[: about.get("max_size") or None]


def parts_of(feature):
    """Rows a value."""
    return feature.get("hash_functions") or (2 if "quotient_remainder" in feature else 1)


class Transforms:
    """What makes a row's ids and numbers. fitted: mean, deviation and boundaries by feature; vocabularies: words, the first one's id first; joined: brands by item."""

    def __init__(self, features, fitted, vocabularies, joined=()):
        self.features, self.fitted = {feature["name"]: feature for feature in features}, fitted
        self.joined = {row["item"]: row["brand"] for row in joined}
        self.vocabularies = {name: {word: i for i, word in enumerate(words)} for name, words in vocabularies.items()}

    @classmethod
    def of_export(cls, folder, data, joined):
        """Those of an exported model."""
        with_words = [feature["name"] for feature in data["features"] if "vocabulary" in feature]
        words = {name: (folder / "vocabulary" / f"{name}.txt").read_text().splitlines() for name in with_words}  # no word here has a line's end
        return cls(data["features"], json.loads((folder / "transforms.json").read_text())["features"], words, joined)

    @classmethod
    def of_rows(cls, features, rows):
        """Vocabularies of these rows; of numbers only those that need no fit."""
        out = cls(features, {}, {})
        for name, feature in out.features.items():
            if "vocabulary" in feature:
                words = words_of([text for row in rows for text in out.all_texts(row, feature)], feature["vocabulary"])
                out.vocabularies[name] = {word: i for i, word in enumerate(words)}
        return out

    def text(self, row, feature):
        column = feature.get("column", feature["name"])
        text = self.joined.get(row["item"], "") if column == "brand" else row[column]
        return text or feature.get("default_value", "")

    def all_texts(self, row, feature):
        text = self.text(row, feature)
        return [part for part in (text.split(feature["separator"]) if "separator" in feature else [text]) if part]

    def texts(self, row, feature):
        return self.all_texts(row, feature)[: feature.get("max_length") or None]

    def weights(self, row, feature):
        """One an id: those of values without an id, or beyond max_length, are left out."""
        own = [float(part) for part in row[feature["weights"]].split("|") if part]
        kept = [weight for text, weight in zip(self.texts(row, feature), own) if self.id_of(feature, text) is not None]
        return [weight for weight in kept for _ in range(parts_of(feature))]

    def id_of(self, feature, text):
        """A value's id, or None; of several hash functions its hash."""
        name, seed = feature["name"], feature.get("hash_seed", 0)
        if "identity" in feature:
            return int(text) - feature.get("identity_offset", 0)
        if "key" in feature:
            return key_of(text)
        if "hash" in feature:
            h = xxh64(text.encode(), seed)
            return h if feature.get("hash_functions") else bucket(h, feature["hash"])
        if "vocabulary" in feature:
            oov = feature["vocabulary"].get("oov", 1)
            if text in self.vocabularies[name]:
                return oov + self.vocabularies[name][text]
            return bucket(xxh64(text.encode(), seed), oov) if oov else None
        boundaries = feature.get("bucketize") or self.fitted[name]["boundaries"]
        return bisect.bisect_right(boundaries, float(text))

    def whole_ids(self, row, feature):
        if "cross" not in feature:
            return [i for i in (self.id_of(feature, text) for text in self.texts(row, feature)) if i is not None]
        parts = [self.whole_ids(row, self.features[name]) for name in feature["cross"]]
        out = []
        for ids in itertools.product(*reversed(parts)):  # the first feature's ids change first
            h = feature.get("hash_seed", 0)
            for i in reversed(ids):
                h = hash_of_words(h, i)
            out.append(h if feature.get("hash_functions") else bucket(h, feature["hash"]))
        return out

    def n_ids(self, feature):
        if "vocabulary" in feature:
            return feature["vocabulary"].get("oov", 1) + len(self.vocabularies[feature["name"]])
        if "identity" in feature or "hash" in feature:
            return feature.get("identity") or feature["hash"]
        return 1 + len(feature.get("bucketize") or self.fitted[feature["name"]]["boundaries"])

    def n_rows(self, feature):
        """Of a table of this feature alone."""
        if "hash_functions" in feature or "quotient_remainder" not in feature:
            return self.n_ids(feature)
        m = feature["quotient_remainder"]
        return -(-self.n_ids(feature) // m) + m

    def ids(self, row, feature):
        """As an exported model takes them."""
        whole = self.whole_ids(row, feature)
        if k := feature.get("hash_functions"):
            name = xxh64(feature["name"].encode(), feature.get("hash_seed", 0))
            seeds = [hash_of_words(name, j) for j in range(k)]
            return [bucket(hash_of_words(h, seed), feature["hash"]) for h in whole for seed in seeds]
        if m := feature.get("quotient_remainder"):
            first = -(-self.n_ids(feature) // m)
            return [part for i in whole for part in (i // m, first + i % m)]
        return whole

    def numbers(self, row, feature):
        """Of a dense feature."""
        width = feature.get("width", 1)
        text = self.text(row, feature)
        parts = text.split(feature["separator"]) if "separator" in feature and text else [text] * width
        if not text:
            return [0.0] * width
        out = []
        about = self.fitted.get(feature["name"])
        for part in parts:
            x = float(part)
            if feature.get("log1p"):
                x = math.copysign(math.log1p(abs(x)), x)
            if feature.get("normalize"):
                x = (x - about["mean"]) / about["deviation"]
            out.append(x)
        return out
