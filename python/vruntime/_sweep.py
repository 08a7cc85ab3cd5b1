"""Many runs with different options."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, overload

from ._command import Message, VruntimeError, version, warn
from ._dataset import Dataset, Kept
from ._engine import Engine, Remote, Threads, check_executor
from ._job import Contents, Job, Outcome, of_exception, plain_job, write_outputs
from ._options import Workload, several, whole
from ._plot import SweepPlots
from ._progress import Bar
from ._results import Run, frame, html_row
from ._run import OPTIONS, asked
from ._slices import Recipe

if TYPE_CHECKING:
    import pandas


class Point:
    """One run of a sweep."""

    def __init__(self, of: dict[str, Any], kept: Kept, recipe: Recipe | None = None):
        #: Its value on each axis.
        self.of = of
        #: The error, if the run failed.
        self.error: VruntimeError | None = kept.error
        self._messages = kept.messages
        self._recipe = recipe
        self._packed = zlib.compress((kept.json or "").encode(), 1)

    @property
    def run(self) -> Run:
        """The results. If the run failed, this raises its error."""
        if self.error is not None:
            raise self.error
        # Thousands of parsed results would fill the memory.
        return Run(json.loads(zlib.decompress(self._packed)), self._messages, self._recipe)

    def __repr__(self) -> str:
        failed = ", failed" if self.error is not None else ""
        return f"<vruntime.Point {', '.join(f'{name}={value!r}' for name, value in self.of.items())}{failed}>"


class Sweep(Sequence[Point]):
    """The result of :func:`vruntime.sweep`: a :class:`Point` for each combination, the last axis fastest."""

    def __init__(self, points: Iterable[Point]):
        self.points = tuple(points)

    @classmethod
    def open(cls, dataset: str | os.PathLike[str]) -> Sweep:
        """Returns the finished runs of a dataset, also while the sweep runs, or after it was stopped. Values that
        JSON does not have are texts.
        """
        folder = Dataset(dataset)
        _, runs = folder.described()
        points = {key: json.loads(point) for point, key in runs}
        found: dict[str, Point] = {}
        for key, kept in folder.finished(points):
            if kept.error is None or key not in found:
                found[key] = Point(points[key], kept)
        return cls(found[key] for key in points if key in found)

    @property
    def failed(self) -> tuple[Point, ...]:
        """The points whose run failed."""
        return tuple(point for point in self.points if point.error is not None)

    def __len__(self) -> int:
        return len(self.points)

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Point, ...]: ...
    def __getitem__(self, index: int | slice) -> Point | tuple[Point, ...]:
        return self.points[index]

    @property
    def plot(self) -> SweepPlots:
        """Charts: ``heatmap()``."""
        return SweepPlots(self)

    def rows(self, of: str = "classes") -> list[dict[str, Any]]:
        """Returns the :meth:`Run.rows` of every point, after its values on the axes. ``settings`` are columns. A failed
        run is one row, with its ``error``.
        """
        return list(self._rows(of))

    def _rows(self, of: str = "classes") -> Iterator[dict[str, Any]]:
        settings = dict.fromkeys(name for point in self.points for name in point.of.get("settings") or ())
        for point in self.points:
            axes = {name: _plain(value) for name, value in point.of.items() if name != "settings"}
            axes.update({name: (point.of["settings"] or {}).get(name) for name in settings})
            if point.error is not None:
                yield {**axes, "error": str(point.error)}
                continue
            for row in point.run.rows(of):
                yield {**axes, **row}

    def frame(self, of: str = "classes") -> pandas.DataFrame:
        """Returns the :meth:`rows` as a table of pandas."""
        return frame(self._rows(of))

    def __repr__(self) -> str:
        axes = ", ".join(self.points[0].of) if self.points else "nothing"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"<vruntime.Sweep over {axes}: {len(self.points)} runs{failed}>"

    def _repr_html_(self) -> str:
        names = list(self.points[0].of) if self.points else []
        head = html_row([*names, "class", "CPU %", "p50 ms", "p99 ms"], "th")
        lines = []
        for point in self.points[:SHOWN]:
            axes = [str(_plain(value)) for value in point.of.values()]
            if point.error is not None:
                lines.append(html_row([*axes, f"failed: {point.error.message}", "-", "-", "-"], "td"))
                continue
            for name, one in point.run.classes.items():
                late = one.wakeup_latency_ns or one.wakeup_to_run_ns
                shown = [f"{late.p50 / 1e6:.3f}", f"{late.p99 / 1e6:.3f}"] if late else ["-", "-"]
                lines.append(html_row([*axes, name, f"{100 * one.share:.1f}", *shown], "td"))
        more = f"<p>{len(self) - SHOWN} more runs: see rows() or frame()</p>" if len(self) > SHOWN else ""
        return f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>{more}"


#: The number of runs that a notebook shows.
SHOWN = 100


def _plain(value: Any) -> Any:
    """Returns a value for a table: the names of several things."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}={one}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def sweep(
    workload: Workload | Callable[..., Workload],
    over: Mapping[str, Iterable[Any]],
    *,
    parallel: int | None = None,
    executor: Executor | None = None,
    dataset: str | os.PathLike[str] | None = None,
    errors: str | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Sweep:
    """Runs a workload with every combination of the values in ``over``: options of :func:`vruntime.run` by their names.

    If ``workload`` is a function, it is called with the values of ``over`` that its parameters name, and returns the
    workload to run. ``options`` are options of :func:`vruntime.run` for all runs. ``None`` on an axis is the default.
    ``out`` gets a folder for each combination.

    :param parallel: the number of runs at once. Default: the number of CPUs. With ``executor``: the number of chunks of
        runs that it gets ahead. Default: four for each worker, or 64.
    :param executor: any ``concurrent.futures.Executor``, such as ``dask.distributed.Client.get_executor()``. Inputs
        are sent by content. Workers need this package, and a command of the caller's version.
    :param dataset: a folder for the results, as Parquet. They are written during the sweep. A later call with the same
        folder skips finished runs.
    :param errors: ``"raise"``: the first failed run ends the sweep. ``"keep"``: a failed run is a row with its error.
        Default: ``"keep"`` with ``executor`` or ``dataset``, else ``"raise"``.
    :param progress: whether to show a progress bar (tqdm). Default: on a terminal, if tqdm is installed.

    >>> def hogs(count):
    ...     return {"tasks": {"hog": {"instance": count, "loop": -1, "run": 1000}}}
    >>> found = sweep(hogs, {"count": [2, 3], "hz": [100, 1000]}, machine=1, duration="1s")
    >>> [(row["count"], row["hz"], round(row["cpu_ns"] / 1e9)) for row in found.rows()]
    [(2, 100, 1), (2, 1000, 1), (3, 100, 1), (3, 1000, 1)]
    """
    axes = {name: _axis(name, values) for name, values in over.items()}
    of_workload = _parameters(workload, axes) if callable(workload) else frozenset()
    twice = sorted(set(options) & set(axes))
    if twice:
        raise TypeError(f"{twice[0]!r} is in `over`, and given for all runs as well")
    if options.get("html") is not None:
        raise TypeError("`html` is one file, and runs are many: `out` gets a folder for each, and vruntime.run a page")
    # What can be gone through once is for all of them.
    options = {name: list(value) if isinstance(value, Iterator) else value for name, value in options.items()}
    _check_seeds(axes, options)
    if executor is not None:
        check_executor(executor)
    if errors is None:
        errors = "raise" if executor is None and dataset is None else "keep"
    if errors not in ("raise", "keep"):
        raise ValueError(f"`errors` is 'raise' or 'keep', not {errors!r}")
    if parallel is not None and whole(parallel, "parallel") < 1:
        raise ValueError(f"`parallel` is 1 or more, not {parallel}")
    combinations = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    out = options.pop("out", None)
    folders = _folders(out, combinations) if out is not None else itertools.repeat(None)
    contents = None if executor is None and dataset is None else Contents()
    todo = _Todo(combinations, None if dataset is None else Dataset(dataset), errors == "keep", contents)
    undescribed: list[Exception] = []
    for index, (of, folder) in enumerate(zip(combinations, folders)):
        own = {name: value for name, value in of.items() if name in of_workload}
        of_run = {name: value for name, value in of.items() if name not in of_workload}
        defaults = {name: OPTIONS[name] for name, value in of_run.items() if value is None and name in OPTIONS}
        try:
            work = workload(**own) if callable(workload) else workload
        except Exception as error:
            todo.broken(index, error)
            continue
        try:
            argv, text = asked(work, **options, **{**of_run, **defaults})
            outputs = {} if folder is None else {"out": folder}
            todo.jobs[index] = (plain_job if contents is None else contents.job)(argv, text, outputs)
        except Exception as error:
            undescribed.append(error)
            todo.broken(index, error)
    # An error in all runs, such as the name of an option, is one of the call.
    if len(undescribed) == len(combinations) > 0:
        raise undescribed[0]
    with todo:
        if not todo.jobs:
            return todo.done()
        number = None if parallel is None else whole(parallel, "parallel")
        engine: Engine
        if executor is None:
            engine = Threads(list(todo.jobs.items()), number or os.cpu_count() or 1, contents)
        else:
            engine = Remote(executor, list(todo.jobs.items()), contents or Contents(), todo.version, number)
        try:
            with Bar(len(combinations), len(combinations) - len(todo.jobs), progress) as bar:
                while (got := engine.next()) is not None:
                    todo.ended(*got)
                    bar.ended(got[1].error is not None)
        except BaseException:
            engine.stop()
            for index, outcome in engine.finished():
                # The stop itself ends runs with an error.
                if outcome.answer is not None:
                    todo.keep(index, outcome)
            raise
        return todo.done()


