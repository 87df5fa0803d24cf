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
    "format": {"base"},
    "batch": {"base"},
    "gemm": {"base", "kernels"},
    "metrics": {"base", "kernels"},
    "optim": {"base", "kernels"},
    "index": {"base", "kernels", "batch", "gemm", "metrics"},
    "cuda": {"base", "kernels"},
    "comm": {"base", "cuda"},
    "embedding": {"base", "kernels", "batch", "optim", "cuda", "comm"},
    "nn": {"base", "kernels", "gemm", "optim", "cuda"},
    "data": {"base", "format", "batch"},
}
USES["model"] = set(USES) - {"metrics", "index"}
USES["train"] = set(USES) - {"index"}
USES["export"] = set(USES) - {"index"}
USES["serve"] = set(USES) - {"export"}
# tools/: over the public API, with the layers below it that know nothing of a run.
USES["report"] = {"base", "batch", "metrics"}
USES["tune"] = USES["report"] | {"report"}
USES["server"] = {"base", "format"}
TOOLS = {"report", "tune", "server"}
# Inside a layer: a folder and the folders beside it that it may include. An interface stands in the layer's own folder or below its
# backends; no backend includes another, but for the one that is made of two. "." is the layer's own folder.
INSIDE = {
    "base": {".": {"text"}, "text": {"."}, "file": {".", "text"}, "yaml": {".", "text", "file"}, "thread": {".", "text", "file"}, "tensor": {"."}},
    "kernels": {"inline": {"."}, ".": {"inline"}},
    "format": {".": set(), "text": {"."}, "rkb": {"."}, "parquet": {"."}, "protobuf": {"."}},
    "comm": {".": set(), "self": {"."}, "mpi": {"."}, "callbacks": {"."}, "nccl": {"."}},
    "cuda": {
        ".": {"device", "libraries", "dense", "tables", "metrics", "emulator"},  # the one list of all launches
        "device": {"."}, "libraries": {".", "device"}, "dense": {".", "device", "libraries"},
        "tables": {".", "device", "libraries", "dense"}, "metrics": {".", "device", "libraries", "dense"},
        "emulator": {".", "device", "libraries"},
    },
    "embedding": {
        ".": set(), "dynamic": {"."}, "tiered": {".", "dynamic"}, "local": {".", "dynamic", "tiered"}, "config": {".", "local"}, "redis": {".", "local", "config"}, "planner": {".", "local", "config"}, "sharded": {".", "local", "planner"},
        "cuda": {".", "local"}, "cuda_sharded": {".", "local", "sharded", "cuda"}, "collection": {".", "dynamic", "local", "planner", "sharded"},
    },
    "nn": {"graph": set(), "ops": {"graph"}, ".": {"graph"}, "cuda": {".", "graph"}},
    "data": {".": {"source", "transform"}, "source": {"."}, "transform": {".", "source"}, "cache": {".", "source", "transform"}, "dataset": {".", "source", "transform", "cache"}},
    # The model's own folder names the parts of a model and chooses its engine and stores; the presets, sections and the step do not know which.
    "model": {
        ".": {"presets", "section", "retrieval", "step", "cuda"}, "presets": {"."}, "section": {"."},
        "retrieval": {".", "step"}, "step": {".", "retrieval"}, "cuda": {".", "retrieval", "step"},
    },
    "train": {
        "config": set(), "source": {"config"}, "evaluate": {"config", "source"}, "checkpoint": {"config", "source", "evaluate"},
        "run": {"config", "source", "evaluate", "checkpoint"}, "plan": {"config", "run"},
    },
    "report": {"chart": set(), ".": {"chart"}},
    "server": {"log": set(), "request": {".", "log"}, "http": {".", "request", "log"}, ".": {"request", "http", "log"}},
}
# What a folder may not see of the layers below, be it through other headers: the step knows interfaces (embedding/store.h, comm/comm.h), never what stands behind them.
BACKENDS = {"model/step": re.compile(r"^(cuda|gemm|embedding/(dynamic|tiered|local|redis|sharded|cuda|cuda_sharded)|comm/(self|mpi|functions|nccl))/")}
# Public headers whose subject lives in a higher layer than the includer: only these layers may include them.
PUBLIC = {
    "status": "base", "tensor": "base", "dlpack": "base", "optimizer": "kernels", "table": "kernels", "batch": "base", "embeddings": "embedding", "comm": "comm",
    "config": "data", "dataset": "data", "convert": "data", "arrow": "base", "pool": "base", "transforms": "data", "session": "serve",
    "model": "model", "trainer": "train", "checkpoint": "train",
    "export": "export", "predictor": "serve", "runtime": "train", "version": "base", "reckon": "cli",
    "experimental/report": "report", "experimental/tune": "tune", "experimental/server": "server", "experimental/profile": "train", "experimental/plan": "train", "experimental/recommend": "serve", "experimental/index": "index", "experimental/predictor_index": "serve", "experimental/column_reading": "data",
}
# CUDA's own headers and what stands in for them: for device code alone.
CUDA = re.compile(r"^(cuda|cublas|nccl|cub/|cuda/std|thrust/|cooperative_groups)")
CUDA_ONLY = re.compile(r"^cuda/(platform|device/device_state|libraries/blas_multiply|emulator/emulator(_types|_runtime)?)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def reached(root: pathlib.Path, path: pathlib.Path):
    """The headers of the house that a file includes, and those that they include."""
    seen, waiting = set(), [path]
    while waiting:
        for kind, name in INCLUDE.findall(waiting.pop().read_text()):
            if kind == '"' and name not in seen and (header := root / "src" / name).exists():
                seen.add(name)
                waiting.append(header)
    return sorted(seen)


def inside(path: pathlib.PurePath) -> str:
    """The folder of a layer that a file is in."""
    return path.parts[1] if len(path.parts) > 2 else "."


def problems(root: pathlib.Path):
    names = {}
    order = list(USES)
    for path in sorted([*root.glob("src/**/*.[ch]"), *root.glob("src/**/*.c[uc]"), *root.glob("tools/**/*.[ch]"), *root.glob("cli/*.[ch]")]):
        relative = path.relative_to(root)
        house = relative.parts[0] != "cli"
        layer = relative.parts[1] if house else "cli"
        twin = names.setdefault((relative.name, house), relative)
        pair = twin != relative and twin.parent != relative.parent
        if pair and relative.suffix in (".c", ".cu", ".cc"):
            yield f"{relative}: the name stands already at {twin}"
        if house and layer not in USES:
            yield f"{relative}: '{layer}' is no layer of the house"
            continue
        if house and (layer in TOOLS) != (relative.parts[0] == "tools"):
            yield f"{relative}: '{layer}' has another place"
        if relative.suffix in (".cu", ".cc") and layer != "cuda":
            yield f"{relative}: device code lives in src/cuda"
        if hidden := BACKENDS.get("/".join(relative.parts[1:3])):
            for name in filter(hidden.match, reached(root, path)):
                yield f"{relative}: sees a backend, \"{name}\", where only interfaces are known"
        for kind, name in INCLUDE.findall(path.read_text()):
            target = name.split("/")[0]
            if layer != "cuda" and (CUDA_ONLY.match(name) if kind == '"' else CUDA.match(name)):
                yield f"{relative}: includes {name}, which is for src/cuda alone"
            if target == "reckon":
                home = PUBLIC.get(name.removeprefix("reckon/").removesuffix(".h"))
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
                elif target == layer and layer in INSIDE:
                    here, there = (inside(pathlib.PurePath(path)) for path in ("/".join(relative.parts[1:]), name))
                    if here != there and there not in INSIDE[layer].get(here, ()):
                        yield f"{relative}: folder '{here}' of '{layer}' may not include \"{name}\""
            elif kind == '"':
                yield f"{relative}: include \"{name}\" by its layer: \"{layer}/{name}\""
    for path in sorted(root.glob("include/reckon/**/*.h")):
        stable = path.parent.name == "reckon"
        for kind, name in INCLUDE.findall(path.read_text()):
            if kind == '"':
                yield f"{path.relative_to(root)}: a public header includes an internal one, \"{name}\""
            elif stable and name.startswith("reckon/experimental/"):
                yield f"{path.relative_to(root)}: a stable header includes <{name}>, which may change"
        tier = "Stable (docs/api.md)" if stable else "Experimental: it may change in any release (docs/api.md)"
        if path.name != "reckon.h" and tier not in path.read_text().split("*/")[0]:
            yield f"{path.relative_to(root)}: its first comment does not say '{tier}'"


def main():
    found = list(problems(pathlib.Path(sys.argv[1])))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
