"""W9: the server beside ONNX Runtime, alone and behind uvicorn. The server has core 0, the load generator core 1."""
import argparse
import datetime
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import data
import http_requests
import report_parts
from common import BENCH, HOME, ROOT, call, spread
from workloads import CARDINALITIES, HOTNESS, Case, Feature, dlrm_dcnv2

PROGRAM, PROGRAMS = ROOT / "build" / "reckon", ROOT / "build" / "bench"
SERVER_CORE, LOAD_CORE = 0, 1
SIZES, FORMATS, CONNECTIONS, N_REQUESTS = (1, 100, 500), ("JSON", "binary"), 16, 32
OURS, PEER, ALONE = "Reckon", "uvicorn + ONNX Runtime", "ONNX Runtime alone"
TOLERANCE = 1e-5
PYTHON = HOME / "venv-serve" / "bin" / "python"
LEAST_REQUESTS = 400  # of an open loop, from which a p99 is taken, if they fit into MOST_SECONDS
MOST_SECONDS = 4
NOTES = ("A request asks for predictions for 1, 100 or 500 candidates of one user, over HTTP keep-alive connections. JSON: the user's columns as `context`, the candidates' as rows (TensorFlow Serving's words); binary: the "
         "Open Inference Protocol's tensors as bytes, which have no context, so that the user's columns stand in every row. Both servers get the same bytes and answer with the same numbers, within 1e-5. (a): 10 one-hot "
         "features of 100,000 rows, dim 16, MLP 256-128, f32; the first 5 are the user's. (b): W4's model with its tables capped at 100,000 rows each, so that it fits beside its peer, int8 rows; the user has the 13 numbers and "
         "the 10 features of more than 3 ids (190 ids), a candidate the 16 others (24 ids). Both sides compute with the same tensors of one export; the peer's graph is that of `reckon export --format onnx --bags padded`, less its masks of missing ids, which these requests "
         "do not have, and with a plain Gather for one-hot features. uvicorn: uvloop, httptools, a bare ASGI "
         "application, orjson, one worker. Each server has one thread that computes, on core 0; the load comes from core 1. Closed loop: 16 connections, each of which sends its next request when the last one is answered; its rate is what a side sustains. "
         "Open loop: requests are due at random times at half that rate, and a latency counts from when its request was due. CPU: what the server's process takes a request, user and system. Forward: processor time from ids in memory "
         "to predictions, one thread, without a server; ONNX Runtime with bound inputs and outputs, and less what such a call of an empty model takes; the least of each round beside the least of the products alone. One user beside 500 items: rk_session_score, beside rk_session_run of all columns written out in each row, the same bits. (c): one user's history of 200 items "
         "before a candidate, dim 16, the attention's layers 80-40, MLP 200-80, f32.")


def wide():
    return Case("a", 512, 4, [Feature(f"c{i}", 100_000, 1, 16) for i in range(10)], "zipf", model={"kind": "dnn", "deep": [256, 128]}, optimizer="adagrad", rate=0.02)


def dlrm(small):
    case = dlrm_dcnv2(small, False).cases[0]
    features = [Feature(f"c{i}", min(rows, 10_000 if small else 100_000), hotness, case.features[0].dim) for i, (rows, hotness) in enumerate(zip(CARDINALITIES, HOTNESS))]
    return Case("b", 512, 4, features, "zipf", n_dense=13, model=case.model, optimizer="adagrad", rate=0.002)


DIN = {"kind": "din", "attention": [{"target": "item", "history": "history"}], "attention_deep": [80, 40], "deep": [200, 80]}


def din():
    """Lookups alone: the run file's model is DIN."""
    return Case("din", 512, 4, [Feature("history", 100_000, 200, 16), Feature("item", 100_000, 1, 16)], "zipf", optimizer="adagrad", rate=0.02)


