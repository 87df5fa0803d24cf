#!/usr/bin/env python3
"""The house's walls: includes go only downward, internal headers do not leak, file names are unique.

    check_includes.py SOURCE_DIR
"""
import pathlib
import re
import sys

# A layer and all it may include besides itself; the order is the house's, bottom up.
USES = {
    "base": set(),
    "kernels": {"base"},
    "cuda": {"base", "kernels"},
    "comm": {"base", "cuda"},
    "format": {"base"},
    "optim": {"base", "kernels"},
    "embedding": {"base", "kernels", "cuda", "optim", "comm"},
    "nn": {"base", "kernels", "cuda", "optim"},
    "data": {"base", "format"},
    "model": {"base", "kernels", "cuda", "comm", "format", "optim", "embedding", "nn", "data"},
    "metrics": {"base", "kernels"},
    "train": {"base", "kernels", "cuda", "comm", "format", "optim", "embedding", "nn", "data", "model", "metrics"},
    "serve": {"base", "kernels", "cuda", "comm", "format", "optim", "embedding", "nn", "data", "model", "metrics", "train"},
    "report": {"base", "data", "model", "metrics", "train", "serve"},
    "tune": {"base", "metrics", "train", "report"},
}
# Public headers whose subject lives in a higher layer than the includer: only these layers may include them.
PUBLIC = {
    "status": "base", "optimizer": "kernels", "table": "kernels", "batch": "base", "embeddings": "embedding", "comm": "comm",
    "config": "data", "dataset": "data", "convert": "data", "model": "model", "trainer": "train", "checkpoint": "train",
    "predictor": "serve", "report": "report", "tune": "tune", "profile": "train", "plan": "train", "runtime": "train", "reckon": "cli",
}
# CUDA's own headers and what stands in for them: for device code alone.
CUDA = re.compile(r"^(cuda|cublas|nccl|cub/|cuda/std|thrust/|cooperative_groups)")
CUDA_ONLY = re.compile(r"^cuda/(platform|device_state|blas_multiply|emulator/emulator(_types|_runtime)?)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def problems(root: pathlib.Path):
    names = {}
    order = list(USES)
    for path in sorted([*root.glob("src/**/*.[ch]"), *root.glob("src/**/*.c[uc]"), *root.glob("cli/*.[ch]")]):
        relative = path.relative_to(root)
        house = relative.parts[0] == "src"
        layer = relative.parts[1] if house else "cli"
        twin = names.setdefault((relative.name, house), relative)
        pair = twin != relative and twin.parent != relative.parent
        if pair and relative.suffix in (".c", ".cu", ".cc"):
            yield f"{relative}: the name stands already at {twin}"
        if house and layer not in USES:
            yield f"{relative}: '{layer}' is no layer of the house"
            continue
        if relative.suffix in (".cu", ".cc") and layer != "cuda":
            yield f"{relative}: device code lives in src/cuda"
        for kind, name in INCLUDE.findall(path.read_text()):
            target = name.split("/")[0]
            if layer != "cuda" and (CUDA_ONLY.match(name) if kind == '"' else CUDA.match(name)):
                yield f"{relative}: includes {name}, which is for src/cuda alone"
            if target == "reckon":
                home = PUBLIC.get(name.split("/")[1].removesuffix(".h"))
                if home is None:
                    yield f"{relative}: includes <{name}>, which this check does not know"
                elif house and home != layer and (home == "cli" or order.index(home) > order.index(layer)):
                    yield f"{relative}: includes <{name}>, whose layer '{home}' is above '{layer}'"
            elif kind == '"' and not house:
                if "/" in name:
                    yield f"{relative}: the program uses the public API only, not \"{name}\""
            elif kind == '"' and "/" in name:
                if target != layer and target not in USES[layer]:
                    yield f"{relative}: layer '{layer}' may not include \"{name}\""
            elif kind == '"':
                yield f"{relative}: include \"{name}\" by its layer: \"{layer}/{name}\""
    for path in sorted(root.glob("include/reckon/*.h")):
        for kind, name in INCLUDE.findall(path.read_text()):
            if kind == '"':
                yield f"{path.relative_to(root)}: a public header includes an internal one, \"{name}\""


def main():
    found = list(problems(pathlib.Path(sys.argv[1])))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
