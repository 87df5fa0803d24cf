"""Our side and a peer over ranks: processes that mpirun starts, on this machine or on hosts of limited links (tests/dist/hosts)."""
import copy
import json
import os
import signal
import statistics
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from common import BENCH, ROOT

DIST = ROOT / "tests" / "dist"
MODEL = ROOT / "build" / "bench" / "bench_model"


@dataclass
class Link:
    """Of every host, each way. mbit 0: no limit, all ranks on one host."""
    mbit: int = 0
    ms: float = 0

    @property
    def name(self):
        return f"{self.mbit} Mbit/s, {self.ms:g} ms" if self.mbit else "shared memory"

    def command(self, n_ranks, argv):
        if not self.mbit:
            return [DIST / "mpirun", "openmpi", "-n", n_ranks, *argv] if n_ranks > 1 else argv
        hosts = DIST / "hosts"
        return [hosts, n_ranks, "--mbit", self.mbit, "--ms", f"{self.ms:g}", "--", hosts, "launch", "-n", n_ranks, *argv]

    def seconds(self, n_bytes, n_delays):
        return n_bytes * 8e-6 / self.mbit + n_delays * self.ms * 1e-3 if self.mbit else 0


@dataclass
class Mode:
    """A way to train: what it changes in the run file, section by section."""
    name: str
    settings: dict = field(default_factory=dict)
    threads: int = 1  # of each rank

    @property
    def staleness(self):
        return self.settings.get("train", {}).get("staleness", 0)


def write_run_file(directory, mode, base=None):
    """The run file of a mode beside the case's own."""
    run = copy.deepcopy(base or json.loads((directory / "run.yaml").read_text()))
    for section, changes in mode.settings.items():
        run.setdefault(section, {}).update(changes)
    path = directory / f"run-{mode.name.replace(' ', '-')}.yaml"
    path.write_text(json.dumps(run, indent=1))
    return path


def start(argv, timeout):
    """The output of a program with all that it starts, which ends at the latest when the time is up."""
    process = subprocess.Popen([str(part) for part in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=ROOT,
                               env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise RuntimeError(f"not done after {timeout} s") from None
    if process.returncode:
        raise RuntimeError(f"exit status {process.returncode}: " + (err.strip().splitlines() or ["no message"])[-1][:200])
    return out


def result_of(out):
    """The line of JSON among what launchers say."""
    return json.loads(next(line for line in reversed(out.splitlines()) if line.startswith("{")))


def train(directory, mode, n_ranks, link=Link(), steps=3, warm=2, timeout=900):
    """What bench_model tells of a mode's steps. Stale modes train no batch while they fill up, and then find rows that were served beforehand: all of that is warm-up."""
    argv = [MODEL, write_run_file(directory, mode), directory, "--threads", mode.threads, "--steps", steps, "--warm", warm + 2 * mode.staleness]
    return result_of(start(link.command(n_ranks, argv), timeout))


def step_seconds(run):
    """Of a mode under way a step takes what all of them took on average: single ones wait for one another's transfers."""
    return statistics.mean(run["seconds"])


def same_as_one(directory, n_ranks):
    """The losses of one process, which as many ranks must have bit for bit, and of stale ranks, which must have the same bits twice."""
    cluster = {"virtual_shards": 4, "replicate_below": 30}
    exact, stale = Mode("exact", {"cluster": cluster}), Mode("stale", {"cluster": cluster, "train": {"staleness": 3}})
    runs = {name: train(directory, mode, n, steps=6, warm=1)["losses"]
            for name, mode, n in [("one", exact, 1), ("ranks", exact, n_ranks), ("stale", stale, n_ranks), ("again", stale, n_ranks)]}
    if runs["one"] != runs["ranks"]:
        raise SystemExit(f"not equal: losses of one process {runs['one']}, of {n_ranks} ranks {runs['ranks']}")
    if runs["stale"] != runs["again"]:
        raise SystemExit(f"not the same twice with staleness 3: {runs['stale']}, {runs['again']}")
    return {"losses": runs["one"], "stale_losses": runs["stale"]}
