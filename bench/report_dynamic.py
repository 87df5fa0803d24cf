"""W8's report."""
from report_parts import heading, plotter, save, seconds_range, table


def ratio_of(value):
    return f"{value['median']:.2f} ({value['min']:.2f} .. {value['max']:.2f})"


def markdown(result):
    rows = [[case["name"], f"{case['keys']:,}", seconds_range(case["static"]), seconds_range(case["dynamic"]), ratio_of(case["ratio"]), ratio_of(case["floor"]) if "floor" in case else "-", f"{case['key_bytes']:.1f}", str(len(case["ratio"]["rounds"]))]
            for case in result["cases"]]
    goals = [[g["goal"], f"{max(g['values'].values()):.2f}", f"{sum(v <= g['most'] for v in g['values'].values())} of {len(g['values'])}", "yes" if g["reached"] else "no"] for g in result["goals"]]
    load = f"Load of the machine in the last quarter of an hour: {result['load']:.0f}. Beside other work, ratios of turns say more than times."
    beyond = [[case["name"], f"{s['share']:.0%}", seconds_range(s["seconds"]), ratio_of(s["ratio"]), f"{s['rows_read']:,.0f}", f"{s['read_ahead']:,.0f}", str(len(s["ratio"]["rounds"]))]
              for case in result.get("beyond", []) for s in case["shares"]]
    parts = heading(result) + [load]
    if rows:
        parts.append(table(["case", "keys a batch", "static", "dynamic", "x", "floor", "bytes a row", "rounds"], rows))
    if beyond:
        parts += ["## Rows on a disk", table(["case", "memory", "step", "x", "rows read a step", "of them ahead", "rounds"], beyond)]
    parts += ["## Goals", table(["goal", "worst case", "cases that reach it", "reached"], goals)]
    return "\n\n".join(parts) + "\n"


def plot(result, path):
    pyplot = plotter()
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.8 * len(result["cases"])))
    for i, side in enumerate(("static", "dynamic")):
        values = [case[side] for case in result["cases"]]
        axes.barh([c + 0.4 * i for c in range(len(values))], [v["median"] * 1e3 for v in values], 0.4, label=side,
                  xerr=[[(v["median"] - v["min"]) * 1e3 for v in values], [(v["max"] - v["median"]) * 1e3 for v in values]], error_kw={"elinewidth": 0.8})
    axes.set_yticks([c + 0.2 for c in range(len(result["cases"]))], [case["name"] for case in result["cases"]], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("ms a step (less is better)")
    axes.legend(fontsize=8)
    save(pyplot, figure, axes, result, path)
