"""Writes docs/fidelity.md from the cells of `vruntime fidelity --json`, misses first, each with what is known of its cause.
Writes target/fidelity-machines.md, which git ignores, from those of every folder of recordings in fidelity/machines.

    python3 docs/fidelity.py target/release/vruntime
"""

import datetime
import json
import math
import pathlib
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).parent
MACHINES = HERE.parent / "fidelity" / "machines"
RECORDINGS = HERE.parent / "fidelity" / "ground-truth"


def run(*arguments):
    """The cells that `vruntime fidelity` prints."""
    command = [sys.argv[1], "fidelity", "--json", *map(str, arguments)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


cells = run()

# The known reasons for misses, by scenario. A scenario without an entry is "not yet understood".
CAUSES = {
    "group-waker": "Two periodic tasks of one group wait for each other. The sign of lags of a few microseconds decides whether one preempts the other, and "
    "noise of the machine decides that sign. Recorded again on a quieter machine, the 90th percentile was 58 to 67 us, near the simulated one.",
    "periodic-on-2": "The distribution of the four periodic tasks over two CPUs decides their waits. There are two states that last for seconds: "
    "two and two, and three to one. The seed decides which state a simulated run has. One condition is when an idle CPU looks for work. On a real "
    "6.18 (`perf record` with `irq_vectors`), the interrupt that requests it arrives 10 to 30 us after the tick that sent it. By then, the CPU with "
    "the tick has picked its next task. Another condition is how often a CPU that becomes idle balances. On that machine, it did so in 0 of 102 "
    "cases, since the rate follows earlier success. The rate of the recorded machine is unknown.",
    "periodic-on-4": "Four virtual CPUs run on two real ones. A task is charged for time in which its virtual CPU is not running. In the recording, a task that "
    "just woke has less of that than here: the emulator's locks are not all simulated (`crates/sim/COSTS.md`).",
    "pinned-and-free": "The free tasks rotate among CPUs 1 to 3 whenever the balancer finds one slightly above the average load. Load averages differ "
    "by at most 1. The noise that decides is not modelled, except for one kernel thread on each CPU.",
    "twelve-on-4": "Four virtual CPUs run on two real ones. Ticks are lost while the host runs something else on the CPU, or while another virtual CPU holds a "
    "lock of the emulator. Here fewer ticks are lost.",
    "uneven-tree-4cpu": "The task alone on its CPU is interrupted by the recorder's other processes, which are not modelled.",
    "five-on-2x4": "Background activity beyond one kernel thread a second is not modelled.",
    "quota-on-2": "Two states last. Either the free hog and the limited group have a CPU each, or they share one. A real 6.18 reached the second state after "
    "1.2 s. Simulated runs reach it sooner. Throttled periods and times are right in both states.",
    "rt-mix": "The FIFO task waits 30 to 50 ms when the ordinary task gets its part of a second (by the fair server, or by throttling in 6.1 to 6.6). "
    "That happens once a second. One of its 474 waits more or less decides whether the 99th percentile is such a wait. Under 6.18, it is, on a real "
    "machine and here. In the emulated recordings (6.1, 6.12), it is the longest delay by the host, 1 to 5 ms.",
    "short-waker": "The waker's rate and charge depend on costs that are the same for all scenarios.",
    "batch-idle": "A SCHED_IDLE task runs 7 ms in 5 s, so one switch more or less decides the cell. It gets a turn until the next tick if the waker sleeps "
    "while both hogs have had more than their part. The delay of sleeps moves that moment. A real 6.18 with a timer slack of 50 us had 2 to 4 "
    "switches, and so has the simulation with that slack.",
}

# The machines of fidelity/machines, by folder.
ABOUT = {
    "1-cpu": "emulated, 1 CPU",
    "2-cpus": "emulated, 2 CPUs",
    "1-cpu-again": "emulated, 1 CPU, later",
    "2-cpus-again": "emulated, 2 CPUs, later",
    "4-cpus": "emulated, 4 CPUs",
    "2x4-cpus": "emulated, 2 sockets of 4 cores",
    "2x4x2-cpus": "emulated, 2 sockets of 4 cores of 2 threads",
    "vm-2-cpus": "a virtual machine of 2 CPUs",
    "vm-2-cpus-random": "the same, 24 workloads drawn at random",
    "vm-2-cpus-random-2": "the same, 12 more",
    "vm-2-cpus-random-again": "the same, the 24 at another hour",
    "vm-2-cpus-random-2-again": "the same, the 12 at another hour",
    "vm-2-cpus-random-3": "such a machine on another host, 12",
    "vm-2-cpus-random-3-again": "the same, ten minutes later",
    "vm-2-cpus-rt": "such a machine, 12 of real-time and deadline tasks",
    "vm-2-cpus-rt-again": "the same, five minutes later",
}
OVERRUN = (
    "The time that a job takes beyond its work decides. On the machine (`vruntime real --out`), jobs of 5.21 ms in `rt-1-07` took 5.39 and 5.41 ms "
    "(medians of 127 and 121). That is more than the reservation of 5.317 ms. So four of five jobs were throttled, and pushed to the other CPU at "
    "the next period. Here they take less, and none is throttled."
)
# The known reasons for misses on these machines, where they differ.
MACHINE_CAUSES = {
    "rt-1-07": OVERRUN,
    "rt-1-10": "As in `rt-1-07`: a reservation of 1.996 ms for jobs of 1.867 ms. Not observed.",
    "forks-on-2": "`rcu_preempt`, which wakes every other tick while tasks end, is simulated. `ksoftirqd` and kworkers, which were seen to preempt children, "
    "are not. In the virtual machine's 6.18, `rcu_preempt` stays on the children's CPU (371 of 376 times). In Debian's kernels, `wake_affine` places it on "
    "the hog's CPU every other time. The virtual machine has a cloud's own kernel (`sched_vcpu_pack=15`), which leaves a task that another CPU wakes where "
    "it was (`Kernel::as_of`). Parents and children are on one CPU, and the hog is on the other. Here a parent may stay with the hog: the CPU of its "
    "sleep, and the order of wakeups, decide. With more virtual than real CPUs, a fork waits for the emulator's locks. Recordings of 16 CPUs are from "
    "before forked threads stopped reading `/proc`, which took 2 ms in the emulator.",
    "messages-on-2": "Forty tasks exchange messages of microseconds by pipes. Each cost in the path decides how many messages accumulate. With the profile "
    "`vm` before 24 November 2026, a switch cost 6.6 us, and readers under 6.18 found 37 messages each time (recorded: 12). With the measured costs of "
    "today, they switch a fifth too often. With more virtual than real CPUs, the host's time slices and the emulator's locks decide.",
    "deadline-on-2": "The 99th percentile is a delay of the emulator. With more virtual than real CPUs, a reservation ends while the host runs something "
    "else on its CPU.",
    "locks-on-2": "Locks of `vruntime real` are futexes below Rust's mutex and condition variable, whose additional calls are not simulated. Their wakeups "
    "cross CPUs, and the cost of that varies under emulation.",
    "nice-ladder": "Kernel threads preempt the task within its turn, which then takes two. This is a guess, not traced.",
    "batch-idle": "A SCHED_IDLE task runs 7 ms in 5 s, so one switch more or less decides the cell. The cost of a sleep of `w` under emulation varies from "
    "hour to hour by more than the tolerance. `calibrate` found a `timer_arm_ns` of 30 to 89 us.",
    "short-waker": "The cost of a sleep of `w` under emulation varies from hour to hour, as in batch-idle. It decides the share and the lateness.",
    "tree-on-2": "Two CPUs' worth of hogs run on a larger machine. Threads of the kernel and the recorder interrupt a hog alone on a CPU, and only one a "
    "second is simulated. Hogs that share a CPU are interrupted by the ticks that the host permits. It was not examined why `x` and `y` are 1 to 4 points "
    "off on 4 CPUs.",
    "everywhere": "There are more virtual CPUs than real ones. A tick must find its virtual CPU running, and not behind a lock of the emulator. This decides "
    "how often tasks switch, and here it happens more often.",
}

ORDER = list(ABOUT)


def number(name):
    return [int(part) for part in name.split(".")]


def again(name):
    """The cells of a machine's recordings against those of another hour; none if there is no other hour."""
    other = name.removesuffix("-again") if name.endswith("-again") else f"{name}-again"
    return run(MACHINES / name, "--against", MACHINES / other) if (MACHINES / other).is_dir() else []


def count(some):
    return sum(cell["inside"] for cell in some), len(some)


# The units of this page by those of the JSON, with the factor.
PRINTED = {"of a CPU": ("%", 100), "ns": ("us", 1e-3)}


def row(cell):
    unit, factor = PRINTED.get(cell["unit"], (cell["unit"], 1))
    low, high = min(cell["recorded"]) * factor, max(cell["recorded"]) * factor
    span = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
    verdict = "inside" if cell["inside"] else "**outside**"
    simulated = "none" if cell["simulated"] is None else f'{cell["simulated"] * factor:.4g}'
    return f'| {cell["kernel"]} | {cell["scenario"]} | {cell["class"]} | {cell["metric"]} ({unit}) | {span} | {simulated} | {verdict} |'


HEAD = "| kernel | scenario | class | metric | recorded | simulated | verdict |\n|---|---|---|---|---|---|---|"


def outside(some, causes, level):
    """The misses, by scenario, each with its cause."""
    lines = []
    misses = [cell for cell in some if not cell["inside"]]
    for scenario in sorted({cell["scenario"] for cell in misses}):
        lines += [f"{level} {scenario}", "", causes.get(scenario, CAUSES.get(scenario, "Not yet understood.")), "", HEAD]
        lines += [row(cell) for cell in misses if cell["scenario"] == scenario] + [""]
    return lines


def by_kernel(some):
    return [(kernel, *count([cell for cell in some if cell["kernel"] == kernel])) for kernel in sorted({cell["kernel"] for cell in some}, key=number)]


def far(some, metric):
    """By which factor the simulated values of a metric lie outside the recorded range, in the geometric mean of all cells."""
    factors = []
    for cell in some:
        low, high, value = min(cell["recorded"]), max(cell["recorded"]), cell["simulated"]
        if cell["metric"] == metric:
            factors.append(0 if low <= value <= high else abs(math.log(value / (high if value > high else low))))
    return math.exp(sum(factors) / len(factors))


def calibrated(names):
    """How far latencies are off with the default costs, with the costs of the kind of machine, and with measured ones."""
    lines = [
        "## With and without calibration",
        "",
        f"The recordings of {ABOUT[names[0]]} (`fidelity/machines`) are simulated with other costs. The last columns have the factor by which wakeup latencies are "
        "outside the recorded range, in the geometric mean over the scenarios. A factor of 1 is within. Every row simulates the machine's background tasks.",
        "",
        "| recordings | `--costs` | inside | of | p50 | p90 | p99 |",
        "|---|---|---|---|---|---|---|",
    ]
    machine = MACHINES / names[0] / "machine.toml"
    for name in names:
        for label, costs in [("`default`", "default"), ("`vm`", "vm"), ("those of `vruntime calibrate`", machine)]:
            some = run(MACHINES / name, "--costs", costs)
            factors = " | ".join(f'{far(some, f"wakeup_latency_p{percent}"):.2f}' for percent in (50, 90, 99))
            lines.append(f"| `{name}` | {label} | {count(some)[0]} | {len(some)} | {factors} |")
    return [*lines, ""]


# What the README of the recordings says of their machines and their recordings do not, by kernel. It has no date either.
MACHINE_OF = {
    "6.1": "Debian's cloud kernel in QEMU",
    "6.12": "Debian's cloud kernel in QEMU",
    "6.18": "virtual machine, AMD EPYC",
}


# The columns of `where`. One with the same value everywhere is a sentence.
COLUMNS = ("kernel", "CPUs", "machine", "emulated", "HZ", "preemption", "autogroup", "runs", "date")


def where():
    """The machines that the main table was recorded on, by what their recordings have: a table, and what is common to all."""
    rows = {}
    for folder in sorted(RECORDINGS.glob("linux-*"), key=lambda folder: number(folder.name.removeprefix("linux-"))):
        for file in sorted(folder.glob("*.json")):
            recording = json.loads(file.read_text())
            short = ".".join(recording["kernel"].split(".")[:2])
            key = (
                recording["kernel"],
                f"{recording['topology']} (QEMU)" if "," in recording["topology"] else f"{recording['cpus']} CPUs",
                MACHINE_OF[short],
                "yes" if recording["emulated"] else "no",
                str(recording["hz"]),
                recording.get("preempt", "unknown"),
                "on" if recording["autogroup"] else "off",
                f"{len(recording['observed'])} of {recording['duration_s']} s",
                # What a recording made with `vruntime fidelity --record` may have.
                recording.get("recorded", "unknown"),
            )
            rows[key] = rows.get(key, 0) + 1
    by_size = sorted(rows.items(), key=lambda row: (number(row[0][0]), row[0][1]))
    varies = [column for column in range(len(COLUMNS)) if len({key[column] for key, _ in by_size}) > 1]
    head = [COLUMNS[column] for column in varies] + ["scenarios"]
    table = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    table += [f"| {' | '.join(key[column] for column in varies)} | {files} |" for key, files in by_size]
    common = [f"{COLUMNS[column]} {by_size[0][0][column]}" for column in range(len(COLUMNS)) if column not in varies]
    return table, f"All recordings have: {', '.join(common)}." if common else ""


machines = {folder.name: run(folder) for folder in sorted(filter(pathlib.Path.is_dir, MACHINES.iterdir()), key=lambda folder: ORDER.index(folder.name))}

inside, total = count(cells)
# The last line also counts the measurements that a machine on which nothing happens would miss.
TELLING = subprocess.run([sys.argv[1], "fidelity"], capture_output=True, text=True, check=True).stdout.splitlines()[-1].partition(". ")[2]
# Where two states last for seconds, a seed decides which: how many are inside is known of many seeds.
SEEDS = 15
by_seed = [count(run("--seed", seed, "--repeat", 1))[0] for seed in range(1, SEEDS + 1)]
RECORDED_ON, COMMON = where()
main = [
    "# Accuracy",
    "",
    f"`vruntime fidelity` simulates every recorded scenario, and compares each class of identical tasks. **{inside} of {total} measurements are within tolerance.** {TELLING}",
    "",
    "- `vruntime fidelity` prints every cell, and `vruntime help fidelity` the tolerances. Figures are medians of seeds 1 to 5.",
    f"- For each single seed from 1 to {SEEDS}, the mean is {sum(by_seed) / SEEDS:.1f} of {total}, from {min(by_seed)} to {max(by_seed)}.",
    "- [Your own machine](real.md#vruntime-fidelity---record) can be recorded in two minutes.",
    "",
    "| kernel | inside | of |",
    "|---|---|---|",
    *(f"| {kernel} | {part} | {of} |" for kernel, part, of in by_kernel(cells)),
    "",
    f"`docs/fidelity.py` made this page from the command's output on {datetime.date.today():%-d %B %Y}.",
    "",
    "## Recorded machines",
    "",
    *RECORDED_ON,
    "",
    f"{COMMON} The recordings are in this repository since 21 November 2026 ([fidelity/ground-truth](../fidelity/ground-truth/README.md)). "
    "QEMU emulates in software, on a host with 2 CPUs. Unknown are the processors, the emulator's host, and Debian's update of `6.1.0`.",
    "",
    "## Other machines",
    "",
    "These were recorded with `vruntime fidelity --record` and `cargo xtask kernels` from 22 to 28 November 2026. `python3 docs/fidelity.py "
    "target/release/vruntime` writes every cell to target/fidelity-machines.md. One figure of the profile `emulated` was chosen in view of those of 2 and 4 "
    "CPUs (`crates/sim/COSTS.md`). Emulators ran on 2 CPUs. With more virtual CPUs, most of a recording is the host.",
    "",
    "| machine | kernel | inside | of | | recorded at another hour |",
    "|---|---|---|---|---|---|",
]
pairs = []
for name, some in machines.items():
    itself = {kernel: (part, of) for kernel, part, of in by_kernel(again(name))}
    for kernel, part, of in by_kernel(some):
        shown = ""
        if kernel in itself:
            same, all_of = itself[kernel]
            shown = f"{same} of {all_of}, {100 * same / all_of:.0f} %"
            pairs.append((part / of, same / all_of))
        main.append(f"| {ABOUT[name]} | {kernel} | {part} | {of} | {100 * part / of:.0f} % | {shown} |")
main += [
    "",
    "The last column is no simulation. It compares the recording with another one of the same machine (`vruntime fidelity DIR --against DIR`), and has the "
    f"median of its runs. Where it exists, the simulator has {100 * sum(pair[0] for pair in pairs) / len(pairs):.0f} % inside on average, and the machine itself "
    f"{100 * sum(pair[1] for pair in pairs) / len(pairs):.0f} %. In {sum(ours >= its for ours, its in pairs)} of the {len(pairs)} rows, the simulator "
    "is at least as near.",
    "",
    "`fidelity/random_workloads.py` drew the workloads of the last eight rows at random:",
    "",
    "| workloads | drawn and recorded | changed since |",
    "|---|---|---|",
    "| 24 | First | Background tasks, the wakeup of idle CPUs, and this kernel's wakeup placement |",
    "| 12 more | After everything that is simulated | Nothing: expect this of your own workload |",
    "| 12 on another host (Intel Xeon) | Under another build of the kernel | How often newly-idle balancing is tried at the start. Before: 184 and 187 of 192 |",
    "| 12 of real-time and deadline tasks | After everything that is simulated | Those classes (`crates/sim/tests/higher_classes.rs`). Before: 214 and 215 of 231 |",
]
main += ["", *calibrated(["vm-2-cpus", "vm-2-cpus-random", "vm-2-cpus-random-2"]), "## Cells outside, and known reasons", "", *outside(cells, {}, "###")]

other = [
    "# Accuracy on other machines",
    "",
    "The suite of `vruntime fidelity --record`, three runs of 3 s each (of the virtual machine five of 8 s), as threads of `vruntime real`. The recordings "
    "are in `fidelity/machines`. Emulated: Debian's kernels under QEMU's software emulation on two real CPUs (`cargo xtask kernels`). `docs/fidelity.py` "
    "makes this file, misses first.",
    "",
]
for name, some in machines.items():
    part, of = count(some)
    other += [f"## {ABOUT[name]}: inside {part} of {of}", "", *outside(some, MACHINE_CAUSES, "###")]
for name, some in machines.items():
    other += [f"## Every cell: {ABOUT[name]}", "", HEAD, *map(row, some), ""]



def page(lines):
    """The text of a page, with its paragraphs wrapped at 100 columns."""
    text = "\n".join(lines).rstrip().split("\n")
    is_paragraph = lambda line: line and not line.startswith(("|", "#"))
    wrap = lambda line: textwrap.fill(line, 100, break_long_words=False, break_on_hyphens=False, subsequent_indent="  " if line.startswith("- ") else "")
    return "\n".join(wrap(line) if is_paragraph(line) else line for line in text) + "\n"


(HERE / "fidelity.md").write_text(page(main))
artefact = HERE.parent / "target" / "fidelity-machines.md"
artefact.parent.mkdir(exist_ok=True)
artefact.write_text(page(other))
