"""Where things are, and how a side is run."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
HOME = Path(os.environ.get("RECKON_BENCH_DIR") or Path.home() / ".cache" / "reckon-bench")


def call(argv, env=None):
    """A program's last line of JSON."""
    return call_lines(argv, env)[-1]


def call_lines(argv, env=None):
    """A program's lines of JSON. The kernel is told to end it first should memory run out."""
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, env=os.environ | (env or {}), cwd=BENCH,
                          preexec_fn=lambda: Path("/proc/self/oom_score_adj").write_text("1000"))
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}: " + (done.stderr.strip().splitlines() or ["no message"])[-1][:200])
    return [json.loads(line) for line in done.stdout.strip().splitlines()]


class DiskFolder:
    """A folder for files that take much room. It goes when this process ends, however that ends: a shell waits for the end of a pipe, ends the process group that runs in the folder, and removes it."""

    WATCH = 'while read -r line; do group=$line; done; [ -z "$group" ] || { kill -9 -- "-$group" 2>/dev/null; sleep 2; }; rm -rf "$0"'

    def __init__(self, parent=None):
        if parent:
            Path(parent).mkdir(parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(prefix="reckon-disk-", dir=parent)).resolve()
        self.watch = subprocess.Popen(["sh", "-c", self.WATCH, self.path], stdin=subprocess.PIPE, start_new_session=True, text=True)

    def tell(self, group):
        self.watch.stdin.write(f"{group}\n")
        self.watch.stdin.flush()

    def start(self, command, **how):
        """A process group that runs in the folder; wait for it with `wait`."""
        running = subprocess.Popen([str(word) for word in command], start_new_session=True, **how)
        self.tell(running.pid)
        return running

    def wait(self, running):
        code = running.wait()
        self.tell("")
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)
        self.watch.stdin.close()
        self.watch.wait()


def wait_for_memory(n_bytes):
    """Waits up to ten minutes until so much memory is free: a peer that swaps or is killed tells nothing."""
    for _ in range(120):
        free = next(int(line.split()[1]) * 1024 for line in open("/proc/meminfo") if line.startswith("MemAvailable"))
        if free >= n_bytes:
            return
        time.sleep(5)
    raise MemoryError(f"needs {n_bytes / 1e9:.1f} GB of memory, {free / 1e9:.1f} are free")


def spread(values):
    """What results keep of a measure's rounds."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": values}


def install(name):
    """The Python of a virtual environment outside the tree, of pinned versions; installed once."""
    wanted = BENCH / "requirements" / f"{name}.txt"
    venv = HOME / f"venv-{name}"
    stamp = venv / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        print(f"installing {wanted.name} to {venv}", flush=True)
        HOME.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "--quiet", "--no-deps", "-r", wanted], check=True)
        stamp.write_text(wanted.read_text())
    return venv / "bin" / "python"


def with_numpy():
    """Goes on in a virtual environment that has it, for the data."""
    python = install("data")
    if sys.prefix != str(python.parents[1]):
        os.execv(python, [python, *sys.argv])


def build(tree, *options):
    """A tree's bench programs; returns where they are."""
    subprocess.run(["cmake", "--preset", "release", "-DRK_BENCH=ON", *options], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "build"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    return tree / "build" / "bench"
