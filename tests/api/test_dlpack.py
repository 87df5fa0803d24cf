#!/usr/bin/env python3
"""Tensors of libreckon.so to and from numpy, and torch where it is installed, by DLPack and without copies.

    test_dlpack.py LIBRARY SOURCE_DIR

77 (skipped) without numpy.
"""
import ctypes
import gc
import sys
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_int32, c_int64, c_void_p

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None
    print("torch is not installed: with numpy alone")

DTYPES = ["float32", "bfloat16", "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
BYTES = [4, 2, 2, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1]
NAMES = {True: (b"dltensor_versioned", b"used_dltensor_versioned"), False: (b"dltensor", b"used_dltensor")}


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int), ("device", c_int), ("device_number", c_int32), ("n_dims", c_int32),
                ("shape", c_int64 * 8), ("strides", c_int64 * 8), ("read_only", c_bool)]


lib = ctypes.CDLL(sys.argv[1])
RELEASE = ctypes.CFUNCTYPE(None, c_void_p)
lib.rk_last_error.restype = c_char_p
lib.rk_model_embeddings.restype = c_void_p
lib.rk_tensor_init.argtypes = [POINTER(Tensor), c_void_p, c_int, c_int32, POINTER(c_int64)]
for name in ("rk_tensor_to_dlpack", "rk_tensor_to_dlpack_legacy"):
    getattr(lib, name).argtypes = [POINTER(Tensor), RELEASE, c_void_p, POINTER(c_void_p)]
for name in ("rk_tensor_from_dlpack", "rk_tensor_from_dlpack_legacy"):
    getattr(lib, name).argtypes = [c_void_p, POINTER(Tensor)]

python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]
python.PyCapsule_GetPointer.restype = c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, c_char_p]
python.PyCapsule_IsValid.argtypes = [ctypes.py_object, c_char_p]


def ok(status):
    if status != 0:
        raise RuntimeError(lib.rk_last_error().decode())


class Exporter:
    """What np.from_dlpack and torch.from_dlpack take: a tensor of the library."""

    def __init__(self, tensor, owner, legacy=False):
        self.tensor, self.owner, self.legacy = tensor, owner, legacy
        self.n_released = 0
        self.release = RELEASE(self.released)

    def released(self, _):
        self.n_released += 1

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        versioned = not self.legacy and max_version is not None and max_version[0] >= 1
        managed = c_void_p()
        function = lib.rk_tensor_to_dlpack if versioned else lib.rk_tensor_to_dlpack_legacy
        ok(function(byref(self.tensor), self.release, None, byref(managed)))
        return python.PyCapsule_New(managed, NAMES[versioned][0], None)


def make(dtype, values):
    """A tensor of the library over a copy of an array's bytes, and the copy."""
    owner = ctypes.create_string_buffer(values.tobytes(), max(values.nbytes, 1) + 64)
    address = (ctypes.addressof(owner) + 15) // 16 * 16
    ctypes.memmove(address, values.tobytes(), values.nbytes)
    tensor, shape = Tensor(), (c_int64 * 8)(*values.shape)
    ok(lib.rk_tensor_init(byref(tensor), address, dtype, values.ndim, shape))
    return tensor, owner


def export(library, legacy):
    for dtype, name in enumerate(DTYPES):
        if library is np and name == "bfloat16":
            continue
        kept = np.arange(24).astype("uint16" if name == "bfloat16" else name).reshape(4, 6)
        exporter = Exporter(*make(dtype, kept), legacy)
        got = library.from_dlpack(exporter)
        assert str(got.dtype).split(".")[-1] == name, (got.dtype, name)
        if name == "bfloat16":
            got = got.view(torch.uint16)
        assert tuple(got.shape) == (4, 6) and (np.asarray(got) == kept).all(), name
        assert exporter.n_released == 0
        del got
        gc.collect()
        assert exporter.n_released == 1, (library.__name__, name, exporter.n_released)
    for shape in ((), (0,), (3, 0, 2), (1, 1, 1, 1, 1, 1, 1, 1)):
        kept = np.ones(shape, "float32")
        exporter = Exporter(*make(0, kept), legacy)
        got = library.from_dlpack(exporter)
        assert tuple(got.shape) == shape and (np.asarray(got) == kept).all(), shape
        del got
        gc.collect()
        assert exporter.n_released == 1
    # Strides: the transpose, and rows from the last to the first (not with torch, which has no such strides).
    kept = np.arange(24, dtype="float32").reshape(4, 6)
    tensor, owner = make(0, kept)
    tensor.shape[:2], tensor.strides[:2] = (6, 4), (1, 6)
    assert (np.asarray(library.from_dlpack(Exporter(tensor, owner, legacy))) == kept.T).all()
    if library is np:
        tensor.data += 18 * 4
        tensor.shape[:2], tensor.strides[:2] = (4, 6), (-6, 1)
        assert (np.from_dlpack(Exporter(tensor, owner, legacy)) == kept[::-1]).all()
    # One memory, not a copy.
    tensor, owner = make(0, kept)
    got = library.from_dlpack(Exporter(tensor, owner, legacy))
    ctypes.cast(tensor.data, POINTER(ctypes.c_float))[7] = 99
    assert got[1, 1] == 99


def export_read_only():
    tensor, owner = make(0, np.ones(3, "float32"))
    tensor.read_only = True
    assert not np.from_dlpack(Exporter(tensor, owner)).flags.writeable
    try:
        np.from_dlpack(Exporter(tensor, owner, legacy=True))
    except RuntimeError as error:
        assert "read-only" in str(error)
    else:
        raise AssertionError("a read-only tensor went out as a writable one")


