"""A workload's result as JSON, as Markdown and as a plot. `report.py FILE.json ...` writes the latter two anew."""
import json
import sys
from pathlib import Path

import report_dynamic
import report_index
import report_own_models
import report_python
import report_ranks
import report_serving
from report_parts import heading, plotter, save, seconds, table, version_list


def goals(workload, cases):
    """Each goal's value in each case, and whether the worst of them reaches it."""
    out = []
    for goal in workload.goals:
        values = {}
        for case in cases:
            for row in (r for r in case["rows"] if r["mode"] == goal.mode):
                medians = {s["side"]: s["median"] for s in row["sides"] if "median" in s} | {"gather": row["gather"], "floor": row["floor"]}
                against = [medians[name] for name in goal.against if name in medians]
                if goal.ours in medians and against:
                    ratio = min(against) / medians[goal.ours]
                    values[case["name"]] = 1 / ratio if goal.at_most else ratio
        if values:
            worst = max(values.values()) if goal.at_most else min(values.values())
            reached = worst <= goal.at_most if goal.at_most else worst >= goal.at_least
            n_reached = sum(v <= goal.at_most if goal.at_most else v >= goal.at_least for v in values.values())
            out.append({"goal": goal.text, "values": values, "worst": worst, "reached": reached, "n_reached": n_reached})
        else:
            out.append({"goal": goal.text, "values": {}, "worst": None, "reached": False, "n_reached": 0})
    return out


def by_name(row, names):
    """The row's sides in the order of names; empty where one took no part."""
    found = {side["side"]: side for side in row["sides"]}
    return [found.get(name, {}) for name in names]


def cell(side):
    if not side:
        return "-"
    if side.get("failed"):
        return "did not run: " + side["failed"]
    if not side["equal"]:
        return f"not equal (differs by {side['difference']:.2g}): no time"
    return f"{seconds(side['median'])} ({seconds(side['min'])} .. {seconds(side['max'])})"


def reader_row(result, reader, rkb_seconds):
    size = f"{result['sizes'][reader['file']]:,}"
    if "median" not in reader:
        return [reader["format"], size, reader["reader"], "did not run: " + reader["failed"], *["-"] * 6]
    tried = "; ".join(f"{setting}: {value:.3f}" for setting, value in reader["tried"].items() if setting)
    return [reader["format"], size, reader["reader"], cell(reader | {"equal": True}), f"{result['rows'] / reader['median']:,.0f}",
            f"{reader['median'] / rkb_seconds:.2f}" if rkb_seconds else "-", reader["config"] or "-", tried or "-",
            f"{reader['peak_bytes'] / 1e9:.1f} GB" if reader["peak_bytes"] else "-", str(len(reader["rounds"]))]


def ingest_markdown(result):
    rkb_seconds = next((r.get("median") for r in result["readers"] if r["file"] == "rows.rkb"), None)
    formats = {r["file"]: r["format"] for r in result["readers"]}
    biggest = result["sizes"]["rows.tfrecord"]
    parts = heading(result)
    parts += [f"## Time to read {result['rows']:,} rows",
              "Median (least .. greatest). Every reader's sums of ids and numbers were those of the arrays that the files were made of.",
              table(["file", "bytes", "reader", "time", "rows/s", "x rkb's time", "setting", "settings tried, seconds", "peak memory", "rounds"],
                    [reader_row(result, r, rkb_seconds) for r in result["readers"]])]
    parts += ["## Sizes", table(["file", "bytes", "bytes a row", "of TFRecord, one Example a row"],
                                [[formats[name], f"{size:,}", f"{size / result['rows']:.1f}", f"{size / biggest:.3f}"] for name, size in result["sizes"].items()])]
    parts += ["## Goals", table(["goal", "measured", "reached"],
                                [[g["goal"], f"{g['value']:.2f}" if g["value"] is not None else "-", "not measured" if g["value"] is None else "yes" if g["reached"] else "no"]
                                 for g in result["goals"]])]
    parts += ["## Versions", version_list({r["reader"]: r["versions"] for r in result["readers"] if r.get("versions")})]
    return "\n\n".join(parts) + "\n"


def ingest_plot(result, path):
    pyplot = plotter()
    found = [r for r in result["readers"] if "median" in r]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.4 * len(found)))
    axes.barh([f"{r['format']}\nby {r['reader']}" for r in found], [r["median"] for r in found],
              xerr=[[r["median"] - r["min"] for r in found], [r["max"] - r["median"] for r in found]], error_kw={"elinewidth": 0.8})
    axes.tick_params("y", labelsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"seconds to read {result['rows']:,} rows (less is better)")
    save(pyplot, figure, axes, result, path)


