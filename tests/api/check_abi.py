#!/usr/bin/env python3
"""What programs are compiled against stays: functions, layouts of structs, values of enums.

    check_abi.py [--write] SOURCE_DIR LIBRARY [COMPILER]

libreckon.so exports what include/reckon declares with RK_API, no more and no less. Its functions stand in
tests/api/symbols.txt, sizes, field offsets and enum values on x86-64 in tests/api/layout.txt, and those of
include/reckon/experimental in *_experimental.txt, so that a change of them shows in a diff. --write brings the lists up to date.
"""
import difflib
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

TIERS = {"": "reckon/*.h", "_experimental": "reckon/experimental/*.h"}


def preprocess(root, compiler, headers):
    """The text of `headers` alone, without what they include from elsewhere."""
    source = "".join(f"#include <{header}>\n" for header in headers)
    command = [compiler, "-std=c11", "-E", f"-I{root / 'include'}", "-"]
    text = subprocess.run(command, input=source, check=True, capture_output=True, text=True).stdout
    wanted = {str(root / "include" / header) for header in headers}
    kept, here = [], False
    for line in text.splitlines():
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            here = marker.group(1) in wanted
        elif here:
            kept.append(line)
    return " ".join(kept)


def declarations(text):
    """Declarations and definitions at the top, one by one; functions with a body are left out."""
    start = depth = 0
    for i, c in enumerate(text):
        depth += {"{": 1, "}": -1}.get(c, 0)
        item = " ".join(text[start:i].split())
        if depth == 0 and c == "}" and item.startswith("static"):
            start = i + 1
        elif depth == 0 and c == ";":
            start = i + 1
            yield item


def read_headers(root, compiler, pattern):
    """{function: declaration}, {struct's type: [(field, type)]}, {enum: [constants]}, {name: other types}"""
    headers = sorted(str(path.relative_to(root / "include")) for path in (root / "include").glob(pattern))
    functions, structs, enums, types = {}, {}, {}, {}
    for item in declarations(preprocess(root, compiler, headers)):
        exported = '__attribute__((visibility("default")))' in item
        item = " ".join(re.sub(r"__attribute__\s*\(\(.*?\)\)(?!\))", "", item).split())
        body = re.match(r"(typedef )?(struct|enum) (\w+) \{(.*)\}", item)
        if exported:
            functions[re.search(r"(\w+)\(", item).group(1)] = item
        elif body and body.group(2) == "enum":
            enums[body.group(3)] = [entry.split("=")[0].strip() for entry in body.group(4).split(",") if entry.strip()]
        elif body:
            name = body.group(3) if body.group(1) else "struct " + body.group(3)
            structs[name] = [field for line in body.group(4).split(";") if line.strip() for field in fields(line.strip())]
        elif item.startswith("typedef") and not re.match(r"typedef struct \w+ \w+$", item):
            types[re.search(r"\(\*(\w+)\)|(\w+)$", item).group(0)] = item
    return headers, functions, structs, enums, types


def fields(line):
    """(name, type) of each declarator of a field's line."""
    pointer = re.match(r"(.*\(\*)(\w+)(\).*)", line)
    if pointer:
        return [(pointer.group(2), pointer.group(1) + pointer.group(3))]
    first, *more = [part.strip() for part in line.split(",")]
    base, stars, name, dims = re.match(r"(.*?)\s*(\**)\s*(\w+)((?:\[.*\])*)$", first).groups()
    result = [(name, f"{base} {stars}".strip() + dims)]
    for part in more:
        stars, name, dims = re.match(r"(\**)\s*(\w+)((?:\[.*\])*)$", part).groups()
        result.append((name, f"{base} {stars}".strip() + dims))
    return result


def layout(root, compiler, headers, structs, enums, types):
    """Lines of the list, from a program that asks the compiler."""
    lines = ["#include <stddef.h>", "#include <stdio.h>"] + [f"#include <{header}>" for header in headers] + ["int main(void) {"]
    for name, members in sorted(structs.items()):
        lines.append(f'printf("{name}: %zu bytes\\n", sizeof({name}));')
        for field, type_name in members:
            lines.append(f'printf("%8zu %4zu  {field}: {type_name}\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
    for name, constants in sorted(enums.items()):
        lines.append(f'printf("{name}: %zu bytes\\n", sizeof({name}));')
        lines += [f'printf("%8d  {constant}\\n", (int){constant});' for constant in constants]
    lines += [f'puts("{types[name]}");' for name in sorted(types)] + ["}"]
    with tempfile.TemporaryDirectory() as scratch:
        source, program = pathlib.Path(scratch, "layout.c"), pathlib.Path(scratch, "layout")
        source.write_text("\n".join(lines) + "\n")
        subprocess.run([compiler, "-std=c11", f"-I{root / 'include'}", str(source), "-o", str(program)], check=True)
        return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def structs_are_tried(root, structs):
    """Whether each struct that has a struct_size is one of those of test_struct_size.c."""
    tried = (root / "tests/api/test_struct_size.c").read_text()
    missing = [name for name, members in structs.items() if members[0][0] == "struct_size" and f"FUNCTION({name}," not in tried]
    for name in missing:
        print(f"tests/api/test_struct_size.c does not try {name}")
    return not missing


def exported_symbols(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in lines.splitlines()}
    return {name for name in names if not name.startswith(("__asan", "__ubsan", "__tsan", "__odr_asan"))}


def compare(path, text, write):
    if write:
        path.write_text(text)
    old = path.read_text() if path.exists() else ""
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), path.name, "include/reckon"))
    return old == text


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    write = "--write" in sys.argv
    root, library, compiler = pathlib.Path(arguments[0]), arguments[1], (arguments + ["cc"])[2]
    declared, same, tried = set(), True, True
    for tier, pattern in TIERS.items():
        headers, functions, *of_layout = read_headers(root, compiler, pattern)
        declared |= set(functions)
        symbols = "".join(functions[name] + "\n" for name in sorted(functions))
        same &= compare(root / f"tests/api/symbols{tier}.txt", symbols, write)
        if platform.machine() == "x86_64":
            same &= compare(root / f"tests/api/layout{tier}.txt", layout(root, compiler, headers, *of_layout), write)
        tried &= structs_are_tried(root, of_layout[0])
    shown = exported_symbols(library)
    for name in sorted(declared - shown):
        print(f"declared but not exported: {name}")
    for name in sorted(shown - declared):
        print(f"exported but not declared: {name}")
    if not same:
        print("The ABI has changed (docs/api.md says what may). If that is meant: check_abi.py --write")
    sys.exit(declared != shown or not same or not tried)


if __name__ == "__main__":
    main()
