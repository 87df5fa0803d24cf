"""A trained model: predictions, metrics, rankings, exports."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import tempfile
import threading
import weakref
from ctypes import POINTER, byref, c_int32, c_int64, c_void_p
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from . import errors
from ._arrow import Columns, Source, lend_schema, open_stream
from ._columns import is_path, take
from ._library import check, error_of, int32, lib, path_bytes, take_text, text_bytes, texts
from ._parameters import Parameter, as_exported, parameters
from ._structs import ArrowSchema, ExportOptions, Metric, NamedStream, PredictorOptions, RecommendOptions, ReleaseSchema, RerankOptions, SessionOptions

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

Path = Union[str, "os.PathLike[str]"]
_ROWS_IN = ["files", "memory"]
_ROWS = ["trained", "f32", "f16", "bf16", "int8", "int4"]
_PIECE = 1 << 16  # rows of a request, so that a session's memory and the time to Ctrl-C stay small


def read_metrics(metrics: Any, n: int) -> Dict[str, float]:
    return {metrics[i].name.decode(): metrics[i].value for i in range(n)}


def _optional_text(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text_bytes(text)


class _Predictor(c_void_p):
    """Freed with the last that uses it: the model, or arrays over its parameters."""

    def __del__(self) -> None:
        lib.rk_predictor_free(self)


class Model:
    """What train and load give. Any number of threads may predict at once; other calls wait for one another.

    A context manager: close() frees its memory and lets go of data that it was given. After os.fork() parent and child may both use it, if
    no call was under way on any thread at the fork.

    >>> with reckon.load(folder + "/ads") as model:
    ...     model.tasks, sorted(model.inputs)
    (['click'], ['ad', 'hour', 'interests', 'user'])
    """

    def __init__(self, path: Path, device: Optional[str], threads: Optional[int], sources: Mapping[str, Source], rows_in: str = "files") -> None:
        """For train and load."""
        self._handle: Optional[_Predictor] = None
        self._pool = c_void_p()
        self._sources: Dict[str, Source] = dict(sources, data=Source(None))
        self._idle: List[c_void_p] = []
        self._n_running, self._is_closing = 0, False
        self._changed = threading.Condition()  # guards what stands above
        self._one = threading.Lock()  # held by calls that share the predictor's memory
        self._has_views = device == "cpu"  # of its parameters; those of a GPU are copies, which the library drops
        predictor = _Predictor()
        check(lib.rk_pool_create(int32(threads or 0, "threads"), byref(self._pool)))
        streams = (NamedStream * len(self._sources))(*[NamedStream(name.encode(), open_stream, source.number) for name, source in self._sources.items()])
        options = PredictorOptions(device=_optional_text(device), rows_in=_ROWS_IN.index(rows_in), streams=streams, n_streams=len(streams))
        check(lib.rk_predictor_open(path_bytes(path), byref(options), byref(predictor)))
        self._handle = predictor

    def close(self) -> None:
        """Waits for calls that are under way on other threads, and frees the model. A second call does nothing.

        >>> once = reckon.load(folder + "/ads")
        >>> once.close()
        >>> once
        <reckon.Model, closed>
        """
        with self._changed:
            self._is_closing = True
            while self._n_running:
                self._changed.wait()
            for session in self._idle:
                lib.rk_session_free(session)
            self._idle.clear()
            lib.rk_pool_free(self._pool)
            self._handle, self._pool = None, c_void_p()
        for source in self._sources.values():
            source.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_one"):
            self.close()

    def __reduce__(self) -> Any:
        """Pickled whole, as save writes it; without rows that it was given."""
        return model_of_files, (model_files(self),)

    def _remove_with_model(self, directory: str) -> None:
        """Removes a directory when the model is no more."""
        weakref.finalize(self, shutil.rmtree, directory, True)

    def __repr__(self) -> str:
        return "<reckon.Model, closed>" if self._handle is None else f"<reckon.Model {self.path}>"

    def _using(self) -> "_ModelInUse":
        return _ModelInUse(self)

    @property
    def path(self) -> str:
        """The checkpoint in use.

        >>> model.path
        '.../ads/checkpoints/step-...'
        """
        with self._using():
            return os.fsdecode(lib.rk_predictor_path(self._handle))

    @property
    def config(self) -> str:
        """The run file, whole, with every default filled in, as YAML.

        >>> "batch_size: 256" in model.config
        True
        """
        with self._using():
            text = c_void_p()
            check(lib.rk_config_to_yaml(lib.rk_predictor_config(self._handle), byref(text)))
            return take_text(text)

    @property
    def tasks(self) -> List[str]:
        """Names of the labels, in the order of the columns of predictions.

        >>> model.tasks
        ['click']
        """
        with self._using():
            return [lib.rk_predictor_task_name(self._handle, t).decode() for t in range(lib.rk_predictor_n_tasks(self._handle))]

    @property
    def inputs(self) -> List[str]:
        """Columns that predict needs.

        >>> sorted(model.inputs)
        ['ad', 'hour', 'interests', 'user']
        """
        with self._session() as session:
            schema = ArrowSchema()
            check(lib.rk_session_input_schema(session, byref(schema)))
            names = [schema.children[i].contents.name.decode() for i in range(lib.rk_session_n_inputs(session, byref(schema)))]
            ReleaseSchema(schema.release)(byref(schema))
            return names

    def _session(self) -> "_Session":
        return _Session(self)

    def predict(self, data: Any) -> Any:
        """Predictions of rows in memory: a table with __arrow_c_stream__ or a dict of arrays or lists by column name; labels may be missing.

        float32 of shape [rows], or [rows, tasks] where there are several: a numpy array, or a memoryview where numpy is not installed.
        Probabilities where the loss is a cross-entropy; the bits that `reckon predict` has for a file of the same rows. Errors: BadData names
        row and column; Unsupported: the model is on a GPU.

        >>> clicks = model.predict({"user": [7, 7], "ad": ["food-0", "games-1"], "hour": [9, 21], "interests": [["food"], None]})
        >>> clicks.shape, 0 < clicks[0] < 1
        ((2,), True)
        """
        columns = take(data)
        try:
            return self._predict(columns)
        finally:
            columns.release()

    def _predict(self, columns: Columns) -> Any:
        with self._session() as session:
            n_tasks = lib.rk_predictor_n_tasks(self._handle)
            shape = [columns.n_rows] if n_tasks == 1 else [columns.n_rows, n_tasks]
            out: Any
            if numpy is not None:
                out = numpy.empty(shape, numpy.float32)
                address = out.ctypes.data
            else:
                memory = (ctypes.c_float * max(columns.n_rows * n_tasks, 1))()
                out = memoryview(memory).cast("B")[: 4 * columns.n_rows * n_tasks].cast("f")
                out = out.cast("B").cast("f", shape) if columns.n_rows else out
                address = ctypes.addressof(memory)
            schema = lend_schema(columns.schema)
            if columns.n_rows == 0:
                self._check_columns(columns)
            first = 0
            for piece in columns.pieces(_PIECE):
                status = lib.rk_session_run(session, byref(schema), byref(piece), address + 4 * first * n_tasks)
                if status and first:
                    raise _error_with_row_offset(status, first)
                check(status)
                first += piece.length
            return out

    def _check_columns(self, columns: Columns) -> None:
        """Of no rows, which the library is not asked about."""
        given = columns.names()
        missing = next((name for name in self.inputs if name not in given), None)
        if missing is not None:
            raise errors.BadData(f"no column '{missing}'", f"the model needs {', '.join(self.inputs)}")

    def _split(self, data: Any) -> "_Split":
        return _Split(self, data)

    def eval(self, data: Any = "test") -> Dict[str, float]:
        """Metrics of labelled rows by name: "test" or "valid" of the run, a path, or rows in memory as predict takes them.

        >>> sorted(model.eval(log.test))
        ['accuracy', 'auc', 'calibration', 'logloss', 'normalized_entropy']
        """
        with self._split(data) as split:
            metrics, n, n_rows = POINTER(Metric)(), c_int32(), c_int64()
            check(lib.rk_predictor_evaluate(self._handle, split, byref(metrics), byref(n), byref(n_rows)))
            return read_metrics(metrics, n.value)

    def recommend(
        self, users: Any = "train", *, k: int = 100, items: Optional[Sequence[Any]] = None, without_items: Optional[Sequence[Any]] = None, with_known: bool = False
    ) -> List[Dict[str, Any]]:
        """The k best items of each user of a two_tower: [{"user": ..., "items": [...], "scores": [...]}, ...], the best first.

        users: "train", "valid", "test", a path, or rows in memory, in which the item's column may be missing. items: no others; without_items:
        none of these. Items of the training and validation data are left out, or not, by with_known. Other models: rerank.

        >>> best = towers.recommend({"user": [7]}, k=2)
        >>> best[0]["user"], len(best[0]["items"]), best[0]["scores"][0] >= best[0]["scores"][1]
        ('7', 2, True)
        """
        with self._split(users) as split, tempfile.TemporaryDirectory(prefix="reckon-") as directory:
            options = RecommendOptions(users=split, k=int32(k, "k"), with_known=with_known, format=1, output=path_bytes(os.path.join(directory, "out.jsonl")))
            for name, values in (("items", items), ("without_items", without_items)):
                if values is not None:
                    path = os.path.join(directory, name)
                    with open(path, "w", encoding="utf-8") as file:
                        file.writelines(f"{v}\n" for v in values)
                    setattr(options, name, path_bytes(path))
            check(lib.rk_predictor_recommend(self._handle, byref(options), None))
            return list(_read_json_lines(os.path.join(directory, "out.jsonl")))

    def rerank(self, candidates: Any, *, group: Optional[str] = None, item: Optional[str] = None, task: Optional[str] = None, k: int = 100) -> List[Dict[str, Any]]:
        """The k best rows of each group by their predictions: [{"group": ..., "rows": [...], "scores": [...]}, ...], and "items" where `item` names
        a column. candidates: as eval takes them, labels may be missing; group: a column, or the run's data.group; task: whose predictions.

        >>> ads = {"user": [7, 7, 7], "ad": ["food-0", "games-1", "shoes-2"], "hour": [9, 9, 9], "interests": [["food"]] * 3}
        >>> best = model.rerank(ads, group="user", item="ad", k=2)
        >>> best[0]["group"], len(best[0]["items"])
        ('7', 2)
        """
        with self._split(candidates) as split, tempfile.TemporaryDirectory(prefix="reckon-") as directory:
            output = os.path.join(directory, "out.jsonl")
            options = RerankOptions(group=_optional_text(group), item=_optional_text(item), task=_optional_text(task), k=int32(k, "k"), format=1, output=path_bytes(output))
            check(lib.rk_predictor_rerank(self._handle, split, byref(options), None))
            return list(_read_json_lines(output))

    def _parameters(self, has_views: bool) -> List[Parameter]:
        with self._using(), self._one:
            return list(parameters(self._handle, self._handle if has_views else None))

    def parameters(self) -> Dict[str, Any]:
        """Tables, dense parameters and running statistics by the names that they have in checkpoints: {"table/user/rows": ..., "dense/logits/weight": ...}.

        Read-only numpy arrays (memoryviews where numpy is not installed) over the model's own memory, which lasts as long as they do. Copies: bfloat16
        as float32, and what a GPU has. A linear layer's weight is [inputs, outputs], the transpose of PyTorch's. A dynamic table has "table/ad/keys",
        int64 [n], "table/ad/rows", [n, dim], whose row i is that of key i, and, where other keys have no zeros, "table/ad/oov_rows", [1, dim], or more rows with `missing: {hash: n}`.

        >>> model.parameters()["table/ad/rows"].shape
        (25, 8)
        """
        return {p.name: p.to_array() for p in self._parameters(self._has_views)}

    def to_torch_state_dict(self) -> Dict[str, Any]:
        """Copies of the parameters by the names and in the shapes of export("safetensors"): "embeddings.user.weight", "dense.logits.weight".

        Tensors where PyTorch is installed, else numpy arrays. A linear layer's weight is [inputs, outputs]: its transpose is torch.nn.Linear's. Of a
        dynamic table "embeddings.ad.keys", int64 [n], ascending, and "embeddings.ad.weight", [n + 1, dim]: row i is that of key i, row n of all others,
        or, with `missing: {hash: n}`, the rows from n on.

        >>> tuple(model.to_torch_state_dict()["embeddings.ad.weight"].shape)
        (25, 8)
        """
        try:
            import torch  # noqa: F401
        except ImportError:
            return {p.state_name(): p.to_array() for p in as_exported(self._parameters(False))}
        return {p.state_name(): p.to_torch() for p in as_exported(self._parameters(self._has_views))}

    def save(self, path: Path) -> None:
        """Writes the model, without training state, as a new directory, which load opens: that of export("safetensors", path). One that was opened
        from an export is copied as it is.

        Errors: InvalidArgument (there is something already), NotFound (what the model was opened from is gone).

        >>> model.save(folder + "/saved")
        >>> reckon.load(folder + "/saved").tasks
        ['click']
        """
        if os.path.exists(os.path.join(self.path, "manifest.json")):
            self.export("safetensors", path)
        else:
            _copy_directory_atomically(self.path, os.fspath(path))

    def export(
        self,
        format: str,
        path: Path,
        *,
        tables: Optional[Sequence[str]] = None,
        no_tables: bool = False,
        rows: str = "trained",
        bags: str = "ragged",
        id_bits: int = 64,
        values: bool = False,
        license: Optional[str] = None,
    ) -> None:
        """Writes a new directory for other programs: format "onnx" or "safetensors" (docs/export.md).

        tables: these alone; no_tables: the dense part alone (safetensors); rows: "trained", "f32", "f16", "bf16", "int8", "int4". Of ONNX:
        bags "ragged" or "padded", id_bits 64 or 32, values: the model takes values of columns. license: an SPDX identifier for the model card.

        >>> model.export("onnx", folder + "/onnx", rows="f16")
        >>> "model.onnx" in os.listdir(folder + "/onnx")
        True
        """
        functions = {"onnx": lib.rk_export_onnx, "safetensors": lib.rk_export_safetensors}
        for name, given, known in (("format", format, list(functions)), ("rows", rows, _ROWS), ("bags", bags, ["ragged", "padded"])):
            if given not in known:
                raise errors.InvalidArgument(f"{name} is '{given}'", f"one of {', '.join(known)}")
        names = texts(tables)
        options = ExportOptions(no_tables=no_tables, rows=_ROWS.index(rows), bags=int(bags == "padded"), id_bits=0 if id_bits == 64 else int32(id_bits, "id_bits"), values=values, license=_optional_text(license))
        if names:
            options.tables, options.n_tables = ctypes.cast(names, POINTER(ctypes.c_char_p)), len(names)
        check(functions[format](path_bytes(self.path), byref(options), path_bytes(path)))

    def export_saved_model(
        self, path: Path, *, tables: Optional[Sequence[str]] = None, rows: str = "trained", integer_columns: Sequence[str] = (), part_bytes: int = 1 << 26
    ) -> None:
        """Writes a new directory for TensorFlow, where that is installed: a SavedModel of the whole model with its transforms (docs/export.md).

        tables: not the model, but what is looked up in these alone; rows: as of export; integer_columns: columns of hashed features, vocabularies and keys that
        callers give as whole numbers in place of texts; part_bytes: of rows in memory at a time, and in each of the checkpoint's files.

        >>> model.export_saved_model(f"{folder}/clicks/1", rows="f16")  # doctest: +SKIP
        """
        from .saved_model import export

        export(self, os.fspath(path), tables, rows, integer_columns, part_bytes)


def model_files(model: Model) -> Dict[str, bytes]:
    """What save writes, by names within the directory."""
    with tempfile.TemporaryDirectory(prefix="reckon-") as directory:
        top = os.path.join(directory, "model")
        model.save(top)
        files = {}
        for folder, _, names in os.walk(top):
            for path in (os.path.join(folder, name) for name in names):
                with open(path, "rb") as file:
                    files[os.path.relpath(path, top)] = file.read()
        return files


def model_of_files(files: Mapping[str, bytes], train: Any = None) -> Model:
    """The model of such files, which stay in a temporary directory as long as it does."""
    directory = tempfile.mkdtemp(prefix="reckon-")
    try:
        for name, content in files.items():
            path = os.path.join(directory, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        model = load(directory, train=train)
    except BaseException:
        shutil.rmtree(directory, True)
        raise
    model._remove_with_model(directory)
    return model


def _copy_directory_atomically(source: str, target: str) -> None:
    """A directory, whole or not at all."""
    if os.path.exists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise errors.InvalidArgument(f"the directory '{target}' is not empty", "save to a new one")
    if not os.path.isdir(source):
        raise errors.NotFound(f"'{source}', from which the model was opened, is gone")
    parent, name = os.path.split(os.path.abspath(target))
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=parent) as beside:
        whole = shutil.copytree(source, os.path.join(beside, name))
        os.rename(whole, target)


def _error_with_row_offset(status: int, first: int) -> errors.Error:
    """Of a piece of the rows, whose own are counted from its first."""
    error = error_of(status)
    return type(error)(f"of the rows from {first} on, {error.message}", error.hint, error.code)


def _read_json_lines(path: str) -> Iterator[Dict[str, Any]]:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            yield json.loads(line)


class _ModelInUse:
    """A call that needs the model."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __enter__(self) -> Any:
        model = self.model
        with model._changed:
            if model._handle is None or model._is_closing:
                raise errors.InvalidArgument("the model is closed")
            model._n_running += 1

    def __exit__(self, *_: Any) -> None:
        with self.model._changed:
            self.model._n_running -= 1
            self.model._changed.notify_all()


