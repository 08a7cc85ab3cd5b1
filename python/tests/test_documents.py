"""What docstrings and documents show is what comes out."""

import doctest
import importlib
import os
import pathlib
import tempfile
import types
import unittest
import warnings

import vruntime
from tests import ROOT
from tests.executors import needs

MODULES = [f"vruntime.{path.stem}" for path in pathlib.Path(vruntime.__file__).parent.glob("_[a-z]*.py")]


class Documents(unittest.TestCase):
    def test_docstrings(self):
        tried = 0
        for name in ["vruntime", *sorted(MODULES)]:
            found = doctest.testmod(importlib.import_module(name))
            self.assertEqual(found.failed, 0, name)
            tried += found.attempted
        self.assertGreater(tried, 10)

    def test_the_page(self):
        self.page("python.md")

    @needs("dask", "distributed", "optuna", "pandas", "pyarrow")
    def test_the_page_on_sweeps(self):
        with warnings.catch_warnings():
            # Of Dask, at its end.
            warnings.simplefilter("ignore", ResourceWarning)
            self.page("python-sweeps.md")

    @needs("matplotlib", "pandas")
    def test_the_page_on_charts(self):
        self.page("python-charts.md")

    def page(self, name):
        folder = os.getcwd()
        with tempfile.TemporaryDirectory() as empty:
            # It names the project's scenarios, and writes where it is run.
            os.symlink(ROOT / "scenarios", os.path.join(empty, "scenarios"))
            os.chdir(empty)
            try:
                page = str(ROOT / "docs" / name)
                found = doctest.testfile(
                    page, module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
                )
            finally:
                os.chdir(folder)
        self.assertEqual(found.failed, 0)
        self.assertGreater(found.attempted, 10)

    def test_what_is_public_has_a_docstring(self):
        for name in vruntime.__all__:
            if name == "Workload":
                continue
            one = getattr(vruntime, name)
            # Dataclasses have one of their signature if nobody writes another.
            self.assertFalse((one.__doc__ or f"{name}(").startswith(f"{name}("), name)
            for member, value in vars(one).items() if isinstance(one, type) else ():
                if not member.startswith("_") and isinstance(value, (property, types.FunctionType)):
                    self.assertTrue(value.__doc__, f"{name}.{member}")
