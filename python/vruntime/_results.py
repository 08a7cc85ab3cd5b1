"""What a run leaves: the same numbers, under the same names, as ``vruntime run --json``."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from ._command import Told

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")


@dataclass(frozen=True)
class Latency:
    """How long something took, microseconds."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    #: ``p99.9``
    p999: float
    max: float

    @classmethod
    def _of(cls, json: Mapping[str, Any] | None) -> Latency | None:
        if json is None:
            return None
        named = {("p999" if name == "p99.9" else name): value for name, value in json.items()}
        return cls(**{one.name: named[one.name] for one in fields(cls)})


@dataclass(frozen=True)
class _Entry:
    """Part of the results: what is always there as attributes, and everything in ``json``."""

    name: str
    #: All of it, by the names of ``vruntime run --json``.
    json: Mapping[str, Any] = field(repr=False)

    @classmethod
    def _all(cls: Callable[..., T], entries: Mapping[str, Mapping[str, Any]]) -> dict[str, T]:
        return {name: cls(name, json) for name, json in entries.items()}

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
    """What a task got, or all tasks of a class together. What it is called in ``vruntime run --json`` it is called
    here; ``json`` has what only some have (of deadline tasks, of limits, of energy).
    """

    #: Time on a CPU, seconds; and that in user mode and in the kernel.
    cpu_s: float
    user_s: float
    system_s: float
    #: Time on a CPU by time that passed: 1 is one CPU all along.
    share: float
    #: Time runnable without a CPU, and asleep, seconds.
    run_delay_s: float
    sleeping_s: float
    nr_voluntary_switches: int
    nr_involuntary_switches: int
    nr_migrations: int
    loops: int
    #: Of a class: how many there are.
    tasks: int

    @property
    def wakeup_to_run_us(self) -> Latency | None:
        """From a wakeup until it runs."""
        return Latency._of(self.json["wakeup_to_run_us"])

    @property
    def wakeup_latency_us(self) -> Latency | None:
        """From when a timed sleep was to end until it is back."""
        return Latency._of(self.json["wakeup_latency_us"])

    @property
    def loop_duration_us(self) -> Latency | None:
        """How long each loop of a phase took."""
        return Latency._of(self.json["loop_duration_us"])

    @property
    def response_us(self) -> Latency | None:
        """From when its rounds were due until they were done."""
        return Latency._of(self.json.get("response_us"))


class Groups(Mapping[str, "GroupResult"]):
    """By path: the root group is ``/``. Of others the first slash can be left out."""

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
    """What a task group got. ``json`` has ``cpu.stat`` and ``cpu.pressure`` by their names."""

    #: Time on a CPU, and what its weight entitles it to, seconds.
    cpu_s: float
    entitled_s: float
    run_delay_s: float
    nr_switches: int
    tasks: int

    @property
    def throttled_s(self) -> float:
        """How long it was throttled by its limit, seconds, as ``cpu.stat`` has it; 0 of one that has none."""
        return float(self.json.get("throttled_usec", 0)) / 1e6


class CpuResult(_Entry):
    """What a CPU did."""

    busy_s: float
    idle_s: float
    overhead_s: float
    nr_switches: int


@dataclass(frozen=True)
class Spread:
    """A number over several seeds; ``None`` where none has it, as a latency of what never slept."""

    metric: str
    unit: str
    mean: float | None
    min: float | None
    max: float | None
    #: Of which class of tasks, or of which group; neither: of the machine.
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
        #: All of it, as ``vruntime run --json`` has it in ``observed``.
        self.json = json
        self.seed: int = json["seed"]
        #: Of all its events: equal digests, equal runs.
        self.digest: str = json["digest"]
        #: Whether it was stopped before its end.
        self.interrupted: bool = json["interrupted"]
        self.notes: list[str] = json["notes"]
        self.tasks: Mapping[str, TaskResult] = TaskResult._all(json["tasks"])
        #: By what a task's name begins with in the file: all instances together.
        self.classes: Mapping[str, TaskResult] = TaskResult._all(json["classes"])
        self.groups = Groups(GroupResult._all(json["groups"]))
        self.cpus: tuple[CpuResult, ...] = tuple(CpuResult(str(cpu), one) for cpu, one in enumerate(json["cpus"]))
        #: The whole machine.
        self.machine: Mapping[str, Any] = json["machine"]
        #: What ``detect`` and ``analyse`` found, if they were asked for.
        self.detected: Mapping[str, Any] | None = json.get("detected")
        self.analyses: Mapping[str, Any] | None = json.get("analyses")

    def __repr__(self) -> str:
        return f"<vruntime.Seed {self.seed}: digest {self.digest}, {len(self.tasks)} tasks>"


