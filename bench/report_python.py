"""W14's report."""
from report_parts import heading, plotter, save, seconds_range, table, version_list


def us(value):
    return f"{value['median'] * 1e6:.1f} ({value['min'] * 1e6:.1f} .. {value['max'] * 1e6:.1f})"


def side_rows(name, sides):
    ours = sides["Reckon"]["median"]
    return [[name, side, seconds_range(value), f"{value['median'] / ours:.2f}"] for side, value in sides.items()]


def markdown(result):
    frame = result["frame"]
    parts = heading(result) + [f"Medians of {result['rounds']} rounds (least .. greatest), all sides by turns. `x` is a side's time by Reckon's in the same program."]
    parts += [f"## (a) A DataFrame of {frame['rows']:,} rows to a trained epoch", table(["", "side", "epoch", "x"], side_rows("epoch", frame["sides"])),
              f"A row has {frame['row_bytes']} bytes in its columns and adds {frame['added_bytes']:.0f} to the peak of Reckon's process. Losses afterwards: " + ", ".join(f"{side} {loss:.4f}" for side, loss in frame["losses"].items()) + ".",
              "## (b) Lookup and update in PyTorch", table(["case", "side", "a step", "x"], [row for t in result["tables"] for row in side_rows(t["name"], t["sides"])]),
              "## (c) A call, us", table(["features", *(key for key in result["calls"][0] if key != "features")], [[str(row["features"]), *(us(value) for key, value in row.items() if key != "features")] for row in result["calls"]]),
              "## Goals", table(["goal", "measured", "to reach", "reached"], [[g["goal"], f"{g['value']:.2f}", f"{g['sign']} {g['limit']}", "yes" if g["reached"] else "no"] for g in result["goals"]]),
              "## Versions", version_list(result["versions"])]
    return "\n\n".join(parts) + "\n"


def plot(result, path):
    pyplot = plotter()
    cases = [("a trained epoch", result["frame"]["sides"]), *((t["name"], t["sides"]) for t in result["tables"])]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.8 * len(cases)))
    names = list(dict.fromkeys(side for _, sides in cases for side in sides))
    for i, side in enumerate(names):
        found = [(y, sides[side]["median"] / sides["Reckon"]["median"]) for y, (_, sides) in enumerate(cases) if side in sides]
        axes.barh([y + i * 0.27 for y, _ in found], [x for _, x in found], 0.27, label=side)
    axes.set_yticks([y + 0.27 for y in range(len(cases))], [name for name, _ in cases], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("time by that of Reckon in Python (less is better)")
    axes.legend(fontsize=8)
    save(pyplot, figure, axes, result, path)
