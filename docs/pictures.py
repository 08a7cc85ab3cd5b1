"""Draws the pictures of docs/concepts from runs of vruntime, as SVG for light and dark pages.

    python3 docs/pictures.py target/release/vruntime [FOLDER]

Each scenario of docs/concepts (`*.toml`) is run. The slices come from its text trace, vruntimes, lags and domains from
`--debug-at`, and groups from `--json`. The pictures are written to docs/concepts, or to FOLDER. The result depends on
the command only: the same build draws the same bytes.
"""

import html
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent / "concepts"
TO = Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER
WIDTH, LEFT, RIGHT, ROW = 760, 74, 16, 30
STYLE = """<style>
.bg{fill:#fff}.text{fill:#24292f}.axis{stroke:#8c959f}.grid{stroke:#d0d7de}.idle{fill:#f0f2f5}
.c0{fill:#2f6fb2}.c1{fill:#c9681d}.c2{fill:#3a8a57}.l0{stroke:#2f6fb2}.l1{stroke:#c9681d}.l2{stroke:#3a8a57}
.c3{fill:#8a63b3}.stop{fill:#f3c3c0}.avg{stroke:#57606a;stroke-dasharray:5 4}.on{fill:#fff}
@media (prefers-color-scheme:dark){.bg{fill:#1b2028}.text{fill:#d7dde4}.axis{stroke:#6e7681}.grid{stroke:#373e47}
.idle{fill:#262c36}.c0{fill:#5a9fe0}.c1{fill:#e39352}.c2{fill:#62b883}.l0{stroke:#5a9fe0}.l1{stroke:#e39352}
.l2{stroke:#62b883}.c3{fill:#b48fe0}.stop{fill:#6b3330}.avg{stroke:#9aa4af}.on{fill:#11161c}}
text{font:13px system-ui,"DejaVu Sans",sans-serif}path{fill:none;stroke-width:2}
</style>"""


def run(scenario, *more):
    command = [sys.argv[1], "run", FOLDER / f"{scenario}.toml", *more]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def slices(scenario, begin, end):
    """By CPU, the stretches (from, to, task) in ms; and those in which a group was throttled."""
    running, found, since, throttled = {}, {}, {}, {}
    with tempfile.TemporaryDirectory() as out:
        run(scenario, "--out", out)
        lines = (Path(out) / "trace.txt").read_text().splitlines()
    form = re.compile(r"\[(\d+)\] +([\d.]+): (\w+): +(.*)")
    for line in lines:
        if not (match := form.search(line)):
            continue
        cpu, time, event, rest = int(match[1]), float(match[2]) * 1e3, match[3], match[4]
        found.setdefault(cpu, [])
        if event == "sched_switch":
            task, start = running.pop(cpu, (None, 0))
            if task:
                found[cpu].append((start, time, task))
            comm = re.search(r"next_comm=(\S+)", rest)[1]
            if not comm.startswith("swapper"):
                running[cpu] = (comm, time)
        elif "what=throttle " in rest:
            since[cpu] = time
        elif "what=unthrottle " in rest and cpu in since:
            throttled.setdefault(cpu, []).append((since.pop(cpu), time))
    for cpu, (task, start) in running.items():
        found[cpu].append((start, end, task))
    for cpu, start in since.items():
        throttled.setdefault(cpu, []).append((start, end))
    cut = lambda parts: [(max(p[0], begin), min(p[1], end), *p[2:]) for p in parts if p[0] < end and p[1] > begin]
    return {cpu: cut(found[cpu]) for cpu in sorted(found)}, {cpu: cut(throttled[cpu]) for cpu in throttled}


