import copy
import datetime
import inspect
import json
import pathlib
import pickle
import re
import tempfile
import unittest
from unittest import mock

import vruntime
from tests import DEMO, HOGS


class Results(unittest.TestCase):
    def test_numbers_are_those_of_the_command(self):
        run = vruntime.run(DEMO, kernel="6.12", duration="200ms", repeat=2)
        printed = vruntime.command("run", str(DEMO), "--kernel=6.12", "--duration=200ms", "--repeat=2", "--json").json()
        self.assertEqual(run.json, printed)
        self.assertEqual((run.name, run.kernel, run.nr_cpus, run.duration_ns), ("demo", "6.12", 8, 200_000_000))
        self.assertEqual([seed.seed for seed in run.seeds], [1, 2])
        self.assertEqual(run.digest, printed["observed"][0]["digest"])
        worker = run.classes["web/worker"]
        there = printed["observed"][0]["classes"]["web/worker"]
        self.assertEqual((worker.cpu_ns, worker.tasks), (there["cpu_ns"], 12))
        self.assertEqual(worker.wakeup_to_run_ns.p999, there["wakeup_to_run_ns"]["p99.9"])
        self.assertIsNone(worker.wakeup_latency_ns)
        self.assertEqual(run.groups["build"].weight, 100)
        self.assertEqual(len(run.cpus), 8)
        self.assertEqual(run.machine["elapsed_ns"], 200_000_000)
        share = next(one for one in run.over_seeds if (one.class_, one.metric) == ("web/worker", "share"))
        self.assertLessEqual(share.min, share.mean)
        self.assertLessEqual(share.mean, share.max)

    def test_what_is_not_there_is_told_what_is(self):
        task = vruntime.run(HOGS, machine=1, duration=0.01).tasks["hog-0"]
        with self.assertRaisesRegex(AttributeError, "TaskResult 'hog-0' has no 'cpu_s'; it has .*cpu_ns"):
            _ = task.cpu_s
        self.assertFalse(hasattr(task, "anything"))

    def test_a_dictionary_is_as_its_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "-hogs.json")
            path.write_text(json.dumps(HOGS))
            of_file = vruntime.run(path, machine=1, duration="1s")
        self.assertEqual(of_file.digest, vruntime.run(HOGS, machine=1, duration="1s").digest)

    def test_a_file_may_begin_with_a_dash(self):
        with tempfile.TemporaryDirectory() as folder, _in(folder):
            pathlib.Path("-hogs.json").write_text(json.dumps(HOGS))
            self.assertEqual(vruntime.run("-hogs.json", machine=1, duration="1s").name, "-hogs")

    def test_a_text_is_a_scenario(self):
        text = '[scenario]\nmachine = "2"\nduration = "100ms"\n[[task]]\nname = "t"\nrun = "1ms"\nsleep = "9ms"\n'
        run = vruntime.run(vruntime.Toml(text))
        self.assertEqual((run.nr_cpus, run.tasks["t"].loops), (2, 9))

    def test_what_is_promised_is_there(self):
        run = vruntime.run(HOGS, machine=1, duration="100ms")
        for one in (run.classes["hog"], run.groups["/"], run.cpus[0]):
            for name in [*type(one).__annotations__, *(name for name in dir(type(one)) if not name.startswith("_"))]:
                self.assertTrue(hasattr(one, name), f"{type(one).__name__}.{name}")

    def test_a_limit_is_felt(self):
        limited = '[groups."/g"]\nmax = "500m"\n[[task]]\nname = "hog"\ngroup = "/g"\nrun = "1ms"\n'
        run = vruntime.run(vruntime.Toml(limited), machine=1, duration="1s")
        self.assertAlmostEqual(run.groups["/g"].throttled_ns, 500_000_000, delta=100_000_000)
        self.assertGreater(run.groups["/g"].nr_throttled, 5)
        self.assertEqual(run.groups["/"].throttled_ns, 0)

    def test_times(self):
        hundred = [0.1, "100ms", datetime.timedelta(milliseconds=100)]
        for duration in hundred:
            self.assertEqual(vruntime.run(HOGS, machine=1, duration=duration).duration_ns, 100_000_000)
        for wrong in ([], True):
            with self.assertRaisesRegex(TypeError, "a time is"):
                vruntime.run(HOGS, duration=wrong)
        for wrong in (float("nan"), float("inf")):
            with self.assertRaisesRegex(ValueError, "a time is"):
                vruntime.run(HOGS, duration=wrong)

    def test_what_would_be_something_else_is_refused(self):
        for options, expected in [
            ({"kernel": 6.10}, "a kernel is a text"),
            ({"kernel": ["6.1", "6.12"]}, "vruntime.compare"),
            ({"machine": [1, 2]}, "vruntime.sweep"),
            ({"machine": True}, "a machine is"),
            ({"features": {"RUN_TO_PARITY": False}}, "`features` is a text or a list"),
            ({"features": [1]}, "1 is none"),
            ({"rules": {"a": 1}}, "`rules` is a text or a list"),
            ({"settings": ["base_slice_ns"]}, "`settings` is a dictionary"),
            ({"settings": {"base_slice_ns": 2.5}}, "`base_slice_ns` is a whole number"),
            ({"gate": "no"}, "`gate` is True or False"),
            ({"strict": 0}, "`strict` is True or False"),
            ({"repeat": True}, "`repeat` is a whole number"),
        ]:
            with self.subTest(options), self.assertRaisesRegex(TypeError, expected):
                vruntime.run(HOGS, **options)
        with self.assertRaisesRegex(TypeError, "vruntime.Toml"):
            vruntime.run('[scenario]\nmachine = "2"\n')
        with self.assertRaisesRegex(ValueError, "JSON"):
            vruntime.run({"tasks": {"a": {"run": float("nan")}}})

    def test_none_is_the_default(self):
        nones = dict.fromkeys(["kernel", "rules", "seed", "settings", "features", "gate", "analyse", "out", "html"])
        run = vruntime.run(HOGS, machine=1, duration="100ms", **nones)
        self.assertEqual(run.digest, vruntime.run(HOGS, machine=1, duration="100ms").digest)

    def test_what_python_and_numpy_have_for_numbers(self):
        class Scalar:
            """As those of numpy."""

            ndim = 0

            def __init__(self, value):
                self.value = value

            def item(self):
                return self.value

            tolist = item

        work = {"tasks": {"hog": {"instance": Scalar(2), "loop": -1, "run": 1000, "cpus": range(1)}}}
        options = {"repeat": Scalar(1), "hz": Scalar(250), "duration": Scalar(0.1), "strict": Scalar(False)}
        plain = {"tasks": {"hog": {"instance": 2, "loop": -1, "run": 1000, "cpus": [0]}}}
        slices = {"settings": {"base_slice_ns": 3e6}}
        one = vruntime.run(work, machine=Scalar(1), **options, **slices)
        other = vruntime.run(plain, machine=1, duration="100ms", settings={"base_slice_ns": 3_000_000})
        self.assertEqual(one.digest, other.digest)

    def test_results_can_be_sent_and_copied(self):
        run = vruntime.run(HOGS, machine=1, duration="100ms")
        for other in (pickle.loads(pickle.dumps(run)), copy.deepcopy(run)):
            self.assertEqual(other.tasks["hog-0"], run.tasks["hog-0"])
            self.assertEqual(other.groups["/"].cpu_ns, run.groups["/"].cpu_ns)
        with self.assertRaises(vruntime.VruntimeError) as caught:
            vruntime.run("nowhere.json")
        for other in (pickle.loads(pickle.dumps(caught.exception)), copy.copy(caught.exception)):
            self.assertEqual((str(other), other.messages), (str(caught.exception), caught.exception.messages))

    def test_what_they_have_is_listed(self):
        task = vruntime.run(HOGS, machine=1, duration="100ms").tasks["hog-0"]
        self.assertLessEqual({"cpu_ns", "nr_migrations", "loop_duration_ns"}, set(dir(task)))
        self.assertIn("<td>cpu_ns</td>", task._repr_html_())

    def test_an_unknown_name_is_an_error_that_lists_names(self):
        result = vruntime.run(DEMO, kernel="6.12", duration="50ms")
        with self.assertRaisesRegex(KeyError, "there is no 'web/workr'; there are web/worker, "):
            result.classes["web/workr"]
        with self.assertRaisesRegex(KeyError, "there is no 'x'; there are .*, [.]{3}"):
            result.tasks["x"]
        self.assertIsNone(result.classes.get("web/workr"))
        self.assertNotIn("web/workr", result.classes)

    def test_groups_with_and_without_the_slash(self):
        groups = vruntime.run(DEMO, kernel="6.12", duration="50ms").groups
        self.assertIs(groups["/web"], groups["web"])
        self.assertIs(groups.get("/web"), groups["web"])
        self.assertIn("web", groups)
        self.assertEqual(sorted(groups), ["/", "/build", "/desktop", "/web"])
        with self.assertRaisesRegex(KeyError, "there is no group 'wob'; there are /, .*web"):
            groups["wob"]

    def test_options_reach_the_command(self):
        work = {"tasks": {**HOGS["tasks"], "waker": {"loop": -1, "run": 2000, "sleep": 8000}}}
        plain = vruntime.run(work, machine=1, duration="1s")
        for name, value in {
            "kernel": "6.1",
            "hz": 1000,
            "costs": "zero",
            "seed": 7,
            "settings": {"base_slice_ns": 20_000_000},
            "features": ["NO_WAKEUP_PREEMPTION"],
            "gate": True,
            "rules": "hog-0: nice=5",
        }.items():
            other = vruntime.run(work, **{"machine": 1, "duration": "1s", name: value})
            self.assertNotEqual(other.digest, plain.digest, name)
        self.assertLess(other.tasks["hog-0"].share, 0.5 * other.tasks["hog-1"].share)
        self.assertEqual(vruntime.run(work, machine=1, duration="1s", gate=False).digest, plain.digest)

    def test_what_can_be_gone_through_once_is_not_lost(self):
        ruled = vruntime.run(HOGS, machine=1, duration="1s", rules=["hog-0: nice=5"])
        once = vruntime.run(HOGS, machine=1, duration="1s", rules=(rule for rule in ["hog-0: nice=5"]))
        self.assertEqual(once.digest, ruled.digest)

    def test_each_option_is_the_commands(self):
        """What reaches the command line, of every option: digests show only some."""
        for options, said in {
            ("kernel", "6.1"): "--kernel=6.1",
            ("machine", 4): "--machine=4",
            ("machine", pathlib.Path("m.toml")): "--machine=m.toml",
            ("duration", 2): "--duration=2000000000ns",
            ("repeat", 3): "--repeat=3",
            ("rules", "a: nice=1"): "--map=a: nice=1",
            ("rules", pathlib.Path("rules.toml")): "--map=rules.toml",
            ("seed", 7): "--seed=7",
            ("hz", 100): "--hz=100",
            ("preempt", "full"): "--preempt=full",
            ("costs", "vm"): "--costs=vm",
            ("features", "NO_PLACE_LAG"): "--feature=NO_PLACE_LAG",
            ("features", frozenset({"B", "A"})): "--feature=A --feature=B",
            ("gate", False): "--no-gate",
            ("gate", True): "--gate",
            ("autogroup", True): "--autogroup",
            ("autogroup", False): "--no-autogroup",
            ("rt_group_sched", True): "--rt-group-sched",
            ("group_switches", True): "--group-switches",
            ("target", "100ms"): "--target=100ms",
            ("threads_max", 9): "--threads-max=9",
            ("every", "5s"): "--every=5s",
            ("detect", True): "--detect",
            ("analyse", ("latency", "runqueue")): "--analyse=latency,runqueue",
            ("out", pathlib.Path("o")): "--out=o",
            ("html", "p.html"): "--html=p.html",
            ("strict", True): "--strict",
        }.items():
            name, value = options
            with mock.patch("vruntime._run.command", side_effect=InterruptedError) as command:
                with self.subTest(name), self.assertRaises(InterruptedError):
                    vruntime.run("w.json", **{name: value})
                asked = [word for word in command.call_args[0] if word not in ("run", "w.json", "--json", "--repeat=1")]
                self.assertEqual(" ".join(asked), said)
                self.assertIn(name, inspect.signature(vruntime.run).parameters)

    def test_every_option_of_the_command_is_here(self):
        text = vruntime.command("run", "--help").text
        options = {name.replace("-", "_") for name in re.findall(r"^ +(?:-\w, )?--([a-z-]+)", text, re.MULTILINE)}
        parameters = set(inspect.signature(vruntime.run).parameters) - {"workload"}
        called = {"map": "rules", "set": "settings", "feature": "features"}
        # Of `--json`; of files that pandas writes, too; of what is printed instead of results.
        elsewhere = {"json", "tables", "format", "rtapp_log", "debug_at", "task", "help", "version"}
        options = {called.get(name, name) for name in options if not name.startswith("no_")}
        self.assertEqual(options - elsewhere, parameters)

    def test_detect_and_analyse(self):
        run = vruntime.run(HOGS, machine=1, duration="1s", detect=True, analyse=["latency", "runqueue"])
        self.assertEqual(run.seeds[0].detected["violations"], [])
        self.assertIn("latency", json.dumps(run.seeds[0].analyses))

    def test_files_are_left(self):
        with tempfile.TemporaryDirectory() as folder:
            out, page = pathlib.Path(folder, "out"), pathlib.Path(folder, "page.html")
            vruntime.run(HOGS, machine=1, duration="100ms", out=out, html=page)
            self.assertGreater((out / "trace.perfetto-trace").stat().st_size, 1000)
            self.assertIn("<html", page.read_text())


