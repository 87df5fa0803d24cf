#!/usr/bin/env python3
"""The package says what it does: every public name has an example in its docstring, and the examples run.

    RECKON_PROGRAM=build/reckon tests/python/test_documentation.py
"""

import doctest
import inspect
import json
import os
import tempfile
import unittest
import urllib.request

from rows import TOP  # noqa: F401: sets where reckon is

import reckon

NEED_OTHERS = {"Classifier", "Recommender", "Regressor"}  # scikit-learn's: tests/python/estimators
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public():
    """(name, object) of what a caller meets: functions, classes, and the classes' methods and properties."""
    for module in (reckon, reckon.callbacks, reckon.datasets):
        for name in module.__all__:
            value = None if name in NEED_OTHERS else getattr(module, name)
            is_class = inspect.isclass(value)
            if not (is_class or inspect.isfunction(value)) or (is_class and issubclass(value, reckon.Error) and value is not reckon.Error):
                continue  # the errors have one sentence each; Error has the example
            yield f"{module.__name__}.{name}", value
            for member, what in vars(value).items() if is_class else ():
                if not member.startswith("_") and (inspect.isfunction(what) or isinstance(what, property)):
                    yield f"{module.__name__}.{name}.{member}", what


def globals_of_examples(folder):
    """What the examples take for granted: a log, a run file, a ranking model and a two_tower."""
    log = reckon.datasets.click_log(3000)
    features = [{"name": "user", "hash": 1000}, {"name": "ad", "vocabulary": {}}, {"name": "interests", "vocabulary": {}}, {"name": "hour", "dense": True, "normalize": True}]
    run = {
        "data": {"labels": [{"name": "click"}], "features": features},
        "embedding": {"dim": 8},
        "model": {"kind": "deepfm", "deep": [16]},
        "train": {"batch_size": 256, "epochs": 3, "log_every": 1, "output": f"{folder}/ads", "optimizer": {"kind": "adam", "learning_rate": 0.01}},
    }
    pairs = {"user": log.train["user"], "ad": log.train["ad"]}
    towers = {
        "data": {"features": [{"name": "user", "vocabulary": {}}, {"name": "ad", "vocabulary": {}}]},
        "embedding": {"dim": 4},
        "model": {"kind": "two_tower", "retrieval": {"user": "user", "item": "ad", "negatives": 8}},
        "train": {"batch_size": 256, "epochs": 1, "output": f"{folder}/towers", "optimizer": {"kind": "adam"}},
    }
    model = reckon.train(run, train=log.train, valid=log.valid, test=log.test)
    return {
        "reckon": reckon, "json": json, "os": os, "urllib": urllib, "folder": folder, "log": log, "run": run,
        "model": model, "towers": reckon.train(towers, train=pairs),
    }  # fmt: skip


def run_examples(case, examples, globs):
    """examples: (name, object with a docstring)"""
    for name, value in examples:
        for test in doctest.DocTestFinder(recurse=False).find(value, name, globs=dict(globs)):
            with case.subTest(name):
                said = []
                doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=said.append)
                case.assertFalse(said, "".join(said))


class Documentation(unittest.TestCase):
    def test_every_name_has_an_example(self):
        names = dict(public())
        self.assertGreater(len(names), 30)
        self.assertEqual([name for name, value in names.items() if ">>> " not in (inspect.getdoc(value) or "")], [])

    def test_examples(self):
        with tempfile.TemporaryDirectory(prefix="reckon-examples-") as folder:
            globs = globals_of_examples(folder)
            run_examples(self, public(), globs)
            globs["model"].close()
            globs["towers"].close()


if __name__ == "__main__":
    unittest.main()