class Picture:
    def __init__(self, begin, end, label):
        self.begin, self.end, self.label, self.y, self.body = begin, end, label, 12, []

    def x(self, time):
        return LEFT + (time - self.begin) / (self.end - self.begin) * (WIDTH - LEFT - RIGHT)

    def add(self, text):
        self.body.append(text)

    def text(self, x, y, words, css="text", anchor="start"):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">{html.escape(words)}</text>')

    def legend(self, names):
        x = LEFT
        for css, name in names:
            self.add(f'<rect x="{x}" y="{self.y}" width="12" height="12" class="{css}"/>')
            self.text(x + 17, self.y + 11, name)
            x += 34 + 7.4 * len(name)
        self.y += 26

    def rows(self, cpus, throttled, colours):
        for cpu, parts in cpus.items():
            width = WIDTH - LEFT - RIGHT
            self.text(8, self.y + 18, f"CPU {cpu}")
            self.add(f'<rect x="{LEFT}" y="{self.y}" width="{width}" height="{ROW - 6}" class="idle"/>')
            for start, stop in throttled.get(cpu, []):
                self.bar(start, stop, "stop")
            for start, stop, task in parts:
                self.bar(start, stop, colours(task))
            self.y += ROW

    def bar(self, start, stop, css):
        x, width = self.x(start), max(self.x(stop) - self.x(start), 0.6)
        self.add(f'<rect x="{x:.1f}" y="{self.y}" width="{width:.1f}" height="{ROW - 6}" class="{css}"/>')

    def axis(self, step):
        time = self.begin
        while time <= self.end:
            self.add(f'<line x1="{self.x(time):.1f}" y1="{self.y}" x2="{self.x(time):.1f}" y2="{self.y + 5}" class="axis"/>')
            self.text(self.x(time), self.y + 19, f"{time:g} ms" if time == self.begin else f"{time:g}", anchor="middle")
            time += step
        self.y += 34

    def lines(self, name, series, height, unit="ms"):
        """Curves: (css, [(time, value)]) on one scale."""
        values = [value for _, points in series for _, value in points]
        low, high = min(values), max(values)
        y = lambda value: self.y + height - (value - low) / (high - low) * height
        self.text(8, self.y + 28, name)
        for value in (low, high, *([0] if low < 0 < high else [])):
            self.add(f'<line x1="{LEFT}" y1="{y(value):.1f}" x2="{WIDTH - RIGHT}" y2="{y(value):.1f}" class="grid"/>')
            self.text(LEFT - 6, y(value) + (12 if value == high else 0), f"{value:.0f} {unit}" if value == high else f"{value:.0f}", anchor="end")
        for css, points in series:
            path = " ".join(f"{'M' if index == 0 else 'L'}{self.x(t):.1f} {y(v):.1f}" for index, (t, v) in enumerate(points))
            self.add(f'<path d="{path}" class="{css}"/>')
        self.y += height + 22

    def save(self, name):
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.y}" role="img" aria-label="{html.escape(self.label)}">'
        text = "\n".join([head, STYLE, '<rect width="100%" height="100%" rx="6" class="bg"/>', *self.body, "</svg>", ""])
        (TO / f"{name}.svg").write_text(text)


def sampled(scenario, begin, end, step):
    """Vruntime and lag of each task, and the average, in ms, at steps of the time."""
    tasks, average = {}, []
    time = begin
    while time <= end:
        text = run(scenario, "--debug-at", f"{time}ms")
        mean = float(re.search(r"avg_vruntime +: ([-\d.]+)", text)[1])
        average.append((time, mean))
        for name, vruntime in re.findall(r"^[ >]R +(\S+) +\d+ +([-\d.]+)", text, re.M):
            tasks.setdefault(name, []).append((time, float(vruntime)))
        time += step
    return tasks, average


def share():
    picture = Picture(0, 80, "Two tasks of weights 2 and 1 take turns on one CPU, two thirds and one third of the time")
    picture.legend([("c0", "heavy, weight 200"), ("c1", "light, weight 100")])
    cpus, throttled = slices("share", 0, 80)
    picture.rows(cpus, throttled, lambda task: "c0" if task.startswith("heavy") else "c1")
    picture.axis(10)
    picture.save("share")


def wakeup():
    begin, end = 20, 80
    picture = Picture(begin, end, "Vruntime and lag of three tasks on one CPU, one of which sleeps in between")
    picture.legend([("c0", "batch-a"), ("c1", "batch-b"), ("c2", "service")])
    colour = {"batch-a": 0, "batch-b": 1, "service": 2}
    cpus, throttled = slices("wakeup", begin, end)
    picture.rows(cpus, throttled, lambda task: f"c{colour[re.sub(r'-0$', '', task)]}")
    picture.y += 8
    tasks, average = sampled("wakeup", begin, end, 1)
    both = ("batch-a", "batch-b")
    curves = [(f"l{colour[name]}", tasks[name]) for name in both]
    picture.lines("vruntime", [*curves, ("avg", average)], 110)
    mean = dict(average)
    picture.lines("lag", [(f"l{colour[name]}", [(t, mean[t] - v) for t, v in tasks[name]]) for name in both], 80)
    picture.y -= 8
    picture.axis(10)
    picture.save("wakeup")


