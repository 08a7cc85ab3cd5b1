"""Sweeps and comparisons in executors; datasets."""

import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from concurrent import futures
from unittest import mock

import vruntime
from tests import HOGS, ROOT
from tests.executors import Elsewhere, Flaky, dask, inside, loky, needs, pool, ray
from vruntime._job import Job, Outcome, write_outputs

AXES = {"seed": [1, 2, 3], "kernel": ["6.1", "6.12"]}
OPTIONS = {"machine": 1, "duration": "50ms", "progress": False}


def hogs(count):
    return {"tasks": {"hog": {"instance": count, "loop": -1, "run": 1000}}}


class Executors(unittest.TestCase):
    def test_rows_are_those_of_one_process(self):
        axes = {**AXES, "seed": range(12)}
        alone = vruntime.sweep(HOGS, axes, **OPTIONS)
        for workers in (1, 20):
            with self.subTest(workers), pool(workers) as executor:
                sweep = vruntime.sweep(HOGS, axes, executor=executor, **OPTIONS)
                self.assertEqual(sweep.rows("tasks"), alone.rows("tasks"))
                self.assertEqual([point.of for point in sweep], [point.of for point in alone])

    def test_a_class_is_no_executor(self):
        for run in (
            lambda: vruntime.sweep(HOGS, AXES, executor=futures.ProcessPoolExecutor, **OPTIONS),
            lambda: vruntime.compare(HOGS, kernel=["6.1", "6.12"], executor=futures.ProcessPoolExecutor),
            lambda: vruntime.compare(HOGS, kernel=["6.1", "6.12"], executor=2),
        ):
            with self.assertRaisesRegex(TypeError, "`executor` is a concurrent.futures.Executor, not "):
                run()

    @needs("joblib")
    def test_joblib(self):
        alone = vruntime.sweep(HOGS, AXES, **OPTIONS)
        with loky() as executor:
            self.assertEqual(vruntime.sweep(HOGS, AXES, executor=executor, **OPTIONS).rows(), alone.rows())

    def test_a_comparison_is_split_by_seeds(self):
        """Each seed is a job, and all jobs together give what one process gives."""
        scenario = (
            'duration = "200ms"\n[groups."/limited"]\nmax = "50ms/100ms"\n'
            '[[task]]\nname = "hog"\ninstance = 3\nrun = "1ms"\n'
            '[[task]]\nname = "beat"\ngroup = "/limited"\nrun = "3ms"\nsleep = "1ms"\n'
            '[[task]]\nname = "round"\nrun = "2ms"\nperiod = "10ms"\n'
        )
        options = {"kernel": ["6.1", "6.12+NO_RUN_TO_PARITY"], "machine": [1, 2], "target": "5ms", "repeat": 4}
        for more in ({}, {"seed": 7}, {"rules": "comm=hog: nice=5"}):
            with self.subTest(more):
                worker = Elsewhere()
                split = vruntime.compare(vruntime.Toml(scenario), executor=worker, **options, **more)
                self.assertEqual(worker.jobs, 1 if "rules" in more else 4)
                alone = vruntime.compare(vruntime.Toml(scenario), **options, **more)
                self.assertEqual(split.json, alone.json)
                self.assertEqual(split.messages, alone.messages)
        with pool(2) as executor:
            split = vruntime.compare(HOGS, kernel=["6.1", "6.12"], machine=1, duration="50ms", executor=executor)
            alone = vruntime.compare(HOGS, kernel=["6.1", "6.12"], machine=1, duration="50ms")
            self.assertEqual(split.json, alone.json)

    def test_sentences_on_entitlements_do_not_depend_on_the_executor(self):
        """What stands out is a class, and the limit of its group explains it."""
        scenario = (
            'duration = "1s"\nmachine = "8"\n[groups."/pod"]\nmax = "500m"\n'
            '[[task]]\nname = "t"\ninstance = 4\ngroup = "/pod"\nperiod = "100ms"\nrun = "20ms"\n'
        )
        options = {"kernel": ["6.1", "6.12"], "repeat": 3}
        alone = vruntime.compare(vruntime.Toml(scenario), **options)
        self.assertIn("group `/pod` got", alone.stands_out)
        self.assertEqual(vruntime.compare(vruntime.Toml(scenario), executor=Elsewhere(), **options).json, alone.json)

    def test_a_comparison_with_a_failed_part_fails(self):
        with self.assertRaises(vruntime.VruntimeError) as caught:
            vruntime.compare(HOGS, kernel=["6.1", "6.99"], machine=1, duration="50ms", executor=Elsewhere())
        self.assertIn("6.99", caught.exception.message)

    @needs("ray")
    def test_ray(self):
        alone = vruntime.sweep(HOGS, AXES, **OPTIONS)
        options = {"kernel": ["6.1", "6.12"], "machine": 1, "duration": "50ms", "repeat": 2}
        with ray() as executor:
            self.assertEqual(vruntime.sweep(HOGS, AXES, executor=executor, **OPTIONS).rows(), alone.rows())
            both = vruntime.compare(HOGS, executor=executor, **options)
            self.assertEqual(both.json, vruntime.compare(HOGS, **options).json)

    @needs("distributed")
    def test_dask(self):
        alone = vruntime.sweep(HOGS, AXES, **OPTIONS)
        one = vruntime.compare(HOGS, kernel=["6.1", "6.12"], machine=1, duration="50ms", repeat=2)
        with dask() as executor:
            self.assertEqual(vruntime.sweep(HOGS, AXES, executor=executor, **OPTIONS).rows(), alone.rows())
            both = vruntime.compare(
                HOGS, kernel=["6.1", "6.12"], machine=1, duration="50ms", repeat=2, executor=executor
            )
            self.assertEqual(both.json, one.json)

    @needs("distributed", "pyarrow")
    def test_dask_replaces_a_killed_worker(self):
        axes = {"seed": range(60)}
        alone = vruntime.sweep(HOGS, axes, **OPTIONS)
        with tempfile.TemporaryDirectory() as folder, dask() as executor:
            killed = []

            def kill():
                while not killed:
                    busy = executor.client.run(os.getpid)
                    if any(executor.client.processing().values()):
                        killed.append(next(iter(busy.values())))
                        os.kill(killed[0], signal.SIGKILL)

            killer = threading.Thread(target=kill)
            killer.start()
            sweep = vruntime.sweep(HOGS, axes, executor=executor, dataset=folder, parallel=4, **OPTIONS)
            killer.join()
            self.assertEqual(len(killed), 1)
            self.assertEqual(sweep.failed, ())
            self.assertEqual(sweep.rows(), alone.rows())

    @needs("pyarrow")
    def test_a_broken_pool_loses_nothing(self):
        """``ProcessPoolExecutor`` ends with its first worker: the next call goes on."""
        axes = {"seed": range(200)}
        with tempfile.TemporaryDirectory() as folder:
            with pool(2) as executor:

                def kill():
                    while not executor._processes or not _parts(folder):
                        time.sleep(0.01)
                    os.kill(next(iter(executor._processes)), signal.SIGKILL)

                killer = threading.Thread(target=kill)
                with mock.patch("vruntime._dataset.PART_SECONDS", (0.05, 0.05)):
                    killer.start()
                    with self.assertRaisesRegex(vruntime.VruntimeError, "(?s)accepts no more work.*next call"):
                        vruntime.sweep(HOGS, axes, executor=executor, dataset=folder, **OPTIONS)
                killer.join()
            finished = len(vruntime.Sweep.open(folder))
            self.assertGreater(finished, 0)
            self.assertLess(finished, 200)
            rest = Elsewhere()
            sweep = vruntime.sweep(HOGS, axes, executor=rest, dataset=folder, **OPTIONS)
            self.assertEqual(rest.jobs, 200 - finished)
        self.assertEqual(sweep.rows(), vruntime.sweep(HOGS, axes, **OPTIONS).rows())

    def test_a_worker_that_ends_costs_a_try(self):
        flaky = Flaky(seeds=[2, 3], times=2)
        sweep = vruntime.sweep(HOGS, AXES, executor=flaky, **OPTIONS)
        self.assertEqual(sweep.rows(), vruntime.sweep(HOGS, AXES, **OPTIONS).rows())
        hopeless = vruntime.sweep(HOGS, AXES, executor=Flaky(seeds=[2], times=99), **OPTIONS)
        self.assertEqual([point.of["seed"] for point in hopeless.failed], [2, 2])
        self.assertIn("3 workers have ended without a result; the last: MemoryError", hopeless.failed[0].error.message)
        with self.assertRaisesRegex(vruntime.VruntimeError, "in the sweep: seed = 2, kernel = '6.1'"):
            vruntime.sweep(HOGS, AXES, executor=Flaky(seeds=[2], times=99), errors="raise", **OPTIONS)

    def test_files_travel_by_content(self):
        scenario = '[scenario]\nmachine = "1"\n[[workload]]\nrtapp = "../apps/hogs.json"\n'
        with tempfile.TemporaryDirectory() as folder, inside(folder):
            pathlib.Path("apps").mkdir()
            pathlib.Path("here").mkdir()
            pathlib.Path("apps/hogs.json").write_text(json.dumps(HOGS))
            path = pathlib.Path("here/both.toml")
            path.write_text(scenario)
            pathlib.Path("rules.toml").write_text('[[rule]]\nmatch = "comm=hog-0"\nset = "nice=5"\n')
            axes = {"seed": [1, 2]}
            for work in (path, path.absolute(), vruntime.Toml(scenario.replace("../", "./"))):
                with self.subTest(work):
                    worker = Elsewhere()
                    sweep = vruntime.sweep(work, axes, duration="50ms", executor=worker)
                    self.assertEqual(sweep.failed, ())
                    self.assertEqual(sweep.rows(), vruntime.sweep(work, axes, duration="50ms").rows())
                    self.assertEqual([point.run.json for point in sweep], _jsons(work, axes))
                    self.assertIn(json.dumps(HOGS).encode(), worker.chunks[0].contents.values())
            path.write_text(scenario.replace("machine", "machin"))
            for named in (path, path.absolute()):
                # The message has the caller's path, not that in the worker.
                error = vruntime.sweep(named, {"seed": [1]}, executor=Elsewhere()).failed[0].error
                with self.assertRaises(vruntime.VruntimeError) as caught:
                    vruntime.run(named, seed=1)
                self.assertEqual((error.file, error.line), (os.fspath(named), 2))
                self.assertEqual(error.message, caught.exception.message)

    def test_what_a_worker_writes_is_sent_back(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "sweep")
            vruntime.sweep(HOGS, {"seed": [1, 2]}, executor=Elsewhere(), out=out, **OPTIONS)
            vruntime.sweep(HOGS, {"seed": [1, 2]}, out=pathlib.Path(folder, "alone"), **OPTIONS)
            for name in ("seed=1/trace.perfetto-trace", "seed=2/trace.txt", "seed=2/digest"):
                alone = pathlib.Path(folder, "alone", name).read_bytes()
                self.assertEqual(pathlib.Path(out, name).read_bytes(), alone, name)
            page = pathlib.Path(folder, "page.html")
            options = {"kernel": ["6.1", "6.12"], "machine": 1, "duration": "50ms"}
            both = vruntime.compare(HOGS, **options, executor=Elsewhere(), html=page)
            self.assertEqual(both.json, vruntime.compare(HOGS, **options).json)
            self.assertIn("6.12", page.read_text())

    @unittest.skipUnless(os.path.exists("/dev/full"), "no device is always full")
    def test_an_error_of_writing_names_the_file(self):
        outcome = Outcome(written={"out": {"": b"x"}})
        with self.assertRaisesRegex(OSError, "No space left on device: '/dev/full'"):
            write_outputs(Job((), outputs=(("out", "/dev/full"),)), outcome)

    def test_a_comparison_has_the_error_of_its_command(self):
        with self.assertRaisesRegex(vruntime.VruntimeError, "6.13"):
            vruntime.compare(HOGS, kernel=["6.12", "6.13"], executor=Elsewhere())

    def test_a_worker_of_another_version_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder, "other")
            other.write_text("#!/bin/sh\necho vruntime 9.9.9\n")
            other.chmod(0o755)
            expected = (
                f"the worker .* has vruntime 9.9.9 .*, and the caller has {vruntime.version()}\n  help: install one"
            )
            for call in (vruntime.sweep, vruntime.compare):
                with self.subTest(call), self.assertRaisesRegex(vruntime.VruntimeError, expected):
                    axes = [{"kernel": ["6.12"]}] if call is vruntime.sweep else []
                    call(HOGS, *axes, machine=1, duration="50ms", executor=Elsewhere(VRUNTIME=str(other)))
            with self.assertRaisesRegex(vruntime.VruntimeError, "has no vruntime: there is no command 'nowhere'"):
                vruntime.sweep(HOGS, AXES, executor=Elsewhere(VRUNTIME="nowhere"), **OPTIONS)

    def test_short_runs_are_sent_together(self):
        worker = Elsewhere()
        sweep = vruntime.sweep(HOGS, {"seed": range(200)}, executor=worker, parallel=4, **OPTIONS)
        self.assertEqual((len(sweep), worker.jobs), (200, 200))
        self.assertLess(len(worker.chunks), 100)

    def test_what_is_no_executor_is_refused(self):
        for options, expected in [
            ({"executor": 4}, "`executor` is a concurrent.futures.Executor, not 4"),
            ({"errors": "ignore"}, "`errors` is 'raise' or 'keep'"),
            ({"executor": Elsewhere(), "machine": "host"}, "the machine 'host' is another one on each worker"),
        ]:
            with self.subTest(options), self.assertRaisesRegex((TypeError, ValueError), expected):
                vruntime.sweep(HOGS, {"seed": [1]}, **options)


