"""Callbacks for reckon.train: progress on the terminal, metrics to experiment trackers.

    reckon.train("run.yaml", callbacks=[reckon.callbacks.progress(), reckon.callbacks.log_metrics(wandb.log)])
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Optional, TextIO

from ._train import Callback, Event

__all__ = ["log_metrics", "progress", "tensorboard"]


def _format_metric(name: str, value: float) -> str:
    return f"{value:,.0f}" if name.startswith("dynamic_") else f"{value:.5f}"


def _format_metrics(metrics: Any) -> str:
    return ", ".join(f"{name} {_format_metric(name, value)}" for name, value in metrics.items())


class _LineProgress:
    """A line an event."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def __call__(self, event: Event) -> None:
        if event.kind == "progress":
            of = f" of {event.n_steps}" if event.n_steps else ""
            text = f"epoch {event.epoch + 1}, step {event.step}{of}: loss {event.loss:.5f}, {event.samples_per_second:,.0f} samples/s"
            if event.metrics:
                text += f", {_format_metrics(event.metrics)}"
        elif event.metrics:
            text = f"{'test' if event.kind == 'test' else 'validation'}: {_format_metrics(event.metrics)}"
        elif event.kind == "checkpoint":
            return
        else:
            text = event.message
        print(text, file=self.file, flush=True)


class _BarProgress:
    """One bar for the whole run, with the loss and the latest metrics behind it."""

    def __init__(self, make: Any, file: TextIO) -> None:
        self.make, self.file, self.bar = make, file, None
        self.shown: Dict[str, str] = {}

    def __call__(self, event: Event) -> None:
        if event.kind == "stage":
            self.close()
            self.bar = self.make(desc=event.message, file=self.file, unit="step")
        if self.bar is None:
            return
        if event.kind == "progress":
            if event.n_steps:
                self.bar.total = event.n_steps
            self.shown["loss"] = f"{event.loss:.5f}"
            self.bar.update(event.step - self.bar.n)
        self.shown.update({name: _format_metric(name, value) for name, value in event.metrics.items()})
        self.bar.set_postfix(self.shown)
        if event.kind == "stop":
            self.close()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        self.bar = None


def progress(file: Optional[TextIO] = None) -> Callback:
    """Shows how far the training is: a bar where tqdm is installed, else a line an event; on stderr, or in `file`.

    >>> with open(folder + "/progress.txt", "w") as file:
    ...     reckon.train(run, train=log.train, output=folder + "/shown", callbacks=[reckon.callbacks.progress(file)]).close()
    """
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _LineProgress(file or sys.stderr)
    return _BarProgress(tqdm, file or sys.stderr)


def log_metrics(log: Callable[..., Any]) -> Callback:
    """Gives metrics to log(metrics, step=step), as wandb.log and mlflow.log_metrics take them.

    The names are those of metrics.jsonl and of the run's TensorBoard files: train/loss, train/samples_per_second, valid/auc, test/auc.

    >>> noted = {}
    >>> tell = reckon.callbacks.log_metrics(lambda metrics, step: noted.update(metrics))
    >>> reckon.train(run, train=log.train, valid=log.valid, output=folder + "/noted", callbacks=[tell]).close()
    >>> "train/loss" in noted, "valid/auc" in noted
    (True, True)
    """

    def tell(event: Event) -> None:
        split = {"progress": "train", "evaluation": "valid", "test": "test"}.get(event.kind)
        if split is None:
            return
        rates = {"loss": event.loss, "samples_per_second": event.samples_per_second} if split == "train" else {}
        values = {**rates, **event.metrics}
        log({f"{split}/{name}": value for name, value in values.items()}, step=event.step)

    return tell


def tensorboard(writer: Any) -> Callback:
    """Metrics as scalars of a SummaryWriter: add_scalar(name, value, step). For a writer that is there already: train.tensorboard in the run file has
    the run write event files of its own.

    >>> from torch.utils.tensorboard import SummaryWriter  # doctest: +SKIP
    >>> reckon.train(run, train=log.train, callbacks=[reckon.callbacks.tensorboard(SummaryWriter())])  # doctest: +SKIP
    """

    def log(metrics: Dict[str, float], step: int) -> None:
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)

    return log_metrics(log)