class _Todo:
    """The runs of a sweep: those to do, and those that have ended."""

    def __init__(
        self, combinations: Sequence[dict[str, Any]], dataset: Dataset | None, keep: bool, contents: Contents | None
    ):
        self._combinations, self._dataset, self._keep, self._contents = combinations, dataset, keep, contents
        self.jobs: dict[int, Job] = {}
        self.version = ""
        self._keys: dict[int, str] = {}
        self._points: dict[int, Point] = {}
        self._broken: dict[int, VruntimeError] = {}
        self._checked = False

    def broken(self, index: int, error: Exception) -> None:
        """The function of the workload, or the description of the run, has raised an error."""
        if not self._keep:
            raise error
        self._broken[index] = of_exception(error)

    def __enter__(self) -> _Todo:
        self.version = version() if self._contents is not None else ""
        if self._dataset is not None:
            named = [json.dumps(of, default=str) for of in self._combinations]
            for index, name in enumerate(named):
                job = self.jobs.get(index)
                # Without a workload there is no job.
                key = hashlib.sha256(name.encode()).hexdigest()[:32] if job is None else job.key(self.version)
                self._keys[index] = key
            axes = list(self._combinations[0])
            self._dataset.open(self.version, axes, [(name, self._keys[index]) for index, name in enumerate(named)])
            # Combinations that differ by nothing but their names have one key.
            indices: dict[str, list[int]] = {}
            for index, key in self._keys.items():
                indices.setdefault(key, []).append(index)
            for key, kept in self._dataset.finished(self._keys.values()):
                for index in indices[key] if kept.error is None else ():
                    self._points[index] = self._point(index, kept)
            for index in self._points:
                self.jobs.pop(index, None)
        for index, error in self._broken.items():
            self._add(index, Kept(None, error, ()))
        return self

    def __exit__(self, *_: object) -> None:
        if self._dataset is not None:
            self._dataset.close()

    def ended(self, index: int, outcome: Outcome) -> None:
        """Adds a run, or raises its error."""
        if not self._keep and outcome.error is not None:
            of = self._combinations[index]
            where = "\n  in the sweep: " + ", ".join(f"{name} = {value!r}" for name, value in of.items())
            messages = [*outcome.error.messages, Message("note", where.strip(), text=where)]
            raise type(outcome.error)(messages) from outcome.error
        self.keep(index, outcome)
        if outcome.answer is not None:
            if not self._checked:
                _check_columns(self._points[index])
                self._checked = True
            warn(outcome.answer.messages)

    def keep(self, index: int, outcome: Outcome) -> None:
        """Adds a run, unless it was interrupted."""
        if outcome.answer is None:
            self._add(index, Kept(None, outcome.error, ()))
        elif outcome.answer.status != _INTERRUPTED:
            write_outputs(self.jobs[index], outcome)
            self._add(index, Kept(outcome.answer.text, None, outcome.answer.messages))

    def _add(self, index: int, kept: Kept) -> None:
        self._points[index] = point = self._point(index, kept)
        if self._dataset is not None:
            digest = _DIGEST.search(kept.json or "")
            name = json.dumps(point.of, default=str)
            self._dataset.add(self._keys[index], name, digest[1] if digest else None, kept)

    def _point(self, index: int, kept: Kept) -> Point:
        job = self.jobs.get(index)
        recipe = None if job is None else Recipe(job, self._contents)
        return Point(self._combinations[index], kept, recipe)

    def done(self) -> Sweep:
        """Returns all runs in the order of the axes."""
        missing = len(self._combinations) - len(self._points)
        if missing:
            text = f"{missing} of {len(self._combinations)} runs were interrupted"
            raise VruntimeError([Message("error", text, text=text)])
        sweep = Sweep(self._points[index] for index in range(len(self._combinations)))
        if self._dataset is not None:
            self._dataset.write("classes", ({"error": None, **row} for row in sweep._rows()))
        return sweep


