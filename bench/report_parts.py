"""What every workload's report has: the machine, the heading, tables, plots."""
import platform
import subprocess


def machine():
    cpu = next(line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    memory = next(int(line.split()[1]) * 1024 for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    cores = sum(line.startswith("processor") for line in open("/proc/cpuinfo"))
    return {"cpu": cpu, "cores": cores, "memory_bytes": memory, "kernel": platform.release(), "python": platform.python_version()}


def source(repository):
    """The commit, and whether files other than results, which runs write, differ from it."""
    call = lambda *words: subprocess.run(["git", "-C", repository, *words], capture_output=True, text=True).stdout.strip()
    changed = call("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results")
    return (call("describe", "--always") or "unknown") + ("-dirty" if changed else "")


def seconds(value):
    return f"{value:.2f} s" if value >= 10 else f"{value * 1e3:.4g} ms"


def seconds_range(value):
    return f"{seconds(value['median'])} ({seconds(value['min'])} .. {seconds(value['max'])})"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def heading(result):
    m = result["machine"]
    return [f"# {result['workload']} {result['title']}",
            f"{m['cpu']}, {m['cores']} cores, {m['memory_bytes'] / 2**30:.0f} GiB, Linux {m['kernel']}; {result['threads']} threads a side; {result['date']}; "
            f"Reckon {result['source']}{' (' + result['isa'] + ')' if result['isa'] else ''}." + (" Tiny sizes, which tell nothing about speed." if result["small"] else ""),
            result["notes"]]


def version_list(versions):
    return "\n".join(f"- {side}: " + ", ".join(f"{k} {v}" for k, v in found.items()) for side, found in versions.items())


def plotter():
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "reckon"
    from matplotlib import pyplot
    return pyplot


def save(pyplot, figure, axes, result, path):
    axes.set_title(f"{result['workload']} {result['title']}", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
