"""``vruntime replay``."""

from __future__ import annotations

import html as html_
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._command import Message, command
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
    """A task of a trace: recorded, replayed, and in the what-if. Times are nanoseconds."""

    name: str
    cgroup: str | None
    #: ``cpu_ns``, ``switches``, ``wakeups``, ``wakeup_latency_p50_ns``, ``wakeup_latency_p99_ns``
    recorded: Mapping[str, Any]
    replayed: Mapping[str, Any]
    what_if: Mapping[str, Any] | None


class Replay:
    """The result of :func:`vruntime.replay`."""

    def __init__(self, json: Mapping[str, Any], messages: Iterable[Message] = ()):
        #: The whole output of ``vruntime replay --json``.
        self.json = json
        #: The accuracy of the replay, in a sentence and in numbers: check this first.
        self.check: Mapping[str, Any] = json["check"]
        #: The changes of the what-if, in a sentence, if there is one.
        self.what_if: str | None = json.get("what_if")
        #: Notes on the quality of the replay.
        self.notes: list[str] = json["notes"]
        self.messages: tuple[Message, ...] = tuple(messages)
        self.tasks: tuple[ReplayedTask, ...] = tuple(
            ReplayedTask(one["name"], one.get("cgroup"), one["recorded"], one["replayed"], one.get("what_if"))
            for one in json["tasks"]
        )

    def rows(self) -> list[dict[str, Any]]:
        """Returns a dictionary for each task: ``recorded_cpu_ns``, ``replayed_cpu_ns``, ``what_if_cpu_ns``, ..."""
        return list(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        for task in self.tasks:
            row: dict[str, Any] = {"task": task.name, "cgroup": task.cgroup}
            for which in ("recorded", "replayed", "what_if"):
                row.update({f"{which}_{name}": value for name, value in (getattr(task, which) or {}).items()})
            yield row

    def frame(self) -> pandas.DataFrame:
        """Returns the :meth:`rows` as a table of pandas."""
        return frame(self._rows())

    def __repr__(self) -> str:
        return f"<vruntime.Replay of {len(self.tasks)} tasks{', with a what-if' if self.what_if else ''}>"

    def _repr_html_(self) -> str:
        names = ["task", "recorded CPU ms", "replayed", *(["what if"] if self.what_if else [])]
        lines = []
        for task in self.tasks:
            runs = [task.recorded, task.replayed, *([task.what_if] if self.what_if else [])]
            lines.append(html_row([task.name, *(f"{run['cpu_ns'] / 1e6:.2f}" if run else "-" for run in runs)], "td"))
        messages = "".join(f"<p>{html_.escape(text)}</p>" for text in str(self).split("\n\n"))
        return f"{messages}<table><thead>{html_row(names, 'th')}</thead><tbody>{''.join(lines)}</tbody></table>"

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
    event_cost: Time | None = None,
    repeat: int | None = None,
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
    """Replays a recorded trace: as recorded, which shows the accuracy, and with ``kernel``, ``machine``, ``rules``,
    ``beside``, ``settings`` or ``features`` also as a what-if.

    :param trace: ``perf.data``, ``trace.dat``, a Perfetto trace, or the text of ftrace, trace-cmd or perf script.
    :param recorded_kernel: the recorded kernel. Default: the trace's.
    :param recorded_machine: the recorded machine, if its CPUs differ.
    :param cgroups: a file with the task group of each thread (docs/replay.md).
    :param kernel: the kernel of the what-if.
    :param machine: the machine of the what-if.
    :param rules: changes of tasks or groups in the what-if: ``"comm=batch: nice=5"``, a list, or a file.
    :param beside: workloads that run beside it in the what-if.
    :param wakeups: the ends of sleeps: ``"inferred"`` causes, or ``"recorded"`` times.
    :param duration: the length of the trace to read.
    :param event_cost: the time that recording an event took, which is subtracted from work. Default: as ``vruntime
        record`` measured it.
    :param repeat: the number of replays and what-ifs, each with the next seed. Results are their mean, and
        ``json["over_seeds"]`` has the spread. Default: 5 for a what-if, else 1.

    Other parameters are as for :func:`vruntime.run`.
    """
    # Of nothing but the parameters.
    argv = model(locals())
    argv += arguments(
        recorded_kernel=None if recorded_kernel is None else kernel_name(recorded_kernel),
        recorded_machine=None if recorded_machine is None else machine_name(recorded_machine),
        cgroups=None if cgroups is None else path(cgroups, "a file of cgroups"),
        kernel=None if kernel is None else kernel_name(kernel),
        machine=None if machine is None else machine_name(machine),
        wakeups=None if wakeups is None else text(wakeups, "wakeups"),
        duration=None if duration is None else time(duration),
        event_cost=None if event_cost is None else time(event_cost),
        out=out,
        html=html,
    )
    argv += rules_of(rules)
    argv += numbers_of(repeat=repeat)
    argv += [f"--beside={path(file, 'what runs beside it')}" for file in several(beside, "beside")]
    answer = command("replay", path(trace, "a trace"), "--json", *argv)
    return Replay(answer.json(), answer.messages)
