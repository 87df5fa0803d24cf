"""W15's report."""
from report_parts import heading, plotter, save, seconds, seconds_range, table, version_list


def difference(value):
    return "not run" if value is None else value if isinstance(value, str) else f"{value:.1e}"


def side_rows(case):
    ours = case["sides"]["Reckon"]["median"]
    return [[case["name"], side, seconds_range(value), f"{value['median'] / ours:.2f}", f"{value['median'] / case['floor']:.2f}"] for side, value in case["sides"].items()]


def markdown(result):
    cases = result["cases"]
    parts = heading(result)
    parts += ["## Time of a step", f"Median of {result['rounds']} rounds' medians (least .. greatest), all sides by turns. `x` is a side's time by Reckon's, `floor` a side's time by the floor.",
              table(["model", "side", "a step", "x", "floor"], [row for case in cases for row in side_rows(case)]),
              "## Floor", table(["model", "products", "bytes of rows", "gather, GB/s", "sort", "values of every step", "floor"],
                                [[c["name"], seconds(c["products"]), f"{c['row_bytes']:,}", f"{c['gather_bytes_per_second'] / 1e9:.1f}", seconds(c["sort"]), seconds(c["sweep"]), seconds(c["floor"])] for c in cases]),
              "## From the command to the first step", "`kept`: of data that was parsed by a run before (`docs/data.md`); `parsed`: without what that run has kept.",
              table(["model", "kept", "parsed"], [[c["name"], seconds_range(c["first_step"]["kept"]), seconds_range(c["first_step"]["parsed"])] for c in cases]),
              "## Equality", "The greatest difference of the first five losses, without dropout.",
              table(["model", "first and fifth loss", "PyTorch", "compiled"],
                    [[c["name"], f"{c['losses'][0]:.6f}, {c['losses'][-1]:.6f}", *map(difference, (c["differences"].get(side) for side in ("PyTorch", "PyTorch compiled")))] for c in cases]),
              "## Goals", table(["goal", "worst case", "to reach", "reached"], [[g["goal"], f"{g['value']:.2f}", f"{g['sign']} {g['limit']}", "yes" if g["reached"] else "no"] for g in result["goals"]]),
              "## Versions", version_list(result["versions"])]
    return "\n\n".join(parts) + "\n"


def plot(result, path):
    pyplot = plotter()
    cases = result["cases"]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.8 * len(cases)))
    names = list(dict.fromkeys(side for case in cases for side in case["sides"]))
    for i, side in enumerate(names):
        found = [(y, case["sides"][side]["median"] / case["floor"]) for y, case in enumerate(cases) if side in case["sides"]]
        axes.barh([y + i * 0.27 for y, _ in found], [x for _, x in found], 0.27, label=side)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks([y + 0.27 for y in range(len(cases))], [case["name"] for case in cases], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("time of a step by that of the floor (less is better)")
    axes.legend(fontsize=8)
    save(pyplot, figure, axes, result, path)
