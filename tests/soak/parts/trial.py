"""What relations share: a case's files, and what its settings mean."""

import copy
import math

import yaml

from parts import measure, results, rows, settings
from parts.program import Failure

COLUMNS = [
    "click",
    "bought",
    "y",
    "user",
    "item",
    "version",
    "age",
    "size",
    "tags",
    "tag_weights",
    "history",
    "weight",
    "group",
    "time",
    "pair",
]


class InFull(yaml.SafeDumper):
    """Without anchors, which run files have not."""

    def ignore_aliases(self, data):
        return True


class Trial:
    """A case's files in a folder, and the program to try them with."""

    def __init__(self, case, program, has_mpi):
        self.case, self.program, self.work, self.has_mpi = case, program, program.work, has_mpi

    def make(self, kinds=None, change=None):
        """Draw the case, write its data and run.yaml."""
        plan = settings.make(self.case, kinds)
        if change:
            change(plan)
        self.plan = plan
        self.rows = {
            split: rows.draw(self.case, n, split, plan.users, plan.items)
            for split, n in (("train", plan.n_train), ("valid", 150), ("test", 130))
        }
        for split, drawn in self.rows.items():
            rows.write(self.work / f"{split}.csv", drawn, COLUMNS)
        rows.write(self.work / "brands.csv", rows.brands(self.case, plan.items), ["item", "brand"])
        (self.work / "words.txt").write_text("".join(f"{i}\n" for i in range(1, 25, 2)))
        self.write("run.yaml", plan.config)
        return plan

    def write(self, name, config, **sections):
        """A run file: the config, with keys of some sections in place of its own."""
        config = copy.deepcopy(config)
        for section, keys in sections.items():
            config.setdefault(section, {}).update(keys)
        (self.work / name).write_text(
            yaml.dump(config, Dumper=InFull, sort_keys=False, default_flow_style=None, width=150)
        )
        return name

    def threads(self, name):
        return self.case.one_of(f"threads/{name}", 1, [1, 2, 3])

    def changes_best(self):
        """Whether evaluations say what the run ends with, or how it goes on."""
        train = self.plan.config["train"]
        return "early_stopping" in train or "plateau" in train

    def keeps_best(self):
        return (
            "valid" in self.plan.config["data"]
            and self.plan.config["train"].get("keep_best", "auto") != "false"
        )


def watched(t):
    """The metric that says what is best, and whether larger is better."""
    label = t.plan.labels[0]
    name = "rmse" if label.get("loss") == "mse" else "auc"
    return (f"{label['name']}/{name}" if len(t.plan.labels) > 1 else name), name == "auc"


def judge(t, entries):
    """The step of the best of some evaluations, and how many of them end a run that is stopped early, or None."""
    name, larger = watched(t)
    stopping = t.plan.config["train"].get("early_stopping", {})
    return measure.judge(entries, name, larger, stopping.get("min_delta", 0), stopping.get("patience"))


def no_policy(plan):
    train = plan.config["train"]
    for key in ("early_stopping", "plateau"):
        train.pop(key, None)
    if "valid" in plan.config["data"]:
        train["keep_best"] = "false"
    train["log_every"] = 1


def check_finite(output):
    """docs/models.md: what is not finite changes nothing."""
    losses = [entry.get("loss") for entry in results.log_of(output, ("train",))]
    if all(isinstance(loss, float) and math.isfinite(loss) for loss in losses):
        bad = results.not_finite(results.newest(output))
        if bad:
            raise Failure(f"all losses are finite, but not {', '.join(bad[:4])}")