class Model:
    """A case's export, its samples, and which columns are the user's, the first ones. sections: more of the run file."""

    def __init__(self, title, case, rows, is_users, small, sections={}):
        self.title, self.case, self.rows, self.small, self.sections = title, case, rows, small, sections
        self.users = [f.name for f in case.features if is_users(f)]
        self.items = [f.name for f in case.features if not is_users(f)]
        self.numbers = [f"n{i}" for i in range(case.n_dense)]
        self.folder = HOME / ("data-small" if small else "data") / "W9" / case.name

    def prepare(self):
        print(f"W9 {self.title}: data", flush=True)
        data.make(self.case, self.folder, PROGRAMS)
        if not (self.folder / "served" / "1" / "plain.onnx").exists():
            self.train()
        self.ids = {f.name: np.fromfile(self.folder / f"{f.name}.i64", np.int64).reshape(-1, f.hotness) for f in self.case.features}
        numbers = np.fromfile(self.folder / "dense.f32", np.float32).reshape(-1, max(self.case.n_dense, 1))
        self.dense = {name: numbers[:, i] for i, name in enumerate(self.numbers)}

    def train(self):
        """A short training from rows that differ, so that predictions do; then the export that both sides load."""
        run = data.run_file(self.case)
        run["data"]["features"] = [f for f in run["data"]["features"] if not f.get("dense")] + [{"name": name, "dense": True} for name in self.numbers]
        run["embedding"] |= {"initializer": {"kind": "normal", "stddev": 0.05}} | self.sections.get("embedding", {})
        run["model"] = self.sections.get("model", self.case.model)
        run["train"] |= {"epochs": 1, "batch_size": 256}
        (self.folder / "serve-run.yaml").write_text(json.dumps(run, indent=1))
        data.write_rows(self.folder, PROGRAMS)
        subprocess.run([PROGRAM, "train", "--quiet", "--overwrite", "--output", self.folder / "run", self.folder / "serve-run.yaml"], check=True)
        shutil.rmtree(self.folder / "served", ignore_errors=True)
        (self.folder / "served").mkdir()
        subprocess.run([PROGRAM, "export", "--format", "onnx", "--bags", "padded", "--rows", self.rows, self.folder / "run", self.folder / "served" / "1"], check=True)
        call([PYTHON, BENCH / "peers" / "onnx_plain.py", self.folder / "served" / "1", *(f"{f.name}={f.hotness}" for f in self.case.features)])

    def requests(self, n, kind):
        """N_REQUESTS users, each with n candidates."""
        total = len(next(iter(self.ids.values())))
        chosen = np.random.default_rng(n).integers(total, size=(N_REQUESTS, n + 1))
        return [self.json_request(c[0], c[1:]) if kind == "JSON" else self.binary_request(c[0], c[1:]) for c in chosen]

    def json_request(self, user, items):
        def value(name, row):
            ids = self.ids[name][row].tolist()
            return ids if len(ids) > 1 else ids[0]

        context = {name: value(name, user) for name in self.users} | {name: round(float(a[user]), 3) for name, a in self.dense.items()}
        return http_requests.predict("m", context, [{name: value(name, item) for name in self.items} for item in items])

    def binary_request(self, user, items):
        columns = {name: np.repeat(self.ids[name][user][None], len(items), axis=0) for name in self.users}
        columns |= {name: np.full((len(items), 1), round(float(a[user]), 3), np.float32) for name, a in self.dense.items()}
        return http_requests.infer("m", columns | {name: self.ids[name][items] for name in self.items})


# --- servers and load -------------------------------------------------------------------------------------------------------------


class Server:
    """A process on the server's core, with a port."""

    def __init__(self, argv, port=None):
        self.process = subprocess.Popen(["taskset", "-c", str(SERVER_CORE), *map(str, argv)], stderr=subprocess.PIPE, text=True)
        self.port, self.pid = port or self.announced_port(), self.process.pid
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.wait_until_it_listens()

    def announced_port(self):
        said = []
        while not (found := re.search(r"port (\d+)", said[-1] if said else "")):
            said.append(self.process.stderr.readline())
            if not said[-1]:
                raise RuntimeError("the server did not start: " + "".join(said)[-300:])
        return int(found[1])

    def wait_until_it_listens(self):
        for _ in range(600):
            try:
                return socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError("the server ended before it listened") from None
                time.sleep(0.1)
        raise RuntimeError("the server does not listen")

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_ours(served, folder, more=""):
    config = folder / "serve.yaml"
    config.write_text(f"listen: 127.0.0.1:0\nmodels: [{{name: m, path: {served}}}]\nbatching: {{num_batch_threads: 1}}\ndrain_delay: 0\n{more}")
    return Server([PROGRAM, "serve", config])


