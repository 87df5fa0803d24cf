"""Where things are, and how a side is run."""
import json
import os
import subprocess
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
HOME = Path(os.environ.get("RECKON_BENCH_DIR") or Path.home() / ".cache" / "reckon-bench")


def call(argv, env=None):
    """A program's line of JSON. The kernel is told to end it first should memory run out."""
    done = subprocess.run(argv, capture_output=True, text=True, env=os.environ | (env or {}), cwd=BENCH,
                          preexec_fn=lambda: Path("/proc/self/oom_score_adj").write_text("1000"))
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}: " + (done.stderr.strip().splitlines() or ["no message"])[-1][:200])
    return json.loads(done.stdout.strip().splitlines()[-1])
