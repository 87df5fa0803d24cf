"""One side of W11, on one thread: `prepare` builds its index, chooses the least setting that reaches the recall, and saves both; `time` loads them and searches.

    nearest.py prepare|time DIRECTORY SIDE [--threads N]

DIRECTORY has items.npy, tune.npy, measure.npy (vectors) and the true k best of both halves of the queries, tune-K.npy and measure-K.npy.
"""
import argparse
import ctypes
import json
import time
from pathlib import Path

import numpy as np

RECALL, KS, SEED = 0.95, (10, 100), 1
LIBRARY = Path(__file__).resolve().parents[2] / "build" / "libreckon.so"


def recall(found, best):
    return float(np.mean([len(np.intersect1d(f, b)) / len(b) for f, b in zip(found, best)]))


def pointer(array):
    """The quickest way to an array's memory: array.ctypes and the garbage that it leaves take as long as a small search."""
    return ctypes.byref(ctypes.c_char.from_buffer(array))


class Reckon:
    """Through ctypes, as the peers are called through their own bindings."""

    class Options(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_size_t), ("kind", ctypes.c_int), ("codes", ctypes.c_int), ("n_lists", ctypes.c_int64), ("n_probe", ctypes.c_int64),
                    ("seed", ctypes.c_uint64), ("pool", ctypes.c_void_p)]

    class Search(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_size_t), ("ids", ctypes.c_void_p), ("n_ids", ctypes.c_int64), ("bits", ctypes.c_void_p), ("n_bits", ctypes.c_int64),
                    ("deny", ctypes.c_bool), ("excluded", ctypes.c_void_p), ("n_probe", ctypes.c_int64), ("pool", ctypes.c_void_p)]

    class Recall(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_size_t), ("n_probe", ctypes.c_int64), ("n_queries", ctypes.c_int64), ("recall", ctypes.c_double), ("queries_per_second", ctypes.c_double)]

    def __init__(self, kind, threads=1):
        self.kind, self.index, self.library = kind, ctypes.c_void_p(), ctypes.CDLL(LIBRARY)
        self.library.rk_last_error.restype = self.library.rk_version.restype = ctypes.c_char_p
        self.check(self.library.rk_set_threads(threads))
        self.options = self.Search(struct_size=ctypes.sizeof(self.Search))

    def check(self, status):
        if status:
            raise RuntimeError(self.library.rk_last_error().decode())

    def build(self, items):
        options = self.Options(ctypes.sizeof(self.Options), self.kind, 0, 0, 0, SEED, None)
        self.check(self.library.rk_index_build(pointer(items), None, ctypes.c_int64(len(items)), ctypes.c_int32(items.shape[1]), ctypes.byref(options), ctypes.byref(self.index)))

    def save(self, path):
        self.check(self.library.rk_index_save(self.index, str(path).encode()))

    def load(self, path):
        self.check(self.library.rk_index_open(str(path).encode(), None, ctypes.byref(self.index)))

    def settings(self, queries, best, k):
        """All of the queries are to tune on; that tune measures the odd ones tells nothing then, so they come twice."""
        if self.kind == 0:
            return 1
        found = self.Recall(struct_size=ctypes.sizeof(self.Recall))
        twice = np.repeat(queries, 2, axis=0)
        self.check(self.library.rk_index_tune(self.index, pointer(twice), ctypes.c_int64(len(twice)), ctypes.c_int32(k), ctypes.c_double(RECALL), None, ctypes.byref(found)))
        return found.n_probe

    def set(self, setting):
        self.options.n_probe = setting

    def search(self, queries, k):
        ids, scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        self.check(self.library.rk_index_search(self.index, pointer(queries), len(queries), k, ctypes.byref(self.options), pointer(ids), pointer(scores)))
        return ids

    def versions(self):
        return {"reckon": self.library.rk_version().decode()}


def least(values, reaches):
    """The least of ascending values that reaches, by halving; the last one if none does."""
    first, end = 0, len(values) - 1
    while first < end:
        middle = (first + end) // 2
        first, end = (first, middle) if reaches(values[middle]) else (middle + 1, end)
    return values[first]


class Peer:
    def settings(self, queries, best, k):
        def reaches(setting):
            self.set(setting)
            return recall(self.search(queries, k), best) >= RECALL

        return least(self.choices(k), reaches)


def breadths(k):
    """Of a graph's search: from k up, in steps of some 5%."""
    values = [k]
    while values[-1] < 4000:
        values.append(max(values[-1] + 1, round(values[-1] * 1.05)))
    return values


