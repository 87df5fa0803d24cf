#!/usr/bin/env python3
"""Golden optimizer steps by PyTorch in float64: writes optimizers.h beside this script.

    python3 tests/golden/make_optimizers.py
"""
import pathlib
import random

import torch

torch.set_default_dtype(torch.float64)
DIM, STEPS = 7, 8
# Our kind and options, and PyTorch's optimizer of the same equation.
CASES = [
    ("SGD", "", lambda p: torch.optim.SGD(p, lr=0.1)),
    ("MOMENTUM", ".momentum = 0.8", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8)),
    ("MOMENTUM", ".momentum = 0.8, .nesterov = true", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True)),
    ("ADAGRAD", ".initial_accumulator = 0.1, .epsilon = 1e-8", lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.1, eps=1e-8)),
    ("ADAM", ".beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-7, .bias_correction = true", lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.9, 0.99), eps=1e-7)),
    ("ADAMW", ".beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-7, .bias_correction = true, .weight_decay = 0.05, .weight_decay_by_learning_rate = true",
     lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.9, 0.99), eps=1e-7, weight_decay=0.05)),
]


def numbers(values):
    return "{" + ", ".join(f"{float(v):.9g}" for v in values) + "}"


def main():
    draw = random.Random(4)
    start = [round(draw.gauss(0, 1), 4) for _ in range(DIM)]
    gradients = [[round(draw.gauss(0, 1), 4) for _ in range(DIM)] for _ in range(STEPS)]
    lines = ["/* Made by make_optimizers.py with PyTorch; not edited by hand. */", f"enum {{ GOLDEN_DIM = {DIM}, GOLDEN_STEPS = {STEPS} }};",
             f"static const float golden_start[GOLDEN_DIM] = {numbers(start)};",
             "static const float golden_gradients[GOLDEN_STEPS][GOLDEN_DIM] = {" + ", ".join(map(numbers, gradients)) + "};",
             "static const struct {", "    rk_optimizer optimizer;", "    double steps[GOLDEN_STEPS][GOLDEN_DIM];", "} goldens[] = {"]
    for kind, options, make in CASES:
        weight = torch.tensor(start, requires_grad=True)
        optimizer, seen = make([weight]), []
        for gradient in gradients:
            weight.grad = torch.tensor(gradient)
            optimizer.step()
            seen.append(weight.detach().clone())
        options = ", " + options if options else ""
        lines.append(f"    {{{{.kind = RK_OPTIMIZER_{kind}, .learning_rate = 0.1{options}, .clip_gradient_min = -INFINITY, .clip_gradient_max = INFINITY,"
                     f" .clip_weight_min = -INFINITY, .clip_weight_max = INFINITY}}, {{{', '.join(map(numbers, seen))}}}}},")
    lines.append("};")
    pathlib.Path(__file__).with_name("optimizers.h").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
