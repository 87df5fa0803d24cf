"""reckon.train: a run on a thread of its own, so that the caller's hears Ctrl-C and runs the callbacks."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import queue
import shutil
import signal
import tempfile
import threading
from ctypes import POINTER, byref, c_int32, c_void_p
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from . import errors
from ._arrow import Source, open_stream
from ._columns import is_path, take
from ._library import check, error_of, is_named, lib, path_bytes, text_bytes, texts
from ._model import Model, read_metrics
from ._structs import EventCallback, Metric, TrainerOptions

_KINDS = ["stage", "progress", "evaluation", "checkpoint", "stop"]


class StopTraining(Exception):
    """A callback raises it to end training early: the step is finished, a checkpoint is saved, and train returns.

    >>> def enough(event):
    ...     if event.kind == "evaluation" and event.metrics["auc"] > 0.6:
    ...         raise reckon.StopTraining
    >>> reckon.train(run, train=log.train, valid=log.valid, output=folder + "/enough", callbacks=[enough]).path
    '...step-...'
    """


@dataclasses.dataclass(frozen=True)
class Event:
    """What a callback is told.

    kind: "stage" (message: what begins), "progress" (every train.log_every steps; metrics: counts of dynamic tables' keys), "evaluation"
    (metrics of the validation data), "checkpoint" (message: its path), "stop" (message: why training ended), "test" (metrics of the test data).
    n_steps: of the run, 0 while unknown.
    loss: mean since the last progress. seconds_left: below 0 while unknown. best: this evaluation is the best so far.

    >>> kinds = set()
    >>> with reckon.train(run, train=log.train, test=log.test, output=folder + "/told", callbacks=[lambda event: kinds.add(event.kind)]):
    ...     sorted(kinds)
    ['checkpoint', 'progress', 'stage', 'stop', 'test']
    """

    kind: str
    message: str = ""
    epoch: int = 0
    step: int = 0
    n_steps: int = 0
    samples_per_second: float = 0.0
    loss: float = 0.0
    seconds_left: float = -1.0
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    best: bool = False


Callback = Callable[[Event], Any]


def _make_event(e: Any) -> Event:
    return Event(
        _KINDS[e.kind],
        (e.message or b"").decode(errors="replace"),
        e.epoch,
        e.step,
        e.n_steps,
        e.samples_per_second,
        e.loss,
        e.seconds_left,
        read_metrics(e.metrics, e.n_metrics),
        e.best,
    )


class _TrainingThread:
    """A training on its thread. Events wait for the caller's thread, which runs the callbacks."""

    def __init__(self, config: c_void_p, resume: bool, overwrite: bool, sources: Sequence[Source]) -> None:
        self.config, self.sources = config, sources
        self.options = TrainerOptions(resume=resume, overwrite=overwrite, on_event=EventCallback(self._on_event))
        self.trainer = c_void_p()
        self.lock = threading.Lock()  # the trainer is there while it is held
        self.stopped = self.is_calling = False
        self.epoch = self.step = 0  # of the last event
        self.failure: Optional[BaseException] = None
        self.events: "queue.SimpleQueue[Any]" = queue.SimpleQueue()  # Event, and what is set when it was heard; None: the end

    def _deliver_event(self, event: Event) -> None:
        heard = threading.Event()
        self.events.put((event, heard))
        heard.wait()

    def _on_event(self, _user: Any, event: Any) -> None:
        told = _make_event(event.contents)
        self.epoch, self.step = told.epoch, told.step
        self._deliver_event(told)

    def stop(self) -> None:
        with self.lock:
            if self.trainer:
                lib.rk_trainer_stop(self.trainer)
            else:
                for source in self.sources:
                    source.stop = True
            self.stopped = True

    def _run_trainer(self) -> None:
        trainer = c_void_p()
        check(lib.rk_trainer_create(self.config, byref(self.options), byref(trainer)))
        try:
            with self.lock:
                self.trainer = trainer
                if self.stopped:
                    lib.rk_trainer_stop(trainer)
            check(lib.rk_trainer_run(trainer))
            metrics, n = POINTER(Metric)(), c_int32()
            status = lib.rk_trainer_evaluate(trainer, b"test", byref(metrics), byref(n))
            if status == 0:
                self._deliver_event(Event("test", epoch=self.epoch, step=self.step, metrics=read_metrics(metrics, n.value)))
            elif not is_named(status, b"RK_NOT_FOUND"):
                raise error_of(status)
        finally:
            with self.lock:
                self.trainer = c_void_p()
            lib.rk_trainer_free(trainer)

    def _thread_main(self) -> None:
        try:
            self._run_trainer()
        except BaseException as failure:  # it is the caller's
            self.failure = failure
        finally:
            lib.rk_config_free(self.config)
            self.events.put(None)

    def _on_signal(self, *_: Any) -> None:
        """Ctrl-C: raised in a callback, once; else an event, so that it falls between no two lines of ours."""
        if self.is_calling:
            self.is_calling = False
            raise KeyboardInterrupt
        self.events.put((KeyboardInterrupt(), None))

    def _run_callbacks(self, callbacks: Sequence[Callback]) -> Optional[BaseException]:
        """Until the thread ends; what Ctrl-C or a callback raised first."""
        raised: Optional[BaseException] = None
        heard: Optional[threading.Event] = None
        while True:
            try:
                if raised is not None and not self.stopped:
                    self.stop()
                if heard is not None:
                    heard.set()
                    heard = None
                item = self.events.get()
                if item is None:
                    return raised
                event, heard = item
                if isinstance(event, KeyboardInterrupt):
                    raise event
                for callback in callbacks if raised is None else ():
                    self.is_calling = True
                    callback(event)
                    self.is_calling = False
            except BaseException as error:
                self.is_calling = False
                raised = raised or error

    def run(self, callbacks: Sequence[Callback]) -> None:
        """Owns the configuration from here on. However often Ctrl-C comes, the thread has ended when it returns."""
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGINT) if is_main else None
        takes_signal = before is signal.default_int_handler  # not one of the caller's
        if takes_signal:
            signal.signal(signal.SIGINT, self._on_signal)
        try:
            thread = threading.Thread(target=self._thread_main, name="reckon-train")
            thread.start()
            raised = self._run_callbacks(callbacks)
            thread.join()
        finally:
            if takes_signal:
                signal.signal(signal.SIGINT, before)
        if raised is None and not self.events.empty():  # Ctrl-C behind the end
            raised = KeyboardInterrupt()
        if raised is not None and not isinstance(raised, StopTraining):
            raise raised
        if self.failure is not None and not (raised is not None and isinstance(self.failure, errors.Interrupted)):
            raise self.failure


