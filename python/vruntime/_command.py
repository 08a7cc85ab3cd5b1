"""The ``vruntime`` command: where it is, how it is asked, and what it tells."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import sysconfig
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    """Something in the input cannot be used. ``str()`` shows the place in the file and how to mend it; the properties
    are of the first of all errors, which ``told`` has.
    """

    def __init__(self, told: Sequence[Told]):
        self.told = tuple(told)
        super().__init__("\n".join(str(one).rstrip() for one in self.told))

    @property
    def message(self) -> str:
        """What is wrong."""
        return self.told[0].message

    @property
    def causes(self) -> tuple[str, ...]:
        """What that comes of, and so on."""
        return self.told[0].causes

    @property
    def help(self) -> str | None:
        """What mends it, if anything is known."""
        return self.told[0].help

    @property
    def file(self) -> str | None:
        """The file it is in, if it is in one."""
        return self.told[0].file

    @property
    def line(self) -> int | None:
        """The line, counted from 1."""
        return self.told[0].line

    @property
    def column(self) -> int | None:
        """The column, in characters counted from 1."""
        return self.told[0].column

    @property
    def label(self) -> str | None:
        """What was expected there."""
        return self.told[0].label

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.told,)


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
        try:
            return json.loads(self.text)
        except ValueError as error:
            begins = self.text.strip().splitlines()[:1] or ["nothing"]
            raise VruntimeError([_error(f"the command printed no JSON, but: {begins[0]}", _OTHER)]) from error


_LOCK = threading.Lock()


def _installed() -> list[str]:
    """The folders where installers leave commands."""
    # The first to ask makes the tables of sysconfig, and another thread must not meet them half made.
    with _LOCK:
        folders = [sysconfig.get_path("scripts"), os.path.join(site.getuserbase(), "bin")]
    # `pip install --target` leaves them beside the packages.
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")
    return [*folders, os.path.dirname(sys.executable), beside]


def _find() -> str:
    """The command: the one ``VRUNTIME`` names, the one installed with this package, or the first on the path."""
    named = os.environ.get(COMMAND)
    if named:
        found = shutil.which(named)
        if found is None:
            raise CommandNotFound([_error(f"there is no command {named!r}, which {COMMAND} names", _OTHER)])
        return found
    name = "vruntime.exe" if os.name == "nt" else "vruntime"
    for folder in _installed():
        here = os.path.join(folder, name)
        if os.access(here, os.X_OK):
            return here
    found = shutil.which(name)
    if found is None:
        raise CommandNotFound([_error("the vruntime command is not installed", _OTHER)])
    return found


_OTHER = f"`pip install ./python` builds and installs it, or name one that is built: {COMMAND}=target/release/vruntime"


def _error(message: str, help: str | None = None) -> Told:
    return Told("error", message, help=help, text=message if help is None else f"{message}\n  help: {help}")


class Stopped(Exception):
    """Others have been stopped before this one began."""


class Children:
    """Commands that run, to be stopped together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def start(self, arguments: Sequence[str], stdin: int) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise Stopped
            started = subprocess.Popen(
                arguments,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "VRUNTIME_MESSAGES": "json", "VRUNTIME_PARENT": str(os.getpid())},
                # Ctrl-C in a terminal is for this process, which asks each command once to stop: a second time would
                # end it at once, with half a file.
                start_new_session=True,
            )
            self._running.add(started)
            return started

    def ended(self, child: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running.discard(child)

    def stop(self) -> None:
        """They end their runs, and what they have written is whole; no other begins."""
        with self._lock:
            self._stopped = True
            for child in self._running:
                child.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)

    def kill(self) -> None:
        with self._lock:
            self._stopped = True
            for child in self._running:
                child.kill()


def _told(stderr: bytes) -> list[Told]:
    told = []
    # By this alone: a message may have others of Unicode's line breaks in it.
    for line in filter(None, stderr.decode(errors="replace").split("\n")):
        try:
            one = Told._of(json.loads(line))
            # Of the command line's own words what a caller from here can use.
            told.append(replace(one, text=re.split(r"\n\n(?:Usage: |For more information)", one.text)[0].rstrip()))
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
    children = Children()
    try:
        answer = ask([os.fspath(one) for one in arguments], input, children, check=check)
    except BaseException:
        # Whoever interrupts again does not wait for its end.
        children.kill()
        raise
    warn(answer.told)
    return answer


def ask(arguments: Sequence[str], input: str | bytes | None, children: Children, *, check: bool = True) -> Answer:
    """As :func:`command`; warnings are the caller's to issue."""
    data = input.encode() if isinstance(input, str) else input
    found = _find()
    try:
        child = children.start([found, *arguments], subprocess.DEVNULL if data is None else subprocess.PIPE)
    except OSError as error:
        raise CommandNotFound([_error(f"cannot start {found}: {error.strerror}", _OTHER)]) from error
    try:
        stdout, stderr = child.communicate(data)
    except BaseException:
        children.stop()
        child.communicate()
        raise
    finally:
        if child.returncode is not None:
            children.ended(child)
    told = _told(stderr)
    status = child.returncode
    # Who was interrupted by somebody else has printed what there was.
    if check and status not in (0, 2) and not (status == 130 and stdout):
        errors = [one for one in told if one.level == "error"]
        raise VruntimeError(errors or told or [_ended(status)])
    return Answer(stdout.decode(errors="replace"), status, tuple(told))


def warn(told: Iterable[Told]) -> None:
    """Issues the warnings among them, as of the line that called this package."""
    for one in told:
        if one.level == "warning":
            warnings.warn(str(one).strip(), VruntimeWarning, stacklevel=_callers_level())


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
