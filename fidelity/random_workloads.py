#!/usr/bin/env python3
"""random_workloads.py SEED COUNT FOLDER: workloads drawn at random, one a file, for `vruntime fidelity --record mine --with FILE ...`.

Nobody chose them, so nobody chose them with the simulator's answers in view. They are for machines of 2 CPUs and more: two to four
kinds of tasks, of one to four each; hogs, sleepers, periodic ones and such as alternate short and long runs; policies, nice values,
a quarter tied to CPU 0 or 1; half of the files with up to three groups, with weights and limits. The same seed gives the same files.
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


def main() -> None:
    """Writes the files."""
    if len(sys.argv) != 4 or not (sys.argv[1] + sys.argv[2]).isdigit():
        sys.exit(__doc__)
    seed, count, folder = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    for number in range(count):
        name = f"random-{seed}-{number:02}"
        groups = groups_of(draw)
        tasks = {kind: task(draw, groups) for kind in "abcd"[: draw.randint(2, 4)]}
        workload = {"tasks": tasks, "global": {"duration": 5}}
        text = json.dumps({"name": name, "groups": groups, "workload": workload}, indent=1)
        (folder / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
