#!/usr/bin/env python3
"""Writes python.safetensors beside this script, by the safetensors package itself (pip install safetensors numpy)."""
import pathlib

import numpy
from safetensors.numpy import save_file

tensors = {
    "weight": numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
    "half": numpy.array([1, 2, 3], dtype=numpy.float16),
    "step": numpy.array([-7], dtype=numpy.int64),
    "bytes": numpy.arange(5, dtype=numpy.uint8),
}
save_file(tensors, pathlib.Path(__file__).with_name("python.safetensors"), metadata={"format": "np"})
