#!/usr/bin/env python3
"""Writes fbgemm_rows.txt beside this script: rows as FBGEMM quantizes them (bench/requirements/torch.txt has the versions).

A line is `bits dim`, the row's values as hexadecimal f32 bits, `:` and the quantized row's bytes in hexadecimal.
"""
import pathlib
import random

import fbgemm_gpu  # noqa: F401  (registers the operations)
import torch

random.seed(3)


def rows(dim):
    for scale in 1e-6, 0.01, 1, 300:
        yield [random.gauss(0, scale) for _ in range(dim)]
        yield [random.uniform(0, scale) for _ in range(dim)]
    yield [0.0] * dim
    yield [0.25] * dim
    yield [-1e-30 * i for i in range(dim)]
    yield [1e-8 * (i % 2) for i in range(dim)]
    yield [float(i % 3) - 1 for i in range(dim)]


def main():
    lines = []
    for dim in 1, 2, 4, 16, 31, 64:
        for row in rows(dim):
            x = torch.tensor([row], dtype=torch.float32)
            values = " ".join(f"{bits & 0xFFFFFFFF:08x}" for bits in x.view(torch.int32)[0].tolist())
            quantized = {8: torch.ops.fbgemm.FloatToFused8BitRowwiseQuantized(x)}
            if dim % 4 == 0:  # the operation takes no other
                quantized[4] = torch.ops.fbgemm.FloatToFusedNBitRowwiseQuantizedSBHalf(x, 4)
            for bits, out in quantized.items():
                lines.append(f"{bits} {dim} {values} : {bytes(out[0].tolist()).hex()}")
    pathlib.Path(__file__).with_name("fbgemm_rows.txt").write_text("\n".join(lines) + "\n")


main()