class Faiss(Peer):
    def __init__(self, kind):
        import faiss
        faiss.omp_set_num_threads(1)
        self.faiss, self.kind = faiss, kind

    def build(self, items):
        faiss, (n, dim) = self.faiss, items.shape
        if self.kind == "exact":
            self.index = faiss.IndexFlatIP(dim)
        elif self.kind == "ivf":
            n_lists = max(1, min(n // 39, 1 << round(np.log2(2.6 * n ** 0.5))))
            self.index = faiss.IndexIVFScalarQuantizer(faiss.IndexFlatIP(dim), dim, n_lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
            self.index.train(items)
        else:
            self.index = faiss.IndexHNSWFlat(dim, 16, faiss.METRIC_INNER_PRODUCT)
            self.index.hnsw.efConstruction = 200
        self.index.add(items)

    def save(self, path):
        self.faiss.write_index(self.index, str(path))

    def load(self, path):
        self.index = self.faiss.read_index(str(path))

    def choices(self, k):
        return {"exact": [1], "ivf": range(1, getattr(self.index, "nlist", 1) + 1)}.get(self.kind) or breadths(k)

    def set(self, setting):
        if self.kind == "ivf":
            self.index.nprobe = setting
        elif self.kind == "hnsw":
            self.index.hnsw.efSearch = setting

    def search(self, queries, k):
        return self.index.search(queries, k)[1]

    def versions(self):
        return {"faiss-cpu": self.faiss.__version__}


class Usearch(Peer):
    def build(self, items):
        from usearch.index import Index
        self.index = Index(ndim=items.shape[1], metric="ip", dtype="f32", connectivity=16, expansion_add=200)
        self.index.add(np.arange(len(items)), items, threads=1)

    def save(self, path):
        self.index.save(str(path))

    def load(self, path):
        from usearch.index import Index
        self.index = Index.restore(str(path))

    choices = staticmethod(breadths)

    def set(self, setting):
        self.index.expansion_search = setting

    def search(self, queries, k):
        return self.index.search(queries, k, threads=1).keys.reshape(len(queries), k).astype(np.int64)

    def versions(self):
        import usearch
        return {"usearch": usearch.__version__}


class Hnswlib(Peer):
    def __init__(self, dim):
        import hnswlib
        self.index = hnswlib.Index(space="ip", dim=dim)

    def build(self, items):
        self.index.init_index(len(items), ef_construction=200, M=16, random_seed=SEED)
        self.index.add_items(items, num_threads=1)

    def save(self, path):
        self.index.save_index(str(path))

    def load(self, path):
        self.index.load_index(str(path))

    choices = staticmethod(breadths)

    def set(self, setting):
        self.index.set_ef(setting)

    def search(self, queries, k):
        return self.index.knn_query(queries, k, num_threads=1)[0].astype(np.int64)

    def versions(self):
        from importlib.metadata import version
        return {"hnswlib": version("hnswlib")}


def make(side, dim, threads=1):
    return {"reckon-exact": lambda: Reckon(0, threads), "reckon-ivf": lambda: Reckon(1, threads), "faiss-exact": lambda: Faiss("exact"), "faiss-ivf": lambda: Faiss("ivf"),
            "faiss-hnsw": lambda: Faiss("hnsw"), "usearch": Usearch, "hnswlib": lambda: Hnswlib(dim)}[side]()


def prepare(folder, side, threads):
    items, queries = np.load(folder / "items.npy"), np.load(folder / "tune.npy")
    index = make(side, items.shape[1], threads)
    began = time.process_time()
    index.build(items)
    out = {"build_seconds": time.process_time() - began, "versions": index.versions(), "settings": {}}
    index.save(folder / f"{side}-{threads}.index")
    for k in KS:
        out["settings"][str(k)] = int(index.settings(queries, np.load(folder / f"tune-{k}.npy"), k))
    return out


def measure(folder, side, settings):
    """CPU seconds a query, one at a time and all at once, and the recall, for each k."""
    queries = np.load(folder / "measure.npy")
    index = make(side, queries.shape[1])
    index.load(folder / f"{side}-1.index")
    out = {}
    for k in KS:
        index.set(settings[str(k)])
        index.search(queries[:64], k)
        began = time.process_time()
        for q in range(len(queries)):
            index.search(queries[q : q + 1], k)
        one = (time.process_time() - began) / len(queries)
        began = time.process_time()
        found = index.search(queries, k)
        batch = (time.process_time() - began) / len(queries)
        out[k] = {"single": one, "batch": batch, "recall": recall(found, np.load(folder / f"measure-{k}.npy"))}
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["prepare", "time"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("side")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--settings", default="{}")
    args = parser.parse_args()
    done = prepare(args.folder, args.side, args.threads) if args.what == "prepare" else measure(args.folder, args.side, json.loads(args.settings))
    print(json.dumps(done))


if __name__ == "__main__":
    main()