class _Session(_ModelInUse):
    """A call that predicts, with a session that no other call has."""

    def __enter__(self) -> c_void_p:
        super().__enter__()
        try:
            with self.model._changed:
                self.session = self.model._idle.pop() if self.model._idle else c_void_p()
            if not self.session:
                check(lib.rk_session_create(self.model._handle, byref(SessionOptions(pool=self.model._pool)), byref(self.session)))
            return self.session
        except BaseException:
            super().__exit__()
            raise

    def __exit__(self, *_: Any) -> None:
        with self.model._changed:
            self.model._idle.append(self.session)
        super().__exit__()


class _Split(_ModelInUse):
    """A call about data that has a name: a split, a path, or "arrow:data" for rows in memory. One such call at a time."""

    def __init__(self, model: Model, data: Any) -> None:
        super().__init__(model)
        self.data = data

    def __enter__(self) -> bytes:
        super().__enter__()
        self.model._one.acquire()
        try:
            if is_path(self.data) and not isinstance(self.data, (list, tuple)):
                return path_bytes(self.data)
            self.model._sources["data"].columns = take(self.data)
            return b"arrow:data"
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: Any) -> None:
        source = self.model._sources["data"]
        if source.columns:
            source.columns.release()
        source.columns = None
        self.model._one.release()
        super().__exit__()


def load(
    path: Path,
    *,
    train: Any = None,
    valid: Any = None,
    test: Any = None,
    device: Optional[str] = "cpu",
    threads: Optional[int] = None,
    rows_in: str = "files",
) -> Model:
    """Opens a run's directory, a checkpoint, or what export wrote.

    train, valid, test: the rows of a run that was trained on rows in memory, where eval or recommend need them. device: "cpu", "cuda" (eval,
    recommend and rerank alone), or None for what the run was trained on. threads: of predict; all processors by default. rows_in: where the
    rows of an export's tables are, "files" (mapped, shared with all who open it) or "memory". Errors: NotFound, BadData.

    >>> with reckon.load(folder + "/ads", threads=1) as model:
    ...     model.predict({"user": [7], "ad": ["food-0"], "hour": [9], "interests": [["food"]]}).shape
    (1,)
    """
    if rows_in not in _ROWS_IN:
        raise errors.InvalidArgument(f"rows_in is '{rows_in}'", f"one of {', '.join(_ROWS_IN)}")
    given: Mapping[str, Any] = {"train": train, "valid": valid, "test": test}
    sources = {name: Source(take(data)) for name, data in given.items() if data is not None}
    return Model(path, device, threads, sources, rows_in)
