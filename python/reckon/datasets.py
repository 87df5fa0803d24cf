"""Data of the examples, as columns that reckon.train takes.

    data = reckon.datasets.adult()
    model = reckon.train(run, train=data.train, test=data.test)

`into` says what a split becomes: dict (columns by name, the default), pandas.DataFrame, polars.DataFrame, pyarrow.table, or any other
function of such a dict. adult comes with Reckon and click_log is drawn here; the others are loaded once from where their authors publish
them, checked against the SHA-256 of each file, and kept in the folder that cache() names. Where that place cannot be reached, put the files
into the folder `path`, or into the one that RECKON_DATA names: RECKON_DATA/ml-100k/u1.base.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import http.client
import io
import math
import os
import random
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, Generic, Iterator, List, Optional, Tuple, TypeVar, Union

from .errors import BadData, NotFound, ReadWriteError

__all__ = ["Dataset", "adult", "cache", "click_log", "frappe", "movielens_100k"]

T = TypeVar("T")
Columns = Dict[str, List[Any]]
_Folder = Union[str, "os.PathLike[str]", None]
_SECONDS = 60.0  # without a byte from where a file is published


@dataclasses.dataclass(frozen=True)
class Dataset(Generic[T]):
    """Splits, and where they come from. valid: None where the authors have none.

    >>> data = reckon.datasets.click_log(1000)
    >>> len(data.train["user"]), len(data.valid["user"]), len(data.test["user"])
    (800, 100, 100)
    """

    name: str
    train: T
    valid: Optional[T]
    test: T
    license: str
    source: str


# --- files ----------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _DatasetFile:
    """A file of a set: a bound of its bytes, its SHA-256 (or "git:" and the id of a git blob), and the address of it or of the zip archive that has it."""

    name: str
    most_bytes: int
    digest: str
    address: str

    def check(self, content: bytes) -> bool:
        if self.digest.startswith("git:"):
            return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest() == self.digest[4:]
        return hashlib.sha256(content).hexdigest() == self.digest


def cache() -> Path:
    """Where loaded files are kept: reckon/datasets in XDG_CACHE_HOME, or in ~/.cache.

    >>> reckon.datasets.cache().parts[-2:]
    ('reckon', 'datasets')
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reckon" / "datasets"


def _read_plain_or_gzip(path: Path, most: int) -> bytes:
    """Of a file or its gzip, at most one byte more than that."""
    opened: Any = gzip.open(path) if path.suffix == ".gz" else open(path, "rb")
    with opened as file:
        return bytes(file.read(most + 1))


def _read_from_folder(folder: Path, file: _DatasetFile) -> Optional[bytes]:
    """A file's content if the folder has it, as it is or as NAME.gz."""
    for path in (folder / file.name, folder / f"{file.name}.gz"):
        if not path.is_file():
            continue
        try:
            content = _read_plain_or_gzip(path, file.most_bytes)
        except (OSError, EOFError, zlib.error) as error:
            raise ReadWriteError(f"'{path}': {error}") from None
        if not file.check(content):
            raise BadData(f"'{path}' is not the file that was published: its checksum is another", f"remove it; it is at {file.address}")
        return content
    return None


def _download(address: str, most: int) -> bytes:
    """What is published there, of at most so many bytes."""
    hint = f"load it elsewhere and give the folder that has it as path, or put it into {cache()}"
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers={"User-Agent": "reckon"}), timeout=_SECONDS) as answer:
            content = bytes(answer.read(most + 1))
            length = answer.headers.get("Content-Length")
    except urllib.error.HTTPError as error:
        raise NotFound(f"{address}: {error.code} {error.reason}", hint) from None
    except (OSError, ValueError, http.client.HTTPException) as error:  # no network, no such host, a time that is over
        raise ReadWriteError(f"{address} cannot be reached: {getattr(error, 'reason', error)}", hint) from None
    if len(content) > most or (length is not None and length.isdigit() and int(length) > len(content)):
        raise ReadWriteError(f"{address}: {'more' if len(content) > most else 'less'} came than is published there", hint)
    return content