def _to_plain_value(value: Any, key: str) -> Any:
    """A value of a run file as JSON has it: paths as texts, numpy's numbers and arrays as Python's."""
    if isinstance(value, Mapping):
        return {name: _to_plain_value(v, f"{key}.{name}" if key else name) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain_value(v, f"{key}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, str) and "\0" in value:  # where C would end it
        raise errors.ConfigError(f"key '{key}': a zero byte is in {value!r}")
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise errors.ConfigError(f"key '{key}': a {type(value).__name__} is not taken, {value!r}", "give numbers, texts, lists and dicts")


def _to_json(value: Any, key: str = "", **how: Any) -> str:
    try:
        return json.dumps(_to_plain_value(value, key), ensure_ascii=False, **how)
    except RecursionError:
        raise errors.ConfigError(f"key '{key}': a list or dict holds itself") from None


def _parse_config(config: Any, overrides: List[str]) -> c_void_p:
    out = c_void_p()
    if isinstance(config, Mapping):
        text = text_bytes(_to_json(config, indent=1), "run file")
        check(lib.rk_config_parse(text, b"run", None, texts(overrides), len(overrides), byref(out)))
    else:
        check(lib.rk_config_load(path_bytes(config), texts(overrides), len(overrides), byref(out)))
    return out


def train(
    config: Union[str, "os.PathLike[str]", Mapping[str, Any]],
    *,
    train: Any = None,
    valid: Any = None,
    test: Any = None,
    output: Optional[Union[str, "os.PathLike[str]"]] = None,
    callbacks: Sequence[Callback] = (),
    overrides: Optional[Mapping[str, Any]] = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Model:
    """Trains the model of a run file and opens its best, or last, checkpoint.

    config: the path of a run file (docs/config.md), or the same as nested dicts. train, valid, test: rows in place of the run file's data:
    a table with __arrow_c_stream__ (pandas, polars, pyarrow, DuckDB), a dict of numpy arrays or lists by column name, or paths of files.
    They must not be changed while the run or the model has them; numpy columns and what Arrow hands out are not copied.
    output: the run's directory, in place of train.output. callbacks: functions of an Event, called on this thread, while the training waits.
    overrides: {"train.epochs": 3}, in place of the run file's. resume: go on from the newest checkpoint; overwrite: remove those that are there.

    Ctrl-C finishes the step, saves a checkpoint (resume=True goes on from it) and raises KeyboardInterrupt; what a callback raises does the
    same, and StopTraining has the model returned. Errors: ConfigError (also: the directory has a run), NotFound, BadData, NotFinite, Busy, and
    other subclasses of Error.

    >>> log = reckon.datasets.click_log(5000)
    >>> features = [{"name": "user", "hash": 1000}, {"name": "ad", "vocabulary": {}}, {"name": "interests", "vocabulary": {}}]
    >>> run = {
    ...     "data": {"labels": [{"name": "click"}], "features": features},
    ...     "embedding": {"dim": 8},
    ...     "model": {"kind": "fm"},
    ...     "train": {"batch_size": 128, "epochs": 2, "output": folder + "/fm", "optimizer": {"kind": "adam", "learning_rate": 0.01}},
    ... }
    >>> with reckon.train(run, train=log.train, valid=log.valid) as model:
    ...     "auc" in model.eval(log.test)
    True
    """
    if resume and overwrite:
        raise errors.InvalidArgument("resume and overwrite cannot be given together")
    odd = [callbacks] if callable(callbacks) else [c for c in callbacks if not callable(c)]
    if odd:
        raise errors.InvalidArgument(f"callbacks has {odd[0]!r}", "give a list of functions of an Event")
    told = [f"{key}={_to_json(value, key)}" for key, value in (overrides or {}).items()]
    sources: Dict[str, Source] = {}
    handle = c_void_p()
    try:
        for name, data in (("train", train), ("valid", valid), ("test", test)):
            if data is None:
                continue
            if not is_path(data):
                sources[name] = Source(take(data))
                data = f"arrow:{name}"
            told.append(f"data.{name}={_to_json(data)}")
        if output is not None:
            told.append(f"train.output={_to_json(os.fspath(output))}")
        handle = _parse_config(config, told)
        for name, source in sources.items():
            check(lib.rk_config_add_stream(handle, name.encode(), open_stream, ctypes.c_void_p(source.number)))
        path = os.fsdecode(lib.rk_config_output(handle))
        run = _TrainingThread(handle, resume, overwrite, list(sources.values()))
        handle = c_void_p()  # the run's now
        run.run(callbacks)
        return Model(path, "cpu", None, sources)
    except BaseException:
        for source in sources.values():
            source.close()
        raise
    finally:
        lib.rk_config_free(handle)


def train_in_memory(config: Mapping[str, Any], rows: Any, output: Optional[str], callbacks: Sequence[Callback]) -> Model:
    """Of the estimators: in place of a run that is there already, and without an output in a directory that lasts as long as the model."""
    if output is not None:
        return train(config, train=rows, output=output, callbacks=callbacks, overwrite=True)
    directory = tempfile.mkdtemp(prefix="reckon-")
    try:
        model = train(config, train=rows, output=directory, callbacks=callbacks)
    except BaseException:
        shutil.rmtree(directory, True)
        raise
    model._remove_with_model(directory)
    return model
