"""The Linux CPU scheduler as a library, from Python.

>>> import vruntime
>>> result = vruntime.run({"tasks": {"hog": {"instance": 2, "loop": -1, "run": 1000}}}, machine="1", duration="1s")
>>> [round(task.share, 2) for task in result.tasks.values()]
[0.5, 0.5]

:func:`run` runs a workload. :func:`compare` compares kernels, machines or workloads. :func:`sweep` varies the options
of :func:`run`. :func:`replay` replays a recorded trace. :func:`command` runs any other ``vruntime`` command.
:func:`kernels`, :func:`features` and :func:`machines` list the possible values.

They run the ``vruntime`` command of this package. The same input and seed give the same results to the nanosecond, on
every machine. Numbers have the names of ``vruntime run --json`` (docs/cli.md explains them), with their units.
"""

from ._command import (
    Answer,
    CommandNotFound,
    Message,
    VruntimeError,
    VruntimeWarning,
    command,
    version,
)
from ._comparison import Cell, Comparison, compare
from ._lists import Cpu, Feature, Kernel, Machine, features, kernels, machine, machines
from ._options import Toml, Workload
from ._plot import Chart, RunPlots, SweepPlots
from ._replay import Replay, ReplayedTask, replay
from ._results import CpuResult, GroupResult, Latency, Run, Seed, Spread, TaskResult
from ._run import run
from ._sweep import Point, Sweep, sweep

__all__ = [
    "Answer",
    "Cell",
    "Chart",
    "CommandNotFound",
    "Comparison",
    "Cpu",
    "CpuResult",
    "Feature",
    "GroupResult",
    "Kernel",
    "Latency",
    "Machine",
    "Message",
    "Point",
    "Replay",
    "ReplayedTask",
    "Run",
    "RunPlots",
    "Seed",
    "Spread",
    "Sweep",
    "SweepPlots",
    "TaskResult",
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
