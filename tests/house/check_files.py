#!/usr/bin/env python3
"""Code looks as .clang-format says, in lines of 110 columns; no folder is crowded; and paths that the docs name exist.

    check_files.py SOURCE_DIR
"""
import collections
import pathlib
import re
import shutil
import subprocess
import sys

COLUMNS, CROWD = 110, 25
ALIKE = {"src/nn/ops", "src/model/presets", "src/kernels"}  # folders of alike files may be large
CODE = ("src", "tools", "cli", "include", "tests", "bench", "examples")
NAMED = re.compile(r"(?<![\w./<])((?:src|tools|include|cli|tests|bench|scripts|deploy|examples|docs)/[\w./-]+\.(?:c|h|cu|cc|py|md|yaml|json|txt|sh))\b")


def code(root: pathlib.Path):
    for folder in CODE:
        for path in sorted(root.joinpath(folder).rglob("*")):
            if path.suffix in (".c", ".h", ".cu", ".cc") and "golden" not in path.parts:
                yield path


def problems(root: pathlib.Path):
    files = list(code(root))
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > COLUMNS:
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns"
    folders = collections.Counter(str(path.parent.relative_to(root)) for part in ("src", "tools") for path in root.joinpath(part).rglob("*") if path.is_file())
    for folder, n in folders.items():
        if n > CROWD and folder not in ALIKE:
            yield f"{folder}: {n} files"
    for page in [*root.glob("*.md"), *root.glob("docs/**/*.md")]:
        if page.name == "CHANGELOG.md":
            continue
        for name in sorted(set(NAMED.findall(page.read_text()))):
            if "NAME" not in name and not root.joinpath(name).exists():
                yield f"{page.relative_to(root)}: names {name}, which does not exist"
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if " 14." not in version:
        print("clang-format 14 is not here: the layout of code is not checked")
        return
    said = subprocess.run([tool, "--dry-run", *files], capture_output=True, text=True, cwd=root).stderr
    for name in sorted(set(re.findall(r"^(\S+?):\d+:\d+: warning", said, re.M))):
        yield f"{name}: run clang-format -i on it"


def main() -> int:
    found = list(problems(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
