#!/usr/bin/env python3
"""Golden losses of retrieval and their gradients, by PyTorch in float64: beside this script, candidate_losses.txt.

    python3 tests/golden/make_candidate_losses.py

A case is a line of its configuration (kind in_batch hard n n_drawn dim temperature margin negative_weight has_log_q weighted), then lines `name values...`."""
import pathlib
import random

import torch

torch.set_default_dtype(torch.float64)
KINDS = ["softmax", "bpr", "cosine_contrastive"]


def exact(rng, n, low, high):
    return torch.tensor([rng.uniform(low, high) for _ in range(n)], dtype=torch.float32).double()


def candidates_of(i, s, ids, first, n, hard):
    """Columns that count for sample i: not its own item; of each `hard` drawn ones the best."""
    columns = [c for c in range(first, len(ids)) if ids[c] != ids[i]]
    if hard == 1:
        return columns
    kept = [c for c in columns if c < n]
    for begin in range(n, len(ids), hard):
        group = [c for c in range(begin, begin + hard) if c in columns]
        if group:
            kept.append(max(group, key=lambda c: s[i, c].item()))
    return kept


def loss_of(case, users, items, ids, log_q, weights):
    n, t = len(users), case["temperature"]
    s = users @ items.T
    total = 0
    for i in range(n):
        columns = candidates_of(i, s, ids, 0 if case["in_batch"] else n, n, case["hard"])
        own, others = s[i, i], s[i, columns]
        if case["kind"] == "softmax":
            logits = torch.cat([(own / t - log_q[i]).reshape(1), others / t - log_q[columns]])
            one = -torch.log_softmax(logits, 0)[0]
        elif case["kind"] == "bpr":
            one = torch.nn.functional.softplus((others - own) / t).mean()
        else:
            one = 1 - own + case["negative_weight"] * torch.relu(others - case["margin"]).mean()
        total = total + weights[i] * one
    return 0.3 * total


def write(out, name, values):
    out.append(" ".join([name, *(f"{v:.12g}" for v in torch.as_tensor(values).detach().reshape(-1).tolist())]))


def write_case(out, rng, **given):
    case = {"in_batch": False, "hard": 1, "n": 5, "n_drawn": 12, "dim": 3, "temperature": 1.0, "margin": 0.0, "negative_weight": 1.0, "log_q": False, "weighted": False} | given
    n, n_items, dim = case["n"], case["n"] + case["n_drawn"], case["dim"]
    users, items = exact(rng, n * dim, -1, 1).reshape(n, dim).requires_grad_(), exact(rng, n_items * dim, -1, 1).reshape(n_items, dim).requires_grad_()
    ids = [rng.randrange(9) for _ in range(n_items)]  # few, so that own items are met among the candidates
    log_q = exact(rng, n_items, -6, -1) if case["log_q"] else torch.zeros(n_items)
    weights = exact(rng, n, 0, 2) if case["weighted"] else torch.ones(n)
    loss = loss_of(case, users, items, ids, log_q, weights)
    loss.backward()
    out.append(f"case {KINDS.index(case['kind'])} {case['in_batch']:d} {case['hard']} {n} {case['n_drawn']} {dim} {case['temperature']} {case['margin']} {case['negative_weight']} "
               f"{case['log_q']:d} {case['weighted']:d}")
    for name, values in [("users", users), ("items", items), ("ids", ids), ("log_q", log_q), ("weights", weights), ("loss", [loss.item()]), ("user_gradient", users.grad),
                         ("item_gradient", items.grad)]:
        write(out, name, values)


def main():
    rng, out = random.Random(5), []
    write_case(out, rng, kind="bpr")
    write_case(out, rng, kind="bpr", temperature=0.25, weighted=True, n=70, n_drawn=40, dim=7)
    write_case(out, rng, kind="bpr", hard=4)
    write_case(out, rng, kind="softmax")
    write_case(out, rng, kind="softmax", log_q=True, temperature=0.2, n=70, n_drawn=40, dim=7)
    write_case(out, rng, kind="softmax", log_q=True, in_batch=True, n_drawn=0, n=12)
    write_case(out, rng, kind="softmax", log_q=True, in_batch=True, weighted=True)
    write_case(out, rng, kind="softmax", hard=3, in_batch=True)
    write_case(out, rng, kind="cosine_contrastive", margin=0.1, negative_weight=7.0, weighted=True)
    write_case(out, rng, kind="cosine_contrastive", margin=-0.2, negative_weight=2.0, in_batch=True, hard=2)
    pathlib.Path(__file__).with_name("candidate_losses.txt").write_text("\n".join(out) + "\n")


main()
