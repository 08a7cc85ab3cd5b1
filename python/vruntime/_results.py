"""The results of a run, with the numbers and names of ``vruntime run --json``."""

from __future__ import annotations

import difflib
import html
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from ._command import Message
from ._plot import RunPlots
from ._slices import Recipe, unknown

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")


@dataclass(frozen=True)
class Latency:
    """A distribution of times, nanoseconds."""

    count: int
    mean: int
    p50: int
    p90: int
    p99: int
    #: ``p99.9``
    p999: int
    max: int

    @classmethod
    def _of(cls, json: Mapping[str, Any] | None) -> Latency | None:
        if json is None:
            return None
        named = {("p999" if name == "p99.9" else name): value for name, value in json.items()}
        return cls(**{one.name: named[one.name] for one in fields(cls)})


class _Named(dict[str, T]):
    """Entries by name. The error of an unknown name lists similar names, else the first ones."""

    def __missing__(self, name: object) -> T:
        there = difflib.get_close_matches(str(name), self, 5) or [*itertools.islice(self, 12)]
        raise KeyError(f"there is no {name!r}; there are {', '.join(there)}{', ...' if len(there) < len(self) else ''}")


@dataclass(frozen=True)
class _Entry:
    """A part of the results: its constant fields as attributes, and all fields in ``json``."""

    name: str
    #: All fields, by the names of ``vruntime run --json``.
    json: Mapping[str, Any] = field(repr=False)

    @classmethod
    def _all(cls: Callable[..., T], entries: Mapping[str, Mapping[str, Any]]) -> dict[str, T]:
        return _Named({name: cls(name, json) for name, json in entries.items()})

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *(name for name in self.json if name.isidentifier())]

    def _repr_html_(self) -> str:
        body = "".join(html_row([name, f"{value}"], "td") for name, value in _flat(self.json).items())
        return f"<table><caption>{html.escape(self.name)}</caption><tbody>{body}</tbody></table>"

    def __getattr__(self, name: str) -> Any:
        # Only what no attribute is called: what some runs have, and others have not.
        if name.startswith("__") or name == "json":
            raise AttributeError(name)
        try:
            return self.json[name]
        except KeyError:
            there = ", ".join(sorted({*self.json, *(one for one in dir(type(self)) if not one.startswith("_"))}))
            raise AttributeError(f"{type(self).__name__} {self.name!r} has no {name!r}; it has {there}") from None


class TaskResult(_Entry):
    """The results of a task, or of all tasks of a class. Names are those of ``vruntime run --json``. ``json`` also has
    fields that only some tasks have (of deadline tasks, of limits, of energy).
    """

    #: Time on a CPU, in user mode and in the kernel, nanoseconds.
    cpu_ns: int
    user_ns: int
    system_ns: int
    #: Time on a CPU as a part of the run: 1 is one CPU all the time.
    share: float
    #: Time runnable without a CPU, and asleep, nanoseconds.
    run_delay_ns: int
    sleeping_ns: int
    nr_voluntary_switches: int
    nr_involuntary_switches: int
    nr_migrations: int
    loops: int
    #: For a class: the number of its tasks.
    tasks: int

    @property
    def wakeup_to_run_ns(self) -> Latency | None:
        """The time from a wakeup until it runs."""
        return Latency._of(self.json["wakeup_to_run_ns"])

    @property
    def wakeup_latency_ns(self) -> Latency | None:
        """The delay of the return from timed sleeps."""
        return Latency._of(self.json["wakeup_latency_ns"])

    @property
    def loop_duration_ns(self) -> Latency | None:
        """The time of a loop of a phase."""
        return Latency._of(self.json["loop_duration_ns"])

    @property
    def response_ns(self) -> Latency | None:
        """The time from when a round is due until it is done."""
        return Latency._of(self.json.get("response_ns"))


