#!/usr/bin/env python3
"""MovieLens-100K's u1 split as tables of one row a rating: bench/quality/movielens_rows.py ML-100K FOLDER. Needs numpy.

What is known of a row's user and film (means, neighbours) comes from other ratings than the row's own: training rows are dealt out to ten folds, and a fold sees the
other nine; rows that are measured see all of the training data. A row that only left itself out would give its rating away: it is what is missing from a known sum."""
import gzip
import sys
from pathlib import Path

import numpy as np

FOLDS, SHRINK = 10, 5
GENRES, USERS, ITEMS = 19, 944, 1683
AGES = [18, 25, 35, 45, 50, 56]


def read(path):
    with gzip.open(path, "rt") as f:
        return np.array([list(map(int, line.split("\t"))) for line in f])


class Side:
    def __init__(self, data):
        self.text = [""] * USERS
        self.groups = np.zeros((3, USERS), int)
        names = [{}, {}]
        for line in (data / "u.user").read_text().splitlines():
            u, age, gender, occupation, _ = line.split("|")
            u = int(u)
            self.text[u] = f"{age}\t{gender}\t{occupation}"
            self.groups[:, u] = [names[0].setdefault(gender, len(names[0])), np.searchsorted(AGES, int(age), "right"), names[1].setdefault(occupation, len(names[1]))]
        self.genres = np.zeros((ITEMS, GENRES))
        self.year = ["0"] * ITEMS
        for line in (data / "u.item").read_text(encoding="latin1").splitlines():
            c = line.split("|")
            self.genres[int(c[0])] = [int(x) for x in c[5:5 + GENRES]]
            self.year[int(c[0])] = c[2][-4:] or "0"


def shrunk(total, n, by=SHRINK):
    return total / (n + by)


class Known:
    """What a set of ratings says of users and films."""
    def __init__(self, rows, side):
        u, i, r = rows[:, 0], rows[:, 1], rows[:, 2].astype(float)
        r = r - r.mean()
        add = lambda at, n, w=None: np.bincount(at, w, n)
        self.n_u, self.n_i = add(u, USERS), add(i, ITEMS)
        b_i = shrunk(add(i, ITEMS, r), self.n_i)
        self.b_u = shrunk(add(u, USERS, r - b_i[i]), self.n_u)
        self.b_i = shrunk(add(i, ITEMS, r - self.b_u[u]), self.n_i)
        rest = r - self.b_u[u] - self.b_i[i]
        R, M = np.zeros((USERS, ITEMS)), np.zeros((USERS, ITEMS))
        R[u, i], M[u, i] = rest, 1
        self.items, self.users = self.neighbours(R, M), self.neighbours(R.T, M.T).T
        per_genre = R @ side.genres / (M @ side.genres + SHRINK)
        self.genre = per_genre @ side.genres.T / np.maximum(side.genres.sum(1), 1)
        self.group = []
        for g in side.groups:
            member = np.eye(g.max() + 1)[g]
            self.group.append((shrunk(member.T @ R, member.T @ M, 10))[g])
        order = np.lexsort((rows[:, 3], u))
        self.times = {}
        for k in order:
            self.times.setdefault(u[k], []).append((rows[k, 3], rest[k]))
        self.times = {k: (np.array([t for t, _ in v]), np.cumsum([0] + [x for _, x in v])) for k, v in self.times.items()}

    @staticmethod
    def neighbours(R, M, power=2):
        """Of each (row, column): the mean of the row's values at columns like this one, weighted by shrunk cosines."""
        n = M.T @ M
        length = np.sqrt((R ** 2).T @ M)
        s = R.T @ R / np.maximum(length * length.T, 1e-9) * n / (n + 30)
        s = np.maximum(s, 0) ** power
        np.fill_diagonal(s, 0)
        return R @ s / (M @ s + .1)

    def near(self, u, t):
        """The user's mean rest among ten ratings about this time, and on the day."""
        if u not in self.times:
            return 0, 0
        times, sums = self.times[u]
        at = np.searchsorted(times, t)
        a, b = max(at - 5, 0), min(at + 5, len(times))
        c, d = np.searchsorted(times, [t - 43200, t + 43200])
        return shrunk(sums[b] - sums[a], b - a), shrunk(sums[d] - sums[c], d - c)


COLUMNS = ("user item rating age gender occupation year genres user_mean item_mean user_count item_count like_items like_users genre_mean gender_mean age_mean "
           "occupation_mean near_mean day_mean").split()


def write(path, parts, side):
    with open(path, "w") as f:
        f.write("\t".join(COLUMNS) + "\n")
        for rows, known in parts:
            k = Known(known, side)
            for u, i, r, t in rows:
                numbers = [k.b_u[u], k.b_i[i], np.log1p(k.n_u[u]) / 3 - 1, np.log1p(k.n_i[i]) / 3 - 1, k.items[u, i], k.users[u, i], k.genre[u, i],
                           *(g[u, i] for g in k.group), *k.near(u, t)]
                genres = ",".join(map(str, np.flatnonzero(side.genres[i])))
                f.write("\t".join([str(u), str(i), str(r), side.text[u], side.year[i], genres, *(f"{x:.3f}" for x in numbers)]) + "\n")


def folds(rows):
    place = np.random.default_rng(2).permutation(len(rows)) % FOLDS
    return [(rows[place == f], rows[place != f]) for f in range(FOLDS)]


def prepare(data, out):
    """fit.tsv and valid.tsv, cut from u1.base, by which settings are chosen; train.tsv, all of u1.base, and test.tsv."""
    rows, test, side = read(data / "u1.base.gz"), read(data / "u1.test.gz"), Side(data)
    place = np.random.default_rng(1).permutation(len(rows))
    valid, fit = rows[place[:8000]], rows[place[8000:]]
    out.mkdir(exist_ok=True, parents=True)
    write(out / "fit.tsv", folds(fit), side)
    write(out / "valid.tsv", [(valid, fit)], side)
    write(out / "train.tsv", folds(rows), side)
    write(out / "test.tsv", [(test, rows)], side)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]), Path(sys.argv[2]))
