"""Executes many jobs at once: in threads of this process, or in an executor."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Optional, Protocol

from ._command import Answer, Children, Message, Stopped, VruntimeError, version
from ._job import Boxes, Chunk, Contents, Job, Outcome, WorkerMismatch, execute, of_exception, work, write_outputs

#: The number of attempts for a job whose worker ends.
ATTEMPTS = 3
#: A worker gets jobs for about this time at once, seconds, and at most this number.
CHUNK_SECONDS = 0.25
CHUNK_JOBS = 64


class Engine(Protocol):
    """Jobs that are being executed."""

    def next(self) -> tuple[int, Outcome] | None:
        """Waits for the end of a job, and returns its index and outcome; ``None`` after the last."""

    def stop(self) -> None:
        """Starts no more jobs, and stops those that run as far as possible."""

    def finished(self) -> Iterator[tuple[int, Outcome]]:
        """Yields the jobs that ended before the stop, and were not returned."""


class Threads:
    """Each thread executes one job at a time. ``contents`` are those of the jobs' files; without them, jobs read the
    files themselves.
    """

    def __init__(self, jobs: Sequence[tuple[int, Job]], threads: int, contents: Contents | None):
        self._children = Children()
        self._left = iter(jobs)
        self._lock = threading.Lock()
        self._ended: queue.SimpleQueue[tuple[int, Outcome] | BaseException | None] = queue.SimpleQueue()
        self._boxes = None if contents is None else Boxes(contents.by_digest)
        # An interpreter that ends does not wait for them.
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(min(threads, len(jobs)))]
        self._working = len(self._workers)
        for each in self._workers:
            each.start()

    def _work(self) -> None:
        try:
            while True:
                with self._lock:
                    item = next(self._left, None)
                if item is None:
                    break
                index, job = item
                self._ended.put((index, execute(job, self._children, self._boxes)))
        except Stopped:
            pass
        except BaseException as error:  # the caller's thread raises it
            self._ended.put(error)
        self._ended.put(None)

    def next(self) -> tuple[int, Outcome] | None:
        while self._working:
            got = self._ended.get()
            if isinstance(got, BaseException):
                raise got
            if got is not None:
                return got
            self._working -= 1
        self._join()
        return None

    def stop(self) -> None:
        self._children.stop()
        try:
            self._join()
        except BaseException:
            # Interrupted once more.
            self._children.kill()
            raise

    def _join(self) -> None:
        for each in self._workers:
            if each.is_alive():
                each.join()
        if self._boxes is not None:
            self._boxes.__exit__()

    def finished(self) -> Iterator[tuple[int, Outcome]]:
        with contextlib.suppress(queue.Empty):
            while True:
                got = self._ended.get_nowait()
                if isinstance(got, tuple):
                    yield got


class ExecutorEnded(VruntimeError):
    """The executor accepts no more work."""


class Remote:
    """Workers of an executor execute chunks of jobs. Chunks of short jobs grow, so that sending them costs little."""

    def __init__(
        self, executor: Executor, jobs: Sequence[tuple[int, Job]], contents: Contents, version: str, window: int | None
    ):
        self._executor, self._contents, self._version = executor, contents, version
        workers = getattr(executor, "_max_workers", None)
        self._window = window or (4 * workers if isinstance(workers, int) else 64)
        # Each with the number of its attempts so far.
        self._left = deque((index, job, 0) for index, job in jobs)
        self._pending: dict[Future[list[tuple[int, Outcome]]], list[tuple[int, Job, int]]] = {}
        self._ended: queue.SimpleQueue[Future[list[tuple[int, Outcome]]]] = queue.SimpleQueue()
        self._ready: deque[tuple[int, Outcome]] = deque()
        self._size = 1
        self._broken: BaseException | None = None

    def next(self) -> tuple[int, Outcome] | None:
        while not self._ready:
            self._fill()
            if not self._pending:
                if self._broken is not None:
                    raise _ended(self._broken) from self._broken
                return None
            self._take(self._ended.get())
        return self._ready.popleft()

    def _fill(self) -> None:
        while self._left and len(self._pending) < self._window and self._broken is None:
            # A job whose worker has ended is alone, since it may be the cause.
            count = 1 if self._left[0][2] else min(self._size, -(-len(self._left) // self._window) or 1)
            chunk = [self._left.popleft() for _ in range(min(count, len(self._left)))]
            jobs = tuple((index, job) for index, job, _ in chunk)
            try:
                contents = self._contents.of(job for _, job in jobs)
                future = self._executor.submit(work, Chunk(jobs, contents, self._version))
            except Exception as error:
                self._broken = error
                self._left.extendleft(reversed(chunk))
                return
            self._pending[future] = chunk
            future.add_done_callback(self._ended.put)

    def _take(self, future: Future[list[tuple[int, Outcome]]]) -> None:
        chunk = self._pending.pop(future, None)
        if chunk is None:
            return
        error = _error_of(future)
        if error is None:
            done = future.result()
            mean = sum(outcome.elapsed for _, outcome in done) / len(done)
            self._size = max(1, min(CHUNK_JOBS, round(CHUNK_SECONDS / max(mean, 1e-4))))
            self._ready.extend(done)
        elif isinstance(error, WorkerMismatch):
            raise error
        else:
            for index, job, attempts in reversed(chunk):
                if attempts + 1 < ATTEMPTS:
                    self._left.appendleft((index, job, attempts + 1))
                else:
                    self._ready.append((index, Outcome(error=_lost(error))))

    def stop(self) -> None:
        self._left.clear()
        for future in list(self._pending):
            future.cancel()

    def finished(self) -> Iterator[tuple[int, Outcome]]:
        yield from self._ready
        self._ready.clear()
        with contextlib.suppress(queue.Empty):
            while True:
                future = self._ended.get_nowait()
                if self._pending.pop(future, None) is not None and _error_of(future) is None:
                    yield from future.result()


#: A call of the command: its arguments, its standard input, and what it writes.
Call = tuple[Sequence[str], Optional[str], Mapping[str, Any]]


def check_executor(executor: object) -> None:
    """Rejects an object that executes nothing, such as a class of executors."""
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        meant = f"; did you mean {executor.__name__}()?" if isinstance(executor, type) else ""
        raise TypeError(f"`executor` is a concurrent.futures.Executor, not {executor!r}{meant}")


def execute_in(executor: Executor, calls: Sequence[Call]) -> list[Answer]:
    """Executes calls of the command in workers, and writes the files that they send back. The first failed call ends
    the others.
    """
    contents = Contents()
    jobs = [contents.job(*call) for call in calls]
    engine = Remote(executor, list(enumerate(jobs)), contents, version(), None)
    answers: dict[int, Answer] = {}
    try:
        while (got := engine.next()) is not None:
            index, outcome = got
            if outcome.answer is None:
                raise outcome.error or _lost(CancelledWork())
            write_outputs(jobs[index], outcome)
            answers[index] = outcome.answer
    except BaseException:
        engine.stop()
        raise
    return [answers[index] for index in range(len(jobs))]


def _error_of(future: Future[list[tuple[int, Outcome]]]) -> BaseException | None:
    return CancelledWork() if future.cancelled() else future.exception()


class CancelledWork(Exception):
    """The executor has cancelled a job."""

    def __str__(self) -> str:
        return "the executor has cancelled the job"


class LostWorker(VruntimeError):
    """The workers of a job have ended without a result."""


def _lost(error: BaseException) -> LostWorker:
    cause = of_exception(error).message
    message = f"{ATTEMPTS} workers have ended without a result; the last: {cause}"
    help = "a worker may lack memory or the Python package: its log has the reason"
    return LostWorker([Message("error", message, help=help, text=f"{message}\n  help: {help}")])


def _ended(error: BaseException) -> ExecutorEnded:
    message = f"the executor accepts no more work: {of_exception(error).message}"
    help = "with `dataset`, finished runs are in it, and the next call of the sweep does the others"
    return ExecutorEnded([Message("error", message, help=help, text=f"{message}\n  help: {help}")])