class Groups(Mapping[str, "GroupResult"]):
    """Groups by path: the root group is ``/``. For others, the first slash is optional."""

    def __init__(self, groups: Mapping[str, GroupResult]):
        self._groups = {"/" + path.lstrip("/"): group for path, group in groups.items()}

    def __getitem__(self, path: str) -> GroupResult:
        try:
            return self._groups["/" + path.lstrip("/")]
        except KeyError:
            raise KeyError(f"there is no group {path!r}; there are {', '.join(self)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)


class GroupResult(_Entry):
    """The results of a task group. ``json`` has ``cpu.stat`` and ``cpu.pressure`` by their names."""

    #: Time on a CPU, its entitlement by weight, and time runnable without a CPU, nanoseconds.
    cpu_ns: int
    entitled_ns: int
    run_delay_ns: int
    nr_switches: int
    tasks: int

    @property
    def throttled_ns(self) -> int:
        """The throttled time, nanoseconds, summed over CPUs; 0 without a limit."""
        return int(self.json.get("throttled_ns", 0))


class CpuResult(_Entry):
    """The results of a CPU. Times are nanoseconds."""

    busy_ns: int
    idle_ns: int
    overhead_ns: int
    nr_switches: int


@dataclass(frozen=True)
class Spread:
    """A number over several seeds; ``None`` if no seed has it, such as a latency without sleeps."""

    metric: str
    unit: str
    mean: float | None
    min: float | None
    max: float | None
    #: The class of tasks, or the group; both ``None`` for the machine.
    class_: str | None = None
    group: str | None = None

    @classmethod
    def _of(cls, json: Mapping[str, Any]) -> Spread:
        names = {one.name for one in fields(cls)}
        known = {("class_" if name == "class" else name): value for name, value in json.items()}
        return cls(**{name: value for name, value in known.items() if name in names})


class Seed:
    """One run."""

    def __init__(self, json: Mapping[str, Any]):
        #: Its entry in ``observed`` of ``vruntime run --json``.
        self.json = json
        self.seed: int = json["seed"]
        #: The digest of all events: runs with equal digests are equal.
        self.digest: str = json["digest"]
        #: Whether it was stopped before its end.
        self.interrupted: bool = json["interrupted"]
        self.notes: list[str] = json["notes"]
        self.tasks: Mapping[str, TaskResult] = TaskResult._all(json["tasks"])
        #: All instances of a task of the file together, by its name.
        self.classes: Mapping[str, TaskResult] = TaskResult._all(json["classes"])
        self.groups = Groups(GroupResult._all(json["groups"]))
        self.cpus: tuple[CpuResult, ...] = tuple(CpuResult(str(cpu), one) for cpu, one in enumerate(json["cpus"]))
        #: The whole machine.
        self.machine: Mapping[str, Any] = json["machine"]
        #: The results of ``detect`` and ``analyse``, if requested.
        self.detected: Mapping[str, Any] | None = json.get("detected")
        self.analyses: Mapping[str, Any] | None = json.get("analyses")

    def __repr__(self) -> str:
        return f"<vruntime.Seed {self.seed}: digest {self.digest}, {len(self.tasks)} tasks>"


class Run:
    """The result of :func:`vruntime.run`: a :class:`Seed` for each repetition, and the setup.

    ``tasks``, ``classes``, ``groups``, ``cpus`` and ``machine`` are of the first seed. ``over_seeds`` has the spread of
    all seeds.
    """

    def __init__(self, json: Mapping[str, Any], messages: Iterable[Message] = (), recipe: Recipe | None = None):
        #: The whole output of ``vruntime run --json``.
        self.json = json
        self.name: str = json["name"]
        self.kernel: str = json["kernel"]
        self.topology: str = json["topology"]
        self.nr_cpus: int = json["cpus"]
        #: The length of the first run, nanoseconds.
        self.duration_ns: int = json["duration_ns"]
        self.seeds: tuple[Seed, ...] = tuple(Seed(one) for one in json["observed"])
        #: Warnings and notes of the command.
        self.messages: tuple[Message, ...] = tuple(messages)
        #: The spread of each number over all complete seeds; empty for one seed.
        self._recipe = recipe
        self.over_seeds: tuple[Spread, ...] = tuple(Spread._of(one) for one in json.get("over_seeds", ()))

    @property
    def tasks(self) -> Mapping[str, TaskResult]:
        """The tasks of the first seed."""
        return self.seeds[0].tasks

    @property
    def classes(self) -> Mapping[str, TaskResult]:
        """The classes of tasks of the first seed."""
        return self.seeds[0].classes

    @property
    def groups(self) -> Groups:
        """The task groups of the first seed."""
        return self.seeds[0].groups

    @property
    def cpus(self) -> tuple[CpuResult, ...]:
        """The CPUs of the first seed."""
        return self.seeds[0].cpus

    @property
    def machine(self) -> Mapping[str, Any]:
        """The whole machine of the first seed."""
        return self.seeds[0].machine

    @property
    def digest(self) -> str:
        """The digest of the first seed: runs with equal digests are equal."""
        return self.seeds[0].digest

    def rows(self, of: str = "classes") -> list[dict[str, Any]]:
        """Returns a flat dictionary for each of ``"classes"``, ``"tasks"``, ``"groups"`` or ``"cpus"`` and each seed.
        Nested fields have joined names (``wakeup_to_run_ns_p99``). For ``"over_seeds"``: the mean, smallest and largest
        of each number over all seeds. For ``"slices"``: each stretch of a task on a CPU (:meth:`slices`).
        """
        return list(self._rows(of))

    def _rows(self, of: str) -> Iterator[dict[str, Any]]:
        one = {"classes": "class", "tasks": "task", "groups": "group", "cpus": "cpu"}
        if of == "over_seeds":
            for number in self.json.get("over_seeds", ()):
                yield {"kernel": self.kernel, **number}
            return
        if of == "slices":
            for seed in self.seeds:
                for slice_ in self.slices(seed):
                    yield {"kernel": self.kernel, "seed": seed.seed, **slice_}
            return
        if of not in one:
            others = [*one, "over_seeds", "slices"]
            raise ValueError(f"there are rows of {', '.join(map(repr, others))}; not of {of!r}")
        for seed in self.seeds:
            entries: Any = seed.json[of]
            named: Any = enumerate(entries) if of == "cpus" else entries.items()
            for name, entry in named:
                if of == "groups":
                    # As rules and comparisons call it.
                    name = "/" + name.lstrip("/")
                yield {"kernel": self.kernel, "seed": seed.seed, one[of]: name, **_flat(entry)}

    def frame(self, of: str = "classes") -> pandas.DataFrame:
        """Returns the :meth:`rows` as a table of pandas."""
        return frame(self._rows(of))

    def slices(self, seed: Seed | None = None) -> Iterator[dict[str, Any]]:
        """Yields each stretch of a task on a CPU, of the first or another seed: ``task``, ``class``, ``pid``, ``cpu``,
        ``prio``, ``start_ns``, ``end_ns``, ``duration_ns`` and ``end_state``. The state is the kernel's. It is ``S`` or
        another letter for a task that slept, and ``R`` or ``R+`` for one that was preempted or yielded. At the end of
        the run, it is ``None``. Times are whole microseconds, as in the text of a trace.

        Results do not contain slices. So the run is made once more, and its digest must be that of the first run.
        """
        if self._recipe is None:
            raise unknown()
        one = self.seeds[0] if seed is None else seed
        return self._recipe.slices(one.seed, one.digest, int(one.machine["elapsed_ns"]), one.classes)

    @property
    def plot(self) -> RunPlots:
        """Charts: ``timeline()``, ``latency()`` and ``shares()``."""
        return RunPlots(self)

    def __repr__(self) -> str:
        seeds = "" if len(self.seeds) == 1 else f", {len(self.seeds)} seeds"
        seconds = self.duration_ns / 1e9
        return f"<vruntime.Run {self.name!r} under Linux {self.kernel} on {self.topology!r}, {seconds:g} s{seeds}>"

    def __str__(self) -> str:
        lines = [HEAD, *_table(self)]
        widths = [max(map(len, column)) for column in zip(*lines)]
        text = ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines]
        return "\n".join([_caption(self), "", *text])

    def _repr_html_(self) -> str:
        body = "".join(html_row(line, "td") for line in _table(self))
        caption = html.escape(_caption(self))
        return f"<table><caption>{caption}</caption><thead>{html_row(HEAD, 'th')}</thead><tbody>{body}</tbody></table>"


