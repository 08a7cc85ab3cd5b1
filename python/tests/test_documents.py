"""What docstrings and documents show is what comes out."""

import contextlib
import doctest
import importlib
import io
import os
import pathlib
import re
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

    def test_scripts_print_what_stands_below_them(self):
        for name in ["sweep.md", "change-eevdf.md"]:
            script, printed = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", self.how_to(name), re.DOTALL).groups()
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(script, name, "exec"), {})
            self.assertEqual(output.getvalue(), printed, name)

    @needs("pandas")
    def test_the_table_of_a_sweep(self):
        frame = vruntime.sweep("demo", {"machine": [4, 8], "kernel": ["6.1", "6.12"]}, duration="200ms").frame()
        table = re.search(r"^found\.frame\(\)(\.pivot_table\(.*\))$", self.how_to("sweep.md"), re.MULTILINE).group(1)
        self.assertEqual(eval(f"frame{table}", {"frame": frame}).shape, (2, 2))

    def how_to(self, name):
        return (ROOT / "docs" / "how-to" / name).read_text(encoding="utf-8")

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
