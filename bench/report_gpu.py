"""What bench/gpu found, as Markdown."""
from report_parts import seconds, table

SAID_LINES = 40


def build_failure(r):
    return ["The build failed:", "```\n" + "\n".join(r["build_failed"][-SAID_LINES:]) + "\n```"] if "build_failed" in r else []


def heading(r):
    m, gpu = r["machine"], r.get("gpu")
    card = f"{gpu['gpu']} (sm_{gpu['capability'].replace('.', '')}, {gpu['processors']} multiprocessors, {gpu['memory_bytes'] / 2**30:.0f} GiB)" if gpu else "no GPU was asked"
    said = ", ".join(f"{name} {version}" for name, version in r["versions"].items() if version)
    return ["# Reckon on a GPU: lookups, and training steps against PyTorch",
            f"{card}; {m['cpu']}, {m['cores']} cores, {m['memory_bytes'] / 2**30:.0f} GiB, Linux {m['kernel']}; {said}; {r['date']}; Reckon {r['source']}."
            + (" Emulated: the script was tried, nothing is timed." if r["emulated"] else " Tiny sizes, which tell nothing about speed." if r["small"] else ""),
            f"The whole took {r.get('seconds', 0):.0f} s, of which the build {r['build_seconds']:.0f} s." + ("" if r["complete"] else " **This is a part of the whole.**")
            + (f" Left out: {', '.join(r['left_out'])}." if r["left_out"] else "")] + build_failure(r)


def tests(r):
    rows = [[test["name"], test["result"], f"{test.get('seconds', 0):.1f} s", " / ".join(test.get("said", [])[-1:]) or "-"] for test in r["tests"]]
    failed = [f"`{test['name']}` said last:\n\n```\n" + "\n".join(test["said"]) + "\n```" for test in r["tests"] if test["result"] == "failed"]
    return ["## Tests", "The device's tests against the CPU engine, on this GPU, before anything was timed.",
            table(["program", "result", "took", "it said last"], rows or [["none", "-", "-", "-"]])] + failed


def lookups(r):
    rows = []
    for row in r["lookup"]:
        if "failed" in row:
            rows.append([row["case"], f"{row['samples']:,}", "-", "did not run: " + row["failed"], "-", "-", "-"])
        elif not row["equal"] or r["emulated"]:
            rows.append([row["case"], f"{row['samples']:,}", f"{row['difference']:.1e}", "emulated: no time" if r["emulated"] else "not equal: no time", "-", "-", "-"])
        else:
            rows.append([row["case"], f"{row['samples']:,}", f"{row['difference']:.1e}", seconds(row["seconds"]), f"{row['rate'] / 1e9:.0f} GB/s",
                         f"{row['copy_bytes_per_second'] / 1e9:.0f} GB/s", f"{row['of_copy']:.2f}"])
    return ["## W1: forward lookups", "26 tables of 1,000,000 rows, f32, sum; ids on the device, checked and sorted. Bytes are the rows that are read, once a use, and the outputs. The card's "
            "copy: of 256 MiB within its memory, read and written. Goal: 0.85 of it.",
            table(["case", "samples", "differs from the CPU's by", "a lookup", "reached", "copy", "of copy"], rows or [["-"] * 7])]


def models(r):
    rows = []
    for model in r["models"]:
        for row in model["rows"] or [{"dtype": "-", "failed": model.get("failed", "")}]:
            name = f"{model['workload']} {row['dtype']}"
            if "failed" in row:
                rows.append([name, f"{model.get('samples', 0):,}", "-", "did not run: " + row["failed"], "-", "-"])
            elif "torch_failed" in row:
                rows.append([name, f"{model['samples']:,}", "-", seconds(row["seconds"]), "did not run: " + row["torch_failed"], "-"])
            elif not row["equal"]:
                rows.append([name, f"{model['samples']:,}", f"{row['difference']:.1e}", "not equal: no time", "-", "-"])
            else:
                rows.append([name, f"{model['samples']:,}", f"{row['difference']:.1e}", seconds(row["seconds"]), seconds(row["torch_seconds"]), f"{row['speedup']:.2f}"])
    return ["## W2 to W4: training steps", "Median of 20 steps, batches in the host's memory: ids, numbers and labels go up within the time, on both sides. PyTorch: nn.EmbeddingBag with sparse "
            "gradients, pinned batches. bf16: the products of hidden layers (PyTorch: autocast). Goal: 3 times PyTorch.",
            table(["workload", "samples", "losses differ by", "Reckon", "PyTorch", "x"], rows or [["-"] * 6])]


def equality(r):
    rows = [[m["workload"], f"{m['check']['losses'][0]:.6f} .. {m['check']['losses'][-1]:.6f}", f"{m['check']['cpu']:.1e}",
             f"{m['check']['torch']:.1e}" if "torch" in m["check"] else "did not run: " + m["check"]["torch_failed"]] for m in r["models"] if "check" in m]
    return ["## Equality", f"Before a model was timed, three steps of a small case with few rows, from the same first values: losses may differ by {r['tolerance']['f32']:g} from our CPU engine's and "
            f"PyTorch's. The first three losses of the timed runs may too (bf16: {r['tolerance']['bf16']:g}). Lookups: sum and sum of squares of all outputs by 1e-6.",
            table(["workload", "losses of the check", "from our CPU engine's by", "from PyTorch's by"], rows or [["-"] * 4])]


def markdown(r):
    return "\n\n".join(heading(r) + tests(r) + lookups(r) + models(r) + equality(r)) + "\n"
