"""Lists of kernels, features and machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from ._command import command
from ._options import Machine as _Machine
from ._options import kernel_name, machine_name


@dataclass(frozen=True)
class Kernel:
    """A supported kernel."""

    name: str
    #: ``O(1)``, ``first CFS``, ``CFS`` or ``EEVDF``.
    policy: str
    #: Its changes, and their reasons.
    change: str


@dataclass(frozen=True)
class Feature:
    """A feature or a tunable of a kernel, by its kernel name."""

    name: str
    what: str
    #: For a feature: whether it is on, and whether it has an effect here.
    on: bool | None = None
    has_effect: bool = True
    #: For a tunable: its value on a machine of 1, 2, 4, 8 and 64 CPUs.
    value_by_cpus: Mapping[int, int] | None = None


@dataclass(frozen=True)
class Machine:
    """An example of a machine."""

    name: str
    topology: str
    what: str


@dataclass(frozen=True)
class Cpu:
    """A CPU of a machine. CPUs with equal numbers share the core, the cache, ..."""

    cpu: int
    core: int
    cluster: int
    llc: int
    package: int
    node: int
    #: Its capacity; 1024 is the largest.
    capacity: int


def kernels() -> list[Kernel]:
    """Returns the supported kernels.

    >>> [kernel.name for kernel in kernels() if kernel.policy == "EEVDF"][:3]
    ['6.6', '6.8', '6.11']
    """
    return [Kernel(one["kernel"], one["policy"], one["change"]) for one in command("kernels", "--json").json()]


def features(kernel: str) -> dict[str, Feature]:
    """Returns the features and tunables of a kernel, for ``features`` and ``settings`` of :func:`vruntime.run`.

    >>> features("6.12")["RUN_TO_PARITY"].on, features("6.12")["base_slice_ns"].value_by_cpus[8]
    (True, 2800000)
    """
    if not kernel_name(kernel):
        raise ValueError("a kernel has a name, such as '6.12'")
    json = command("kernels", f"--features={kernel}", "--json").json()
    found = [Feature(one["feature"], one["what"], one["on"], one["has_effect"]) for one in json["features"]]
    for one in json["tunables"]:
        values = {int(cpus): value for cpus, value in one["value_by_cpus"].items()}
        found.append(Feature(one["tunable"], one["what"], value_by_cpus=values))
    return {one.name: one for one in found}


def machines() -> list[Machine]:
    """Returns examples of machines. Other machines have descriptions, such as ``"pack:2 core:4 pu:2"``."""
    return [Machine(one["machine"], one["topology"], one["what"]) for one in command("machines", "--json").json()]


def machine(described: _Machine) -> list[Cpu]:
    """Returns the CPUs of a machine, described as for :func:`vruntime.run`.

    >>> [cpu.core for cpu in machine("core:2 pu:2")]
    [0, 0, 1, 1]
    """
    names = [one.name for one in fields(Cpu)]
    return [
        Cpu(**{name: one[name] for name in names})
        for one in command("machines", "--json", "--", machine_name(described)).json()
    ]
