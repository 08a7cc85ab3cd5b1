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

HERE = pathlib.Path(__file__).parent
MACHINES = HERE.parent / "fidelity" / "machines"
RECORDINGS = HERE.parent / "fidelity" / "ground-truth"


def run(*arguments):
    """The cells that `vruntime fidelity` prints."""
    command = [sys.argv[1], "fidelity", "--json", *map(str, arguments)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


cells = run()

# What is known of why a scenario misses. A scenario without an entry is "not yet understood".
CAUSES = {
    "group-waker": "Two periodic tasks of one group wait for each other, and whether one preempts the other is decided by the sign of lags of a "
    "few microseconds. Watched with `perf sched` on a real 6.18, 39 of 49 involuntary switches of `w` were one `w` preempted by the other's wakeup "
    "(RUN_TO_PARITY protects only while eligible), 9 came at a tick. How often that sign falls which way depends on noise of the machine: recorded anew on "
    "a quieter one, the same kernel gave 22 involuntary switches a task instead of 31 to 52, and a 90th percentile of 58 to 67 us, near the simulated "
    "one. Noise in the length of runs (1 us, exponential) brings the simulated figures no nearer, and is not modelled.",
    "periodic-on-2": "How the four periodic tasks are spread over the two CPUs decides who waits for whom, and there are two states that last for "
    "seconds: two and two, and three to one. Which one a simulated run is in depends on its seed. One check that decides is when an idle CPU looks for work: "
    "watched on a real 6.18 (`perf record` with `irq_vectors`), the interrupt that asks it to comes 10 to 30 us after the tick that sent it has ended, "
    "and the CPU that had the tick has chosen who runs next by then. Another is how often a CPU that goes idle looks: on that machine next to never "
    "(0 of 102 times), for it does so as often as it has helped before; what the recorded machine had is not known.",
    "periodic-on-4": "Four virtual CPUs on two real ones. A task is charged for the time in which its virtual CPU is off the host's, and recorded, one that "
    "just woke gets through its 5 ms with less of that than here. Watched on the host: a virtual CPU that has programmed its timer often sleeps for another lock of the "
    "emulator's, which is not simulated (`crates/sim/COSTS.md`).",
    "pinned-and-free": "The free tasks rotate among CPUs 1 to 3 when the balancer finds one by a hair more loaded than the average; load "
    "averages are within 1 of each other, and the noise that decides is not modelled but for one kernel thread a CPU.",
    "twelve-on-4": "Four virtual CPUs on two real ones: ticks are lost while the host has something else on the CPU, or a lock of the emulator's is held by one that is off it. "
    "Here fewer are lost.",
    "uneven-tree-4cpu": "The task alone on its CPU is interrupted by more than our one kernel thread a second: the recorder's other "
    "processes, which are not modelled.",
    "five-on-2x4": "As above: background activity beyond one kernel thread a second.",
    "quota-on-2": "Two states that last: the free hog has a CPU to itself and the limited group the other, or they share one. Watched on a real 6.18: "
    "it began with two limited tasks on each CPU and the hog pulled to and fro by the idle CPU, and after 1.2 s one busy balance pulled both limited tasks "
    "over, for good. Busy CPUs balanced 60 ms after an idle balance, as here now. What keeps the state is a guess from the rules, not seen: "
    "in the first tick after the group may run again the CPU's utilisation is low, it counts as one with room, and two against three tasks is no imbalance. "
    "Simulated runs come to the lasting state sooner. Throttled periods and time are right in both.",
    "rt-mix": "The FIFO task waits 30 to 50 ms whenever the ordinary task is given its part of a second (by the fair server, or by throttling in 6.1 to 6.6), "
    "about once a second: whether the 99th of a hundred of its 474 waits is one of these or not hangs on one wait more or less. Under 6.18, on a real machine, "
    "it is, here as there. In the emulated recordings (6.1, 6.12) it is the longest delay by the emulator's host, 1 to 5 ms.",
    "short-waker": "How often the waker comes round, and what it is charged each time, hang on costs that are the same for all scenarios.",
    "batch-idle": "A SCHED_IDLE task that runs 7 ms in 5 s: one switch more or less decides the cell. It gets a turn when the waker falls asleep while both hogs have had more than "
    "their part, and is over at the next tick: how long that is, and so how many turns it takes, hangs on where between two ticks the waker falls asleep, which moves on by what a sleep is late. "
    "Watched on the real 6.18 with a timer slack of 50 us: 2 to 4 switches in eight runs of 5 s, the hogs' 732 to 768 each; simulated with that slack, eight seeds: 2 to 4, and 741 to 761. With "
    "the recorder's slack of 1 ns the simulated waker sleeps 2.5 ms after the tick, and five turns of 1.5 ms do.",
}

# What is known of the machines of fidelity/machines, by folder.
ABOUT = {
    "1-cpu": "emulated, 1 CPU",
    "2-cpus": "emulated, 2 CPUs",
    "1-cpu-again": "emulated, 1 CPU, at another hour",
    "2-cpus-again": "emulated, 2 CPUs, at another hour",
    "4-cpus": "emulated, 4 CPUs on 2 real ones",
    "2x4-cpus": "emulated, 2 sockets of 4 cores on 2 real CPUs",
    "2x4x2-cpus": "emulated, 2 sockets of 4 cores of 2 threads on 2 real CPUs",
    "vm-2-cpus": "a virtual machine of 2 CPUs",
    "vm-2-cpus-random": "the same, 24 workloads drawn at random",
    "vm-2-cpus-random-2": "the same, 12 more, drawn after all that is simulated was",
    "vm-2-cpus-random-again": "the same, the 24 at another hour",
    "vm-2-cpus-random-2-again": "the same, the 12 at another hour",
    "vm-2-cpus-random-3": "such a machine on another host, 12 drawn since",
    "vm-2-cpus-random-3-again": "the same, ten minutes later",
    "vm-2-cpus-rt": "such a machine, 12 of real-time and deadline tasks, drawn since",
    "vm-2-cpus-rt-again": "the same, five minutes later",
}
OVERRUN = (
    "What a job takes beyond its work decides. Watched in `rt-1-07` on the machine (`vruntime real --out`): jobs of 5.21 ms took 5.39 and 5.41 ms (medians of 127 and 121), more than the 5.317 ms "
    "that the reservation has, so that four jobs of five were throttled, and pushed to the other CPU when the next period began; here they take less and none is."
)
# And of why their scenarios miss, where it is not as above.
MACHINE_CAUSES = {
    "rt-1-07": OVERRUN,
    "rt-1-10": "As in `rt-1-07`: a reservation of 1.996 ms for jobs of 1.867 ms. Not watched.",
    "forks-on-2": "`rcu_preempt`, which wakes every other tick while tasks end, is simulated (since 23 November); `ksoftirqd` and the kworkers that free what is left, which were seen to "
    "preempt children too, are not. Under the virtual machine's 6.18 it stays on the children's CPU (watched: 371 times of 376), under Debian's kernels `wake_affine` takes it to the hog's every other time; that kernel is a cloud's own (`sched_vcpu_pack=15` on its command line), and leaves a task whom another CPU wakes where it was (simulated since 23 November, `Kernel::as_of`), when Debian's 6.1, 6.12, 6.18.15 and 7.2.13 in the emulator take it to the CPU with less load, as here. Parents and children are on "
    "one CPU, the hog on the other; here a parent may stay with the hog: which CPU a task sleeps on before it starts, and who wakes first, decide. On more virtual CPUs than real ones a fork waits "
    "for the emulator's locks. (Those of 16 CPUs are from before forked threads stopped reading their counters from `/proc`, which took two milliseconds in the emulator.)",
    "messages-on-2": "Forty tasks on pipes whose messages take microseconds: how many gather before a reader comes hangs on each cost in the path. "
    "While the profile `vm` made a switch cost 6.6 us (until 24 November 2026), readers under 6.18 found 37 messages each time, recorded 12; with what `vruntime calibrate` measures there, which is the profile now, they switch a fifth too often. "
    "With more virtual CPUs than real ones it hangs on the host's time slices and on locks of the emulator.",
    "deadline-on-2": "The 99th percentile is a delay of the emulator's. On more virtual CPUs than real ones a reservation runs out while the host has "
    "something else on its CPU.",
    "locks-on-2": "Locks of `vruntime real` are futexes under Rust's mutex and condition variable, whose extra calls are not simulated; a wakeup of "
    "theirs crosses CPUs, and what that takes under emulation varies.",
    "nice-ladder": "Threads of the kernel preempt the task within its turn, which then takes two. Guessed, not traced.",
    "batch-idle": "A SCHED_IDLE task that runs 7 ms in 5 s: one switch more or less decides the cell. What a sleep costs `w` under emulation varies from hour to hour "
    "by more than the tolerance: `calibrate` found `timer_arm_ns` from 30 to 89 us.",
    "short-waker": "What a sleep costs `w` under emulation varies from hour to hour, as in batch-idle: its share hangs on that, and how often it is late.",
    "tree-on-2": "Two CPUs' worth of hogs on a machine with more: whoever is alone on a CPU is interrupted by threads of the kernel and of the recorder, which are not simulated but for "
    "one a second; where two share one, by as many ticks as the host lets through. Why `x` and `y` are 1 to 4 points off on 4 CPUs was not looked into.",
    "everywhere": "More virtual CPUs than real ones: how often a tick finds its virtual CPU on the host, and not behind a lock of the emulator's, decides how "
    "often everybody switches; here it does more often.",
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


def span(cell):
    low, high = min(cell["recorded"]), max(cell["recorded"])
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def row(cell):
    verdict = "inside" if cell["inside"] else "**outside**"
    simulated = "none" if cell["simulated"] is None else f'{cell["simulated"]:.4g}'
    return f'| {cell["kernel"]} | {cell["scenario"]} | {cell["class"]} | {cell["metric"]} ({cell["unit"]}) | {span(cell)} | {simulated} | {verdict} |'


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
    """How far latencies are off with the default costs, with those for the kind of machine, and with measured ones."""
    lines = [
        "## With and without calibration",
        "",
        f"The recordings of {ABOUT[names[0]]} (`fidelity/machines`), simulated with other costs: cells inside, and by which factor wakeup latencies lie",
        "outside the recorded range (geometric mean over the scenarios; 1 is within). What else the machine ran is in the recordings, and simulated in every row; what an idle CPU",
        "takes to wake up after a while is in `vm` and in the machine's file.",
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
    "6.1": "Debian's cloud kernel, QEMU's software emulation on a host with 2 CPUs",
    "6.12": "Debian's cloud kernel, QEMU's software emulation on a host with 2 CPUs",
    "6.18": "virtual machine, AMD EPYC",
}


def where():
    """A row for each machine that the main table was recorded on: what its recordings say of it."""
    rows = {}
    for folder in sorted(RECORDINGS.glob("linux-*"), key=lambda folder: number(folder.name.removeprefix("linux-"))):
        for file in sorted(folder.glob("*.json")):
            said = json.loads(file.read_text())
            short = ".".join(said["kernel"].split(".")[:2])
            key = (
                said["kernel"],
                f"{said['topology']} (QEMU)" if "," in said["topology"] else f"{said['cpus']} CPUs",
                MACHINE_OF[short],
                "yes" if said["emulated"] else "no",
                said["hz"],
                said.get("preempt", "not said"),
                "on" if said["autogroup"] else "off",
                f"{len(said['observed'])} of {said['duration_s']} s",
                # What a recording made with `vruntime fidelity --record` may say.
                said.get("recorded", "not said"),
            )
            rows[key] = rows.get(key, 0) + 1
    by_size = sorted(rows.items(), key=lambda row: (number(row[0][0]), row[0][1]))
    return [f"| {' | '.join(map(str, key))} | {files} |" for key, files in by_size]


machines = {folder.name: run(folder) for folder in sorted(filter(pathlib.Path.is_dir, MACHINES.iterdir()), key=lambda folder: ORDER.index(folder.name))}

inside, total = count(cells)
# The line before the last says how many of those are inside that a machine on which nothing happens would miss.
TELLING = subprocess.run([sys.argv[1], "fidelity"], capture_output=True, text=True, check=True).stdout.splitlines()[-2]
# Where two states last for seconds, a seed decides which: how many are inside is known of many seeds.
SEEDS = 15
by_seed = [count(run("--seed", seed, "--repeat", 1))[0] for seed in range(1, SEEDS + 1)]
main = [
    "# How true is it?",
    "",
    f"`vruntime fidelity` runs every recorded scenario and compares each class of identical tasks: **inside {inside} of {total} cells**.",
    f"{TELLING[0].upper()}{TELLING[1:]} (what was never seen may be 0).",
    "This page is what it printed, made by `docs/fidelity.py`; the tolerances are in `vruntime help fidelity`, the recordings and how they",
    "were made in [fidelity/ground-truth](../fidelity/ground-truth/README.md). The figures are the median of seeds 1 to 5;",
    f"of each single seed from 1 to {SEEDS} the mean is {sum(by_seed) / SEEDS:.1f} of {total}, from {min(by_seed)} to {max(by_seed)}.",
    "",
    "| kernel | inside | of |",
    "|---|---|---|",
    *(f"| {kernel} | {part} | {of} |" for kernel, part, of in by_kernel(cells)),
    "",
    "## Where and when this was recorded",
    "",
    "| kernel | CPUs | machine | emulated | HZ | preemption | autogroup | runs | date | scenarios |",
    "|---|---|---|---|---|---|---|---|---|---|",
    *where(),
    "",
    "All but the machine is what the recordings say; the machine is what their README says. Neither says on which day they were made (they are in this repository since",
    "21 November 2026), which model the processors were or on what host the emulator ran, nor, with `6.1.0`, which of Debian's updates of 6.1 it was. Recordings that",
    "`vruntime fidelity --record` makes now say the day (`recorded`) and the processor.",
    f"Simulated, and this page made, on {datetime.date.today():%-d %B %Y}; a simulation is the same on any machine.",
    "",
    "## Other machines",
    "",
    "Recorded with `vruntime fidelity --record` and `cargo xtask kernels` from 22 to 25 November 2026; one figure of the profile `emulated` was chosen with those of 2 and",
    "4 CPUs in view (`crates/sim/COSTS.md`). `python3 docs/fidelity.py target/release/vruntime` writes every cell to target/fidelity-machines.md. With more virtual CPUs than the host has real ones, most of what is recorded is the host.",
    "",
    "| machine | kernel | inside | of | | the machine itself, recorded at another hour |",
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
    "The last column is no simulation: it is the same comparison with what the same machine did at another hour (`vruntime fidelity DIR --against DIR`), the median of its runs. What that",
    f"leaves outside changes with the hour, whatever the model. Where there is one, the simulator has {100 * sum(pair[0] for pair in pairs) / len(pairs):.0f} % inside on average and the machine itself "
    f"{100 * sum(pair[1] for pair in pairs) / len(pairs):.0f} %; in {sum(ours >= its for ours, its in pairs)} of the {len(pairs)} rows the simulator",
    "is not the further off.",
    "",
    "The workloads of the last eight rows nobody chose: `fidelity/random_workloads.py` drew them. With the 24 in view three things were found that were missing: what else the machine",
    "runs, how long an idle CPU takes to wake up after a while, and how this kernel places who wakes. The 12 were drawn and recorded after that, and say what you may expect",
    "of a workload of your own; `vruntime fidelity --record mine --with app.json` tells. The 12 on another host (Intel Xeon) were recorded under another build of that kernel; with",
    "them in view one figure changed, how often newly-idle balancing is tried at the beginning (read in that kernel: `crates/sim/COSTS.md`), before which 184 and 187 of 192 were inside.",
    "",
    "The last two rows are of the classes above the ordinary one: tasks that wake each other, that lend each other their priorities, that overrun their reservations. They were drawn and",
    "recorded after all that is simulated was; the day's changes to those classes (`crates/sim/tests/higher_classes.rs`) were made by the kernel's text, and before them 214 and 215 of 231 were inside.",
]
main += ["", *calibrated(["vm-2-cpus", "vm-2-cpus-random", "vm-2-cpus-random-2"]), "## What is outside, and why", "", *outside(cells, {}, "###"), "## Every cell", "", HEAD, *map(row, cells)]

other = [
    "# How true is it, on other machines?",
    "",
    "The suite of `vruntime fidelity --record`, three runs of 3 s each (of the virtual machine five of 8 s), as threads of `vruntime real`; recordings: `fidelity/machines`. Emulated: Debian's",
    "kernels under QEMU's software emulation on two real CPUs (`cargo xtask kernels`). Made by `docs/fidelity.py`; misses first.",
    "",
]
for name, some in machines.items():
    part, of = count(some)
    other += [f"## {ABOUT[name]}: inside {part} of {of}", "", *outside(some, MACHINE_CAUSES, "###")]
for name, some in machines.items():
    other += [f"## Every cell: {ABOUT[name]}", "", HEAD, *map(row, some), ""]

(HERE / "fidelity.md").write_text("\n".join(main) + "\n")
artefact = HERE.parent / "target" / "fidelity-machines.md"
artefact.parent.mkdir(exist_ok=True)
artefact.write_text("\n".join(other).rstrip() + "\n")