def limit():
    picture = Picture(0, 400, "Four threads of a group use up its quota early in each period and are then throttled")
    picture.legend([("c0", "a thread of /web runs"), ("stop", "/web is throttled on this CPU")])
    cpus, throttled = slices("limit", 0, 400)
    picture.rows(cpus, throttled, lambda task: "c0")
    picture.axis(50)
    picture.save("limit")


def balance():
    picture = Picture(40, 180, "Four tasks share one CPU until they may run on four; the balancer then moves three of them")
    picture.legend([("c0", "job-0"), ("c1", "job-1"), ("c2", "job-2"), ("c3", "job-3")])
    cpus, throttled = slices("balance", 40, 180)
    picture.rows(cpus, throttled, lambda task: {"0": "c0", "1": "c1", "2": "c2"}.get(task[-1], "c3"))
    picture.axis(20)
    picture.save("balance")


def tree():
    """A row for each level of the tree. The width of a group is its entitlement, and all of the width is the root's."""
    groups = json.loads(run("tree", "--json"))["observed"][0]["groups"]
    whole = groups["/"]["entitled_ns"]
    children = lambda path: [name for name in groups if name != "/" and (name.rpartition("/")[0] or "/") == path]
    picture = Picture(0, whole, "The CPU time of the root is divided among its groups by weight, and then within each group")
    colours = {"/": "c3", "/shop": "c0", "/backup": "c1", "/shop/web": "c0", "/shop/jobs": "c2"}
    height, top = 46, picture.y

    def draw(path, begin, level):
        group = groups[path]
        end = begin + group["entitled_ns"]
        x, width, y = picture.x(begin), picture.x(end) - picture.x(begin), top + level * height
        picture.add(f'<rect x="{x:.1f}" y="{y}" width="{width - 2:.1f}" height="{height - 6}" rx="3" class="{colours[path]}"/>')
        weight = "the whole CPU" if path == "/" else f"weight {group['weight']}"
        picture.text(x + 8, y + 17, path, "on")
        picture.text(x + 8, y + 33, f"{weight}: {100 * group['entitled_ns'] / whole:.1f} %", "on")
        for name in sorted(children(path), key=lambda name: -groups[name]["entitled_ns"]):
            draw(name, begin, level + 1)
            begin += groups[name]["entitled_ns"]

    draw("/", 0, 0)
    for level, words in enumerate(("root", "groups", "groups in", "/shop")):
        picture.text(8, top + min(level, 2) * height + (17 if level < 3 else 33), words)
    picture.y = top + 3 * height + 6
    picture.save("tree")


