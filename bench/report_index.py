"""W11's report."""
from report_parts import heading, plotter, save, seconds, seconds_range, table, version_list


def case_rows(case, k):
    sides = [s for s in case["sides"] if s["k"] == k]
    ours = {"exact": next(s for s in sides if s["side"] == "Reckon exact"), "ivf": next(s for s in sides if s["side"] == "Reckon ivf")}
    for s in sides:
        own = ours["exact" if "exact" in s["side"] else "ivf"]
        yield [s["side"], str(s["setting"]) if "exact" not in s["side"] else "-", f"{s['recall']:.4f}", seconds_range(s["single"]), f"{s['single']['median'] / own['single']['median']:.2f}",
               seconds_range(s["batch"]), f"{s['batch']['median'] / own['batch']['median']:.2f}", seconds(s["build_seconds"]), f"{s['bytes'] / 1e6:.0f} MB"]


def markdown(result):
    parts = heading(result)
    parts += ["`x` is a side's time by that of Reckon's index of the same kind: above 1 Reckon is faster. Medians of the rounds (least .. greatest)."]
    for case in result["cases"]:
        for k in dict.fromkeys(s["k"] for s in case["sides"]):
            parts += [f"## {case['name']}: {case['n']:,} vectors, k {k}",
                      table(["side", "setting", f"recall@{k}", "a query at a time", "x", "a query of a batch", "x", "build", "file"], list(case_rows(case, k)))]
        parts += [f"- {side} did not run: {error}" for side, error in case["failed"].items()]
    parts += ["## Goals", table(["goal", "worst case", "cases that reach it", "reached"],
                                [[g["goal"], f"{min(g['values'].values()):.2f}", f"{sum(v >= 1 for v in g['values'].values())} of {len(g['values'])}", "yes" if g["reached"] else "no"]
                                 for g in result["goals"] if g["values"]])]
    parts += ["## Versions", version_list({side: v for case in result["cases"] for side, v in case["versions"].items()})]
    return "\n\n".join(parts) + "\n"


def plot(result, path):
    pyplot = plotter()
    cases = result["cases"]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 1.7 * len(cases)))
    names = list(dict.fromkeys(s["side"] for case in cases for s in case["sides"]))
    height = 0.8 / len(names)
    for i, name in enumerate(names):
        found = [(c, s["single"]) for c, case in enumerate(cases) for s in case["sides"] if s["side"] == name and s["k"] == 100]
        axes.barh([c + i * height for c, _ in found], [s["median"] * 1e3 for _, s in found], height, label=name,
                  xerr=[[(s["median"] - s["min"]) * 1e3 for _, s in found], [(s["max"] - s["median"]) * 1e3 for _, s in found]], error_kw={"elinewidth": 0.8})
    axes.set_yticks([c + 0.4 - height / 2 for c in range(len(cases))], [case["name"] for case in cases], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("ms a query, one at a time, k 100 (less is better)")
    axes.legend(fontsize=8)
    save(pyplot, figure, axes, result, path)
