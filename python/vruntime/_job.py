"""A run as a value: its arguments, and the contents of its files. Any process on any machine can execute it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import tempfile
import threading
import time
import traceback
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ._command import Answer, Children, Message, Stopped, VruntimeError, ask

#: A part of every key. A change of the package that changes results or their form changes this number.
FORMAT = 1


@dataclass(frozen=True)
class Job:
    """One call of the command."""

    #: The arguments, except for those of the outputs.
    argv: tuple[str, ...]
    #: The standard input, compressed.
    stdin: bytes | None = None
    #: The folder that relative paths start from (empty: the working folder), and the digest of each file's content by
    #: its absolute path.
    folder: str = ""
    files: tuple[tuple[str, str], ...] = ()
    #: What the command writes: options such as ``out`` with absolute paths.
    outputs: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str | None:
        """The standard input."""
        return None if self.stdin is None else zlib.decompress(self.stdin).decode()

    def key(self, version: str) -> str:
        """Returns a digest of all that the results depend on."""
        files = [(os.path.relpath(path, self.folder), digest) for path, digest in self.files]
        parts = [FORMAT, version, self.argv, self.text, sorted(files)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def plain_job(argv: Sequence[str], text: str | None, outputs: Mapping[str, Any], folder: str | None = None) -> Job:
    """Returns a call that this process executes, in its working folder or in another."""
    return Job(
        tuple(argv),
        None if text is None else zlib.compress(text.encode(), 1),
        folder or "",
        outputs=tuple((name, os.path.abspath(os.fspath(path))) for name, path in outputs.items()),
    )


@dataclass
class Contents:
    """The contents of files, each read once."""

    by_digest: dict[str, bytes] = field(default_factory=dict)
    _by_path: dict[str, str] = field(default_factory=dict)

    def job(self, argv: Sequence[str], text: str | None, outputs: Mapping[str, Any]) -> Job:
        """Returns a call with the contents of all files that it reads: those of the arguments, and those that a
        scenario names.
        """
        here = os.getcwd()
        named = dict.fromkeys(value for value in map(_value, argv) if value and os.path.isfile(value))
        if "--machine=host" in argv:
            raise ValueError(
                "the machine 'host' is another one on each worker: name the file that `vruntime calibrate` wrote"
            )
        digests = {os.path.join(here, path): self._read(os.path.join(here, path)) for path in named}
        for path, digest in list(digests.items()):
            for other in self._named_in(self.by_digest[digest], os.path.dirname(path), here):
                digests.setdefault(other, self._read(other))
        # A dictionary names no files, and a scenario's text those relative to the working folder.
        if text is not None and not text.lstrip().startswith("{"):
            for other in self._named_in(text.encode(), here, here):
                digests.setdefault(other, self._read(other))
        return replace(plain_job(argv, text, outputs), folder=here, files=tuple(sorted(digests.items())))

    def of(self, jobs: Iterable[Job]) -> dict[str, bytes]:
        """Returns the contents that these jobs need, by digest."""
        return {digest: self.by_digest[digest] for job in jobs for _, digest in job.files}

    def _read(self, path: str) -> str:
        if path not in self._by_path:
            with open(path, "rb") as file:
                content = file.read()
            digest = self._by_path[path] = hashlib.sha256(content).hexdigest()
            self.by_digest[digest] = content
        return self._by_path[path]

    def _named_in(self, content: bytes, *folders: str) -> Iterator[str]:
        """Yields the existing files that a scenario names: every quoted text that is the path of a file."""
        if len(content) > _LONGEST_SCENARIO or content.lstrip()[:1] in (b"{", b"<") or b"\0" in content[:4096]:
            return
        for found in _QUOTED.finditer(content.decode(errors="replace")):
            name = found[1] if found[1] is not None else found[2]
            for folder in folders:
                path = os.path.normpath(os.path.join(folder, name))
                if name and os.path.isfile(path):
                    yield path


_LONGEST_SCENARIO = 4 << 20
_QUOTED = re.compile(r"\"([^\"\n]{1,1024})\"|'([^'\n]{1,1024})'")


def _value(argument: str) -> str:
    """Returns the value of an option, or the argument."""
    return argument.partition("=")[2] if argument.startswith("--") else argument


@dataclass(frozen=True)
class Outcome:
    """The end of a job: the output of the command, or an error."""

    answer: Answer | None = None
    error: VruntimeError | None = None
    #: The contents of what it wrote, by option and relative path, if another machine executed it.
    written: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    #: Wall time, seconds.
    elapsed: float = 0.0


class Boxes:
    """Folders with the files of jobs. A job sees its files at their paths, below the folder, and no others."""

    def __init__(self, contents: Mapping[str, bytes]):
        self._contents = contents
        self._lock = threading.Lock()
        self._made: dict[tuple[Any, ...], str] = {}
        self._all = contextlib.ExitStack()

    def of(self, job: Job) -> str:
        with self._lock:
            which = (job.folder, job.files)
            if which not in self._made:
                # The real path, since messages have it.
                box = os.path.realpath(self._all.enter_context(tempfile.TemporaryDirectory(prefix="vruntime-")))
                os.makedirs(box + job.folder, exist_ok=True)
                for path, digest in job.files:
                    os.makedirs(os.path.dirname(box + path), exist_ok=True)
                    with named(box + path), open(box + path, "wb") as file:
                        file.write(self._contents[digest])
                self._made[which] = box
            return self._made[which]

    def __enter__(self) -> Boxes:
        return self

    def __exit__(self, *_: object) -> None:
        self._all.close()


def execute(job: Job, children: Children, boxes: Boxes | None = None, *, send_back: bool = False) -> Outcome:
    """Executes a job: in the working folder, or in a box. With ``send_back``, the outcome has what the command writes,
    and no file is left.
    """
    began = time.perf_counter()
    box = "" if boxes is None else boxes.of(job)
    there = {path for path, _ in job.files if path in map(_value, job.argv)}
    argv = [one.replace(path, box + path, 1) if (path := _value(one)) in there else one for one in job.argv]
    with contextlib.ExitStack() as stack:
        outputs = dict(job.outputs)
        if send_back and outputs:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="vruntime-out-"))
            outputs = {name: os.path.join(folder, name) for name in outputs}
        argv += [f"--{name}={path}" for name, path in outputs.items()]
        try:
            answer = ask(argv, job.text, children, folder=box + job.folder if box else job.folder or None)
        except VruntimeError as error:
            messages = [_outside(one, box) for one in error.messages]
            return Outcome(error=type(error)(messages), elapsed=time.perf_counter() - began)
        if box:
            messages = [_outside(one, box) for one in answer.messages]
            answer = Answer(answer.text.replace(box, ""), answer.status, tuple(messages))
        written = {name: _tree(path) for name, path in outputs.items()} if send_back else {}
    return Outcome(answer, written=written, elapsed=time.perf_counter() - began)


def _outside(message: Message, box: str) -> Message:
    """Returns a message with paths as the caller knows them."""
    if not box:
        return message
    texts: dict[str, Any] = {
        name: value.replace(box, "") for name, value in vars(message).items() if isinstance(value, str)
    }
    return replace(message, **texts, causes=tuple(one.replace(box, "") for one in message.causes))


def _tree(path: str) -> dict[str, bytes]:
    """Returns the contents of a folder's files by relative path; of a file, by the empty one."""
    if os.path.isfile(path):
        with open(path, "rb") as file:
            return {"": file.read()}
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            whole = os.path.join(folder, name)
            with open(whole, "rb") as file:
                found[os.path.relpath(whole, path)] = file.read()
    return found


