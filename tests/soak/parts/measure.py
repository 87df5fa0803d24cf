"""Metrics by their definitions, as bounds, and what a run's log says is best."""

import math


def auc(rows, resolution=0.0):
    """rows: (prediction, label, weight). What it is at least and at most, where predictions that are closer than resolution (of them) may stand in any order; both NaN for one class."""
    least = most = total = 0.0
    for p, y, w in rows:
        for q, z, v in rows:
            pairs = w * y * v * (1 - z)
            total += pairs
            near = abs(p - q) <= resolution * max(abs(p), abs(q))
            least += pairs * (0 if near and resolution else p > q or (p == q) / 2)
            most += pairs * (1 if near and resolution else p > q or (p == q) / 2)
    return (least / total, most / total) if total else (math.nan, math.nan)


def logloss(rows):
    total = sum(w for _, _, w in rows)
    cost = sum(
        w
        * -(
            y * math.log(min(max(p, 1e-15), 1 - 1e-15))
            + (1 - y) * math.log(min(max(1 - p, 1e-15), 1 - 1e-15))
        )
        for p, y, w in rows
    )
    return cost / total, cost / total


def rmse(rows):
    value = math.sqrt(sum(w * (p - y) ** 2 for p, y, w in rows) / sum(w for _, _, w in rows))
    return value, value


def judge(entries, metric, larger, min_delta, patience=None):
    """The best step; and how many evaluations there are until so many in a row were not better by more than min_delta, or None."""
    best = step = passed = until = None
    bad = 0
    for i, entry in enumerate(entries):
        value = entry.get(metric)
        if value is None or math.isnan(value):
            continue
        if best is None or (value > best if larger else value < best):
            best, step = value, entry["step"]
        if passed is None or (value > passed + min_delta if larger else value < passed - min_delta):
            passed, bad = value, 0
            continue
        bad += 1
        if bad == patience and until is None:
            until = i + 1
    return step, until
