"""Python packages of a test, installed once to a folder of their own outside the tree (RECKON_TEST_DIR, or ~/.cache/reckon-tests)."""

import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("RECKON_TEST_DIR") or Path.home() / ".cache" / "reckon-tests")


def enter(name, wanted=None):
    """Goes on in a virtual environment of the versions in tests/requirements/<name>.txt, or `wanted`; ends with 77 where they cannot be had."""
    wanted, venv = wanted or TOP / "tests" / "requirements" / f"{name}.txt", HOME / f"venv-{name}"
    stamp = venv / "installed.txt"
    if Path(sys.prefix) != venv:
        if not stamp.exists() or stamp.read_text() != wanted.read_text():
            print(f"installing {wanted.name} to {venv}", flush=True)
            HOME.mkdir(parents=True, exist_ok=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
            if subprocess.run([venv / "bin" / "pip", "install", "--quiet", "--no-deps", "-r", wanted]).returncode:
                sys.exit(77)
            stamp.write_text(wanted.read_text())
        os.execv(venv / "bin" / "python", [venv / "bin" / "python", *sys.argv])
    if len(sys.argv) > 1 and os.path.exists(sys.argv[1]):
        os.environ["RECKON_PROGRAM"] = os.path.abspath(sys.argv.pop(1))
