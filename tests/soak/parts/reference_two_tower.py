"""A two_tower's training by docs/retrieval.md, in numpy and f64: histories, sampled items and the losses over candidates."""

import collections

import numpy as np

from parts import tape
from parts.reference_case import IDS
from parts.reference_models import Network
from parts.reference_training import Model

ALL, WORD = (1 << 64) - 1, (1 << 32) - 1
SEED = 0x6E656761746976


def philox(seed, stream, counter):
    """Philox4x32-10 (Salmon et al., 2011): four words."""
    c, key = [counter & WORD, counter >> 32, stream & WORD, stream >> 32], [seed & WORD, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ key[0], b & WORD, a >> 32 ^ c[3] ^ key[1], a & WORD]
        key = [(key[0] + 0x9E3779B9) & WORD, (key[1] + 0xBB67AE85) & WORD]
    return c


class TwoTower(Model):
    def __init__(self, given, first, noise):
        self.retrieval, self.seed = given.config["model"]["retrieval"], given.config["train"].get("seed", 1)
        super().__init__(given, first, noise)
        self.n_items = next(feature["identity"] for feature in self.features if feature["name"] == "item")
        self.counts, self.items_of = collections.Counter(), {}
        for user, item in dict.fromkeys((row["user"], row["item"]) for row in given.rows["train"]):  # each pair once
            self.counts[int(item)] += 1
            self.items_of.setdefault(user, []).append(item)

    def lookups(self):
        if self.retrieval["history"]:
            self.features.append({"name": "history", "separator": "|", "identity": IDS["tags"]})
        if tower := self.retrieval.get("user_tower"):
            self.features = [feature for feature in self.features if feature["name"] in (*tower, "item")]
        self.ids.features |= {feature["name"]: feature for feature in self.features}
        return ((feature["name"], feature) for feature in self.features)

    def with_history(self, row, is_training):
        items = [item for item in self.items_of.get(row["user"], []) if not is_training or item != row["item"]]
        return {**row, "history": "|".join(items)}

    def sampled(self):
        """Items of this step, each equally likely."""
        words = [philox(self.seed ^ SEED, self.n_steps, j) for j in range(self.retrieval["negatives"])]
        return [(a << 32 | b) * self.n_items >> 64 for a, b, _, _ in words]

    def tower(self, network, name, x):
        units = self.model["deep"]
        return network.linear(f"{name}/last", network.mlp(name, units[:-1], x)) if units else x

    def normalized(self, x):
        if self.retrieval["similarity"] != "cosine":
            return x
        has_direction = (x.values**2).sum(-1, keepdims=True) > 0  # zeros stay zeros and have no gradient
        return x * has_direction * ((x**2).sum(-1) + ~has_direction) ** -0.5

    def vectors(self, inputs, n, parameters):
        """Those of the first n samples' users, and of all items."""
        network = Network(self.model, parameters, {}, True, self.add_noise if self.noise else None)
        of_user = {name: x[:n] for name, x in inputs.vectors.items() if name != "item"}
        if self.model["deep"]:
            user = self.tower(network, "user", tape.concat(list(of_user.values())))
        else:
            if self.retrieval.get("history_linear"):
                of_user["history"] = network.linear("history", of_user["history"])
            user = sum(of_user.values(), tape.of(0.0))
        return self.normalized(user), self.normalized(self.tower(network, "item", inputs.vectors["item"]))

    def candidates(self, ids, scores):
        """[pairs, items]: 1 where an item is one of the pair's candidates."""
        n, own = len(scores), np.array(ids)
        out = own[:n, None] != own[None, :]
        out[:, :n] &= self.retrieval["in_batch"]
        hard = self.retrieval["hard"]
        for first in range(n, len(ids), hard):
            group = np.where(out[:, first : first + hard], scores[:, first : first + hard], -np.inf)
            out[:, first : first + hard] &= np.arange(hard) == group.argmax(1)[:, None]
        return out.astype(float)

    def log_q(self, ids, n):
        if not self.retrieval.get("log_q", True):
            return np.zeros(len(ids))
        of_pairs = [np.log(self.counts[i] / self.counts.total()) for i in ids]
        uniform = [-np.log(self.n_items)] * len(ids)
        return np.array((of_pairs if self.retrieval["in_batch"] else uniform)[:n] + uniform[n:])

    def losses(self, own, scores, there, ids):
        """[pairs, 1]"""
        kind, n = self.retrieval["loss"], len(there)
        count = np.maximum(there.sum(1, keepdims=True), 1)
        if kind == "cosine_contrastive":
            above = tape.relu(scores - self.retrieval["margin"]) * there
            return 1.0 - own + above.sum(1) * (self.retrieval["negative_weight"] / count)
        factor = 1 / self.retrieval["temperature"]
        if kind == "bpr":
            return (tape.softplus((scores - own) * factor) * there).sum(1) * (1 / count)
        q = self.log_q(ids, n)
        z, own_z = scores * factor - q, own * factor - q[:n, None]
        most = np.maximum(own_z.values, np.where(there > 0, z.values, -np.inf).max(1, keepdims=True))
        shifted = (z - most) * there
        return tape.log((tape.exp(shifted) * there).sum(1) + tape.exp(own_z - most)) + most - own_z

    def step(self, batch):
        n, sampled = len(batch), self.sampled()
        empty = {name: "" for name in batch[0]}
        rows = [*(self.with_history(row, True) for row in batch), *({**empty, "history": "", "item": str(i)} for i in sampled)]
        inputs, looked_up = self.inputs(rows, True)
        parameters = {name: tape.of(parameter.values) for name, parameter in self.dense.items()}
        users, items = self.vectors(inputs, n, parameters)
        ids = [int(row["item"]) for row in rows]
        scores = users @ items.transposed()
        scores = tape.elementwise(scores, scores.values, 1 + self.noise * self.chance.standard_normal(scores.shape))
        own = (scores * np.eye(n, len(ids))).sum(1)
        weights = self.weights(batch)
        losses = self.losses(own, scores, self.candidates(ids, scores.values), ids)
        loss = (losses * (weights / max(weights.sum(), 1e-30))).sum(0)
        self.learn(loss, parameters, looked_up)
        return float(loss.values.sum())

    def predict(self, rows):
        """The scores of pairs."""
        inputs, _ = self.inputs([self.with_history(row, False) for row in rows], False)
        users, items = self.vectors(inputs, len(rows), {name: tape.of(parameter.values) for name, parameter in self.dense.items()})
        return {"score": (users * items).sum(1).values[:, 0]}
