"""The results of a sweep in a folder of Parquet files, which outlive the process."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from ._command import Message, VruntimeError
from ._job import FORMAT, named

#: A part is written after this number of runs, after this number of bytes, or after a time (below).
PART_RUNS = 1000
PART_BYTES = 32 << 20
#: The time, seconds: a hundredth of that since the first run, within these limits. So there are few files.
PART_SECONDS = (2.0, 60.0)

_DESCRIPTION = "sweep.json"
_RUNS = "runs"
#: The columns of a part, all texts.
_COLUMNS = ("key", "point", "digest", "error", "messages", "json")


@dataclass(frozen=True)
class Kept:
    """A run in the dataset."""

    #: The output of ``vruntime run --json``, or an error.
    json: str | None
    error: VruntimeError | None
    messages: tuple[Message, ...]


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        help = "`pip install pyarrow`, or leave `dataset` out"
        raise ImportError(f"a dataset is Parquet, which needs pyarrow: {help}") from error
    return pyarrow


class Dataset:
    """A folder with ``sweep.json``, the parts ``runs/*.parquet``, which are written during the sweep, and
    ``classes.parquet`` with all rows, which is written at its end.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = os.path.abspath(os.fspath(folder))
        if os.path.exists(self.folder) and not os.path.isdir(self.folder):
            raise NotADirectoryError(f"`dataset` is a folder, and {self.folder} is a file")
        self._arrow = _pyarrow()
        self._rows: list[dict[str, str | None]] = []
        self._bytes = 0
        self._began = self._flushed = time.monotonic()
        self._lock: IO[str] | None = None
        self._next = 0

    def open(self, version: str, axes: Sequence[str], runs: Iterable[tuple[str, str]]) -> None:
        """Prepares the folder for a sweep over these points and keys. Another sweep must not use it meanwhile."""
        os.makedirs(os.path.join(self.folder, _RUNS), exist_ok=True)
        self._lock = _locked(os.path.join(self.folder, "lock"))
        numbers = [int(name.split(".")[0]) for name in self._parts() if name.split(".")[0].isdigit()]
        self._next = max(numbers, default=-1) + 1
        described = {"format": FORMAT, "vruntime": version, "axes": list(axes), "runs": list(runs)}
        self._replace(_DESCRIPTION, lambda path: _write_json(path, described))

    def _parts(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(os.path.join(self.folder, _RUNS)) if name.endswith(".parquet"))
        except FileNotFoundError:
            return []

    def described(self) -> tuple[list[str], list[tuple[str, str]]]:
        """Returns the axes, and the point and the key of each run, of the last sweep."""
        path = os.path.join(self.folder, _DESCRIPTION)
        try:
            with open(path, encoding="utf-8") as file:
                described = json.load(file)
            if described["format"] != FORMAT:
                raise ValueError(f"its format is {described['format']}, and this version reads {FORMAT}")
            return described["axes"], [(point, key) for point, key in described["runs"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            text = f"{self.folder} is no dataset of a sweep: {error}"
            raise VruntimeError([Message("error", text, file=path, text=text)]) from error

    def finished(self, keys: Iterable[str]) -> Iterator[tuple[str, Kept]]:
        """Yields the runs with these keys in the order in which they were written. A run can occur several times."""
        wanted = set(keys)
        for name in self._parts():
            path = os.path.join(self.folder, _RUNS, name)
            try:
                rows = self._arrow.parquet.read_table(path, columns=["key", "error", "messages", "json"])
            except (OSError, ValueError, KeyError) as error:
                text = f"cannot read {path}: {error}"
                help = "remove the file: the next sweep does its runs again"
                raise VruntimeError([Message("error", text, help=help, text=f"{text}\n  help: {help}")]) from error
            for batch in rows.to_batches(max_chunksize=256):
                yield from ((row["key"], _kept(row)) for row in batch.to_pylist() if row["key"] in wanted)

    def add(self, key: str, point: str, digest: str | None, kept: Kept) -> None:
        """Adds a run. It is in a file within the time above."""
        error = None if kept.error is None else json.dumps([vars(one) for one in kept.error.messages])
        messages = json.dumps([vars(one) for one in kept.messages])
        values = (key, point, digest, error, messages, kept.json)
        self._rows.append(dict(zip(_COLUMNS, values)))
        self._bytes += sum(len(value) for value in values if value is not None)
        now = time.monotonic()
        shortest, longest = PART_SECONDS
        due = now - self._flushed >= min(max(shortest, (now - self._began) / 100), longest)
        if due or len(self._rows) >= PART_RUNS or self._bytes >= PART_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes all runs to files."""
        if self._rows:
            text = self._arrow.string()
            table = self._arrow.table(
                {name: self._arrow.array([row[name] for row in self._rows], text) for name in _COLUMNS}
            )
            name = os.path.join(_RUNS, f"{self._next:06}.parquet")
            self._replace(name, lambda path: self._arrow.parquet.write_table(table, path, compression="zstd"))
            self._next += 1
        self._rows, self._bytes, self._flushed = [], 0, time.monotonic()

    def write(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Writes rows as one table, in their order. A row without a column has null there."""
        columns: dict[str, list[Any]] = {}
        for index, row in enumerate(rows):
            for column in row:
                columns.setdefault(column, [None] * index)
            for column, values in columns.items():
                values.append(row.get(column))
        table = self._arrow.table({column: self._array(values) for column, values in columns.items()})
        self._replace(f"{name}.parquet", lambda path: self._arrow.parquet.write_table(table, path, compression="zstd"))

    def _array(self, values: list[Any]) -> Any:
        try:
            return self._arrow.array(values)
        except (self._arrow.ArrowInvalid, self._arrow.ArrowTypeError):
            # An axis with values of several types.
            return self._arrow.array([None if value is None else str(value) for value in values])

    def _replace(self, name: str, write: Any) -> None:
        """Writes a file so that it is complete or not there."""
        path = os.path.join(self.folder, name)
        with named(path):
            write(f"{path}.new")
        os.replace(f"{path}.new", path)

    def close(self) -> None:
        """Writes what is left, and lets other sweeps use the folder."""
        try:
            self.flush()
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None
                _OPEN.discard(self.folder)


def _kept(row: Mapping[str, Any]) -> Kept:
    error = None if row["error"] is None else VruntimeError(_messages(row["error"]))
    return Kept(row["json"], error, tuple(_messages(row["messages"])))


def _messages(text: str) -> list[Message]:
    return [Message._of(one) for one in json.loads(text)]


def _write_json(path: str, value: Any) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


#: The folders that sweeps of this process write to. A lock only excludes other processes.
_OPEN: set[str] = set()


def _locked(path: str) -> IO[str]:
    """Returns an open file that no other process has locked. File systems without locks have none."""
    folder = os.path.dirname(path)
    file = open(path, "w", encoding="utf-8")  # noqa: SIM115 (the lock lasts as long)
    try:
        if folder in _OPEN:
            raise BlockingIOError
        with contextlib.suppress(ImportError):
            import fcntl

            # Unlike with flock, forked workers do not hold this lock.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        file.close()
        text = f"another sweep writes to {folder}"
        help = "wait for its end, or give each sweep a dataset of its own"
        raise VruntimeError([Message("error", text, help=help, text=f"{text}\n  help: {help}")]) from None
    except OSError:
        pass
    _OPEN.add(folder)
    return file
