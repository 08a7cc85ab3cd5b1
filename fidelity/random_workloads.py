#!/usr/bin/env python3
"""random_workloads.py [--higher] SEED COUNT FOLDER: draws random workloads for `vruntime fidelity --record mine --with FILE ...`.

Each file has one workload, for machines of 2 CPUs or more. So the choice cannot depend on what the simulator answers. A workload has
two to four kinds of tasks, and one to four tasks of each kind. These are hogs, sleepers, periodic tasks, and tasks that alternate
short and long runs, with policies and nice values. A quarter of the tasks is pinned to CPU 0 or 1. Half of the files have up to
three groups, with weights and limits. The same seed gives the same files.

--higher draws tasks of the real-time and deadline classes: periodic tasks, tasks that wake another one, and tasks that take turns
with a mutex that lends priority. Deadline tasks sometimes work longer than their runtime. Hogs run beside them.
"""

import json
import math
import pathlib
import random
import sys


def microseconds(draw: random.Random, low: int, high: int) -> int:
    """Between two times, as many from each octave, in tens of microseconds."""
    return int(round(math.exp(draw.uniform(math.log(low), math.log(high))), -1))


def groups_of(draw: random.Random) -> dict:
    """None, or up to three; `A/x` is below `A`."""
    groups: dict = {}
    if draw.random() < 0.5:
        for path in ["A", "B", "A/x"][: draw.randint(1, 3)]:
            groups[path] = {}
            if draw.random() < 0.6:
                groups[path]["weight"] = draw.choice([20, 50, 200, 500, 1000])
            if draw.random() < 0.35:
                groups[path]["max"] = [draw.choice([10_000, 20_000, 50_000, 80_000, 120_000]), draw.choice([50_000, 100_000])]
    return groups


def task(draw: random.Random, groups: dict) -> dict:
    """One kind of tasks."""
    made: dict = {"instance": draw.choice([1, 1, 1, 2, 2, 3, 4])}
    policy = draw.random()
    if policy < 0.08:
        made |= {"policy": "SCHED_BATCH", "priority": 0}
    elif policy < 0.16:
        made |= {"policy": "SCHED_IDLE", "priority": 0}
    elif policy < 0.22 and not groups:
        # Where there are groups, kernels with CONFIG_RT_GROUP_SCHED refuse them.
        made |= {"policy": draw.choice(["SCHED_FIFO", "SCHED_RR"]), "priority": draw.randint(1, 50)}
    else:
        made |= {"policy": "SCHED_OTHER", "priority": draw.choice([0, 0, 0, 0, -5, 5, 10, 19])}
    if draw.random() < 0.25:
        made["cpus"] = [draw.randint(0, 1)]
    if groups and draw.random() < 0.7:
        made["taskgroup"] = "/" + draw.choice(list(groups))
    kind = draw.choice(["hog", "hog", "sleeper", "periodic", "periodic", "burst"])
    if kind == "hog" and made["policy"] in ("SCHED_FIFO", "SCHED_RR"):
        kind = "periodic"
    if kind == "hog":
        made["run"] = 1000
    elif kind == "sleeper":
        made |= {"run": microseconds(draw, 100, 6000), "sleep": microseconds(draw, 300, 20_000)}
    elif kind == "periodic":
        period = microseconds(draw, 2000, 50_000)
        run = max(50, int(period * draw.uniform(0.03, 0.45) / made["instance"]))
        made |= {"run": run, "timer": {"ref": "unique", "period": period}}
    else:
        made |= {"run0": microseconds(draw, 50, 500), "sleep0": microseconds(draw, 200, 2000)}
        made |= {"run1": microseconds(draw, 2000, 20_000), "sleep1": microseconds(draw, 5000, 40_000)}
    return made


def real_time(draw: random.Random) -> dict:
    """A policy and a priority."""
    return {"policy": draw.choice(["SCHED_FIFO", "SCHED_FIFO", "SCHED_RR"]), "priority": draw.randint(1, 50)}


def higher_tasks(draw: random.Random) -> dict:
    """Two to four kinds of tasks, most of them real-time or deadline ones."""
    kinds = ["chain", "chain", "periodic", "periodic", "deadline", "hog", "hog", "lock"]
    tasks: dict = {}
    for name, kind in zip("abcd", draw.sample(kinds, k=draw.randint(2, 4))):
        if kind == "chain":
            period = microseconds(draw, 2000, 20_000)
            first, second = (max(50, int(period * draw.uniform(0.05, 0.3))) for _ in range(2))
            timer = {"ref": f"t{name}", "period": period}
            tasks[f"{name}p"] = {**real_time(draw), "run": first, "resume": f"q{name}", "timer": timer}
            tasks[f"{name}c"] = {**real_time(draw), "suspend": f"q{name}", "run": second}
        elif kind == "periodic":
            period, instances = microseconds(draw, 2000, 50_000), draw.choice([1, 2, 3])
            policy = real_time(draw)
            run = max(50, int(period * draw.uniform(0.05, 0.5) / instances))
            tasks[name] = {**policy, "instance": instances, "run": run, "timer": {"ref": "unique", "period": period}}
        elif kind == "deadline":
            period = microseconds(draw, 5000, 50_000)
            runtime, instances = int(period * draw.uniform(0.1, 0.35)), draw.choice([1, 2])
            promise = {"dl-runtime": runtime, "dl-period": period, "dl-deadline": period}
            run = int(runtime * draw.uniform(0.5, 1.3))
            timer = {"ref": "unique", "period": period}
            tasks[name] = {"policy": "SCHED_DEADLINE", "instance": instances, **promise, "run": run, "timer": timer}
        elif kind == "hog":
            tasks[name] = {"instance": draw.choice([1, 2, 3]), "run": 1000}
        else:
            period, policy = microseconds(draw, 3000, 20_000), real_time(draw)
            run = max(50, int(period * draw.uniform(0.05, 0.2)))
            mutex, timer = f"m{name}", {"ref": "unique", "period": period}
            tasks[name] = {**policy, "instance": 2, "lock": mutex, "run": run, "unlock": mutex, "timer": timer}
    return tasks


def main() -> None:
    """Writes the files."""
    args = sys.argv[1:]
    higher = args[:1] == ["--higher"]
    args = args[higher:]
    if len(args) != 3 or not (args[0] + args[1]).isdigit():
        sys.exit(__doc__)
    seed, count, folder = int(args[0]), int(args[1]), pathlib.Path(args[2])
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    for number in range(count):
        if higher:
            name, groups = f"rt-{seed}-{number:02}", {}
            tasks = higher_tasks(draw)
        else:
            name, groups = f"random-{seed}-{number:02}", groups_of(draw)
            tasks = {kind: task(draw, groups) for kind in "abcd"[: draw.randint(2, 4)]}
        workload = {"tasks": tasks, "global": {"duration": 5}}
        made = {"name": name, "groups": groups, "workload": workload}
        text = json.dumps(made, indent=1)
        (folder / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
