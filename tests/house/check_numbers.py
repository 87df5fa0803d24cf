#!/usr/bin/env python3
"""Numbers with a point are written by rk_snprintf and rk_buffer_printf, which know no locale: no plain printf of the library has one.

    check_numbers.py SOURCE_DIR
"""
import pathlib
import re
import sys

CALL = re.compile(r"(?<![a-z_])[a-z]*printf\([^;]*?;")
NUMBER = re.compile(r'"[^"]*%[-+ #0-9.*]*[gfeGFEaA]')


def main() -> int:
    n = 0
    for path in sorted(pathlib.Path(sys.argv[1], "src").rglob("*.[ch]")):
        text = path.read_text()
        for call in CALL.finditer(text):
            if NUMBER.search(call.group()):
                print(f"{path}:{text.count(chr(10), 0, call.start()) + 1}: use rk_snprintf: {call.group().splitlines()[0]}")
                n += 1
    return 1 if n else 0


if __name__ == "__main__":
    sys.exit(main())
