"""``vruntime compare``."""

from __future__ import annotations

import html as html_
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._command import Told, VruntimeError, command
from ._options import Rules, Time, Workload, arguments, model, several, source, time
from ._results import Spread, frame

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Cell:
    """A number of every variant, over its seeds."""

    metric: str
    unit: str
    #: By variant.
    values: Mapping[str, Spread]
    #: Of which class of tasks, or of which group; neither: of the machine.
    class_: str | None = None
    group: str | None = None

    def change(self, variant: str, against: str | None = None) -> float | None:
        """By how much a variant's mean is above another's, the first if it is not said: 0.1 is a tenth more. ``None``:
        one has none, or it is nothing there.
        """
        against = next(iter(self.values)) if against is None else against
        one, other = self.values.get(variant), self.values.get(against)
        if one is None or one.mean is None or other is None or not other.mean:
            return None
        return one.mean / other.mean - 1

    def overlaps(self, variant: str, against: str | None = None) -> bool:
        """Whether what the seeds of two variants gave overlaps: then chance alone could make such a difference."""
        against = next(iter(self.values)) if against is None else against
        one, other = self.values[variant], self.values[against]
        if one.min is None or one.max is None or other.min is None or other.max is None:
            return one.mean is other.mean
        return one.min <= other.max and other.min <= one.max


class Comparison:
    """What :func:`vruntime.compare` returns."""

    def __init__(self, json: Mapping[str, Any], told: Iterable[Told] = ()):
        #: All of it, as ``vruntime compare --json`` prints it.
        self.json = json
        self.variants: tuple[str, ...] = tuple(json["variants"])
        #: The sentence with which the command begins.
        self.stands_out: str = json["stands_out"]
        #: What was run, an object a variant.
        self.runs: list[Mapping[str, Any]] = json["runs"]
        self.told: tuple[Told, ...] = tuple(told)
        self.cells: tuple[Cell, ...] = tuple(
            Cell(
                one["metric"],
                one["unit"],
                {value["variant"]: _spread(one, value) for value in one["values"]},
                one["class"],
                one["group"],
            )
            for one in json["cells"]
        )

    def find(self, metric: str, *, class_: str | None = None, group: str | None = None) -> Cell:
        """The cell of that metric, of a class of tasks, of a group, or of the machine."""
        for cell in self.cells:
            if (cell.metric, cell.class_, cell.group) == (metric, class_, group):
                return cell
        of = [cell for cell in self.cells if (cell.class_, cell.group) == (class_, group)]
        there = [cell.metric for cell in of] or [cell.class_ or cell.group or "the machine" for cell in self.cells]
        raise KeyError(f"there is no such cell; there are {', '.join(dict.fromkeys(there))}")

    def rows(self) -> list[dict[str, Any]]:
        """A dictionary for each cell and variant."""
        return list(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        for cell in self.cells:
            for variant, value in cell.values.items():
                yield {
                    "class": cell.class_,
                    "group": cell.group,
                    "metric": cell.metric,
                    "unit": cell.unit,
                    "variant": variant,
                    "mean": value.mean,
                    "min": value.min,
                    "max": value.max,
                }

    def frame(self) -> pandas.DataFrame:
        """The :meth:`rows` as a table of pandas."""
        return frame(self._rows())

    def __repr__(self) -> str:
        return f"<vruntime.Comparison of {', '.join(self.variants)}: {len(self.cells)} cells>"

    def __str__(self) -> str:
        return self.stands_out

    def _repr_html_(self) -> str:
        text = html_.escape
        head = "".join(f"<th>{text(name)}</th>" for name in ["of", "metric", *self.variants, "unit"])
        body = []
        for cell in self.cells:
            values = [cell.values.get(name) for name in self.variants]
            means = ["-" if value is None or value.mean is None else f"{value.mean:.4g}" for value in values]
            of = cell.class_ or cell.group or "machine"
            line = "".join(f"<td>{text(one)}</td>" for one in [of, cell.metric, *means, cell.unit])
            body.append(f"<tr>{line}</tr>")
        return (
            f"<p>{text(self.stands_out)}</p><table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        )


def _spread(cell: Mapping[str, Any], value: Mapping[str, Any]) -> Spread:
    return Spread._of({**cell, **value})


def compare(
    *workloads: Workload,
    kernel: str | Iterable[str] = (),
    machine: str | int | Iterable[str | int] = (),
    duration: Time | None = None,
    repeat: int = 1,
    rules: Rules = (),
    seed: int | None = None,
    hz: int | None = None,
    preempt: str | None = None,
    costs: str | None = None,
    settings: Mapping[str, int] | None = None,
    features: str | Iterable[str] = (),
    gate: bool | None = None,
    autogroup: bool | None = None,
    rt_group_sched: bool = False,
    group_switches: bool = False,
    threads_max: int | None = None,
    cgroups: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    out: str | os.PathLike[str] | None = None,
    html: str | os.PathLike[str] | None = None,
    strict: bool = False,
) -> Comparison:
    """Runs workloads under several kernels, on several machines, or with and without ``rules``, side by side.

    Every combination of the workloads, kernels and machines is a variant; with ``rules`` each workload is run as it is
    and with them. Workloads may be recorded traces, too, with ``cgroups`` as for :func:`vruntime.replay`. All else is
    as in :func:`vruntime.run`.

    >>> hogs = {"tasks": {"hog": {"instance": 3, "loop": -1, "run": 1000}}}
    >>> both = compare(hogs, kernel=["6.1", "6.12"], machine=1, duration="1s")
    >>> both.variants
    ('6.1', '6.12')
    >>> round(both.find("share", class_="hog").values["6.12"].mean)
    100
    """
    sources = [source(one) for one in workloads]
    texts = [text for _, text in sources if text is not None]
    if len(texts) > 1:
        message = "only one workload can be given as a dictionary or a text: write the others to files"
        raise VruntimeError([Told("error", message, text=message)])
    told = model(
        seed=seed,
        hz=hz,
        preempt=preempt,
        costs=costs,
        settings=settings,
        features=features,
        gate=gate,
        autogroup=autogroup,
        rt_group_sched=rt_group_sched,
        group_switches=group_switches,
        threads_max=threads_max,
    )
    told += [f"--kernel={name}" for name in several(kernel)]
    told += [f"--machine={name}" for name in several(machine)]
    told += [f"--map={rule}" for rule in several(rules)]
    told += [f"--cgroups={os.fspath(file)}" for file in several(cgroups)]
    told += arguments(repeat=repeat, strict=strict, out=out, html=html)
    told += arguments(duration=None if duration is None else time(duration))
    answer = command("compare", *(file for file, _ in sources), "--json", *told, input=texts[0] if texts else None)
    return Comparison(answer.json(), answer.told)
