"""``vruntime compare``."""

from __future__ import annotations

import html as html_
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._command import Children, Message, VruntimeError, ask, command, warn
from ._engine import check_executor, execute_in
from ._job import named
from ._options import (
    Machine,
    Rules,
    Time,
    Workload,
    arguments,
    kernel_name,
    machine_name,
    model,
    numbers_of,
    rules_of,
    several,
    source,
    switches,
    time,
)
from ._plot import Chart, comparison
from ._results import Spread, frame, html_row

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Cell:
    """A number of every variant, over its seeds."""

    metric: str
    unit: str
    #: Values by variant.
    values: dict[str, Spread]
    #: The number of runs of each variant.
    seeds: int
    #: The class of tasks, or the group; both ``None`` for the machine.
    class_: str | None = None
    group: str | None = None

    def change(self, variant: str, against: str | None = None) -> float | None:
        """Returns the relative change of a variant's mean from another's, by default the first: 0.1 is a tenth more.
        ``None`` if a value is missing, or the other is 0.
        """
        one, other = self._two(variant, against)
        return one.mean / other.mean - 1 if one.mean is not None and other.mean else None

    def overlaps(self, variant: str, against: str | None = None) -> bool | None:
        """Returns whether the values of two variants overlap, so that the difference may be chance. If they do not,
        chance becomes less likely with more seeds. ``None`` for one seed, or if a value is missing.
        """
        one, other = self._two(variant, against)
        if self.seeds < 2 or one.min is None or one.max is None or other.min is None or other.max is None:
            return None
        return one.min <= other.max and other.min <= one.max

    def _two(self, variant: str, against: str | None) -> tuple[Spread, Spread]:
        names = [variant, next(iter(self.values)) if against is None else against]
        for name in names:
            if name not in self.values:
                raise KeyError(f"there is no variant {name!r}; there are {', '.join(self.values)}")
        return self.values[names[0]], self.values[names[1]]


class Comparison:
    """The result of :func:`vruntime.compare`."""

    def __init__(self, json: Mapping[str, Any], messages: Iterable[Message] = ()):
        #: The whole output of ``vruntime compare --json``.
        self.json = json
        self.variants: tuple[str, ...] = tuple(json["variants"])
        #: What stands out, in sentences.
        self.stands_out: str = json["stands_out"]
        #: The number of runs of each variant.
        self.seeds: int = json["repeats"]
        #: The setup, an object for each variant.
        self.runs: list[Mapping[str, Any]] = json["runs"]
        self.messages: tuple[Message, ...] = tuple(messages)
        self.cells: tuple[Cell, ...] = tuple(
            Cell(
                one["metric"],
                one["unit"],
                {value["variant"]: Spread._of({**one, **value}) for value in one["values"]},
                self.seeds,
                one["class"],
                one["group"],
            )
            for one in json["cells"]
        )

    def find(self, metric: str, *, class_: str | None = None, group: str | None = None) -> Cell:
        """Returns the cell of a metric, of a class of tasks, of a group, or of the machine."""
        if group is not None and not group.startswith("/"):
            group = "/" + group
        of = [cell for cell in self.cells if (cell.class_, cell.group) == (class_, group)]
        for cell in of:
            if cell.metric == metric:
                return cell
        whose = class_ or group or "the machine"
        if of:
            raise KeyError(f"{whose} has no {metric!r}; it has {', '.join(cell.metric for cell in of)}")
        classes = dict.fromkeys(f"class_={cell.class_!r}" for cell in self.cells if cell.class_)
        groups = dict.fromkeys(f"group={cell.group!r}" for cell in self.cells if cell.group)
        raise KeyError(f"there is nothing of {whose}; there are {', '.join([*classes, *groups])}")

    def rows(self) -> list[dict[str, Any]]:
        """Returns a dictionary for each cell and variant."""
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
        """Returns the :meth:`rows` as a table of pandas."""
        return frame(self._rows())

    def plot(self, metric: str = "share", *, of: str = "classes") -> Chart:
        """Draws a metric of every class, or of every group, in every variant, with its smallest and largest value over
        the seeds.

        :param metric: as in :attr:`cells`: ``"share"``, ``"run_delay"``, ``"late_p99"``, ...
        :param of: ``"classes"`` or ``"groups"``.
        """
        return comparison(self, metric, of)

    def __repr__(self) -> str:
        return f"<vruntime.Comparison of {', '.join(self.variants)}: {len(self.cells)} cells>"

    def __str__(self) -> str:
        alone = (
            " (One seed: the change may be chance; repeat=5, the default, shows the spread.)" if self.seeds == 1 else ""
        )
        return self.stands_out + alone

    def _repr_html_(self) -> str:
        head = html_row(["of", "metric", *self.variants, "unit"], "th")
        lines = []
        for cell in self.cells:
            values = [_shown(cell, name) for name in self.variants]
            lines.append(html_row([cell.class_ or cell.group or "machine", cell.metric, *values, cell.unit], "td"))
        return f"<p>{html_.escape(str(self))}</p><table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"


def _shown(cell: Cell, variant: str) -> str:
    """Returns the mean and half the spread, with a ``~`` if the change may be chance, as the command prints it."""
    value = cell.values.get(variant)
    if value is None or value.mean is None:
        return "-"
    # Four digits that count, and no powers of ten: `53,042 ± 131`, `0.2312 ± 0.0105`.
    places = 3 - math.floor(math.log10(abs(value.mean))) if value.mean else 0
    number = f",.{min(max(places, 0), 9)}f"
    if value.min is None or value.max is None or cell.seeds < 2:
        return format(value.mean, number)
    chance = "~" if variant != next(iter(cell.values)) and cell.overlaps(variant) else ""
    return f"{chance}{value.mean:{number}} ± {(value.max - value.min) / 2:{number}}"


