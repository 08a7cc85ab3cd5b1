"""Translates the parameters of the functions to options of the command."""

from __future__ import annotations

import datetime
import json
import math
import numbers
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any, Union


class Toml(str):
    """The text of a scenario, instead of a file's name. Files that it names are relative to the working folder."""


#: A workload: the path of an rt-app file (JSON) or a scenario (TOML); an rt-app file as a dictionary; or a scenario's
#: text as :class:`Toml`.
Workload = Union[str, "os.PathLike[str]", Mapping[str, Any], Toml]
#: A length of time: seconds, a ``timedelta``, or as the command accepts it: ``"200ms"``, ``"1.5s"``, ``"10min"``.
Time = Union[float, str, datetime.timedelta]
#: A machine, described as in ``"pack:2 core:4"``, or a number of CPUs, or a file that describes it.
Machine = Union[str, int, "os.PathLike[str]"]
#: A rule of a what-if, ``"TASKS: CHANGE"``, or a file of rules; or several.
Rules = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]], None]


def source(workload: Workload) -> tuple[str, str | None]:
    """Returns a workload as an argument, and the standard input."""
    if isinstance(workload, Toml):
        return "-", str(workload)
    if isinstance(workload, Mapping):
        return "-", _json(workload)
    if isinstance(workload, str) and "\n" in workload:
        raise TypeError("a text of several lines is no file's name: give a scenario's text as vruntime.Toml(text)")
    return path(workload, "a workload"), None


def _json(workload: Mapping[str, Any]) -> str:
    try:
        return json.dumps(workload, default=_listed, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"the workload cannot be written as JSON: {error}") from error


def _listed(value: Any) -> Any:
    """Converts numbers and lists of numpy and Python to JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"a workload has no {type(value).__name__}: {value!r}")


def path(name: Any, what: str = "a file") -> str:
    """Returns a file's name as an argument that is neither an option nor standard input."""
    if not isinstance(name, (str, os.PathLike)):
        others = ", an rt-app file as a dictionary, or a scenario's text as vruntime.Toml" if "work" in what else ""
        raise TypeError(f"{what} is a file's name{others}; not {name!r}")
    text = os.fspath(name)
    return os.path.join(".", text) if text.startswith("-") else text


def _plain(value: Any) -> Any:
    """Converts a scalar of numpy to Python."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def time(length: Any) -> str:
    length = _plain(length)
    if isinstance(length, datetime.timedelta):
        # Exact: as a float it may not be.
        return f"{length // datetime.timedelta(microseconds=1)}us"
    if isinstance(length, numbers.Real) and not isinstance(length, bool):
        if not math.isfinite(length):
            raise ValueError(f"a time is a number of seconds, not {length!r}")
        return f"{round(float(length) * 1e9)}ns"
    if isinstance(length, str):
        return length
    raise TypeError(f"a time is a number of seconds, a timedelta or a text such as '200ms', not {length!r}")


def several(what: Any, name: str) -> list[Any]:
    """Returns none, one, or several values as a list, in a fixed order."""
    if what is None:
        return []
    if isinstance(what, Mapping):
        raise TypeError(f"`{name}` is a text or a list of texts, not {what!r}")
    if isinstance(what, (set, frozenset)):
        return sorted(what)
    one = isinstance(what, (str, bytes, os.PathLike)) or not isinstance(what, Iterable)
    return [what] if one else list(what)


def texts(what: Any, name: str) -> list[str]:
    """As :func:`several`, for texts."""
    listed = several(what, name)
    return [text(one, name) for one in listed]


def text(what: Any, name: str) -> str:
    if not isinstance(what, str):
        raise TypeError(f"`{name}` is a text or several, and {what!r} is none")
    return what


def rules_of(rules: Any) -> list[str]:
    """Returns rules as options. A file of rules may be a path."""
    listed = several(rules, "rules")
    return [f"--map={os.fspath(one) if isinstance(one, os.PathLike) else text(one, 'rules')}" for one in listed]


def kernel_name(name: Any) -> str:
    """Returns a kernel's name. Rejects numbers, since 6.10 would be 6.1."""
    if not isinstance(name, str):
        others = "; several are compared by vruntime.compare, or are an axis of vruntime.sweep" * isinstance(
            name, Iterable
        )
        raise TypeError(f"a kernel is a text such as '6.12', not {name!r}{others}")
    return name


def machine_name(described: Any) -> str:
    described = _plain(described)
    if isinstance(described, bool) or not isinstance(described, (str, int, os.PathLike)):
        others = "; several are compared by vruntime.compare, or are an axis of vruntime.sweep"
        others *= isinstance(described, Iterable)
        raise TypeError(f"a machine is a text such as 'pack:2 core:4' or a number of CPUs, not {described!r}{others}")
    return os.fspath(described) if isinstance(described, os.PathLike) else str(described)


def whole(number: Any, name: str) -> int:
    number = _plain(number)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, numbers.Integral):
        raise TypeError(f"`{name}` is a whole number, not {number!r}")
    return operator.index(number)


def switch(on: Any, name: str) -> bool:
    on = _plain(on)
    if not isinstance(on, bool):
        raise TypeError(f"`{name}` is True or False, not {on!r}")
    return on


def arguments(**options: Any) -> list[str]:
    """Returns options of the command line. ``None`` gives no option."""
    given = {name.replace("_", "-"): value for name, value in options.items() if value is not None}
    return [
        f"--{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}" for name, value in given.items()
    ]


def texts_of(**options: Any) -> list[str]:
    """Returns options with texts."""
    return arguments(**{name: None if value is None else text(value, name) for name, value in options.items()})


def numbers_of(**options: Any) -> list[str]:
    """Returns options with whole numbers."""
    return arguments(**{name: None if value is None else whole(value, name) for name, value in options.items()})


def switches(**options: Any) -> list[str]:
    """Returns options without values."""
    return [f"--{name.replace('_', '-')}" for name, on in options.items() if switch(on, name)]


def either(**options: Any) -> list[str]:
    """Returns switches that also have an option for off."""
    given = {name: switch(on, name) for name, on in options.items() if on is not None}
    return [f"--{'' if on else 'no-'}{name}" for name, on in given.items()]


def _settings(values: Any) -> list[str]:
    if values is None:
        return []
    if not isinstance(values, Mapping):
        raise TypeError(f"`settings` is a dictionary such as {{'base_slice_ns': 3_000_000}}, not {values!r}")
    return [f"--set={name}={whole(value, str(name))}" for name, value in values.items()]


def model(given: Mapping[str, Any]) -> list[str]:
    """Returns the options of the simulation, except for kernel and machine, from a function's parameters. Parameters
    that a function lacks give no options.
    """

    def of(*names: str) -> dict[str, Any]:
        return {name: given[name] for name in names if name in given}

    argv = numbers_of(**of("seed", "hz", "threads_max")) + texts_of(**of("preempt", "costs"))
    argv += _settings(given["settings"]) + [f"--feature={name}" for name in texts(given["features"], "features")]
    return argv + either(**of("gate", "autogroup")) + switches(**of("rt_group_sched", "group_switches"))
