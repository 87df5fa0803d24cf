"""python -m reckon: the program `reckon`."""

import os
import sys

from ._library import find

program = find("reckon")
os.execv(program, [str(program), *sys.argv[1:]])
