"""Charts, with matplotlib."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._job import named

if TYPE_CHECKING:
    from ._comparison import Comparison
    from ._results import Run
    from ._sweep import Sweep

#: Okabe and Ito's colours, which colour-blind readers can distinguish, without black; then the same, lighter.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B3A100", "#7F7F7F")
LIGHTER = ("#80B9D9", "#F3CF80", "#80CFB9", "#E6BCD3", "#ABDAF4", "#EBAF80", "#D9D080", "#BFBFBF")
_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    # Texts of a PDF or SVG stay texts, and equal charts are equal files.
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "vruntime",
}
#: A row of a chart, inches.
_ROW = 0.24
#: The most slices that a timeline shows: more cannot be distinguished.
_MOST = 20_000


class Chart:
    """A chart of matplotlib. Notebooks show it."""

    def __init__(self, figure: Any):
        #: The ``matplotlib.figure.Figure``, for changes.
        self.figure = figure

    def save(self, path: str | os.PathLike[str], dpi: int = 200) -> None:
        """Writes the chart: PNG, PDF or SVG, by the ending of the name."""
        kind = os.fspath(path).rpartition(".")[2].lower()
        with named(os.fspath(path)):
            self._write(path, kind, dpi)

    def _write(self, target: Any, kind: str, dpi: int) -> None:
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        with _matplotlib().rc_context(_STYLE):
            self.figure.savefig(target, format=kind, dpi=dpi, bbox_inches="tight", metadata=undated)

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self._write(content, "png", 120)
        return content.getvalue()

    def __repr__(self) -> str:
        titles = [axes.get_title(loc="left") for axes in self.figure.axes]
        return f"<vruntime.Chart {next(filter(None, titles), '')!r}>"


def _matplotlib() -> Any:
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise ImportError("a chart needs matplotlib: `pip install matplotlib`") from error
    return matplotlib


def _draw(draw: Callable[[Any], None], width: float, height: float) -> Chart:
    """Returns a chart with one pair of axes."""
    matplotlib = _matplotlib()
    with matplotlib.rc_context(_STYLE):
        # Without pyplot, which keeps every figure.
        figure = matplotlib.figure.Figure(figsize=(width, height), layout="constrained")
        draw(figure.add_subplot())
    return Chart(figure)


def colours(names: Iterable[str]) -> dict[str, str]:
    """Returns a colour for each name."""
    both = (*COLOURS, *LIGHTER)
    return {name: both[index % len(both)] for index, name in enumerate(names)}


class RunPlots:
    """Charts of a run: ``result.plot``."""

    def __init__(self, run: Run):
        self._run = run

    def timeline(
        self, *, start: float = 0.0, end: float | None = None, by: str = "cpu", classes: Sequence[str] | None = None
    ) -> Chart:
        """Draws which task runs where and when, for the first seed.

        :param start: the first second.
        :param end: the last second. Default: the end of the run, and at most 0.1 s after ``start``.
        :param by: ``"cpu"``: a row for each CPU, coloured by class. ``"task"``: a row for each task, coloured by CPU.
        :param classes: the classes to show. Default: all.
        """
        if by not in ("cpu", "task"):
            raise ValueError(f"`by` is 'cpu' or 'task', not {by!r}")
        run = self._run
        ends = run.machine["elapsed_ns"] / 1e9
        last = min(ends, start + 0.1) if end is None else end
        if not start < last:
            raise ValueError(f"the timeline ends at {last} s, and starts at {start} s")
        if not 0 <= start < ends:
            raise ValueError(f"the timeline starts at {start} s, and the run is from 0 to {ends} s")
        there = list(run.classes)
        shown = _known(classes, there, "class")
        slices = []
        for one in run.slices(run.seeds[0]):
            if one["end_ns"] > start * 1e9 and one["start_ns"] < last * 1e9 and one["class"] in shown:
                slices.append(one)
                if len(slices) > _MOST:
                    help = "take a shorter time with `start` and `end`, or fewer `classes`"
                    raise ValueError(f"more than {_MOST} slices from {start} s to {last} s: {help}")
        if by == "cpu":
            rows = [f"CPU {cpu}" for cpu in range(run.nr_cpus)]
            hues = colours(name for name in there if name in shown)
        else:
            present = {one["task"] for one in slices}
            rows = [name for name in run.tasks if name in present]
            hues = colours(f"CPU {cpu}" for cpu in range(run.nr_cpus))
        unit, factor = ("ms", 1e3) if last < 1.5 else ("s", 1.0)

        def draw(axes: Any) -> None:
            bars: dict[tuple[int, str], list[tuple[float, float]]] = {}
            place = {name: index for index, name in enumerate(rows)}
            for one in slices:
                cpu = f"CPU {one['cpu']}"
                row, hue = (cpu, one["class"]) if by == "cpu" else (one["task"], cpu)
                begin, stop = max(one["start_ns"] / 1e9, start), min(one["end_ns"] / 1e9, last)
                bars.setdefault((place[row], hues[hue]), []).append((begin * factor, (stop - begin) * factor))
            for (row_index, colour), spans in bars.items():
                axes.broken_barh(spans, (row_index - 0.4, 0.8), facecolors=colour, linewidth=0)
            axes.set_xlim(start * factor, last * factor)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_yticks(range(len(rows)), rows)
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="y", visible=False)
            axes.set_xlabel(f"time, {unit}")
            axes.set_title(f"{run.name} under Linux {run.kernel} on {run.topology}")
            used = {colour for _, colour in bars}
            _legend(axes, {name: colour for name, colour in hues.items() if colour in used})

        return _draw(draw, 7.2, 0.9 + _ROW * max(len(rows), 3))

    def latency(self, of: str = "wakeup_to_run_ns", *, classes: Sequence[str] | None = None) -> Chart:
        """Draws percentiles of a latency for each class of the first seed: p50, p90, p99, p99.9 and the largest.

        :param of: ``"wakeup_to_run_ns"``, ``"wakeup_latency_ns"``, ``"response_ns"`` or ``"loop_duration_ns"``.
        :param classes: the classes to show. Default: all that have it.
        """
        run = self._run
        known = ("wakeup_to_run_ns", "wakeup_latency_ns", "response_ns", "loop_duration_ns")
        if of not in known:
            raise ValueError(f"`of` is one of {', '.join(known)}, not {of!r}")
        there = {name: one.json[of] for name, one in run.classes.items() if one.json.get(of)}
        shown = _known(classes, list(there), "class with this latency")
        rows = [name for name in there if name in shown]
        marks = {"p50": "|", "p90": "o", "p99": "D", "p99.9": "s", "max": "x"}
        # What lasts no time has its mark at the left edge.
        floor = 0.1

        def draw(axes: Any) -> None:
            for index, name in enumerate(rows):
                values = [max(there[name][mark] / 1e3, floor) for mark in marks]
                axes.plot([values[0], values[-1]], [index, index], color="#B0B0B0", linewidth=1.2, zorder=1)
            for (mark, symbol), colour in zip(marks.items(), ("#000000", *COLOURS)):
                values = [max(there[name][mark] / 1e3, floor) for name in rows]
                face = {} if symbol in "|x" else {"edgecolors": "white", "linewidths": 0.5}
                size = 60 if symbol == "|" else 26
                axes.scatter(
                    values, range(len(rows)), marker=symbol, color=colour, s=size, zorder=2, label=mark, **face
                )
            axes.set_xscale("log")
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_yticks(range(len(rows)), rows)
            axes.tick_params(axis="y", length=0)
            axes.set_xlabel(f"{of[:-3].replace('_', ' ')}, us")
            axes.set_title(f"{run.name} under Linux {run.kernel} on {run.topology}")
            if rows:
                axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))

        return _draw(draw, 6.4, 0.9 + _ROW * max(len(rows), 5))

    def shares(self, of: str = "classes") -> Chart:
        """Draws the CPU time and the waiting time of each class of the first seed, in percent of one CPU. For
        ``of="groups"``: the CPU time of each group, and its entitlement by weight.
        """
        run = self._run
        if of not in ("classes", "groups"):
            raise ValueError(f"`of` is 'classes' or 'groups', not {of!r}")
        elapsed = float(run.machine["elapsed_ns"]) or 1.0
        entries: Mapping[str, Any] = run.classes if of == "classes" else run.groups
        entries = {name: one for name, one in entries.items() if name != "/" or len(entries) == 1}
        ran = [100 * one.json["cpu_ns"] / elapsed for one in entries.values()]
        waited = [100 * one.json["run_delay_ns"] / elapsed for one in entries.values()]

        def draw(axes: Any) -> None:
            at = range(len(entries))
            axes.barh(at, ran, height=0.7, color=COLOURS[0], label="running")
            axes.barh(at, waited, left=ran, height=0.7, color="#D0D0D0", label="waiting")
            if of == "groups":
                entitled = [100 * one.json["entitled_ns"] / elapsed for one in entries.values()]
                axes.scatter(entitled, at, marker="|", s=150, color="black", label="entitled by weight", zorder=3)
            axes.set_ylim(len(entries) - 0.5, -0.5)
            axes.set_yticks(at, list(entries))
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="y", visible=False)
            axes.set_xlabel("time, % of one CPU")
            axes.set_title(f"{run.name} under Linux {run.kernel} on {run.topology}")
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))

        return _draw(draw, 6.4, 0.9 + _ROW * max(len(entries), 3))


class SweepPlots:
    """Charts of a sweep: ``sweep.plot``."""

    def __init__(self, sweep: Sweep):
        self._sweep = sweep

    def heatmap(
        self, value: str = "share", *, class_: str | None = None, x: str | None = None, y: str | None = None
    ) -> Chart:
        """Draws a column of the rows over two axes. A cell is the mean over all other axes and seeds.

        :param value: the column, such as ``"wakeup_to_run_ns_p99"``.
        :param class_: the class. Needed if there are several.
        :param x: the horizontal axis of the sweep. Default: the last with several values.
        :param y: the vertical axis. Default: the one before.
        """
        rows = [row for row in self._sweep.rows() if row.get("error") is None]
        names = sorted({row["class"] for row in rows})
        if class_ is None and len(names) == 1:
            class_ = names[0]
        if class_ not in names:
            raise ValueError(f"`class_` is one of {', '.join(map(repr, names))}, not {class_!r}")
        rows = [row for row in rows if row["class"] == class_]
        if not any(value in row for row in rows):
            numbers = [name for name, one in rows[0].items() if isinstance(one, (int, float))]
            raise ValueError(f"there is no column {value!r}; there are {', '.join(numbers)}")
        axes_of = list(self._sweep[0].of)
        settings = dict.fromkeys(name for point in self._sweep for name in point.of.get("settings") or ())
        axes_of = [one for name in axes_of for one in (settings if name == "settings" else [name])]
        ticks = {name: list(dict.fromkeys(row[name] for row in rows)) for name in axes_of}
        several = [name for name in axes_of if len(ticks[name]) > 1 and name != "seed"]
        across = x if x is not None else next(reversed([name for name in several if name != y]), "")
        up = y if y is not None else next(reversed([name for name in several if name != across]), "")
        if "" in (across, up):
            there = ", ".join(map(repr, several)) or "none"
            raise ValueError(f"a heat map needs two axes with several values each; this sweep has {there}")
        for name in (across, up):
            if name not in ticks or across == up:
                there = ", ".join(map(repr, ticks))
                raise ValueError(f"a heat map has two axes of the sweep, of {there}; not {across!r} and {up!r}")
        cells: dict[tuple[Any, Any], list[float]] = {}
        for row in rows:
            if row.get(value) is not None:
                cells.setdefault((row[up], row[across]), []).append(float(row[value]))
        means = [
            [_mean(cells.get((vertical, horizontal), [])) for horizontal in ticks[across]] for vertical in ticks[up]
        ]

        def draw(axes: Any) -> None:
            image = axes.imshow(means, cmap="viridis", aspect="auto", origin="lower")
            axes.grid(visible=False)
            axes.set_xticks(range(len(ticks[across])), [_tick(one) for one in ticks[across]])
            axes.set_yticks(range(len(ticks[up])), [_tick(one) for one in ticks[up]])
            axes.set_xlabel(across)
            axes.set_ylabel(up)
            axes.set_title(f"{value} of {class_}")
            axes.figure.colorbar(image, ax=axes)
            if len(ticks[across]) * len(ticks[up]) <= 100:
                low, high = image.get_clim()
                for row, line in enumerate(means):
                    for column, mean in enumerate(line):
                        if not math.isnan(mean):
                            dark = mean < (low + high) / 2
                            colour = "white" if dark else "black"
                            axes.text(column, row, _short(mean), ha="center", va="center", color=colour, fontsize=8)

        width = 2.4 + 0.62 * min(max(len(ticks[across]), 4), 12)
        return _draw(draw, width, 1.4 + 0.42 * min(max(len(ticks[up]), 3), 16))


def comparison(both: Comparison, metric: str, of: str) -> Chart:
    """Draws a metric of every class or group in every variant. See :meth:`Comparison.plot`."""
    if of not in ("classes", "groups"):
        raise ValueError(f"`of` is 'classes' or 'groups', not {of!r}")
    all_of = [cell for cell in both.cells if (cell.class_ if of == "classes" else cell.group)]
    cells = [cell for cell in all_of if cell.metric == metric]
    cells = [cell for cell in cells if any(one.mean is not None for one in cell.values.values())]
    if not cells:
        there = ", ".join(dict.fromkeys(cell.metric for cell in all_of))
        raise ValueError(f"{of} have no values of {metric!r}; there are {there}")
    # As the chart of a run: microseconds.
    unit, factor = ("us", 1e-3) if cells[0].unit == "ns" else (cells[0].unit, 1.0)
    hues = colours(both.variants)
    thick = 0.8 / len(both.variants)

    def draw(axes: Any) -> None:
        for index, variant in enumerate(both.variants):
            found = [(at, cell.values.get(variant)) for at, cell in enumerate(cells)]
            spreads = [(at, one) for at, one in found if one is not None and one.mean is not None]
            at = [place - 0.4 + thick * (index + 0.5) for place, _ in spreads]
            means = [factor * (one.mean or 0.0) for _, one in spreads]
            axes.barh(at, means, height=thick * 0.92, color=hues[variant], label=variant)
            if both.seeds > 1:
                below = [mean - factor * (one.min or 0.0) for mean, (_, one) in zip(means, spreads)]
                above = [factor * (one.max or 0.0) - mean for mean, (_, one) in zip(means, spreads)]
                error = [[max(one, 0.0) for one in below], [max(one, 0.0) for one in above]]
                axes.errorbar(means, at, xerr=error, fmt="none", ecolor="black", elinewidth=0.8, capsize=1.5)
        axes.set_ylim(len(cells) - 0.5, -0.5)
        axes.set_yticks(range(len(cells)), [cell.class_ or cell.group for cell in cells])
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        seeds = f"mean, smallest and largest of {both.seeds} seeds" if both.seeds > 1 else "one seed"
        axes.set_xlabel(f"{metric}, {unit} ({seeds})")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))

    rows = len(cells) * max(1.0, 0.5 * len(both.variants))
    return _draw(draw, 6.4, 0.9 + _ROW * max(rows, 3))


def _known(wanted: Sequence[str] | None, there: Sequence[str], what: str) -> frozenset[str]:
    if isinstance(wanted, str):
        raise TypeError(f"`classes` is a list of names, not {wanted!r}")
    for name in wanted or ():
        if name not in there:
            raise ValueError(f"there is no {what} {name!r}; there are {', '.join(there)}")
    return frozenset(there if wanted is None else wanted)


def _legend(axes: Any, hues: Mapping[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=name) for name, colour in hues.items()]
    if handles:
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _short(number: float) -> str:
    """Returns a number with three digits that count, and without a power of ten."""
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _tick(value: Any) -> str:
    return "default" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
