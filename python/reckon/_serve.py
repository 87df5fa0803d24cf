"""reckon.serve: a server of trained models within the process."""

from __future__ import annotations

import os
import threading
import weakref
from ctypes import byref, c_void_p
from typing import Any, List, Optional, Union

from ._library import check, lib, logger, path_bytes, text_bytes
from ._model import Model, Path
from ._structs import ServerOptions
from .errors import Error


def _run_server(handle: c_void_p, failures: List[Error]) -> None:
    try:
        check(lib.rk_server_run(handle))
    except Error as error:
        logger.error("the server has ended: %s", error)
        failures.append(error)


def _stop_server_at_exit(handle: c_void_p, thread: threading.Thread, process: int) -> None:
    if os.getpid() != process:  # forked since: the threads are the parent's
        return
    lib.rk_server_stop(handle)
    lib.rk_server_stop(handle)  # at once: no balancer has to be told that the server is not ready
    thread.join()
    lib.rk_server_free(handle)


def _model_name_of_path(path: str) -> str:
    """Of a checkpoint runs/ads/checkpoints/step-100: ads."""
    folder, last = os.path.split(os.path.abspath(path))
    run, checkpoints = os.path.split(folder)
    return os.path.basename(run) if checkpoints == "checkpoints" else last


class Server:
    """What serve gives: it answers requests until close(), the end of a `with` block, or the end of the process.

    port: where it listens; url: "http://127.0.0.1:8501", how this machine reaches it; name: what requests call the model, None where a serve.yaml names its models.

    >>> server = reckon.serve(model, listen="127.0.0.1:0")
    >>> server
    <reckon.Server http://127.0.0.1:...>
    >>> server.close()
    """

    def __init__(self, path: Path, listen: Optional[str], name: Optional[str]) -> None:
        """For serve."""
        handle = c_void_p()
        options = ServerOptions(
            listen=None if listen is None else text_bytes(listen, "address"), name=None if name is None else text_bytes(name, "name")
        )
        check(lib.rk_server_create(path_bytes(path), byref(options), byref(handle)))
        self.name = name
        self.port: int = lib.rk_server_port(handle)
        self.url: str = lib.rk_server_url(handle).decode()
        self._failures: List[Error] = []  # of the thread, until they are raised here
        self._thread = threading.Thread(target=_run_server, args=(handle, self._failures), name="reckon-serve", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _stop_server_at_exit, handle, self._thread, os.getpid())

    def wait(self) -> None:
        """Until another thread closes it, or Ctrl-C. Errors: what the server has ended with.

        >>> reckon.serve("runs/ads").wait()  # doctest: +SKIP
        """
        while self._thread.is_alive():
            self._thread.join(0.2)
        self._raise_failure()

    def close(self) -> None:
        """Lets requests under way end, and frees the port. A second call does nothing. Errors: those of wait, if it has not raised them.

        >>> server = reckon.serve(model, listen="127.0.0.1:0")
        >>> server.close()
        >>> server
        <reckon.Server, closed>
        """
        self._finalizer()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures.pop()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<reckon.Server {self.url}>" if self._finalizer.alive else "<reckon.Server, closed>"


def serve(model: Union[Model, Path], *, listen: Optional[str] = None, name: Optional[str] = None) -> Server:
    """Answers requests over HTTP by threads of its own, as `reckon serve` does (docs/serving.md), while the caller goes on.

    model: a Model, whose checkpoint or export is opened anew; or the path of a run, an export, a folder of these named by numbers, or a
    serve.yaml. listen: "ADDRESS:PORT", 127.0.0.1:8501 by default; port 0: any that is free. name: what requests call the model, by default its
    folder's name. Errors: ReadWriteError (the port is taken), NotFound, BadData, ConfigError, Unsupported (a build without libmicrohttpd).

    >>> with reckon.serve(model, listen="127.0.0.1:0", name="ads") as server:
    ...     body = json.dumps({"instances": [{"user": 7, "ad": "food-0", "hour": 9, "interests": ["food"]}]})
    ...     answer = urllib.request.urlopen(server.url + "/v1/models/ads:predict", body.encode())
    >>> len(json.load(answer)["predictions"])
    1
    """
    path = model.path if isinstance(model, Model) else model
    is_file = os.fspath(path).endswith((".yaml", ".yml"))
    return Server(path, listen, name if name is not None or is_file else _model_name_of_path(os.fspath(path)))