def _extract_file(content: bytes, file: _DatasetFile) -> bytes:
    """Of a zip archive, or of the file alone."""
    if not file.address.endswith(".zip"):
        return content
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            name = next((n for n in archive.namelist() if n.split("/")[-1] == file.name), None)
            if name is None:
                raise BadData(f"{file.address} has no '{file.name}'")
            with archive.open(name) as member:
                return member.read(file.most_bytes + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise BadData(f"{file.address}: {error}") from None


def _write_atomically(path: Path, content: bytes) -> None:
    """Whole or not at all, however many processes do so at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _load_files(folder: str, files: List[_DatasetFile], path: _Folder) -> List[bytes]:
    """The contents of a set's files: those of `path` alone, or of RECKON_DATA, the cache, or their addresses."""
    if path is not None:
        places = [Path(path)]
    else:
        told = os.environ.get("RECKON_DATA")
        places = [*([Path(told) / folder] if told else []), cache() / folder]
    archives: Dict[str, bytes] = {}
    contents = []
    for file in files:
        content = next((c for c in (_read_from_folder(place, file) for place in places) if c is not None), None)
        if content is None:
            if path is not None:
                raise NotFound(f"'{path}' has no '{file.name}'", f"it is at {file.address}")
            if file.address not in archives:
                archives[file.address] = _download(file.address, _ARCHIVE_BYTES if file.address.endswith(".zip") else file.most_bytes)
            content = _extract_file(archives[file.address], file)
            if not file.check(content):
                raise BadData(f"{file.address}: '{file.name}' has another checksum than when Reckon was made", "the authors may have changed it")
            try:
                _write_atomically(places[-1] / file.name, content)
            except OSError as error:
                raise ReadWriteError(f"'{places[-1]}': {error.strerror}", "set XDG_CACHE_HOME to a folder that can be written") from None
        contents.append(content)
    return contents


_ARCHIVE_BYTES = 16 << 20  # no archive below has more

# --- rows -----------------------------------------------------------------------------------------------------------------------


def _rows_to_columns(names: List[str], rows: Iterator[List[Any]]) -> Columns:
    columns = list(zip(*rows))
    return {name: list(values) for name, values in zip(names, columns or [()] * len(names))}


def _parse_number_columns(columns: Columns, names: List[str]) -> Columns:
    for name in names:
        columns[name] = [int(v) for v in columns[name]]
    return columns


_ADULT_ADDRESS = "https://doi.org/10.24432/C5XW20"
_ADULT = [
    _DatasetFile("adult.data", 3974305, "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d", _ADULT_ADDRESS),
    _DatasetFile("adult.test", 1999286, "caadc748e927689efd001a3645626f09d58056f76f4346d61ca524f140b7f91a", _ADULT_ADDRESS),
]
_ADULT_COLUMNS = (
    "age workclass fnlwgt education education_num marital_status occupation relationship race sex capital_gain capital_loss hours_per_week native_country income"
).split()
_ADULT_NUMBERS = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]


def _adult_rows(content: bytes) -> Columns:
    lines = (line.split(", ") for line in content.decode().splitlines())
    columns = _parse_number_columns(_rows_to_columns(_ADULT_COLUMNS, (row for row in lines if len(row) == len(_ADULT_COLUMNS))), _ADULT_NUMBERS)
    for name in set(_ADULT_COLUMNS) - set(_ADULT_NUMBERS):
        columns[name] = [None if v == "?" else v for v in columns[name]]
    columns["income"] = [int(v.startswith(">50K")) for v in columns["income"]]
    return columns


def adult(into: Callable[[Columns], Any] = dict) -> "Dataset[Any]":
    """UCI Adult, which comes with Reckon: 32,561 people for training, 16,281 for the test.

    income: 1 where a person earns more than 50,000 dollars a year. Six columns of numbers, eight of texts; None is a missing value.
    Becker, B. and Kohavi, R. (1996), UCI Machine Learning Repository, https://doi.org/10.24432/C5XW20.

    >>> data = reckon.datasets.adult()
    >>> len(data.train["age"]), len(data.test["age"]), data.train["education"][0]
    (32561, 16281, 'Bachelors')
    """
    here = Path(__file__).resolve().parent
    folder = next((top / "data" / "adult" for top in (here, here.parents[1]) if (top / "data" / "adult").is_dir()), here / "data")
    train, test = (_adult_rows(content) for content in _load_files("adult", _ADULT, folder))
    return Dataset("adult", into(train), None, into(test), "CC BY 4.0", _ADULT_ADDRESS)


