"""The slices of a run: which task ran on which CPU, and when."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ._command import Children, Message, VruntimeError
from ._job import Boxes, Contents, Job, execute

_SWITCH = re.compile(
    r"\[(\d+)\] \S* +(\d+\.\d+): sched_switch: +prev_comm=.* prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> "
    r"next_comm=(.*) next_pid=(\d+) next_prio=(-?\d+)$"
)


@dataclass(frozen=True)
class Recipe:
    """How a run was made, so that it can be made again."""

    job: Job
    #: The contents of its files, if the job does not read them itself.
    contents: Contents | None = None

    def slices(self, seed: int, digest: str, elapsed_ns: int, classes: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Runs the workload again with one seed, and yields a row for each stretch of a task on a CPU."""
        kept = ("--seed=", "--repeat=", "--out=", "--html=")
        argv = [one for one in self.job.argv if not one.startswith(kept)]
        with tempfile.TemporaryDirectory(prefix="vruntime-") as folder:
            job = replace(self.job, argv=(*argv, f"--seed={seed}"), outputs=(("out", folder),))
            children = Children()
            try:
                if self.contents is None:
                    outcome = execute(job, children)
                else:
                    with Boxes(self.contents.by_digest) as boxes:
                        outcome = execute(job, children, boxes)
            except BaseException:
                children.kill()
                raise
            if outcome.answer is None:
                raise outcome.error or _changed(seed)
            if outcome.answer.json()["observed"][0]["digest"] != digest:
                raise _changed(seed)
            yield from _of_trace(os.path.join(folder, "trace.txt"), elapsed_ns, frozenset(classes))


def _changed(seed: int) -> VruntimeError:
    text = f"seed {seed} does not give the events of the first run: a file or the command has changed since"
    help = "call vruntime.run again, and take the slices of that run"
    return VruntimeError([Message("error", text, help=help, text=f"{text}\n  help: {help}")])


def unknown() -> VruntimeError:
    text = "slices need the run itself, and this result is one of a stored file"
    help = "call vruntime.run with the workload and the options of the run"
    return VruntimeError([Message("error", text, help=help, text=f"{text}\n  help: {help}")])


def _of_trace(path: str, elapsed_ns: int, classes: frozenset[str]) -> Iterator[dict[str, Any]]:
    running: dict[int, dict[str, Any]] = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            found = _SWITCH.search(line.rstrip("\n"))
            if found is None:
                continue
            cpu, now, _, state, name, pid, prio = found.groups()
            ended = running.pop(int(cpu), None)
            if ended is not None:
                yield _ended(ended, _ns(now), state)
            if pid != "0":
                row = {"task": name, "class": _class_of(name, classes), "pid": int(pid), "cpu": int(cpu)}
                running[int(cpu)] = {**row, "prio": int(prio), "start_ns": _ns(now)}
    for _, row in sorted(running.items()):
        # The run ends before they do.
        yield _ended(row, elapsed_ns, None)


def _ns(seconds: str) -> int:
    """Returns a time of the trace, which has whole microseconds, as nanoseconds."""
    return round(float(seconds) * 1e6) * 1000


def _ended(row: Mapping[str, Any], now: int, state: str | None) -> dict[str, Any]:
    return {**row, "end_ns": now, "duration_ns": now - row["start_ns"], "end_state": state}


def _class_of(name: str, classes: frozenset[str]) -> str:
    """Returns the class of a task: instances are called as the class, with a number."""
    if name in classes:
        return name
    stem = re.sub(r"-\d+$", "", name)
    return stem if stem in classes else name
