"""``vruntime run``."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Iterable, Mapping
from typing import Any

from ._command import command
from ._job import plain_job
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
    source,
    switches,
    texts,
    time,
)
from ._results import Run
from ._slices import Recipe


def run(
    workload: Workload,
    *,
    kernel: str | None = None,
    machine: Machine | None = None,
    duration: Time | None = None,
    repeat: int = 1,
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
    every: Time | None = None,
    detect: bool = False,
    analyse: str | Iterable[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    html: str | os.PathLike[str] | None = None,
    strict: bool = False,
) -> Run:
    """Runs a workload, and returns the results of every task, class of tasks, task group and CPU.

    :param workload: the path of an rt-app file (JSON) or of a scenario (TOML). Or an rt-app file as a dictionary, the
        text of a scenario as :class:`vruntime.Toml`, or the name of an example, such as ``"demo"``.
    :param kernel: such as ``"6.12"``, ``"6.12+NO_RUN_TO_PARITY"`` or what ``uname -r`` prints. Default: the file's,
        else 6.12.
    :param machine: such as ``"pack:2 core:4"``, ``16``, ``"server"`` or ``"lstopo.xml"``; see
        :func:`vruntime.machines`. Default: the file's, else 8 CPUs.
    :param duration: seconds, a ``timedelta`` or ``"200ms"``. Default: the file's, else until all tasks have ended.
    :param repeat: the number of runs, each with the next seed, in parallel if CPUs are free.
    :param rules: changes of tasks or groups: ``"cgroup=/app: weight=200"``, a list of them, or a file of rules
        (docs/replay.md).
    :param seed: of the first run. Default: the file's, else 1.
    :param hz: scheduler ticks a second. Default: the file's, else 250.
    :param preempt: ``"none"``, ``"voluntary"``, ``"lazy"`` or ``"full"``. Default: the file's, else voluntary.
    :param costs: of switches, interrupts and system calls: ``"default"``, ``"zero"``, ``"vm"`` or ``"emulated"``.
    :param settings: tunables of the kernel and single costs by their names: ``{"base_slice_ns": 3_000_000}``.
    :param features: scheduler features by their kernel names, with the prefix ``NO_`` for off; see
        :func:`vruntime.features`.
    :param gate: whether tasks exist before the run and sleep until their start; otherwise they are forked then.
    :param autogroup: whether the tasks of the root group are in autogroups, one for each session.
    :param rt_group_sched: whether real-time tasks are scheduled by groups.
    :param group_switches: whether the scheduler counts switches away from the tasks of each group.
    :param target: the response time to meet, as ``duration``: ``response_ns.above_target`` of tasks and classes is the
        share of rounds above it.
    :param threads_max: the most tasks alive at a time beyond the workload's own.
    :param every: the length of the intervals of a time series, as ``duration``: load averages, pressure, utilisation
        and run queues are in ``result.seeds[0].json["series"]``.
    :param detect: whether to find CPUs that stay idle while tasks wait elsewhere: :attr:`Seed.detected`.
    :param analyse: analyses of the events, such as ``"latency"`` and ``"antagonists"``: :attr:`Seed.analyses`.
    :param out: a folder for traces (Perfetto, ftrace text) and results.
    :param html: a file for a page with charts and tables.
    :param strict: whether warnings about the input are errors.

    Raises :class:`vruntime.VruntimeError` for faulty input, with its place in the file.

    >>> result = run({"tasks": {"t": {"loop": 3, "run": 2000, "sleep": 8000}}}, machine=1)
    >>> result.tasks["t"].loops, result.tasks["t"].loop_duration_ns.p50 > 10_000_000
    (3, True)
    """
    # Nothing but the parameters.
    argv, text = _asked(**locals())
    answer = command(*argv, input=text)
    return Run(answer.json(), answer.messages, Recipe(plain_job(argv, text, {}, os.getcwd())))


def _asked(workload: Workload, **options: Any) -> tuple[list[str], str | None]:
    """Returns the arguments of the command, and its standard input."""
    file, text = source(workload)
    argv = model(options) + arguments(
        kernel=None if options["kernel"] is None else kernel_name(options["kernel"]),
        machine=None if options["machine"] is None else machine_name(options["machine"]),
        duration=None if options["duration"] is None else time(options["duration"]),
        target=None if options["target"] is None else time(options["target"]),
        every=None if options["every"] is None else time(options["every"]),
        analyse=",".join(texts(options["analyse"], "analyse")) or None,
        out=options["out"],
        html=options["html"],
    )
    argv += numbers_of(repeat=options["repeat"]) + switches(detect=options["detect"], strict=options["strict"])
    argv += rules_of(options["rules"])
    return ["run", file, "--json", *argv], text


#: The parameters of :func:`run`, with their defaults.
OPTIONS = {one.name: one.default for one in inspect.signature(run).parameters.values() if one.kind is one.KEYWORD_ONLY}


def asked(workload: Workload, **options: Any) -> tuple[list[str], str | None]:
    """Returns the arguments of the command for :func:`run` with these options, and its standard input."""
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        there = difflib.get_close_matches(unknown[0], OPTIONS, 1)
        meant = f"; did you mean {there[0]!r}?" if there else f": vruntime.run takes {', '.join(OPTIONS)}"
        raise TypeError(f"there is no option {unknown[0]!r}{meant}")
    return _asked(workload, **{**OPTIONS, **options})
