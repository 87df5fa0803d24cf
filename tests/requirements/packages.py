"""Tests that need packages of PyPI: each list in this folder has a virtual environment of its own, outside the tree (RECKON_TEST_DIR, or ~/.cache/reckon-tests), where
its pinned versions are installed once."""
import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("RECKON_TEST_DIR") or Path.home() / ".cache" / "reckon-tests").absolute()


def install(name, wanted=None):
    """The Python of the environment of NAME.txt, or of a list elsewhere. Where packages cannot be had the exit status is 77."""
    wanted = wanted or Path(__file__).parent / f"{name}.txt"
    venv = HOME / f"venv-{name}"
    stamp = venv / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        print(f"installing {wanted.name} to {venv}", flush=True)
        HOME.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        if subprocess.run([venv / "bin" / "pip", "install", "--quiet", "--no-deps", "-r", wanted]).returncode:
            print(f"skipped: the packages of {wanted.name} cannot be installed")
            sys.exit(77)
        stamp.write_text(wanted.read_text())
    return venv / "bin" / "python"


def enter(name, wanted=None):
    """Go on in that environment."""
    if Path(sys.prefix) != HOME / f"venv-{name}":
        python = install(name, wanted)
        os.execv(python, [python, *sys.argv])
