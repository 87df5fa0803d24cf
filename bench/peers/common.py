"""What all peers share: a workload's arrays (bench/workload.h), the timing of steps, one line of JSON."""
import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np


def arguments():
    """DIRECTORY and the options that every peer takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--config", default="")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    return parser.parse_args()


class Feature:
    def __init__(self, directory, line, n_batches, n):
        self.name, rows, dim, hotness = line.split()
        self.rows, self.dim, self.hotness = int(rows), int(dim), int(hotness)
        self.ids = np.fromfile(directory / f"{self.name}.i64", np.int64).reshape(n_batches, n, self.hotness)


class Workload:
    def __init__(self, directory):
        lines = (directory / "features.txt").read_text().splitlines()
        self.n_batches, self.n, self.n_dense = map(int, lines[0].split())
        self.features = [Feature(directory, line, self.n_batches, self.n) for line in lines[1:]]
        self.case = json.loads((directory / "case.json").read_text())
        self.rate, self.epsilon = self.case["rate"], self.case["epsilon"]
        self.directory = directory
        if self.case["model"]:
            self.labels = np.fromfile(directory / "labels.f32", np.float32).reshape(self.n_batches, self.n)
            self.dense = np.fromfile(directory / "dense.f32", np.float32).reshape(self.n_batches, self.n, self.n_dense)

    def gradients(self):
        """The upstream gradient, a contiguous part for each feature."""
        whole = np.fromfile(self.directory / "gradient.f32", np.float32).reshape(self.n, -1)
        return [np.ascontiguousarray(part) for part in np.split(whole, np.cumsum([f.dim for f in self.features])[:-1], axis=1)]

    def layer(self, name):
        """A linear layer's first values: weight [in, out] and bias [out] (None where it has none)."""
        weight, bias = (self.directory / "dense" / f"{name}.{part}.f32" for part in ("weight", "bias"))
        shape = next(line.split()[1:] for line in (self.directory / "dense" / "shapes.txt").read_text().splitlines() if line.startswith(f"{name}.weight "))
        return np.fromfile(weight, np.float32).reshape(int(shape[0]), int(shape[1])), np.fromfile(bias, np.float32) if bias.exists() else None

    def layers(self, prefix):
        """The layers of one MLP in order."""
        found = []
        while (self.directory / "dense" / f"{prefix}.linear_{len(found)}.weight.f32").exists():
            found.append(self.layer(f"{prefix}.linear_{len(found)}"))
        return found


def timed(step, steps):
    """Calls step(i) for i = 0 .. steps; the first, which touches memory and compiles, is told apart."""
    seconds = []
    for i in range(steps + 1):
        begin = time.perf_counter()
        step(i)
        seconds.append(time.perf_counter() - begin)
    return {"first_seconds": seconds[0], "seconds": seconds[1:]}


def sums(outputs):
    """The two sums by which lookups are compared, over the activations of all features."""
    return {"sum": float(sum(np.sum(o, dtype=np.float64) for o in outputs)),
            "squares": float(sum(np.sum(np.square(o, dtype=np.float64)) for o in outputs))}


def finish(result, threads, *modules):
    result["threads"] = threads
    result["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result["versions"] = {module.__name__: getattr(module, "__version__", "") for module in (np,) + modules}
    print(json.dumps(result))
