"""What the functions take, as the command line has it."""

from __future__ import annotations

import datetime
import json
import numbers
import os
from collections.abc import Iterable, Mapping
from typing import Any, Union


class Toml(str):
    """The text of a scenario, where others give a file's name. Files it names are looked for in the working folder."""


#: A workload: the path of an rt-app file (JSON) or a scenario (TOML); an rt-app file as a dictionary; or a scenario's
#: text as :class:`Toml`.
Workload = Union[str, "os.PathLike[str]", Mapping[str, Any], Toml]
#: A length of time: seconds, a ``timedelta``, or as the command has it: ``"200ms"``, ``"1.5s"``, ``"10min"``.
Time = Union[float, str, datetime.timedelta]
#: A rule of a what-if, ``"WHO: WHAT"``, or a file of them.
Rules = Union[str, Iterable[str]]


def source(workload: Workload) -> tuple[str, str | None]:
    """A workload as an argument, and what is to be read from standard input."""
    if isinstance(workload, Toml):
        return "-", str(workload)
    if isinstance(workload, Mapping):
        return "-", json.dumps(workload)
    return path(workload), None


def path(name: str | os.PathLike[str]) -> str:
    """A file's name as an argument: never an option, nor standard input."""
    if not isinstance(name, (str, os.PathLike)):
        there = "a file's name, an rt-app file as a dictionary, or a scenario's text as vruntime.Toml"
        raise TypeError(f"a workload is {there}; not {name!r}")
    text = os.fspath(name)
    return os.path.join(".", text) if text.startswith("-") else text


def time(length: Time) -> str:
    if isinstance(length, datetime.timedelta):
        # Exact: as a float it may not be.
        return f"{length // datetime.timedelta(microseconds=1)}us"
    if isinstance(length, numbers.Real) and not isinstance(length, bool):
        return f"{round(float(length) * 1e9)}ns"
    if isinstance(length, str):
        return length
    raise TypeError(f"a time is a number of seconds, a timedelta or a text such as '200ms', not {length!r}")


def several(what: Any) -> list[Any]:
    """One, or several, as several."""
    one = isinstance(what, (str, bytes, os.PathLike)) or not isinstance(what, Iterable)
    return [what] if one else list(what)


def arguments(**options: Any) -> list[str]:
    """Options of the command line. ``None`` says nothing; ``True`` and ``False`` are switches."""
    said: list[str] = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            if value:
                said.append(option)
        else:
            said.append(f"{option}={value}")
    return said


def switch(name: str, on: bool | None) -> list[str]:
    """A switch that can be told to be off, too."""
    return [] if on is None else [f"--{'' if on else 'no-'}{name}"]


def model(
    *,
    seed: int | None,
    hz: int | None,
    preempt: str | None,
    costs: str | None,
    settings: Mapping[str, int] | None,
    features: str | Iterable[str],
    gate: bool | None,
    autogroup: bool | None,
    rt_group_sched: bool,
    group_switches: bool,
    threads_max: int | None,
) -> list[str]:
    """What is simulated, besides the kernel and the machine."""
    said = arguments(seed=seed, hz=hz, preempt=preempt, costs=costs, threads_max=threads_max)
    said += [f"--set={name}={value}" for name, value in (settings or {}).items()]
    said += [f"--feature={name}" for name in several(features)]
    said += switch("gate", gate) + switch("autogroup", autogroup)
    return said + arguments(rt_group_sched=rt_group_sched, group_switches=group_switches)