_ML_100K_ADDRESS = "https://files.grouplens.org/datasets/movielens/ml-100k.zip"
_ML_100K = [
    _DatasetFile("u1.base", 1586544, "ce253ec86c448b44fb3ba9a30d12dcfc2e9210cbde71efada3730c22e9ac212a", _ML_100K_ADDRESS),
    _DatasetFile("u1.test", 392629, "18c6014a4b2c7324f250a63f8904a7b16b2b19f911129e346141507b0cbac950", _ML_100K_ADDRESS),
    _DatasetFile("u.user", 22628, "f120e114da2e8cf314fd28f99417c94ae9ddf1cb6db8ce0e4b5995d40e90e62c", _ML_100K_ADDRESS),
    _DatasetFile("u.item", 236344, "553841ebc7de3a0fd0d6b62a204ea30c1e651aacfb2814c7a6584ac52f2c5701", _ML_100K_ADDRESS),
]
_GENRES = (
    "unknown Action Adventure Animation Children's Comedy Crime Documentary Drama Fantasy Film-Noir Horror Musical Mystery Romance Sci-Fi Thriller War Western"
).split()


def movielens_100k(into: Callable[[Columns], Any] = dict, *, path: _Folder = None) -> "Dataset[Any]":
    """MovieLens 100K, its u1 split: 80,000 ratings of films by 943 people for training, 20,000 for the test.

    user, item, rating (1 to 5), timestamp; age, gender, occupation, zip of the person; title, year (None for one film) and genres (a list) of the
    film. For research; it may be neither redistributed nor used commercially (its README). F. Maxwell Harper and Joseph A. Konstan (2015),
    The MovieLens Datasets: History and Context, ACM TiiS 5(4), https://doi.org/10.1145/2827872.

    >>> data = reckon.datasets.movielens_100k()  # doctest: +SKIP
    >>> data.train["title"][0], data.train["genres"][0]  # doctest: +SKIP
    ('Toy Story (1995)', ['Animation', "Children's", 'Comedy'])
    """
    base, test, user_file, item_file = _load_files("ml-100k", _ML_100K, path)
    users, films = {}, {}
    for line in user_file.decode().splitlines():
        user, age, gender, occupation, code = line.split("|")
        users[user] = [int(age), gender, occupation, code]
    for line in item_file.decode("latin-1").split("\n")[:-1]:
        item, title, date, _, _, *flags = line.split("|")
        films[item] = [title, int(date[-4:]) if date else None, [genre for genre, flag in zip(_GENRES, flags) if flag == "1"]]
    names = ["user", "item", "rating", "timestamp", "age", "gender", "occupation", "zip", "title", "year", "genres"]

    def ratings(content: bytes) -> Any:
        rows = (line.split("\t") for line in content.decode().splitlines())
        return into(_rows_to_columns(names, ([*map(int, row), *users[row[0]], *films[row[1]]] for row in rows)))

    return Dataset("movielens_100k", ratings(base), None, ratings(test), "research; no redistribution", "https://grouplens.org/datasets/movielens/100k/")


_FRAPPE_ADDRESS = "https://raw.githubusercontent.com/hexiangnan/neural_factorization_machine/ca2a5d11b929816aa44c6e470e795af144608507/data/frappe/"
_FRAPPE = [
    _DatasetFile("frappe.train.libfm", 16 << 20, "git:176b2aaf1f63dd13d3e66a5c17c8ec8186e91893", _FRAPPE_ADDRESS + "frappe.train.libfm"),
    _DatasetFile("frappe.validation.libfm", 4163044, "git:50b9c04bcf58dcb46d0b0070d3d6f88b45c9baab", _FRAPPE_ADDRESS + "frappe.validation.libfm"),
    _DatasetFile("frappe.test.libfm", 2081389, "git:d7cdd03f0e2415c97618de617f20bedd50e8fce7", _FRAPPE_ADDRESS + "frappe.test.libfm"),
]
_FRAPPE_FIELDS = {
    "user": 0, "item": 957, "daytime": 5039, "weekday": 5046, "isweekend": 5053, "homework": 5055, "cost": 5058, "weather": 5060, "country": 5069, "city": 5149,
}  # fmt: skip


