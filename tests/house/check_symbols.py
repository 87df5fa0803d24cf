#!/usr/bin/env python3
"""What libreckon.so shows is what include/reckon declares with RK_API, no more and no less.

    check_symbols.py SOURCE_DIR LIBRARY
"""
import pathlib
import re
import subprocess
import sys


def main():
    root, library = pathlib.Path(sys.argv[1]), sys.argv[2]
    declared = set()
    for path in root.glob("include/reckon/**/*.h"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        declared |= set(re.findall(r"RK_API\b[^;(]*?\b(rk_\w+)\s*\(", text))
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    shown = {line.split()[-1].split("@")[0] for line in lines.splitlines()}
    shown = {name for name in shown if not name.startswith(("__asan", "__ubsan", "__tsan", "__odr_asan"))}
    for name in sorted(declared - shown):
        print(f"declared but not exported: {name}")
    for name in sorted(shown - declared):
        print(f"exported but not declared: {name}")
    sys.exit(declared != shown)


if __name__ == "__main__":
    main()
