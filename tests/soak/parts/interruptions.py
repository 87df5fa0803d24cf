"""Runs that are killed, stopped or split, and go on."""

import json
import signal

from parts import results
from parts.ranks import spread_if_wished
from parts.program import Failure
from parts.trial import judge


def points_of(path):
    by_kind = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        kind = line.split(" ")[0]
        by_kind[kind] = by_kind.get(kind, 0) + 1
    return by_kind


def shown_step(path):
    """The step of the newest checkpoint that became visible."""
    steps = (
        [
            int(line.rsplit("step-", 1)[1])
            for line in path.read_text().splitlines()
            if line.startswith("rename ") and line.rsplit("/", 1)[-1].startswith("step-")
        ]
        if path.exists()
        else []
    )
    return max(steps, default=0)


def resumed_step(ended):
    lines = [line for line in ended.err.splitlines() if "resumed from" in line]
    return int(lines[-1].rsplit("step-", 1)[1].split("'")[0]) if lines else None


def check_stopped(t, output):
    """What eval takes of a run that goes on: the best evaluation's parameters, where they are kept, else the newest."""
    if t.plan.kind == "two_tower" or "valid" not in t.plan.config["data"] or not results.checkpoints(output):
        return
    told = json.loads(t.program.ask(["eval", "--json", "--data", "valid", output.name]))
    expected = results.step_of(results.newest(output))
    if t.keeps_best():
        best, _ = judge(t, [e for e in results.log_of(output, ("valid",)) if e["step"] <= expected])
        expected = best if best is not None else expected
    if not told["checkpoint"].endswith(f"step-{expected:09d}"):
        raise Failure(f"eval of a stopped run takes {told['checkpoint']}, not step {expected}")


def check_gone_on(ended, seen):
    """The newest checkpoint that was ever there is gone on from, unless the run was killed before it said from which."""
    was = resumed_step(ended)
    if was is None and ended.code != 0:
        return
    if (was or 0) < seen["step"]:
        raise Failure(f"step {seen['step']} was saved, but the run goes on from {was}\n{ended.err[-1500:]}")


def interrupt(t, number, ranks, by_kind, seen):
    """One disturbance: a run that goes on, until a signal at a point or the end of a split."""
    r = t.case.chance(f"stop/{number}")
    ways = ["KILL", "KILL", "FAIL", "INT"]
    if not t.changes_best() and t.plan.n_steps > 2:
        ways.append("steps")
    way = t.case.one_of(f"way/{number}", "KILL", ways)
    points = t.work / f"points.{number}"
    more, extra = [], {}
    if way == "steps":
        more = ["--set", f"train.steps={max(1, r.randrange(t.plan.n_steps))}"]
        t.split = True
    else:
        kinds = sorted(by_kind.keys() - {"clock"} if way == "FAIL" else by_kind) + ["write", "rename"]
        kind = r.choice(kinds)
        most = by_kind[kind]
        if way == "INT" and r.random() < 0.5:  # soon, before anything is evaluated or saved again
            kind, most = "clock", max(1, by_kind["clock"] // 6)
        number_of = {"KILL": int(signal.SIGKILL), "INT": int(signal.SIGINT), "FAIL": 0}
        extra = {
            "RK_POINT": f"{kind}:{r.randint(1, most)}:{number_of[way]}",
            "RK_POINTS": points.name,
            "RK_POINT_RANK": str(r.randrange(ranks) if r.random() < 0.3 else 0),
            "LD_PRELOAD": str(t.program.points),
        }
    ended = t.program.train(
        "run.yaml",
        "b",
        "--resume",
        *more,
        killed=way in ("KILL", "INT") or (way == "FAIL" and ranks > 1),
        ranks=ranks,
        threads=t.threads(number),
        **extra,
    )
    check_gone_on(ended, seen)
    seen["step"] = max(seen["step"], shown_step(points))
    if way in ("INT", "steps"):
        # -SIGINT: it came before the program listens, while a run is only being opened.
        if ended.code not in (0, 130, -signal.SIGINT) and ranks == 1:
            raise Failure(f"ended with {ended.code}: {ended.error()}")
        check_stopped(t, t.work / "b")
    if not t.keeps_best() and r.random() < 0.2:
        damage(t.work / "b", r, seen)


def damage(output, r, seen):
    """The newest checkpoint is no longer what was written: the one before it is gone on from."""
    found = results.checkpoints(output)
    if len(found) < 2:
        return
    file = r.choice(sorted(file for file in found[-1].iterdir() if file.is_file() and file.stat().st_size))
    data = bytearray(file.read_bytes())
    data[r.randrange(len(data))] ^= 1 << r.randrange(8)
    file.write_bytes(data)
    seen["step"] = results.step_of(found[-2])


def resume(t):
    """README: after any crash, the bytes of a run that was not disturbed."""
    t.split = False
    t.make(change=spread_if_wished(t))
    ranks = t.ranks
    points = t.work / "points"
    extra = {"RK_POINTS": points.name, "RK_POINT_RANK": "0", "LD_PRELOAD": str(t.program.points)}
    t.program.trained("run.yaml", "a", first=True, ranks=ranks[0], **extra)
    by_kind = {k: v for k, v in points_of(points).items() if v}
    seen = {"step": 0}
    # A full disk, a call that fails and a damaged file are no more than a crash.
    for number in range(t.case.pick("stops", 1, lambda r: r.randint(1, 4))):
        interrupt(t, number, t.case.chance(f"ranks/{number}").choice(ranks), by_kind, seen)
    t.program.trained(
        "run.yaml",
        "b",
        "--resume",
        ranks=t.case.chance("ranks/last").choice(ranks),
        threads=t.threads("last"),
    )
    a, b = t.work / "a", t.work / "b"
    if t.split:
        results.same_parameters(results.newest(a), results.newest(b), "resumed")
        return
    late = max(ranks) > 1 and t.plan.config["train"]["staleness"]  # as in `frequency`
    results.same_end(a, b, "resumed", ("valid", "test") if late else ("train", "valid", "test"))
    told = [json.loads(t.program.ask(["eval", "--json", name])) for name in ("a", "b")]
    if told[0]["metrics"] != told[1]["metrics"]:
        raise Failure(f"eval of the resumed run: {told[0]} and {told[1]}")
