"""python -m reckon: the program `reckon`."""

import os
import sys

from ._library import find


def main() -> None:
    """The command `reckon` of the wheel."""
    program = find("reckon")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
