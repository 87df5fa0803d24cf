"""W9's report."""
from report_parts import heading, plotter, save, table, version_list

OURS = "Reckon"


def us(value):
    return f"{value['median'] * 1e6:,.0f} ({value['min'] * 1e6:,.0f} .. {value['max'] * 1e6:,.0f})"


def per_second(value):
    return f"{value['median']:,.0f} ({value['min']:,.0f} .. {value['max']:,.0f})"


def served_rows(case):
    for row in case["served"]:
        peer = next(s for side, s in row["sides"].items() if side != OURS)
        for side, found in row["sides"].items():
            against = lambda key: f"{found[key]['median'] / peer[key]['median']:.2f}" if side == OURS else "1"
            yield [str(row["rows"]), row["format"], f"{row['bytes']:,.0f}", side, us(found["cpu"]), against("cpu"), us(found["cpu_alone"]), against("cpu_alone"), per_second(found["rate"]), against("rate"),
                   us(found["alone_p50"]), us(found["p50"]), us(found["p99"])]


def forward_rows(case):
    for row in case["forward"]:
        theirs = next(key for key in row if key.startswith("ONNX"))
        yield [str(row["rows"]), us(row[OURS]), us(row[theirs]), f"{row[OURS]['median'] / row[theirs]['median']:.2f}", us(row["less the call"]), f"{row[OURS]['median'] / row['less the call']['median']:.2f}",
               us(row["least"]), us(row["gemm"]), f"{row['least']['median'] / row['gemm']['median']:.2f}"]


def reload_text(case):
    found = case["reloads"]
    return (f"100 rows, JSON, open loop at {found['rate']:,.0f} requests a second: p99 {us(found['quiet'])} us without reloads and {us(found['busy'])} us with one a second ({found['reloads']} in all), "
            f"{found['busy']['median'] / found['quiet']['median']:.2f} times that. No request failed.")


def score_text(found, multiply_adds):
    saved = f"; multiply-adds saved: {multiply_adds:.2f} times" if multiply_adds else ""
    return f"{us(found['written_out'])} us with the user written out beside each item, {us(found['scored'])} us scored: {found['times']['median']:.2f} times as quick ({found['times']['min']:.2f} .. {found['times']['max']:.2f}){saved}."


def markdown(result):
    parts = heading(result) + [f"Medians of {result['rounds']} rounds (least .. greatest), both sides by turns; times in us. `x` is Reckon's number by the peer's."]
    for case in result["cases"]:
        if "score" in case:
            parts += [f"## {case['name']}: one user beside 500 items", score_text(case["score"], case.get("multiply_adds"))]
        if "forward" not in case:
            continue
        parts += [f"## {case['name']}: over HTTP",
                  table(["rows", "format", "bytes", "side", "CPU a request", "x", "CPU, one connection", "x", "requests/s", "x", "one connection, p50", "half load, p50", "half load, p99"], list(served_rows(case))),
                  f"## {case['name']}: forward",
                  table(["rows", "Reckon", "ONNX Runtime", "x", "ONNX Runtime less its call", "x", "Reckon, least", "products, least", "x"], list(forward_rows(case)))]
        if case.get("reloads"):
            parts += [f"## {case['name']}: reloads", reload_text(case)]
    parts += ["## Goals", table(["goal", "measured", "to reach", "reached"],
                                [[g["goal"], f"{g['value']:.2f}", f"{g['sign']} {g['limit']}", "reached" if g["reached"] else "not reached"] for g in result["goals"]])]
    parts += ["## Versions", version_list({"peers": v for case in result["cases"] if (v := case.get("versions"))})]
    return "\n\n".join(parts) + "\n"


def plot(result, path):
    pyplot = plotter()
    found = [(f"{case['name'][:3]} {row['rows']} rows, {row['format']}", row["sides"]) for case in result["cases"] for row in case.get("served", [])]
    if not found:
        return
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.45 * len(found)))
    for i, side in enumerate(found[0][1]):
        values = [sides[side]["cpu"] for _, sides in found]
        axes.barh([y + i * 0.4 for y in range(len(found))], [v["median"] * 1e6 for v in values], 0.4, label=side,
                  xerr=[[(v["median"] - v["min"]) * 1e6 for v in values], [(v["max"] - v["median"]) * 1e6 for v in values]], error_kw={"elinewidth": 0.8})
    axes.set_yticks([y + 0.2 for y in range(len(found))], [name for name, _ in found], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("CPU time a request, us (less is better)")
    axes.legend(fontsize=8)
    save(pyplot, figure, axes, result, path)
