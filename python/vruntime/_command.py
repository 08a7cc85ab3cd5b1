"""Finds and runs the ``vruntime`` command, and reads its messages."""

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

#: The environment variable that names another command than the one of this package.
COMMAND = "VRUNTIME"


@dataclass(frozen=True)
class Message:
    """An error, a warning or a note of the command."""

    #: ``error``, ``warning`` or ``note``.
    level: str
    message: str
    #: The chain of its causes.
    causes: tuple[str, ...] = ()
    #: How to fix it.
    help: str | None = None
    #: Its place: a file, and line and column counted from 1.
    file: str | None = None
    line: int | None = None
    column: int | None = None
    #: What was expected there.
    label: str | None = None
    #: The whole printed message, with the lines of the file.
    text: str = ""

    @classmethod
    def _of(cls, json: Mapping[str, Any]) -> Message:
        known = {name: json[name] for name in cls.__dataclass_fields__ if name in json}
        return cls(**{**known, "causes": tuple(json.get("causes", ()))})

    def __str__(self) -> str:
        return self.text or self.message


class VruntimeError(Exception):
    """An error in the input. ``str()`` shows the place in the file and how to fix it. ``messages`` has all errors; the
    properties describe the first.
    """

    def __init__(self, messages: Sequence[Message]):
        self.messages = tuple(messages)
        super().__init__("\n".join(str(one).rstrip() for one in self.messages))

    @property
    def message(self) -> str:
        """The problem."""
        return self.messages[0].message

    @property
    def causes(self) -> tuple[str, ...]:
        """The chain of its causes."""
        return self.messages[0].causes

    @property
    def help(self) -> str | None:
        """How to fix it, if known."""
        return self.messages[0].help

    @property
    def file(self) -> str | None:
        """The file with the error, if there is one."""
        return self.messages[0].file

    @property
    def line(self) -> int | None:
        """The line, counted from 1."""
        return self.messages[0].line

    @property
    def column(self) -> int | None:
        """The column, in characters counted from 1."""
        return self.messages[0].column

    @property
    def label(self) -> str | None:
        """What was expected there."""
        return self.messages[0].label

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.messages,)


class CommandNotFound(VruntimeError):
    """The ``vruntime`` command was not found."""


class VruntimeWarning(UserWarning):
    """A part of the input is probably a mistake."""


@dataclass(frozen=True)
class Answer:
    """The output of the command, and its exit status."""

    text: str
    #: 0: success; 2: ``--detect`` found idle CPUs, or ``diff`` found differences.
    status: int
    #: Warnings and notes.
    messages: tuple[Message, ...] = ()

    def json(self) -> Any:
        """Parses the output as JSON."""
        try:
            return json.loads(self.text)
        except ValueError as error:
            begins = self.text.strip().splitlines()[:1] or ["nothing"]
            raise VruntimeError([_error(f"the command printed no JSON, but: {begins[0]}", _OTHER)]) from error


_LOCK = threading.Lock()


def _installed() -> list[str]:
    """Returns the folders where installers put commands."""
    # The first call creates the tables of sysconfig, and another thread must not use them before they are complete.
    with _LOCK:
        folders = [sysconfig.get_path("scripts"), os.path.join(site.getuserbase(), "bin")]
    # `pip install --target` puts them beside the packages.
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")
    return [*folders, os.path.dirname(sys.executable), beside]


def _find() -> str:
    """Returns the command that ``VRUNTIME`` names, the one installed with this package, or the first on the path."""
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


_OTHER = f"`pip install ./python` builds and installs it, or name a built command: {COMMAND}=target/release/vruntime"


def _error(message: str, help: str | None = None) -> Message:
    return Message("error", message, help=help, text=message if help is None else f"{message}\n  help: {help}")


class Stopped(Exception):
    """The commands were stopped before this one started."""


class Children:
    """Running commands, which are stopped together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def start(self, arguments: Sequence[str], stdin: int, folder: str | None = None) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise Stopped
            started = subprocess.Popen(
                arguments,
                cwd=folder,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "VRUNTIME_MESSAGES": "json", "VRUNTIME_PARENT": str(os.getpid())},
                # Ctrl-C in a terminal is for this process, which sends each command one signal: a second one would end
                # it at once, with an incomplete file.
                start_new_session=True,
            )
            self._running.add(started)
            return started

    def ended(self, child: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running.discard(child)

    def stop(self) -> None:
        """Stops all commands. Their written files are complete, and no other command starts."""
        with self._lock:
            self._stopped = True
            for child in self._running:
                child.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)

    def kill(self) -> None:
        with self._lock:
            self._stopped = True
            for child in self._running:
                child.kill()


def _messages(stderr: bytes) -> list[Message]:
    messages = []
    # Only this line break: a message may contain others of Unicode.
    for line in filter(None, stderr.decode(errors="replace").split("\n")):
        try:
            one = Message._of(json.loads(line))
            # Without usage lines of the command line, which do not apply here.
            messages.append(replace(one, text=re.split(r"\n\n(?:Usage: |For more information)", one.text)[0].rstrip()))
        except (ValueError, TypeError, AttributeError):
            # Not a message of the command: an error of the system, or a fault of vruntime.
            messages.append(Message("note", line, text=line))
    return messages


def command(
    *arguments: str | os.PathLike[str],
    input: str | bytes | None = None,
    check: bool = True,
) -> Answer:
    """Runs ``vruntime`` with these arguments, for features without a function of their own.

    An argument ``-`` reads ``input``. Issues warnings as :class:`VruntimeWarning`. Raises :class:`VruntimeError` for an
    error of the command, unless ``check`` is false.

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
        # A second interrupt does not wait for the end of the command.
        children.kill()
        raise
    warn(answer.messages)
    return answer


def ask(
    arguments: Sequence[str],
    input: str | bytes | None,
    children: Children,
    *,
    check: bool = True,
    folder: str | None = None,
) -> Answer:
    """As :func:`command`, but in a working folder, and the caller issues the warnings."""
    data = input.encode() if isinstance(input, str) else input
    # Its path may be relative to the caller's folder.
    found = _find() if folder is None else os.path.abspath(_find())
    try:
        child = children.start([found, *arguments], subprocess.DEVNULL if data is None else subprocess.PIPE, folder)
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
    messages = _messages(stderr)
    status = child.returncode
    # An interrupted command has printed its results so far.
    if check and status not in (0, 2) and not (status == 130 and stdout):
        errors = [one for one in messages if one.level == "error"]
        raise VruntimeError(errors or messages or [_ended(status)])
    return Answer(stdout.decode(errors="replace"), status, tuple(messages))


def warn(messages: Iterable[Message]) -> None:
    """Issues the warnings among these messages, at the line that called this package."""
    for one in messages:
        if one.level == "warning":
            warnings.warn(str(one).strip(), VruntimeWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """Returns the level of the first caller outside this package, as ``warnings`` counts."""
    here = os.path.dirname(__file__)
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == here:
        level, frame = level + 1, frame.f_back
    return level


def _ended(status: int) -> Message:
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return Message("error", f"the vruntime command {how} without a message")


def version() -> str:
    """Returns the version of the command."""
    return command("--version").text.split()[-1]