def start_peer(model):
    port = free_port()
    return Server([PYTHON, BENCH / "peers" / "serve_onnx.py", model.folder / "served" / "1" / "plain.onnx", port, *([",".join(model.numbers)] if model.numbers else [])], port)


def load(server, requests, **options):
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    found = call(["taskset", "-c", str(LOAD_CORE), PROGRAMS / "bench_http_load", str(server.port), requests, "--pid", str(server.pid), *words])
    if found["failed"]:
        raise RuntimeError(f"{found['failed']} requests failed: {found['why']}")
    return found


def check_equal(servers, requests):
    """The largest difference between the sides' predictions."""
    worst = 0.0
    sockets = {side: http_requests.connect(server.port) for side, server in servers.items()}
    for request in requests:
        ours, theirs = (np.array(http_requests.predictions(*http_requests.ask(s, request)), np.float32) for s in sockets.values())
        worst = max(worst, float(np.abs(ours - theirs).max()) if ours.shape == theirs.shape else float("inf"))
    for s in sockets.values():
        s.close()
    if not worst <= TOLERANCE:
        raise RuntimeError(f"the sides' predictions differ by {worst}")
    return worst


def one_round(server, requests, seconds):
    """What a side sustains, its processor time a request, and its latencies at half of that."""
    closed = load(server, requests, connections=CONNECTIONS, seconds=seconds)
    alone = load(server, requests, connections=1, seconds=seconds / 2)
    rate = closed["requests"] / closed["seconds"]
    opened = load(server, requests, connections=64, rate=rate / 2, seconds=min(MOST_SECONDS, max(seconds, LEAST_REQUESTS / (rate / 2))))
    return {"rate": rate, "cpu": closed["cpu_seconds"] / closed["requests"], "cpu_alone": alone["cpu_seconds"] / alone["requests"], "alone_p50": alone["p50"],
            "cpu_half": opened["cpu_seconds"] / opened["requests"], "p50": opened["p50"], "p99": opened["p99"]}


def spreads(rounds):
    return {key: spread([r[key] for r in rounds]) for key in rounds[0]}


def measure_served(model, args, folder):
    """Of each number of rows and format, both sides by turns."""
    servers = {OURS: start_ours(model.folder / "served", folder), PEER: start_peer(model)}
    rows = []
    try:
        for n in SIZES:
            for kind in FORMATS:
                requests = model.requests(n, kind)
                path = folder / "requests"
                http_requests.write(path, requests)
                difference, rounds = check_equal(servers, requests), {side: [] for side in servers}
                for _ in range(args.rounds):
                    for side, server in servers.items():
                        rounds[side].append(one_round(server, path, args.seconds))
                rows.append({"rows": n, "format": kind, "bytes": statistics.median(map(len, requests)), "difference": difference, "sides": {side: spreads(r) for side, r in rounds.items()}})
                print(f"  {n} rows, {kind}: " + "; ".join(f"{side} {s['rate']['median']:.0f}/s, {s['cpu']['median'] * 1e6:.0f} us of CPU, p99 {s['p99']['median'] * 1e3:.2f} ms"
                                                          for side, s in rows[-1]["sides"].items()), flush=True)
    finally:
        for server in servers.values():
            server.stop()
    return rows


# --- without a server -------------------------------------------------------------------------------------------------------------


def on_server_core(argv):
    return call(["taskset", "-c", str(SERVER_CORE), *map(str, argv)])


def gemm_seconds(case, n):
    """The model's products at n rows, by oneDNN in the layout that it likes best."""
    return sum(on_server_core([PROGRAMS / "bench_limits", "gemm", n, outputs, inputs, "--threads", 1, "--repeat", 30])["f32"]["forward"] for outputs, inputs in case.products)


