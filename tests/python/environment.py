"""Python packages of a test (tests/requirements/packages.py), and the program that it is given."""

import os
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "requirements"))
import packages


def enter(name, wanted=None):
    """Goes on in a virtual environment of the versions in tests/requirements/<name>.txt, or `wanted`; ends with 77 where they cannot be had."""
    packages.enter(name, wanted)
    if len(sys.argv) > 1 and os.path.exists(sys.argv[1]):
        os.environ["RECKON_PROGRAM"] = os.path.abspath(sys.argv.pop(1))
