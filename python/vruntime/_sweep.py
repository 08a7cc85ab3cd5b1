"""Many runs with different options."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import queue
import re
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from ._command import Children, Message, VruntimeError, ask, warn
from ._options import Workload, several, whole
from ._results import Run, frame, html_row
from ._run import OPTIONS, asked

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Point:
    """One run of a sweep."""

    #: Its value on each axis.
    of: dict[str, Any]
    run: Run


class Sweep(Sequence[Point]):
    """The result of :func:`vruntime.sweep`: a :class:`Point` for each combination, the last axis fastest."""

    def __init__(self, points: Iterable[Point]):
        self.points = tuple(points)

    def __len__(self) -> int:
        return len(self.points)

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Point, ...]: ...
    def __getitem__(self, index: int | slice) -> Point | tuple[Point, ...]:
        return self.points[index]

    def rows(self, of: str = "classes") -> list[dict[str, Any]]:
        """Returns the :meth:`Run.rows` of every point, after its values on the axes. ``settings`` are columns."""
        return list(self._rows(of))

    def _rows(self, of: str) -> Iterator[dict[str, Any]]:
        settings = dict.fromkeys(name for point in self.points for name in point.of.get("settings") or ())
        for point in self.points:
            axes = {name: _plain(value) for name, value in point.of.items() if name != "settings"}
            axes.update({name: (point.of["settings"] or {}).get(name) for name in settings})
            for row in point.run.rows(of):
                yield {**axes, **row}

    def frame(self, of: str = "classes") -> pandas.DataFrame:
        """Returns the :meth:`rows` as a table of pandas."""
        return frame(self._rows(of))

    def __repr__(self) -> str:
        axes = ", ".join(self.points[0].of) if self.points else "nothing"
        return f"<vruntime.Sweep over {axes}: {len(self.points)} runs>"

    def _repr_html_(self) -> str:
        names = list(self.points[0].of) if self.points else []
        head = html_row([*names, "class", "CPU %", "p50 ms", "p99 ms"], "th")
        lines = []
        for point in self.points:
            for name, one in point.run.classes.items():
                late = one.wakeup_latency_ns or one.wakeup_to_run_ns
                shown = [f"{late.p50 / 1e6:.3f}", f"{late.p99 / 1e6:.3f}"] if late else ["-", "-"]
                axes = [str(_plain(value)) for value in point.of.values()]
                lines.append(html_row([*axes, name, f"{100 * one.share:.1f}", *shown], "td"))
        return f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"


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
    **options: Any,
) -> Sweep:
    """Runs a workload with every combination of the values in ``over``: options of :func:`vruntime.run` by their names.

    If ``workload`` is a function, it is called with the values of ``over`` that its parameters name, and returns the
    workload to run. ``options`` are options of :func:`vruntime.run` for all runs. ``None`` on an axis is the default.
    ``out`` gets a folder for each combination. ``parallel`` runs are done at once (default: the number of CPUs). The
    first error ends the sweep, and names its combination.

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
    combinations = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    out = options.pop("out", None)
    folders = _folders(out, combinations) if out is not None else itertools.repeat(None)

    def point(of: dict[str, Any], folder: str | None, children: Children) -> tuple[Point, tuple[Message, ...]]:
        own = {name: value for name, value in of.items() if name in of_workload}
        of_run = {name: value for name, value in of.items() if name not in of_workload}
        defaults = {name: OPTIONS[name] for name, value in of_run.items() if value is None and name in OPTIONS}
        work = workload(**own) if callable(workload) else workload
        said, text = asked(work, **({} if folder is None else {"out": folder}), **options, **{**of_run, **defaults})
        try:
            answer = ask(said, text, children)
        except VruntimeError as error:
            where = "\n  in the sweep: " + ", ".join(f"{name} = {value!r}" for name, value in of.items())
            messages = [*error.messages, Message("note", where.strip(), text=where)]
            raise type(error)(messages) from error
        return Point(of, Run(answer.json(), answer.messages)), answer.messages

    threads = os.cpu_count() or 1 if parallel is None else whole(parallel, "parallel")
    if threads < 1:
        raise ValueError(f"`parallel` is 1 or more, not {threads}")
    points: dict[int, Point] = {}
    # Closed here, and not whenever: what its end raises is the caller's.
    with contextlib.closing(_in_parallel(point, list(zip(combinations, folders)), threads)) as ended:
        for index, (one, messages) in ended:
            if not points:
                _check_columns(one)
            points[index] = one
            warn(messages)
    return Sweep(points[index] for index in range(len(combinations)))


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
            raise ValueError(f"the axis {taken!r} is called as a column of the results: call it otherwise")
    both = next((name for name in named if name in settings), None)
    if both is not None:
        raise ValueError(f"the axis {both!r} is called as one of `settings`: call it otherwise")


def _in_parallel(
    work: Callable[..., Any], items: Sequence[tuple[Any, ...]], threads: int
) -> Generator[tuple[int, Any], None, None]:
    """Yields the results in the order in which runs end. An early end stops all running commands."""
    children = Children()
    lock, left = threading.Lock(), iter(enumerate(items))
    ended: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()

    def worker() -> None:
        while True:
            with lock:
                index, item = next(left, (None, ()))
            if index is None:
                return
            try:
                ended.put((index, work(*item, children), None))
            except BaseException as error:  # the caller's thread raises it
                ended.put((index, None, error))
                return

    # An interpreter that ends does not wait for them.
    workers = [threading.Thread(target=worker, daemon=True) for _ in range(min(threads, len(items)))]
    try:
        for each in workers:
            each.start()
        for _ in items:
            index, result, error = ended.get()
            if error is not None:
                raise error
            yield index, result
    except BaseException:
        children.stop()
        raise
    finally:
        try:
            for each in workers:
                if each.is_alive():
                    each.join()
        except BaseException:
            # Interrupted once more.
            children.kill()
            raise


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
        raise TypeError(
            "a function of a workload names its parameters: of **others nobody knows whether they are meant"
        )
    own = frozenset(one.name for one in parameters).intersection(axes)
    both = sorted(own & set(OPTIONS))
    if both:
        raise TypeError(
            f"{both[0]!r} is a parameter of the workload's and an option of vruntime.run: call it otherwise"
        )
    return own


def _folders(out: str | os.PathLike[str], combinations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a folder for each point, named by its values, and by its number if names are equal."""
    names = ["_".join(f"{name}={_plain(value)}" for name, value in of.items()) for of in combinations]
    names = [re.sub(r"[^\w.=+-]+", "-", name).encode()[:100].decode(errors="ignore") for name in names]
    if len(set(names)) < len(names):
        names = [f"{index}_{name}" for index, name in enumerate(names)]
    return [os.path.join(out, name) for name in names]
