"""``vruntime replay``."""

from __future__ import annotations

import html as html_
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._command import Told, command
from ._options import (
    Machine,
    Rules,
    Time,
    arguments,
    kernel_name,
    machine_name,
    model,
    numbers_of,
    path,
    rules_of,
    several,
    text,
    time,
)
from ._results import frame, html_row

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class ReplayedTask:
    """A task of a trace: as recorded, as replayed, and what if. Times are nanoseconds."""

    name: str
    cgroup: str | None
    #: ``cpu_ns``, ``switches``, ``wakeups``, ``wakeup_latency_p50_ns``, ``wakeup_latency_p99_ns``
    recorded: Mapping[str, Any]
    replayed: Mapping[str, Any]
    what_if: Mapping[str, Any] | None


class Replay:
    """What :func:`vruntime.replay` returns."""

    def __init__(self, json: Mapping[str, Any], told: Iterable[Told] = ()):
        #: All of it, as ``vruntime replay --json`` prints it.
        self.json = json
        #: How well the trace is reproduced, in a sentence, and in numbers: ask this first.
        self.check: Mapping[str, Any] = json["check"]
        #: What changes, in a sentence, if anything was asked.
        self.what_if: str | None = json.get("what_if")
        #: What is to be known before it is trusted.
        self.notes: list[str] = json["notes"]
        self.told: tuple[Told, ...] = tuple(told)
        self.tasks: tuple[ReplayedTask, ...] = tuple(
            ReplayedTask(one["name"], one.get("cgroup"), one["recorded"], one["replayed"], one.get("what_if"))
            for one in json["tasks"]
        )

    def rows(self) -> list[dict[str, Any]]:
        """A dictionary for each task: ``recorded_cpu_ns``, ``replayed_cpu_ns``, ``what_if_cpu_ns``, ..."""
        return list(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        for task in self.tasks:
            row: dict[str, Any] = {"task": task.name, "cgroup": task.cgroup}
            for which in ("recorded", "replayed", "what_if"):
                row.update({f"{which}_{name}": value for name, value in (getattr(task, which) or {}).items()})
            yield row

    def frame(self) -> pandas.DataFrame:
        """The :meth:`rows` as a table of pandas."""
        return frame(self._rows())

    def __repr__(self) -> str:
        return f"<vruntime.Replay of {len(self.tasks)} tasks{', with a what-if' if self.what_if else ''}>"

    def _repr_html_(self) -> str:
        names = ["task", "recorded CPU ms", "replayed", *(["what if"] if self.what_if else [])]
        lines = []
        for task in self.tasks:
            runs = [task.recorded, task.replayed, *([task.what_if] if self.what_if else [])]
            lines.append(html_row([task.name, *(f"{run['cpu_ns'] / 1e6:.2f}" if run else "-" for run in runs)], "td"))
        told = "".join(f"<p>{html_.escape(text)}</p>" for text in str(self).split("\n\n"))
        return f"{told}<table><thead>{html_row(names, 'th')}</thead><tbody>{''.join(lines)}</tbody></table>"

    def __str__(self) -> str:
        return "\n\n".join(filter(None, [self.check["summary"], self.what_if]))


def replay(
    trace: str | os.PathLike[str],
    *,
    recorded_kernel: str | None = None,
    recorded_machine: Machine | None = None,
    cgroups: str | os.PathLike[str] | None = None,
    kernel: str | None = None,
    machine: Machine | None = None,
    rules: Rules = None,
    beside: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    wakeups: str | None = None,
    duration: Time | None = None,
    repeat: int = 1,
    seed: int | None = None,
    hz: int | None = None,
    preempt: str | None = None,
    costs: str | None = None,
    settings: Mapping[str, float] | None = None,
    features: str | Iterable[str] | None = None,
    autogroup: bool | None = None,
    out: str | os.PathLike[str] | None = None,
    html: str | os.PathLike[str] | None = None,
) -> Replay:
    """Runs what a recorded trace did again: as it was recorded, to see how well that reproduces it; and, with
    ``kernel``, ``machine``, ``rules``, ``beside``, ``settings`` or ``features``, what if.

    :param trace: ``perf.data``, ``trace.dat``, a Perfetto trace, or the text of ftrace, trace-cmd or perf script.
    :param recorded_kernel: the kernel it was recorded under. Default: what the trace says.
    :param recorded_machine: the machine, if its CPUs are not all alike.
    :param cgroups: a file that says which thread was in which task group (docs/replay.md).
    :param kernel: what if this were the kernel.
    :param machine: what if this were the machine.
    :param rules: what if these tasks or groups were something else: ``"comm=batch: nice=5"``, several, or a file.
    :param beside: what if these workloads ran beside it.
    :param wakeups: what ends sleeps: ``"inferred"``, what seems to have, or ``"recorded"``, their recorded times.
    :param duration: read only so much of the trace.
    :param repeat: so many replays and what-ifs, each with the next seed: all is of their mean then, and
        ``json["over_seeds"]`` has the spread.

    All else is as in :func:`vruntime.run`.
    """
    # Of nothing but the parameters.
    said = model(locals())
    said += arguments(
        recorded_kernel=None if recorded_kernel is None else kernel_name(recorded_kernel),
        recorded_machine=None if recorded_machine is None else machine_name(recorded_machine),
        cgroups=None if cgroups is None else path(cgroups, "a file of cgroups"),
        kernel=None if kernel is None else kernel_name(kernel),
        machine=None if machine is None else machine_name(machine),
        wakeups=None if wakeups is None else text(wakeups, "wakeups"),
        duration=None if duration is None else time(duration),
        out=out,
        html=html,
    )
    said += rules_of(rules)
    said += numbers_of(repeat=repeat)
    said += [f"--beside={path(file, 'what runs beside it')}" for file in several(beside, "beside")]
    answer = command("replay", path(trace, "a trace"), "--json", *said)
    return Replay(answer.json(), answer.told)
