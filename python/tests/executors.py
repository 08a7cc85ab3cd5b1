"""Executors for the tests, and what a test needs of packages that may be absent."""

import contextlib
import importlib.util
import os
import pickle
import tempfile
import unittest
import warnings
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from unittest import mock


def needs(*packages):
    """Skips a test, with a message, unless the packages are installed."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


class Elsewhere(Executor):
    """A worker that shares nothing with the caller but what is sent: it has another working folder and environment."""

    def __init__(self, **environment):
        self.environment = environment
        self.chunks = []

    def submit(self, function, /, *arguments, **named):
        future = Future()
        sent = pickle.dumps((function, arguments, named))
        environment = mock.patch.dict(os.environ, self.environment)
        with tempfile.TemporaryDirectory() as empty, environment, inside(empty):
            try:
                function, arguments, named = pickle.loads(sent)
                self.chunks.append(arguments[0])
                future.set_result(pickle.loads(pickle.dumps(function(*arguments, **named))))
            except Exception as error:
                future.set_exception(pickle.loads(pickle.dumps(error)))
            if os.listdir(empty):
                raise AssertionError(f"the worker's folder has {os.listdir(empty)}")
        return future

    @property
    def jobs(self):
        return sum(len(chunk.jobs) for chunk in self.chunks)


class Flaky(Elsewhere):
    """A worker that fails for certain seeds, as one that the system kills."""

    def __init__(self, seeds, times):
        super().__init__()
        self.left = {f"--seed={seed}": times for seed in seeds}

    def submit(self, function, /, *arguments, **named):
        for _, job in arguments[0].jobs:
            for argument in job.argv:
                if self.left.get(argument, 0) > 0:
                    self.left[argument] -= 1
                    future = Future()
                    future.set_exception(MemoryError("the worker was killed"))
                    return future
        return super().submit(function, *arguments, **named)


@contextlib.contextmanager
def pool(workers=2):
    with ProcessPoolExecutor(workers) as executor:
        yield executor


@contextlib.contextmanager
def loky(workers=2):
    from joblib.externals.loky import get_reusable_executor

    executor = get_reusable_executor(workers)
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, kill_workers=True)


@contextlib.contextmanager
def dask(workers=2):
    with warnings.catch_warnings():
        # Dask's own, at its end.
        warnings.simplefilter("ignore")
        from dask.distributed import Client, LocalCluster

        options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0"}
        with LocalCluster(**options, silence_logs="CRITICAL") as cluster, Client(cluster) as client:
            executor = client.get_executor()
            executor.client = client
            yield executor


class Ray(Executor):
    """Ray has no ``concurrent.futures.Executor`` for its tasks. The futures of its tasks are those of the library."""

    def submit(self, function, /, *arguments, **named):
        import ray

        return ray.remote(function).remote(*arguments, **named).future()


@contextlib.contextmanager
def ray(workers=2):
    import ray

    try:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        # Its processes give up after a time, as on a machine with much other work.
        raise unittest.SkipTest(f"Ray does not start: {error}") from error
    try:
        yield Ray()
    finally:
        ray.shutdown()


@contextlib.contextmanager
def inside(folder):
    """Changes the working folder."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