def measure_forward(model, args):
    path, rows, versions = model.folder / "served" / "1", [], {}
    for n in SIZES:
        ours, theirs, gemm = [], [], []
        for _ in range(args.rounds):
            ours.append(on_server_core([PROGRAMS / "bench_forward", path, model.folder, n, "--seconds", args.seconds / 2]))
            theirs.append(on_server_core([PYTHON, BENCH / "peers" / "onnx_forward.py", model.folder / "served" / "1" / "plain.onnx", model.folder, n, "--seconds", args.seconds / 2]))
            gemm.append(gemm_seconds(model.case, n))
        difference = max(abs(a - b) for a, b in zip(ours[0]["predictions"], theirs[0]["predictions"]))
        if not difference <= TOLERANCE:
            raise RuntimeError(f"predictions differ by {difference}")
        rows.append({"rows": n, "difference": difference, "gemm": spread(gemm), OURS: spread([r["seconds"] for r in ours]), "least": spread([r["least"] for r in ours]), ALONE: spread([r["seconds"] for r in theirs]),
                     "less the call": spread([r["seconds"] - r["call_seconds"] for r in theirs])})
        print(f"  forward, {n} rows: {OURS} {rows[-1][OURS]['median'] * 1e6:.1f} us, {ALONE} {rows[-1][ALONE]['median'] * 1e6:.1f} us, gemm {rows[-1]['gemm']['median'] * 1e6:.1f} us", flush=True)
        versions = theirs[0]["versions"]
    return rows, versions, ours[0]["isa"]


def multiply_adds_saved(model, n):
    """Those of n rows, by those where the user's columns, which the first layer's input begins with, go through it once."""
    products = model.case.products
    whole, users = n * sum(outputs * inputs for outputs, inputs in products), sum(f.dim for f in model.case.features if f.name in model.users)
    return whole / (whole - (n - 1) * products[0][0] * users)


def measure_score(model, args):
    """One user beside 500 items, by how much that is quicker than with the user written out beside each."""
    rounds = [on_server_core([PROGRAMS / "bench_score", model.folder / "served" / "1", model.folder, SIZES[-1], len(model.users), "--seconds", args.seconds]) for _ in range(args.rounds)]
    found = spreads(rounds) | {"times": spread([r["written_out"] / r["scored"] for r in rounds])}
    print(f"  one user, {SIZES[-1]} items: {found['written_out']['median'] * 1e6:.0f} us written out, {found['scored']['median'] * 1e6:.0f} us scored", flush=True)
    return found


# --- reloads ----------------------------------------------------------------------------------------------------------------------


class Reloads:
    """A new version every second: the export once more (by links), under the next number, of which the last two are kept."""

    def __init__(self, source, folder):
        self.source, self.folder, self.n, self.over = source, folder, 1, threading.Event()
        shutil.copytree(source, folder / "1", copy_function=os.link)

    def run(self):
        while not self.over.wait(1):
            self.n += 1
            shutil.copytree(self.source, self.folder / "next", copy_function=os.link)
            (self.folder / "next").rename(self.folder / str(self.n))
            if self.n > 2:
                shutil.rmtree(self.folder / str(self.n - 2))

    def __enter__(self):
        self.over.clear()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *failure):
        self.over.set()
        self.thread.join()


def measure_reloads(model, args, folder):
    """p99 at half the sustained rate, by turns without reloads and with one every second."""
    served = folder / "versions"
    reloads = Reloads(model.folder / "served" / "1", served)
    server = start_ours(served, folder, "reload_interval: 0.1\n")
    requests, path, quiet, busy = model.requests(100, "JSON"), folder / "requests", [], []
    http_requests.write(path, requests)
    try:
        rate = load(server, path, seconds=args.seconds)
        rate = rate["requests"] / rate["seconds"] / 2
        seconds = 3 * args.seconds
        for _ in range(args.rounds):
            quiet.append(load(server, path, rate=rate, connections=64, seconds=seconds)["p99"])
            with reloads:
                busy.append(load(server, path, rate=rate, connections=64, seconds=seconds)["p99"])
    finally:
        server.stop()
    print(f"  reloads: p99 {statistics.median(quiet) * 1e3:.2f} ms without, {statistics.median(busy) * 1e3:.2f} ms with", flush=True)
    return {"rate": rate, "reloads": reloads.n - 1, "quiet": spread(quiet), "busy": spread(busy)}