@needs("pyarrow")
class Datasets(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_it_has_all_rows_in_a_fixed_order(self):
        import pyarrow.parquet

        bytes_ = []
        for name, executor in (("a", None), ("b", Elsewhere())):
            path = os.path.join(self.folder, name)
            sweep = vruntime.sweep(HOGS, AXES, dataset=path, executor=executor, **OPTIONS)
            table = pyarrow.parquet.read_table(os.path.join(path, "classes.parquet"))
            rows = [{key: value for key, value in row.items() if value is not None} for row in table.to_pylist()]
            whole = [{key: value for key, value in row.items() if value is not None} for row in sweep.rows()]
            self.assertEqual(rows, whole)
            self.assertEqual(vruntime.Sweep.open(path).rows("tasks"), sweep.rows("tasks"))
            bytes_.append(pathlib.Path(path, "classes.parquet").read_bytes())
        self.assertEqual(*bytes_)

    def test_finished_runs_are_skipped(self):
        first, more, again, changed = (Elsewhere() for _ in range(4))
        vruntime.sweep(hogs, {"count": [1, 2], "seed": [1, 2]}, executor=first, dataset=self.folder, **OPTIONS)
        axes = {"count": [1, 2, 3], "seed": [1, 2]}
        sweep = vruntime.sweep(hogs, axes, executor=more, dataset=self.folder, **OPTIONS)
        self.assertEqual((first.jobs, more.jobs), (4, 2))
        self.assertEqual(sweep.rows(), vruntime.sweep(hogs, axes, **OPTIONS).rows())
        self.assertEqual(vruntime.Sweep.open(self.folder).rows(), sweep.rows())
        same = vruntime.sweep(hogs, axes, executor=again, dataset=self.folder, **OPTIONS)
        self.assertEqual((again.jobs, same.rows()), (0, sweep.rows()))
        # Another workload of the same parameters is another run.
        other = vruntime.sweep(
            lambda count: hogs(count + 1), axes, executor=changed, dataset=self.folder, **{**OPTIONS, "duration": 0.01}
        )
        self.assertEqual(changed.jobs, 6)
        self.assertEqual(vruntime.Sweep.open(self.folder).rows(), other.rows())

    def test_a_changed_file_is_another_run(self):
        path = pathlib.Path(self.folder, "hogs.json")
        jobs = []
        for count in (1, 1, 2):
            path.write_text(json.dumps(hogs(count)))
            worker = Elsewhere()
            sweep = vruntime.sweep(path, {"seed": [1]}, executor=worker, dataset=f"{self.folder}/found", **OPTIONS)
            jobs.append(worker.jobs)
            self.assertEqual(sweep.rows()[0]["tasks"], count)
        self.assertEqual(jobs, [1, 0, 1])

    def test_a_failed_run_is_a_row_and_is_tried_again(self):
        axes = {"kernel": ["6.12", "6.13"], "count": [1, 2]}

        def work(count):
            if count == 2 and broken:
                raise LookupError("no such count")
            return hogs(count)

        broken = True
        sweep = vruntime.sweep(work, axes, dataset=self.folder, **OPTIONS)
        self.assertEqual(len(sweep.rows()), 4)
        errors = [row.get("error") for row in sweep.rows()]
        self.assertIsNone(errors[0])
        self.assertEqual([errors[1], errors[3]], ["LookupError: no such count"] * 2)
        self.assertIn("6.13", errors[2])
        self.assertEqual(vruntime.Sweep.open(self.folder).rows(), sweep.rows())
        with self.assertRaisesRegex(vruntime.VruntimeError, "6.13"):
            _ = sweep[2].run
        self.assertIn("failed: ", sweep._repr_html_())
        self.assertIn("4 runs, 3 failed", repr(sweep))
        broken = False
        worker = Elsewhere()
        sweep = vruntime.sweep(work, axes, dataset=self.folder, executor=worker, **OPTIONS)
        self.assertEqual([point.of for point in sweep.failed], [sweep[2].of, sweep[3].of])
        self.assertEqual(worker.jobs, 3)
        self.assertEqual([row.get("error") for row in vruntime.Sweep.open(self.folder).rows()[:2]], [None, None])

    def test_ctrl_c_keeps_finished_runs(self):
        program = textwrap.dedent("""
            import contextlib, os, signal, sys, threading, time
            import vruntime
            from tests.executors import pool
            from tests.test_executors import HOGS, OPTIONS

            class Interrupted(vruntime._sweep.Bar):
                runs = 0

                def ended(self, failed):
                    Interrupted.runs += 1
                    if Interrupted.runs == 5:
                        os.kill(os.getpid(), signal.SIGINT)

            if __name__ == "__main__":
                # Shells start background jobs with SIGINT ignored, and so would this test.
                signal.signal(signal.SIGINT, signal.default_int_handler)
                vruntime._sweep.Bar = Interrupted
                with pool(2) if sys.argv[2] == "pool" else contextlib.nullcontext() as executor:
                    try:
                        vruntime.sweep(HOGS, {"seed": range(200)}, executor=executor, dataset=sys.argv[1], **OPTIONS)
                    except KeyboardInterrupt:
                        print("interrupted")
        """)
        environment = {**os.environ, "PYTHONPATH": os.fspath(ROOT / "python")}
        for kind in ("threads", "pool"):
            with self.subTest(kind):
                folder = os.path.join(self.folder, kind)
                script = os.path.join(self.folder, "program.py")
                pathlib.Path(script).write_text(program)
                call = [sys.executable, "-B", script, folder, kind]
                done = subprocess.run(call, capture_output=True, text=True, env=environment)
                self.assertEqual(done.stdout, "interrupted\n", done.stderr)
                finished = vruntime.Sweep.open(folder)
                self.assertGreaterEqual(len(finished), 5)
                self.assertLess(len(finished), 200)
                self.assertEqual(finished.failed, ())
                rest = Elsewhere()
                axes = {"seed": range(200)}
                sweep = vruntime.sweep(HOGS, axes, dataset=folder, executor=rest, **OPTIONS)
                self.assertEqual(rest.jobs, 200 - len(finished))
                self.assertEqual(sweep[7].run.digest, vruntime.run(HOGS, seed=7, machine=1, duration="50ms").digest)

    def test_two_sweeps_do_not_share_a_folder(self):
        def nested(count):
            return hogs(count)

        class Second(Elsewhere):
            def submit(self, function, /, *arguments, **named):
                try:
                    vruntime.sweep(nested, {"count": [9]}, dataset=folder, **OPTIONS)
                except vruntime.VruntimeError as error:
                    messages.append(error.message)
                return super().submit(function, *arguments, **named)

        folder, messages = self.folder, []
        vruntime.sweep(nested, {"count": [1]}, dataset=folder, executor=Second(), **OPTIONS)
        self.assertEqual(messages, [f"another sweep writes to {folder}"])
        vruntime.sweep(nested, {"count": [2]}, dataset=folder, **OPTIONS)

    def test_what_is_no_dataset_is_told(self):
        with self.assertRaisesRegex(vruntime.VruntimeError, "is no dataset of a sweep"):
            vruntime.Sweep.open(self.folder)
        vruntime.sweep(HOGS, {"seed": [1]}, dataset=self.folder, **OPTIONS)
        part = pathlib.Path(self.folder, "runs", _parts(self.folder)[0])
        part.write_bytes(b"PAR1")
        with self.assertRaisesRegex(vruntime.VruntimeError, f"cannot read {part}: .*\n  help: remove the file"):
            vruntime.Sweep.open(self.folder)

    @needs("tqdm")
    def test_a_progress_bar_shows_the_state(self):
        axes = {"seed": [1, 2], "kernel": ["6.12", "6.13"]}
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown):
            vruntime.sweep(HOGS, {"seed": [1]}, kernel="6.12", dataset=self.folder, **OPTIONS)
            vruntime.sweep(HOGS, axes, dataset=self.folder, **{**OPTIONS, "progress": True})
        self.assertIn("4/4", shown.getvalue())
        self.assertIn("failed=2", shown.getvalue())


class WithoutPackages(unittest.TestCase):
    def test_what_is_missing_is_told(self):
        for package, options in (("pyarrow", {"dataset": "found"}), ("tqdm", {"progress": True})):
            hidden = mock.patch.dict(sys.modules, {package: None})
            absent = mock.patch("vruntime._progress._installed", return_value=False)
            with self.subTest(package), hidden, absent, self.assertRaisesRegex(ImportError, f"pip install {package}"):
                vruntime.sweep(HOGS, {"seed": [1]}, machine=1, duration="50ms", **options)
        self.assertFalse(os.path.exists("found"))


def _parts(folder):
    runs = os.path.join(folder, "runs")
    return sorted(name for name in os.listdir(runs) if name.endswith(".parquet")) if os.path.isdir(runs) else []


def _jsons(work, axes):
    return [point.run.json for point in vruntime.sweep(work, axes, duration="50ms")]
