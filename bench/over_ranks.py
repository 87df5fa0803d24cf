"""What ways to train over ranks cost in quality: an example in each way, over several seeds, for bench/staleness and bench/wires. Every run ends with the parameters of its best validation AUC, of
which the test AUC is told. Nothing is tuned: the settings of the run files, early stopping too, were chosen for synchronous training in f32."""
import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"


def train(arguments, mode, keys, seed, folder):
    keys = [f"train.seed={seed}", f"train.epochs={arguments.epochs}", "train.checkpoint.keep=1", "train.tensorboard=false", *keys]
    command = [ROOT / "tests" / "dist" / "mpirun", arguments.mpi, "-n", str(arguments.ranks), ROOT / "build" / "reckon", "train", "-q", "--threads", "1",
               "--output", folder, ROOT / "examples" / f"{arguments.run}.yaml"]
    for key in keys:
        command += ["--set", key]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{mode}, seed {seed}: {done.stderr}")
    words = next(line for line in done.stdout.splitlines() if line.startswith("test ")).split()
    return float(words[words.index("auc") + 1])


def table(title, values, arguments, n_seeds):
    """The first way is what the others are compared with."""
    first = next(iter(values))
    lines = [f"# {title}", "",
             f"`examples/{arguments.run}.yaml` over {arguments.ranks} ranks, up to {arguments.epochs} epochs (early stopping), seeds 1 to {n_seeds}: test AUC at the best validation AUC.", "",
             f"| mode | mean | standard deviation | least .. greatest | mean less {first} |", "|---|---|---|---|---|"]
    for mode, aucs in values.items():
        deviation = statistics.stdev(aucs) if len(aucs) > 1 else math.nan
        lines.append(f"| {mode} | {statistics.mean(aucs):.5f} | {deviation:.5f} | {min(aucs):.5f} .. {max(aucs):.5f} | {statistics.mean(aucs) - statistics.mean(values[first]):+.5f} |")
    return "\n".join(lines) + "\n"


def parse(doc, runs, ranks):
    """runs: names of examples, the first one by default."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--run", choices=runs, default=runs[0])
    parser.add_argument("--ranks", type=int, default=ranks)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--mpi", choices=["openmpi", "mpich"], default="openmpi")
    return parser.parse_args()


def measure(name, title, modes, arguments):
    """modes: of each name the keys that --set changes. Writes bench/results/<name>.json and .md after each seed."""
    data = Path(os.environ.get("RK_SHARED_DATA") or ROOT.parent / "shared" / "data") / "frappe"
    if arguments.run.startswith("frappe") and not data.exists():
        print(f"skipped: {data} is absent")
        return
    values = {mode: [] for mode in modes}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, arguments.seeds + 1):
            for mode, keys in modes.items():
                run = Path(folder) / "run"
                values[mode].append(train(arguments, mode, keys, seed, run))
                shutil.rmtree(run)
                print(f"seed {seed}, {mode}: {values[mode][-1]:.5f}", flush=True)
            text = table(title, values, arguments, seed)
            RESULTS.joinpath(f"{name}.json").write_text(json.dumps({"run": arguments.run, "ranks": arguments.ranks, "epochs": arguments.epochs, "test_auc": values}, indent=1) + "\n")
            RESULTS.joinpath(f"{name}.md").write_text(text)
    print(text)