# --- the whole --------------------------------------------------------------------------------------------------------------------


def ratio(value, limit, at_most, what):
    return {"goal": what, "value": value, "limit": limit, "sign": "<=" if at_most else ">=", "reached": value <= limit if at_most else value >= limit}


def goals(cases):
    """Of case (a), but for DIN's."""
    found = next((c for c in cases if c["name"].startswith("(a)")), None)
    if not found:
        return []
    served = {(r["rows"], r["format"]): r["sides"] for r in found["served"]}
    forward = {r["rows"]: r for r in found["forward"]}
    by = lambda key, n, kind="JSON": served[n, kind][OURS][key]["median"] / served[n, kind][PEER][key]["median"]
    one, hundred = forward[1], forward[100]
    out = [ratio(one[OURS]["median"] / one[ALONE]["median"], 0.8, True, "forward, 1 row, by ONNX Runtime's"),
           ratio(one[OURS]["median"] / one["less the call"]["median"], 0.8, True, "the same, less what its call takes"),
           ratio(hundred["least"]["median"] / hundred["gemm"]["median"], 1.1, True, "forward, 100 rows, by oneDNN's products, the least of each")]
    for key, what in ("cpu", "closed loop"), ("cpu_alone", "one connection"):
        out += [ratio(by(key, 1), 0.35, True, f"CPU a request by the peer's, 1 row, {what}"), ratio(by(key, 100), 0.6, True, f"CPU a request by the peer's, 100 rows, JSON, {what}")]
    out += [ratio(by("rate", 1), 3, False, "requests/s by the peer's, 1 row"), ratio(by("rate", 100), 1.6, False, "requests/s by the peer's, 100 rows")]
    saved = found["score"]["times"]["median"] / found["multiply_adds"]
    out.append(ratio(saved, 0.8, False, f"one user beside {SIZES[-1]} items: speedup by that of the multiply-adds"))
    history = next((c["score"] for c in cases if "forward" not in c), None)
    if history:
        out.append(ratio(history["times"]["median"], 3, False, f"one user beside {SIZES[-1]} items, DIN, a history of 200: speedup"))
    if found.get("reloads"):
        out.append(ratio(found["reloads"]["busy"]["median"] / found["reloads"]["quiet"]["median"], 1.5, True, "p99 with a reload every second by that without"))
    return out


def measure(args):
    """What is known after each case."""
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("W9 needs two cores: one for the server, one for the load")
    args = argparse.Namespace(**vars(args) | {"seconds": 0.3 if args.small else 1.0})
    models = [Model("(a) 10 features x 16, MLP 256-128", wide(), "f32", lambda f: int(f.name[1:]) < 5, args.small),
              Model("(b) W4's model, int8 rows", dlrm(args.small), "int8", lambda f: f.hotness > 3, args.small),
              Model("(c) DIN, a history of 200", din(), "f32", lambda f: f.name == "history", args.small,
                    {"model": DIN, "embedding": {"features": [{"name": "history", "table": "item", "max_sequence_length": 200}]}})]
    cases = []
    for model in models:
        if not re.search(args.case, model.title):
            continue
        model.prepare()
        if model is models[2]:
            cases.append({"name": model.title, "score": measure_score(model, args)})
            yield result_of(cases, args)
            continue
        with tempfile.TemporaryDirectory(prefix="w9-", dir=HOME) as name:
            forward, versions, isa = measure_forward(model, args)
            found = {"name": model.title, "forward": forward, "served": measure_served(model, args, Path(name)), "versions": versions, "isa": isa}
            if model is models[0]:
                found |= {"score": measure_score(model, args), "multiply_adds": multiply_adds_saved(model, SIZES[-1]), "reloads": measure_reloads(model, args, Path(name))}
        cases.append(found)
        yield result_of(cases, args)


def result_of(cases, args):
    return {"workload": "W9", "title": "serve: requests over HTTP", "notes": NOTES, "date": datetime.date.today().isoformat(), "small": args.small, "threads": 1, "isa": cases[0].get("isa", ""),
            "machine": report_parts.machine(), "source": report_parts.source(ROOT), "rounds": args.rounds, "cases": cases, "goals": goals(cases)}