class Import:
    """An array's memory as a tensor of the library, as a consumer of DLPack takes it."""

    def __init__(self, array, legacy=False):
        capsule = array.__dlpack__() if legacy else array.__dlpack__(max_version=(1, 0))
        self.versioned = bool(python.PyCapsule_IsValid(capsule, NAMES[True][0]))
        self.managed = python.PyCapsule_GetPointer(capsule, NAMES[self.versioned][0])
        self.tensor = Tensor()
        function = lib.rk_tensor_from_dlpack if self.versioned else lib.rk_tensor_from_dlpack_legacy
        try:
            ok(function(self.managed, byref(self.tensor)))
        finally:
            python.PyCapsule_SetName(capsule, NAMES[self.versioned][1])

    def delete(self):
        """The deleter stands behind the version and the context, or behind the tensor and the context."""
        place = 16 if self.versioned else 56
        deleter = c_void_p.from_address(self.managed + place).value
        ctypes.PYFUNCTYPE(None, c_void_p)(deleter)(self.managed)


def read(tensor):
    """The values, by the library's own words for where they stand."""
    n = int(np.prod(tensor.shape[: tensor.n_dims]))
    out = np.empty(tensor.shape[: tensor.n_dims], DTYPES[tensor.dtype])
    size = BYTES[tensor.dtype]
    flat = out.reshape(-1).view("uint8").reshape(n, size) if n else out
    for i, index in enumerate(np.ndindex(*tensor.shape[: tensor.n_dims])):
        place = sum(k * stride for k, stride in zip(index, tensor.strides)) * size
        flat[i] = np.frombuffer(ctypes.string_at(tensor.data + place, size), "uint8")
    return out


def import_numpy():
    base = np.arange(60).reshape(3, 4, 5)
    for name in DTYPES:
        if name == "bfloat16":
            continue
        array = base.astype(name)
        views = [array, array[::-1], array[:, 1:3, ::2], array.T, array[1, 2, 3:4], array[:0], array[0, 0, 0:1].reshape(())]
        for view in views:
            for legacy in (False, True):
                before = sys.getrefcount(view)
                got = Import(view, legacy)
                assert got.tensor.dtype == DTYPES.index(name) and got.tensor.device == 0
                assert tuple(got.tensor.shape[: got.tensor.n_dims]) == view.shape
                assert (read(got.tensor) == view).all(), (name, view.shape)
                assert sys.getrefcount(view) == before + 1
                got.delete()
                assert sys.getrefcount(view) == before
    fixed = np.ones(3)
    fixed.flags.writeable = False
    got = Import(fixed)
    assert got.tensor.read_only
    got.delete()
    for refused, words in ((np.ones(2, "complex64"), "type code 5"), (np.ones((1,) * 9), "9 dimensions")):
        try:
            Import(refused)
        except RuntimeError as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)


def import_torch():
    base = torch.arange(60).reshape(3, 4, 5)
    for name in DTYPES:
        values = base.to(getattr(torch, name))
        for view in (values, values[:, 1:3, ::2], values.permute(2, 1, 0), values[:0], values[0, 0, 0]):
            got = Import(view)
            assert got.tensor.dtype == DTYPES.index(name)
            assert tuple(got.tensor.shape[: got.tensor.n_dims]) == tuple(view.shape)
            assert got.tensor.data == view.data_ptr() or not view.numel()
            if name != "bfloat16":
                assert (read(got.tensor) == view.numpy()).all(), (name, view.shape)
            got.delete()


class Parameter(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("tensor", Tensor)]


def parameters(source_dir):
    """A model's parameters are views of its memory: arrays of them see the next training step."""
    config, dataset, model, batch, loss = c_void_p(), c_void_p(), c_void_p(), c_void_p(), ctypes.c_double()
    first, n = POINTER(Parameter)(), c_int32()
    ok(lib.rk_config_load(f"{source_dir}/examples/adult.yaml".encode(), None, ctypes.c_size_t(0), byref(config)))
    ok(lib.rk_dataset_open(config, b"train", byref(dataset)))
    ok(lib.rk_model_create(config, dataset, byref(model)))
    ok(lib.rk_model_parameters(model, byref(first), byref(n)))
    shown = {first[i].name.decode(): np.from_dlpack(Exporter(first[i].tensor, model)) for i in range(n.value)}
    assert "table/education/rows" in shown and any(name.startswith("dense/") for name in shown), shown.keys()
    before = {name: array.copy() for name, array in shown.items()}
    for array in shown.values():
        assert not array.flags.writeable and array.dtype == np.float32
    ok(lib.rk_dataset_next(dataset, byref(batch)))
    ok(lib.rk_model_train(model, batch, byref(loss)))
    for name, array in shown.items():
        assert (array != before[name]).any(), name
    rows = np.empty_like(before["table/education/rows"])
    embeddings = c_void_p(lib.rk_model_embeddings(model))
    ok(lib.rk_embeddings_read_rows(embeddings, b"education", c_int64(0), c_int64(len(rows)), c_void_p(rows.ctypes.data)))
    assert (rows == shown["table/education/rows"]).all()
    shown.clear()
    lib.rk_model_free(model)
    lib.rk_dataset_free(dataset)
    lib.rk_config_free(config)


def main():
    for legacy in (False, True):
        export(np, legacy)
        if torch:
            export(torch, legacy)
    export_read_only()
    import_numpy()
    if torch:
        import_torch()
    parameters(sys.argv[2])


if __name__ == "__main__":
    main()