def html_row(cells: Iterable[str], kind: str) -> str:
    return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>"


HEAD = ["class", "tasks", "CPU %", "wait %", "p50 ms", "p99 ms", "switch/s"]


def _caption(run: Run) -> str:
    seed = f"seed {run.seeds[0].seed}" + (f" of {len(run.seeds)}" if len(run.seeds) > 1 else "")
    return f"{run.name} under Linux {run.kernel} on {run.topology}, {run.duration_ns / 1e9:g} s, {seed}"


def _table(run: Run) -> list[list[str]]:
    """Returns the table of classes of ``vruntime run``: lateness is that of timed sleeps, else of wakeups."""
    elapsed = run.machine["elapsed_ns"] or 1
    lines = []
    for name, one in run.classes.items():
        late = one.wakeup_latency_ns or one.wakeup_to_run_ns
        switches = one.nr_voluntary_switches + one.nr_involuntary_switches
        lines.append(
            [
                name,
                str(one.tasks),
                f"{100 * one.share:.1f}",
                f"{100 * one.run_delay_ns / elapsed:.1f}",
                f"{late.p50 / 1e6:.3f}" if late else "-",
                f"{late.p99 / 1e6:.3f}" if late else "-",
                f"{switches * 1e9 / elapsed / one.tasks:.1f}",
            ]
        )
    return lines


def _flat(json: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in json.items():
        name = before + name.replace("p99.9", "p999").replace(".", "_")
        if isinstance(value, Mapping):
            flat.update(_flat(value, name + "_"))
        elif value is not None or not name.endswith("_ns"):
            # A latency without values is no column beside those of its parts.
            flat[name] = value
    return flat


def frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Returns rows as a table of pandas, if pandas is installed."""
    try:
        import pandas
    except ImportError as error:
        help = "`pip install pandas`, or take rows(), which needs nothing"
        raise ImportError(f"a frame is a table of pandas, which is not installed: {help}") from error
    return pandas.DataFrame.from_records(list(rows))
