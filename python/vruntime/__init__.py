"""The Linux CPU scheduler as a library, from Python.

>>> import vruntime
>>> result = vruntime.run({"tasks": {"hog": {"instance": 2, "loop": -1, "run": 1000}}}, machine="1", duration="1s")
>>> [round(task.share, 2) for task in result.tasks.values()]
[0.5, 0.5]

Five functions do all: :func:`run` a workload, :func:`compare` several kernels, machines or workloads, :func:`sweep`
over whatever :func:`run` takes, :func:`replay` a recorded trace, and :func:`command` for everything else the
``vruntime`` command can do. :func:`kernels`, :func:`features` and :func:`machines` list what there is to choose from.

They speak to the ``vruntime`` command that comes with this package. The same input and seed give the same results to
the nanosecond, here, there and anywhere. Numbers are called as in ``vruntime run --json`` (docs/cli.md says what each
is), with their units in their names.
"""

from ._command import (
    Answer,
    CommandNotFound,
    Told,
    VruntimeError,
    VruntimeWarning,
    command,
    version,
)
from ._comparison import Cell, Comparison, compare
from ._lists import Cpu, Feature, Kernel, Machine, features, kernels, machine, machines
from ._options import Toml, Workload
from ._replay import Replay, ReplayedTask, replay
from ._results import CpuResult, GroupResult, Latency, Run, Seed, Spread, TaskResult
from ._run import run
from ._sweep import Point, Sweep, sweep

__all__ = [
    "Answer",
    "Cell",
    "CommandNotFound",
    "Comparison",
    "Cpu",
    "CpuResult",
    "Feature",
    "GroupResult",
    "Kernel",
    "Latency",
    "Machine",
    "Point",
    "Replay",
    "ReplayedTask",
    "Run",
    "Seed",
    "Spread",
    "Sweep",
    "TaskResult",
    "Told",
    "Toml",
    "VruntimeError",
    "VruntimeWarning",
    "Workload",
    "command",
    "compare",
    "features",
    "kernels",
    "machine",
    "machines",
    "replay",
    "run",
    "sweep",
    "version",
]
