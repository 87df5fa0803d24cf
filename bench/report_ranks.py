"""The reports of W6 and W7, which run over ranks."""
from report_parts import heading, plotter, save, seconds, seconds_range, table


def timed(entry):
    return seconds_range(entry) if "median" in entry else "did not run: " + entry["failed"]


def link_name(link):
    return f"{link['mbit']} Mbit/s, {link['ms']:g} ms"


def goal_table(goals):
    return table(["goal", "measured", "reached"], [[g["goal"], f"{g['value']:.3g}", "yes" if g["reached"] else "no"] for g in goals])


def mode_row(link, mode, samples):
    sync = next(m for m in link["modes"] if m["mode"] == mode["mode"].replace(f"stale {mode['staleness']}", "sync"))
    return [mode["mode"], timed(mode), f"{samples / mode['median']:,.0f}", f"{sync['median'] / mode['median']:.2f}", f"{mode['bytes_sent'] / 1e6:.1f} / {mode['bytes_sent_most'] / 1e6:.1f}",
            seconds(mode["rows_wait_s"]), seconds(mode["sum_wait_s"]), f"{mode['seen_staleness']:.2f}", seconds(mode["compute_s"]), seconds(mode["link_s"]),
            *([seconds(mode["limit_s"]), f"{sync['limit_s'] / mode['limit_s']:.2f}"] if "limit_s" in sync else [seconds(mode["limit_s"]) if "limit_s" in mode else "-", "-"])]


def peer_line(link, peer):
    if "failed" in peer:
        return f"{peer['name']}: did not run: {peer['failed']}."
    return f"{peer['name']}: {timed(peer)}, {peer['median'] / link['modes'][0]['median']:.2f} of sync's time; its losses differ by {peer['difference']:.1e}."


def link_part(link, samples):
    header = ["mode", "step", "samples/s", "x sync", "MB sent a rank: mean / most", "wait for rows", "wait for the dense sum", "seen staleness", "compute", "bytes / rate + delays",
              "limit", "x sync at the limit"]
    return [f"## {link_name(link)}", table(header, [mode_row(link, mode, samples) for mode in link["modes"]]), *(peer_line(link, peer) for peer in link["peers"])]


def auc_part(aucs):
    seeds, modes = sorted({a["seed"] for a in aucs}), dict.fromkeys(a["mode"] for a in aucs)
    value = {(a["seed"], a["mode"]): a["auc"] for a in aucs}
    rows = [[m] + [f"{value[s, m]:.5f}" for s in seeds] + [f"{sum(value[s, m] - value[s, 'sync'] for s in seeds) / len(seeds):+.5f}"] for m in modes]
    return ["## AUC", "On rows set aside, after one pass over the same rows; labels are drawn from a planted model.",
            table(["mode"] + [f"seed {s}" for s in seeds] + ["mean, less sync's"], rows)]


def hybrid_markdown(result):
    parts = heading(result)
    parts += ["Median of the rounds (least .. greatest). `compute` is a rank's CPU seconds times ranks by cores, communication included; `bytes / rate + delays` is of the rank that sends most. `limit`: "
              "their sum in sync, the larger of both in the other modes; apart, one way of the trainer's link."]
    for link in result["links"]:
        parts += link_part(link, result["samples"])
    parts += auc_part(result["auc"]) if result["auc"] else []
    parts += ["## Goals", goal_table(result["goals"])]
    parts += ["## Equality", f"Before: {len(result['check']['losses'])} steps of a small case have the same losses, bit for bit, in one process and over four ranks (`cluster.virtual_shards: 4`); "
              f"with staleness 3 two runs have the same bits. Losses go from {result['check']['losses'][0]:.6f} to {result['check']['losses'][-1]:.6f}."]
    return "\n\n".join(parts) + "\n"


def hybrid_plot(result, path):
    if not result["links"]:
        return
    pyplot = plotter()
    names = list(dict.fromkeys(m["mode"] for link in result["links"] for m in link["modes"]))
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.2 * len(names) * len(result["links"])))
    height = 0.8 / len(names)
    for i, name in enumerate(names):
        found = [(k, m) for k, link in enumerate(result["links"]) for m in link["modes"] if m["mode"] == name]
        axes.barh([k + i * height for k, _ in found], [m["median"] for _, m in found], height, label=name)
        found = [(k, m) for k, m in found if "limit_s" in m]
        axes.scatter([m["limit_s"] for _, m in found], [k + i * height for k, _ in found], color="black", s=6, zorder=3, label="" if i else "limit")
    axes.set_yticks([k + 0.4 - height / 2 for k in range(len(result["links"]))], [link_name(link) for link in result["links"]], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("seconds a step (less is better)")
    axes.legend(fontsize=7)
    save(pyplot, figure, axes, result, path)


def scale_markdown(result):
    parts = heading(result)
    rows = [[str(s["ranks"]), s["mode"], timed(s), seconds(s["ideal"]), f"{s['efficiency']:.2f}", seconds(s["cpu_s"]), f"{s['bytes_sent'] / 1e6:.1f}"] for s in result["scaling"]]
    if rows:
        parts += ["## Weak scaling", f"{result['cores']} cores. Median of the rounds (least .. greatest); CPU seconds are the first rank's.",
                  table(["ranks", "mode", "step", "ideal", "ideal / step", "CPU seconds a rank", "MB sent a rank"], rows)]
    kinds = dict.fromkeys(s["kind"] for s in result["spaces"])
    first = {kind: next((s["median"] for s in result["spaces"] if s["kind"] == kind and "median" in s), None) for kind in kinds}
    rows = [[s["kind"], f"{s['parameters']:.0e}", timed(s), f"{s['median'] / first[s['kind']]:.3f}" if "median" in s else "-",
             seconds(s["cpu_s"]) if "cpu_s" in s else "-", f"{s['peak_bytes'] / 1e9:.2f} GB" if "peak_bytes" in s else "-"] for s in result["spaces"]]
    if rows:
        parts += ["## Id spaces", table(["tables", "parameters, nominal", "step", "x the smallest", "least CPU seconds", "peak memory"], rows)]
    if result["goals"]:
        parts += ["## Goals", goal_table(result["goals"])]
    return "\n\n".join(parts) + "\n"


def scale_plot(result, path):
    pyplot = plotter()
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5))
    for mode in dict.fromkeys(s["mode"] for s in result["scaling"]):
        found = [s for s in result["scaling"] if s["mode"] == mode]
        left.plot([s["ranks"] for s in found], [s["median"] for s in found], marker="o", label=mode)
    if result["scaling"]:
        left.plot([s["ranks"] for s in found], [s["ideal"] for s in found], color="black", linestyle="--", label="ideal")
        left.legend(fontsize=8)
    left.set_xlabel(f"ranks, on {result['cores']} cores")
    left.set_ylabel("seconds a step")
    left.set_ylim(0)
    for kind in dict.fromkeys(s["kind"] for s in result["spaces"]):
        found = [s for s in result["spaces"] if s["kind"] == kind and "median" in s]
        right.plot([s["parameters"] for s in found], [s["median"] * 1e3 for s in found], marker="o", label=kind)
    right.set_xscale("log")
    right.set_ylim(0)
    right.set_xlabel("parameters, nominal")
    right.set_ylabel("milliseconds a step")
    if result["spaces"]:
        right.legend(fontsize=8)
    save(pyplot, figure, left, result, path)
