"""The ``vruntime`` command: where it is, how it is asked, and what it tells."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Names another command than the one that comes with this package.
COMMAND = "VRUNTIME"


@dataclass(frozen=True)
class Told:
    """An error, a warning or a note of the command's."""

    #: ``error``, ``warning`` or ``note``.
    level: str
    message: str
    #: What it comes of, and so on.
    causes: tuple[str, ...] = ()
    #: What mends it.
    help: str | None = None
    #: Where it is: a file, and line and column counted from 1.
    file: str | None = None
    line: int | None = None
    column: int | None = None
    #: What was expected there.
    label: str | None = None
    #: All of it as people are shown it, with the lines of the file.
    text: str = ""

    @classmethod
    def _of(cls, told: Mapping[str, Any]) -> Told:
        known = {name: told[name] for name in cls.__dataclass_fields__ if name in told}
        return cls(**{**known, "causes": tuple(told.get("causes", ()))})

    def __str__(self) -> str:
        return self.text or self.message


class VruntimeError(Exception):
    """Something in the input cannot be used. ``str()`` shows the place in the file and how to mend it.

    ``message``, ``causes``, ``help``, ``file``, ``line``, ``column`` and ``label`` are those of the first of ``told``.
    """

    def __init__(self, told: Sequence[Told]):
        self.told = tuple(told)
        super().__init__("\n".join(str(one).rstrip() for one in self.told))

    def __getattr__(self, name: str) -> Any:
        if name in Told.__dataclass_fields__ and self.told:
            return getattr(self.told[0], name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class CommandNotFound(VruntimeError):
    """The ``vruntime`` command is not where this package looks for it."""


class VruntimeWarning(UserWarning):
    """Something in the input is probably not what was meant."""


@dataclass(frozen=True)
class Answer:
    """What the command printed, and how it ended."""

    text: str
    #: 0: well; 2: ``--detect`` found something, or what ``diff`` compared differs.
    status: int
    #: Warnings and notes.
    told: tuple[Told, ...] = ()

    def json(self) -> Any:
        """What it printed, if that is JSON."""
        return json.loads(self.text)


def _find() -> str:
    """The command: the one ``VRUNTIME`` names, the one installed with this package, or the first on the path."""
    named = os.environ.get(COMMAND)
    if named:
        found = shutil.which(named)
        if found is None:
            raise CommandNotFound([_missing(f"there is no command {named!r}, which {COMMAND} names")])
        return found
    name = "vruntime.exe" if os.name == "nt" else "vruntime"
    schemes = [sysconfig.get_path("scripts")]
    if hasattr(sysconfig, "get_preferred_scheme"):
        schemes.append(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
    for folder in [*schemes, os.path.dirname(sys.executable)]:
        here = os.path.join(folder, name)
        if os.access(here, os.X_OK):
            return here
    found = shutil.which(name)
    if found is None:
        raise CommandNotFound([_missing("the vruntime command is not installed")])
    return found


def _missing(message: str) -> Told:
    help = (
        f"`pip install ./python` builds and installs it, or name one that is built: {COMMAND}=target/release/vruntime"
    )
    return Told("error", message, help=help, text=f"{message}\n  help: {help}")


def _told(stderr: bytes) -> list[Told]:
    told = []
    for line in stderr.decode(errors="replace").splitlines():
        try:
            told.append(Told._of(json.loads(line)))
        except (ValueError, TypeError, AttributeError):
            # Not the command's own words: what the system says of it, or a fault of ours. None is lost.
            told.append(Told("note", line, text=line))
    return told


def command(
    *arguments: str | os.PathLike[str],
    input: str | bytes | None = None,
    check: bool = True,
) -> Answer:
    """Runs ``vruntime`` with these arguments: what has no function of its own here.

    ``input`` is what it reads where an argument is ``-``. Warnings are issued as :class:`VruntimeWarning`. Raises
    :class:`VruntimeError` where the command tells an error, unless ``check`` is false.

    >>> print(command("machines", "pack:2 core:2").text, end="")
    4 CPUs (2 packages)
    package 0, node 0
      [ 0  1 ]
    package 1, node 0
      [ 2  3 ]
    """
    data = input.encode() if isinstance(input, str) else input
    started = subprocess.Popen(
        [_find(), *(os.fspath(argument) for argument in arguments)],
        stdin=subprocess.DEVNULL if data is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "VRUNTIME_MESSAGES": "json"},
    )
    try:
        stdout, stderr = started.communicate(data)
    except BaseException:
        # It ends its runs and what they have written is whole; whoever interrupts again does not wait for that.
        started.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
        try:
            started.communicate()
        finally:
            started.kill()
        raise
    told = _told(stderr)
    status = started.returncode
    if check and status not in (0, 2):
        errors = [one for one in told if one.level == "error"]
        raise VruntimeError(errors or told or [_ended(status)])
    for one in told:
        if one.level == "warning":
            warnings.warn(str(one).strip(), VruntimeWarning, stacklevel=_callers_level())
    return Answer(stdout.decode(), status, tuple(told))


def _callers_level() -> int:
    """Whom a warning is about: the first caller outside this package, as ``warnings`` counts."""
    here = os.path.dirname(__file__)
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == here:
        level, frame = level + 1, frame.f_back
    return level


def _ended(status: int) -> Told:
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return Told("error", f"the vruntime command {how} and told nothing")


def version() -> str:
    """The version of the command."""
    return command("--version").text.split()[-1]