def compare(
    *workloads: Workload,
    kernel: str | Iterable[str] | None = None,
    machine: Machine | Iterable[Machine] | None = None,
    duration: Time | None = None,
    repeat: int = 5,
    rules: Rules = None,
    seed: int | None = None,
    hz: int | None = None,
    preempt: str | None = None,
    costs: str | None = None,
    settings: Mapping[str, float] | None = None,
    features: str | Iterable[str] | None = None,
    gate: bool | None = None,
    autogroup: bool | None = None,
    rt_group_sched: bool = False,
    group_switches: bool = False,
    target: Time | None = None,
    threads_max: int | None = None,
    cgroups: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    out: str | os.PathLike[str] | None = None,
    html: str | os.PathLike[str] | None = None,
    strict: bool = False,
    executor: Executor | None = None,
) -> Comparison:
    """Runs workloads under several kernels, on several machines, or with and without ``rules``, side by side.

    Every combination of workloads, kernels and machines is a variant. With ``rules``, each workload also runs with
    them. Workloads may be recorded traces, with ``cgroups`` as for :func:`vruntime.replay`. With ``executor``, any
    ``concurrent.futures.Executor``, each seed is a job with all variants, which a worker runs on its CPUs. Workers get
    the files by content. With ``out``, ``html``, ``rules`` or saved results, one worker runs all of the comparison.
    Other parameters are as for :func:`vruntime.run`.

    >>> hogs = {"tasks": {"hog": {"instance": 3, "loop": -1, "run": 1000}}}
    >>> both = compare(hogs, kernel=["6.1", "6.12"], machine=1, duration="1s")
    >>> both.variants
    ('6.1', '6.12')
    >>> round(both.find("share", class_="hog").values["6.12"].mean, 3)
    1.0
    """
    # Nothing but the parameters.
    given = locals()
    sources = [source(one) for one in workloads]
    inputs = [text for _, text in sources if text is not None]
    if len(inputs) > 1:
        message = "only one workload can be given as a dictionary or a text: write the others to files"
        raise VruntimeError([Message("error", message, text=message)])
    argv = model(given)
    argv += [f"--kernel={kernel_name(name)}" for name in several(kernel, "kernel")]
    argv += [f"--machine={machine_name(name)}" for name in several(machine, "machine")]
    argv += rules_of(rules)
    argv += [f"--cgroups={os.fspath(file)}" for file in several(cgroups, "cgroups")]
    argv += switches(strict=strict)
    argv += arguments(duration=None if duration is None else time(duration))
    argv += arguments(target=None if target is None else time(target))
    argv = ["compare", *(file for file, _ in sources), "--json", *argv]
    text = inputs[0] if inputs else None
    all_seeds = [*argv, *numbers_of(repeat=repeat)]
    if executor is None:
        answer = command(*all_seeds, *arguments(out=out, html=html), input=text)
        return Comparison(answer.json(), answer.messages)
    check_executor(executor)
    outputs = {name: path for name, path in (("out", out), ("html", html)) if path is not None}
    # Saved results among the workloads have no parts, and what stands out with rules needs the whole results.
    if not outputs and rules is None and repeat > 1 and not any(map(_is_saved, sources)):
        answers = execute_in(executor, [([*argv, f"--part={index}"], text, {}) for index in range(repeat)])
        messages = tuple(dict.fromkeys(message for answer in answers for message in answer.messages))
        warn(messages)
        return Comparison(_together([answer.json() for answer in answers]), messages)
    answer = execute_in(executor, [(all_seeds, text, outputs)])[0]
    warn(answer.messages)
    return Comparison(answer.json(), answer.messages)


def _is_saved(source: tuple[str, str | None]) -> bool:
    """Returns whether a file may have the results of runs."""
    path, text = source
    if text is not None or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        content = file.read()
    return content.lstrip()[:1] == b"{" and b'"observed"' in content and b'"workload"' not in content


def _together(parts: list[Any]) -> Any:
    """Returns the comparison of all seeds. ``parts`` are those of one seed each."""
    runs = parts[0]["runs"]
    with tempfile.TemporaryDirectory(prefix="vruntime-") as folder:
        files = []
        for index, run in enumerate(runs):
            same = [part["runs"][index] for part in parts]
            run["observed"] = [seed for one in same for seed in one["observed"]]
            run["finished"] = len(run["observed"])
            whole = [seed for one in same for seed in one.pop("whole")]
            files.append(os.path.join(folder, f"{index}.json"))
            with named(files[-1]), open(files[-1], "w") as file:
                json.dump({**run, "observed": whole}, file)
        # Its messages are about these files.
        compared = ask(["compare", *files, "--json"], None, Children()).json()
    # Results have classes by name, and rounded pressure. The cells of the parts have the order of the file, and exact
    # values of their seed.
    found: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for part in parts:
        for cell in part["cells"]:
            values = found.setdefault(_place(cell), {})
            for value in cell["values"]:
                if value["mean"] is not None:
                    values.setdefault(value["variant"], []).append(value["mean"])
    for cell in compared["cells"]:
        for value in cell["values"]:
            if seeds := found.get(_place(cell), {}).get(value["variant"]):
                value.update(mean=sum(seeds) / len(seeds), min=min(seeds), max=max(seeds))
    places = {place: index for index, place in enumerate(found)}
    compared["cells"].sort(key=lambda cell: places.get(_place(cell), len(places)))
    return {**parts[0], **compared, "runs": runs}


def _place(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    return cell["class"], cell["group"], cell["metric"]