def markdown(result):
    parts = heading(result)
    cases = [(case, row) for case in result["cases"] for row in case["rows"]]
    names = list(dict.fromkeys(side["side"] for _, row in cases for side in row["sides"]))
    label = lambda case, row: f"{case['name']}: {row['mode']}" if len({r["mode"] for _, r in cases}) > 1 else case["name"]
    parts += ["## Time of a step", "Median of the rounds' medians (least .. greatest).",
              table(["case", *names, "rounds"], [[label(c, r), *map(cell, by_name(r, names)), str(len(r["sides"][0].get("rounds", [])))] for c, r in cases])]
    ratio = lambda side, key: f"{side[key]:.2f}" if key in side else "-"
    parts += ["## Against Reckon, and against the floor", "`x` is a side's time by Reckon's: above 1 Reckon is faster. `floor` is a side's time by bytes / gather + products, of training also + the smallest sort of the ids."
              + (" A third number is of that and of the smallest loop that adds the gradients, use by use in the order of the rows." if any(c.get("add_seconds") for c, _ in cases) else ""),
              table(["case", *[f"{name}: x / floor" for name in names]],
                    [[label(c, r), *[f"{ratio(s, 'speedup')} / {ratio(s, 'over_floor')}" + (f" / {s['over_floor_and_adds']:.2f}" if "over_floor_and_adds" in s else "") for s in by_name(r, names)]] for c, r in cases])]
    parts += ["## Limits", table(["case", "gather, GB/s", "gather of one batch", "sort of its ids", "its gradients", "products f32", "products bf16", "floor f32"],
                                 [[label(c, r), f"{c['gather_bytes_per_second'] / 1e9:.2f}", seconds(r["gather"]),
                                   seconds(c["sort_seconds"]) if "sort_seconds" in c else "-", seconds(c["add_seconds"]) if c.get("add_seconds") else "-", seconds(c["product_seconds"]["f32"]), seconds(c["product_seconds"]["bf16"]), seconds(r["floor"])] for c, r in cases])]
    parts += ["## Goals", table(["goal", "worst case", "cases that reach it", "reached"],
                                [[g["goal"], f"{g['worst']:.2f}" if g["values"] else "-", f"{g['n_reached']} of {len(g['values'])}",
                                  ("yes" if g["reached"] else "no") if g["values"] else "not measured"] for g in result["goals"]])]
    parts += ["## Equality, settings, memory", f"Both sides read the same arrays and begin with the same parameters. In every timed run what they computed may differ by "
              f"{result['tolerance']['f32']:g} (bf16: {result['tolerance']['bf16']:g}) of Reckon's f32 result, or no time is shown."]
    if result["check"]:
        losses = result["check"]["losses"]
        parts += [f"Before that {len(losses)} steps of a small case with few rows, whose losses go from {losses[0]:.6f} to {losses[-1]:.6f}; the greatest difference of a loss:",
                  table(["side and setting", "differs by"], [[k, f"{v:.1e}" if isinstance(v, float) else v] for k, v in result["check"]["differences"].items()])]
    parts += [
              table(["case", "side", "differs by", "setting", "settings tried, median seconds", "peak memory"],
                    [[label(c, r), s["side"], f"{s['difference']:.1e}", s["config"] or "-",
                      "; ".join(f"{k}: {v:.4f}" if isinstance(v, float) else f"{k}: {v}" for k, v in s["tried"].items() if k) or "-",
                      f"{s['peak_bytes'] / 1e9:.1f} GB" if s.get("peak_bytes") else "-"] for c, r in cases for s in r["sides"] if "failed" not in s])]
    parts += ["## Versions", version_list(result["versions"])]
    return "\n\n".join(parts) + "\n"


def plot(result, path):
    pyplot = plotter()
    cases = [(case, row) for case in result["cases"] for row in case["rows"]]
    names = list(dict.fromkeys(side["side"] for _, row in cases for side in row["sides"]))
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.28 * len(cases) * len(names)))
    height = 0.8 / len(names)
    for s, name in enumerate(names):
        found = [(i, side) for i, (_, row) in enumerate(cases) for side in [by_name(row, names)[s]] if "median" in side]
        axes.barh([i + s * height for i, _ in found], [side["median"] for _, side in found], height, label=name,
                  xerr=[[side["median"] - side["min"] for _, side in found], [side["max"] - side["median"] for _, side in found]], error_kw={"elinewidth": 0.8})
    for i, (_, row) in enumerate(cases):
        axes.plot([row["floor"]] * 2, [i - height / 2, i + 0.8 - height / 2], color="black", linewidth=1, label="" if i else "floor")
    axes.set_yticks([i + 0.4 - height / 2 for i in range(len(cases))], [f"{case['name']}\n{row['mode']}" for case, row in cases], fontsize=8)
    axes.invert_yaxis()
    if len(cases) > 2:
        axes.set_xscale("log")
    axes.set_xlabel("seconds a step (less is better)")
    axes.legend(fontsize=8)
    save(pyplot, figure, axes, result, path)


WRITERS = {"W5": (ingest_markdown, ingest_plot), "W6": (report_ranks.hybrid_markdown, report_ranks.hybrid_plot),
           "W7": (report_ranks.scale_markdown, report_ranks.scale_plot), "W9": (report_serving.markdown, report_serving.plot),
           "W8": (report_dynamic.markdown, report_dynamic.plot), "W11": (report_index.markdown, report_index.plot), "W14": (report_python.markdown, report_python.plot),
           "W15": (report_own_models.markdown, report_own_models.plot)}


def write(result, base):
    Path(f"{base}.json").write_text(json.dumps(result, indent=1) + "\n")
    to_text, to_plot = WRITERS.get(result["workload"], (markdown, plot))
    Path(f"{base}.md").write_text(to_text(result))
    to_plot(result, f"{base}.svg")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(json.loads(Path(name).read_text()), name.removesuffix(".json"))