def round_():
    """A service's rounds: from when its timer is due until it sleeps again."""
    begin, end, first, period = 25, 105, 5, 25
    picture = Picture(begin, end, "Three rounds of a service: each is late by the wait for the CPU, and its response time is the whole round")
    picture.legend([("c2", "service"), ("idle", "two batch jobs"), ("c1", "lateness"), ("c0", "response time")])
    cpus, _ = slices("round", begin, end)
    runs = [part for part in cpus[0] if part[2].startswith("service")]
    picture.rows({0: runs}, {}, lambda task: "c2")
    for name, css in (("lateness", "c1"), ("response", "c0")):
        picture.text(8, picture.y + 18, name)
        due = first + period * ((begin - first) // period + 1)
        while due < end:
            mine = [part for part in runs if due <= part[0] < due + period]
            if name == "lateness":
                # The timer is due at the line.
                x = picture.x(due)
                picture.add(f'<line x1="{x:.1f}" y1="38" x2="{x:.1f}" y2="{38 + 3 * ROW}" class="axis"/>')
            if mine:
                until = mine[0][0] if name == "lateness" else mine[-1][1]
                picture.bar(due, until, css)
                picture.text(picture.x(until) + 5, picture.y + 16, f"{until - due:.1f} ms")
            due += period
        picture.y += ROW
    picture.axis(5)
    picture.save("round")


def time():
    """The events of a run, the jumps of the clock between them, and on the CPU the time that the kernel takes at each."""
    end = 16
    costs = {name: int(ns) / 1e6 for name, ns in re.findall(r"^(\w+)_ns = (\d+)", (FOLDER / "time.toml").read_text(), re.M)}
    result = json.loads(run("time", "--json"))
    with tempfile.TemporaryDirectory() as out:
        run("time", "--out", out)
        lines = (Path(out) / "trace.txt").read_text().splitlines()
    found = [(float(match[1]) * 1e3, match[2]) for line in lines if (match := re.search(r"([\d.]+): (sched_waking|sched_switch):", line))]
    ticks = range(1000 // result["hz"], end, 1000 // result["hz"])
    events = [(at, "c3") for at in ticks]
    events += [(at, "c1" if what == "sched_waking" else "c2") for at, what in found]
    # Ticks and timers interrupt the CPU. Then the kernel switches.
    cost = {"c3": "tick", "c1": "timer", "c2": "switch"}
    kernel = [(at, at + costs[cost[css]]) for at, css in events]
    drawn, counted = sum(stop - start for start, stop in kernel), result["observed"][0]["cpus"][0]["overhead_ns"] / 1e6
    assert abs(drawn - counted) < 1e-3, f"{drawn} ms of kernel time are drawn, and the run has {counted}"
    picture = Picture(0, end, "The clock jumps from event to event: ticks, timers and switches. Each costs kernel time on the CPU")
    picture.legend([("c3", "tick"), ("c1", "timer"), ("c2", "switch"), ("c0", "service"), ("idle", "batch"), ("stop", "kernel: a cost")])
    picture.text(8, picture.y + 22, "clock")
    times = [0, *sorted({at for at, _ in events if at > 0}), end]
    y = picture.y + 28
    for start, stop in zip(times, times[1:]):
        x, to = picture.x(start), picture.x(stop)
        picture.add(f'<path d="M{x:.1f} {y} Q{(x + to) / 2:.1f} {y - 40:.1f} {to:.1f} {y}" class="avg"/>')
    picture.y += 32
    picture.text(8, picture.y + 12, "events")
    for at, css in events:
        picture.add(f'<circle cx="{picture.x(at):.1f}" cy="{picture.y + 7}" r="5" class="{css}"/>')
    picture.y += 20
    cpus, _ = slices("time", 0, end)
    picture.rows({0: [part for part in cpus[0] if part[2].startswith("service")]}, {}, lambda task: "c0")
    picture.y -= ROW
    for start, stop in kernel:
        picture.bar(start, stop, "stop")
    picture.y += ROW
    picture.axis(2)
    picture.save("time")


def domains():
    """The domains of CPU 0, and the groups of CPUs that each of them balances."""
    text = run("domains", "--debug-at", "50ms")
    mine = text[re.search(r"^cpu0 ", text, re.M).start() : re.search(r"^cpu1 ", text, re.M).start()]
    levels = [(name, bin(int(mask.replace(",", ""), 16)).count("1")) for name, mask in re.findall(r"^domain\d+ (\S+) (\S+)", mine, re.M)]
    count = levels[-1][1]
    picture = Picture(0, count, "The domains of CPU 0 are nested: its core, its cache, its socket, and the whole machine")
    shares = {"SMT": "a core", "MC": "one cache", "PKG": "one socket", "NUMA": "all sockets"}
    for level, (name, size) in reversed(list(enumerate(levels))):
        picture.text(8, picture.y + 18, name)
        # All domains of this level; that of CPU 0 is the first.
        for start in range(0, count, size):
            picture.bar(start + 0.05, start + size - 0.05, f"c{level}" if start == 0 else "idle")
        if size > 2:
            picture.text(picture.x(0) + 8, picture.y + 17, f"{size} CPUs: {shares[name]}", "on")
        picture.y += ROW
    picture.text(8, picture.y + 14, "CPU")
    for cpu in range(count):
        picture.text(picture.x(cpu + 0.5), picture.y + 14, str(cpu), anchor="middle")
    picture.y += 26
    picture.save("domains")


if __name__ == "__main__":
    for draw in (share, wakeup, limit, balance, tree, round_, time, domains):
        draw()