@contextlib.contextmanager
def named(path: str) -> Iterator[None]:
    """Names the file in an error of writing it. Only errors of opening a file have its name."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), path) from error


def write_outputs(job: Job, outcome: Outcome) -> None:
    """Writes what another machine sent back."""
    for name, path in job.outputs:
        for relative, content in outcome.written.get(name, {}).items():
            whole = os.path.join(path, relative) if relative else path
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with named(whole), open(whole, "wb") as file:
                file.write(content)


class WorkerMismatch(VruntimeError):
    """A worker has another version of ``vruntime`` than the caller, or none."""


@dataclass(frozen=True)
class Chunk:
    """Jobs that one worker executes, one after the other."""

    jobs: tuple[tuple[int, Job], ...]
    contents: Mapping[str, bytes]
    #: The version of the command that the caller has.
    version: str


_VERSIONS: dict[str, str] = {}


def work(chunk: Chunk) -> list[tuple[int, Outcome]]:
    """Executes jobs in a worker, whose command must have the caller's version."""
    from ._command import _find

    try:
        found = _find()
        if found not in _VERSIONS:
            _VERSIONS[found] = ask(["--version"], None, Children()).text.split()[-1]
    except VruntimeError as error:
        raise _mismatch(f"has no vruntime: {error.message}", chunk.version) from error
    if _VERSIONS[found] != chunk.version:
        raise _mismatch(f"has vruntime {_VERSIONS[found]} ({found})", chunk.version)
    children, done = Children(), []
    try:
        with Boxes(chunk.contents) as boxes:
            for index, job in chunk.jobs:
                try:
                    done.append((index, execute(job, children, boxes, send_back=True)))
                except (Stopped, OSError) as error:
                    done.append((index, Outcome(error=of_exception(error))))
    except BaseException:
        children.kill()
        raise
    return done


def _mismatch(found: str, version: str) -> WorkerMismatch:
    message = f"the worker {socket.gethostname()}:{os.getpid()} {found}, and the caller has {version}"
    help = "install one version for all, or name it on every worker with the environment variable VRUNTIME"
    return WorkerMismatch([Message("error", message, help=help, text=f"{message}\n  help: {help}")])


def of_exception(error: BaseException) -> VruntimeError:
    """Returns an exception of Python as an error of a run."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    return VruntimeError([Message("error", text, text=text)])