def _frappe_rows(content: bytes) -> Columns:
    def row(line: str) -> List[int]:
        label, *ids = line.split(" ")
        return [int(label == "1"), *(int(pair.split(":")[0]) - first for pair, first in zip(ids, _FRAPPE_FIELDS.values()))]

    return _rows_to_columns(["click", *_FRAPPE_FIELDS], map(row, content.decode().splitlines()))


def frappe(into: Callable[[Columns], Any] = dict, *, path: _Folder = None) -> "Dataset[Any]":
    """Frappe, as its benchmarks split it: 202,027, 57,722 and 28,860 rows. Did a user (957) open an app (item, 4,082) in a context of eight columns?

    click is 1 or 0; each other column has ids from 0 on. For research; it may be neither redistributed nor used commercially (its README). Linas
    Baltrunas, Karen Church, Alexandros Karatzoglou and Nuria Oliver (2015), https://arxiv.org/abs/1505.03014; split and negatives by Xiangnan He
    and Tat-Seng Chua (2017), https://arxiv.org/abs/1708.05027.

    >>> data = reckon.datasets.frappe()  # doctest: +SKIP
    >>> len(data.train["click"]), max(data.train["item"])  # doctest: +SKIP
    (202027, 4081)
    """
    train, valid, test = (_frappe_rows(content) for content in _load_files("frappe", _FRAPPE, path))
    return Dataset("frappe", into(train), into(valid), into(test), "research; no redistribution", "https://github.com/hexiangnan/neural_factorization_machine")


def click_log(n: int = 20000, into: Callable[[Columns], Any] = dict, *, seed: int = 1) -> "Dataset[Any]":
    """A log of ads shown and clicked, drawn from a law: the same rows for the same n and seed. Eight tenths are train, a tenth each valid and test.

    user (of 200), ad (of 24), hour, device (None for one in ten), interests (a list of up to three), and click, which the user's taste for the ad's
    topic, its interests and the hour make likely. Nothing is loaded; no person is in it.

    >>> data = reckon.datasets.click_log(1000)
    >>> sorted(data.train)
    ['ad', 'click', 'device', 'hour', 'interests', 'user']
    """
    r = random.Random(seed)
    topics = ["books", "films", "food", "games", "garden", "music", "shoes", "travel"]
    tastes = [[6 * r.random() - 3 for _ in topics] for _ in range(200)]
    names = ["user", "ad", "hour", "device", "interests", "click"]

    def rows() -> Iterator[List[Any]]:
        for _ in range(n):
            user, ad, hour = int(200 * r.random()), int(24 * r.random()), int(24 * r.random())
            device = [None, *["phone"] * 6, *["laptop"] * 3][int(10 * r.random())]
            interests = sorted({topics[int(len(topics) * r.random())] for _ in range(int(4 * r.random()))})
            topic = ad % len(topics)
            score = tastes[user][topic] + 1.5 * (topics[topic] in interests) + math.sin(hour / 24 * 2 * math.pi) - 1.5
            yield [user, f"{topics[topic]}-{ad // len(topics)}", hour, device, interests, int(r.random() < 1 / (1 + math.exp(-score)))]

    columns = _rows_to_columns(names, rows())
    ends: List[Tuple[int, int]] = [(0, n * 8 // 10), (n * 8 // 10, n * 9 // 10), (n * 9 // 10, n)]
    train, valid, test = (into({name: values[first:end] for name, values in columns.items()}) for first, end in ends)
    return Dataset("click_log", train, valid, test, "CC0 1.0", "drawn by reckon.datasets.click_log")
