"""Embedding tables in numpy and f64: which rows a batch's ids find, by docs/data.md, docs/embeddings.md and docs/dynamic_tables.md, and the rows' steps."""

import numpy as np

from parts.optimizers import Parameter

LINEAR, KEYS = "/linear", "/keys"


def cold_rows_of(keys, n):
    """docs/export.md"""
    h = np.asarray(keys, np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(31)
    return np.array([int(x) * n >> 64 for x in h])


class Bags:
    """A feature's ids in a batch, each a row of its table: `coefficients` [places, samples, rows] make of rows the samples' vectors, one a place of a sequence; `uses` [rows]; `order`: ids by their first uses."""

    def __init__(self, batch, feature, ids, n_rows, combiner, length=0):
        self.coefficients = np.zeros((length or 1, len(batch), n_rows))
        self.uses, self.lengths, self.order = np.zeros(n_rows, int), np.zeros(len(batch), int), {}
        for sample, row in enumerate(batch):
            found = ids.ids(row, feature)
            weights = ids.weights(row, feature) if "weights" in feature else [1.0] * len(found)
            kept = [(i, weight) for i, weight in zip(found, weights) if weight > 0 or combiner == "sum"]
            if length:
                kept = kept[:length]
                self.lengths[sample] = len(kept)
            for place, (i, weight) in enumerate(kept):
                self.coefficients[place if length else 0, sample, i] += 1.0 if length else weight
                self.uses[i] += 1
                self.order[i] = True
            if kept and combiner != "sum" and not length:
                own = np.array([weight for _, weight in kept])
                self.coefficients[0, sample] /= own.sum() if combiner == "mean" else np.sqrt((own**2).sum())
        self.used = np.flatnonzero(self.uses)

    def send(self, ids, targets):
        """These ids find other rows; -1: none, which is zeros and has no gradient."""
        moved = self.coefficients[:, :, ids]
        self.coefficients[:, :, ids] = 0
        for i, target in enumerate(targets):
            if target >= 0:
                self.coefficients[:, :, target] += moved[:, :, i]
        uses = self.uses.copy()
        uses[ids] = 0
        np.add.at(uses, [t for t in targets if t >= 0], [self.uses[i] for i, t in zip(ids, targets) if t >= 0])
        self.used = np.flatnonzero(uses)


class Keys:
    """Which keys of a dynamic table with one bucket have a row, by docs/dynamic_tables.md. n_pinned: batches before a batch whose rows stay in it."""

    def __init__(self, own, n, n_pinned):
        eviction = own["eviction"]
        self.capacity, self.min_count, self.policy = own["max_capacity"], own["admission"]["min_count"], eviction["policy"]
        self.left = max(int(eviction["evict_to"] * own["max_capacity"] + 1e-9), eviction["keep"])
        self.ttl, self.keep, self.n_pinned = eviction["ttl_steps"], eviction["keep"], n_pinned
        self.n_batches, self.has_row = 0, np.zeros(n, bool)
        self.counts, self.last = np.zeros(n, int), np.zeros(n, int)  # uses since a row was created or, without one, so far; the last batch that used the key

    def admit(self, uses, order):
        """The keys that get a row in a batch. order: keys by their first uses in it."""
        self.n_batches += 1
        self.counts += uses
        self.last[uses > 0] = self.n_batches
        new = [key for key in order if not self.has_row[key] and self.counts[key] >= self.min_count]
        has_turn = self.ttl and self.n_batches % max(self.ttl // 8, 1) == 0
        if has_turn:
            most = self.has_row.sum() + len(new) - self.keep
            expired = [key for key in self.loose("lru") if self.last[key] <= self.n_batches - self.ttl]
            self.give_up(expired[: max(most, 0)])
        n = self.has_row.sum() + len(new)
        if n > self.capacity and self.policy == "none":
            new = new[: max(self.capacity - self.has_row.sum(), 0)]
        elif n > self.capacity and (new or has_turn):
            self.give_up(self.loose(self.policy)[: n - self.left])
        self.has_row[new] = True
        self.counts[new] = uses[new]
        return np.array(sorted(new), int)

    def loose(self, policy):
        """Rows that may go, the first to go first."""
        rows = [key for key in np.flatnonzero(self.has_row) if self.last[key] < self.n_batches - self.n_pinned]
        return sorted(rows, key=lambda key: (self.counts[key] if policy == "lfu" else 0, self.last[key], key))

    def give_up(self, rows):
        self.has_row[rows] = False
        self.counts[rows] = 0


class Table:
    """Rows by id, and behind them those that keys without a row share. `seen` are the rows that lookups find: with staleness those before the last update."""

    def __init__(self, name, feature, first, embedding, model, n_pinned):
        """first: tensors before the first step, with a row for each id, and of a dynamic table those that keys without a row share."""
        self.name, self.feature, self.is_linear = name, feature, name.endswith(LINEAR)
        own = next((own for own in embedding["tables"] if own["name"] == feature["name"]), {})
        rows, self.is_dynamic = first[f"table/{name}/rows"].astype(np.float64), "max_capacity" in own
        shared = first.get(f"table/{name}/oov_rows", rows[:0])
        self.n_ids, self.n_missing = len(rows), len(shared)
        self.seen = np.concatenate([rows, shared])
        self.keys = Keys(own, self.n_ids, n_pinned) if self.is_dynamic else None
        self.is_cold = isinstance(own.get("missing"), dict)
        self.l2 = model["linear_l2"] if self.is_linear else embedding["l2"]
        self.l2_full = embedding["l2_full"]
        self.combiner = "sum" if self.is_linear else embedding["combiner"]
        self.parameter = Parameter(self.seen, embedding["optimizer"])
        self.first = Parameter(self.seen, embedding["optimizer"])

    def bags(self, batch, ids, length, is_training):
        """Those of a batch; in training it admits keys to a dynamic table."""
        out = Bags(batch, self.feature, ids, len(self.seen), self.combiner, length)
        if self.is_dynamic:
            uses = out.uses[: self.n_ids]
            if is_training:
                self.begin_rows(self.keys.admit(uses, list(out.order)))
            without = np.flatnonzero(~self.keys.has_row & (uses > 0))
            out.send(without, self.missing_row(without))
        return out

    def missing_row(self, keys):
        if not self.n_missing:
            return np.full(len(keys), -1)
        return self.n_ids + (cold_rows_of(keys, self.n_missing) if len(keys) else np.zeros(0, int))

    def begin_rows(self, new):
        """Of keys that were admitted: first values, or those of their cold rows as the batch sees them."""
        values = self.seen[self.missing_row(new)] if self.is_cold else self.first.values[new]
        self.parameter.values[new] = self.seen[new] = values
        for name, slot in self.parameter.slots.items():
            slot[new] = self.first.slots[name][new]

    def update(self, bags, g, step, is_stale, rate_factor):
        """g [places, samples, columns]: of the samples' vectors."""
        rows = slice(None) if self.l2_full else bags.used
        w, before = self.parameter.values, self.parameter.values.copy()
        g = np.einsum("psr,psc->rc", bags.coefficients, g) + self.l2_full * w
        g[bags.used] += self.l2 * w[bags.used]
        self.parameter.step(g[rows], step, rows, rate_factor)
        self.seen = before if is_stale else self.parameter.values.copy()

    def tensors(self):
        own = {"rows": self.parameter.values, **self.parameter.slots}
        start = f"table/{self.name}/"
        if not self.is_dynamic:
            return {start + part: values for part, values in own.items()}
        keys = np.flatnonzero(self.keys.has_row)
        out = {f"table/{self.name}{KEYS}": keys, **{start + part: values[keys] for part, values in own.items()}}
        shared = {f"{start}oov_{part}": values[self.n_ids :] for part, values in own.items()}
        return out | (shared if self.n_missing else {})
