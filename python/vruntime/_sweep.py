"""Many runs that differ."""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from ._options import Workload
from ._results import Run, frame
from ._run import run

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Point:
    """One run of a sweep."""

    #: What it has of each axis.
    of: Mapping[str, Any]
    run: Run


class Sweep(Sequence[Point]):
    """What :func:`vruntime.sweep` returns: a :class:`Point` for each combination, the last axis fastest."""

    def __init__(self, points: Iterable[Point]):
        self.points = tuple(points)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: Any) -> Any:
        return self.points[index]

    def rows(self, of: str = "classes") -> list[dict[str, Any]]:
        """The :meth:`Run.rows` of every point, with what it has of each axis before them."""
        return list(self._rows(of))

    def _rows(self, of: str) -> Iterator[dict[str, Any]]:
        for point in self.points:
            axes = {name: value for name, value in point.of.items() if name != "kernel"}
            for row in point.run.rows(of):
                yield {**{name: _plain(value) for name, value in axes.items()}, **row}

    def frame(self, of: str = "classes") -> pandas.DataFrame:
        """The :meth:`rows` as a table of pandas."""
        return frame(self._rows(of))

    def __repr__(self) -> str:
        axes = ", ".join(self.points[0].of) if self.points else "nothing"
        return f"<vruntime.Sweep over {axes}: {len(self.points)} runs>"


def _plain(value: Any) -> Any:
    """What can stand in a table: of several things their names."""
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
    """Runs a workload with every combination of what ``over`` has: options of :func:`vruntime.run` by their names.

    If ``workload`` is a function it is called with whatever of ``over`` its parameters name, and returns the workload
    to run; what neither names is refused. ``options`` are those of :func:`vruntime.run`, the same for all.
    ``parallel`` runs are done at once (default: as many as there are CPUs). The first error ends it.

    >>> def hogs(count):
    ...     return {"tasks": {"hog": {"instance": count, "loop": -1, "run": 1000}}}
    >>> found = sweep(hogs, {"count": [2, 3], "hz": [100, 1000]}, machine=1, duration="1s")
    >>> [(row["count"], row["hz"], round(row["cpu_s"])) for row in found.rows()]
    [(2, 100, 1), (2, 1000, 1), (3, 100, 1), (3, 1000, 1)]
    """
    axes = {name: list(values) for name, values in over.items()}
    of_workload = _parameters(workload, axes) if callable(workload) else frozenset()
    twice = sorted(set(options) & set(axes))
    if twice:
        raise TypeError(f"{twice[0]!r} is in `over`, and given for all runs as well")

    def one(of: dict[str, Any]) -> Point:
        own = {name: value for name, value in of.items() if name in of_workload}
        rest = {name: value for name, value in of.items() if name not in of_workload}
        work = workload(**own) if callable(workload) else workload
        return Point(of, run(work, **{**options, **rest}))

    combinations = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    with ThreadPoolExecutor(parallel or os.cpu_count() or 1) as pool:
        running = [pool.submit(one, of) for of in combinations]
        try:
            return Sweep([each.result() for each in running])
        except BaseException:
            # Those that have begun come to their end.
            for each in running:
                each.cancel()
            raise


def _parameters(workload: Callable[..., Workload], axes: Iterable[str]) -> frozenset[str]:
    """Which of the axes a function of a workload takes."""
    parameters = inspect.signature(workload).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        raise TypeError(
            "a function of a workload names its parameters: of **others nobody knows whether they are meant"
        )
    return frozenset(one.name for one in parameters).intersection(axes)