#: The exit status of the command after Ctrl-C.
_INTERRUPTED = 130
_DIGEST = re.compile(r'"digest": *"([0-9a-f]+)"')


def _check_columns(point: Point) -> None:
    """Rejects axes with the name of a column of the results, which would hide each other. Kernel and seed are equal in
    both.
    """
    settings = list(point.of.get("settings") or ())
    named = [name for name in point.of if name not in ("kernel", "seed", "settings")]
    for of in ("classes", "tasks", "groups", "cpus"):
        columns = {name for row in point.run.rows(of) for name in row}
        taken = next((name for name in [*named, *settings] if name in columns), None)
        if taken is not None:
            raise ValueError(f"the axis {taken!r} is called as a column of the results: rename it")
    both = next((name for name in named if name in settings), None)
    if both is not None:
        raise ValueError(f"the axis {both!r} is called as one of `settings`: rename it")


def _check_seeds(axes: Mapping[str, Sequence[Any]], options: Mapping[str, Any]) -> None:
    """Rejects points with a common run."""
    if options.get("repeat", 1) != 1 and len(axes.get("seed", ())) > 1:
        raise ValueError("an axis of seeds, and `repeat`, which takes the next seeds, too: leave one out")


def _axis(name: str, values: Any) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"the axis {name!r} is a list of values, not {values!r}")
    # Of numpy each is one of Python's, as results are.
    listed = values.tolist() if hasattr(values, "tolist") else several(values, name)
    if not listed:
        raise ValueError(f"the axis {name!r} is empty")
    return listed


def _parameters(workload: Callable[..., Workload], axes: Iterable[str]) -> frozenset[str]:
    """Returns the axes that a function of a workload takes."""
    parameters = inspect.signature(workload).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        raise TypeError("a function of a workload names its parameters: **others does not say which axes it takes")
    own = frozenset(one.name for one in parameters).intersection(axes)
    both = sorted(own & set(OPTIONS))
    if both:
        raise TypeError(f"{both[0]!r} is a parameter of the workload and an option of vruntime.run: rename it")
    return own


def _folders(out: str | os.PathLike[str], combinations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a folder for each point, named by its values, and by its number if names are equal."""
    names = ["_".join(f"{name}={_plain(value)}" for name, value in of.items()) for of in combinations]
    names = [re.sub(r"[^\w.=+-]+", "-", name).encode()[:100].decode(errors="ignore") for name in names]
    if len(set(names)) < len(names):
        names = [f"{index}_{name}" for index, name in enumerate(names)]
    return [os.path.join(out, name) for name in names]