class Run:
    """What :func:`vruntime.run` returns: a :class:`Seed` for each repetition, and what was run.

    What ``tasks``, ``classes``, ``groups``, ``cpus`` and ``machine`` have is of the first seed; ``over_seeds`` has the
    spread over all.
    """

    def __init__(self, json: Mapping[str, Any], told: Iterable[Told] = ()):
        #: All of it, as ``vruntime run --json`` prints it.
        self.json = json
        self.name: str = json["name"]
        self.kernel: str = json["kernel"]
        self.topology: str = json["topology"]
        self.nr_cpus: int = json["cpus"]
        self.duration_s: float = json["duration_s"]
        self.seeds: tuple[Seed, ...] = tuple(Seed(one) for one in json["observed"])
        #: Warnings and notes of the command's.
        self.told: tuple[Told, ...] = tuple(told)
        #: Of each number, over all seeds that came to their end; none of one seed alone.
        self.over_seeds: tuple[Spread, ...] = tuple(Spread._of(one) for one in json.get("over_seeds", ()))

    @property
    def tasks(self) -> Mapping[str, TaskResult]:
        """What each task got, in the first seed."""
        return self.seeds[0].tasks

    @property
    def classes(self) -> Mapping[str, TaskResult]:
        """What each class of tasks got, in the first seed."""
        return self.seeds[0].classes

    @property
    def groups(self) -> Groups:
        """What each task group got, in the first seed."""
        return self.seeds[0].groups

    @property
    def cpus(self) -> tuple[CpuResult, ...]:
        """What each CPU did, in the first seed."""
        return self.seeds[0].cpus

    @property
    def machine(self) -> Mapping[str, Any]:
        """The whole machine, in the first seed."""
        return self.seeds[0].machine

    @property
    def digest(self) -> str:
        """Of all events of the first seed: equal digests, equal runs."""
        return self.seeds[0].digest

    def rows(self, of: str = "classes") -> list[dict[str, Any]]:
        """A flat dictionary for each of ``"classes"``, ``"tasks"``, ``"groups"`` or ``"cpus"`` and each seed: what is
        inside something is called by both names (``wakeup_to_run_us_p99``). Of ``"over_seeds"``: for each number its
        mean, its smallest and its largest over all seeds.
        """
        return list(self._rows(of))

    def _rows(self, of: str) -> Iterator[dict[str, Any]]:
        one = {"classes": "class", "tasks": "task", "groups": "group", "cpus": "cpu"}
        if of == "over_seeds":
            for number in self.json.get("over_seeds", ()):
                yield {"kernel": self.kernel, **number}
            return
        if of not in one:
            raise ValueError(f"there are rows of {', '.join(map(repr, [*one, 'over_seeds']))}; not of {of!r}")
        for seed in self.seeds:
            entries: Any = seed.json[of]
            named: Any = enumerate(entries) if of == "cpus" else entries.items()
            for name, entry in named:
                if of == "groups":
                    # As rules and comparisons call it.
                    name = "/" + name.lstrip("/")
                yield {"kernel": self.kernel, "seed": seed.seed, one[of]: name, **_flat(entry)}

    def frame(self, of: str = "classes") -> pandas.DataFrame:
        """The :meth:`rows` as a table of pandas."""
        return frame(self._rows(of))

    def __repr__(self) -> str:
        seeds = "" if len(self.seeds) == 1 else f", {len(self.seeds)} seeds"
        return (
            f"<vruntime.Run {self.name!r} under Linux {self.kernel} on {self.topology!r}, {self.duration_s:g} s{seeds}>"
        )

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
    return f"{run.name} under Linux {run.kernel} on {run.topology}, {run.duration_s:g} s, {seed}"


def _table(run: Run) -> list[list[str]]:
    """What ``vruntime run`` prints of classes: lateness is that of timed sleeps, else of wakeups."""
    elapsed = run.machine["elapsed_s"] or 1.0
    lines = []
    for name, one in run.classes.items():
        late = one.wakeup_latency_us or one.wakeup_to_run_us
        switches = one.nr_voluntary_switches + one.nr_involuntary_switches
        lines.append(
            [
                name,
                str(one.tasks),
                f"{100 * one.share:.1f}",
                f"{100 * one.run_delay_s / elapsed:.1f}",
                f"{late.p50 / 1e3:.3f}" if late else "-",
                f"{late.p99 / 1e3:.3f}" if late else "-",
                f"{switches / elapsed / one.tasks:.1f}",
            ]
        )
    return lines


def _flat(json: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in json.items():
        name = before + name.replace("p99.9", "p999").replace(".", "_")
        if isinstance(value, Mapping):
            flat.update(_flat(value, name + "_"))
        elif value is not None or not name.endswith("_us"):
            # A latency that nobody had is no column beside those of its parts.
            flat[name] = value
    return flat


def frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Rows as a table of pandas, if that is there."""
    try:
        import pandas
    except ImportError as error:
        help = "`pip install pandas`, or take rows(), which needs nothing"
        raise ImportError(f"a frame is a table of pandas, which is not installed: {help}") from error
    return pandas.DataFrame.from_records(list(rows))