class Rows(unittest.TestCase):
    def test_a_row_a_seed_and_an_entry(self):
        run = vruntime.run(HOGS, machine=2, duration="100ms", repeat=3)
        self.assertEqual(len(run.rows("tasks")), 6)
        self.assertEqual([row["cpu"] for row in run.rows("cpus")], [0, 1] * 3)
        first = run.rows()[0]
        self.assertEqual((first["kernel"], first["seed"], first["class"], first["tasks"]), ("6.12", 1, "hog", 2))
        self.assertIn("loop_duration_ns_p999", first)
        self.assertIn("cpu_stat_usage_usec", run.rows("groups")[0])
        self.assertNotIn("wakeup_latency_ns", first, "no task slept")
        share = next(row for row in run.rows("over_seeds") if row["metric"] == "share")
        self.assertLessEqual(share["min"], share["mean"])
        with self.assertRaisesRegex(
            ValueError, "'classes', 'tasks', 'groups', 'cpus', 'over_seeds', 'slices'; not of 'class'"
        ):
            run.rows("class")

    def test_a_frame_or_what_installs_it(self):
        run = vruntime.run(HOGS, machine=2, duration="100ms", repeat=3)
        try:
            import pandas
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pip install pandas"):
                run.frame()
            return
        frame = run.frame("tasks")
        self.assertIsInstance(frame, pandas.DataFrame)
        self.assertEqual(len(frame), 6)
        self.assertTrue((frame.groupby("seed").cpu_ns.sum() > 190_000_000).all())

    def test_shown(self):
        run = vruntime.run(HOGS, machine=1, duration="1s")
        head, _, titles, hog = str(run).splitlines()
        self.assertEqual(head, "stdin under Linux 6.12 on 1, 1 s, seed 1")
        self.assertEqual(titles.split()[:2], ["class", "tasks"])
        self.assertEqual(hog.split()[:2], ["hog", "2"])
        self.assertIn("<td>hog</td>", run._repr_html_())
        self.assertEqual(repr(run), "<vruntime.Run 'stdin' under Linux 6.12 on '1', 1 s>")


def _in(folder):
    import contextlib
    import os

    @contextlib.contextmanager
    def there():
        before = os.getcwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)

    return there()
