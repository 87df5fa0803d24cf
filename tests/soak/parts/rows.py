"""The rows of a case: columns that every kind of feature finds something in."""

import math

# Texts that name things, though some look like numbers.
TEXTS = [
    ["1.1", "1.10", "2.0", "2.00", "1e3", "1000", "7", "7.0", ".5", "0.50"],
    ["1", "01", "001", "+1", "-0", "0", "00", "10", "1e1", "16777217"],
    ["1.1", "nan", "inf", "NaN", "-inf", "1e400", "1e-50", "0.1", "0.10000000149"],
    ["1.1", "1.10", "a b", "0x10", "é", '7"', "TRUE", "null", "-"],
]


def number(r):
    """A number that f32 and its text hold alike."""
    return repr(round(r.gauss(0, 2), 3))


def weight_of(case, r):
    """A sample's weight, or none where rows without one have the default."""
    drawn = repr(round(0.25 + r.random() * 2, 2))
    return "" if case.maybe("missing_weights", 0.3) and float(drawn) < 0.6 else drawn


def draw_row(r, case, users, items, latent):
    user, item = r.randrange(users), min(int(r.expovariate(6 / items)), items - 1)
    # A number that f32 holds: of others a typed file has the last digits rounded.
    texts = TEXTS[case.one_of("texts", 0, [0, 0, 1, 2, 3])]
    version, age = r.choice(texts), r.randrange(257) / 256
    tags = [r.randrange(30) for _ in range(r.randrange(5))]
    history = [min(int(r.expovariate(6 / items)), items - 1) for _ in range(r.randrange(6))]
    score = (
        latent["user"][user]
        + latent["item"][item]
        + texts.index(version) % 5 * 0.4
        - 0.8
        + age
        + 0.1 * len(tags)
    )
    click = 1 if r.random() < 1 / (1 + math.exp(-2 * score)) else 0
    bought = 1 if click and r.random() < 0.5 else 0
    missing = case.maybe("missing", 0.3)
    return {
        "click": str(click),
        "bought": "" if case.maybe("optional", 0.3) and r.random() < 0.3 else str(bought),
        "y": repr(round(score * case.one_of("scale", 1, [1, 1, 1, 100, 20000]), 3)),
        "user": str(user),
        "item": str(item),
        "version": version,
        "age": "" if missing and r.random() < 0.1 else repr(age),
        "size": "" if missing and r.random() < 0.1 else number(r),
        "tags": "|".join(map(str, tags)),
        "tag_weights": "|".join(repr(round(0.1 + r.random(), 2)) for _ in tags),
        "history": "|".join(map(str, history)),
        "weight": weight_of(case, r),
        "group": str(r.randrange(9)),
    }


def timestamp(r, case, i):
    """Seconds since the epoch, ten a row, some out of order."""
    late = r.choice([0, 0, 0, 35]) if case.maybe("late_times", 0.5) else 0
    digits = case.one_of("time_digits", 0, [0, 3])
    return f"{1700000000 + 10 * i - late + r.randrange(1000) / 1000:.{digits}f}"


def draw(case, n, split, users, items):
    r, chance = case.chance(f"rows/{split}"), case.chance("latent")
    latent = {
        "user": [chance.gauss(0, 0.7) for _ in range(users)],
        "item": [chance.gauss(0, 0.7) for _ in range(items)],
    }
    rows = [draw_row(r, case, users, items, latent) for _ in range(n)]
    if split == "train" and case.maybe("sorted", 0.1):
        rows.sort(key=lambda row: row["click"])
    times = case.chance(f"times/{split}")
    pairs = case.chance(f"pairs/{split}")
    for i, row in enumerate(rows):
        row["time"] = timestamp(times, case, i)
        row["pair"] = "|".join(repr(pairs.randrange(-64, 64) / 32) for _ in range(2)) if pairs.random() < 0.9 else ""
    return rows


def brands(case, items):
    """A small file to join by the item; some items are not in it."""
    r = case.chance("brands")
    return [{"item": str(i), "brand": r.choice(["a", "b", "c d", "7"])} for i in range(items) if r.random() < 0.8]


def write(path, rows, names, separator=","):
    with open(path, "w", encoding="utf-8") as f:
        f.write(separator.join(names) + "\n")
        f.writelines(separator.join(row[name] for name in names) + "\n" for row in rows)
