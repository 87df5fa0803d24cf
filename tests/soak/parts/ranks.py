"""Relations of runs over ranks."""

from parts import results
from parts.program import Failure, Refused
from parts.trial import no_policy


def pooled(plan):
    """Tables whose bags an owner can combine."""
    apart = {
        f["name"]
        for f in plan.config["data"]["features"]
        if "weights" in f or f.get("compose", "pool") != "pool"
    }
    sequences = {f["name"] for f in plan.config["embedding"].get("features", [])}
    shared = {f.get("table") for f in plan.config["embedding"].get("features", [])}
    return [name for name in plan.tables if name not in apart | sequences | shared | set(plan.keyed)]


def cluster_of(t, plan, which, ranks):
    """Where tables are, by hand or not."""
    case = t.case
    out = {
        "virtual_shards": 4,
        "timeout_s": 20,
        "replicate_below": case.one_of(f"replicate_below{which}", 1, [1, 1, 50, 10000]),
    }
    tables = []
    for name in plan.tables:
        sharding = case.one_of(
            f"sharding/{name}{which}",
            "auto",
            ["auto", "table_wise", "row_wise"]
            if name in plan.keyed
            else ["auto", "replicated", "table_wise", "row_wise", "table_wise"]
            + ([] if plan.coupled else ["column_wise"]),
        )
        if sharding == "auto":
            continue
        table = {"name": name, "sharding": sharding}
        if sharding in ("table_wise", "column_wise"):
            table["owner_pooling"] = (
                case.one_of(f"owner_pooling/{name}{which}", "auto", ["auto", "true", "true", "false"])
                if name in pooled(plan)
                else "false"
            )
        tables.append(table)
    if tables and case.maybe(f"placed{which}", 0.7):
        out["tables"] = tables
    return out


def spread_if_wished(t):
    """Some cases run over ranks: as many as keep the bits."""

    def change(plan):
        t.ranks = [1]
        if not t.has_mpi or not t.case.maybe("spread", 0.35):
            return
        stale = plan.config["train"]["staleness"] > 0
        t.ranks = [2, 4] if stale else [1, 2, 4]
        if plan.config["train"]["batch_size"] < 20:
            t.ranks = [1]
        plan.config["cluster"] = cluster_of(t, plan, "", max(t.ranks))

    return change


def spread(t):
    """docs/distributed.md: with virtual_shards the same bits on any number of ranks, wherever tables are; checkpoints load on any number."""
    if not t.has_mpi:
        raise Refused("no mpirun")
    plan = t.make(
        change=lambda plan: plan.config.update(
            cluster={"virtual_shards": 4, "timeout_s": 20, "replicate_below": 1}
        )
    )
    stale = plan.config["train"]["staleness"] > 0
    t.program.trained("run.yaml", "a", first=True, ranks=2 if stale else 1)
    ranks = t.case.one_of("ranks", 2, [2, 2, 3, 4])
    cluster = cluster_of(t, plan, "", ranks)
    if plan.kind != "two_tower" and ranks > 2 and t.case.maybe("readers", 0.3):
        cluster["reader_ranks"] = 1
    elif ranks > 2 and t.case.maybe("holders", 0.4):
        cluster["embedding_ranks"] = 1
    if plan.kind != "two_tower" and t.case.maybe("planned", 0.25):
        t.write("planned.yaml", plan.config, cluster=cluster)
        t.program.ask(["plan", "--ranks", ranks, "--write", "plan.yaml", "planned.yaml"])
        cluster = {key: value for key, value in cluster.items() if key not in ("tables", "replicate_below")} | {"plan": "plan.yaml"}
        plan.config["cluster"].pop("replicate_below")
    t.write("other.yaml", plan.config, cluster=cluster)
    ended = t.program.train("other.yaml", "b", ranks=ranks, threads=t.threads("b"))
    if ended.code != 0:
        if "key '" in ended.err:
            raise Refused(f"train failed: {ended.error()}")
        raise Failure(f"train failed: {ended.error()}")
    t.program.look_for_strays("b")
    results.same_end(t.work / "a", t.work / "b", f"{ranks} ranks")
    if plan.kind == "two_tower":
        return
    wanted = t.program.ask(["predict", "b", "test"])
    if (
        t.program.ask(["predict", "b", "test"], ranks=t.case.one_of("predicting", 2, [2, 3])) != wanted
        or t.program.ask(["predict", "a", "test"]) != wanted
    ):
        raise Failure("predictions over ranks differ from one process's")


def repeated(t):
    """docs/distributed.md: stale and asynchronous runs give the same bits each time; so does one that was stopped at a step of a checkpoint; owner_pooling changes none."""
    if not t.has_mpi:
        raise Refused("no mpirun")

    stop = 1

    def change(plan):
        nonlocal stop
        no_policy(plan)
        train = plan.config["train"]
        per_epoch = -(-plan.n_train // train["batch_size"])
        train.update(epochs=max(2, train["epochs"]), steps=0, staleness=max(1, train["staleness"]))
        # Often before an epoch's last batch, which is shorter: what the first batches leave room for is then outgrown.
        stop = max(
            1,
            t.case.chance("stop").choice(
                [per_epoch - 1, per_epoch - 1, t.case.chance("stop").randrange(1, per_epoch * 2)]
            ),
        )
        train["checkpoint"].update(every_steps=t.case.one_of("save", stop, [0, stop]), every_epochs=0)
        train["evaluate"].update(every_steps=0, every_epochs=0)
        tables = [
            {
                "name": name,
                "sharding": "table_wise",
                "ranks": [t.case.one_of(f"owner/{name}", 0, [0, 1])],
                "owner_pooling": "true",
            }
            for name in pooled(plan)
        ]
        plan.config["cluster"] = {
            "timeout_s": 20,
            "replicate_below": 1,
            "wire_dense": t.case.one_of("wire_dense", "auto", ["auto", "bf16", "int8", "powersgd"]),
            **({"tables": tables} if t.case.maybe("owner_pooling", 0.8) else {}),
        }

    t.make(change=change)
    watch = {"LD_PRELOAD": str(t.program.points)}
    t.program.trained("run.yaml", "a", first=True, ranks=2, **watch)
    t.program.trained("run.yaml", "b", "--set", f"train.steps={stop}", ranks=2, **watch)
    t.program.trained("run.yaml", "b", "--resume", ranks=2, **watch)
    results.same_parameters(
        results.newest(t.work / "a"), results.newest(t.work / "b"), "gone on from a checkpoint"
    )


def wires(t):
    """docs/models.md: a step whose gradients are not finite changes nothing; so what is finite stays so, over any wire."""
    if not t.has_mpi:
        raise Refused("no mpirun")

    def change(plan):
        plan.config["cluster"] = {
            **cluster_of(t, plan, "", 2),
            "wire": t.case.one_of("wire", "f16", ["f16", "f16", "bf16"]),
            "wire_dense": t.case.one_of("wire_dense", "auto", ["auto", "int8", "powersgd"]),
        }
        plan.config["train"].update(log_every=1, on_not_finite="skip")
        plan.config["cluster"].pop("virtual_shards")

    plan = t.make(change=change)
    t.program.trained("run.yaml", "a", first=True, ranks=2)
    bad = results.not_finite(results.newest(t.work / "a"))
    if bad:
        cluster = plan.config["cluster"]
        raise Failure(f"not finite over {cluster['wire']}, {cluster['wire_dense']}: {', '.join(bad[:4])}")
